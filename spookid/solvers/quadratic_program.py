"""The bounded step: a small convex quadratic program in the parameters."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_lapack_funcs
from scipy.optimize import lsq_linear

from spookid.kernels.kernel import Array
from spookid.solvers.structured import NotPositiveDefiniteError

_dpotrf, _dtrtrs = get_lapack_funcs(("potrf", "trtrs"), dtype=np.float64)  # SciPy's wrappers take longer than the work

_GUESSES = 20
"""Rounds after which a method is taken that cannot cycle."""


def bounded_step(matrix: Array, gradient: Array, lower: Array, upper: Array) -> Array:
    """argmin ½ δᵀ S δ + gᵀ δ subject to lower ≤ δ ≤ upper, S positive definite (n_p, n_p); bounds contain 0.

    Raises:
        NotPositiveDefiniteError: if S has no Cholesky factor.
    """
    if not len(gradient):
        return np.zeros(0)
    if not np.all(np.diag(matrix) > 0):
        raise NotPositiveDefiniteError("a parameter has no curvature left")
    scale = np.sqrt(np.diag(matrix))
    factor, failed = _dpotrf(matrix / np.outer(scale, scale), lower=0, clean=1)
    if failed:
        raise NotPositiveDefiniteError(f"leading minor {failed} of the parameters")
    target, _ = _dtrtrs(factor, -gradient / scale, lower=0, trans=1)
    free = np.asarray(_dtrtrs(factor, target, lower=0)[0]) / scale
    if np.all((free >= lower) & (free <= upper)):
        return free
    if (step := _active_set(matrix, gradient, lower, upper, free)) is not None:
        return step
    low = lower * scale
    high = np.maximum(upper * scale, np.nextafter(low, np.inf))  # some may have no room at all
    solution = lsq_linear(factor, target, (low, high), method="bvls", tol=1e-14)
    return np.asarray(np.clip(solution.x / scale, lower, upper))


def _active_set(matrix: Array, gradient: Array, lower: Array, upper: Array, step: Array) -> Array | None:
    """The same by the primal-dual active-set method (Hintermüller, Ito and Kunisch, 2002), which guesses at once all
    parameters that end at a bound; None if it has not settled soon."""
    slope = np.zeros_like(step)
    low = high = np.zeros(len(step), dtype=bool)
    for _ in range(_GUESSES):
        before = low, high
        low = (step < lower) | (low & (slope > 0))
        high = (step > upper) | (high & (slope < 0))
        if np.array_equal(low, before[0]) and np.array_equal(high, before[1]):
            return step
        free = ~(low | high)
        step = np.where(low, lower, np.where(high, upper, 0.0))
        rest = gradient[free] + matrix[np.ix_(free, ~free)] @ step[~free]
        scale = np.sqrt(np.diag(matrix)[free])
        scaled = matrix[np.ix_(free, free)] / np.outer(scale, scale)
        step[free] = cho_solve(cho_factor(scaled, check_finite=False), -rest / scale, check_finite=False) / scale
        slope = gradient + matrix @ step
    return None
