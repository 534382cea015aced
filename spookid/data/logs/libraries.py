"""Libraries that only some files need, and what their readers raise, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from spookid.errors import ProblemError


def library(module: str, package: str, what: str, install: str = "'spookid[logs]'") -> Any:
    """A module of a package that is loaded, and mostly installed, only where it is needed.

    Raises:
        ProblemError: if it is not there, with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ProblemError(f"{what} needs {package}; install it with: pip install {install}") from None


@contextmanager
def reading(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Turn whatever a library raises at a file into one sentence.

    Args:
        kind: what the file should be.
        remedy: what to do if it is not.

    Raises:
        ProblemError: for every exception; one that is already told passes.
    """
    try:
        yield
    except ProblemError:
        raise
    except OSError as error:
        if error.strerror is not None:  # of the system; those of libraries have none
            raise unreadable(path, error) from None
        raise _damaged(path, kind, remedy, error) from None
    except Exception as error:
        raise _damaged(path, kind, remedy, error) from None


def file_at(path: Path) -> None:
    """Refuse what is not there or no file, before a library does in words of its own.

    Raises:
        ProblemError: likewise if it may not be read.
    """
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> ProblemError:
    return ProblemError(f"{path} cannot be read ({error.strerror or error}); check the path")


def _damaged(path: Path, kind: str, remedy: str, error: Exception) -> ProblemError:
    reason = next(iter(str(error).strip().splitlines()), "")[:80].rstrip(".:; ") or type(error).__name__
    return ProblemError(f"{path} is no {kind} or is damaged ({reason}); {remedy}")
