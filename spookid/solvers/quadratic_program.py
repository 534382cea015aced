"""The bounded step, a small convex quadratic program in the parameters, and least squares by such steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import lapack
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.least_distance import least_distance, null_space
from spookid.transcription.parameter_constraints import LinearConstraints

# SciPy's wrappers take longer than the work.
_dpotrf, _dtrtrs, _dposv = lapack.dpotrf, lapack.dtrtrs, lapack.dposv

_ROUNDING = 1e-12
_GUESSES = 20
"""Rounds after which a method is taken that cannot cycle."""


def bounded_step(
    matrix: Array, gradient: Array, lower: Array, upper: Array, linear: LinearConstraints | None = None
) -> Array:
    """argmin ½ δᵀ S δ + gᵀ δ subject to lower ≤ δ ≤ upper, S positive definite (n_p, n_p); bounds contain 0.

    Args:
        linear: other constraints; S need be positive definite only along its equalities.

    Raises:
        NotPositiveDefiniteError: if S has no Cholesky factor, or the constraints leave no step.
    """
    if not len(gradient):
        return np.zeros(0)
    if linear is not None:
        return _constrained_step(matrix, gradient, lower, upper, linear)
    diagonal = matrix.diagonal()
    if not (diagonal > 0).all():
        raise NotPositiveDefiniteError("a parameter has no curvature left")
    scale = np.sqrt(diagonal)
    scaled = matrix / (scale[:, None] * scale)
    factor, failed = _dpotrf(scaled, lower=0, clean=1)
    if failed:
        raise NotPositiveDefiniteError(f"leading minor {failed} of the parameters")
    target, _ = _dtrtrs(factor, -gradient / scale, lower=0, trans=1)
    free = np.asarray(_dtrtrs(factor, target, lower=0)[0]) / scale
    if ((free >= lower) & (free <= upper)).all():
        return free
    low, high = lower * scale, upper * scale
    if (step := _active_set(scaled, gradient / scale, low, high, free * scale)) is not None:
        return np.where(step <= low, lower, np.where(step >= high, upper, step / scale))
    from scipy.optimize import lsq_linear  # slow to load, and few ask for it

    high = np.maximum(high, np.nextafter(low, np.inf))  # some may have no room at all
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
        if (low == before[0]).all() and (high == before[1]).all():
            return step
        free = np.flatnonzero(~(low | high))
        step = np.where(low, lower, np.where(high, upper, 0.0))
        rows = matrix[free]
        if len(free):
            step[free] = _dposv(rows[:, free], -(gradient[free] + rows @ step))[1]
        slope = gradient + matrix @ step
    return None


def _constrained_step(matrix: Array, gradient: Array, lower: Array, upper: Array, linear: LinearConstraints) -> Array:
    """The same with constraints: with δ = D (p + N y), D the scales, p and N of the equalities, and R of NᵀSN = RᵀR, it
    is the point nearest to the free solution in coordinates R y."""
    diagonal = np.diag(matrix)
    D = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    S, g = matrix * np.outer(D, D), gradient * D
    _, N, inverse = null_space(linear.A_eq * D)
    p = inverse @ linear.b_eq
    R, failed = _dpotrf(N.T @ S @ N, lower=0, clean=1) if N.shape[1] else (np.zeros((0, 0)), 0)
    if failed:
        raise NotPositiveDefiniteError(f"leading minor {failed} of the parameters along their constraints")
    along = np.linalg.solve(R.T, N.T).T  # N R⁻¹
    free = -along.T @ (S @ p + g)
    unit = np.eye(len(g))
    rows = np.vstack([linear.A_in * D, unit, -unit])
    room = np.concatenate([linear.b_in, upper / D, -lower / D]) - rows @ p
    slopes = rows @ along
    shift = least_distance(slopes, room - slopes @ free)
    if shift is None:
        raise NotPositiveDefiniteError("the constraints of the parameters leave no step")
    return _snapped(D * (p + along @ (free + shift)), lower, upper)


def _snapped(step: Array, lower: Array, upper: Array) -> Array:
    """A step with what ends at a bound, but for rounding, there to the last digit."""
    for end in (lower, upper):
        step = np.where(np.abs(step - end) <= _ROUNDING * np.abs(step), end, step)
    return np.clip(step, lower, upper)


_FIRST, _LEAST = 1e-3, 1e-12
"""Damping as a share of the diagonal, at first and at least."""
_DECREASE = 1e-8
"""Share of the squares that the last step may still take."""


def bounded_least_squares(
    rows: Callable[[Array], tuple[Array, Array]], start: Array, lower: Array, upper: Array, evaluations: int
) -> Array:
    """Values (n,) within bounds at which the squares of the rows are least, or as near as so many evaluations come:
    Levenberg–Marquardt. SciPy's `least_squares` does the same, but takes a third of a second to load.

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
