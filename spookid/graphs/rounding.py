"""The cost that rounding leaves of a graph whose factors can all be met: one without data, as of a simulation."""

from __future__ import annotations

import numpy as np

from spookid.transcription.transcription import Point, Transcription

_EPSILON = 4 * float(np.finfo(float).eps)
_NOTHING = 1e-11
"""Share of its sigma below which an error is nothing in any case."""


def rounding(problem: Transcription, point: Point) -> float:
    """Squares of ε Σ |J| |x| over all soft rows, with the sizes of the unknowns at ``point``."""
    total = _NOTHING**2 * problem.rows
    states, width = point.states[0], problem.manifold.tangent
    sizes = np.ones((len(states), width))
    if states.shape[1] == width:  # without rotations, whose coordinates are of order one
        sizes = np.abs(states)
    for factor in (factor for factor in problem.factors if factor.soft):
        matrix, count = problem.linearize_factor(factor, point, 0).matrix, factor.count(len(states))
        for i, offset in enumerate(factor.variables):
            slopes = np.abs(matrix[:, i * width : (i + 1) * width])
            total += float(np.sum((_EPSILON * np.einsum("kcr,kc->kr", slopes, sizes[offset : offset + count])) ** 2))
    return total
