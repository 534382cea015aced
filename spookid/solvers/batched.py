"""Small dense linear algebra, the same for every step."""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.native import address, routines
from spookid.records import dataclass

_RANK = 1e-9
"""Singular values, or lengths of rows less what others reach of them, below this share of a step's largest are zero:
the rows are redundant."""


@dataclass(frozen=True, eq=False)
class NullSpaceAndInverse:
    """Matrices A (n, rows, columns), split into what they reach and what they do not."""

    null: Array
    """Orthonormal columns with A null = 0, (n, columns, columns − rank)."""
    inverse: Array
    """Pseudo-inverse A⁺, (n, columns, rows)."""


def inverses(matrices: Array) -> tuple[Array, Array]:
    """A⁻¹ and log |det A| of every step's matrix (n, t, t); −∞, and an inverse of no meaning, if one is singular."""
    n, t, _ = matrices.shape
    if (by := routines()) is not None:
        given, found, logarithms = np.ascontiguousarray(matrices), np.empty(matrices.shape), np.empty(n)
        by.invert(n, t, address(given), address(found), address(logarithms))
        return found, logarithms
    signs, logarithms = np.linalg.slogdet(matrices)
    return np.asarray(matrices if np.any(signs == 0) else np.linalg.inv(matrices), float), logarithms


def rank(matrices: Array) -> int:
    """Largest rank over the steps of (n, rows, columns)."""
    if not matrices.size:
        return 0
    full = int(min(matrices.shape[1:]))
    if not np.all(np.isfinite(matrices)) or _rank(matrices[:1]) == full:
        return full
    return _rank(matrices)


def _rank(matrices: Array) -> int:
    if (by := routines()) is not None:
        given, found = np.ascontiguousarray(matrices), np.zeros(1, dtype=np.int64)
        by.rank(*matrices.shape, address(given), address(np.array([_RANK])), address(found))
        return int(found[0])
    values = np.linalg.svd(matrices, compute_uv=False)
    return int(np.max(np.sum(values > _RANK * values[:, :1], axis=1)))


def null_space_basis(matrices: Array, rank: int) -> Array:
    """Orthonormal columns Z with A Z = 0 of every step's matrix, of one rank, (n, columns, columns − rank)."""
    if (found := _decomposed(matrices, rank, inverse=False)) is not None:
        return found.null
    rows, columns = matrices.shape[1:]
    if not rank == rows <= columns:
        return null_space_and_inverse(matrices, rank).null
    return np.ascontiguousarray(np.linalg.qr(matrices.transpose(0, 2, 1), mode="complete")[0][:, :, rows:])


def orthonormal(columns: Array) -> Array:
    """Orthonormal columns of the same span for every step, (n, rows, columns), by Gram–Schmidt, twice and the longest
    first: rows that are longer than others by many orders of magnitude cost these no digits (Householder's reflections
    mix them)."""
    if (by := routines()) is not None:
        found = np.array(columns, order="C")
        by.orthonormal(*found.shape, address(found))
        return found
    left, found, every = columns.copy(), np.zeros_like(columns), np.arange(len(columns))
    for i in range(columns.shape[2]):
        longest = np.argmax(np.linalg.norm(left, axis=1), axis=1)
        own = left[every, :, longest]
        for _ in range(2):
            own -= np.matmul(found, np.matmul(found.transpose(0, 2, 1), own[:, :, None]))[:, :, 0]
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        found[:, :, i], left[every, :, longest] = own, 0.0
        for _ in range(2):
            left -= own[:, :, None] * np.matmul(own[:, None], left)
    return found


def null_space_and_inverse(matrices: Array, rank: int) -> NullSpaceAndInverse:
    """Null space and pseudo-inverse of every step's matrix, of one rank."""
    if (decomposed := _decomposed(matrices, rank)) is not None:
        return decomposed
    rows, columns = matrices.shape[1:]
    if rank == rows <= columns:
        Q, R = np.linalg.qr(matrices.transpose(0, 2, 1), mode="complete")
        try:
            inverse = np.linalg.solve(R[:, :rows], Q[:, :, :rows].transpose(0, 2, 1)).transpose(0, 2, 1)
            return NullSpaceAndInverse(np.ascontiguousarray(Q[:, :, rows:]), inverse)
        except np.linalg.LinAlgError:
            pass
    left, values, right = np.linalg.svd(matrices, full_matrices=True)
    scaled = left[:, :, :rank] / values[:, None, :rank]
    inverse = np.matmul(right[:, :rank, :].transpose(0, 2, 1), scaled.transpose(0, 2, 1))
    return NullSpaceAndInverse(np.ascontiguousarray(right[:, rank:, :].transpose(0, 2, 1)), inverse)


def _decomposed(matrices: Array, rank: int, inverse: bool = True) -> NullSpaceAndInverse | None:
    """Null space and pseudo-inverse in C, the latter empty if it is not wanted; None without the C extension."""
    if (by := routines()) is None:
        return None
    (n, rows, columns), given = matrices.shape, np.ascontiguousarray(matrices)
    null, found = np.empty((n, columns, columns - rank)), np.empty((n, columns, rows) if inverse else 0)
    by.decompose(n, rows, columns, rank, address(given), address(null), address(found if inverse else None))
    return NullSpaceAndInverse(null, found)


def smallest_solution(matrices: Array, right: Array, rank: int) -> Array:
    """Least-squares solution x of A x = right, smallest in norm, (n, rows, columns), (n, rows) to (n, columns).

    NaN if anything is not finite, or a matrix has not that rank.
    """
    unknown = np.full((len(matrices), matrices.shape[2]), np.nan)
    if not (np.all(np.isfinite(matrices)) and np.all(np.isfinite(right))):
        return unknown
    try:
        return _smallest(matrices, right, rank)
    except np.linalg.LinAlgError:
        return unknown


def _smallest(matrices: Array, right: Array, rank: int) -> Array:
    if (found := _decomposed(matrices, rank)) is not None:
        return np.asarray(np.matmul(found.inverse, right[:, :, None])[:, :, 0])
    rows, columns = matrices.shape[1:]
    transposed = matrices.transpose(0, 2, 1)
    if rank == rows <= columns:
        gram = np.matmul(matrices, transposed)
        return np.asarray(np.matmul(transposed, np.linalg.solve(gram, right[:, :, None]))[:, :, 0])
    if rank == columns <= rows:
        gram, projected = np.matmul(transposed, matrices), np.matmul(transposed, right[:, :, None])
        return np.asarray(np.linalg.solve(gram, projected)[:, :, 0])
    return np.asarray(np.matmul(null_space_and_inverse(matrices, rank).inverse, right[:, :, None])[:, :, 0])
