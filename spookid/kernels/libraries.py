"""Compiled libraries kept on disk between runs.

A library's file is named after its key and after its own content, so one that was damaged is seen before it is loaded.
It is written under another name and renamed, so two processes may compile the same thing at once.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from spookid.files import abandoned, beside, remove, replacing

LARGEST = 200_000_000
"""Bytes kept; the libraries that were used least recently go first."""

_BUILDS = "spookid"
"""In the names of folders where libraries are built."""

Build = Callable[[Path], Path]
"""Makes a library in a folder and returns its path."""


def library(key: str, build: Build) -> tuple[ctypes.CDLL, bool]:
    """The library of a key, and True if it was on disk already.

    Raises:
        OSError: if a library that was just built cannot be loaded.
        Exception: what ``build`` raises.
    """
    folder = _usable(_folder())
    if folder is not None and (found := _load(folder, key)) is not None:
        return found, True
    place = (folder or Path(tempfile.gettempdir())) / _BUILDS
    for left in abandoned(place, "build"):
        remove(left)
    temporary = beside(place, "build")
    temporary.mkdir(mode=0o700)
    try:
        built = build(temporary)
        kept = _keep(built, folder, key) if folder is not None else None
        return ctypes.CDLL(str(kept or built)), False
    finally:  # a loaded library needs its file no longer, except where files in use cannot be removed
        remove(temporary)


def _folder() -> Path | None:
    """Where libraries are kept: ``SPOOKID_CACHE``, else the user's folder of caches; None if that is "off"."""
    wanted = os.environ.get("SPOOKID_CACHE", "")
    if wanted:
        return None if wanted.lower() in {"off", "0"} else Path(wanted).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser() / "spookid"


def _usable(folder: Path | None) -> Path | None:
    """The folder, made if need be; None if it cannot be written, or if strangers could put code there."""
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    return folder if _trusted(status) and os.access(folder, os.W_OK) else None


def refusal() -> str:
    """Why code is not kept although it could be; empty if there is nothing to say."""
    folder = _folder()
    try:
        status = None if folder is None else folder.stat()
    except (OSError, RuntimeError):
        return ""
    if status is None or _trusted(status):
        return ""
    return (
        f"Compiled anew, because others than you may write to {folder}, where compiled code is kept: chmod go-w "
        f"{folder}, or name another folder in SPOOKID_CACHE."
    )


def _trusted(status: os.stat_result) -> bool:
    """True of a file or folder that only this user, or the system's, may write to."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid in {os.getuid(), 0} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _load(folder: Path, key: str) -> ctypes.CDLL | None:
    """A kept library; one that is broken is removed."""
    for path in sorted(folder.glob(f"{key}-*.so")):
        try:
            if _trusted(path.stat()) and path.name == _name(key, path.read_bytes()):
                loaded = ctypes.CDLL(str(path.absolute()))
                os.utime(path)
                return loaded
            path.unlink()
        except OSError:
            path.unlink(missing_ok=True)
    return None


def _keep(built: Path, folder: Path, key: str) -> Path | None:
    """Path of the library in the folder, None if it cannot be written."""
    content = built.read_bytes()
    path = folder.absolute() / _name(key, content)
    try:
        with replacing(path) as part:
            part.write_bytes(content)
            part.chmod(0o700)
        _shrink(folder, path)
    except OSError:
        return None
    return path


def _shrink(folder: Path, newest: Path) -> None:
    """Remove what was used least recently until the rest is small enough; never the newest."""
    files = [(path, path.stat()) for path in folder.glob("*.so") if path != newest]
    total = newest.stat().st_size
    for path, status in sorted(files, key=lambda entry: -entry[1].st_mtime):
        total += status.st_size
        if total > LARGEST:
            path.unlink(missing_ok=True)


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:16]}.so"
