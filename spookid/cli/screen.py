"""Estimates while data come in: lines that scroll by, or on a terminal one table that is rewritten in place.

Rows of a log that cannot be taken as they are: repeated, late, without an input, behind a gap; and what is said.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from spookid.cli import terminal
from spookid.data.growing import Row
from spookid.data.recording import Recording
from spookid.report.summary import correlated_pairs, correlation_line, warnings_of
from spookid.results.wording import warned
from spookid.smoothing.estimate import OnlineEstimate
from spookid.statistics.changes import Change
from spookid.tables.table import ESTIMATED, Block, Table, as_text, counted, estimated, labelled, quantity, uncertain


def clock(stamp: float) -> str:
    """Return the local time of day if a timestamp counts from 1970, otherwise seconds."""
    if stamp < 1e9:  # seconds of the log, not since 1970
        return f"{stamp:.2f} s"
    return time.strftime("%H:%M:%S", time.localtime(round(stamp)))


class View:
    """Display of estimates and changes: one line each, or on a terminal one table that is rewritten in place, below
    lines that remain.

    Args:
        title: what is watched.
        names: of the parameters.
        notes: what they mean, by name.
    """

    def __init__(self, title: str, names: Sequence[str], notes: Mapping[str, str]) -> None:
        self.title, self.names, self.notes = title, tuple(names), notes
        self._in_place, self._widths = sys.stdout.isatty(), tuple[int, ...]()
        self._text, self._height, self._written = "", 0, -math.inf

    def estimate(self, now: float, estimate: OnlineEstimate, rows: int, left_out: int) -> None:
        """Show an estimate at a timestamp [s], with the numbers of rows read and of samples that were late."""
        values = [uncertain(estimate.values[name], estimate.std_errs[name]) for name in self.names]
        if self._in_place:
            known = zip(self.names, values, strict=True)
            cells = [(n, v, estimate.units[n], estimate.reasons.get(n, "") or self.notes[n]) for n, v in known]
            lost = f", {counted(left_out, 'sample')} left out" if left_out else ""
            title, width = f"{self.title}  {clock(now)}  {counted(rows, 'row')}{lost}", terminal.columns() - 1
            table = Table(("parameter", "value", "unit", ""), cells, left=(0, 2, 3))
            self._text = f"{title[:width]}\n{table.text(width, '  ')}"
            if time.monotonic() - self._written >= 0.1:  # s: nobody reads faster
                self._draw()
            return
        lines = [[clock(now), *values]]
        if not self._widths:
            lines.insert(0, ["time", *(labelled(name, estimate.units[name]) for name in self.names)])
            self._widths = tuple(max(map(len, pair)) + 2 for pair in zip(*lines, strict=True))
        self._widths = tuple(max(w, len(cell)) for w, cell in zip(self._widths, lines[-1], strict=True))
        for line in lines:
            self.note("  ".join(cell.rjust(w) for cell, w in zip(line, self._widths, strict=True)))

    def change(self, change: Change, estimate: OnlineEstimate) -> None:
        """Show a change of a parameter as a separate line."""
        note = self.notes.get(change.parameter, "")
        name = f"{change.parameter} ({note})" if note else change.parameter
        self.note(f"{clock(change.told)}  CHANGED  {change.words(name, estimate.units[change.parameter], clock)}")

    def page(self, now: float, estimate: OnlineEstimate, rows: int, left_out: int, changes: Sequence[Change]) -> str:
        """Estimates at the end of a log, in the layout of ``spookid solve``."""
        verdict = f"{self.title}: watched until {clock(now)}, {counted(len(changes), 'change')}"
        known = [name for name in self.names if name not in estimate.reasons]
        cells = (estimated(n, estimate.values[n], estimate.std_errs[n], estimate.units[n]) for n in known)
        table = [(*own, self.notes[name]) for name, own in zip(known, cells, strict=True)]
        blocks: list[Block] = [verdict + warned(estimate.findings), *warnings_of(estimate.findings)]
        blocks += [Table(("parameter", *ESTIMATED, ""), table, left=(0, 5, 6))] if known else []
        pairs = correlated_pairs(list(estimate.values), estimate.covariance)
        blocks += correlation_line(pairs)
        unknown = [f"  {name}: {reason}" for name, reason in estimate.reasons.items() if name in self.names]
        blocks += ["\n".join(["not identifiable", *unknown])] if unknown else []
        lost = f", {counted(left_out, 'sample')} left out" if left_out else ""
        return as_text([*blocks, f"{counted(rows, 'row')}{lost}"], terminal.columns())

    def note(self, text: str, write: Callable[[str], None] = terminal.say) -> None:
        """A line of its own."""
        self._erase()
        write(text)
        self._draw()

    def complain(self, text: str) -> None:
        """A line on stderr."""
        self.note(text, terminal.complain)

    def close(self, page: str = "") -> None:
        """Write the last table, or a page instead, which remains on the screen."""
        if page:
            self._erase()
            terminal.say(page if self._in_place else f"\n{page}")
        else:
            self._draw()
        self._text, self._height = "", 0

    def _draw(self) -> None:
        if self._text:
            self._erase()
            terminal.say(self._text)
            self._height, self._written = self._text.count("\n") + 1, time.monotonic()

    def _erase(self) -> None:
        if self._height:
            terminal.say(f"\x1b[{self._height}F\x1b[J", end="")  # to the line where the table begins; nothing after it
            self._height = 0


_REPEATED = "repeat the time of another"
_LATE = "came too late"
_BLIND = "have no sample of an input"


class LogRows:
    """Filter of unusable rows in a log; reports the first row of a kind at once, and the number of rows at the end.

    Args:
        path: of the log, as sentences name it.
        told: a function of a sentence.
    """

    def __init__(self, path: Path, told: Callable[[str], object]) -> None:
        self._path, self._told = path, told
        self._counts: dict[str, int] = {}
        """Rows of each kind."""
        self._needed: tuple[str, ...] = ()
        self._longest = self._last = np.inf
        self._seen: dict[float, set[str]] = {}
        """The signals that have come, by timestamp."""
        self.left_out = 0
        """Samples so far."""

    def merged(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows by timestamp, each timestamp once; of several samples of a signal, the first is used."""
        found: dict[float, Row] = {}
        for row in rows:
            if row.t in found:
                self._count_repeated(row)
                found[row.t] = replace(found[row.t], values=row.values | found[row.t].values)
            else:
                found[row.t] = row
        return [found[t] for t in sorted(found)]

    def learn(self, first: Recording, inputs: Iterable[str], until: float) -> None:
        """Learn from the first recording which signals and intervals are usual in this log."""
        self._needed = tuple(name for name in inputs if np.all(np.isfinite(first.signals[name])))
        self._longest, self._last = max(b - a for a, b in pairwise(first.t.tolist())), until
        self._seen = {t: set(first.signals) for t in first.t.tolist()}

    def usable(self, row: Row, window: tuple[float, float]) -> Row | None:
        """Usable part of a row; None if the row is unusable."""
        blind = next((name for name in self._needed if name not in row.values), None)
        if blind is not None:
            since = "which all rows of the first seconds have; rows without this signal are skipped"
            self._count(_BLIND, row, f"{blind!r} is missing, {since}")
            return None
        if row.t < window[0]:
            stamps = f"the timestamp is {quantity(window[1] - row.t, 's')} earlier than the timestamp of a previous row"
            self._count(_LATE, row, f"{stamps}; rows that are so late are skipped")
            return None
        if next(iter(self._seen), np.inf) < window[0]:
            self._seen = {t: names for t, names in self._seen.items() if t >= window[0]}
        seen = self._seen.setdefault(row.t, set())
        values = {name: value for name, value in row.values.items() if name not in seen}
        if len(values) < len(row.values):
            self._count_repeated(replace(row, values={n: v for n, v in row.values.items() if n in seen}))
        seen.update(values)
        if row.t - self._last > self._longest + (window[1] - window[0]):
            gap = quantity(row.t - self._last, "s")
            self._told(f"{self._path} line {row.line}: {gap} without a row of use; the parameters stay as they were")
        self._last = max(self._last, row.t)
        return replace(row, values=values) if values else None

    def close(self) -> None:
        """Report the number of rows of each kind, if there was more than one."""
        for kind, n in self._counts.items():
            if n > 1:
                self._told(f"{self._path}: {counted(n, 'row')} {kind}")
        self._counts = {}

    def _count_repeated(self, row: Row) -> None:
        self._count(
            _REPEATED,
            row,
            f"the row has the same time {row.t:.12g} s as an earlier row; the first sample of each signal is used",
        )

    def _count(self, kind: str, row: Row, sentence: str) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self.left_out += len(row.values)
        if self._counts[kind] == 1:
            self._told(f"{self._path} line {row.line}: {sentence}")
