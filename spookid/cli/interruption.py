"""Ctrl-C and SIGTERM: at once while there is nothing to lose, at the next checkpoint otherwise."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While it is entered, a signal raises KeyboardInterrupt where the work can bear it.

    Before the first `checkpoint` that is at once. From then on the first signal waits for the next checkpoint, if one
    comes, so that neither a solver's state is torn nor a result lost; the second does not wait.
    """

    def __init__(self) -> None:
        self.asked = False
        """True once a signal has come."""
        self._waits = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def checkpoint(self) -> None:
        """There is something to keep, and here the work may end."""
        self._waits = True
        if self.asked:
            raise KeyboardInterrupt

    def kept(self) -> None:
        """What there was to keep is kept: from here on a signal does not wait."""
        self._waits = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._waits:
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            # Not through sys.stderr: the signal may have come while that was writing.
            os.write(sys.stderr.fileno(), b"\nspookid: ends after this iteration; interrupt again to end at once\n")
