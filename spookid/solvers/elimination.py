"""Elimination of a chain's states, and of the multipliers of constraints that link steps, from the normal equations.

The factorization of [H + AᵀA + D, Aᵀ; A, −ε] with its border B (``kernels.chain``) gives the Schur complement of the
parameters, the step for any gradient, the determinant, and blocks of the inverse along the band. The term AᵀA of the
equality constraints improves the conditioning and does not change the solutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.chain import Chain
from spookid.kernels.stages import HardRows, Shape
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.rows import NUMBERS, Rows, Stream
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, normal_equations


@dataclass(frozen=True, eq=False)
class ForwardSubstitution:
    """Forward substitution of a gradient g of the states and of values of the equality constraints."""

    values: Array | None
    """Gradient as ``Elimination.step`` expects it; None if it is part of the factor."""
    taken: Array
    """BᵀK⁻¹g, what the elimination takes from the parameters' gradient, (n_p,)."""
    square: float
    """gᵀK⁻¹g."""


class Elimination:
    """One chain's states, eliminated.

    Args:
        equations: of all rows, hard ones too.
        damping: D, (N t,); None: 0, but 1 for unknowns that no row sees.
        hard: equality constraints.
        workspace: holds the factor until the next one.

    Raises:
        NotPositiveDefiniteError: if an unknown is not determined.
    """

    def __init__(
        self,
        equations: NormalEquations,
        damping: Array | None = None,
        hard: Sequence[HardRows] = (),
        workspace: Workspace | None = None,
    ) -> None:
        self._chain = Chain(equations.band, damping, equations.border, equations.steps, hard, workspace)
        if failed := self._chain.sweep():
            raise NotPositiveDefiniteError(f"no pivot in step {(failed - 1) * self._chain.group}")
        self._chain.given = None
        self.corner = self._chain.taken
        """What is taken from the parameters' corner, (n_p + 1, n_p + 1)."""
        self.logarithm = self._chain.logarithm
        """log |det K|, without the equality constraints that others imply."""

    @property
    def own(self) -> ForwardSubstitution:
        """Forward substitution of the equations' own gradient, the last column of the border."""
        return ForwardSubstitution(None, self.corner[:-1, -1], float(self.corner[-1, -1]))

    def forward(self, gradient: Array, values: Sequence[Array] = ()) -> ForwardSubstitution:
        """Forward substitution of another gradient (N t,) and values of equality constraints, (count, rows) each."""
        right = self._chain.stood(gradient[:, None], [value[:, :, None] for value in values])[:, :, 0]
        half, taken, square = self._chain.forward(right)
        return ForwardSubstitution(half, taken[:-1], square)

    def step(self, forward: ForwardSubstitution, parameters: Array) -> tuple[Array, list[Array]]:
        """Step of the states (N t,) and multipliers of each factor's constraints, for a step of the parameters."""
        whole = self._chain.backward(forward.values, np.append(parameters, float(forward.values is None)))
        return self._chain.states(whole), self._chain.of_rows(whole)

    def responses(self) -> tuple[Array, list[Array]]:
        """Solution K⁻¹B, gradient last: states (N t, n_p + 1), and multipliers (count, rows, n_p + 1)."""
        whole = self._chain.solve(None)
        return self._chain.states(whole), self._chain.of_rows(whole)

    def solve(self, right: Array, values: Sequence[Array] = ()) -> tuple[Array, list[Array]]:
        """Solution of K x = right-hand side: states' part (N t, m) and equality constraints' parts, each (count, rows,
        m). Right-hand sides may be overwritten; constraint values default to zero."""
        whole = self._chain.solve(self._chain.stood(right, values))
        return self._chain.states(whole), self._chain.of_rows(whole)

    def covariances(self) -> Array:
        """Blocks of K⁻¹, (N, w, w): of the unknowns of each step and of steps in reach, then of their multipliers."""
        whole, _ = self._chain.inverse(0, self._chain.stages, None)
        return self._by_steps(whole)[: self._chain.steps]

    def covariances_backward(self) -> Iterator[tuple[int, Array]]:
        """Same blocks for some steps at a time, the last steps first, with the number of the first."""
        chain, ahead = self._chain, None
        size = max(NUMBERS // chain.S**2, 1)
        for stop in range(chain.stages, 0, -size):
            first = max(stop - size, 0)
            whole, ahead = chain.inverse(first, stop, ahead)
            start = first * chain.group
            yield start, self._by_steps(whole)[: chain.steps - start]

    def _by_steps(self, whole: Array) -> Array:
        chain = self._chain
        if chain.group == 1 and not chain.multipliers:
            return whole
        places = [chain.seen(place) for place in range(chain.group)]
        found = np.empty((len(whole) * chain.group, len(places[0]), len(places[0])))
        for place, seen in enumerate(places):
            found[place :: chain.group] = whole[:, seen[:, None], seen]
        return found

    def held(self) -> list[Mask]:
        """True for equality constraints that are not implied by others, per factor (count, rows)."""
        return self._chain.of_rows(np.einsum("kii->ki", self._chain.panels[:, : self._chain.T, : self._chain.T]) > 0)

    def along(self, covariances: Array, number: int, offsets: Sequence[int]) -> Array:
        """Blocks of K⁻¹ of the states and multipliers of a constraint factor, by its number, (count, columns, rows)."""
        chain, (steps, columns) = self._chain, self._chain.places[number]
        first = (chain.reach + 1) * chain.tangent + max(offsets) * chain.multipliers
        states = np.concatenate([np.arange(o * chain.tangent, (o + 1) * chain.tangent) for o in offsets])
        rows = np.arange(first + columns.start, first + columns.stop)
        count = steps.stop - steps.start
        return np.asarray(covariances[:count, states[:, None], rows])


def assembled(
    blocks: Sequence[Rows | Stream],
    hard: Sequence[HardRows],
    steps: int,
    tangent: int,
    parameters: int,
    workspace: Workspace,
) -> NormalEquations:
    """Normal equations of one chain, in a workspace that the elimination overwrites with its factor."""
    reach = max(max(block.offsets) for block in blocks)
    room = math.prod(Shape(steps, tangent, reach, parameters + 1, hard).panel)
    return normal_equations(blocks, steps, tangent, parameters, workspace, room)


def cross_covariances(covariances: Array, offsets: Sequence[int], states: Array) -> Array:
    """Products P Jᵀ for transposed Jacobians of the states (count, unknowns, rows), steps in order of offset; P as from
    ``Elimination.covariances``."""
    unknowns, seen = states.shape[1], covariances[: len(states)]
    if max(offsets) + 1 > len(offsets):
        t = unknowns // len(offsets)
        places = np.concatenate([np.arange(offset * t, (offset + 1) * t) for offset in offsets])
        seen = seen[:, places[:, None], places]
    return np.asarray(np.matmul(seen[:, :unknowns, :unknowns], states))
