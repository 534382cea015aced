"""Motion along a recording: as it was estimated, what is between it and the samples, and at which steps it is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.records import dataclass
from spookid.tables.table import Block, Listed, Table, Tabular, by_rows, counted, number, quantity, superscripts

FRAMES_PER_SECOND = 20
LONGEST, SHORTEST = 10.0, 2.0
"""Durations of what is shown [s]: of a longer motion the first part, a shorter one is slowed down."""
_SLOWER = (1, 2, 5, 10, 20, 50, 100)


class Motion(Protocol):
    """Measured and predicted signals of one recording, with N steps and n_o signals. A Trajectory is one."""

    @property
    def name(self) -> str: ...
    @property
    def signals(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def periods(self) -> tuple[float | None, ...]: ...
    @property
    def t(self) -> Array: ...
    @property
    def observed(self) -> Array: ...
    @property
    def predicted(self) -> Array: ...


def misfit(motion: Motion, column: int) -> Array:
    """Residual of one signal at each step, (N,), NaN where a sample is missing."""
    return motion.observed[:, column] - motion.predicted[:, column]


class Sampled(Motion, Protocol):
    """Residuals of samples between the steps of a Trajectory."""

    @property
    def samples(self) -> Array: ...
    @property
    def squares(self) -> Array | None: ...
    @property
    def largest(self) -> Array | None: ...


def rms_of_samples(motions: Sequence[Sampled], column: int) -> float:
    """Rms residual of all samples of a signal, or of samples at the steps if only these are known."""
    total, count = 0.0, 0.0
    for motion in motions:
        if motion.squares is None:
            errors = misfit(motion, column)
            finite = errors[np.isfinite(errors)]
            total, count = total + float(np.sum(finite**2)), count + finite.size
        else:
            total += float(motion.squares[:, column].sum())
            count += float(motion.samples[:, column].sum())
    return math.sqrt(total / count) if count else math.nan


def largest_of_samples(motions: Sequence[Sampled], column: int) -> float:
    """Largest residual of all samples of a signal, or of samples at the steps; NaN without samples."""
    found = []
    for motion in motions:
        if motion.largest is None:
            errors = np.abs(misfit(motion, column))
            found.append(errors[np.isfinite(errors)])
        else:
            found.append(motion.largest[motion.samples[:, column] > 0, column])
    sizes = np.concatenate(found) if found else np.zeros(0)
    return float(sizes.max()) if sizes.size else math.nan


def rms(values: Array) -> float:
    """Root mean square of the finite values in an array; NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else math.nan


def slowness(duration: float) -> int:
    """Slow-motion factor for the animation of a motion of so many seconds; 1 is real time."""
    return next((slower for slower in _SLOWER if slower * duration >= SHORTEST), _SLOWER[-1])


def moments(t: Array) -> Integers:
    """Indices of the steps that an animation shows, for step times t (N,) [s]; coarse steps are repeated."""
    duration = float(t[-1] - t[0])
    shown, slower = min(duration, LONGEST), slowness(duration)
    count = max(int(shown * FRAMES_PER_SECOND * slower + 1e-9), 1)
    times = t[0] + np.arange(count) / (FRAMES_PER_SECOND * slower)
    following = np.clip(np.searchsorted(t, times), 1, max(len(t) - 1, 1))
    nearer_before = times - t[following - 1] <= t[following] - times
    return np.asarray(np.where(nearer_before, following - 1, following), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MeasuredPoses:
    """Poses of the bodies computed from signals and joints alone, at the steps that a report shows."""

    frames: Array
    """(F,): numbers of the steps; none of a recording whose motion is not shown."""
    poses: Array
    """(F, n_b, 7): NaN where the signals do not determine them."""

    def __repr__(self) -> str:
        known = np.isfinite(self.poses).all(axis=(1, 2)).sum()
        return f"<MeasuredPoses: {known} of {len(self.frames)} determined>"


@dataclass(frozen=True)
class EffortFit(Listed):
    """Measured effort of one recording and the effort that drives the estimated motion, both averaged over a step, or
    over half a step if fits with half the step were made."""

    signal: str
    unit: str
    """Of the effort."""
    rms: float
    """NaN if nothing was measured."""
    largest: float
    steps: int
    """How many have a mean."""


@dataclass(frozen=True, eq=False)
class Trajectory(Tabular):
    """Estimated motion of one recording; N steps, n_b bodies, n_o observed signals.

    >>> (motion,) = solution.trajectories
    >>> motion.q.shape == (len(motion.t), 1, 7)
    True
    """

    name: str
    """The recording's."""
    signals: tuple[str, ...]
    """Observed signals."""
    units: tuple[str, ...]
    """Their units."""
    periods: tuple[float | None, ...]
    """Their periods, None where there is none."""
    t: Array
    """(N,) [s]."""
    q: Array
    """(N, n_b, 7)."""
    v: Array
    """(N, n_b, 6)."""
    observed: Array
    """(N, n_o), at the steps: between two samples on a line from one to the other, NaN where a sample is missing."""
    samples: Array
    """(N, n_o): how many samples of each signal count, from half a step before t to half a step behind it."""
    predicted: Array
    """(N, n_o), on the branch of the angle that is nearest to the observation."""
    impulse_residual: Array
    """(N, 12 n_b): (Δp_q, Δp_u) [N s, N m s] of the step that ends at t; the first row belongs to the initial state.
    Where the noise is estimated (N, n): random impulses about the hinges and on the free bodies."""
    multipliers: Array
    """(N, rows): constraint impulses λ of the step that begins at t [N s, N m s]; the last row is NaN."""
    friction: Array
    """(N, n_j): impulse of dry friction about each hinge's axis [N m s] in that step; NaN where a step has none."""
    sticks: Array
    """(N, n_j): 1 where dry friction holds a hinge, 0 where it slips or has none; NaN where a step has none."""
    squares: Array | None = None
    """(N, n_o): sum of the squares of their errors, each at its own time; None if the folder read has none."""
    largest: Array | None = None
    """(N, n_o): the largest of these errors; None likewise."""
    drive: Array | None = None
    """(N, n_m): mean effort of each motor in that step [N m or N], by its signal and the estimates; None likewise."""
    efforts: tuple[EffortFit, ...] | None = None
    """One of each measured torque whose noise is estimated; None likewise."""
    touches: Array | None = None
    """(N, n_c, 3): impulse of each ``Contact`` in that step along z, x and y of its plane [N s]. None likewise."""
    ratios: Array | None = None
    """(N, n_j): ratio of dry friction to its bound at the end of that step, from −1 to 1. None likewise."""

    def __repr__(self) -> str:
        return f"<Trajectory of {self.name!r}: {len(self.t):,} steps, {', '.join(self.signals) or 'no signals'}>"

    def blocks(self) -> Sequence[Block]:
        """Title, and a table of the residuals of each signal."""
        rows = []
        for i, (signal, unit) in enumerate(zip(self.signals, self.units, strict=True)):
            size = rms_of_samples([self], i)
            rows.append((signal, f"{self.samples[:, i].sum():,.0f}", quantity(size, superscripts(unit))))
        rows += [(e.signal, f"{e.steps:,} steps", quantity(e.rms, superscripts(e.unit))) for e in self.efforts or ()]
        title = f"{self.name}: {counted(len(self.t), 'step')} from {number(self.t[0])} to {number(self.t[-1])} s"
        return [title, Table(("signal", "samples", "rms of residuals"), rows)]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each step: its time, and the observed and predicted value of each signal."""
        columns = {"t": self.t}
        for i, signal in enumerate(self.signals):
            columns |= {f"{signal} observed": self.observed[:, i], f"{signal} predicted": self.predicted[:, i]}
        return by_rows(columns)
