"""Rows of a log that cannot be taken as they are: repeated, late, without an input, behind a gap; and what is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from spookid.data.growing import Row
from spookid.data.recording import Recording
from spookid.tables.table import counted, quantity

_REPEATED = "repeat the time of another"
_LATE = "came too late"
_BLIND = "have no sample of an input"


class LogRows:
    """Leaves out what is no use, and says so: the first of a kind at once, how many there were in the end.

    Args:
        path: of the log, as sentences name it.
        told: takes sentences.
    """

    def __init__(self, path: Path, told: Callable[[str], object]) -> None:
        self._path, self._told = path, told
        self._counts: dict[str, int] = {}
        """Rows of each kind."""
        self._needed: tuple[str, ...] = ()
        self._longest = self._last = np.inf
        self._seen: dict[float, set[str]] = {}
        """The signals that have come, by stamp."""
        self.left_out = 0
        """Samples so far."""

    def merged(self, rows: Iterable[Row]) -> list[Row]:
        """Rows in the order of their stamps, each stamp once: of several samples of a signal the first counts."""
        found: dict[float, Row] = {}
        for row in rows:
            if row.t in found:
                self._count_repeated(row)
                found[row.t] = replace(found[row.t], values=row.values | found[row.t].values)
            else:
                found[row.t] = row
        return [found[t] for t in sorted(found)]

    def learn(self, first: Recording, inputs: Iterable[str], until: float) -> None:
        """What is usual in this log.

        Args:
            first: the first seconds.
            inputs: signals of the model's inputs; those that stand in each row of the first seconds are needed.
            until: latest stamp so far [s].
        """
        self._needed = tuple(name for name in inputs if np.all(np.isfinite(first.signals[name])))
        self._longest, self._last = max(b - a for a, b in pairwise(first.t.tolist())), until
        self._seen = {t: set(first.signals) for t in first.t.tolist()}

    def usable(self, row: Row, window: tuple[float, float]) -> Row | None:
        """What is to be taken of a row; None if nothing is.

        Args:
            window: its first and last time [s].
        """
        blind = next((name for name in self._needed if name not in row.values), None)
        if blind is not None:
            since = "which each row of the first seconds has; rows without it are left out, their motion cannot be told"
            self._count(_BLIND, row, f"{blind!r} is missing, {since}")
            return None
        if row.t < window[0]:
            stamps = f"its stamp is {quantity(window[1] - row.t, 's')} before that of another row"
            self._count(_LATE, row, f"{stamps}; rows that come so late are left out")
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
        """Say how many rows there were of each kind, if there was more than one."""
        for kind, n in self._counts.items():
            if n > 1:
                self._told(f"{self._path}: {counted(n, 'row')} {kind}")
        self._counts = {}

    def _count_repeated(self, row: Row) -> None:
        self._count(
            _REPEATED, row, f"it has the time {row.t:.12g} s of an earlier row; of each signal the first counts"
        )

    def _count(self, kind: str, row: Row, sentence: str) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self.left_out += len(row.values)
        if self._counts[kind] == 1:
            self._told(f"{self._path} line {row.line}: {sentence}")
