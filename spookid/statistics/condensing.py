"""The linearized problem with its states eliminated: T of (3.32) with TᵀT the Schur complement, and projected
residuals.

With whitened Jacobians J_x of the states and J_χ of the parameters, T = (I − J_x J_x⁺) J_χ. A projection costs two
substitutions in the factor of the states, so that time is linear in the number of steps.

Equality constraints A x = b that link steps hold exactly. Their entries in T are the multipliers ν with
J_xᵀT + Aᵀν = 0. Products of T with residuals that are not projected therefore include the constraints, and products of
two projected vectors include the residuals only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Mask
from spookid.solvers.linearization import Linearization
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Columns, LinearizedFactor, Rows, Stream, chunks
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.solvers.systems import independent_combinations
from spookid.statistics.weak_directions import RANK
from spookid.transcription.factor import Factor, Group
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point, Transcription

Signs = NDArray[np.int8]
"""Columns of one factor, of −1, 0 and 1."""

_SOUND = 1e-6
"""Relative error of tr(J_x J_x⁺), a whole number, with which its parts are still of use."""


def linearize(problem: Transcription, point: Point) -> Linearization:
    """Linearization of a problem at ``point``; of a complementarity pair, the smaller member is fixed.

    Raises:
        NotPositiveDefiniteError: if anything is not finite.
    """
    return Linearization(ReducedProblem(problem.at_solution(), point), point, lenient=True).changed(_looked_at)


def linearize_beside(problem: Transcription, factor: Factor, point: Point) -> list[LinearizedFactor]:
    """Linearization of an additional factor in the unknowns of a linearized problem, along each chain.

    Raises:
        NotPositiveDefiniteError: if anything is not finite.
    """
    reduced = ReducedProblem(problem.with_factors((factor, *problem.factors)), point)
    rows = (reduced.rows(factor, point, c) for c in range(len(problem.chains)))
    pairs = zip(rows, problem.chains, strict=True)
    given = reduced.tangent, reduced.scale(factor)
    return [_looked_at(LinearizedFactor(factor, own, chain.steps, *given)) for own, chain in pairs]


def _looked_at(term: LinearizedFactor) -> LinearizedFactor:
    """With rows of which parts can be had, and of the first state those combinations that noise lives in."""
    rows, factor = term.source, term.factor
    if isinstance(rows, Stream) and (factor.first_only or rows.jacobian.program is None):
        rows = term.rows
    if isinstance(rows, Rows) and factor.first_only and factor.group is Group.STATE:
        basis = independent_combinations(rows, term.unknowns)
        complement = basis[None] if rows.complement is None else np.matmul(rows.complement, basis)
        rows = Rows(rows.offsets, np.matmul(rows.matrix, basis), complement)
    term = replace(term, source=rows)
    if not term.finite:
        raise NotPositiveDefiniteError("a residual or a derivative is not finite")
    return term


class Condensed:
    """Linearized problem in which the states are eliminated.

    Args:
        here: the problem.
        free: directions in which parameters move.
        refined: project twice, so that T is exact to round-off.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """

    def __init__(self, here: Linearization, free: FreeDirections, refined: bool = True) -> None:
        self.linearized, self._free, n = here, free, here.parameters
        projected = [here.system(c).condensed(refined) for c in range(len(here.chains))]
        self._states = sum(here.system(c).moving for c in range(len(here.chains)))
        self._held = sum(here.system(c).held for c in range(len(here.chains)))
        self.T = [[part[:, :n] for part in parts] for parts in projected]
        """Per chain and factor, transposed: (count, n_p, rows); multipliers in equality constraints."""
        self.information = self.inner(self.T, self.T)
        """TᵀT, the Schur complement of the states, (n_p, n_p)."""
        self.inverse, self._moving = pseudo_inverse(self.information, free)
        """Its inverse in the directions that are free, 0 across them, (n_p, n_p)."""
        left = [[part[:, n:] for part in parts] for parts in projected]
        self._gradient = self.inner(self.T, left)
        """Tᵀr, (n_p, 1)."""
        self.residuals = self._without_parameters(left, self._gradient)
        """r̂ = (I − H) r, what the best changes of states and parameters leave, (count, 1, rows)."""

    def across(self, open: Array) -> Condensed:
        """Same problem without estimation along some directions of the parameters, (n_p, k)."""
        other = copy(self)
        other.inverse, other._moving = pseudo_inverse(self.information, self._free, open)
        more = (self.inverse - other.inverse) @ self._gradient
        other.residuals = [
            [part + np.matmul(more.T, T) for part, T in zip(parts, Ts, strict=True)]
            for parts, Ts in zip(self.residuals, self.T, strict=True)
        ]
        return other

    def less(self, columns: Sequence[Columns]) -> Condensed:
        """Same problem without a part of the residuals, (count, 1, rows)."""
        other, part = copy(self), self.left(columns)
        other.residuals = [
            [r - c for r, c in zip(*pairs, strict=True)] for pairs in zip(self.residuals, part, strict=True)
        ]
        return other

    @property
    def at_bounds(self) -> Mask:
        """True for parameters that bounds hold, (n_p,)."""
        return self._free.held

    @property
    def freedom(self) -> int:
        """Degrees of freedom: number of equations with data, including constraints, minus number of unknowns."""
        rows = sum(int(term.alive.sum()) for terms in self.linearized.chains for term in terms if not term.factor.hard)
        return rows + self._held - self._states - self._moving

    def release(self) -> None:
        """Release the factorization of the states, which uses the most memory; it is computed again on request."""
        self.linearized.release()

    def leverages(self) -> list[Columns] | None:
        """Per chain and factor, sum over steps of the diagonal of J_x J_x⁺ (leverage of the states), (rows,); 0 for
        constraints. None if rounding errors are too large."""
        found = [self._leverages(c) for c in range(len(self.linearized.chains))]
        trace = self._held + sum(float(np.sum(rows)) for parts in found for rows in parts)
        return found if abs(trace - self._states) <= _SOUND * self._states else None

    def covariances(self, chain: int, place: int) -> Array:
        """Covariance JH⁻¹Jᵀ of one factor's fitted values at each step, if the noise model is correct, (count, rows,
        rows)."""
        T = self.T[chain][place]
        of_parameters = np.matmul(T.transpose(0, 2, 1), np.matmul(self.inverse, T))
        return np.asarray(of_parameters + self.state_covariances(chain, self.linearized.chains[chain][place]))

    def state_covariances(self, chain: int, term: LinearizedFactor) -> Array:
        """Same covariances for given parameters, of any factor in the unknowns of this problem."""
        found = np.zeros((len(term.residual), term.residual.shape[1], term.residual.shape[1]))
        for _, here, states, across in self.linearized.system(chain).covariances([term]):
            found[here] = np.matmul(states.transpose(0, 2, 1), across)
        return found

    def rows(self, *columns: Sequence[Sequence[Array | Signs]]) -> Iterator[tuple[Any, ...]]:
        """Yield each linearized factor of each chain, with its parts of residual vectors."""
        for terms, *parts in zip(self.linearized.chains, *columns, strict=True):
            yield from zip(terms, *parts, strict=True)

    def left(self, columns: Sequence[Sequence[Array | Signs]]) -> list[Columns]:
        """Project residual vectors by (I − H), per chain."""
        return self.moved(columns)[1]

    def moved(self, columns: Sequence[Sequence[Array | Signs]]) -> tuple[Array, list[Columns]]:
        """Change of the estimates by noise in the residuals, to either side, (n_p, m), and what is ``left``."""
        states = [self.without_states(c, part) for c, part in enumerate(columns)]
        products = self.inner(self.T, states)
        return self.inverse @ products, self._without_parameters(states, products)

    def inner(self, one: Sequence[Columns], other: Sequence[Columns], hard: bool = False) -> Array:
        """Inner products of residual vectors, (m, m'); including ``hard`` equations if one is not projected."""
        pairs = ((a, b) for term, a, b in self.rows(one, other) if hard or not term.factor.hard)
        return np.asarray(sum(products(a, b) for a, b in pairs))

    def without_states(self, chain: int, columns: Sequence[Array | Signs]) -> Columns:
        """Project residual vectors of one chain by (I − J_x J_x⁺)."""
        left = [np.array(c, dtype=np.float64) for c in columns]
        self.linearized.system(chain).project(left)
        return left

    def _without_parameters(self, columns: Sequence[Columns], products: Array) -> list[Columns]:
        """(I − T T⁺) times vectors of residuals, in their place, with their products with T, (n_p, m)."""
        steps = (self.inverse @ products).T
        for Ts, parts in zip(self.T, columns, strict=True):
            for T, part in zip(Ts, parts, strict=True):
                for here in chunks(len(T), T[:1].size):
                    part[here] -= np.matmul(steps, T[here])
        return list(columns)

    def _leverages(self, chain: int) -> Columns:
        """Of one chain, with the covariances P of neighbouring steps in the unknowns that each row sees."""
        terms = self.linearized.chains[chain]
        found, soft = [np.zeros(term.residual.shape[1]) for term in terms], [t for t in terms if not t.factor.hard]
        totals = [total for term, total in zip(terms, found, strict=True) if not term.factor.hard]
        for number, _, states, across in self.linearized.system(chain).covariances(soft):
            totals[number] += np.einsum("kur,kur->r", states, across)
        return found


def products(one: Array, other: Array, weights: Array | float = 1.0) -> Array:
    """Inner products of residual vectors of one factor, (count, m, rows) and (count, m', rows), with a weight per
    equation, (m, m')."""
    total, weights = np.zeros((one.shape[1], other.shape[1])), np.broadcast_to(weights, one.shape[2:])
    counted = slice(None) if weights.all() else np.flatnonzero(weights)
    for here in chunks(len(one), one[:1].size + other[:1].size):
        left, right = one[here][:, :, counted], other[here][:, :, counted]
        total += np.tensordot(left * weights[counted], right, axes=((0, 2), (0, 2)))
    return total


def pseudo_inverse(information: Array, free: FreeDirections, open: Array | None = None) -> tuple[Array, int]:
    """Pseudo-inverse in the free directions, with each parameter scaled by its own information, and its rank.

    Args:
        open: directions along which it is zero, (n_p, k), and with which the others have nothing in common: what lies
            across them in the measure of the information is inverted.
    """
    if open is not None:
        across = information @ open
        rest = np.eye(len(information)) - open @ np.linalg.pinv(open.T @ across, hermitian=True) @ across.T
        inverse, rank = pseudo_inverse(rest.T @ information @ rest, free)
        return rest @ inverse @ rest.T, rank
    half = inverse_root(information, free)
    return np.asarray(half @ half.T), half.shape[1]


def inverse_root(information: Array, free: FreeDirections | None = None) -> Array:
    """Matrix L with L Lᵀ equal to the pseudo-inverse, (n_p, rank)."""
    diagonal = np.diag(information)
    if free is not None and free.tied:
        sizes = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        along = sizes[:, None] * free.basis(sizes)
        return np.asarray(along @ inverse_root(along.T @ information @ along))
    scale = np.sqrt(np.maximum(diagonal, 0.0))
    moves = scale > 0 if free is None else (scale > 0) & ~free.held
    scale = np.where(moves, scale, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > RANK**2 * values.max(initial=0.0)
    return np.asarray(vectors[:, seen] / np.sqrt(values[seen]) / scale[:, None])
