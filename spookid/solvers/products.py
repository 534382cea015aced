"""JᵀJ of one factor by compiled C, straight into the band.

A step's products are made in tiles of four rows and eight columns, from those rows of J that have something in both.
Entries are taken for zero until they are not; the plan is then drawn up anew for the steps to come. Jacobians that are
not kept are evaluated on the way, eight steps at a time, and never leave the processor's cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.blocks import LANES, ROWS, addresses, aligned
from spookid.kernels.compiled import CompiledKernel
from spookid.kernels.kernel import CHUNK, Array, Integers, Mask, location
from spookid.kernels.native import Lists, Routines, address, integers, strides
from spookid.solvers.rows import Rows, Stream

_LONGEST = 65536
"""Steps of one call, so that an interruption is not held up for long."""

Seen = NDArray[np.uint64]
"""All bits are set of what differs from zero."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to multiply, and where each sum belongs: a panel holds a step's Jacobian, its rows of whole vectors."""

    sizes: Integers
    """Vectors of a row, rows, places of states, unknowns of a step, width of its band, unknowns of the chain, columns
    behind the states, vectors that hold something, tiles of the band, the border, and the corner, and −1 if the band
    reaches backwards, else 1."""
    lists: Lists
    """Vectors of a panel with the eight numbers in them, tiles, and rows of tiles; see ``native.c``."""
    behind: Integers
    """Which of the columns behind the states stands where: those of most rows first, so that few tiles have many."""
    seen: tuple[int, ...]
    """Places of the states' columns that are not zero, from the first unknown of a step on."""


@dataclass(frozen=True, eq=False)
class Share:
    """Rows of a factor whose products are to be summed."""

    block: Rows | Stream
    rows: slice
    """Of the block, as far as it has them."""
    along: int
    """1; −1 if the band reaches to the step before, and the factor then no further."""
    corner: Array
    """What the parameters' products are added to, (n_p + 1, n_p + 1)."""
    seen: Seen
    """Where entries that are not zero are marked, for the next time, too; room for all."""
    fresh: bool = False
    """True if the band is zero before the step at the largest offset from the first, and from there on holds what may
    be forgotten."""

    @property
    def stop(self) -> int:
        """Where the rows end."""
        return min(int(self.rows.stop), self.block.shape[0])

    @cached_property
    def places(self) -> Integers | None:
        """Where the numbers of a compiled kernel stand among the entries; None if they are all there."""
        if isinstance(self.block, Rows):
            return self.block.places
        kernel = self.block.jacobian.kernel
        return kernel.places if isinstance(kernel, CompiledKernel) else None

    def given(self, start: int) -> tuple[int, list[int], Array | None]:
        """Where the first rows from one on end, and the compiled kernel that gives their transposed Jacobians with its
        arguments along the chain, or else these themselves."""
        far, block = min(start + _LONGEST, self.stop), self.block
        if isinstance(block, Rows):
            return far, [0, 0, 0, 0], np.ascontiguousarray(block.matrix[start:far])
        kernel = block.jacobian.kernel
        if isinstance(kernel, CompiledKernel):
            count, first, further = block.arguments
            return (
                far,
                [int(kernel.function.value or 0), count, ctypes.addressof(first), ctypes.addressof(further)],
                None,
            )
        near = min(start + CHUNK, far)
        return near, [0, 0, 0, 0], block.jacobian(slice(start, near))

    def plan(self, target: tuple[int, int, int]) -> _Plan:
        """For the entries that have been seen so far."""
        seen, held, shape = self.marks, self.places, self.block.shape[1:]
        key = None if held is None else held.tobytes()
        return _plan((seen != 0).tobytes(), key, shape, self.block.offsets, target, self.along)

    @property
    def marks(self) -> Seen:
        """As many as there are numbers."""
        return self.seen if self.places is None else self.seen[: len(self.places)]


def add_products(by: Routines, shares: Sequence[Share], band: Array, border: Array) -> set[int]:
    """Add JᵀJ of factors, one after another, to their chain's band (N, t, bandwidth), border (N, t, n_p + 1) in whole
    columns, and corners. The places of their columns, from the first unknown of their step on."""
    target, beyond = (*band.shape[1:], strides(border)[2]), -(-border.shape[2] // LANES) * LANES
    waiting = [(share, share.rows.start) for share in shares if share.rows.start < share.stop and share.block.shape[2]]
    # Summed on from plan to plan, the digits do not depend on which entries were seen before.
    sums, places = aligned((len(waiting), LANES, beyond, beyond)), set[int]()
    sums[:] = 0.0
    into = addresses(band, border.transpose(2, 0, 1))
    while waiting:  # all is got ready first: when so much has gone through a cache, Python is slow
        told, kept = [], []
        for (share, start), own in zip(waiting, sums[-len(waiting) :], strict=True):
            end, kernel, matrix = share.given(start)
            plan, marks, (_, columns, rows) = share.plan(target), share.marks, share.block.shape
            entries = _location(matrix), columns * rows, _location(share.places), marks.size, _location(marks)
            made = _location(plan.sizes), ctypes.addressof(plan.lists.address), _location(own), location(share.corner)
            told.append((start, end, *kernel, *entries, *made, share.fresh, start))
            kept.append((plan, matrix))
            if end < share.stop:
                break
        numbers = np.array(told, dtype=np.int64)
        by.products(len(told), address(numbers), *into)
        places.update(*(plan.seen for plan, _ in kept))
        reached = [*numbers[:, -1].tolist(), *(start for _, start in waiting[len(told) :])]
        waiting = [(share, done) for (share, _), done in zip(waiting, reached, strict=True) if done < share.stop]
    return places


def _location(array: NDArray[Any] | None) -> int:
    return 0 if array is None else location(array)


@lru_cache(maxsize=64)
def _plan(
    seen: bytes,
    held: bytes | None,
    shape: tuple[int, int],
    offsets: tuple[int, ...],
    target: tuple[int, int, int],
    along: int,
) -> _Plan:
    """The plan for a pattern of nonzeros (columns + 1, rows), of those that are ``held`` if not all are, for a target
    with so many unknowns of a step, width of a band, and unknowns of the chain."""
    given, (tangent, width, unknowns) = np.frombuffer(seen, dtype=np.bool_), target
    entries = np.arange(len(given)) if held is None else np.frombuffer(held, dtype=np.int64)
    states = (max(offsets) + 1) * tangent
    first = -(-states // LANES) * LANES
    beyond = shape[0] - len(offsets) * tangent
    order = [offset if along > 0 else max(offsets) - offset for offset in offsets]
    place = np.array([offset * tangent + local for offset in order for local in range(tangent)], dtype=np.int64)
    behind = np.argsort(-np.bincount(entries // shape[1], minlength=shape[0])[shape[0] - beyond :], kind="stable")
    place = np.concatenate([place, first + np.argsort(behind)])
    number = np.full((shape[1], first + -(-beyond // LANES) * LANES), len(given))  # that of the zero behind all others
    column, row = np.divmod(entries[given], shape[1])
    number[row, place[column]] = np.flatnonzero(given)
    vectors = number.reshape(shape[1], -1, LANES)
    alive = number < len(given)
    wide = np.flatnonzero(alive.reshape(-1, LANES).any(axis=1))
    groups = np.column_stack([wide, vectors.reshape(-1, LANES)[wide]])
    tiles, lines = _tiles(alive, first // LANES)
    sizes = (vectors.shape[1], shape[1], states, tangent, width, unknowns, beyond, len(groups), *map(len, tiles), along)
    lists = Lists(groups, np.concatenate(tiles), lines, behind)
    return _Plan(integers(sizes), lists, behind, tuple(np.flatnonzero(alive[:, :states].any(axis=0)).tolist()))


def _tiles(alive: Mask, behind: int) -> tuple[list[Integers], Integers]:
    """Tiles of the upper triangle of JᵀJ for the nonzeros of J (rows, columns), whose columns of parameters begin with
    the vector ``behind``: of the states with themselves, with the parameters, and of these with themselves; each its
    first column, its vector of columns, and where the rows begin and end that are in the list behind."""
    high, wide = (np.asarray(np.any(alive.reshape(len(alive), -1, n), axis=2)) for n in (ROWS, LANES))
    tiles: list[list[tuple[int, int, int, int]]] = [[], [], []]
    lines: list[int] = []
    for i, left in enumerate(high.T):
        own = i * ROWS // LANES
        for j, right in enumerate(wide.T):
            kind = (own >= behind) + (own >= behind and j >= behind)
            if (kind != 1 and (j < own or (own < behind <= j))) or not np.any(both := left & right):
                continue
            begin = len(lines)
            lines.extend(np.flatnonzero(both).tolist())
            tiles[kind].append((i * ROWS, j, begin, len(lines)))
    return [integers(part).reshape(-1, 4) for part in tiles], integers(lines)
