"""The one folder whose files the studio reads and writes."""

from __future__ import annotations

import filecmp
import html
import os
import re
from collections.abc import AsyncIterator, Collection, Iterator
from itertools import count
from pathlib import Path

from spookid.data.reading import method_for
from spookid.errors import ProblemError

ROBOTS = (".urdf", ".xacro", ".xml", ".mjcf")
PROBLEMS = (".py",)


class Folder:
    """Paths of names in a folder that are guaranteed to be inside, whatever links exist."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
        except OSError as error:
            raise ProblemError(f"{root} cannot be opened ({error.strerror}); give a folder that is there") from None
        if not self.root.is_dir():
            raise ProblemError(f"{root} is no folder; give the folder that the studio works in")
        self._taken: dict[str, str] = {}
        """Whose a name is that a session writes, by the name."""

    def path(self, name: str) -> Path:
        """Path of a file or folder name; raises ProblemError for a path outside the folder, also through links."""
        path = self.root / name
        if "\0" in name or not path.resolve().is_relative_to(self.root):
            raise ProblemError(f"{name!r} lies outside the folder of the studio; put the file into {self.root}")
        return path

    def listed(self, endings: Collection[str] | None = None) -> list[str]:
        """Names of files with these extensions, or of all files that may contain logs."""
        own = (path for path in sorted(self.root.iterdir()) if path.resolve().is_relative_to(self.root))
        return [p.name for p in own if p.is_file() and not p.name.startswith(".") and _fits(p, endings)]

    def own(self, stem: str, ending: str, owner: str) -> Path:
        """Path that a session may overwrite: its own file, or a new one."""
        for name in _numbered(stem, ending):
            path = self.path(name)
            if self._taken.get(name) == owner or not (os.path.lexists(path) or name in self._taken):
                self._taken[name] = owner
                return path
        raise AssertionError

    async def keep(self, name: str, chunks: AsyncIterator[bytes], endings: Collection[str] | None = None) -> str:
        """Write what was dropped on the page, and return the name that it has here: the same file is kept once.

        Raises:
            ProblemError: for a name without a known ending, or if the disk refuses.
        """
        plain = sanitized(name)
        if not _fits(Path(plain), endings):
            raise ProblemError(f"{plain} has an ending that is not known here; drop it where its kind is asked for")
        part = self.path(f".{plain}.part-{os.urandom(4).hex()}")
        try:
            with part.open("xb") as file:
                async for chunk in chunks:
                    file.write(chunk)
            for other in _numbered(Path(plain).stem, Path(plain).suffix):
                path = self.path(other)
                if not os.path.lexists(path):
                    part.rename(path)
                    return other
                if path.is_file() and filecmp.cmp(part, path, shallow=False):
                    return other
            raise AssertionError
        except OSError as error:
            raise ProblemError(f"{plain} cannot be written ({error.strerror}); make room in {self.root}") from None
        finally:
            part.unlink(missing_ok=True)


def check_named(root: Path, path: Path, seen: set[Path] | None = None) -> None:
    """Refuse an XML file that names, or includes one that names, a file outside a folder: MuJoCo would open it."""
    if path.suffix not in (".xml", ".mjcf"):
        return  # of the others Python opens the files
    seen = set() if seen is None else seen
    seen.add(path)
    text = path.read_bytes().decode(errors="replace")
    for name in re.findall(r"""\b(?:file|\w+dir)\s*=\s*["']([^"']*)["']""", text):
        other = path.parent / html.unescape(name)
        if not other.resolve().is_relative_to(root.resolve()):
            raise ProblemError(
                f"{path.name} names {name!r}, which lies outside the folder of the studio; copy it into that folder"
            )
        if other.is_file() and other not in seen:
            check_named(root, other, seen)


def _fits(path: Path, endings: Collection[str] | None) -> bool:
    """True if a file has one of these endings, or if the package reads it as a recording."""
    return method_for(path) is not None if endings is None else path.suffix.lower() in endings


def sanitized(name: str) -> str:
    """Safe file name from a name that a browser sent."""
    plain = re.sub(r"[^\w.\- ]", "_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, ending = os.path.splitext(plain)
    return f"{stem[:100] or 'file'}{ending[:16]}"


def _numbered(stem: str, ending: str) -> Iterator[str]:
    yield f"{stem}{ending}"
    yield from (f"{stem}_{number}{ending}" for number in count(2))
