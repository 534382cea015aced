"""Ctrl-C and SIGTERM: at once while there is nothing to lose, at the next checkpoint otherwise."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""Exit status."""
PATIENCE = 3.0
"""How long work may take to let go, but for what it waits for a processor [s]."""


class Interruption:
    """While it is entered, a signal raises KeyboardInterrupt where the work can bear it.

    Before the first `checkpoint` that is at once. From then on the first signal waits for the next checkpoint, if one
    comes, so that neither a solver's state is torn nor a result lost; the second does not wait.

    Foreign code loses exceptions: what is imported half, what a destructor or C code calls. So work that does not let
    go soon ends with its process; what it writes is made for that.
    """

    def __init__(self) -> None:
        self.asked = False
        """True once a signal has come."""
        self._waits = False
        self._before: dict[int, Any] = {}
        self._told: SimpleQueue[bool] = SimpleQueue()
        """True for a signal that does not wait, False for the end; a signal may come while this is written to."""

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            threading.Thread(target=self._follow, name="spookid-interruption", daemon=True).start()
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._unheard
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._unraisable
            self._told.put(False)

    def checkpoint(self) -> None:
        """There is something to keep, and here the work may end."""
        self._waits = True
        self.heed()

    def heed(self) -> None:
        """Here the work ends if a signal has come: somebody may have taken it for something else."""
        if self.asked:
            raise KeyboardInterrupt

    def told_by(self, error: BaseException) -> bool:
        """True if work ended with this because of a signal: what it was torn from may complain in its own way."""
        return self.asked or isinstance(error, KeyboardInterrupt)

    def kept(self) -> None:
        """What there was to keep is kept: from here on a signal does not wait."""
        self._waits = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._waits:
            self._told.put(True)
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            # Not through sys.stderr: the signal may have come while that was writing.
            os.write(sys.stderr.fileno(), b"\nspookid: ends after this iteration; interrupt again to end at once\n")

    def _follow(self) -> None:
        """End the process if work does not let go."""
        going = self._told.get()
        until = _granted() + PATIENCE
        while going:
            try:
                going = self._told.get(timeout=max(until - _granted(), 0.0))
                until = _granted() + PATIENCE
            except Empty:
                if _granted() >= until:
                    end()

    def _unheard(self, unraisable: Any) -> None:
        """Of exceptions that have nowhere to go, those of a signal are no news."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._unraisable(unraisable)


def _granted() -> float:
    """A clock that stands while the main thread waits for a processor, where the system tells [s]."""
    try:
        waited = int(Path("/proc/self/schedstat").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        waited = 0
    return time.monotonic() - 1e-9 * waited


def end(*_: object) -> None:
    """End the process here and now, with files that it has not finished; also as the handler of a signal."""
    if (files := sys.modules.get("spookid.files")) is not None:
        files.remove_unfinished()
    os.write(2, b"spookid: interrupted\n")
    os._exit(INTERRUPTED)
