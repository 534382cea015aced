"""The damped, bounded step of a linearized problem.

The states are eliminated in time order; what is left of the step is a small bounded quadratic program. A step δ is
corrected by solving for what it lacks: at its end, where the residuals are r, the damped model's gradient is
Jᵀr + α D δ, with S δ for the exact Hessian's share. Nothing is multiplied by JᵀJ, and no error of δ is carried on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.elimination import ForwardSubstitution, eliminate
from spookid.solvers.linearization import Linearization, Tangent
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.riccati import Riccati
from spookid.solvers.saddle import Saddle, saddle
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError

_PASSES, _SATISFIED = 6, 1e-8
"""Passes of the method of multipliers at the most, and the share of the coupled rows' first error that is enough."""


class _ParameterStep:
    """The parameters' part of a step: a small bounded quadratic program on the Schur complement of the states."""

    def __init__(self, here: Linearization, damping: float, corner: Array, taken: Sequence[Array]) -> None:
        self.here, self._damping = here, damping
        self.schur = np.asarray(corner[:-1, :-1] - sum(taken))
        """Schur complement of the damped states, (n_p, n_p), the parameters undamped."""
        self._matrix = self.schur + damping * np.diag(here.scales.parameters)
        self._lower = here.problem.lower - here.point.parameters
        self._upper = here.problem.upper - here.point.parameters
        self._linear = here.constraints
        self.length = math.inf
        """Of the first step, each unknown scaled by the norm of its Jacobian column."""

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

    def _remaining(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """Gradient of the damped model at the end of a step, where the residuals are as given."""
        return self.here.pull_back(residuals).plus(step.stretched(self.here.scales, self._damping))

    def _whole(self, step: Tangent, more: Tangent) -> Tangent:
        """A step and its correction; parameters at the end of their box are there to the last digit."""
        moved, parameters = step.parameters, more.parameters
        whole = np.where(parameters <= self._lower - moved, self._lower, moved + parameters)
        whole = np.where(parameters >= self._upper - moved, self._upper, whole)
        return Tangent(step.plus(more).states, whole)


class PenaltyStep(_ParameterStep):
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box, for one α; coupled rows stand in J.

    With ``exact``, JᵀJ + S in the place of JᵀJ.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """

    def __init__(self, here: Linearization, damping: float, exact: bool = False) -> None:
        self._exact = exact
        extra = here.curvature if exact else [None] * len(here.rows)
        self._eliminations = here.reduced.pool.map(
            lambda c: eliminate(here.equations(c, taken=True), damping, extra[c], overwrite=True), range(len(extra))
        )
        corner = here.corner + sum(s.corner for s in extra if s is not None)
        if exact:
            corner[:-1, :-1] += here.bend
        super().__init__(here, damping, corner, [e.corner[:-1, :-1] for e in self._eliminations])

    def first(self) -> tuple[Tangent, float]:
        """The step from here, and the decrease that it promises. Coupled rows are satisfied to first order by the
        method of multipliers."""
        forwards, gradient = [e.own for e in self._eliminations], self.here.gradient
        step, first = self._solve(gradient.parameters, forwards), 0.0
        for _ in range(_PASSES if self.here.reduced.coupled else 0):
            error = self.here.reduced.shift_to(self.here.violations(self.here.residuals, step), self.here.coupled)
            gradient = self.here.gradient = self.here.pull_back(self.here.residuals)
            forwards = self._forwards(gradient)
            step = self._solve(gradient.parameters, forwards)
            first = max(first, error)
            if error <= _SATISFIED * first:
                break
        return step, self._promised(gradient.parameters, forwards, step)

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """The step corrected by the residuals found at its end."""
        gradient = self._remaining(step, residuals)
        if self._exact:
            gradient = gradient.plus(self.here.curvature_times(step))
        return self._whole(step, self._solve(gradient.parameters, self._forwards(gradient), step.parameters))

    def _forwards(self, gradient: Tangent) -> list[ForwardSubstitution]:
        pairs = zip(self._eliminations, gradient.states, strict=True)
        return self.here.reduced.pool.map(lambda pair: pair[0].forward(pair[1]), pairs)

    def _solve(self, gradient: Array, forwards: Sequence[ForwardSubstitution], moved: Array | float = 0.0) -> Tangent:
        parameters = self._parameters(gradient, forwards, moved)
        pairs = zip(self._eliminations, forwards, strict=True)
        states = self.here.reduced.pool.map(lambda pair: pair[0].states(pair[1], parameters), pairs)
        return Tangent(tuple(states), parameters)


class SaddleStep(_ParameterStep):
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box and Cδ = −c in the coupled rows, for one α.

    With ``exact``, JᵀJ + S in the place of JᵀJ.

    Raises:
        NotPositiveDefiniteError: if the system is singular, or a recursion finds a direction without curvature that the
            rows leave.
    """

    def __init__(self, here: Linearization, damping: float, exact: bool = False) -> None:
        self._exact = exact
        extra = here.curvature if exact else [None] * len(here.rows)
        self._saddles = here.reduced.pool.map(lambda c: self._eliminated(here, c, damping, extra[c]), range(len(extra)))
        corner = here.corner + sum(s.corner for s in extra if s is not None)
        super().__init__(here, damping, corner, [s.corner[:-1, :-1] for s in self._saddles])

    @staticmethod
    def _eliminated(here: Linearization, chain: int, damping: float, extra: NormalEquations | None) -> Saddle:
        equations, scales, by = here.equations(chain), here.scales.states[chain], here.reduced.recursion
        if extra is not None:
            extra = extra.copy()
            extra.add(equations)
            equations = extra
        given = (
            *(equations, here.coupled[chain], damping * scales + (scales * (here.diagonals[chain] == 0))),
            here.reduced.workspaces[chain],
        )
        return saddle(*given) if by is None else Riccati(*given, by)

    def first(self) -> tuple[Tangent, float]:
        """The step from here, and the decrease that it promises; the multipliers of the coupled rows are set to match.

        The merit's share of the rows themselves falls to nothing: Cδ = −c.
        """
        gradient, forwards = self.here.gradient, [s.own for s in self._saddles]
        step, multipliers = self._solve(gradient.parameters, forwards)
        promised = self._promised(gradient.parameters, forwards, step)
        self.here.reduced.shift_to(multipliers, self.here.coupled)
        return step, promised + self.here.reduced.constraint_merit(self.here.residuals)

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """The step corrected by the residuals found at its end."""
        gradient = self._remaining(step, residuals)
        if self._exact:
            gradient = gradient.plus(self.here.curvature_times(step))
        triples = zip(self._saddles, gradient.states, self.here.violations(residuals), strict=True)
        forwards = [s.forward(g, b) for s, g, b in triples]
        return self._whole(step, self._solve(gradient.parameters, forwards, step.parameters)[0])

    def _solve(
        self, gradient: Array, forwards: Sequence[ForwardSubstitution], moved: Array | float = 0.0
    ) -> tuple[Tangent, list[list[Array]]]:
        parameters = self._parameters(gradient, forwards, moved)
        steps = [s.step(forward, parameters) for s, forward in zip(self._saddles, forwards, strict=True)]
        return Tangent(tuple(states for states, _ in steps), parameters), [m for _, m in steps]


def damped(here: Linearization, damping: float, exact: bool = False) -> PenaltyStep | SaddleStep:
    """The step's problem for one α; ``exact`` with the exact Hessian.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """
    return SaddleStep(here, damping, exact) if here.reduced.saddle else PenaltyStep(here, damping, exact)


def schur(here: Linearization) -> Array:
    """Schur complement of the states in JᵀJ, (n_p, n_p).

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    for damping in (0.0, 1e-14):
        try:
            return damped(here, damping).schur
        except NotPositiveDefiniteError:
            continue
    raise NotPositiveDefiniteError("the states are not determined")
