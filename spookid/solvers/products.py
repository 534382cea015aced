"""JᵀJ of one factor by compiled C, straight into the band: only products of entries that are not zero at every step.

Entries are taken for zero until they are not; the plan is then drawn up anew for the steps to come. Jacobians that are
not kept are evaluated on the way, eight steps at a time, and never leave the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.blocks import LANES
from spookid.kernels.compiled import CompiledKernel
from spookid.kernels.kernel import CHUNK, Array, Integers, Mask
from spookid.kernels.native import Routines, address, integers, strides
from spookid.solvers.rows import Rows, Stream

_MOST = 400_000
"""Products of a step; with half as many, of 16 hinges and ten parameters each, a tuned library takes twice as long."""
_LONGEST = 65536
"""Steps of one call, so that an interruption is not held up for long."""


Seen = NDArray[np.uint64]
"""All bits are set of what differs from zero."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to multiply, and where each sum belongs."""

    first: NDArray[np.int32]
    """Of each sum's products, and their number at the end; sums of the band, of the border and of the corner."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    """Which numbers of a step's transposed Jacobian each product multiplies."""
    place: NDArray[np.int32]
    """Of each sum among the tiles of the band, those of the border, and the sums of the corner behind them."""
    band: Integers
    border: Integers
    """Where each tile begins, and how many numbers it has, (tiles, 2)."""
    corner: Integers
    """Places in the corner's upper triangle."""
    seen: tuple[int, ...]
    """Places of the states' columns that are not zero, from the first unknown of a step on."""

    @cached_property
    def lists(self) -> tuple[object, ...]:
        """Addresses of what is summed, and where it goes."""
        return tuple(address(array) for array in (self.first, self.left, self.right, self.place))

    @cached_property
    def tiles(self) -> tuple[object, ...]:
        """Addresses of those of band and border."""
        return address(self.band), address(self.border)


def add_products(
    by: Routines, block: Rows | Stream, band: Array, border: Array, corner: Array, seen: Seen, fresh: bool = False
) -> tuple[int, tuple[int, ...]]:
    """Add a factor's JᵀJ to its chain's band (N, t, bandwidth), border (N, t, n_p + 1) in whole columns, and corner; at
    all its steps, or at those before there are too many products to gain by it. Entries that are not zero are marked
    in ``seen``, which has room for all, for the next time, too. A ``fresh`` band is zero before the step at the largest
    offset, and from there on holds what may be forgotten.

    How many steps, and the places of its columns there, from the first unknown of their step on.
    """
    (_, tangent, width), (count, columns, rows), unknowns = band.shape, block.shape, strides(border)[2]
    places: tuple[int, ...] = ()
    held = _places(block)
    seen = seen[: columns * rows if held is None else len(held)]
    reached, done, key = np.zeros(1, dtype=np.int64), 0, None if held is None else held.tobytes()
    # Summed on from plan to plan, the digits do not depend on which entries were seen before.
    sums = np.zeros((corner.size, LANES))
    while done < count:
        plan = _plan((seen != 0).tobytes(), key, (columns, rows), block.offsets, tangent, width, unknowns)
        if plan is None:
            break
        part, kernel, matrix = _given(block, done)
        corners = sums[plan.corner]
        band_at, border_at = plan.tiles
        by.products(
            *(part.stop - done, *kernel, address(matrix), seen.size, address(seen)),
            *(len(plan.place), *plan.lists),
            *(len(plan.band), band_at, address(band[part]), tangent * width),
            *(len(plan.border), border_at, address(border[part]), tangent),
            *(len(plan.corner), address(corners), address(reached), max(block.offsets) if fresh else -1),
        )
        sums[plan.corner] = corners
        done, places = done + int(reached[0]), plan.seen
    upper = sums.sum(axis=1).reshape(corner.shape)
    corner += upper + np.triu(upper, 1).T
    return done, places


def _places(block: Rows | Stream) -> Integers | None:
    """Where the numbers of a compiled kernel stand among the entries; None if they are all there."""
    kernel = None if isinstance(block, Rows) else block.jacobian.kernel
    return kernel.places if isinstance(kernel, CompiledKernel) else None


def _given(block: Rows | Stream, first: int) -> tuple[slice, tuple[object, ...], Array | None]:
    """Some steps from one on, the compiled kernel that gives their transposed Jacobians, with its arguments, or else
    these themselves."""
    nothing = address(None), 0, address(None), address(None)
    far = slice(first, min(first + _LONGEST, block.shape[0]))
    if isinstance(block, Rows):
        return far, nothing, np.ascontiguousarray(block.matrix[far])
    kernel = block.jacobian.kernel
    if isinstance(kernel, CompiledKernel):
        return far, (kernel.function, *kernel.arguments(*block.jacobian.at(far))), None
    near = slice(first, min(first + CHUNK, far.stop))
    return near, nothing, block.jacobian(near)


@lru_cache(maxsize=64)
def _plan(
    seen: bytes,
    held: bytes | None,
    shape: tuple[int, int],
    offsets: tuple[int, ...],
    tangent: int,
    width: int,
    unknowns: int,
) -> _Plan | None:
    """The plan for a pattern of nonzeros (columns + 1, rows), of those that are ``held`` if not all are; None if there
    are too many products, or no rows."""
    given = np.frombuffer(seen, dtype=np.bool_)
    places = np.arange(len(given)) if held is None else np.frombuffer(held, dtype=np.int64)
    alive = np.zeros(shape, dtype=np.bool_)
    alive.ravel()[places] = given
    states, size = len(offsets) * tangent, shape[0] - len(offsets) * tangent
    counts = alive.sum(axis=0)
    if shape[1] == 0 or np.sum(counts * (counts + 1) // 2) > _MOST:
        return None
    number = np.zeros(shape, dtype=np.int64)
    number.ravel()[places] = np.arange(len(places))
    pairs = np.concatenate([_pairs(alive[:, row], number[:, row]) for row in range(shape[1])], axis=1)
    one, two, left, right = pairs[:, np.lexsort((pairs[1], pairs[0]))]
    place = np.array([offset * tangent + local for offset in offsets for local in range(tangent)], dtype=np.int64)
    kinds = (one >= states).astype(int) + (two >= states)  # neither, one or both behind the states
    parts = [(one[kinds == k], two[kinds == k], left[kinds == k], right[kinds == k]) for k in range(3)]
    heads = [np.flatnonzero(np.r_[True, np.diff(a * shape[0] + b) != 0][: len(a)]) for a, b, _, _ in parts]
    (a, b), (c, d), (e, f) = ((part[0][head], part[1][head]) for part, head in zip(parts, heads, strict=True))
    starts = np.cumsum([0, *(len(part[0]) for part in parts)])
    first = np.concatenate([*(head + start for head, start in zip(heads, starts[:-1], strict=True)), starts[-1:]])
    band, in_band = _tiles(place[a] * width + place[b] - place[a], tangent * width)
    border, in_border = _tiles(place[c] + (d - states) * unknowns, tangent)
    own = np.concatenate([in_band, LANES * len(band) + in_border])
    return _Plan(
        first.astype(np.int32),
        np.concatenate([part[2] for part in parts]).astype(np.int32),
        np.concatenate([part[3] for part in parts]).astype(np.int32),
        np.r_[own, LANES * (len(band) + len(border)) + np.arange(len(e))].astype(np.int32),
        *(band, border),
        (e - states) * size + f - states,
        tuple(place[alive[:states].any(axis=1)].tolist()),
    )


def _tiles(places: Integers, cell: int) -> tuple[Integers, Integers]:
    """Tiles of up to eight neighbouring numbers that cover some places, none beyond the cells that hold these: where
    each begins and how many it has, (tiles, 2); and of each place its number among those of the tiles, eight each."""
    order, found = np.argsort(places, kind="stable"), list[tuple[int, int]]()
    where, wide = np.zeros(len(places), dtype=np.int64), min(LANES, cell)
    for i in order.tolist():
        at = int(places[i])
        if not found or at >= sum(found[-1]):
            found.append((min(at, (at // cell + 1) * cell - wide), wide))
        where[i] = LANES * (len(found) - 1) + at - found[-1][0]
    return integers(found).reshape(-1, 2), where


def _pairs(alive: Mask, number: Integers) -> Integers:
    """Of one row: columns i ≤ j that are not zero, and the numbers of their entries, (4, pairs)."""
    columns = np.flatnonzero(alive)
    i, j = np.triu_indices(len(columns))
    return np.stack([columns[i], columns[j], number[columns[i]], number[columns[j]]])
