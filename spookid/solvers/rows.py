"""Linearization of one factor along a chain, and its JᵀJ by C code, written directly into the band.

The products of a step are computed in tiles of four rows and eight columns, from rows of J with entries in both.
Entries count as zero until a nonzero occurs; a new plan then serves the following steps.

Jacobians are stored, or recomputed as a stream: compiled kernels evaluate them faster than they are used, and storing
them would take several times the memory of everything else. A stream evaluates eight steps at a time, in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, Mask, location
from spookid.kernels.kernel import CHUNK, Call
from spookid.kernels.native import Lists, Routines, integers, routines, strides
from spookid.kernels.precision import STEPS_OF_A_CALL
from spookid.kernels.stages import LANES, ROWS, aligned, mirrored
from spookid.records import dataclass
from spookid.transcription.factor import Factor

NUMBERS = 150_000
"""That are computed at once, of a few steps or of many."""

Columns: TypeAlias = list[Array]
"""m vectors of residuals along one chain: per factor (count, m, rows)."""
Seen = NDArray[np.uint64]
"""All bits are set of what differs from zero."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to multiply, and where each sum belongs: a panel holds a step's Jacobian, its rows of whole vectors."""

    sizes: Integers
    """Vectors of a row, rows, places of states, unknowns of a step, width of its band, unknowns of the chain, columns
    behind the states, vectors that hold something, and tiles of the band, the border, and the corner."""
    lists: Lists
    """Vectors of a panel with the eight numbers in them, tiles, and rows of tiles; see ``native.c``."""
    behind: Integers
    """Order of the columns after those of the states: columns with most entries first, so that few tiles are full."""


def add_products(
    by: Routines, block: Rows | Stream, band: Array, border: Array, corner: Array, seen: Seen, fresh: bool = False
) -> None:
    """Add a factor's JᵀJ to its chain's band (N, t, bandwidth), border (N, t, n_p + 1) in whole columns, and corner.
    Entries that are not zero are marked in ``seen``, which has room for all, for the next time, too. A ``fresh`` band
    is zero before the step at the largest offset, and from there on holds what may be forgotten.
    """
    (_, tangent, width), (count, columns, rows), unknowns = band.shape, block.shape, strides(border)[2]
    held = _places(block)
    seen = seen[: columns * rows if held is None else len(held)]
    reached, done, key = np.zeros(1, dtype=np.int64), 0, None if held is None else held.tobytes()
    # Summed on from plan to plan, the digits do not depend on which entries were seen before.
    beyond = len(corner)
    sums = aligned((LANES, -(-beyond // LANES) * LANES, -(-beyond // LANES) * LANES))
    sums[:] = 0.0
    while rows and done < count:
        plan = _plan((seen != 0).tobytes(), key, (columns, rows), block.offsets, (tangent, width, unknowns))
        part, kernel, matrix = _given(block, done)
        by.products(
            *(part.stop - done, *kernel, location(matrix), columns * rows, location(held)),
            *(seen.size, location(seen)),
            *(location(plan.sizes), plan.lists.address),
            *(location(band[part]), location(border[part]), location(sums), location(reached)),
            max(block.offsets) if fresh else -1,
        )
        done += int(reached[0])
    if done:
        corner[plan.behind[:, None], plan.behind] += mirrored(sums.sum(axis=0)[:beyond, :beyond])


def _places(block: Rows | Stream) -> Integers | None:
    """Where the numbers of a program are among the entries; None if they are all there."""
    if isinstance(block, Rows):
        return block.places
    return block.jacobian.kernel.places if block.jacobian.program is not None else None


def _given(block: Rows | Stream, first: int) -> tuple[slice, tuple[object, ...], Array | None]:
    """Some steps from one on, the program that gives their transposed Jacobians, with its arguments, or else
    these themselves."""
    nothing = location(None), location(None), location(None)
    far = slice(first, min(first + STEPS_OF_A_CALL, block.shape[0]))
    if isinstance(block, Rows):
        return far, nothing, np.ascontiguousarray(block.matrix[far])
    if (program := block.jacobian.program) is not None:
        return far, (program.address, *program.arguments(*block.jacobian.at(far))), None
    near = slice(first, min(first + CHUNK, far.stop))
    return near, nothing, block.jacobian(near)


@lru_cache(maxsize=64)
def _plan(
    seen: bytes, held: bytes | None, shape: tuple[int, int], offsets: tuple[int, ...], target: tuple[int, int, int]
) -> _Plan:
    """The plan for a pattern of nonzeros (columns + 1, rows), of those that are ``held`` if not all are, for a target
    with so many unknowns of a step, width of a band, and unknowns of the chain."""
    given, (tangent, width, unknowns) = np.frombuffer(seen, dtype=np.bool_), target
    entries = np.arange(len(given)) if held is None else np.frombuffer(held, dtype=np.int64)
    states = (max(offsets) + 1) * tangent
    first = -(-states // LANES) * LANES
    beyond = shape[0] - len(offsets) * tangent
    place = np.array([offset * tangent + local for offset in offsets for local in range(tangent)], dtype=np.int64)
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
    sizes = (vectors.shape[1], shape[1], states, tangent, width, unknowns, beyond, len(groups), *map(len, tiles))
    lists = Lists(groups, np.concatenate(tiles), lines, behind)
    return _Plan(integers(sizes), lists, behind)


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


@dataclass(frozen=True, eq=False)
class Rows:
    """Linearization of one factor along one chain, in the remaining unknowns."""

    offsets: tuple[int, ...]
    matrix: Array
    """(count, columns + 1, rows): transposed Jacobian, steps in order of offset, parameters last; then the residual."""
    complement: Array | None
    """Orthonormal basis of the residuals that private unknowns cannot reach, (count, all rows, rows); None: all."""
    places: Integers | None = None
    """Structural nonzeros of a step's matrix; None: it is dense."""

    def reduce(self, residual: Array) -> Array:
        """Reduce a residual (count, all rows) to the remaining equations."""
        if self.complement is None:
            return residual
        return np.asarray(np.matmul(residual[:, None, :], self.complement)[:, 0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the matrix."""
        count, columns, rows = self.matrix.shape
        return count, columns, rows

    def image(self, steps: Array, others: Array | None = None) -> Array:
        """Product of J with steps of the states (N, tangent, m): (count, m, rows)."""
        count, t, m = len(self.matrix), *steps.shape[1:]
        if (by := self._by) is not None:
            given, out = np.ascontiguousarray(steps), np.empty((count, m, self.matrix.shape[2]))
            behind = np.zeros((0, m)) if others is None else np.ascontiguousarray(others)
            by.images(*self._sizes(t, m), location(given), len(behind), location(behind), location(out))
            return out
        columns = np.concatenate([steps[offset : offset + count] for offset in self.offsets], axis=1)
        found = np.matmul(columns.transpose(0, 2, 1), self.matrix[:, : columns.shape[1]])
        return np.asarray(found if others is None else found + np.matmul(others.T, self.matrix[:, columns.shape[1] :]))

    def pull(self, columns: Array, steps: Array) -> None:
        """Add Jᵀ times columns (count, m, rows) to steps of the states (N, tangent, m)."""
        t, m = steps.shape[1:]
        if (by := self._by) is not None and steps.flags.c_contiguous:
            given = np.ascontiguousarray(columns)
            by.pulls(*self._sizes(t, m), location(given), location(steps))
            return
        across = columns.transpose(0, 2, 1)
        for i, offset in enumerate(self.offsets):
            steps[offset : offset + len(across)] += np.matmul(self.matrix[:, i * t : (i + 1) * t], across)

    def scaled(self, scales: Array) -> Rows:
        """Multiplied by some numbers, (rows,)."""
        return replace(self, matrix=self.matrix * scales)

    @property
    def _by(self) -> Routines | None:
        return routines() if self.matrix.flags.c_contiguous else None

    def _sizes(self, tangent: int, columns: int) -> tuple[object, ...]:
        """What compiled code is told of so many columns of steps."""
        (count, wide, rows), at = self.matrix.shape, _listed(self.offsets)
        return count, tangent, columns, rows, len(at), location(at), location(self.matrix), wide * rows

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """Jacobian from a given step on, if any is left, with the number of this step."""
        if start < len(self.matrix):
            yield start, self.matrix[start:]

    def pull_back(self, residual: Array) -> Array:
        """Product Jᵀr at each step, (count, columns), for a residual (count, all rows)."""
        return np.asarray(np.matmul(self.matrix[:, :-1, :], self.reduce(residual)[:, :, None])[:, :, 0])


@dataclass(frozen=True, eq=False)
class Stream:
    """Linearization of a complete factor, which is computed on request and never stored."""

    offsets: tuple[int, ...]
    jacobian: Call
    """What gives the matrix of ``Rows`` at any steps."""
    pull_back: Callable[[Array], Array]
    """As that of ``Rows``."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the matrix."""
        return len(self.jacobian.stepwise[0]), *self.jacobian.shape

    def parts(self, start: int) -> Iterator[tuple[int, Array]]:
        """Jacobian from a given step on, for some steps at a time, with the first step's number; the next part
        overwrites it."""
        return self.jacobian.parts(start)

    def scaled(self, scales: Array) -> Stream:
        """Multiplied by some numbers, (rows,)."""
        call, pull_back = self.jacobian, self.pull_back
        given = scales if call.scales is None else call.scales * scales
        return Stream(self.offsets, replace(call, scales=given), lambda residual: pull_back(residual * scales))


@lru_cache(maxsize=64)
def _listed(offsets: tuple[int, ...]) -> Integers:
    return integers(offsets)


@dataclass(frozen=True, eq=False)
class LinearizedFactor:
    """Equations of one factor along one chain, in the unknowns of the reduced problem."""

    factor: Factor
    source: Rows | Stream
    """The rows, or what computes them."""
    steps: int
    """N, of the chain."""
    tangent: int
    """Unknowns of a step."""
    scale: float = 1.0
    """By which raw residuals of the factor were multiplied, those of equality constraints to be as stiff as the
    others."""

    @property
    def rows(self) -> Rows:
        """All of them."""
        return self.source if isinstance(self.source, Rows) else self.at(slice(None))

    @property
    def residual(self) -> Array:
        """(count, rows)."""
        return self.source.matrix[:, -1] if isinstance(self.source, Rows) else self._passed[0]

    @property
    def alive(self) -> Array:
        """1 for equations with data, 0 where the sample is missing, (count, rows)."""
        return self._passed[1]

    @property
    def finite(self) -> bool:
        """True if residuals and derivatives are."""
        return self._passed[2]

    @cached_property
    def _passed(self) -> tuple[Array, Array, bool]:
        count, _, width = self.source.shape
        residual, alive, finite = np.empty((count, width)), np.empty((count, width)), True
        for here, part in self.parts():
            residual[here] = part.matrix[:, -1]
            alive[here] = np.any(part.matrix[:, :-1] != 0, axis=1)
            finite = finite and bool(np.all(np.isfinite(part.matrix)))
        return residual, alive, finite

    @property
    def complement(self) -> Array | None:
        """That of ``Rows``."""
        return self.source.complement if isinstance(self.source, Rows) else None

    def whole(self, left: Array) -> Array:
        """Residual vectors before the elimination of a factor's own unknowns, (count, m, rows)."""
        return left if self.complement is None else left @ self.complement.transpose(0, 2, 1)

    def known(self, row: int) -> Mask:
        """True at steps at which a row of the whole has data, (count,)."""
        return self.alive[:, row] > 0 if self.complement is None else np.ones(len(self.alive), dtype=bool)

    @property
    def unknowns(self) -> int:
        """Number of state unknowns in an equation."""
        return len(self.source.offsets) * self.tangent

    @property
    def parameters(self) -> int:
        """n_p."""
        return self.source.shape[1] - self.unknowns - 1

    def at(self, steps: slice) -> Rows:
        """Its rows at some steps."""
        if isinstance(self.source, Rows):
            return replace(self.source, matrix=self.source.matrix[steps])
        return Rows(self.source.offsets, self.source.jacobian(steps), None)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """Yield ranges of steps with the Jacobians there; the next range overwrites them."""
        count, columns, rows = self.source.shape
        buffer = np.empty(0)
        for here in chunks(count, columns * (rows + self.parameters + 1)):  # products with T stand beside them
            if isinstance(self.source, Rows):
                yield here, self.at(here)
            else:
                call, size = self.source.jacobian, here.stop - here.start
                buffer = buffer if buffer.size else call.room(size)
                yield here, Rows(self.source.offsets, call.into(buffer[:size], here), None)

    def images(self, steps: Array) -> Iterator[tuple[slice, Array]]:
        """Yield ranges of steps with products of J and steps of the states (N, tangent, m), (count, m, rows)."""
        for here, rows in self.parts():
            yield here, rows.image(steps[here.start : here.stop + max(rows.offsets)])

    def scaled(self, scales: Array) -> LinearizedFactor:
        """Factor with its equations multiplied by given numbers, (rows,)."""
        other = replace(self, source=self.source.scaled(scales))
        other.__dict__["_passed"] = self.residual * scales, self.alive, self.finite
        return other


def chunks(count: int, numbers: int) -> Iterator[slice]:
    """Ranges of steps that fit a memory size, for so many steps of so many numbers each."""
    size = max(NUMBERS // max(numbers, 1), 1)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
