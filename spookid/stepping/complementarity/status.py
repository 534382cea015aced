"""How a complementarity solver ended, and the measure of its error that all of them share."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.kernel import Array

Mask = NDArray[np.bool_]

ACCURATE = 1e-9
"""Largest residual of what is called solved."""
_SWEEPS = 6
"""Of the scaling; each brings the largest entry of every row and column nearer to 1."""
_FLOOR = 1e-5
"""Share of the largest unknown that counts as a term of every row: what cancels to zero leaves its rounding."""


class Status(Enum):
    """How a solver ended; the values are advice."""

    SOLVED = "solved"
    RAY = "Lemke's path ran off to infinity: there may be no solution"
    TOO_MANY_PIVOTS = "the path was not followed to its end: the problem may have no solution, or be badly scaled"
    SINGULAR = "the equations without complementarity contradict one another"
    INACCURATE = "rounding left a residual that is too large: scale the problem"


def scaling(M: Array) -> tuple[Array, Array]:
    """Factors of rows and columns that bring their largest entries near 1 (Ruiz); zero rows and columns keep 1."""
    rows, columns = np.ones(len(M)), np.ones(len(M))
    size = np.abs(M)
    for _ in range(_SWEEPS):
        now = rows[:, None] * size * columns
        tall, wide = now.max(axis=1, initial=0.0), now.max(axis=0, initial=0.0)
        rows /= np.sqrt(np.where(tall > 0, tall, 1.0))
        columns /= np.sqrt(np.where(wide > 0, wide, 1.0))
    return rows, columns


def residual(M: Array, q: Array, x: Array, equations: int = 0) -> float:
    """Largest error in any row of w = M x + q as a share of the row's terms; other units of rows or x change nothing.

    A row among the first ``equations``, or with x > 0, is wrong by |w|; one with x = 0 by max(0, −w). A row's terms are
    |M||x| + |q| and, once rows and columns are scaled, a small share of the largest x and q. It is infinite if an x off
    the equations is negative, or any not finite.
    """
    free = np.arange(len(x)) < equations
    if not np.all(np.isfinite(x)) or np.any(x[~free] < 0):
        return float("inf")
    rows, columns = scaling(M)
    scaled, q, x = rows[:, None] * M * columns, rows * q, x / columns
    w = scaled @ x + q
    largest = np.max(np.abs(x), initial=0.0) + np.max(np.abs(q), initial=0.0)
    terms = np.abs(scaled) @ np.abs(x) + np.abs(q) + _FLOOR * largest
    wrong = np.where(free | (x > 0), np.abs(w), np.maximum(-w, 0.0))
    return float(np.max(wrong, initial=0.0)) if largest == 0 else float(np.max(wrong / terms, initial=0.0))
