"""Small dense linear algebra, the same for every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.kernels import Array

RANK = 1e-9
"""Singular values below this share of a step's largest are zero: the rows are redundant."""


@dataclass(frozen=True, eq=False)
class Split:
    """Matrices A (n, rows, columns), split into what they reach and what they do not."""

    rank: int
    """Of every step alike: the largest that any step has."""
    null: Array
    """Orthonormal columns with A null = 0, (n, columns, columns − rank)."""
    inverse: Array
    """Pseudo-inverse A⁺, (n, columns, rows)."""


def rank(matrices: Array) -> int:
    """Largest rank over the steps of (n, rows, columns)."""
    if not matrices.size:
        return 0
    if not np.all(np.isfinite(matrices)):
        return int(min(matrices.shape[1:]))
    values = np.linalg.svd(matrices, compute_uv=False)
    return int(np.max(np.sum(values > RANK * values[:, :1], axis=1)))


def split(matrices: Array, rank: int) -> Split:
    """Null space and pseudo-inverse of every step's matrix, of one rank."""
    left, values, right = np.linalg.svd(matrices, full_matrices=True)
    scaled = left[:, :, :rank] / values[:, None, :rank]
    inverse = np.matmul(right[:, :rank, :].transpose(0, 2, 1), scaled.transpose(0, 2, 1))
    return Split(rank, np.ascontiguousarray(right[:, rank:, :].transpose(0, 2, 1)), inverse)


def smallest_solution(matrices: Array, right: Array, rank: int) -> Array:
    """Least-squares solution x of A x = right, smallest in norm, (n, rows, columns), (n, rows) to (n, columns)."""
    rows, columns = matrices.shape[1:]
    if not (np.all(np.isfinite(matrices)) and np.all(np.isfinite(right))):
        return np.full((len(matrices), columns), np.nan)
    transposed = matrices.transpose(0, 2, 1)
    if rank == rows <= columns:
        gram = np.matmul(matrices, transposed)
        return np.asarray(np.matmul(transposed, np.linalg.solve(gram, right[:, :, None]))[:, :, 0])
    if rank == columns <= rows:
        gram, projected = np.matmul(transposed, matrices), np.matmul(transposed, right[:, :, None])
        return np.asarray(np.linalg.solve(gram, projected)[:, :, 0])
    return np.asarray(np.matmul(split(matrices, rank).inverse, right[:, :, None])[:, :, 0])
