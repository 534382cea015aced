"""How long a motion is watched: windows measured in mean periods of its fastest hinge."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid import horizons
from spookid.assembly import Evidence

SHORT = 2.0
"""Length of a window in which a prediction is judged by its error alone [mean periods]."""
LONG = 4.0
"""Length of a window that is divided into octaves [mean periods]."""
OVERLAP = 8
"""So many of these begin in the length of one: few that do not overlap say too little of a motion that noise moves."""
FIRST = 0.25
"""The first of these, as long as all before it [mean periods]."""
_LEAST_STEPS = 20


def extent(evidence: Sequence[Evidence], step: float, periods: float) -> tuple[int, tuple[int, ...]]:
    """Steps of a window of so many mean periods, and the edges of its octaves: see ``horizons``."""
    period = mean_period(evidence) / step
    longest = max(e.grid.count for e in evidence)
    length = min(max(math.ceil(periods * period), _LEAST_STEPS), longest)
    return length, horizons.edges(length, FIRST * period)


def mean_period(evidence: Sequence[Evidence]) -> float:
    """Of the fastest hinge [s]; the duration of the longest recording if nothing moves.

    It is 2π rms(θ)/rms(θ̇) about the means, exact for a sine and Rice's formula for noise.
    """
    duration = max(e.grid.count * e.grid.step for e in evidence)
    periods = [duration]
    for e in evidence:
        rates = np.std(np.diff(e.guess.angles, axis=0) / e.grid.step, axis=0)
        moving = rates > 0
        periods += (2 * np.pi * np.std(e.guess.angles, axis=0)[moving] / rates[moving]).tolist()
    return float(min(periods))
