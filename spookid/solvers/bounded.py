"""The bounded step: a small convex quadratic program in the parameters."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import lsq_linear

from spookid.kernels import Array
from spookid.solvers.structured import NotPositiveDefiniteError


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
    try:
        factor = cholesky(matrix / np.outer(scale, scale))
    except LinAlgError as error:
        raise NotPositiveDefiniteError(str(error)) from None
    target = solve_triangular(factor, -gradient / scale, trans="T")
    free = np.asarray(solve_triangular(factor, target)) / scale
    if np.all((free >= lower) & (free <= upper)):
        return free
    solution = lsq_linear(factor, target, (lower * scale, upper * scale), method="bvls", tol=1e-14)
    return np.asarray(np.clip(solution.x / scale, lower, upper))
