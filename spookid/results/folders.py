"""Trees that JSON can hold: null stands for numbers that are not finite, and NumPy's numbers become Python's.

Folders that are written whole or not at all, and never in place of something that is not ours.
"""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import casadi as ca
import msgspec
import numpy as np

from spookid.errors import ProblemError, shown_error
from spookid.files import EARLIER, abandoned, alone, beside, regular, remove, replacing, unreadable
from spookid.files import AnyPath as AnyPath
from spookid.registry import markers
from spookid.version import __version__

Tree: TypeAlias = dict[str, Any]

SCHEMA = 2
"""Version of the layout of all folders that are written."""
OLDEST = 1
"""That of the oldest folders that can be read."""


def versions() -> dict[str, str]:
    """Of what numbers come from."""
    return {"spookid": __version__, "casadi": ca.__version__, "numpy": np.__version__}


def plain_tree(tree: Mapping[str, Any]) -> Tree:
    """Convert a tree of dataclasses, arrays and other values to Python's own types; nonfinite numbers are kept."""
    return dict(msgspec.to_builtins(tree, enc_hook=_numbers))


def json(tree: Mapping[str, Any]) -> bytes:
    """Format a tree as indented JSON, with null for nonfinite numbers."""
    return msgspec.json.format(msgspec.json.encode(tree, enc_hook=_numbers), indent=1) + b"\n"


def with_nan(node: Any, but: Collection[str] = ()) -> Any:
    """Replace null by NaN in the content of a JSON file, except below the keys ``but``."""
    if isinstance(node, Mapping):
        kept = {key for key, value in node.items() if key in but and not isinstance(value, Mapping)}
        return {key: value if key in kept else with_nan(value, but) for key, value in node.items()}
    if isinstance(node, list):
        return [with_nan(value, but) for value in node]
    return math.nan if node is None else node


def _numbers(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} in a document")


Content: TypeAlias = str | Mapping[str, Any] | Callable[[Path], object]
"""Of a file: text, a tree that becomes JSON with null for numbers that are not finite, or what writes to its path."""
FILES = "files"
"""Key of a marker: names of all files that were written with it."""
_LATER = re.compile(r"report\.html|animation_\d+\.gif")
"""Files that other commands add to a folder of results."""
_EARLIER = re.compile(
    r"(summary|audit|profile|regression|sweep)\.txt|crossvalidation\.md|(trajectory|sensitivities)\.npz|"
    r"(fit|convergence|parameters|influence|simulation|audit|profile|crossvalidation)\.png"
)
"""Files that were written with markers that do not name them."""


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[Path]:
    """Convert exceptions while reading ``path`` into an error message with a remedy."""
    try:
        yield path
    except ProblemError:
        raise
    except OSError as error:
        raise unreadable(path, error, remedy) from None
    except KeyError as error:
        raise ProblemError(f"{path} has no {error.args[0]!r}; {remedy}") from None
    except Exception as error:  # at what is read from a file, which may be anything
        raise ProblemError(f"{path} is damaged ({shown_error(error)}); {remedy}") from None


def read_marker(path: Path, again: str) -> Tree:
    """Read the marker file of a result folder; raises ProblemError, with the command that recreates the folder, if the
    file is unreadable or has an unknown schema."""
    with reading(path, again):
        tree = msgspec.json.decode(regular(path).read_bytes(), type=dict[str, Any])
        number, _ = tree["schema"], tree["problem"]
    known = f"this version of spookid reads {' and '.join(map(str, range(OLDEST, SCHEMA + 1)))}"
    if type(number) is not int or number < OLDEST:
        raise ProblemError(f"{path} has schema {number!r} and {known}; {again}")
    if number > SCHEMA:
        raise ProblemError(f"{path} has schema {number!r}, of a newer version, and {known}; update spookid, or {again}")
    return tree


def check_target(directory: AnyPath, marker: str) -> Path:
    """Check that a folder may be replaced, and return its real path: the folder must be new, empty, or contain an
    earlier result of the same kind. Files left by killed runs are removed, and an earlier folder that was renamed is
    restored."""
    with alone(Path(directory).resolve().parent):  # not between the two renames of a folder that is being replaced
        return _replaceable(directory, marker)


def _replaceable(directory: AnyPath, marker: str) -> Path:
    place = Path(directory).resolve()
    for part in abandoned(place, "part"):
        remove(part)
    for old in abandoned(place, EARLIER):
        _settle(old, place)
    target = _continuable(directory, marker)
    if os.path.ismount(target):  # it cannot be replaced by a rename
        raise ProblemError(f"{directory} is where a file system is mounted; choose a folder inside it")
    for entry in sorted(target.iterdir()) if target.exists() else ():
        if entry.is_dir():  # results are files; folders are somebody's own, or results of several problems
            what = f"{directory} would be replaced with the folder {entry.name!r} in it"
            raise ProblemError(f"{what}; move that away or choose another folder")
    return target


def check_continued(directory: AnyPath, marker: str) -> Path:
    """Check that work may begin or continue in a folder, and return its real path. Raises ProblemError unless the
    folder is new, empty, or has the same marker file."""
    with alone(Path(directory).resolve().parent):
        return _continuable(directory, marker)


def _continuable(directory: AnyPath, marker: str) -> Path:
    target = Path(directory).resolve()  # through links: what is replaced is the folder, not the link to it
    parent = _check_place(target, directory)
    if any((parent / marker).exists() for marker in markers()):
        raise ProblemError(f"{directory} would lie in {parent}, which holds results of its own; choose another folder")
    try:
        content = any(target.iterdir()) if target.exists() else False
    except NotADirectoryError:
        raise ProblemError(f"{directory} is a file; choose another folder") from None
    except OSError as error:
        raise unreadable(directory, error, "choose another folder") from None
    if content and not _is_ours(target / marker):
        raise ProblemError(
            f"{directory} is not empty and holds no earlier {marker}, so it is left alone; choose another folder"
        )
    return target


def _check_place(target: Path, name: AnyPath) -> Path:
    """The folder in which ``target``, or a folder that leads to it, is to be made."""
    parent = next((folder for folder in target.parents if folder.exists()), target)
    if not parent.is_dir():
        raise ProblemError(f"{name} cannot be made because {parent} is a file; choose another folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ProblemError(f"{name} cannot be made because {parent} is not writable; choose another folder")
    return parent


def _is_ours(marker: Path) -> bool:
    try:
        tree = msgspec.json.decode(regular(marker).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and type(tree.get("schema")) is int and "problem" in tree


def foreign(folder: Path) -> list[str]:
    """Names of files in a result folder that spookid did not write."""
    ours: set[str] = set()
    for marker in markers():
        if _is_ours(folder / marker):
            files = msgspec.json.decode((folder / marker).read_bytes()).get(FILES)
            ours |= {marker, *(files if isinstance(files, list) else ())}
    names = sorted(entry.name for entry in folder.iterdir())
    return [name for name in names if name not in ours and not _LATER.fullmatch(name) and not _EARLIER.fullmatch(name)]


def save(directory: AnyPath, files: Mapping[str, Content]) -> None:
    """Write a folder of files, either completely or not at all; the first file is its marker, a tree. The folder is
    built beside the target and renamed; if this fails, the previous one is restored. Files that spookid did not write
    move to the new folder."""
    marker = next(iter(files))
    target = check_target(directory, marker)
    part = beside(target, "part")
    try:
        part.mkdir(parents=True)
        for name, content in files.items():
            told = name == marker and isinstance(content, Mapping)
            _fill(part / name, {**content, FILES: list(files)} if told and isinstance(content, Mapping) else content)
        with alone(target.parent):
            _replaceable(target, marker)  # writing takes a while, and others write too
            _install(part, target)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        remove(part)


def check_file(path: Path) -> None:
    """Raise ProblemError for a path that cannot be written, before a long computation."""
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; give the name of a file in it")
    _check_place(path.resolve(), path)


def write(path: Path, content: Content) -> None:
    """Write a file, completely or not at all, replacing an existing file; raises ProblemError on disk errors."""
    write_all({path: content})


def write_all(files: Mapping[Path, Content], before: Callable[[], object] = lambda: None) -> None:
    """Write several files, either all of them or none.

    Args:
        before: called when all are ready, just before they take their places in their order; no other command of ours
            writes into the folder of the first one then.

    Raises:
        ProblemError: if the disk refuses.
    """
    for path in files:
        check_file(path)
    try:
        with ExitStack() as places:
            for path, content in reversed(list(files.items())):
                path.parent.mkdir(parents=True, exist_ok=True)
                _fill(places.enter_context(replacing(path)), content)
            with alone(path.parent):
                before()
                places.close()
    except OSError as error:
        raise _unwritable(path, error) from error


def embedded(path: Path) -> str:
    """Encode a picture as a data URL for HTML."""
    with reading(path, "remove it or write it again"):
        return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def make(folder: Path, fill: Callable[[Path], object]) -> None:
    """Make a new folder, completely or not at all; ``fill`` writes its files. Errors are those of `write_all`."""
    part = beside(folder.resolve(), "part")
    try:
        part.mkdir(parents=True)
        fill(part)
        with alone(part.parent):
            check_new(folder)
            part.rename(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        remove(part)


def check_new(path: Path, remedy: str = "remove it or give another name") -> None:
    """Refuse to replace anything."""
    if os.path.lexists(path):
        raise ProblemError(f"{path} is there already; {remedy}")


def _unwritable(path: AnyPath, error: OSError) -> ProblemError:
    """What is said of a path that the disk refuses."""
    return ProblemError(f"{path} cannot be written ({error.strerror or error}); choose another folder")


def _fill(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    elif isinstance(content, str):
        path.write_text(content + "\n" if content[-1:] != "\n" else content, encoding="utf-8")
    else:
        path.write_bytes(json(content))


def _install(part: Path, target: Path) -> None:
    old = beside(target, EARLIER)
    try:
        if target.exists():
            target.rename(old)
        part.rename(target)
    finally:  # after an interrupt between the two renames, too
        if old.exists():
            _settle(old, target)


def _settle(old: Path, target: Path) -> None:
    """Remove a folder that was moved aside, but for what is not ours; put it back if nothing has taken its place."""
    if not target.exists():
        old.rename(target)
        return
    for name in foreign(old):
        if not (target / name).exists():
            (old / name).rename(target / name)
    remove(old)
