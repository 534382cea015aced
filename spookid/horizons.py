"""Over which horizons a prediction is judged: windows of a motion, each in octaves of the time since it began.

Over a long horizon small errors of parameters add up, and a model that dissipates wrongly fails whatever they are; over
a short one noise in the first state drowns them. So each doubling of the horizon counts the same.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spookid.kernels import Array

_TINY = float(np.finfo(float).tiny)


def starts(count: int, length: int, most: int, apart: int) -> NDArray[np.intp]:
    """First steps of windows of ``length`` steps in a recording of ``count``.

    They begin ``apart`` steps from one another and cover ``most`` steps together, but there is one at least; some are
    left out evenly.
    """
    first = np.arange(0, count - length + 1, apart)
    room = max(most // length, 1)
    return first if len(first) <= room else first[np.arange(room) * len(first) // room]


def edges(length: int, shortest: float) -> tuple[int, ...]:
    """Steps at which octaves of a window begin, and its length: halves of the length as long as ``shortest``."""
    count = max(math.floor(math.log2(length / max(shortest, 1.0))), 0)
    return (0, *(round(length / 2**i) for i in range(count, -1, -1)))


def score(squares: Array, edges: tuple[int, ...]) -> float:
    """Geometric mean over windows and octaves of the root mean squares.

    A window in which small differences grow large, as where a pendulum may fall to either side, tells little; in this
    mean it does not outweigh all others.

    Args:
        squares: of windows, (windows, steps, samples); NaN where a sample is missing.
        edges: as ``edges`` gives them.

    Returns:
        Infinite if a square is, NaN without samples.
    """
    sizes: list[float] = []
    for first, last in pairwise(edges):
        parts = squares[:, first:last].reshape(len(squares), -1)
        known = parts[np.any(~np.isnan(parts), axis=1)]
        sizes += np.nanmean(known, axis=1).tolist()
    return float(np.exp(np.mean(np.log(np.maximum(sizes, _TINY))) / 2)) if sizes else float("nan")
