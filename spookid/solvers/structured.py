"""Normal equations of a chain: banded in time order, with the parameters as a border.

Unknowns are ordered step by step, so JᵀWJ of the states is banded. Work and memory are linear in the number of steps,
and no loop runs over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.kernel import CHUNK
from spookid.kernels.native import routines
from spookid.kernels.scipy_parts import blas
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.rows import Rows, Stream, add_products

_dsbmv = blas.dsbmv

ColumnRange = tuple[int, int]
"""Columns [start, stop)."""

_FEW = 4
"""Rows are few if there are so many times more columns."""


class NotPositiveDefiniteError(ArithmeticError):
    """Error for a normal matrix without Cholesky factor: the damping is too small for its conditioning."""


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal equations JᵀWJ and JᵀWr of one chain with N steps of t tangent unknowns each."""

    band: Array
    """Lower band, LAPACK's layout transposed: band[j, d] = H[j + d, j], (N t, bandwidth)."""
    border: Array
    """∂²/∂states∂parameters, and the states' gradient as the last column, (N t, n_p + 1), in columns."""
    corner: Array
    """The parameters' part, their gradient in the last row and column, the cost in the corner, (n_p + 1, n_p + 1)."""
    steps: int
    """N."""

    @cached_property
    def diagonal(self) -> Array:
        """Of JᵀWJ, (N t,)."""
        return self.band[:, 0].copy()

    @property
    def gradient(self) -> Array:
        """Half gradient Jᵀr of the states, (N t,)."""
        return self.border[:, -1]

    def add(self, other: NormalEquations) -> None:
        """Add another matrix of the same chain with a band that is not wider; the ``diagonal`` stays as it was if it
        was computed."""
        for name in ("band", "border", "corner"):
            more = getattr(other, name)
            part = getattr(self, name)[:, : more.shape[1]]
            np.add(part, more, out=part)

    def apply(self, states: Array, parameters: Array) -> tuple[Array, Array]:
        """Product of the matrix with a step of the states (N t,) and the parameters (n_p,), in the same two parts."""
        border = self.border[:, :-1]
        width = self.band.shape[1] - 1
        moved = _dsbmv(width, 1.0, self.band.T, states, lower=1) + border @ parameters
        return moved, border.T @ states + self.corner[:-1, :-1] @ parameters


def normal_equations(
    blocks: Sequence[Rows | Stream],
    steps: int,
    tangent: int,
    parameters: int,
    workspace: Workspace | None = None,
    room: int = 0,
) -> NormalEquations:
    """Normal equations of one chain from its linearized factors; ``workspace`` stores them until the next ones, the
    band at the end of an array that the factorization uses."""
    reach = max(max(block.offsets) for block in blocks)
    workspace = workspace or Workspace()
    sums = _Sums.of(steps, tangent, reach, parameters, workspace, room)
    by = routines()
    # One that goes all the way clears the band as it goes, while it has it at hand.
    able = (b for b in blocks if by is not None and b.shape[2])
    spanning = [b for b in able if max(b.offsets) == reach and b.shape[0] == steps - reach][:1]
    sums.band[: reach if spanning else steps] = 0.0
    for block in (*spanning, *(b for b in blocks if b not in spanning)):
        if by is None:
            for start, matrix in block.parts(0):
                sums.add_square(matrix, block.offsets, start)
        else:
            _, columns, rows = block.shape
            seen = workspace.zeros(f"seen in {blocks.index(block)}", (columns * rows,)).view(np.uint64)
            add_products(by, block, sums.band, sums.border, sums.corner, seen, block in spanning)
    return sums.equations()


def summed(
    products: Iterable[tuple[tuple[int, ...], Array, int]], reach: int, steps: int, tangent: int, parameters: int
) -> NormalEquations:
    """Matrix of one chain, summed over symmetric blocks (count, columns + 1, columns + 1), each with its factor's
    offsets and its first step.

    Columns are the steps in order of offset, then the parameters, then the gradient.
    """
    sums = _Sums.of(steps, tangent, reach, parameters, Workspace())
    for offsets, block, start in products:
        places = [offset * tangent + local for offset in offsets for local in range(tangent)]
        sums.add(block, places, _runs(places), start)
    return sums.equations()


def _seen(matrix: Array, parameters: int) -> tuple[Array, list[int]]:
    """A transposed Jacobian (count, columns + 1, rows) without the states' columns that its rows do not see, and the
    numbers of the columns that are left. Few rows see few columns; many are not worth the search."""
    states = matrix.shape[1] - parameters - 1
    if matrix.shape[2] * _FEW > matrix.shape[1]:
        return matrix, list(range(states))
    used = np.any(matrix[:, :states], axis=(0, 2))
    kept = np.append(used, np.ones(parameters + 1, dtype=bool))
    return np.ascontiguousarray(matrix[:, kept]), np.flatnonzero(used).tolist()


@dataclass(frozen=True, eq=False)
class _Sums:
    """Normal equations in the making: band (N, t, bandwidth), border (N, t, n_p + 1) in whole columns, and corner."""

    band: Array
    border: Array
    corner: Array

    @classmethod
    def of(cls, steps: int, tangent: int, reach: int, parameters: int, workspace: Workspace, room: int = 0) -> _Sums:
        """Matrix of zeros, except a band that the workspace already contains; both stay there until the next use."""
        shape = steps, tangent, (reach + 1) * tangent
        held = workspace.aligned("panels", (max(room, math.prod(shape)),))
        band = held[len(held) - math.prod(shape) :].reshape(shape)
        border = workspace.zeros("border", (parameters + 1, steps, tangent))  # LAPACK wants whole columns
        border[:] = 0.0
        corner = np.zeros((parameters + 1, parameters + 1))
        return cls(band, border.transpose(1, 2, 0), corner)

    def equations(self) -> NormalEquations:
        """The sums so far."""
        unknowns = self.band.shape[0] * self.band.shape[1]
        border = self.border.transpose(2, 0, 1).reshape(len(self.corner), unknowns).T
        band = self.band.reshape(unknowns, self.band.shape[2])
        return NormalEquations(band, border, self.corner, len(self.band))

    def add_square(self, matrix: Array, offsets: Sequence[int], step: int) -> None:
        """Add JᵀJ of transposed Jacobians (count, columns + 1, rows) from step ``step`` on."""
        tangent = self.band.shape[1]
        matrix, columns = _seen(matrix, len(self.corner) - 1)
        places = [offsets[c // tangent] * tangent + c % tangent for c in columns]
        runs = _runs(places)
        buffer = np.empty((min(CHUNK, len(matrix)), matrix.shape[1], matrix.shape[1]))
        for start in range(0, len(matrix), CHUNK):
            part = matrix[start : start + CHUNK]
            # One array and its own transpose: NumPy takes BLAS's symmetric product, half the work.
            products = np.matmul(part, part.transpose(0, 2, 1), out=buffer[: len(part)])
            self.add(products, places, runs, step + start)

    def add(self, products: Array, places: Sequence[int], runs: Sequence[ColumnRange], step: int) -> None:
        """Add a factor's products (count, columns + 1, columns + 1) from step ``step`` on.

        Its columns of states are at ``places``, counted from the first unknown of their step, in ``runs`` of
        neighbours.
        """
        tangent, states = self.band.shape[1], len(places)
        for i, place in enumerate(places):
            offset, local = divmod(place, tangent)
            here = slice(step + offset, step + offset + len(products))
            for begin, stop in runs:
                start = max(i, begin)
                if start < stop:
                    shift = places[start] - places[i]
                    self.band[here, local, shift : shift + stop - start] += products[:, i, start:stop]
            self.border[here, local] += products[:, i, states:]
        np.add(self.corner, products[:, states:, states:].sum(axis=0), out=self.corner)


def _runs(places: Sequence[int]) -> list[ColumnRange]:
    """Stretches of successive numbers."""
    starts = [i for i, place in enumerate(places) if i == 0 or place != places[i - 1] + 1]
    return list(zip(starts, [*starts[1:], len(places)], strict=False))


def pull_back(
    blocks: Sequence[Rows | Stream], residuals: Sequence[Array], steps: int, tangent: int
) -> tuple[Array, Array]:
    """Gradient Jᵀr for other residuals r than those of ``blocks``: states' part (N t,) and parameters' part (n_p,)."""
    states = np.zeros((steps, tangent))
    parameters = 0.0
    for block, residual in zip(blocks, residuals, strict=True):
        product, offsets = block.pull_back(residual), block.offsets
        for i, offset in enumerate(offsets):
            states[offset : offset + len(product)] += product[:, i * tangent : (i + 1) * tangent]
        parameters = parameters + product[:, len(offsets) * tangent :].sum(axis=0)
    return states.ravel(), np.asarray(parameters)


def positive(values: Array) -> Array:
    """``values`` with zeros replaced by 1."""
    return np.where(values > 0, values, 1.0)
