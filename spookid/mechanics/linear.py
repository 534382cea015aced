"""Small sparse systems of linear equations in symbols."""

from __future__ import annotations

import casadi as ca


def solved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """matrix⁻¹ right for a small sparse matrix (n, n), block after block of its lower triangular form; right (n, k)."""
    matrix = ca.sparsify(matrix)
    count, rows, columns, row_cuts, column_cuts, *_ = matrix.sparsity().btf()
    found, none = [ca.SX(0)] * matrix.shape[0], ca.SX(0, right.shape[1])
    for block in range(count):
        at = rows[row_cuts[block] : row_cuts[block + 1]]
        own = columns[column_cuts[block] : column_cuts[block + 1]]
        before = columns[: column_cuts[block]]
        known = ca.vertcat(none, *(found[i] for i in before))
        part = ca.solve(matrix[at, own], right[at, :] - matrix[at, before] @ known)
        for i, value in zip(own, ca.vertsplit(part), strict=True):
            found[i] = value
    return ca.vertcat(none, *found)


def halved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """L⁻¹ right with L Lᵀ the small symmetric positive definite matrix (n, n)."""
    upper, found = ca.chol(ca.densify(matrix)), list[ca.SX]()
    for i, value in enumerate(ca.vertsplit(ca.densify(right))):
        before = sum((upper[j, i] * known for j, known in enumerate(found)), ca.SX(0))
        found.append((value - before) / upper[i, i])
    return ca.vertcat(*found)
