"""Lemke's method for the linear complementarity problem w = M z + q, 0 ≤ z ⟂ w ≥ 0 (Cottle, Pang and Stone, 4.4).

A dense tableau with full pivots. An artificial variable z₀ ≥ 0 makes w = M z + q + d z₀ feasible; complementary pivots
follow the path on which at most one pair is out of the basis until z₀ leaves it. Ties of the ratio test are broken
lexicographically, which excludes cycling, except that z₀ leaves first.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.kernel import Array, Integers, Mask

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
