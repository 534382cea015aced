"""Figures drawn by a copy of the process, on another processor, while it goes on to what they do not show.

Where processes are not copied, or if that fails, they are drawn when they are asked for.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from spookid.kernels.thread_pool import processors

_KILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""
_LENGTH = 8
"""Bytes that tell how long a file is."""


@contextmanager
def drawn_aside(draw: Mapping[str, Callable[[], bytes]], aside: bool) -> Iterator[Callable[[], dict[str, bytes]]]:
    """Begin to draw, if ``aside``; what is given waits for the contents of the files by name.

    What they show should be known by now: this process does not get what the copy computes.
    """
    child = _begun(draw) if aside and sys.platform == "linux" and processors() > 1 else None

    @cache
    def contents() -> dict[str, bytes]:
        found = list(child.files()) if child is not None else []
        done = dict(zip(draw, found, strict=False))
        return {name: done[name] if name in done else make() for name, make in draw.items()}

    try:
        yield contents
    finally:
        if child is not None:
            child.end()


class _Copy:
    """A process that draws, and the pipe that it writes to."""

    def __init__(self, number: int, pipe: int) -> None:
        self._number, self._pipe = number, open(pipe, "rb")  # noqa: SIM115

    def files(self) -> Iterator[bytes]:
        """Their contents, as far as it comes."""
        while len(head := self._pipe.read(_LENGTH)) == _LENGTH:
            length = int.from_bytes(head, "little")
            content = self._pipe.read(length)
            if len(content) < length:
                return
            yield content

    def end(self) -> None:
        """There is nothing left to wait for."""
        self._pipe.close()
        os.kill(self._number, signal.SIGKILL)
        os.waitpid(self._number, 0)


def _begun(draw: Mapping[str, Callable[[], bytes]]) -> _Copy | None:
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():  # Python's threads of this process wait, and hold nothing that a figure takes
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    if number:
        os.close(writing)
        return _Copy(number, reading)
    try:
        os.close(reading)
        _draw(draw, writing)
    finally:
        os._exit(0)


def _draw(draw: Mapping[str, Callable[[], bytes]], pipe: int) -> None:
    """In the copy: Ctrl-C is for the one that waits, whose end ends this too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    library: Any = ctypes.CDLL(None)
    library.prctl(_KILL_WITH_PARENT, signal.SIGKILL)
    contents = [make() for make in draw.values()]  # all of them first: a full pipe would hold it up
    with open(pipe, "wb") as file:
        for content in contents:
            file.write(len(content).to_bytes(_LENGTH, "little") + content)
