"""Where impacts are before any fit: smoothed motions have no jumps, so that samples themselves tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.assembly.initialization import Guess
from spookid.assembly.schedules import FAR, Strikes, strikes_at
from spookid.data.sampling import Grid
from spookid.kernels.kernel import Array
from spookid.mechanics.impacts import Impact
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in

Places = NDArray[np.intp]

_SIDE: Places = np.arange(2, 8)
"""Steps before and after an impact, from the one nearest to it, that tell how its point moves there."""
_JUMP = 3.0
"""Velocities that jump by less than so many of their errors do not tell when."""


def begun(
    model: Model, smooth: Guess, samples: Guess, told: Strikes, steps: Grid, values: Mapping[str, float]
) -> tuple[Guess, Strikes]:
    """A guess that jumps at impacts, and these where parabolas on both sides of them meet.

    Args:
        smooth, samples: the guess from smoothed sensors, and from their samples as they are.
        values: of the parameters.
    """
    times = [list(own) for own in told.times]
    every = sorted(x for own in times for x in own)
    states, moved = smooth.states.copy(), smooth.displacements.copy()
    for i, impact in enumerate(model.holding.contacts):
        if not isinstance(impact, Impact) or not times[i]:
            continue
        heights = _heights(model, impact, samples.states, values)
        for j, x in enumerate(times[i]):
            k = round(x)
            near = [abs(x - other) for other in every if other != x]
            room = min([*near, k + 1, steps.count - k])
            side = _SIDE[room > _SIDE]
            times[i][j] = _meeting(heights, k, side, x)
            own = slice(max(k - _SIDE[-1], 0), k + _SIDE[-1] + 1)
            states[own], moved[own] = samples.states[own], samples.displacements[own]
    return replace(smooth, states=states, displacements=moved), strikes_at(model, times, steps, told.scheduled)


def _heights(model: Model, impact: Impact, states: Array, values: Mapping[str, float]) -> Array:
    """Of its point over the plane, (N,) [m]."""
    q = ca.SX.sym("q", model.configuration.ambient)
    height = impact.height(model.original or model, q)
    known = parameters_in([height], impact.what, ignore=[q])
    function = ca.Function("height", [q, ca.vertcat(ca.SX(0, 1), *known)], [height])
    numbers = ca.DM([values[p.name] for p in known])
    heights: Array = np.asarray(function(states[:, : q.numel()].T, numbers).full())[0]
    return heights


def _meeting(heights: Array, k: int, side: Places, told: float) -> float:
    """Where the parabolas through the heights on both sides of step k meet, in steps; what was told if they do not."""
    if len(side) < 4:
        return told
    fits = [np.polyfit(sign * side, heights[k + sign * side], 2) for sign in (-1, 1)]
    gap = fits[0] - fits[1]
    left = [heights[k + s * side] - np.polyval(f, s * side) for s, f in zip((-1, 1), fits, strict=True)]
    if abs(gap[1]) < _JUMP * np.std(left):
        return told
    at = 0.0
    for _ in range(5):
        slope = 2 * gap[0] * at + gap[1]
        at -= float(np.polyval(gap, at) / slope) if slope else np.inf
    return k + at if abs(k + at - told) <= FAR else told
