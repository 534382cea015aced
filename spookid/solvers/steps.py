"""The damped, bounded step of a linearized problem.

The states are eliminated in time order; what is left of the step is a small bounded quadratic program. A step δ is
corrected by solving for what it lacks: at its end, where the residuals are r, the damped model's gradient is
Jᵀr + α D δ, with S δ for the exact Hessian's share. Nothing is multiplied by JᵀJ, and no error of δ is carried on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.solvers.elimination import Elimination, ForwardSubstitution
from spookid.solvers.linearization import Linearization, Tangent
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.structured import NotPositiveDefiniteError


class DampedStep:
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box and Cδ = −c in the coupled rows, for one α.

    With ``exact``, JᵀJ + S in the place of JᵀJ.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """

    def __init__(self, here: Linearization, damping: float, exact: bool = False) -> None:
        self.here, self._damping, self._exact = here, damping, exact
        extra = here.curvature if exact else []
        self._eliminations = here.reduced.pool.map(self._eliminated, range(len(here.rows)))
        corner = here.corner + sum(s.corner for s in extra)
        if exact:
            corner[:-1, :-1] += here.bend
        self.schur = np.asarray(corner[:-1, :-1] - sum(e.corner[:-1, :-1] for e in self._eliminations))
        """Schur complement of the damped states, (n_p, n_p), the parameters undamped."""
        self._matrix = self.schur + damping * np.diag(here.scales.parameters)
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
        return Elimination(equations, damping, here.hard(chain), here.reduced.workspaces[chain])

    def held(self, chain: int) -> list[Mask]:
        """True for coupled rows that say what others do not say already, per factor (count, rows that are left)."""
        return self._eliminations[chain].held()

    def first(self) -> tuple[Tangent, float]:
        """The step from here, and the decrease of the merit that it promises; the multipliers of the coupled rows are
        set to match. The merit's share of the rows themselves falls to nothing: Cδ = −c."""
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
        return step, promised + here.reduced.constraint_merit(here.residuals) - here.violated

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """The step corrected by the residuals found at its end."""
        here = self.here
        gradient = here.pull_back(residuals).plus(step.stretched(here.scales, self._damping))
        if self._exact:
            gradient = gradient.plus(here.curvature_times(step))
        values = here.violations(residuals)
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


def schur(here: Linearization) -> Array:
    """Schur complement of the states in JᵀJ, (n_p, n_p).

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    try:
        return DampedStep(here, 0.0).schur
    except NotPositiveDefiniteError:
        return DampedStep(here, 1e-14).schur
