"""The damped, bounded step of a linearized problem.

The states are eliminated in time order; what is left of the step is a small bounded quadratic program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels import Array
from spookid.solvers.bounded import bounded_step
from spookid.solvers.linearization import Linearization, Tangent
from spookid.solvers.saddle import Saddle
from spookid.solvers.structured import Elimination, NotPositiveDefiniteError

_PASSES, _SATISFIED = 6, 1e-8
"""Passes of the method of multipliers at the most, and the share of the coupled rows' first error that is enough."""


class _Step:
    """The parameters' part of a step: a small bounded quadratic program on the Schur complement of the states."""

    def __init__(self, here: Linearization, damping: float, corner: Array, reductions: Sequence[Array]) -> None:
        self.here = here
        self.schur = np.asarray(corner[:-1, :-1] - np.sum(reductions, axis=0))
        """Schur complement of the damped states, (n_p, n_p), the parameters undamped."""
        self._matrix = self.schur + damping * np.diag(here.scales.parameters)
        self._lower = here.problem.lower - here.point.parameters
        self._upper = here.problem.upper - here.point.parameters

    def _parameters(self, gradient: Array, reductions: Sequence[Array]) -> Array:
        reduced = gradient - np.sum(reductions, axis=0)
        return bounded_step(self._matrix, reduced, self._lower, self._upper)


class PenaltyStep(_Step):
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box, for one α; coupled rows stand in J.

    With ``exact``, JᵀJ + S in the place of JᵀJ.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """

    def __init__(self, here: Linearization, damping: float, exact: bool = False) -> None:
        extra = here.curvature if exact else [None] * len(here.chains)
        self._eliminations = [Elimination(chain, damping, s) for chain, s in zip(here.chains, extra, strict=True)]
        corner = here.corner + sum(s.corner for s in extra if s is not None)
        super().__init__(here, damping, corner, [e.reduction() for e in self._eliminations])

    def first(self) -> Tangent:
        """The step from here. Coupled rows are satisfied to first order by the method of multipliers."""
        step, first = self._solve(self.here.gradient), 0.0
        for _ in range(_PASSES if self.here.reduction.coupled else 0):
            error = self.here.reduction.shift_to(self.here.violations(self.here.residuals, step), self.here.coupled)
            self.here.gradient = self.here.pull_back(self.here.residuals)
            step = self._solve(self.here.gradient)
            first = max(first, error)
            if error <= _SATISFIED * first:
                break
        return step

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """The step corrected by the residuals found at its end."""
        return self._solve(self.here.pull_back(residuals).minus(self.here.hessian(step)))

    def _solve(self, gradient: Tangent) -> Tangent:
        halves = [e.half(g[:, None])[:, 0] for e, g in zip(self._eliminations, gradient.states, strict=True)]
        pairs = list(zip(self._eliminations, halves, strict=True))
        parameters = self._parameters(gradient.parameters, [e.reduced_gradient(h) for e, h in pairs])
        return Tangent(tuple(e.states(h, parameters) for e, h in pairs), parameters)


class SaddleStep(_Step):
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box and Cδ = −c in the coupled rows, for one α.

    Raises:
        NotPositiveDefiniteError: if the system is singular.
    """

    def __init__(self, here: Linearization, damping: float) -> None:
        self._saddles = [
            Saddle(rows, hard, damping * scales + (scales * (total == 0)), here.reduction.tangent)
            for rows, hard, scales, total in zip(
                here.rows, here.coupled, here.scales.states, here.diagonals, strict=True
            )
        ]
        super().__init__(here, damping, here.corner, [saddle.reduction() for saddle in self._saddles])

    def first(self) -> Tangent:
        """The step from here, and the multipliers of the coupled rows set to match."""
        step, multipliers = self._solve(self.here.gradient, self.here.violations(self.here.residuals))
        self.here.reduction.shift_to(multipliers, self.here.coupled)
        return step

    def again(self, step: Tangent, residuals: list[list[Array]]) -> Tangent:
        """The step corrected by the residuals found at its end."""
        gradient = self.here.pull_back(residuals).minus(self.here.hessian(step))
        return self._solve(gradient, self.here.violations(residuals, step, -1.0))[0]

    def _solve(self, gradient: Tangent, violations: list[list[Array]]) -> tuple[Tangent, list[list[Array]]]:
        triples = zip(self._saddles, gradient.states, violations, strict=True)
        pairs = [(saddle, saddle.solved(g, b)) for saddle, g, b in triples]
        parameters = self._parameters(gradient.parameters, [s.reduced_gradient(y) for s, y in pairs])
        steps = [saddle.step(y, parameters) for saddle, y in pairs]
        return Tangent(tuple(states for states, _ in steps), parameters), [m for _, m in steps]


def damped(here: Linearization, damping: float, exact: bool = False) -> PenaltyStep | SaddleStep:
    """The step's problem for one α; ``exact`` with the exact Hessian, where no saddle point is solved for.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """
    return SaddleStep(here, damping) if here.reduction.saddle else PenaltyStep(here, damping, exact)


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
