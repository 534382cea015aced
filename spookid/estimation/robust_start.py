"""Where a fit with robust losses begins: at a plain one without the samples that stand out from their neighbours.

Robust losses hardly feel samples that are far off, and far from the truth these are all of them: with a wrong inertia
the whole recording may pass for outliers. So the losses come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.preparing import medians
from spookid.data.channels import BENT, Loss, Sensor
from spookid.kernels.arrays import Array

_FAR = 10.0
"""Times its typical distance from the median of its neighbours, from which on a sample stands out."""


def without_outliers(problem: Declaration) -> Declaration:
    """The problem with linear losses and without samples that stand out; itself if all its losses are linear."""
    robust = [channel for channel in problem.channels if channel.loss in BENT]
    if not robust:
        return problem
    recordings = []
    for recording in problem.recordings:
        kept = {c.signal: _without(recording.signal(c.signal), c.period) for c in robust}
        recordings.append(recording.with_signals(**kept))
    plain = [linear(sensor, BENT) for sensor in problem.observations]
    estimator = "hard" if problem.estimator == "hard" else "noise"
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
