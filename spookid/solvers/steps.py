"""The damped, bounded step of a linearized merit function.

The states are eliminated in time order; a small bounded quadratic program in the parameters remains. A step δ is
corrected by a second solve: at its end, where the residuals are r, the gradient of the damped model is Jᵀr + α D δ,
plus S δ for the exact Hessian. No product with JᵀJ is needed, and errors of δ do not accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.stages import HardRows
from spookid.records import dataclass
from spookid.solvers.elimination import Elimination, ForwardSubstitution, assembled
from spookid.solvers.linearization import Linearization, curvature
from spookid.solvers.quadratic_program import balanced, bounded_step, unopposed
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.solvers.structured import NormalEquations, positive, pull_back
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point


@dataclass(frozen=True, eq=False)
class Tangent:
    """Tangent vector of all unknowns, or a gradient."""

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
        """Numbers multiplied by their scales and a common factor."""
        states = tuple(factor * s * a for a, s in zip(self.states, scales.states, strict=True))
        return Tangent(states, factor * scales.parameters * self.parameters)

    def scaled_norm(self, scales: Tangent) -> float:
        """√Σ scales δ²."""
        squares = Tangent(tuple(a * a for a in self.states), self.parameters * self.parameters)
        return math.sqrt(scales.dot(squares))


class MeritModel(Linearization):
    """Quadratic model of the merit function at a point: normal equations, and multipliers of coupled constraints."""

    def __init__(self, reduced: ReducedProblem, here: Evaluation) -> None:
        super().__init__(reduced, here.point)
        self.residuals, self._evaluated = here.residuals, here.cost
        self.coupled = [[term.rows for term in terms if term.factor in reduced.coupled] for terms in self.chains]
        """Per chain the coupled equality constraints."""
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
        self.constraints = self.problem.linear_constraints(here.point.parameters)
        """Of the parameters' step."""
        self._equations: list[NormalEquations | None] = []

    @cached_property
    def _sums(self) -> tuple[Array, Tangent, list[Array]]:
        """What stays when the equations have been taken; last the diagonals, 1 in the place of zeros."""
        equations = self.reduced.pool.map(self._assembled, range(len(self.chains)))
        self._equations = [*equations]
        corner = np.asarray(sum(chain.corner for chain in equations))
        gradient = Tangent(tuple(chain.gradient.copy() for chain in equations), corner[:-1, -1])
        return corner, gradient, [positive(chain.band[:, 0]) for chain in equations]

    @property
    def corner(self) -> Array:
        """Parameter block of all chains, (n_p + 1, n_p + 1)."""
        return self._sums[0]

    @property
    def gradient(self) -> Tangent:
        """Gradient Jᵀr of all residuals, with √ρ (c + s) for coupled constraints: half the gradient of the merit."""
        return self._sums[1]

    @property
    def cost(self) -> float:
        """Cost of the residuals."""
        return self._evaluated if self.reduced.coupled else float(self.corner[-1, -1])

    def taken(self, chain: int) -> NormalEquations:
        """Matrix JᵀJ of one chain including coupled constraints, for an elimination that overwrites it."""
        _ = self._sums
        here, self._equations[chain] = self._equations[chain], None
        return self._assembled(chain) if here is None else here

    def hard(self, chain: int, share: float = 1.0) -> list[HardRows]:
        """Coupled constraints of one chain, of whose violations a step is to remove a share."""
        found = []
        for rows in self.coupled[chain]:
            matrix = rows.matrix.copy()
            matrix[:, -1] *= share
            found.append(HardRows(rows.offsets, matrix))
        return found

    def _assembled(self, chain: int) -> NormalEquations:
        steps, n, reduced = self.problem.chains[chain].steps, len(self.problem.names), self.reduced
        given = steps, reduced.tangent, n, reduced.workspaces[chain]
        values = [rows.matrix[:, -1].copy() for rows in self.coupled[chain]]
        for rows, more in zip(self.coupled[chain], self.multipliers[chain], strict=True):
            rows.matrix[:, -1] += more
        equations = assembled([term.source for term in self.chains[chain]], self.hard(chain), *given)
        for rows, value in zip(self.coupled[chain], values, strict=True):
            rows.matrix[:, -1] = value
        return equations

    def moved(self, step: Tangent) -> Point:
        """Point after a step, projected onto the equality constraints."""
        return self.reduced.project(self.retracted(step.states, step.parameters))

    @cached_property
    def rounding(self) -> float:
        """Rounding error of the merit, from unknowns of order one in coupled constraints with multipliers."""
        squares = 0.0
        for c, rows in enumerate(self.coupled):
            for block, force in zip(rows, self.reduced.forces(c), strict=True):
                sizes = np.einsum("kcr,kcr->kr", block.matrix[:, :-1], block.matrix[:, :-1])
                squares += float(np.sum(block.reduce(force) ** 2 * sizes))
        return 2 * float(np.finfo(float).eps) * float(np.sqrt(squares))

    @cached_property
    def scales(self) -> Tangent:
        """Metric D of a step: the diagonal of JᵀJ.

        For a parameter it is at least cost/magnitude²: with damping α, moving it by its own magnitude costs α of the
        present cost. Otherwise a weakly identifiable parameter changes by orders of magnitude and returns slowly.
        """
        magnitudes = np.maximum(self.problem.magnitudes, np.abs(self.point.parameters))
        parameters = np.maximum(self.corner.diagonal()[:-1], self.cost / magnitudes**2)
        return Tangent(tuple(self._sums[2]), positive(parameters))

    @property
    def _lagrangian(self) -> Tangent:
        """Half the gradient of the cost with the coupled rows' multipliers: g + ρ Cᵀs."""
        if not self.reduced.coupled:
            return self.gradient
        return self.pull_back(self.residuals)

    @cached_property
    def curvature(self) -> list[NormalEquations]:
        """Curvature S of each chain, so that JᵀJ + S is half the exact Hessian of the cost."""
        return [curvature(self.reduced, self.point, c, basis) for c, basis in enumerate(self._bases)]

    @cached_property
    def bend(self) -> Array:
        """Contribution of constraints between parameters to half the Hessian of the Lagrangian, (n_p, n_p)."""
        n, constraints, here = len(self.gradient.parameters), self.problem.constraints, self.point.parameters
        if constraints is None:
            return np.zeros((n, n))
        lengths = np.sqrt(positive(np.diag(self.corner)[:-1]))
        return constraints.curvature(here, balanced(self.problem, here, self.gradient.parameters, lengths)[0])

    def pull_back(self, residuals: list[list[Array]]) -> Tangent:
        """Product of Jᵀ with the residuals of another point, with multipliers √ρ s for coupled constraints: half the
        gradient of the Lagrangian."""
        parts = []
        for c, chain in enumerate(self.problem.chains):
            values = self.reduced.pulls(c, residuals[c])
            sources = [term.source for term in self.chains[c]]
            parts.append(pull_back(sources, values, chain.steps, self.reduced.tangent))
        return Tangent(tuple(s for s, _ in parts), np.sum([p for _, p in parts], axis=0))

    def violations(self, residuals: list[list[Array]], left: float = 0.0) -> list[list[Array]]:
        """Violations √ρ c per chain and coupled factor, in the remaining equations, less a share of those here that may
        be left."""
        found = []
        for c, chain in enumerate(self.coupled):
            values = [r for f, r in self._augmented(c, residuals) if f in self.reduced.coupled]
            pairs = zip(chain, values, strict=True)
            found.append([block.reduce(r) - left * block.matrix[:, -1] for block, r in pairs])
        return found

    def _augmented(self, chain: int, residuals: list[list[Array]]) -> list[tuple[Factor, Array]]:
        return list(zip(self.reduced.kept, self.reduced.augmented(chain, residuals[chain]), strict=True))

    def curvature_times(self, step: Tangent) -> Tangent:
        """S δ."""
        products = [chain.apply(s, step.parameters) for chain, s in zip(self.curvature, step.states, strict=True)]
        parameters = np.sum([p for _, p in products], axis=0) + self.bend @ step.parameters
        return Tangent(tuple(s for s, _ in products), parameters)

    def optimality(self) -> float:
        """Largest cosine between the residual and a column of J, without components that bounds or constraints
        balance."""
        whole = self._lagrangian
        lengths = positive(self.corner.diagonal()[:-1])
        parts = [*whole.states, unopposed(self.problem, self.point.parameters, whole.parameters, np.sqrt(lengths))]
        squares = (g * g / s for g, s in zip(parts, [*self.scales.states, lengths], strict=True))
        largest = max(float(square.max(initial=0.0)) for square in squares)
        return math.sqrt(largest / self.cost) if largest > 0 else 0.0


class DampedStep:
    """Damped step: argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ within bounds and with Cδ = −τ c in coupled rows, for one α.

    Damping shortens the step of a single unknown by τ = 1 / (1 + α). The share τ of the violations that a step removes
    is the same, else neither steps nor changes of the multipliers would become short as α grows. With ``exact``,
    JᵀJ + S replaces JᵀJ.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """

    def __init__(self, here: MeritModel, damping: float, exact: bool = False) -> None:
        self.here, self._damping, self._exact = here, damping, exact
        self._share = 1 / (1 + damping)
        """τ."""
        extra = here.curvature if exact else []
        self._eliminations = here.reduced.pool.map(self._eliminated, range(len(here.chains)))
        corner = here.corner + sum(s.corner for s in extra)
        if exact:
            corner[:-1, :-1] += here.bend
        schur = np.asarray(corner[:-1, :-1] - sum(e.corner[:-1, :-1] for e in self._eliminations))
        self._matrix = schur + damping * np.diag(here.scales.parameters)
        """Schur complement of the damped states, (n_p, n_p)."""
        self._lower = here.problem.lower - here.point.parameters
        self._upper = here.problem.upper - here.point.parameters
        self._linear = here.constraints
        self.length = math.inf
        """Of the first step, each unknown scaled by the norm of its Jacobian column."""

    def _eliminated(self, chain: int) -> Elimination:
        """The states of a chain; those that no row sees stay where they are."""
        here, equations = self.here, self.here.taken(chain)
        damping = np.where(equations.diagonal == 0, 1.0, self._damping * equations.diagonal)
        if self._exact:
            equations.add(here.curvature[chain])
        return Elimination(equations, damping, here.hard(chain, self._share), here.reduced.workspaces[chain])

    def first(self) -> tuple[Tangent, float]:
        """First step from this point, and the predicted decrease of the merit; multipliers of the coupled constraints
        are set accordingly, so that Cδ = −τ c."""
        here, forwards = self.here, [e.own for e in self._eliminations]
        parameters = self._parameters(here.gradient.parameters, forwards)
        steps = here.reduced.pool.map(lambda e: e.step(e.own, parameters), self._eliminations)
        step = Tangent(tuple(states for states, _ in steps), parameters)
        promised = self._promised(here.gradient.parameters, forwards, step)
        if not here.reduced.coupled:
            return step, promised
        found = [
            [more + held for more, held in zip(both, chain, strict=True)]
            for (_, both), chain in zip(steps, here.multipliers, strict=True)
        ]
        here.reduced.shift_to(found, here.coupled)
        return step, promised + self._share * (here.reduced.constraint_merit(here.residuals) - here.violated)

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """Step that is corrected by the residuals at its end."""
        here = self.here
        gradient = here.pull_back(residuals).plus(step.stretched(here.scales, self._damping))
        if self._exact:
            gradient = gradient.plus(here.curvature_times(step))
        values = here.violations(residuals, 1 - self._share)
        triples = list(zip(self._eliminations, gradient.states, values, strict=True))
        forwards = here.reduced.pool.map(lambda each: each[0].forward(each[1], each[2]), triples)
        parameters = self._parameters(gradient.parameters, forwards, step.parameters)
        pairs = zip(self._eliminations, forwards, strict=True)
        states = here.reduced.pool.map(lambda pair: pair[0].step(pair[1], parameters)[0], pairs)
        return self._whole(step, Tangent(tuple(states), parameters))

    def _parameters(
        self, gradient: Array, forwards: Sequence[ForwardSubstitution], moved: Array | float = 0.0
    ) -> Array:
        """What the parameters move by, given their gradient and where they have moved to already."""
        reduced_gradient = gradient - sum(forward.taken for forward in forwards)
        linear = self._linear and self._linear.after(moved)
        return bounded_step(self._matrix, reduced_gradient, self._lower - moved, self._upper - moved, linear)

    def _promised(self, gradient: Array, forwards: Sequence[ForwardSubstitution], step: Tangent) -> float:
        """Decrease of the linearized merit along a first step, −2gᵀδ − δᵀHδ: what eliminating the states takes from the
        damped model, what the parameters do, and the damping's own share; right for any bounds."""
        move = step.parameters
        reduced_gradient = gradient - sum(forward.taken for forward in forwards)
        damped = sum(forward.square for forward in forwards) - float(
            move @ (2 * reduced_gradient + self._matrix @ move)
        )
        self.length = step.scaled_norm(self.here.scales)
        return damped + self._damping * self.length**2

    def _whole(self, step: Tangent, more: Tangent) -> Tangent:
        """A step and its correction; parameters at the end of their box are there to the last digit."""
        moved, parameters = step.parameters, more.parameters
        whole = np.where(parameters <= self._lower - moved, self._lower, moved + parameters)
        whole = np.where(parameters >= self._upper - moved, self._upper, whole)
        return Tangent(step.plus(more).states, whole)
