"""Ctrl-C and SIGTERM: at once while there is nothing to lose, at the next checkpoint otherwise.

What commands write: text on stdout, complaints on stderr, and no traceback when nobody reads on.

Progress of long work: one live line on stderr that leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from spookid.tables.table import COLUMNS, LONG, ROWS, counted, minutes

if TYPE_CHECKING:
    from spookid.kernels.arrays import Array
    from spookid.solvers.status import Iteration


SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 3.0
"""How long work may take to end [s]."""


class Exit(IntEnum):
    """Exit status of a command; if several apply, the first in this list is returned."""

    INTERRUPTED = 130
    WRONG_INPUT = 2
    NOT_CONVERGED = 3
    DONE = 0


class Interruption:
    """While it is entered, a signal raises KeyboardInterrupt: at once, and from the first ``checkpoint`` on at the next
    one, so that no result is lost; a second signal does not wait. Foreign code loses exceptions: work that does not end
    soon ends with its process."""

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
        """Mark a point where results can be saved and the work may end."""
        self._waits = True
        self.heed()

    def heed(self) -> None:
        """End the work here if a signal has come, even if other code has caught it."""
        if self.asked:
            raise KeyboardInterrupt

    def told_by(self, error: BaseException) -> bool:
        """True if work ended with this exception because of a signal, which other code may have converted."""
        return self.asked or isinstance(error, KeyboardInterrupt)

    def kept(self) -> None:
        """Mark that all results are saved: from here on, a signal ends the process at once."""
        self._waits = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._waits:
            self._told.put(True)
            raise KeyboardInterrupt
        if wanted(quiet=False):
            # Not through sys.stderr: the signal may have come while that was writing.
            os.write(sys.stderr.fileno(), b"\nspookid: ends after this iteration; interrupt again to end at once\n")

    def _follow(self) -> None:
        """End the process if work does not let go."""
        going = self._told.get()
        until = time.monotonic() + PATIENCE
        while going:
            try:
                going = self._told.get(timeout=max(until - time.monotonic(), 0.0))
                until = time.monotonic() + PATIENCE
            except Empty:
                if time.monotonic() >= until:
                    end()

    def _unheard(self, unraisable: Any) -> None:
        """Of exceptions that have nowhere to go, those of a signal are no news."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._unraisable(unraisable)


def end(*_: object) -> None:
    """End the process at once, also as signal handler; unfinished files are removed."""
    if (files := sys.modules.get("spookid.files")) is not None:
        files.remove_unfinished()
    os.write(2, b"spookid: interrupted\n")
    os._exit(Exit.INTERRUPTED)


_unwritten: list[str] = []
"""Why stdout took no more, if that is no wish of who reads it."""


def say(text: str, end: str = "\n") -> None:
    """Write lines to stdout."""
    _write(sys.stdout, text + end)


def complain(text: str) -> None:
    """Write a line to stderr."""
    _write(sys.stderr, f"spookid: {text}\n")


def prepare() -> None:
    """Let stdout replace characters that its encoding does not contain, instead of failing.

    Streams that were closed before lead nowhere, also those of workers: else the next file that is opened would get
    their number, and what libraries print.
    """
    _unwritten.clear()
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, nowhere := open(os.devnull, mode))  # noqa: SIM115
            os.set_inheritable(nowhere.fileno(), True)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")


def finish() -> bool:
    """Write remaining output, such as prints of a problem file; return False if some was lost."""
    _write(sys.stdout, "")
    return not _unwritten


def columns() -> int:
    """Number of columns that text is laid out in on stdout, at least 60."""
    return max(shutil.get_terminal_size((COLUMNS, ROWS)).columns, 60)


def _write(stream: TextIO, text: str) -> None:
    if stream.closed:  # by a problem file
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # `| head` has seen enough, or the disk is full; the work continues, and what is still to be written goes
        # nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            _unwritten.append(str(error.strerror or error))
            complain(
                f"error: the output cannot be written ({_unwritten[-1]}); free disk space, or redirect it elsewhere"
            )


def wanted(quiet: bool) -> bool:
    """True if progress is wanted: stderr is a terminal and the option --quiet is not set."""
    return not quiet and not sys.stderr.closed and sys.stderr.isatty()


def along(label: str, shown: bool) -> Callable[[Iterable[int]], Iterable[int]]:
    """Wrapper of an iteration over steps that shows a progress bar."""
    return lambda steps: _bar(steps, desc=label, unit=" steps") if shown else steps


@contextmanager
def counting(label: str, total: int, shown: bool) -> Iterator[Callable[[bool], None]]:
    """Progress bar of ``total`` points; its function is called for each point, with True if it was done before."""
    if not shown:
        yield lambda before: None
        return
    with _bar(desc=label, total=total, unit=" points") as bar:

        def count(before: bool) -> None:
            if before:  # it says nothing about how long the others take
                bar.initial += 1
            bar.update()

        yield count


@contextmanager
def line(label: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """Show one line that begins with ``label``; its function sets the text."""
    if not shown:
        yield lambda text: None
        return
    with _bar(desc=label, bar_format="{desc}") as bar:
        yield lambda text: bar.set_description_str(text[: _columns() - 1])


class Forecast:
    """Forecast of the remaining time of a study, from the mean time of finished fits.

    Args:
        fits: their number; 0 if it is unknown.
    """

    def __init__(self, fits: int = 0) -> None:
        self.left = fits
        self._times: list[float] = []

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Measure the time of a fit."""
        began = time.monotonic()
        yield
        self._times.append(time.monotonic() - began)

    @property
    def text(self) -> str:
        """Remaining fits, with their time if it is long; empty before the first fit is finished, or if unknown."""
        if not (self._times and self.left > 0):
            return ""
        rest = self.left * sum(self._times) / len(self._times)
        return f"{counted(self.left, 'fit')} left" + (f", about {minutes(rest)}" if rest > LONG else "")


class SolverLine:
    """Progress line of a solver, rewritten at every accepted iterate.

    Args:
        label: what is solved.
        names: of the free parameters.
        shown: False to write nothing at all.
        beginnings: as many times as its first iteration a whole fit takes, as ``spookid check`` has it.
    """

    def __init__(self, label: str, names: Sequence[str], shown: bool, beginnings: float = 5.0) -> None:
        self._label, self._names, self._beginnings = label, names, beginnings
        self._forecast = ""
        self._bar = _bar(desc=f"{label}: building"[: _columns() - 1], bar_format="{desc}") if shown else None
        self._before: Array | None = None

    def __enter__(self) -> SolverLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, iteration: Iteration) -> None:
        """Show iteration, cost, damping, the parameter that changes most, and the elapsed time, as space allows."""
        if self._bar is None:
            return
        parts = [f"cost {iteration.total:.4g}"]
        if iteration.damping:
            parts.append(f"damping {iteration.damping:.0e}")
        elapsed = self._bar.format_dict["elapsed"]
        if iteration.iteration == 1 and self._beginnings * elapsed > LONG:
            self._forecast = f" of some {minutes(self._beginnings * elapsed)}"
        parts.append(f"{elapsed:.1f} s{self._forecast}")
        if self._before is not None and len(self._names):
            parts.append(_largest_change(self._names, self._before, iteration.parameters))
        self._before = iteration.parameters
        room = _columns() - 1  # a full line would wrap
        line = f"{self._label}: iteration {iteration.iteration}"[:room]
        for part in parts:
            line = f"{line}  {part}" if len(line) + 2 + len(part) <= room else line
        self._bar.set_description_str(line)


def _largest_change(names: Sequence[str], before: Array, after: Array) -> str:
    """Name, value and relative change of the parameter that changed most, in per cent of the larger of both values."""
    changes = [
        (new - old) / max(abs(new), abs(old)) if new != old else 0.0 for old, new in zip(before, after, strict=True)
    ]
    i = max(range(len(changes)), key=lambda j: abs(changes[j]))
    return f"{names[i]} {after[i]:.4g} ({100 * changes[i]:+.1f} %)"


def _bar(steps: Iterable[int] | None = None, **how: Any) -> Any:
    from tqdm import tqdm  # slow to load, and often nobody watches

    return tqdm(steps, leave=False, mininterval=0.1, file=sys.stderr, ncols=_columns(), nrows=ROWS, **how)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS
