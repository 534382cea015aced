"""Progress of long work: one live line on stderr that leaves nothing behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spookid.kernels.kernel import Array
    from spookid.solvers.status import Iteration

_COLUMNS, _ROWS = 80, 24
"""Size of a terminal that does not tell its own."""


def wanted(quiet: bool) -> bool:
    """True if somebody watches: stderr is a terminal and nobody asked for quiet."""
    return not quiet and sys.stderr.isatty()


def along(label: str, shown: bool) -> Callable[[Iterable[int]], Iterable[int]]:
    """A wrapper of an iteration over steps that shows a bar."""

    def wrap(steps: Iterable[int]) -> Iterable[int]:
        if not shown:
            return steps
        from tqdm import tqdm

        bar: Iterable[int] = tqdm(
            steps, desc=label, unit=" steps", leave=False, mininterval=0.1, file=sys.stderr, **_width()
        )
        return bar

    return wrap


class SolverLine:
    """The state of a solver as one line, rewritten at every accepted iterate.

    Args:
        label: what is solved.
        names: of the free parameters.
        shown: False to write nothing at all.
    """

    def __init__(self, label: str, names: Sequence[str], shown: bool) -> None:
        self._label, self._names, self._shown = label, names, shown
        self._began = time.perf_counter()
        self._before: Array | None = None
        self._length = 0

    def __enter__(self) -> SolverLine:
        self._write([f"{self._label}: building"])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._write([])

    def show(self, iteration: Iteration) -> None:
        """Iteration, cost, damping, the parameter that changes most, and the time since the start."""
        parts = [f"{self._label}: iteration {iteration.iteration}", f"cost {iteration.total:.4g}"]
        if iteration.damping:
            parts.append(f"damping {iteration.damping:.0e}")
        parts.append(f"{time.perf_counter() - self._began:.1f} s")
        if self._before is not None and len(self._names):
            parts.append(_largest_change(self._names, self._before, iteration.parameters))
        self._before = iteration.parameters
        self._write(parts)

    def _write(self, parts: Sequence[str]) -> None:
        """As many parts as fit, over what stood there before."""
        if not self._shown:
            return
        room, line = _columns() - 1, ""  # a full line would wrap
        for part in parts:
            longer = f"{line}  {part}" if line else part[:room]
            if len(longer) <= room:
                line = longer
        erased = "\r" + " " * min(self._length, room) + "\r"
        sys.stderr.write(erased + line)
        sys.stderr.flush()
        self._length = len(line)


def _largest_change(names: Sequence[str], before: Array, after: Array) -> str:
    """Name, value and relative change of the parameter that changed most, in per cent of the larger of both values."""
    changes = [
        (new - old) / max(abs(new), abs(old)) if new != old else 0.0 for old, new in zip(before, after, strict=True)
    ]
    i = max(range(len(changes)), key=lambda j: abs(changes[j]))
    return f"{names[i]} {after[i]:.4g} ({100 * changes[i]:+.1f} %)"


def _width() -> dict[str, int]:
    """Of a bar: that of the terminal as it changes, or a fixed one if it does not tell; tqdm shows nothing then."""
    try:
        known = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        known = False
    return {"dynamic_ncols": True} if known else {"ncols": _COLUMNS, "nrows": _ROWS}


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


@contextmanager
def counting(label: str, total: int, shown: bool) -> Iterator[Callable[[bool], None]]:
    """A bar of ``total`` points; its function is called for each, with True if it was done before."""
    if not shown:
        yield lambda before: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=label, unit=" points", leave=False, file=sys.stderr, **_width()) as bar:

        def count(before: bool) -> None:
            if before:  # it says nothing about how long the others take
                bar.initial += 1
            bar.update()

        yield count
