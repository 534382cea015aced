"""Sparse Jacobians of a factor condensed to the unknowns and rows that are left of each step.

Of a factor's Jacobian, [J_o of each step it sees, ∂r/∂θ, r], is left Cᵀ [J_o Z_o, Σ J_o D_o + ∂r/∂θ, r]: Z spans the
surface on which a step lies, D is how the parameters θ drag it along, and private unknowns do not reach the rows Cᵀ.
Kernels give the entries that can differ from zero, which a chain of bodies has in proportion to their number; products
with what is dense are numbers, not expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers, contiguous
from spookid.kernels.kernel import Call
from spookid.kernels.native import Lists, Routines, address, integers, routines
from spookid.kernels.program import Program

_LONGEST = 65536
"""Steps of one call, so that an interruption is not held up for long."""


@dataclass(frozen=True)
class Layout:
    """Columns of a factor's full Jacobian."""

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
        """Of the visible columns at each offset, (offsets, visible)."""
        return np.arange(len(self.offsets))[:, None] * self.full + np.array(self.visible, dtype=np.int64)


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class _Plan:
    """What ``condense.c`` follows."""

    sizes: Integers
    """Rows, numbers, columns of the result, offsets, visible and tangent columns, columns that drag and plain ones."""
    lists: Lists


def condensed(call: Call, layout: Layout, basis: Array | None, drag: Array | None, complement: Array | None) -> Array:
    """Transposed Jacobians in what is left, unknowns of the steps in order of offset and parameters last, then the
    residual, (count, columns + 1, rows that are left).

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
    plan = _plan(layout, places.tobytes(), call.shape, tangent, based, tuple(left.follows.tolist()))
    for start in range(0, len(out), _LONGEST):
        part = slice(start, min(start + _LONGEST, len(out)))
        by.condense(
            *(part.stop - start, program.address, *program.arguments(*call.at(part))),
            *(address(plan.sizes), plan.lists.address),
            *(address(None if a is None else a[start:]) for a in (left.basis, left.drag, left.complement)),
            *(out.shape[2], address(out[part])),
        )


@lru_cache(maxsize=64)
def _plan(
    layout: Layout, places: bytes, shape: tuple[int, int], tangent: int, based: bool, follows: tuple[int, ...]
) -> _Plan:
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
    return _Plan(integers([*sizes, tangent if based else 0, len(follows), len(columns)]), lists)


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
