"""Samples of sensors and inputs, as they come, as data of the factors that a fit of the whole recording has."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from spookid.assembly.input_data import input_data
from spookid.assembly.observations import Observed
from spookid.assembly.problem import Problem
from spookid.data.inputs import acting_between
from spookid.data.sampling import Grid, slack_at
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import AT_STEP
from spookid.parameter import is_constant, number
from spookid.transcription.factor import Factor, Group

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
    """Data of the observation factors for steps in the window and for later steps.

    Args:
        observed: which samples make the rows of which factor, for the problem's channels.
        factors: by name.
        delays: by which each channel is late at the initial values [s].
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
        """Step and row to which a sample of a channel belongs, or the reason why it cannot be used."""
        at = (t - self._delays[channel] - self._start) / self._step
        nearest = round(at)
        if abs(at - nearest) <= slack_at(max(abs(t), abs(self._start)), self._step) / self._step:
            at = float(nearest)
        if at < 0:
            return "early"
        for factor, one in enumerate(self._observed):
            if channel not in one.channels:
                continue
            column = one.channels.index(channel)
            if one.reach is None and at == nearest:
                row = nearest - self._reach[factor] // 2
                return Place(factor, row, column) if row >= 0 else "early"
            if one.reach is not None and (one.whole[column] or at != nearest):
                cell = one.reach.cell(at)
                return Place(factor, cell - one.reach.first, column) if cell >= 0 else "early"
        return "crowded"

    def has(self, place: Place, t: float) -> bool:
        """True if the channel has a sample at the same time, or at the same step."""
        samples = self._at(place)
        return bool(samples) if self._observed[place.factor].reach is None else any(s[0] == t for s in samples)

    def is_full(self, place: Place) -> bool:
        """True if no further sample of the channel fits into a row."""
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
        """Return data of the rows that end at a new step."""
        for factor, reach in enumerate(self._reach):
            if newest >= reach:
                self._changed[factor].discard(newest - reach)
                self._give(factor, newest - reach, set_data)

    def renew(self, newest: int, set_data: SetData) -> bool:
        """Update data of rows that have received samples since; True if there were any."""
        found = False
        for factor, reach in enumerate(self._reach):
            for row in sorted(r for r in self._changed[factor] if r + reach <= newest):
                self._changed[factor].discard(row)
                found |= self._give(factor, row, set_data)
        return found

    def forget(self, first: int) -> None:
        """Delete rows whose first step is before a given step."""
        for rows in self._rows:
            for row in [r for r in rows if r < first]:
                del rows[row]

    def _give(self, factor: int, row: int, set_data: SetData) -> bool:
        return set_data(self._observed[factor].name, row, *self.data(factor, row))

    def data(self, factor: int, row: int) -> tuple[Array, Mask]:
        """Data of a row as from ``observations.observation_data``, (n_d,), and flags of residuals without data."""
        one, known = self._observed[factor], self._rows[factor].get(row, {})
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
        """Restore the samples that ``kept`` returned into an empty object, whose rows have data already."""
        for factor, row, column, t, value in samples:
            self.add(Place(int(factor), int(row), int(column)), t, value)
        self._changed = [set() for _ in self._observed]

    def kept(self) -> Iterator[tuple[int, int, int, float, float]]:
        """All samples: factor, row, column, time and value."""
        for factor, rows in enumerate(self._rows):
            for row, columns in rows.items():
                for column, samples in columns.items():
                    yield from ((factor, row, column, t, value) for t, value in samples)


_FADED = 64
"""Time constants after which nothing of a lagged input is left in double precision, nor of its slope."""
_LATEST, _SOME = 50, 10
"""How many intervals between samples are remembered, and how many of them an input may be without a sample."""
_BESIDE = 2
"""Steps beside those asked for on which inputs there hang: slopes with a delay know both neighbours."""


class InputRows:
    """Latest samples of all inputs, and data of the factors in which inputs act.

    An input is held behind its last sample; rows in which another one turns out to act are given anew.

    Args:
        factors: all of the problem's.
        values: of the parameters, by name, initially.
        start, step: time of step 0 and between steps [s].
    """

    def __init__(
        self, problem: Problem, factors: Sequence[Factor], values: Mapping[str, float], start: float, step: float
    ) -> None:
        self._problem, self._values, self._start, self._step = problem, values, start, step
        self._inputs, self._factors = problem.model.inputs, tuple(factors)
        self._taking = [f for f in factors if f.group in (Group.STATE, Group.RESIDUAL) and f.data.numel()]
        self._reach = max((f.reach for f in self._taking), default=0)
        self.samples: dict[str, Samples] = {one.signal: [] for one in self._inputs}
        """Of each signal, from one on that acts at the first step of the window."""
        self.intervals: dict[str, deque[float]] = {one.signal: deque(maxlen=_LATEST) for one in self._inputs}
        """The latest between samples of each signal [s]."""
        self._delays = {one.signal: number(one.delay, values) for one in self._inputs}
        self._lines = {one.signal for one in self._inputs if one.hold == "linear"}
        self._plain = {one.signal for one in self._inputs if is_constant(one.delay) and not self._delays[one.signal]}
        self._lags = {one.signal: number(one.lag, values) for one in self._inputs}
        self._plain -= self._lines | {signal for signal, lag in self._lags.items() if lag}
        """Signals that change nothing before their timestamps."""
        self._none = {f.name: np.zeros(len(f.rows), dtype=np.bool_) for f in self._taking}
        self._given: dict[str, dict[int, Array]] = {f.name: {} for f in self._taking}
        """The data of each row of each factor."""
        self._changed: int | None = None
        """The first step whose inputs have changed."""

    @property
    def signals(self) -> tuple[str, ...]:
        """Those that it takes."""
        return tuple(self.samples)

    def has(self, signal: str, t: float) -> bool:
        """True if the input has a sample at this time."""
        samples = self.samples[signal]
        place = bisect_left(samples, (t, -math.inf))
        return place < len(samples) and samples[place][0] == t

    def acts(self, signal: str, t: float) -> int:
        """Step in which a sample of an input begins to act."""
        return math.floor((t + self._delays[signal] - self._start) / self._step + AT_STEP)

    def add(self, signal: str, t: float, value: float) -> bool:
        """Add a sample of an input; False if it is older than all stored samples."""
        samples = self.samples[signal]
        if samples and t < samples[0][0]:
            return False
        if samples and t > samples[-1][0]:
            self.intervals[signal].append(t - samples[-1][0])
        insort(samples, (t, value))
        if signal in self._plain:
            changed = math.ceil((t - self._start) / self._step - AT_STEP)
        else:
            before = samples[max(bisect_left(samples, (t, -math.inf)) - 1, 0)][0]
            changed = self.acts(signal, before if signal in self._lines else t) - 1
        self._changed = changed if self._changed is None else min(changed, self._changed)
        return True

    def stopped(self, now: float) -> dict[str, float]:
        """Signals without samples for long at a time [s], with the times of their last samples [s]: for some of their
        median intervals, and longer than any recent interval, because inputs may be sent only when they change."""
        found = {}
        for signal, intervals in self.intervals.items():
            last = self.samples[signal][-1][0] if self.samples[signal] else now
            if intervals and now - last > max(intervals) and now - last > _SOME * median(intervals):
                found[signal] = last
        return found

    def begin(self, newest: int, set_data: SetData) -> None:
        """Return data of the rows that end at a new step."""
        last = newest if len(self._plain) == len(self._inputs) else newest - 1
        changed = last if self._changed is None else min(last, self._changed)
        self._give(changed, newest, set_data)

    def renew(self, newest: int, set_data: SetData) -> bool:
        """Update data of rows in which later samples act; True if there were any."""
        if self._changed is None or self._changed > newest:
            return False
        return self._give(self._changed, newest, set_data)

    def forget(self, first: int) -> None:
        """Delete rows before a step, and samples that no longer act in later steps."""
        for rows in self._given.values():
            for row in [r for r in rows if r < first]:
                del rows[row]
        time = self._start + self._step * (first - self._reach - _BESIDE - 1)
        for signal, samples in self.samples.items():
            acting = bisect_right(samples, (time - self._reached(signal), math.inf)) - 1
            if acting > 1:
                del samples[: acting - 1]

    def _give(self, changed: int, newest: int, set_data: SetData) -> bool:
        """Rows of which a part lies behind a step, if their data are others than before; True if there were any."""
        self._changed, found = None, False
        for name, row, data in self._rows(changed, newest):
            before = self._given[name].get(row)
            if before is None or not np.array_equal(before, data):
                self._given[name][row] = data
                found |= set_data(name, row, data, self._none[name])
        return found

    def restore(self, samples: Mapping[str, Samples], first: int, newest: int) -> None:
        """Restore samples into an empty object, whose rows have data already."""
        self.samples |= samples
        for name, row, data in self._rows(first, newest):
            self._given[name][row] = data

    def _rows(self, changed: int, newest: int) -> Iterator[tuple[str, int, Array]]:
        """Factor, number and data of the rows of which a part lies behind a step."""
        if self._taking:
            for name, (first, rows) in self.rows(max(changed - self._reach, 0), newest).items():
                yield from ((name, first + i, row.copy()) for i, row in enumerate(rows))

    def rows(self, lowest: int, newest: int) -> dict[str, tuple[int, Array]]:
        """Data of factors with inputs, by name: number of the first row, and (n, n_d) of all rows from a lowest one
        whose steps exist."""
        begin = max(lowest - _BESIDE, 0)
        end = max(newest + 1, begin + self._reach + 1)
        grid = Grid(self._start, self._step, end - begin + 1, begin)
        near = slack_at(max(abs(self._start), abs(grid.times()[-1])), self._step)
        samples = [self._since(one.signal, grid.times()[0] + near) for one in self._inputs]
        acting = acting_between(samples, self._inputs, grid, self._values, near)
        data, found = input_data(self._problem, self._factors, self._values, *acting), {}
        for factor in self._taking:
            first = begin if begin == 0 else begin + 1  # the first may be that of a beginning
            rows = data[factor.name][first - begin : newest - factor.reach + 1 - begin]
            if not (factor.first_only and begin):
                found[factor.name] = first, rows
        return found

    def _reached(self, signal: str) -> float:
        """Time before a step from which on samples act there [s]."""
        return self._delays[signal] + _FADED * self._lags[signal]

    def _since(self, signal: str, time: float) -> tuple[Array, Array]:
        """Times and values of a signal's samples from the one on that acts at a time."""
        samples = self.samples[signal]
        first = max(bisect_right(samples, (time - self._reached(signal), math.inf)) - 1, 0)
        t, values = zip(*samples[first:], strict=True)
        return np.array(t), np.array(values)
