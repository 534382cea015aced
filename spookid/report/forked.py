"""Work that a copy of this process does on another processor, such as drawing, for which it gets ready meanwhile.

Where processes are not copied, or if the copy fails, who asks for the work does it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO

from spookid.kernels.thread_pool import processors

_KILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""
_LENGTH = 8
"""Bytes that tell how long what follows is."""

Work = Callable[[bytes], Sequence[bytes]]
"""What is done with what is asked."""


@contextmanager
def copied(ready: Callable[[], None], work: Work) -> Iterator[Copy | None]:
    """A copy of this process, which gets ready and then works on what it is asked; None where there can be none.

    This process must have no other threads at work.
    """
    copy = _begun(ready, work) if sys.platform == "linux" and processors() > 1 else None
    try:
        yield copy
    finally:
        if copy is not None:
            copy.end()


def side_by_side(works: Sequence[Callable[[], bytes]]) -> list[bytes]:
    """What several pieces of work make, each done by a copy of this process but for the last, which it does itself."""
    with ExitStack() as held:
        copies = [held.enter_context(copied(lambda: None, _asked(work))) for work in works[:-1]]
        for copy in filter(None, copies):
            copy.ask(b"")
        here = [work() for work in works[-1:]]
        found = [([] if copy is None else copy.answers()) for copy in copies]
        return [*((one or [work()])[0] for one, work in zip(found, works, strict=False)), *here]


def _asked(work: Callable[[], bytes]) -> Work:
    return lambda _: [work()]


class Copy:
    """A process that works, and the pipes to it and from it."""

    def __init__(self, number: int, asking: int, answering: int) -> None:
        self._number, self._works = number, False
        self._asking, self._answering = open(asking, "wb"), open(answering, "rb")  # noqa: SIM115

    def ask(self, what: bytes) -> None:
        """Have it begin to work."""
        if self._works:
            self.answers()  # nobody waited for them
        self._works = True
        with suppress(OSError):  # it has ended, and does not answer
            _write(self._asking, [what])

    def answers(self) -> list[bytes]:
        """What it answers, as far as it comes."""
        self._works = False
        count = _read(self._answering)
        whole = (_read(self._answering) for _ in range(int.from_bytes(count or b"", "little")))
        return [part for part in whole if part is not None]

    def end(self) -> None:
        """There is nothing left to wait for."""
        os.kill(self._number, signal.SIGKILL)
        os.waitpid(self._number, 0)
        for pipe in (self._asking, self._answering):
            with suppress(OSError):
                pipe.close()


def _begun(ready: Callable[[], None], work: Work) -> Copy | None:
    asked, asking = os.pipe()
    answering, answered = os.pipe()
    try:
        with warnings.catch_warnings():  # Python's threads of this process wait, and hold nothing that the work takes
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
    except OSError:
        for pipe in (asked, asking, answering, answered):
            os.close(pipe)
        return None
    if number:
        os.close(asked)
        os.close(answered)
        return Copy(number, asking, answering)
    try:
        os.close(asking)
        os.close(answering)
        _serve(ready, work, asked, answered)
    finally:
        os._exit(0)


def _serve(ready: Callable[[], None], work: Work, asked: int, answered: int) -> None:
    """In the copy: Ctrl-C is for the one that waits, whose end ends this too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    library: Any = ctypes.CDLL(None)
    library.prctl(_KILL_WITH_PARENT, signal.SIGKILL)
    ready()
    with open(asked, "rb") as questions, open(answered, "wb") as answers:
        while (what := _read(questions)) is not None:
            found = work(what)
            _write(answers, [len(found).to_bytes(_LENGTH, "little"), *found])


def _write(pipe: BinaryIO, parts: Sequence[bytes]) -> None:
    for part in parts:
        pipe.write(len(part).to_bytes(_LENGTH, "little") + part)
    pipe.flush()


def _read(pipe: BinaryIO) -> bytes | None:
    """What comes next; None if the other end was closed before its end."""
    head = pipe.read(_LENGTH)
    length = int.from_bytes(head, "little")
    content = pipe.read(length) if len(head) == _LENGTH else b""
    return content if len(head) == _LENGTH and len(content) == length else None
