"""The linearized problem at a point, and its damped, bounded step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spookid.kernels import Array
from spookid.solvers.bounded import bounded_step
from spookid.solvers.reduction import Reduction, Rows
from spookid.solvers.structured import (
    Elimination,
    NormalEquations,
    NotPositiveDefiniteError,
    assemble,
    diagonal,
    positive,
    pull_back,
)
from spookid.transcription import Point


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

    def minus(self, other: Tangent) -> Tangent:
        """Difference."""
        states = tuple(a - b for a, b in zip(self.states, other.states, strict=True))
        return Tangent(states, self.parameters - other.parameters)

    def scaled_norm(self, scales: Tangent) -> float:
        """√Σ scales δ²."""
        squares = Tangent(tuple(a * a for a in self.states), self.parameters * self.parameters)
        return float(np.sqrt(scales.dot(squares)))


class Linearization:
    """Rows and normal equations at ``point``, in the unknowns that the reduction leaves."""

    def __init__(self, reduction: Reduction, point: Point, reduced: Sequence[tuple[list[Rows], Array | None]]) -> None:
        self.reduction, self.problem, self.point = reduction, reduction.problem, point
        self.rows = [rows for rows, _ in reduced]
        self._bases = [basis for _, basis in reduced]
        self.chains: list[NormalEquations] = [
            assemble(rows, chain.steps, reduction.tangent, len(self.problem.names))
            for rows, chain in zip(self.rows, self.problem.chains, strict=True)
        ]
        self.corner = np.sum([chain.corner for chain in self.chains], axis=0)
        """Parameters' part of all chains, (n_p + 1, n_p + 1)."""

    def moved(self, step: Tangent) -> Point:
        """The point moved by a step, hard rows restored."""
        steps = [
            self.reduction.expand(s.reshape(-1, self.reduction.tangent), basis)
            for s, basis in zip(step.states, self._bases, strict=True)
        ]
        return self.reduction.restore(self.problem.retract(self.point, steps, step.parameters))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals; unknowns that stand in no row take none."""
        return self.reduction.freedom + sum(int(np.sum(chain.diagonal == 0)) for chain in self.chains)

    @cached_property
    def gradient(self) -> Tangent:
        """Jᵀr, half the gradient of the cost."""
        return Tangent(tuple(chain.gradient for chain in self.chains), self.corner[:-1, -1])

    @cached_property
    def scales(self) -> Tangent:
        """D, the metric of a step: the diagonal of JᵀJ.

        For a parameter it is at least cost/magnitude²: with damping α, moving it by its own magnitude costs α of the
        present cost. Else one that the data hardly see wanders off by orders of magnitude and is long in coming back.
        """
        magnitudes = np.maximum(self.problem.magnitudes, np.abs(self.point.parameters))
        parameters = np.maximum(np.diag(self.corner)[:-1], self.corner[-1, -1] / magnitudes**2)
        return Tangent(tuple(diagonal(chain) for chain in self.chains), positive(parameters))

    def hessian(self, step: Tangent) -> Tangent:
        """JᵀJ times a step."""
        products = [chain.apply(s, step.parameters) for chain, s in zip(self.chains, step.states, strict=True)]
        return Tangent(tuple(s for s, _ in products), np.sum([p for _, p in products], axis=0))

    def pull_back(self, residuals: list[list[Array]]) -> Tangent:
        """Jᵀ times the residuals of another point."""
        parts = [
            pull_back(rows, self.reduction.augmented(c, residuals[c]), chain.steps, self.reduction.tangent)
            for c, (rows, chain) in enumerate(zip(self.rows, self.problem.chains, strict=True))
        ]
        return Tangent(tuple(s for s, _ in parts), np.sum([p for _, p in parts], axis=0))

    def promised(self, step: Tangent) -> float:
        """Decrease of the linearized cost along a step: −2gᵀδ − δᵀHδ, right for any bounds and damping."""
        return -2 * self.gradient.dot(step) - step.dot(self.hessian(step))

    def information(self) -> Array:
        """Schur complement of the states in JᵀJ, (n_p, n_p).

        Raises:
            NotPositiveDefiniteError: if the states are not determined.
        """
        for damping in (0.0, 1e-14):
            try:
                eliminated = [Elimination(chain, damping).reduction() for chain in self.chains]
                return np.asarray(self.corner[:-1, :-1] - np.sum(eliminated, axis=0))
            except NotPositiveDefiniteError:
                continue
        raise NotPositiveDefiniteError("the states are not determined")

    def optimality(self) -> float:
        """Largest cosine between the residual and a column of J; parameters that their gradient pushes against a bound
        do not count."""
        gradient = self.gradient.parameters
        low = self.point.parameters <= self.problem.lower
        high = self.point.parameters >= self.problem.upper
        pushed = (low & (gradient > 0)) | (high & (gradient < 0))
        parts = [*self.gradient.states, np.where(pushed, 0.0, gradient)]
        scales = [*self.scales.states, positive(np.diag(self.corner)[:-1])]
        largest = max(float(np.max(np.abs(g) / np.sqrt(s), initial=0.0)) for g, s in zip(parts, scales, strict=True))
        return largest / float(np.sqrt(self.corner[-1, -1]))


class DampedStep:
    """argmin of 2gᵀδ + δᵀ(JᵀJ + α D)δ with the parameters in their box, for one α and any gradients g.

    The states are eliminated in time order; the parameters' step is a small bounded quadratic program.

    Raises:
        NotPositiveDefiniteError: if α is too small for a factorization.
    """

    def __init__(self, here: Linearization, damping: float) -> None:
        self._eliminations = [Elimination(chain, damping) for chain in here.chains]
        reduced = here.corner[:-1, :-1] - sum(e.reduction() for e in self._eliminations)
        self._matrix = reduced + damping * np.diag(here.scales.parameters)
        self._lower = here.problem.lower - here.point.parameters
        self._upper = here.problem.upper - here.point.parameters

    def __call__(self, gradient: Tangent) -> Tangent:
        """The step for a gradient."""
        halves = [e.half(g[:, None])[:, 0] for e, g in zip(self._eliminations, gradient.states, strict=True)]
        reduced = gradient.parameters - sum(
            e.reduced_gradient(h) for e, h in zip(self._eliminations, halves, strict=True)
        )
        parameters = bounded_step(self._matrix, reduced, self._lower, self._upper)
        states = tuple(e.states(h, parameters) for e, h in zip(self._eliminations, halves, strict=True))
        return Tangent(states, parameters)
