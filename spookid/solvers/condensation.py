"""Condensation: project the sparse Jacobian of a factor onto the null space of each step's constraints.

The Jacobian of a factor, [J_o of each of its steps, ∂r/∂θ, r], becomes Cᵀ [J_o Z_o, Σ J_o D_o + ∂r/∂θ, r]. Z spans the
tangent space of the constraints of a step, D is the derivative of the step in the parameters θ along the constraints,
and Cᵀ projects out the private unknowns. Kernels evaluate only the structural nonzeros, whose number is linear in the
number of bodies of a chain.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask, contiguous, location
from spookid.kernels.kernel import Call
from spookid.kernels.native import Lists, Routines, integers, routines
from spookid.kernels.precision import DEPENDENT, STEPS_OF_A_CALL
from spookid.kernels.program import Program
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class NullSpaceAndInverse:
    """Null spaces and pseudo-inverses of matrices A (n, rows, columns)."""

    null: Array
    """Orthonormal columns with A null = 0, (n, columns, columns − rank)."""
    inverse: Array
    """Pseudo-inverse A⁺, (n, columns, rows)."""


def inverses(matrices: Array) -> tuple[Array, Array]:
    """Inverse A⁻¹ and log |det A| of every step's matrix (n, t, t); −∞ and a meaningless inverse if it is singular."""
    n, t, _ = matrices.shape
    if (by := routines()) is not None:
        given, found, logarithms = np.ascontiguousarray(matrices), np.empty(matrices.shape), np.empty(n)
        by.invert(n, t, location(given), location(found), location(logarithms))
        return found, logarithms
    signs, logarithms = np.linalg.slogdet(matrices)
    return np.asarray(matrices if np.any(signs == 0) else np.linalg.inv(matrices), float), logarithms


def rank(matrices: Array) -> int:
    """Largest rank of the matrices of all steps, (n, rows, columns)."""
    if not matrices.size:
        return 0
    full = int(min(matrices.shape[1:]))
    if not np.all(np.isfinite(matrices)) or _rank(matrices[:1]) == full:
        return full
    return _rank(matrices)


def _rank(matrices: Array) -> int:
    if (by := routines()) is not None:
        given, found = np.ascontiguousarray(matrices), np.zeros(1, dtype=np.int64)
        by.rank(*matrices.shape, location(given), location(np.array([DEPENDENT])), location(found))
        return int(found[0])
    values = np.linalg.svd(matrices, compute_uv=False)
    return int(np.max(np.sum(values > DEPENDENT * values[:, :1], axis=1)))


def combinations(columns: Array) -> Mask:
    """True for columns that depend linearly on earlier ones, per step's matrix (n, rows, columns), (n, columns)."""
    left, combined = columns.copy(), np.zeros((len(columns), columns.shape[2]), dtype=np.bool_)
    longest = np.max(np.linalg.norm(columns, axis=1), axis=1, initial=0.0)
    for i in range(columns.shape[2]):
        length = np.linalg.norm(left[:, :, i], axis=1)
        combined[:, i] = length <= DEPENDENT * longest
        own = np.where(combined[:, i], 0.0, left[:, :, i].T / np.where(length > 0, length, 1.0)).T
        for _ in range(2):
            left[:, :, i + 1 :] -= own[:, :, None] * np.matmul(own[:, None], left[:, :, i + 1 :])
    return combined


def null_space_basis(matrices: Array, rank: int) -> Array:
    """Orthonormal null-space basis Z, A Z = 0, of every step's matrix of equal rank, (n, columns, columns − rank)."""
    return null_space_and_inverse(matrices, rank, inverse=False).null


def inverse_of_rank(matrices: Array, rank: int) -> Array:
    """Pseudo-inverse of every step's matrix, of one rank, (n, columns, rows); NaN where a matrix does not have it."""
    return null_space_and_inverse(matrices, rank, null=False).inverse


def orthonormal(columns: Array) -> Array:
    """Orthonormal columns with the same span for every step, (n, rows, columns), by Gram–Schmidt, twice and the longest
    first: unlike Householder reflections, it is accurate for rows of very different lengths."""
    if (by := routines()) is not None:
        found = np.array(columns, order="C")
        by.orthonormal(*found.shape, location(found))
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


def null_space_and_inverse(matrices: Array, rank: int, null: bool = True, inverse: bool = True) -> NullSpaceAndInverse:
    """Null space and pseudo-inverse of every step's matrix of equal rank; NaN where a matrix has another rank."""
    if (by := routines()) is not None:
        (n, rows, columns), given = matrices.shape, np.ascontiguousarray(matrices)
        both = np.empty((n, columns, columns - rank) if null else 0), np.empty((n, columns, rows) if inverse else 0)
        by.decompose(n, rows, columns, rank, location(given), *(location(a if a.size else None) for a in both))
        return NullSpaceAndInverse(*both)
    left, values, right = np.linalg.svd(matrices, full_matrices=True)
    least = max(matrices.shape[1:]) * np.finfo(np.float64).eps * values[:, :1]
    scaled = left[:, :, :rank] / np.where(values > least, values, np.nan)[:, None, :rank]
    found = np.matmul(right[:, :rank, :].transpose(0, 2, 1), scaled.transpose(0, 2, 1))
    return NullSpaceAndInverse(np.ascontiguousarray(right[:, rank:, :].transpose(0, 2, 1)), found)


def smallest_solution(matrices: Array, right: Array, rank: int) -> Array:
    """Least-squares solution x of A x = right with smallest norm, (n, rows, columns), (n, rows) to (n, columns).

    NaN if anything is not finite, or a matrix has not that rank.
    """
    if not np.isfinite(np.sum(matrices) + np.sum(right)):
        return np.full((len(matrices), matrices.shape[2]), np.nan)
    return np.asarray(np.matmul(inverse_of_rank(matrices, rank), right[:, :, None])[:, :, 0])


@dataclasses.dataclass(frozen=True)
class Layout:
    """Layout of the columns in a factor's full Jacobian."""

    offsets: tuple[int, ...]
    """Of the steps that it sees."""
    full: int
    """Tangent columns of a step."""
    visible: tuple[int, ...]
    """Those that are no private unknowns."""
    parameters: int
    """n_p."""

    @property
    def places(self) -> Integers:
        """Indices of the visible columns at each offset, (offsets, visible)."""
        return np.arange(len(self.offsets))[:, None] * self.full + np.array(self.visible, dtype=np.int64)


@dataclasses.dataclass(frozen=True, eq=False)
class _Left:
    """What is left of each step."""

    basis: Array | None
    """Z of every step of the chain, (N, visible, tangent); None: all of the visible columns."""
    drag: Array | None
    """The columns of D that differ from zero, (N, visible, n_d); None: there are none."""
    follows: Integers
    """The parameters of these columns, (n_d,)."""
    complement: Array | None
    """C at every step of the factor, (count, rows, rows left); None: all rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class SparsePlan:
    """What ``condense.c`` follows."""

    sizes: Integers
    """Rows, numbers, columns of the result, offsets, visible and tangent columns, columns that drag and plain ones."""
    lists: Lists


def condensed(call: Call, layout: Layout, basis: Array | None, drag: Array | None, complement: Array | None) -> Array:
    """Transposed Jacobians in the remaining unknowns of the steps, in order of offset, then the parameters and the
    residual, (count, columns + 1, remaining rows).

    Args:
        call: the factor's full Jacobians.
        basis, drag: Z and D of every step of the chain, (N, visible, tangent) and (N, visible, n_p), or None.
        complement: C at every step of the factor, (count, rows, rows that are left), or None.
    """
    follows = integers([] if drag is None else np.flatnonzero(np.any(drag != 0, axis=(0, 1))))
    dragging = None if drag is None or not len(follows) else contiguous(drag[:, :, follows])
    left = _Left(basis, dragging, follows, complement)
    count, tangent = len(call.stepwise[0]), len(layout.visible) if basis is None else basis.shape[2]
    rows = call.shape[1] if complement is None else complement.shape[2]
    out = np.empty((count, len(layout.offsets) * tangent + layout.parameters + 1, rows))
    by, kernel = routines(), call.kernel
    if by is not None and call.program is not None and kernel.places is not None:
        _by_program(by, call.program, kernel.places, call, layout, left, out)
    else:
        _interpreted(call(slice(None)), layout, left, out)
    return out


def _by_program(
    by: Routines, program: Program, places: Integers, call: Call, layout: Layout, left: _Left, out: Array
) -> None:
    tangent = (out.shape[1] - layout.parameters - 1) // len(layout.offsets)
    based = left.basis is not None
    plan = sparse_plan(layout, places.tobytes(), call.shape, tangent, based, tuple(left.follows.tolist()))
    for start in range(0, len(out), STEPS_OF_A_CALL):
        part = slice(start, min(start + STEPS_OF_A_CALL, len(out)))
        by.condense(
            *(part.stop - start, program.address, *program.arguments(*call.at(part))),
            *(location(plan.sizes), plan.lists.address),
            *(location(None if a is None else a[start:]) for a in (left.basis, left.drag, left.complement)),
            *(out.shape[2], location(out[part])),
        )


@lru_cache(maxsize=64)
def sparse_plan(
    layout: Layout, places: bytes, shape: tuple[int, int], tangent: int, based: bool, follows: tuple[int, ...]
) -> SparsePlan:
    """The plan for numbers at some places of a full Jacobian of a shape (columns + 1, rows)."""
    numbers = np.full(shape, -1, dtype=np.int64)
    numbers.ravel()[np.frombuffer(places, dtype=np.int64)] = np.arange(len(places) // 8)
    offsets, wide, states = len(layout.offsets), len(layout.visible), len(layout.offsets) * layout.full
    seen = numbers[layout.places].transpose(0, 2, 1)  # (offsets, rows, visible)
    by_rows = np.nonzero(seen >= 0) if based or follows else (integers([]),) * 3
    begin = np.cumsum([0, *np.bincount(by_rows[0] * shape[1] + by_rows[1], minlength=offsets * shape[1])])
    columns = np.concatenate([integers([]) if based else layout.places.ravel(), np.arange(states, shape[0])])
    column, row = np.nonzero(numbers[columns] >= 0)
    start = np.cumsum([0, *np.bincount(column, minlength=len(columns))])
    first = offsets * tangent
    target = np.arange(first + layout.parameters + 1)[first if based else 0 :]
    lists = Lists(
        layout.offsets,
        *(begin, by_rows[2], seen[by_rows]),
        *(start, row, numbers[columns][column, row]),
        *(target, first + integers(follows)),
    )
    sizes = (shape[1], len(places) // 8, first + layout.parameters + 1, offsets, wide)
    return SparsePlan(integers([*sizes, tangent if based else 0, len(follows), len(columns)]), lists)


def _interpreted(matrix: Array, layout: Layout, left: _Left, out: Array) -> None:
    """By NumPy, from full transposed Jacobians (count, columns + 1, rows)."""
    count, states, first = len(matrix), len(layout.offsets) * layout.full, out.shape[1] - layout.parameters - 1
    tangent, border = first // len(layout.offsets), matrix[:, states:].copy()
    whole = np.empty((count, out.shape[1], matrix.shape[2]))
    for i, (offset, places) in enumerate(zip(layout.offsets, layout.places, strict=True)):
        own, steps = matrix[:, places], slice(offset, offset + count)
        moved = own if left.basis is None else np.matmul(left.basis[steps].transpose(0, 2, 1), own)
        whole[:, i * tangent : (i + 1) * tangent] = moved
        if left.drag is not None:
            border[:, left.follows] += np.matmul(left.drag[steps].transpose(0, 2, 1), own)
    whole[:, first:] = border
    np.copyto(out, whole if left.complement is None else np.matmul(whole, left.complement))
