"""The linearized problem with its states eliminated: T of (3.32), and what a fit leaves of any vector of residuals.

With whitened Jacobians J_x of the states and J_χ of the parameters, T = (I − J_x J_x⁺) J_χ. A projection costs two
substitutions in the states' Cholesky factor, so all of this is linear in the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.kernel import Array
from spookid.solvers.elimination import Elimination, eliminate
from spookid.solvers.neighbours import neighbours, spread
from spookid.solvers.reduction import Reduction, Rows
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, normal_equations
from spookid.statistics.systems import independent_combinations
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point, Transcription

_RANK = 1e-10
"""Eigenvalues of the scaled information below this share of the largest are zero to round-off."""
_MOST = 125_000_000
"""Numbers in the covariances of neighbouring steps, 1 GB: those of 217,000 steps of a single pendulum with SPOOK."""
_SOUND = 1e-6
"""Relative error of tr(J_x J_x⁺), a whole number, with which its parts are still of use."""

Columns = list[Array]
"""m vectors of residuals along one chain: per factor (count, m, rows)."""


@dataclass(frozen=True, eq=False)
class Strip:
    """One factor's rows along one chain, in the unknowns that the reduction leaves."""

    factor: Factor
    rows: Rows
    alive: Array
    """1 where a row depends on anything, 0 where its sample is missing, (count, rows)."""
    steps: int
    """N, of the chain."""
    tangent: int
    """Unknowns of a step."""
    scale: float = 1.0
    """By which raw residuals of the factor were multiplied: that of hard rows is their penalty's root."""

    @property
    def states(self) -> Array:
        """Transposed Jacobian of the states, steps in order of offset, (count, unknowns, rows)."""
        return self.rows.matrix[:, : len(self.rows.offsets) * self.tangent]

    def image(self, steps: Array) -> Array:
        """J times steps of the states (N, tangent, m): (count, m, rows)."""
        return self.rows.image(steps)

    def between(self, first: int, last: int) -> NormalEquations:
        """The part of its rows from ``first`` to before ``last``, of the steps that they reach from ``first`` on."""
        rows = replace(self.rows, matrix=self.rows.matrix[first:last])
        parameters = rows.matrix.shape[1] - len(rows.offsets) * self.tangent - 1
        return normal_equations([rows], len(rows.matrix) + max(rows.offsets), self.tangent, parameters)


@dataclass(frozen=True, eq=False)
class Linear:
    """A transcription linearized at a point."""

    problem: Transcription
    chains: tuple[tuple[Strip, ...], ...]

    @property
    def parameters(self) -> int:
        """n_p."""
        return len(self.problem.names)

    def scaled(self, scales: Mapping[str, Array]) -> Linear:
        """With the rows of each factor that ``scales`` names multiplied by its numbers, (rows,)."""

        def scaled(strip: Strip) -> Strip:
            if strip.factor.name not in scales:
                return strip
            return replace(strip, rows=replace(strip.rows, matrix=strip.rows.matrix * scales[strip.factor.name]))

        return replace(self, chains=tuple(tuple(map(scaled, strips)) for strips in self.chains))


def linear(problem: Transcription, point: Point) -> Linear:
    """The linearization at ``point``; hard rows that link steps become stiff ones, of a pair the smaller member's."""
    problem = problem.at_solution()
    reduction = Reduction(problem, point)
    reduction.stiffen()
    chains = []
    for c, chain in enumerate(problem.chains):
        rows, _ = reduction.reduce(point, c)
        pairs = zip(reduction.kept, rows, strict=True)
        chains.append(tuple(_strip(reduction, factor, r, chain.steps) for factor, r in pairs))
    return Linear(problem, tuple(chains))


def _strip(reduction: Reduction, factor: Factor, rows: Rows, steps: int) -> Strip:
    if factor.first_only and factor.group is Group.STATE:
        basis = independent_combinations(rows, len(rows.offsets) * reduction.tangent)  # noise lives in them only
        complement = basis[None] if rows.complement is None else np.matmul(rows.complement, basis)
        rows = replace(rows, matrix=np.matmul(rows.matrix, basis), complement=complement)
    alive = np.any(rows.matrix[:, :-1] != 0, axis=1).astype(np.float64)
    scale = float(np.sqrt(reduction.penalty)) if factor in reduction.coupled else 1.0
    return Strip(factor, rows, alive, steps, reduction.tangent, scale)


def added(strips: Sequence[Strip]) -> NormalEquations:
    """Normal equations of one chain."""
    first = strips[0]
    parameters = first.rows.matrix.shape[1] - len(first.rows.offsets) * first.tangent - 1
    return normal_equations([strip.rows for strip in strips], first.steps, first.tangent, parameters)


class Contraction:
    """A linearized problem with its states projected out.

    Args:
        here: the problem.
        held: True for parameters that do not move, (n_p,).
        refined: project twice, so that T is exact to round-off.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(self, here: Linear, held: NDArray[np.bool_], refined: bool = True) -> None:
        if not all(np.all(np.isfinite(s.rows.matrix)) for strips in here.chains for s in strips):
            raise NotPositiveDefiniteError("a residual or a derivative is not finite")
        self.linear = here
        self._states = 0
        self._eliminations = [self._eliminated(c) for c in range(len(here.chains))]
        n = here.parameters
        starts = [[s.rows.matrix[:, -(n + 1) :] for s in strips] for strips in here.chains]
        projected = [self._less(c, start, self._eliminations[c].response) for c, start in enumerate(starts)]
        if refined:
            projected = [self.without_states(c, part) for c, part in enumerate(projected)]
        self.T = [[part[:, :n] for part in parts] for parts in projected]
        """Per chain and factor, transposed: (count, n_p, rows)."""
        self.information = self.inner(self.T, self.T)
        """TᵀT, the Schur complement of the states, (n_p, n_p)."""
        self.inverse, self._moving = pseudo_inverse(self.information, held)
        """Its inverse for the parameters that are not held, 0 elsewhere, (n_p, n_p)."""
        self.residuals = self._without_parameters([[part[:, n:] for part in parts] for parts in projected])
        """r̂ = (I − H) r, what the best changes of states and parameters leave, (count, 1, rows)."""

    @property
    def freedom(self) -> int:
        """Rows that depend on anything, hard ones too, less the unknowns that move any."""
        rows = sum(int(strip.alive.sum()) for strips in self.linear.chains for strip in strips)
        return rows - self._states - self._moving

    @cached_property
    def spread(self) -> list[Columns] | None:
        """Per chain and factor P J_xᵀ with P = (J_xᵀJ_x)⁻¹ in the unknowns that the rows see, (count, unknowns, rows):
        how these follow noise in the rows. None if rounding spoils it, or if they take too much memory."""
        widths = [strips[0].tangent * (1 + max(max(s.rows.offsets) for s in strips)) for strips in self.linear.chains]
        if sum(width**2 * strips[0].steps for width, strips in zip(widths, self.linear.chains, strict=True)) > _MOST:
            return None
        found = [self._spread(c) for c in range(len(self._eliminations))]
        trace = sum(float(np.vdot(strip.states, W)) for strip, W in self.rows(found))
        return found if abs(trace - self._states) <= _SOUND * self._states else None

    def rows(self, *columns: Sequence[Columns]) -> Iterator[tuple[Any, ...]]:
        """The strip of each factor along each chain, with its parts of vectors of residuals."""
        for strips, *parts in zip(self.linear.chains, *columns, strict=True):
            yield from zip(strips, *parts, strict=True)

    def left(self, columns: Sequence[Columns]) -> list[Columns]:
        """(I − H) times vectors of residuals, per chain."""
        return self._without_parameters([self.without_states(c, part) for c, part in enumerate(columns)])

    def inner(self, one: Sequence[Columns], other: Sequence[Columns]) -> Array:
        """Inner products of vectors of residuals, (m, m')."""
        pairs = ((a, b) for ones, others in zip(one, other, strict=True) for a, b in zip(ones, others, strict=True))
        return np.asarray(sum(np.tensordot(a, b, axes=((0, 2), (0, 2))) for a, b in pairs))

    def _steps(self, chain: int, columns: Columns) -> Array:
        """J_x⁺ times vectors of residuals of one chain, (N tangent, m)."""
        strips = self.linear.chains[chain]
        right = np.zeros((strips[0].steps, strips[0].tangent, columns[0].shape[1]))
        for strip, left in zip(strips, columns, strict=True):
            strip.rows.pull(left, right)
        return self._eliminations[chain].solve(right.reshape(-1, right.shape[2]))

    def _spread(self, chain: int) -> Columns:
        """P J_xᵀ of one chain."""
        strips = self.linear.chains[chain]
        covariances = neighbours(self._eliminations[chain].factor, strips[0].tangent)
        return [spread(covariances, s.rows.offsets, s.states) for s in strips]

    def without_states(self, chain: int, columns: Columns) -> Columns:
        """(I − J_x J_x⁺) times vectors of residuals of one chain."""
        return self._less(chain, columns, self._steps(chain, columns))

    def _less(self, chain: int, columns: Columns, steps: Array) -> Columns:
        """Vectors of residuals of one chain less J_x times steps of its states, (N tangent, m)."""
        strips = self.linear.chains[chain]
        steps = steps.reshape(strips[0].steps, strips[0].tangent, -1)
        return [c - s.image(steps) for c, s in zip(columns, strips, strict=True)]

    def _without_parameters(self, columns: Sequence[Columns]) -> list[Columns]:
        """(I − T T⁺) times vectors of residuals."""
        steps = self.inverse @ self.inner(self.T, columns)
        return [
            [c - np.matmul(steps.T, T) for T, c in zip(Ts, parts, strict=True)]
            for Ts, parts in zip(self.T, columns, strict=True)
        ]

    def _eliminated(self, chain: int) -> Elimination:
        for damping in (0.0, 1e-14):
            equations = added(self.linear.chains[chain])
            moving = int(np.count_nonzero(equations.diagonal))
            try:
                elimination = eliminate(equations, damping, overwrite=True)
            except NotPositiveDefiniteError:
                continue
            self._states += moving
            return elimination
        raise NotPositiveDefiniteError("the states are not determined")


def pseudo_inverse(information: Array, held: NDArray[np.bool_]) -> tuple[Array, int]:
    """Pseudo-inverse, each parameter scaled by its own information, of those that are not held; and its rank."""
    scale = np.sqrt(np.diag(information))
    scale = np.where((scale > 0) & ~held, scale, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > _RANK * values.max(initial=0.0)
    half = vectors[:, seen] / np.sqrt(values[seen]) / scale[:, None]
    return np.asarray(half @ half.T), int(np.sum(seen))
