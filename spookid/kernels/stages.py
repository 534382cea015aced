"""How a chain and its equality constraints are ordered in stages of a few steps, and the arrays of its factors; see
``chain``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, location
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass

LANES, ROWS = 8, 4
"""Numbers in a vector, and rows that are factorized at once."""


@dataclass(frozen=True, eq=False)
class HardRows:
    """Equality constraints of one factor."""

    offsets: tuple[int, ...]
    """Of the steps that they see, ascending."""
    matrix: Array
    """Transposed Jacobians and values, (count, columns, rows): steps in order of offset, then the border."""
    slack: Array | None = None
    """ε, (count, rows); None: 0."""


class Shape:
    """How N steps of t unknowns and their equality constraints are ordered in stages, and these in panels.

    Args:
        steps: N.
        tangent: t.
        reach: steps between the first and the last one that a row sees, at the most.
        borders: b.
        hard: equality constraints.
    """

    def __init__(self, steps: int, tangent: int, reach: int, borders: int, hard: Sequence[HardRows]) -> None:
        self.steps, self.tangent, self.reach, self.borders, self.hard = steps, tangent, max(reach, 1), borders, hard
        self.places, self.multipliers = _places(hard)
        self.group = max(-(-ROWS // max(tangent, 1)), 1)
        self.stages, self.r = -(-steps // self.group), -(-self.reach // self.group)
        self.t = self.group * tangent
        self.T = self.t + self.group * self.multipliers
        self.S = (self.r + 1) * self.T
        self.B = -(-self.S // LANES) * LANES
        self.V = self.B + -(-borders // LANES) * LANES
        self.panel = self.stages, self.T, self.B


def _places(hard: Sequence[HardRows]) -> tuple[list[tuple[slice, slice]], int]:
    """Steps at which the rows of each factor end, and which multipliers of these are theirs; how many a step has. Those
    that never end at one step, as of the first and of later ones, share theirs."""
    places: list[tuple[slice, slice]] = []
    for rows in hard:
        last, (count, _, width) = max(rows.offsets), rows.matrix.shape
        beside = [c for at, c in places if at.start < last + count and last < at.stop]
        start = max((columns.stop for columns in beside), default=0)
        places.append((slice(last, last + count), slice(start, start + width)))
    return places, max((columns.stop for _, columns in places), default=0)


class Factors(Shape):
    """A chain and the arrays of its factors.

    Args:
        band: lower band of H + AᵀA, transposed, (N t, width): entry [j, d] is that of row j + d and column j. It may
            be at the end of the array "panels" of ``workspace``, which factors then overwrite.
        damping: added to its diagonal, (N t,); None: 1 where that is zero.
        border: (N t, b), in whole columns; with a workspace factors take its place.
        steps: N.
        hard: equality constraints.
        workspace: holds the factors until the next ones; None: they stay.
        kept: False if only ``front`` and ``taken`` are wanted.
    """

    def __init__(
        self,
        band: Array,
        damping: Array | None,
        border: Array,
        steps: int,
        hard: Sequence[HardRows] = (),
        workspace: Workspace | None = None,
        kept: bool = True,
    ) -> None:
        tangent = len(band) // max(steps, 1)
        reach = max(-(-band.shape[1] // max(tangent, 1)) - 1, *(max(rows.offsets) for rows in hard), 0)
        super().__init__(steps, tangent, reach, border.shape[1], hard)
        columns = np.ascontiguousarray(border.T)
        self.given: tuple[Array, Array | None, Array] | None = np.ascontiguousarray(band), damping, columns
        """Not needed any more when all is eliminated."""
        shape = self.panel if kept else (0, *self.panel[1:])
        self.panels = aligned(shape) if workspace is None else workspace.aligned("panels", shape)
        more = np.zeros((self.borders, self.stages * self.group * self.multipliers))
        self.Y = (columns if workspace is not None else np.empty_like(columns)), more
        """What the border leaves in U, of unknowns (b, N t) and of multipliers (b, n m)."""
        self.front, self.corner = np.zeros((self.S, self.V)), np.zeros((-(-self.borders // ROWS) * ROWS, self.V))
        self.logarithm = 0.0
        """log |det K| of the stages so far, without rows that others imply."""
        sizes = self.stages, self.group, self.tangent, self.multipliers, self.r, self.borders, *band.shape
        self.sizes = np.array(sizes, dtype=np.int64)
        """As ``chain.c`` takes them."""

    def stood(self, states: Array, values: Sequence[Array] = ()) -> Array:
        """Right-hand sides of the states (N t, m) and of the equality constraints, each (count, rows, m), as (n, T, m),
        the same memory if there are no equality constraints and stages are whole."""
        (rows, count), t = states.shape, self.t
        if t == self.T and rows == self.stages * t and states.flags.c_contiguous:
            return states.reshape(self.stages, t, count)
        right = np.zeros((self.stages, self.T, count))
        full = rows // max(t, 1)
        right[:full, :t] = states[: full * t].reshape(full, t, count)
        right[full : full + 1, : rows - full * t] = states[full * t :]
        behind = right[:, t:].reshape(self.stages, self.group, self.multipliers, count)
        for (at, columns), value in zip(self.places, values, strict=False):
            stage, step = np.divmod(np.arange(at.start, at.stop), self.group)
            behind[stage, step, columns] = value
        return right

    def states(self, whole: Array) -> Array:
        """The states' part (N t, ...) of (n, T, ...)."""
        part = whole if self.t == self.T else np.ascontiguousarray(whole[:, : self.t])
        return part.reshape(self.stages * self.t, *whole.shape[2:])[: self.steps * self.tangent]

    def of_rows(self, whole: NDArray[Any]) -> list[NDArray[Any]]:
        """The equality constraints' parts, each (count, rows, ...), of (n, T, ...)."""
        if not self.hard:
            return []
        behind = whole[:, self.t :].reshape(self.stages * self.group, self.multipliers, *whole.shape[2:])
        return [behind[place] for place in self.places]

    def seen(self, place: int) -> Integers:
        """Where in a stage's block of the inverse the unknowns stand that begin with its step at some place: of that
        step and those in reach, then the multipliers of these."""
        stage, step = np.divmod(place + np.arange(self.reach + 1), self.group)
        states = (stage * self.T + step * self.tangent)[:, None] + np.arange(self.tangent)
        rows = (stage * self.T + self.t + step * self.multipliers)[:, None] + np.arange(self.multipliers)
        return np.concatenate([states.ravel(), rows.ravel()])


def mirrored(upper: Array) -> Array:
    """A square matrix made symmetric by its upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


def aligned(shape: tuple[int, ...]) -> Array:
    """Room that begins where a vector may."""
    count = math.prod(shape)
    buffer = np.empty(count + LANES)
    start = -location(buffer) % (LANES * buffer.itemsize) // buffer.itemsize
    return buffer[start : start + count].reshape(shape)
