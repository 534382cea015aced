"""Folders that are written whole or not at all, and never in place of something that is not ours."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spookid.errors import ProblemError

MARKERS = ("solution.json", "simulation.json", "audit.json", "sweep.json", "profile.json", "crossvalidation.json")
"""Files that tell a folder of results."""


def check_target(directory: str | os.PathLike[str], marker: str) -> Path:
    """The real path of ``directory``, if a folder may be put there.

    It may where there is nothing, an empty folder, or an earlier folder of the same kind.

    Args:
        directory: the folder to be written; neither it nor its parents need exist.
        marker: name of the JSON file with a key "schema" that a folder of this kind holds, such as "solution.json".

    Raises:
        ProblemError: if something else is there, or if a folder cannot be made there.
    """
    target = check_continued(directory, marker)
    if os.path.ismount(target):  # it cannot be replaced by a rename
        raise ProblemError(f"{directory} is where a file system is mounted; choose a folder inside it")
    # Results are files. Folders are somebody's own, or results of several problems side by side.
    nested = (
        next((entry.name for entry in sorted(target.iterdir()) if entry.is_dir()), None) if target.exists() else None
    )
    if nested is not None:
        raise ProblemError(
            f"{directory} would be replaced with the folder {nested!r} in it; move that away or choose another folder"
        )
    return target


def check_continued(directory: str | os.PathLike[str], marker: str) -> Path:
    """The real path of ``directory``, if work of a kind may begin or go on in it.

    It may where there is nothing, an empty folder, or an earlier folder of the same kind, whatever else is in it.

    Args:
        directory, marker: as in `check_target`.

    Raises:
        ProblemError: if something else is there, or if a folder cannot be made there.
    """
    target = Path(directory).resolve()  # through links: what is replaced is the folder, not the link to it
    _check_parent(target, directory)
    try:
        content = any(target.iterdir()) if target.exists() else False
    except NotADirectoryError:
        raise ProblemError(f"{directory} is a file; choose another folder") from None
    except OSError as error:
        raise ProblemError(f"{directory} cannot be read ({error.strerror or error}); choose another folder") from None
    if content and not _is_ours(target / marker):
        raise ProblemError(
            f"{directory} is not empty and holds no earlier {marker}, so it is left alone; choose another folder"
        )
    return target


def _check_parent(target: Path, directory: str | os.PathLike[str]) -> None:
    parent = next((folder for folder in target.parents if folder.exists()), target)
    if not parent.is_dir():
        raise ProblemError(f"{directory} cannot be made because {parent} is a file; choose another folder")
    if any((parent / marker).exists() for marker in MARKERS):
        raise ProblemError(f"{directory} would lie in {parent}, which holds results of its own; choose another folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ProblemError(f"{directory} cannot be made because {parent} is not writable; choose another folder")


def _is_ours(marker: Path) -> bool:
    try:
        tree = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(tree, dict) and type(tree.get("schema")) is int and "problem" in tree


@contextmanager
def replacing(directory: str | os.PathLike[str], marker: str) -> Iterator[Path]:
    """A fresh folder to write into, which becomes ``directory`` when the block ends well and vanishes when it does not.

    What was there before is moved aside first, removed after, and put back if the new folder cannot take its place.

    Args:
        directory, marker: as in `check_target`.

    Raises:
        ProblemError: as `check_target`, or if the disk refuses.
    """
    target = check_target(directory, marker)
    part = _beside(target, "part")
    try:
        part.mkdir(parents=True)
        yield part
        check_target(target, marker)  # writing takes a while, and others write too
        _install(part, target)
    except OSError as error:
        raise ProblemError(
            f"{directory} cannot be written ({error.strerror or error}); choose another folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, in the place of what was there.

    Raises:
        OSError: if the disk refuses.
    """
    part = _beside(path, "part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _beside(target: Path, kind: str) -> Path:
    """A hidden name in the same file system that nobody else has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{kind}")


def _install(part: Path, target: Path) -> None:
    old = _beside(target, "old")
    try:
        if target.exists():
            target.rename(old)
        part.rename(target)
    except BaseException:  # an interrupt between the two renames, too
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
