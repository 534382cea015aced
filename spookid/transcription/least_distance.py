"""The point nearest to the origin that satisfies linear equalities and inequalities.

Inequalities by Lawson and Hanson's reduction to non-negative least squares (Solving Least Squares Problems, 1974,
chapter 23), which says of itself whether any point satisfies them; it ends after finitely many steps.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import nnls

RANK = 1e-9
"""Share of the largest singular value of rows of length one up to which they say nothing new."""
_CONTRADICTED = 1e-9
"""Rows of length one contradict each other if no point satisfies them to this, distances counted in the largest."""


def null_space(rows: Array) -> tuple[Array, Array, Array]:
    """Orthonormal bases of what rows (k, n) see and of what they do not, (n, r) and (n, n − r), and the pseudo-inverse
    (n, k); each row counts alike."""
    lengths = np.linalg.norm(rows, axis=1)
    units = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0)
    if not len(rows):
        return np.zeros((rows.shape[1], 0)), np.eye(rows.shape[1]), np.zeros(rows.shape[::-1])
    U, s, V = np.linalg.svd(units[:, None] * rows)
    rank = int(np.sum(s > RANK * np.max(s, initial=0.0))) if np.max(s, initial=0.0) > 0 else 0
    inverse = V[:rank].T / s[:rank] @ U[:, :rank].T * units
    return V[:rank].T, V[rank:].T, inverse


def least_distance(rows: Array, values: Array) -> Array | None:
    """argmin |x| of rows x ≤ values, (n,); None if no point satisfies them.

    Args:
        rows: (k, n).
        values: (k,); rows with infinite ones say nothing.
    """
    lengths = np.linalg.norm(rows, axis=1)
    largest = np.max(np.abs(values[np.isfinite(values)]), initial=0.0)
    empty = lengths <= 1e-14 * np.max(lengths, initial=0.0)
    if np.any(values[empty] < -_CONTRADICTED * largest):
        return None
    kept = ~empty & np.isfinite(values)
    C, d = -rows[kept] / lengths[kept, None], -values[kept] / lengths[kept]
    farthest = np.max(d, initial=0.0)
    if farthest <= 0:
        return np.zeros(rows.shape[1])
    weights, distance = nnls(np.vstack([C.T, d / farthest]), np.append(np.zeros(C.shape[1]), 1.0))
    if distance <= _CONTRADICTED:
        return None
    active = weights > 0
    nearest = C.T @ weights * (farthest / distance**2)
    # Where the active rows alone put it is the same to more digits.
    polished = np.linalg.lstsq(C[active], d[active], rcond=RANK)[0]
    better = np.max(d - C @ polished) <= max(np.max(d - C @ nearest), 1e-12 * farthest)
    return np.asarray(polished if better else nearest)
