"""Several wrong samples in a row: a position that stands still and jumps on, as of an encoder that is stuck or a link
that drops out and holds the last value, or that jumps away and comes back.

Where a fit with robust losses begins: at a plain one without the samples that stand out from their neighbours.

Robust losses hardly feel samples that are far off, and far from the truth these are all of them: with a wrong inertia
the whole recording may pass for outliers. So the losses come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.assembly.initialization import medians
from spookid.assembly.problem import Problem
from spookid.data.channels import BENT, Loss, Sensor
from spookid.kernels.arrays import Array, Mask

_JUMP = 10.0
"""Times the median change of the ten samples around from which on a change from one sample to the next is a jump."""
_FASTEST = 5.0
"""Times the change that nine in ten samples stay below that it is, too."""
_NEAR = 5
"""Samples to each side that are around."""
_LEAST = 3
"""Equal samples in a row that stand still."""
_BACK = 0.5
"""Share of a jump that may be left when it has come back."""
_FAST = 0.5
"""Share of the change that nine in ten samples stay below from which on it moves fast."""


def stuck(values: Array, period: float | None) -> Mask:
    """Samples (N,) of a position that no motion makes: those that stand still until one jumps on, but for the first,
    which may be true; those from a jump on until another one comes back; and those that stand still while it moves fast
    before and after, where no jump is larger than the motion."""
    result, finite = np.zeros(len(values), dtype=np.bool_), np.isfinite(values)
    known = values[finite] if period is None else np.unwrap(values[finite], period=period)
    if len(known) < 4 * _NEAR:
        return result
    changes = np.diff(known)
    jumps = np.flatnonzero(_jumps(changes)).tolist()
    wrong = np.zeros(len(known), dtype=np.bool_)
    for k in jumps:
        first = k
        while first > 0 and changes[first - 1] == 0:
            first -= 1
        if k - first + 1 >= _LEAST:
            wrong[first + (first - 1 not in jumps) : k + 1] = True
    for k, back in pairwise(jumps):
        if abs(changes[k] + changes[back]) < _BACK * abs(changes[k]):
            wrong[k + 1 : back + 1] = True
    for first, last in _halts(changes):
        wrong[first : last + 1] = True
    result[finite] = wrong
    return result


def _halts(changes: Array) -> Iterator[tuple[int, int]]:
    """First and last of the samples that stand still in the midst of fast motion; not the first if it lies where motion
    would have come to."""
    fastest = _fastest(changes)
    still = np.concatenate([[False], changes == 0, [False]])
    begins, ends = np.flatnonzero(~still[:-1] & still[1:]), np.flatnonzero(still[:-1] & ~still[1:])
    for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
        before, after = changes[max(first - 1 - _NEAR, 0) : max(first - 1, 0)], changes[last + 1 : last + 1 + _NEAR]
        around = np.concatenate([before, after])
        if last - first + 1 < _LEAST or min(len(before), len(after)) < _NEAR or np.abs(around).min() < _FAST * fastest:
            continue
        usual = np.median(before)
        yield first + (abs(changes[first - 1] - usual) < _BACK * abs(usual)), last


def _jumps(changes: Array) -> Mask:
    """True for changes (N − 1,) that are far larger than those around and nearly all others."""
    sizes = np.abs(changes)
    around = sliding_window_view(np.pad(sizes, _NEAR, mode="symmetric"), 2 * _NEAR + 1)
    typical = np.median(np.delete(around, _NEAR, axis=1), axis=1)
    return np.asarray((sizes > _JUMP * typical) & (sizes > _FASTEST * _fastest(changes)))


def _fastest(changes: Array) -> float:
    """What nine in ten of those that are none stay below."""
    moving = np.abs(changes[changes != 0])
    return float(np.quantile(moving, 0.9)) if len(moving) else np.inf


_FAR = 10.0
"""Times its typical distance from the median of its neighbours, from which on a sample stands out."""


def without_outliers(problem: Problem) -> Problem:
    """The problem with linear losses and without samples that stand out; itself if all its losses are linear."""
    robust = [channel for channel in problem.channels if channel.loss in BENT]
    if not robust:
        return problem
    recordings = []
    for recording in problem.recordings:
        kept = {c.signal: _without(recording.signal(c.signal), c.period) for c in robust}
        recordings.append(recording.with_signals(**kept))
    plain = [linear(sensor, BENT) for sensor in problem.observations]
    estimator = "hard" if problem.is_hard else "noise"
    straight = problem.with_(observations=plain, recordings=recordings, step=problem.step, step_correction=False)
    return straight.with_(estimator=estimator)


def linear(sensor: Sensor, losses: Sequence[Loss]) -> Sensor:
    """The sensor with a linear loss, if its own is one of these."""
    if sensor.loss not in losses:
        return sensor
    other = copy(sensor)
    object.__setattr__(other, "loss", "linear")
    return other


def _without(values: Array, period: float | None) -> Array:
    """Samples (N,), those that stand out missing."""
    away = np.abs(values - medians(values, period))
    if period is not None:
        away = np.minimum(away % period, -away % period)
    known = away[np.isfinite(away)]
    moving = known[known > 0]
    # Of an encoder that hardly moves most samples are their medians.
    typical = float(np.median(known)) or (float(np.min(moving)) if len(moving) else np.inf)
    return np.where(away > _FAR * typical, np.nan, values)
