"""A small least-squares problem in square-root form with bounds."""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.solvers.fronts import Front, Pivots, eliminate

_ROUNDS = 20
_SHARE, _SEEN = 0.8, 1e-6


def free_solution(pivots: Pivots) -> Array:
    """The unknowns (n,) at which the rows' cost is least; those that no row gives stay 0."""
    step = np.zeros(pivots.count)
    pivots.solve(step)
    return step


def bounded_solution(pivots: Pivots, step: Array, lower: Array, upper: Array) -> Array:
    """The unknowns (n,) at which the rows' cost is least, lower ≤ δ ≤ upper with bounds that contain 0.

    Args:
        step: the same without bounds.

    Unknowns that end at a bound are guessed all at once (Hintermüller, Ito and Kunisch, 2002); those that no row gives
    stay 0.
    """
    if np.all((step >= lower) & (step <= upper)):
        return step
    slope = np.zeros_like(step)
    low = high = np.zeros(len(step), dtype=bool)
    for _ in range(_ROUNDS):
        before = low, high
        low = (step < lower) | (low & (slope > 0))
        high = (step > upper) | (high & (slope < 0))
        if np.array_equal(low, before[0]) and np.array_equal(high, before[1]):
            break
        step = _held(pivots, np.where(low, lower, np.where(high, upper, 0.0)), low | high)
        soft = pivots.rows[pivots.hard :]
        values = soft[:, :-1] @ step + soft[:, -1] + pivots.shifts[pivots.hard :]
        slope = soft[:, :-1].T @ values
    return np.clip(step, lower, upper)


def _held(pivots: Pivots, ends: Array, held: Mask) -> Array:
    """The solution with some unknowns held where they end."""
    rows = pivots.rows.copy()
    rows[:, -1] += pivots.shifts + rows[:, :-1] @ ends
    free = np.flatnonzero(~held)
    rows = rows[:, [*free, -1]]
    front = Front(rows[pivots.hard :], rows[: pivots.hard], np.zeros(len(free)))
    found, step = eliminate(front, len(free), len(free))[0], ends.copy()
    inner = np.zeros(len(free))
    found.solve(inner)
    step[free] = inner
    return step


def bent(pivots: Pivots, bend: Array) -> Pivots:
    """Rows of the same unknowns with ½ δᵀ K δ more, K of any sign: of what the rows know of a direction it takes
    ``_SHARE`` at the most, and nothing where they know next to nothing."""
    soft, n = pivots.rows[pivots.hard :], len(bend)
    lengths = np.sqrt(np.sum(soft[:, :-1] ** 2, axis=0))
    scale = np.where(lengths > 0, lengths, 1.0)
    U, s, V = np.linalg.svd(soft[:, :-1] / scale, full_matrices=False)
    values = U.T @ (soft[:, -1] + pivots.shifts[pivots.hard :])
    seen = s > _SEEN * np.max(s, initial=0.0)
    along = V[seen] / s[seen, None] / scale
    curvatures, turn = np.linalg.eigh(along @ bend @ along.T)
    root = np.sqrt(1 + np.maximum(curvatures, -_SHARE))
    slopes = s[:, None] * V * scale
    slopes[seen], values[seen] = root[:, None] * (turn.T @ slopes[seen]), (turn.T @ values[seen]) / root
    rows = np.concatenate([slopes, values[:, None]], axis=1)
    if not pivots.hard and len(rows) >= n:
        triangle = np.asarray(np.linalg.qr(rows, mode="r"))[:n]
        if np.all(np.diag(triangle) != 0):
            return Pivots(triangle, np.arange(n), np.zeros(n), 0, n)
    return eliminate(Front(rows, pivots.rows[: pivots.hard], np.zeros(n)), n, n)[0]
