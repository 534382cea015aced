"""Signals and poses as measured and as a model has them, what is between, and at which steps motion is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.records import dataclass

FRAMES_PER_SECOND = 20
LONGEST, SHORTEST = 10.0, 2.0
"""Durations of what is shown [s]: of a longer motion the first part, a shorter one is slowed down."""
_SLOWER = (1, 2, 5, 10, 20, 50, 100)


class Motion(Protocol):
    """Signals of one recording, measured and as a model has them; N steps, n_o signals. A Trajectory is one."""

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
    """Measured less modelled values of one signal, (N,), NaN where a sample is missing."""
    return motion.observed[:, column] - motion.predicted[:, column]


class Sampled(Motion, Protocol):
    """What a Trajectory knows of samples between the steps, too."""

    @property
    def samples(self) -> Array: ...
    @property
    def squares(self) -> Array | None: ...
    @property
    def largest(self) -> Array | None: ...


def rms_of_samples(motions: Sequence[Sampled], column: int) -> float:
    """Root mean square of the errors of all samples of a signal; of those at the steps where no others are known."""
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
    """Largest error of all samples of a signal, likewise; NaN if there are none."""
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
    """Root mean square of the finite ones; NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else math.nan


def slowness(duration: float) -> int:
    """How many times slower than it was a motion of so many seconds is shown; 1 is real time."""
    return next((slower for slower in _SLOWER if slower * duration >= SHORTEST), _SLOWER[-1])


def moments(t: Array) -> Integers:
    """Steps that are shown one after another, of a motion with steps at t (N,) [s]; at coarse ones some more than once,
    so that the pace stays what it is."""
    duration = float(t[-1] - t[0])
    shown, slower = min(duration, LONGEST), slowness(duration)
    count = max(int(shown * FRAMES_PER_SECOND * slower + 1e-9), 1)
    times = t[0] + np.arange(count) / (FRAMES_PER_SECOND * slower)
    following = np.clip(np.searchsorted(t, times), 1, max(len(t) - 1, 1))
    nearer_before = times - t[following - 1] <= t[following] - times
    return np.asarray(np.where(nearer_before, following - 1, following), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MeasuredPoses:
    """Where the signals of one recording and the joints alone put the bodies, at the steps that an animation shows."""

    frames: Array
    """(F,): numbers of the steps; none of a recording that is not animated."""
    poses: Array
    """(F, n_b, 7): NaN where the signals do not determine them."""

    def __repr__(self) -> str:
        known = np.isfinite(self.poses).all(axis=(1, 2)).sum()
        return f"<MeasuredPoses: {known} of {len(self.frames)} determined>"
