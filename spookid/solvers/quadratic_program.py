"""Small convex quadratic programs in the parameters, with bounds and constraints, and least squares by their steps.

The module also gives the multipliers of bounds and constraints, and the projected gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import ROUNDING
from spookid.kernels.scipy_parts import lapack, nnls
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.parameter_constraints import LinearConstraints, least_distance, null_space
from spookid.transcription.transcription import Transcription


def unopposed(problem: Transcription, parameters: Array, gradient: Array, lengths: Array) -> Array:
    """Remaining gradient (n_p,) after active bounds and constraints have balanced as much as possible. ``lengths``: of
    the columns of the Jacobian, positive, (n_p,), as units in which the remainder is minimal."""
    low, high = parameters <= problem.lower, parameters >= problem.upper
    if problem.constraints is None:
        return np.where((low & (gradient > 0)) | (high & (gradient < 0)), 0.0, gradient)
    return gradient + balanced(problem, parameters, gradient, lengths)[1]


def balanced(problem: Transcription, parameters: Array, gradient: Array, lengths: Array) -> tuple[Array, Array]:
    """Multipliers of the constraints, 0 for inactive ones, (k,), and the contribution of these and of bounds to the
    gradient, (n_p,)."""
    assert problem.constraints is not None
    low, high = parameters <= problem.lower, parameters >= problem.upper
    rows, unit = problem.constraints.values(parameters)[1], np.eye(len(parameters))
    active = np.flatnonzero(problem.constraints.active(parameters))
    both = active[active < problem.constraints.equalities]
    pushes = np.vstack([rows[active], -rows[both], unit[high], -unit[low]])
    sizes = np.linalg.norm(pushes / lengths, axis=1)
    used, weights = sizes > 0, np.zeros(len(sizes))
    if np.any(used):  # SciPy's routine needs a column
        weights[used] = nnls((pushes[used] / lengths / sizes[used, None]).T, -gradient / lengths)[0] / sizes[used]
    multipliers, equal = np.zeros(len(rows)), slice(len(active), len(active) + len(both))
    multipliers[active] += weights[: len(active)]
    multipliers[both] -= weights[equal]
    return multipliers, weights @ pushes


# SciPy's wrappers take longer than the work.
_dpotrf, _dtrtrs, _dposv = lapack.dpotrf, lapack.dtrtrs, lapack.dposv

_GUESSES = 20
"""Rounds after which the primal-dual method may go in a circle."""


def bounded_step(
    matrix: Array, gradient: Array, lower: Array, upper: Array, linear: LinearConstraints | None = None
) -> Array:
    """Minimum of ½ δᵀ S δ + gᵀ δ for lower ≤ δ ≤ upper, S positive definite (n_p, n_p); bounds contain 0.

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
        raise NotPositiveDefiniteError("the data do not determine a parameter")
    scale = np.sqrt(diagonal)
    scaled = matrix / (scale[:, None] * scale)
    factor, failed = _dpotrf(scaled, lower=0, clean=1)
    if failed:
        raise NotPositiveDefiniteError(f"singular information on parameters, minor {failed}")
    target, _ = _dtrtrs(factor, -gradient / scale, lower=0, trans=1)
    free = np.asarray(_dtrtrs(factor, target, lower=0)[0]) / scale
    if ((free >= lower) & (free <= upper)).all():
        return free
    low, high = lower * scale, upper * scale
    gradient = gradient / scale

    def held(ends: Array, at: Mask) -> tuple[Array, Array]:
        step, moving = ends.copy(), np.flatnonzero(~at)
        rows = scaled[moving]
        if len(moving):
            step[moving] = _dposv(rows[:, moving], -(gradient[moving] + rows @ ends))[1]
        return step, gradient + scaled @ step

    step, settled = primal_dual(free * scale, low, high, held)
    if settled:
        return np.where(step <= low, lower, np.where(step >= high, upper, step / scale))
    none = np.zeros((0, len(lower)))
    return _constrained_step(
        matrix, gradient * scale, lower, upper, LinearConstraints(none, none[:, 0], none, none[:, 0])
    )


def primal_dual(
    step: Array, lower: Array, upper: Array, held: Callable[[Array, Mask], tuple[Array, Array]]
) -> tuple[Array, bool]:
    """The minimum of a convex quadratic within bounds that contain 0, and whether it has converged, by the primal-dual
    active-set method (Hintermüller, Ito and Kunisch, 2002), which initial values at once all unknowns that end at a
    bound. ``step``: the minimum without bounds; ``held``: gives the minimum with some unknowns at ends, and its
    slopes."""
    slope = np.zeros_like(step)
    low = high = np.zeros(len(step), dtype=bool)
    for _ in range(_GUESSES):
        before = low, high
        low = (step < lower) | (low & (slope > 0))
        high = (step > upper) | (high & (slope < 0))
        if (low == before[0]).all() and (high == before[1]).all():
            return step, True
        step, slope = held(np.where(low, lower, np.where(high, upper, 0.0)), low | high)
    return step, False


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
        raise NotPositiveDefiniteError(f"singular information on parameters within constraints, minor {failed}")
    along = np.linalg.solve(R.T, N.T).T  # N R⁻¹
    free = -along.T @ (S @ p + g)
    unit = np.eye(len(g))
    rows = np.vstack([linear.A_in * D, unit, -unit])
    room = np.concatenate([linear.b_in, upper / D, -lower / D]) - rows @ p
    slopes = rows @ along
    shift = least_distance(slopes, room - slopes @ free)
    if shift is None:
        raise NotPositiveDefiniteError("constraints on the parameters allow no step")
    return _snapped(D * (p + along @ (free + shift)), lower, upper)


def _snapped(step: Array, lower: Array, upper: Array) -> Array:
    """A step with what ends at a bound, but for rounding, there to the last digit."""
    for end in (lower, upper):
        step = np.where(np.abs(step - end) <= ROUNDING * np.abs(step), end, step)
    return np.clip(step, lower, upper)


_FIRST = 1e-3
"""Damping as a share of the diagonal, at first."""
DECREASE = 1e-8
"""Share of the squares that the last step may still take."""


def bounded_least_squares(
    rows: Callable[[Array], tuple[Array, Array]], start: Array, lower: Array, upper: Array, evaluations: int
) -> Array:
    """Values (n,) within bounds with least squares, up to a number of evaluations: Levenberg–Marquardt. SciPy's
    `least_squares` does the same, but takes a third of a second to load.

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
            at, left, slopes, damping = trial, there, slopes_there, max(damping / 10, ROUNDING)
            if fall <= DECREASE * cost:
                break
        else:
            damping *= 10
            if np.all(trial == at):
                break
    return at
