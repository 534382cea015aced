"""Files that are written whole or not at all, and what runs that were killed have left of them."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from spookid.errors import ProblemError

AnyPath: TypeAlias = str | os.PathLike[str]

EARLIER = "old"
"""Kind of what was there before, which comes back if nothing takes its place."""
GLANCE = 0.1
"""Between two looks at what others do: write to a file, or end [s]."""
_unfinished: set[Path] = set()
"""What this process is writing."""


def unreadable(path: AnyPath, error: OSError, remedy: str = "check the path") -> ProblemError:
    """Error message for a file that the system cannot read."""
    return ProblemError(f"{path} cannot be read ({error.strerror or error}); {remedy}")


def regular(path: Path) -> Path:
    """Check that a path is a regular file before it is read.

    Raises:
        OSError: for a pipe or a device, which may have no end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file but a pipe or a device, which may have no end")
    return path


def beside(target: Path, kind: str) -> Path:
    """Return a hidden, unique name in the same file system; it contains the number of this process."""
    path = target.with_name(f".{target.name}.{_here()}-{os.getpid()}-{os.urandom(4).hex()}.{kind}")
    if kind != EARLIER:
        _unfinished.add(path)
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Temporary path beside ``path``, which is renamed to ``path`` at the end.

    Raises:
        OSError: if the disk refuses.
    """
    for left in abandoned(path, "part"):
        remove(left)
    part = beside(path, "part")
    try:
        yield part
        part.replace(path)
    finally:
        remove(part)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock on a name: other processes wait meanwhile, if the system supports locks."""
    lock = None
    with suppress(ImportError, OSError):
        import fcntl  # of POSIX

        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def abandoned(target: Path, kind: str) -> list[Path]:
    """Files that `beside` created next to a target for processes that no longer run on this machine."""
    start, own = f".{target.name}.{_here()}-", re.compile(rf"(\d+)-[0-9a-f]{{8}}\.{kind}")
    try:
        names = [name for name in os.listdir(target.parent) if name.startswith(start)]
    except OSError:
        return []
    matches = ((target.with_name(name), own.fullmatch(name.removeprefix(start))) for name in names)
    return [entry for entry, match in matches if match and not _runs(int(match[1]))]


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content, as far as the disk allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    _unfinished.discard(path)


def remove_unfinished() -> None:
    """Remove files that this process is writing, because it ends now. A forked copy leaves the other's files alone."""
    for path in tuple(_unfinished):
        if f"-{os.getpid()}-" in path.name:
            remove(path)


@lru_cache(maxsize=1)
def _here() -> str:
    """Where numbers of processes mean the same: this machine, or this container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:6]


def _runs(number: int) -> bool:
    """True of a process that may be running still."""
    if os.name != "posix":  # where asking would be a signal
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
