"""Lemke's method for the linear complementarity problem w = M z + q, 0 ≤ z ⟂ w ≥ 0 (Cottle, Pang and Stone, 4.4).

A dense tableau with full pivots. An artificial variable z₀ ≥ 0 makes w = M z + q + d z₀ feasible; complementary pivots
follow the path on which at most one pair is out of the basis until z₀ leaves it. Ties of the ratio test are broken
lexicographically, which excludes cycling, except that z₀ leaves first.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask

ACCURATE = 1e-9
"""Largest residual of what is called solved."""
_SWEEPS = 6
"""Of the scaling; each brings the largest entry of every row and column nearer to 1."""
_FLOOR = 1e-5
"""Share of the largest unknown that counts as a term of every row: what cancels to zero leaves its rounding."""
_ROUNDING = 1e-13
"""Unknowns below this share of the largest, once scaled, are zero."""


def solve(M: Array, q: Array) -> Array | None:
    """A solution z, (n,), of w = M z + q, 0 ≤ z ⟂ w ≥ 0; None if there is none, or if it is not found."""
    n = len(q)
    rows, columns = _scaling(M)
    size = float(np.max(np.abs(rows * q), initial=0.0))
    if size == 0:
        return np.zeros(n)
    scaled, right, unit = rows[:, None] * M * columns, rows * q / size, columns * size
    for tilt in (0.0, 0.5, -0.5):  # the path depends on the covering vector
        found = path(scaled, right, 1 + tilt * np.linspace(0, 1, n), 50 + 10 * n)
        if found is None:
            continue
        tableau, active = found
        for z in (unit * _on(scaled, right, active), unit * _rounded(tableau)):
            if residual(M, q, z) <= ACCURATE:
                return z
    return None


def _scaling(M: Array) -> tuple[Array, Array]:
    """Factors of rows and columns that bring their largest entries near 1 (Ruiz); zero rows and columns keep 1."""
    rows, columns = np.ones(len(M)), np.ones(len(M))
    size = np.abs(M)
    for _ in range(_SWEEPS):
        now = rows[:, None] * size * columns
        tall, wide = now.max(axis=1, initial=0.0), now.max(axis=0, initial=0.0)
        rows /= np.sqrt(np.where(tall > 0, tall, 1.0))
        columns /= np.sqrt(np.where(wide > 0, wide, 1.0))
    return rows, columns


def residual(M: Array, q: Array, z: Array) -> float:
    """Largest error in any row of w = M z + q as a share of the row's terms; other units of rows or z change nothing.

    A row with z > 0 is wrong by |w|, one with z = 0 by max(0, −w). A row's terms are |M||z| + |q| and, once rows and
    columns are scaled, a small share of the largest z and q. It is infinite if a z is negative or not finite.
    """
    if not np.all(np.isfinite(z)) or np.any(z < 0):
        return float("inf")
    rows, columns = _scaling(M)
    scaled, q, z = rows[:, None] * M * columns, rows * q, z / columns
    w = scaled @ z + q
    largest = np.max(np.abs(z), initial=0.0) + np.max(np.abs(q), initial=0.0)
    terms = np.abs(scaled) @ np.abs(z) + np.abs(q) + _FLOOR * largest
    wrong = np.where(z > 0, np.abs(w), np.maximum(-w, 0.0))
    return float(np.max(wrong, initial=0.0)) if largest == 0 else float(np.max(wrong / terms, initial=0.0))


def _on(M: Array, q: Array, active: Mask) -> Array:
    """z with w = 0 on the active set and z = 0 off it, once refined."""
    z = np.zeros(len(q))
    try:
        part = np.linalg.inv(M[np.ix_(active, active)])
    except np.linalg.LinAlgError:
        return np.full(len(q), np.nan)
    z[active] = -part @ q[active]
    z[active] -= part @ (M[active] @ z + q[active])
    return _rounded(z)


def _rounded(z: Array) -> Array:
    """z without what rounding left of zeros."""
    size = np.max(np.abs(z), initial=0.0)
    return np.where((z < _ROUNDING * size) & (z > -ACCURATE * size), 0.0, z)


_TIE = 1e-12
"""Ratios closer than this share of the largest entry of the scaled right-hand side are tied."""
_PIVOT = 1e-10
"""Entries below this share of the largest in their column are no pivots."""


def path(M: Array, q: Array, cover: Array, most_pivots: int) -> tuple[Array, Mask] | None:
    """Follow the path from the covering vector ``cover`` > 0, (n,).

    Returns:
        z (n,) as the tableau has it and the mask of the z in the basis (n,); None if the path runs off to infinity or
        is not at its end after ``most_pivots``.
    """
    n = len(q)
    if np.min(q, initial=0.0) >= 0:
        return np.zeros(n), np.zeros(n, dtype=bool)
    # Columns: w, z, z₀, right-hand side. The first n hold the inverse of the basis, for lexicographic ties.
    table = np.hstack([np.eye(n), -M, -cover[:, None], q[:, None]])
    basis = np.arange(n)
    entering = 2 * n
    row = int(np.argmin(q / cover))
    for _ in range(most_pivots):
        leaving = int(basis[row])
        _pivot(table, basis, row, entering)
        if leaving == 2 * n:
            values = np.zeros(2 * n + 1)
            values[basis] = table[:, -1]
            return np.maximum(values[n : 2 * n], 0.0), np.isin(np.arange(n, 2 * n), basis)
        entering = leaving + n if leaving < n else leaving - n
        found = _leaving_row(table, basis, entering)
        if found is None:
            return None
        row = found
    return None


def _pivot(table: Array, basis: Integers, row: int, entering: int) -> None:
    table[row] /= table[row, entering]
    column = table[:, entering].copy()
    column[row] = 0.0
    table -= np.outer(column, table[row])
    basis[row] = entering


def _leaving_row(table: Array, basis: Integers, entering: int) -> int | None:
    """The row whose basic variable is first to reach zero; None if none does."""
    n = len(basis)
    column = table[:, entering]
    rows = np.flatnonzero(column > _PIVOT * max(1.0, float(np.max(np.abs(column)))))
    if not len(rows):
        return None
    ratios = table[rows, -1] / column[rows]
    tied = rows[ratios <= np.min(ratios) + _TIE]
    artificial = tied[basis[tied] == 2 * n]
    if len(artificial):
        return int(artificial[0])
    for k in range(n):
        if len(tied) == 1:
            break
        ratios = table[tied, k] / column[tied]
        tied = tied[ratios <= np.min(ratios) + _TIE]
    return int(tied[np.argmax(column[tied])])
