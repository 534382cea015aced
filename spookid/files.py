"""Files that are written whole or not at all, and what runs that were killed have left of them."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path


def beside(target: Path, kind: str) -> Path:
    """A hidden name in the same file system that nobody else has; it tells which process made it."""
    return target.with_name(f".{target.name}.{_here()}-{os.getpid()}-{os.urandom(4).hex()}.{kind}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside to write a file to, which takes the place of ``path`` at the end.

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
        with suppress(OSError):  # of a folder that is a file
            part.unlink()


def abandoned(target: Path, kind: str) -> list[Path]:
    """What processes of this machine that run no more have left `beside` a target."""
    start, own = f".{target.name}.{_here()}-", re.compile(rf"(\d+)-[0-9a-f]{{8}}\.{kind}")
    try:
        names = [name for name in os.listdir(target.parent) if name.startswith(start)]
    except OSError:
        return []
    matches = ((target.with_name(name), own.fullmatch(name.removeprefix(start))) for name in names)
    return [entry for entry, match in matches if match and not _runs(int(match[1]))]


def remove(path: Path) -> None:
    """A file or a folder with all that is in it, as far as the disk lets it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


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
