"""What commands write: text on stdout, complaints on stderr, and no traceback when nobody reads on."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

_WITHOUT_TERMINAL = 100
_NARROWEST, _WIDEST = 60, 120
_unwritten: list[str] = []
"""Why stdout took no more, if that is no wish of who reads it."""


def say(text: str, end: str = "\n") -> None:
    """Write lines to stdout."""
    _write(sys.stdout, text + end)


def complain(text: str) -> None:
    """Write a line to stderr."""
    _write(sys.stderr, f"spookid: {text}\n")


def prepare() -> None:
    """Let stdout replace the characters that its encoding lacks, rather than fail at them."""
    _unwritten.clear()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")


def finish() -> bool:
    """Write out what is left, such as the prints of a problem file; false if something was lost, as was told."""
    _write(sys.stdout, "")
    return not _unwritten


def columns() -> int:
    """Columns to lay text for stdout out in: those of the terminal, within reason."""
    width = shutil.get_terminal_size((_WITHOUT_TERMINAL, 24)).columns
    return min(max(width, _NARROWEST), _WIDEST)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # `| head` has seen enough, or the disk is full; the work goes on, and what is still to be written goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            _unwritten.append(str(error.strerror or error))
            complain(f"error: what is printed cannot be written ({_unwritten[-1]}); make room, or send it elsewhere")
