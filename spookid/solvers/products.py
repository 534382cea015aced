"""JᵀJ of one factor by compiled C, straight into the band: only products of entries that are not zero at every step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spookid.kernels import Array
from spookid.native import Routines, address
from spookid.solvers.reduction import Rows

Integers = NDArray[np.int64]

_MOST = 40_000
"""Products of a step; where there are more, dense products of a tuned library are as fast."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to multiply, and where each sum belongs."""

    entries: NDArray[np.int32]
    """Numbers of the entries that are not zero in a step's transposed Jacobian."""
    first: NDArray[np.int32]
    """Of each sum's products, and their number at the end; sums of the band, of the border and of the corner."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    """Which of the entries each product multiplies."""
    band: Integers
    border: Integers
    corner: Integers
    """Places of the sums, those of the corner in its lower triangle and above."""
    seen: tuple[int, ...]
    """Places of the states' columns that are not zero, from the first unknown of a step on."""


def add_products(by: Routines, block: Rows, band: Array, border: Array, corner: Array) -> tuple[int, ...] | None:
    """Add a factor's JᵀJ to its chain's band (N, t, bandwidth), border (N, t, n_p + 1) in whole columns, and corner.

    The places of its columns, from the first unknown of their step on; None, and nothing is added, if it has too many
    products to gain by it.
    """
    matrix = block.matrix
    steps, tangent, width = band.shape
    if not (matrix.flags.c_contiguous and len(matrix)):
        return None
    seen = np.zeros(matrix[0].size, dtype=np.uint64)
    by.pattern(len(matrix), address(matrix), seen.size, address(seen))
    plan = _plan((seen != 0).tobytes(), matrix.shape[1:], block.offsets, tangent, width, steps)
    if plan is None:
        return None
    sums = np.zeros(len(plan.corner))
    by.products(
        *(len(matrix), address(matrix), seen.size, len(plan.entries), address(plan.entries)),
        *(address(plan.first), address(plan.left), address(plan.right)),
        *(len(plan.band), address(plan.band), address(band), tangent * width),
        *(len(plan.border), address(plan.border), address(border), tangent),
        *(len(plan.corner), address(sums)),
    )
    rows, columns = np.divmod(plan.corner, len(corner))
    corner[rows, columns] += sums
    apart = rows != columns
    corner[columns[apart], rows[apart]] += sums[apart]
    return plan.seen


@lru_cache(maxsize=64)
def _plan(
    seen: bytes, shape: tuple[int, int], offsets: tuple[int, ...], tangent: int, width: int, steps: int
) -> _Plan | None:
    """The plan for a pattern of nonzeros (columns + 1, rows); None if there are too many products."""
    alive = np.frombuffer(seen, dtype=np.bool_).reshape(shape)
    states, size = len(offsets) * tangent, shape[0] - len(offsets) * tangent
    counts = alive.sum(axis=0)
    if np.sum(counts * (counts + 1) // 2) > _MOST:
        return None
    number = np.cumsum(alive.ravel()).reshape(shape) - 1
    pairs = np.concatenate([_pairs(alive[:, row], number[:, row]) for row in range(shape[1])], axis=1)
    one, two, left, right = pairs[:, np.lexsort((pairs[1], pairs[0]))]
    place = np.array([offset * tangent + local for offset in offsets for local in range(tangent)], dtype=np.int64)
    kinds = (one >= states).astype(int) + (two >= states)  # neither, one or both behind the states
    parts = [(one[kinds == k], two[kinds == k], left[kinds == k], right[kinds == k]) for k in range(3)]
    heads = [np.flatnonzero(np.r_[True, np.diff(a * shape[0] + b) != 0][: len(a)]) for a, b, _, _ in parts]
    (a, b), (c, d), (e, f) = ((part[0][head], part[1][head]) for part, head in zip(parts, heads, strict=True))
    starts = np.cumsum([0, *(len(part[0]) for part in parts)])
    first = np.concatenate([*(head + start for head, start in zip(heads, starts[:-1], strict=True)), starts[-1:]])
    return _Plan(
        np.flatnonzero(alive).astype(np.int32),
        first.astype(np.int32),
        np.concatenate([part[2] for part in parts]).astype(np.int32),
        np.concatenate([part[3] for part in parts]).astype(np.int32),
        place[a] * width + place[b] - place[a],
        place[c] + (d - states) * steps * tangent,
        (e - states) * size + f - states,
        tuple(place[alive[:states].any(axis=1)].tolist()),
    )


def _pairs(alive: NDArray[np.bool_], number: Integers) -> Integers:
    """Of one row: columns i ≤ j that are not zero, and the numbers of their entries, (4, pairs)."""
    columns = np.flatnonzero(alive)
    i, j = np.triu_indices(len(columns))
    return np.stack([columns[i], columns[j], number[columns[i]], number[columns[j]]])
