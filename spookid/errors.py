"""Wrong input: one exception for it, and where in the user's file a thing was declared."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from unicodedata import category

T = TypeVar("T")

_PASSED = str(Path(__file__).parent) + os.sep, dataclasses.__file__, functools.__file__
"""Folders of code that is called between a declaration and the user's code."""


class ProblemError(ValueError):
    """Error in the user's input: the message names the file, line or object, and a remedy."""

    def __init__(self, message: object = "") -> None:
        # Names of files and things are users' own: a message can be printed, in one line, whatever stands in them.
        lines = " ".join(str(message).splitlines())
        super().__init__("".join(c if category(c) not in ("Cc", "Cs") else repr(c)[1:-1] for c in lines))


def declared_at() -> str:
    """Place ``file.py:12`` of the innermost caller outside this package, where the user declared an object."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PASSED) or _generated(frame.f_code.co_filename)
    ):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _generated(filename: str) -> bool:
    """True for code without a file, such as the ``__init__`` that a dataclass writes."""
    return filename.startswith("<") and filename.endswith("string>")


def shown(value: object) -> str:
    """Text of a value for a message: the value itself if short, otherwise its type."""
    try:
        text = repr(value)
    except Exception:  # of a user's own class
        text = "\n"
    return text if "\n" not in text and len(text) <= 40 else f"a {type(value).__name__}"


def listing(names: Iterable[object]) -> str:
    """Names in a message."""
    return ", ".join(repr(name) for name in names) or "none"


def shown_error(error: Exception) -> str:
    """Short text of an exception of another library: of CasADi's long messages, the first line."""
    return next(iter(str(error).strip().splitlines()), "")[:200].rstrip(":") or type(error).__name__


@contextmanager
def evaluating(what: str) -> Iterator[None]:
    """Convert exceptions of a user's function into an error message of one sentence.

    Raises:
        ProblemError: with ``what`` at the beginning; one that the function itself raises passes.
    """
    try:
        yield
    except ProblemError:
        raise
    except Exception as error:
        raise ProblemError(
            f"{what} cannot be evaluated ({type(error).__name__}: {shown_error(error)})"
            "; correct it: it is asked with symbols, and has to return numbers or expressions of them"
        ) from None


def collected(values: object, kind: type[T], what: str) -> tuple[T, ...]:
    """Convert ``values`` to a tuple, and check that all are of one type.

    Raises:
        ProblemError: if it is no list or tuple, or holds anything else.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ProblemError(f"{what} must be a list of {kind.__name__}, not {shown(values)}")
    things = tuple(values)
    for thing in things:
        if not isinstance(thing, kind):
            raise ProblemError(f"{what} holds {shown(thing)}, which is no {kind.__name__}; leave it out")
    return things


def is_text(value: object) -> bool:
    """True for a text that can be shown in one line and written to a file."""
    return isinstance(value, str) and not any(category(letter) in ("Cc", "Cs") for letter in value)
