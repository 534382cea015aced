"""Samples of sensors, as they come, as data of the factors that a fit of the whole recording has."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spookid.assembly.observations import Observed
from spookid.data.sampling import slack_at
from spookid.kernels.kernel import Array, Mask
from spookid.transcription.factor import Factor

Samples = list[tuple[float, float]]
"""Times [s] and values in order of time."""
Unplaced = Literal["early", "crowded"]
"""It shows what was before the first step; or samples between the steps, or so many, were not there at the start."""
SetData = Callable[[str, int, Array, Mask], bool]
"""What takes the data of a factor's row; False if that has left the window."""


@dataclass(frozen=True)
class Place:
    """Where a sample belongs."""

    factor: int
    """Number of the ``Observed``."""
    row: int
    """Number of the factor's row: that of its first step."""
    column: int
    """Number of the channel among those of the factor."""


class SensorRows:
    """Rows of observation factors that are in the window, or will be.

    Args:
        observed: which samples make the rows of which factor, for the problem's channels.
        factors: by name.
        delays: by which each channel is late at the guesses [s].
        start, step: time of step 0 and between steps [s].
    """

    def __init__(
        self,
        observed: Sequence[Observed],
        factors: Mapping[str, Factor],
        delays: Sequence[float],
        start: float,
        step: float,
    ) -> None:
        self._observed, self._delays = tuple(observed), tuple(delays)
        self._reach = [factors[one.name].reach for one in observed]
        self._start, self._step = start, step
        self._rows: list[dict[int, dict[int, Samples]]] = [{} for _ in observed]
        """Of each factor by row, of each channel its samples there."""
        self._changed: list[set[int]] = [set() for _ in observed]

    def place(self, channel: int, t: float) -> Place | Unplaced:
        """Where a sample of a channel belongs, or why it has no place."""
        at = (t - self._delays[channel] - self._start) / self._step
        nearest = round(at)
        if abs(at - nearest) <= slack_at(max(abs(t), abs(self._start)), self._step) / self._step:
            at = float(nearest)
        if at < 0:
            return "early"
        for number, one in enumerate(self._observed):
            if channel not in one.channels:
                continue
            column = one.channels.index(channel)
            if one.reach is None and at == nearest:
                row = nearest - self._reach[number] // 2
                return Place(number, row, column) if row >= 0 else "early"
            if one.reach is not None and (one.whole[column] or at != nearest):
                cell = one.reach.cell(at)
                return Place(number, cell - one.reach.first, column) if cell >= 0 else "early"
        return "crowded"

    def has(self, place: Place, t: float) -> bool:
        """True if there is a sample of the same channel and time, or at the same step."""
        samples = self._at(place)
        return bool(samples) if self._observed[place.factor].reach is None else any(s[0] == t for s in samples)

    def is_full(self, place: Place) -> bool:
        """True if a row has no room for one more sample of the channel."""
        one = self._observed[place.factor]
        return len(self._at(place)) >= (1 if one.reach is None else one.slots[place.column])

    def add(self, place: Place, t: float, value: float) -> None:
        """A sample."""
        row = self._rows[place.factor].setdefault(place.row, {})
        insort(row.setdefault(place.column, []), (t, value))
        self._changed[place.factor].add(place.row)

    def _at(self, place: Place) -> Samples:
        return self._rows[place.factor].get(place.row, {}).get(place.column, [])

    def begin(self, newest: int, set_data: SetData) -> None:
        """Give the data of the rows that end at a new step."""
        for number, reach in enumerate(self._reach):
            if newest >= reach:
                self._changed[number].discard(newest - reach)
                self._give(number, newest - reach, set_data)

    def renew(self, newest: int, set_data: SetData) -> bool:
        """Give the data of rows that have got samples since; True if there were any."""
        found = False
        for number, reach in enumerate(self._reach):
            for row in sorted(r for r in self._changed[number] if r + reach <= newest):
                self._changed[number].discard(row)
                found |= self._give(number, row, set_data)
        return found

    def forget(self, first: int) -> None:
        """Forget rows whose first step is before one."""
        for rows in self._rows:
            for row in [r for r in rows if r < first]:
                del rows[row]

    def _give(self, number: int, row: int, set_data: SetData) -> bool:
        return set_data(self._observed[number].name, row, *self.data(number, row))

    def data(self, number: int, row: int) -> tuple[Array, Mask]:
        """Data of a row as in ``observations.observation_data``, (n_d,), and which of its residuals have none."""
        one, known = self._observed[number], self._rows[number].get(row, {})
        n, place = len(one.rows), 0
        values, present, stamps = np.zeros(n), np.zeros(n), np.zeros(n)
        for column, slots in enumerate(one.slots or (1,) * n):
            for i, (t, value) in enumerate(known.get(column, ())):
                values[place + i], present[place + i] = value, 1.0
                if one.reach is not None:
                    stamps[place + i] = (t - self._start) / self._step - (row + one.reach.first)
            place += slots
        parts = [values, present] if one.reach is None else [values, present, stamps]
        return np.concatenate(parts), present == 0

    def restore(self, samples: Iterable[tuple[int, int, int, float, float]]) -> None:
        """Take what ``kept`` gave where nothing has come; the rows have been given."""
        for number, row, column, t, value in samples:
            self.add(Place(int(number), int(row), int(column)), t, value)
        self._changed = [set() for _ in self._observed]

    def kept(self) -> Iterator[tuple[int, int, int, float, float]]:
        """Every sample: factor, row, column, time and value."""
        for number, rows in enumerate(self._rows):
            for row, columns in rows.items():
                for column, samples in columns.items():
                    yield from ((number, row, column, t, value) for t, value in samples)
