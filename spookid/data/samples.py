"""Every sample at its own time: which step it belongs to, and where it lies between the states there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples, slack
from spookid.records import dataclass

_AT_STEPS = 0.5
"""Share of the steps that have a sample of a channel, from which on those are told apart from the others."""


@dataclass(frozen=True)
class Reach:
    """Which states a prediction between the steps is made of: how they stand around the one it is counted from."""

    steps: int
    """Largest offset between states that it is made of."""
    first: int
    """Offset of the state from which it is counted."""
    before: int
    """How many states before that one it reaches to."""
    after: int
    """How many behind it: as many, and that one is the nearest, or one more, and it is the last one before a sample."""

    @property
    def states(self) -> int:
        """Number of states that it is made of."""
        return self.before + 1 + self.after

    @property
    def polynomial(self) -> bool:
        """True if it goes through more than three of them."""
        return self.states > 3

    def cells(self, x: FloatArray, count: int) -> NDArray[np.intp]:
        """For times x in steps from the first state of ``count``, the state from which each is counted; −1 for none."""
        nearest = np.rint(x) if self.before == self.after else np.floor(x)
        last = self.first + count - self.steps - 1
        k = np.clip(nearest, self.first, last).astype(np.intp)
        inside = (x - k >= -self.before) & (x - k <= self.after)
        return np.where(inside & (last >= self.first), k, -1)

    def cell(self, x: float) -> int:
        """The same for one time along states without end."""
        k = max(round(x) if self.before == self.after else math.floor(x), self.first)
        return k if -self.before <= x - k <= self.after else -1


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one channel along a grid."""

    stamps: FloatArray
    """Their own times, (n,) [s]."""
    values: FloatArray
    """(n,)."""
    at: FloatArray
    """When what they show took place, in steps from the first state, (n,)."""
    count: int
    """Steps of the grid."""
    start: float
    """Of the grid [s]."""
    step: float
    """[s]."""

    @classmethod
    def at_steps(cls, values: FloatArray, grid: Grid) -> Samples:
        """Of values at every step, (N,), NaN where there is none."""
        k = np.flatnonzero(np.isfinite(values))
        return cls(grid.times()[k], values[k], k.astype(np.float64), grid.count, grid.start, grid.step)

    @property
    def _stepped(self) -> NDArray[np.bool_]:
        return np.asarray(self.at == np.rint(self.at))

    @property
    def share(self) -> float:
        """Share of the steps at which there is one."""
        return np.count_nonzero(self._stepped) / self.count

    def stepped(self) -> FloatArray:
        """Those at the steps, (N,), NaN where there is none."""
        values, here = np.full(self.count, np.nan), self._stepped
        values[self.at[here].astype(np.intp)] = self.values[here]
        return values

    def slots(self, reach: Reach, every: bool) -> int:
        """How many of those between the steps, or of ``every`` one, belong to one state at the most."""
        cells = reach.cells(self.at[self._chosen(every)], self.count)
        return int(np.max(np.bincount(cells[cells >= 0]), initial=0))

    def between(self, reach: Reach, slots: int, every: bool) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Those between the steps, or ``every`` one, state by state: stamps in steps from the state that they are
        counted from, values, and where there is one, each (N − reach, slots)."""
        chosen = self._chosen(every)
        cells = reach.cells(self.at[chosen], self.count)
        seen = np.flatnonzero(chosen)[cells >= 0]
        cells = cells[cells >= 0]
        order = np.argsort(cells, kind="stable")
        seen, cells = seen[order], cells[order]
        place = np.arange(len(cells)) - np.searchsorted(cells, cells)
        shape = (max(self.count - reach.steps, 0), slots)
        stamps, values, present = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        where = cells - reach.first, place
        stamps[where] = (self.stamps[seen] - self.start) / self.step - cells
        values[where], present[where] = self.values[seen], True
        return stamps, values, present

    def _chosen(self, every: bool) -> NDArray[np.bool_]:
        return np.ones(len(self.at), dtype=np.bool_) if every else ~self._stepped


def samples(recording: Recording, signal: str, grid: Grid, delay: float = 0.0) -> Samples:
    """All finite samples of a signal that show what happened between the first and the last state of a grid.

    Args:
        delay: by which they come late [s].
    """
    t, values = finite_samples(recording, signal)
    at, near = (t - delay - grid.start) / grid.step, slack(recording, grid.step) / grid.step
    at = np.where(np.abs(at - np.rint(at)) <= near, np.rint(at), at)
    inside = (at >= 0) & (at <= grid.count - 1)
    return Samples(t[inside], values[inside], at[inside], grid.count, grid.start, grid.step)


def told_apart(of_recordings: Sequence[Samples]) -> bool:
    """True if samples of a channel at the steps are many enough to have rows of their own."""
    return any(one.share >= _AT_STEPS for one in of_recordings)
