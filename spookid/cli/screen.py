"""Estimates while data come in: lines that scroll by, or on a terminal one table that is rewritten in place."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from spookid.cli import terminal
from spookid.smoothing.estimate import OnlineEstimate
from spookid.statistics.changes import Change
from spookid.tables.table import Table, counted, labelled, uncertain

_EPOCH = 1e9
"""Stamps from here on [s] are taken for seconds since 1970, the others for seconds of the log."""
_SPARE = 2
"""Columns that a value may become longer by before lines shift."""
_SELDOM = 0.1
"""Between two times that the table is written [s] of the wall clock."""
_HEAD = ("parameter", "value", "unit", "")
_UP, _CLEAR = "\x1b[{}F", "\x1b[J"
"""To the beginning of the line so many lines above; from there on nothing."""


def clock(stamp: float) -> str:
    """Local time of day if the stamp counts from 1970, else seconds."""
    if stamp < _EPOCH:
        return f"{stamp:.2f} s"
    return time.strftime("%H:%M:%S", time.localtime(round(stamp)))


class View(ABC):
    """Where estimates and changes are shown.

    Args:
        title: what is watched.
        names: of the parameters.
        notes: what they mean, by name.
    """

    def __init__(self, title: str, names: Sequence[str], notes: Mapping[str, str]) -> None:
        self.title, self.names, self.notes = title, tuple(names), notes

    @abstractmethod
    def estimate(self, now: float, estimate: OnlineEstimate, rows: int, left_out: int) -> None:
        """Show an estimate.

        Args:
            now: stamp of the row that was read last [s].
            rows: that were read so far.
            left_out: samples of them that came too late to be used.
        """

    def change(self, change: Change, estimate: OnlineEstimate) -> None:
        """A change as a line of its own."""
        note = self.notes.get(change.parameter, "")
        name = f"{change.parameter} ({note})" if note else change.parameter
        self.note(f"{clock(change.told)}  CHANGED  {change.words(name, estimate.units[change.parameter], clock)}")

    def note(self, text: str) -> None:
        """A line of its own."""
        terminal.say(text)

    def complain(self, text: str) -> None:
        """A line on stderr."""
        terminal.complain(text)

    def close(self) -> None:  # noqa: B027
        """Nothing more comes."""


class Lines(View):
    """A line for each estimate, values below each other."""

    _widths: tuple[int, ...] = ()

    def estimate(self, now: float, estimate: OnlineEstimate, rows: int, left_out: int) -> None:
        """Time and parameters."""
        cells = [clock(now), *(_value(estimate, name) for name in self.names)]
        if not self._widths:
            head = ["time", *(labelled(name, estimate.units[name]) for name in self.names)]
            self._widths = tuple(max(map(len, pair)) + _SPARE for pair in zip(head, cells, strict=True))
            self._line(head)
        self._widths = tuple(max(w, len(cell)) for w, cell in zip(self._widths, cells, strict=True))
        self._line(cells)

    def _line(self, cells: Sequence[str]) -> None:
        self.note("  ".join(cell.rjust(w) for cell, w in zip(cells, self._widths, strict=True)))


class Screen(View):
    """One table, rewritten in place; what is to be kept scrolls away above it."""

    _text, _height, _written = "", 0, -math.inf

    def estimate(self, now: float, estimate: OnlineEstimate, rows: int, left_out: int) -> None:
        """Write the table, unless that was just done."""
        parameters = [
            (name, _value(estimate, name), estimate.units[name], estimate.reasons.get(name, "") or self.notes[name])
            for name in self.names
        ]
        lost = f", {counted(left_out, 'sample')} left out" if left_out else ""
        title, width = f"{self.title}  {clock(now)}  {counted(rows, 'row')}{lost}", terminal.columns() - 1
        self._text = f"{title[:width]}\n{Table(_HEAD, parameters, left=(0, 2, 3)).text(width, '  ')}"
        if time.monotonic() - self._written >= _SELDOM:
            self._draw()

    def note(self, text: str) -> None:
        """A line above the table."""
        self._erase()
        terminal.say(text)
        self._draw()

    def complain(self, text: str) -> None:
        """A line on stderr, above the table."""
        self._erase()
        terminal.complain(text)
        self._draw()

    def close(self) -> None:
        """Write the last table; it stays."""
        self._draw()
        self._text, self._height = "", 0

    def _draw(self) -> None:
        if self._text:
            self._erase()
            terminal.say(self._text)
            self._height, self._written = self._text.count("\n") + 1, time.monotonic()

    def _erase(self) -> None:
        if self._height:
            terminal.say(_UP.format(self._height) + _CLEAR, end="")
            self._height = 0


def view(title: str, names: Sequence[str], notes: Mapping[str, str]) -> View:
    """What suits where stdout goes."""
    return (Screen if sys.stdout.isatty() else Lines)(title, names, notes)


def _value(estimate: OnlineEstimate, name: str) -> str:
    return uncertain(estimate.values[name], estimate.std_errs[name])
