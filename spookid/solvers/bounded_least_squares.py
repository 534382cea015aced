"""Nonlinear least squares of a few unknowns within bounds: Levenberg–Marquardt with bounded steps (``bounded_step``).

SciPy's `least_squares` does the same, but takes a third of a second to load.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.quadratic_program import bounded_step

_FIRST, _LEAST = 1e-3, 1e-12
"""Damping as a share of the diagonal, at first and at least."""
_DECREASE = 1e-8
"""Share of the squares that the last step may still take."""


def bounded_least_squares(
    rows: Callable[[Array], tuple[Array, Array]], start: Array, lower: Array, upper: Array, evaluations: int
) -> Array:
    """Values (n,) within bounds at which the squares of the rows are least, or as near as so many evaluations come.

    Args:
        rows: gives the residuals (m,) and their Jacobian (m, n) at values; where they are not finite, no step ends.
        start: within the bounds; its rows are finite.
    """
    at, damping = start, _FIRST
    left, slopes = rows(at)
    for _ in range(evaluations - 1):
        matrix, gradient = slopes.T @ slopes, slopes.T @ left
        diagonal = np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0)
        step = bounded_step(matrix + damping * np.diag(diagonal), gradient, lower - at, upper - at)
        trial = np.clip(at + step, lower, upper)
        there, slopes_there = rows(trial)
        cost = float(left @ left)
        fall = cost - float(there @ there)
        if fall > 0 and np.all(np.isfinite(slopes_there)):  # nothing that is no number falls
            at, left, slopes, damping = trial, there, slopes_there, max(damping / 10, _LEAST)
            if fall <= _DECREASE * cost:
                break
        else:
            damping *= 10
            if np.all(trial == at):
                break
    return at
