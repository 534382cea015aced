"""The linearized problem at a point, and its damped, bounded step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.stages import HardRows
from spookid.records import dataclass
from spookid.solvers.curvature import curvature
from spookid.solvers.elimination import assembled
from spookid.solvers.quadratic_program import balanced, unopposed
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.solvers.rows import Rows, Stream
from spookid.solvers.structured import (
    NormalEquations,
    positive,
    pull_back,
)
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point


@dataclass(frozen=True, eq=False)
class Tangent:
    """A tangent vector of all unknowns, or a gradient."""

    states: tuple[Array, ...]
    """Per chain, (N t,)."""
    parameters: Array
    """(n_p,)."""

    def dot(self, other: Tangent) -> float:
        """Inner product."""
        inner = sum(float(a @ b) for a, b in zip(self.states, other.states, strict=True))
        return inner + float(self.parameters @ other.parameters)

    def plus(self, other: Tangent) -> Tangent:
        """Sum."""
        states = tuple(a + b for a, b in zip(self.states, other.states, strict=True))
        return Tangent(states, self.parameters + other.parameters)

    def stretched(self, scales: Tangent, factor: float) -> Tangent:
        """Each number times its scale and a common factor."""
        states = tuple(factor * s * a for a, s in zip(self.states, scales.states, strict=True))
        return Tangent(states, factor * scales.parameters * self.parameters)

    def scaled_norm(self, scales: Tangent) -> float:
        """√Σ scales δ²."""
        squares = Tangent(tuple(a * a for a in self.states), self.parameters * self.parameters)
        return math.sqrt(scales.dot(squares))


class Linearization:
    """Rows and normal equations at an evaluated point, in the unknowns of the reduced problem."""

    def __init__(
        self,
        reduced: ReducedProblem,
        here: Evaluation,
        linearized: Sequence[tuple[Sequence[Rows | Stream], Array | None]],
    ) -> None:
        self.reduced, self.problem = reduced, reduced.problem
        self.point, self.residuals = here.point, here.residuals
        self.rows = [rows for rows, _ in linearized]
        """Per chain the rows of all kept factors."""
        self.coupled = [
            [r for r, f in zip(rows, reduced.kept, strict=True) if isinstance(r, Rows) and f in reduced.coupled]
            for rows in self.rows
        ]
        """Per chain the coupled hard rows."""
        self.multipliers = [
            [rows.reduce(force) for rows, force in zip(chain, reduced.forces(c), strict=True)]
            for c, chain in enumerate(self.coupled)
        ]
        """√ρ s of these, those of a step less which are small where it is short, so that none of its digits cancel."""
        self.violated = sum(
            float(np.sum(b * (b + 2 * held)))
            for chain, multipliers in zip(self.coupled, self.multipliers, strict=True)
            for b, held in ((r.matrix[:, -1], s) for r, s in zip(chain, multipliers, strict=True))
        )
        """ρ Σ |c + s|² − ρ Σ |s|²."""
        self._bases = [basis for _, basis in linearized]
        equations = reduced.pool.map(self._assembled, range(len(self.rows)))
        self._equations: list[NormalEquations | None] = [*equations]
        self.corner = np.asarray(sum(chain.corner for chain in equations))
        """Parameters' part of all chains, (n_p + 1, n_p + 1)."""
        self.gradient = Tangent(tuple(chain.gradient.copy() for chain in equations), self.corner[:-1, -1])
        """Jᵀr of all rows, √ρ (c + s) in coupled ones: half the gradient of the merit."""
        self._diagonals = [chain.diagonal for chain in equations]
        self.cost = here.cost if reduced.coupled else float(self.corner[-1, -1])
        self.constraints = self.problem.linear_constraints(here.point.parameters)
        """Of the parameters' step."""

    def taken(self, chain: int) -> NormalEquations:
        """JᵀJ of one chain, its coupled rows among the others, for an elimination that overwrites it; made anew for the
        next."""
        here, self._equations[chain] = self._equations[chain], None
        return self._assembled(chain) if here is None else here

    def hard(self, chain: int) -> list[HardRows]:
        """The coupled rows of one chain."""
        return [HardRows(rows.offsets, rows.matrix) for rows in self.coupled[chain]]

    def _assembled(self, chain: int) -> NormalEquations:
        steps, n, reduced = self.problem.chains[chain].steps, len(self.problem.names), self.reduced
        given = steps, reduced.tangent, n, reduced.workspaces[chain]
        values = [rows.matrix[:, -1].copy() for rows in self.coupled[chain]]
        for rows, more in zip(self.coupled[chain], self.multipliers[chain], strict=True):
            rows.matrix[:, -1] += more
        equations = assembled(self.rows[chain], self.hard(chain), *given)
        for rows, value in zip(self.coupled[chain], values, strict=True):
            rows.matrix[:, -1] = value
        return equations

    def moved(self, step: Tangent) -> Point:
        """The point moved by a step, put back on the hard rows."""
        steps = [
            self.reduced.expand(s.reshape(-1, self.reduced.tangent), basis)
            for s, basis in zip(step.states, self._bases, strict=True)
        ]
        return self.reduced.project(self.problem.retract(self.point, steps, step.parameters))

    @cached_property
    def rounding(self) -> float:
        """Of the merit, by rounding of unknowns of order one in coupled rows that have multipliers."""
        squares = 0.0
        for c, rows in enumerate(self.coupled):
            for block, force in zip(rows, self.reduced.forces(c), strict=True):
                sizes = np.einsum("kcr,kcr->kr", block.matrix[:, :-1], block.matrix[:, :-1])
                squares += float(np.sum(block.reduce(force) ** 2 * sizes))
        return 2 * float(np.finfo(float).eps) * float(np.sqrt(squares))

    @cached_property
    def scales(self) -> Tangent:
        """D, the metric of a step: the diagonal of JᵀJ.

        For a parameter it is at least cost/magnitude²: with damping α, moving it by its own magnitude costs α of the
        present cost. Else one that the data hardly see wanders off by orders of magnitude and is long in coming back.
        """
        magnitudes = np.maximum(self.problem.magnitudes, np.abs(self.point.parameters))
        parameters = np.maximum(self.corner.diagonal()[:-1], self.cost / magnitudes**2)
        return Tangent(tuple(map(positive, self._diagonals)), positive(parameters))

    @property
    def _lagrangian(self) -> Tangent:
        """Half the gradient of the cost with the coupled rows' multipliers: g + ρ Cᵀs."""
        if not self.reduced.coupled:
            return self.gradient
        return self.pull_back(self.residuals)

    @cached_property
    def curvature(self) -> list[NormalEquations]:
        """S of each chain, so that JᵀJ + S is half the exact Hessian of the cost."""
        return [curvature(self.reduced, self.point, c, basis) for c, basis in enumerate(self._bases)]

    @cached_property
    def bend(self) -> Array:
        """What constraints between parameters add to half the Hessian of the Lagrangian, (n_p, n_p)."""
        n, constraints, here = len(self.gradient.parameters), self.problem.constraints, self.point.parameters
        if constraints is None:
            return np.zeros((n, n))
        lengths = np.sqrt(positive(np.diag(self.corner)[:-1]))
        return constraints.curvature(here, balanced(self.problem, here, self.gradient.parameters, lengths)[0])

    def pull_back(self, residuals: list[list[Array]]) -> Tangent:
        """Jᵀ times the residuals of another point, the multipliers √ρ s in coupled rows: half the gradient of the
        Lagrangian."""
        parts = []
        for c, chain in enumerate(self.problem.chains):
            values = self.reduced.pulls(c, residuals[c])
            parts.append(pull_back(self.rows[c], values, chain.steps, self.reduced.tangent))
        return Tangent(tuple(s for s, _ in parts), np.sum([p for _, p in parts], axis=0))

    def violations(self, residuals: list[list[Array]]) -> list[list[Array]]:
        """√ρ c per chain and coupled factor, in the rows that are left."""
        found = []
        for c, chain in enumerate(self.coupled):
            values = [r for f, r in self._augmented(c, residuals) if f in self.reduced.coupled]
            found.append([block.reduce(r) for block, r in zip(chain, values, strict=True)])
        return found

    def _augmented(self, chain: int, residuals: list[list[Array]]) -> list[tuple[Factor, Array]]:
        return list(zip(self.reduced.kept, self.reduced.augmented(chain, residuals[chain]), strict=True))

    def curvature_times(self, step: Tangent) -> Tangent:
        """S δ."""
        products = [chain.apply(s, step.parameters) for chain, s in zip(self.curvature, step.states, strict=True)]
        parameters = np.sum([p for _, p in products], axis=0) + self.bend @ step.parameters
        return Tangent(tuple(s for s, _ in products), parameters)

    def optimality(self) -> float:
        """Largest cosine between the residual and a column of J; what pushes parameters against a bound or a constraint
        does not count."""
        whole = self._lagrangian
        lengths = positive(self.corner.diagonal()[:-1])
        parts = [*whole.states, unopposed(self.problem, self.point.parameters, whole.parameters, np.sqrt(lengths))]
        squares = (g * g / s for g, s in zip(parts, [*self.scales.states, lengths], strict=True))
        largest = max(float(square.max(initial=0.0)) for square in squares)
        return math.sqrt(largest / self.cost) if largest > 0 else 0.0
