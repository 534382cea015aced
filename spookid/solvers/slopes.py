"""Slopes of a function of the reduced Jacobians, where hard rows and private unknowns have been eliminated.

A step's reduced Jacobian is Cᵀ J Z: Z spans the surface G = 0 of local hard rows, C the residuals that private
unknowns, with Jacobian P, cannot reach. Both turn as the point moves,

    dZ = −G⁺ dG Z,    dC = −P⁺ᵀ dPᵀ C    (but for turns within themselves, which no determinant sees),

so that ⟨K, d(CᵀJZ)⟩ is a sum of ⟨A, dJ⟩ over the columns of the states, the private ones among them, and of ⟨B, dG⟩.
The slopes in private unknowns, which follow by least squares, go back through P⁺.

Log-determinants of the rows that are a density: the random rows of each step, and the surface of the first state.

Rows with a Jacobian D in some unknowns multiply volumes across them by √det DDᵀ, |det D| if they are as many as the
unknowns. As d log √det DDᵀ = ⟨D⁺ᵀ, dD⟩, the pseudo-inverse D⁺ tells how this changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.condensation import inverses, null_space_and_inverse
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.solvers.systems import independent_combinations
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point


@dataclass(eq=False)
class Slopes:
    """Gradient of Σ ⟨K, reduced Jacobian⟩ along one chain, factor by factor."""

    reduced: ReducedProblem
    point: Point
    chain: int
    states: Array = field(init=False)
    """In the tangents of all unknowns, (N, tangent)."""
    parameters: Array = field(init=False)
    """(n_p,)."""

    def __post_init__(self) -> None:
        problem, steps = self.reduced.problem, self.reduced.problem.chains[self.chain].steps
        self.states = np.zeros((steps, problem.manifold.tangent))
        self.parameters = np.zeros(len(problem.names))
        self._space = self.reduced.spaces(self.point)[self.chain]
        self._surface: Array | None = None
        """B of all steps, (N, visible, local rows)."""
        self._reached: list[tuple[Factor, Array, Array]] = []
        """Factors with private unknowns, their full transposed Jacobians and P⁺."""

    def add(self, factor: Factor, weights: Array) -> None:
        """Add a factor's share, for weights K (count, reduced columns, rows that are left)."""
        self._contract(factor, weights if self.reduced.whole else self._lifted(factor, weights))

    def total(self) -> tuple[Array, Array]:
        """In the unknowns that are left, (N t,), and in the parameters, (n_p,)."""
        if self._surface is not None:
            self._contract_surface(self._surface)
        for factor, matrix, inverse in self._reached:
            self._return(factor, matrix, inverse)
        visible = self.states[:, self.reduced.columns]
        if self._space.drag is not None:
            self.parameters += np.einsum("kv,kvp->p", visible, self._space.drag)
        if self._space.basis is not None:
            visible = np.matmul(visible[:, None], self._space.basis)[:, 0]
        return visible.ravel(), self.parameters

    def _contract(self, factor: Factor, weights: Array) -> None:
        problem, full = self.reduced.problem, self.states.shape[1]
        slopes = problem.contract(factor, self.point, self.chain, weights)
        for i, offset in enumerate(factor.variables):
            self.states[offset : offset + len(slopes)] += slopes[:, i * full : (i + 1) * full]
        self.parameters += slopes[:, len(factor.variables) * full :].sum(axis=0)

    def _lifted(self, factor: Factor, weights: Array) -> Array:
        """A, (count, full columns, all rows), of K; what Z adds is kept for later."""
        complement, basis = self._space.complements.get(factor.name), self._space.basis
        count, full, t = len(weights), self.states.shape[1], self.reduced.tangent
        left = weights if complement is None else np.matmul(weights, complement.transpose(0, 2, 1))
        matrix = self.reduced.problem.linearize_factor(factor, self.point, self.chain).matrix
        lifted = np.zeros((count, len(factor.variables) * full, left.shape[2]))
        along = np.zeros((count, left.shape[2], left.shape[2]))
        for i, offset in enumerate(factor.variables):
            part, columns = left[:, i * t : (i + 1) * t], i * full + self.reduced.columns
            own = matrix[:, columns]
            outer = part if basis is None else np.matmul(basis[offset : offset + count], part)
            lifted[:, columns] = outer
            along += np.matmul(own.transpose(0, 2, 1), outer)
            if basis is not None:
                self._turn(offset, np.matmul(outer, own.transpose(0, 2, 1)))
        if factor.private is not None:
            offset, private = factor.private
            place = list(factor.variables).index(offset) * full + np.array(private)
            reached = matrix[:, place].transpose(0, 2, 1)
            inverse = null_space_and_inverse(reached, self.reduced.hidden(factor)).inverse
            lifted[:, place] = -np.matmul(inverse, along)
            self._reached.append((factor, matrix, inverse))
        return lifted

    def _turn(self, offset: int, products: Array) -> None:
        """Add −(Z K Cᵀ J) G⁺ of the steps from ``offset`` on to B, (count, visible, visible) given."""
        rows, inverse = self._local
        if self._surface is None:
            self._surface = np.zeros((len(self.states), products.shape[1], rows))
        steps = slice(offset, offset + len(products))
        self._surface[steps] -= np.matmul(products, inverse[steps])

    @property
    def _local(self) -> tuple[int, Array]:
        """How many local rows a step has, and G⁺, (N, visible, rows)."""
        if not hasattr(self, "_inverse"):
            problem, wide = self.reduced.problem, len(self.reduced.columns)
            blocks = [problem.local_rows(f, self.point, self.chain)(slice(None))[:, :wide] for f in problem.local]
            G = np.concatenate(blocks, axis=2).transpose(0, 2, 1)
            self._inverse = null_space_and_inverse(G, wide - self.reduced.tangent).inverse
        return self._inverse.shape[2], self._inverse

    def _contract_surface(self, surface: Array) -> None:
        first, full = 0, self.states.shape[1]
        for factor in self.reduced.problem.local:
            weights = np.zeros((len(surface), full, len(factor.rows)))
            weights[:, self.reduced.columns] = surface[:, :, first : first + len(factor.rows)]
            self._contract(factor, weights)
            first += len(factor.rows)

    def _return(self, factor: Factor, matrix: Array, inverse: Array) -> None:
        """Slopes in private unknowns to those of all others: −Jᵀ P⁺ᵀ g."""
        assert factor.private is not None
        offset, private = factor.private
        count, full = len(matrix), self.states.shape[1]
        g = self.states[offset : offset + count, list(private)]
        rows = np.matmul(g[:, None], inverse)[:, 0]
        pulled = -np.matmul(matrix[:, :-1], rows[:, :, None])[:, :, 0]
        for i, other in enumerate(factor.variables):
            self.states[other : other + count] += pulled[:, i * full : (i + 1) * full]
        self.parameters += pulled[:, len(factor.variables) * full :].sum(axis=0)


def slopes(
    reduced: ReducedProblem, point: Point, chain: int, weights: Iterable[tuple[Factor, Array]]
) -> tuple[Array, Array]:
    """Gradient of Σ ⟨K, reduced Jacobian⟩ in the unknowns that are left, (N t,), and in the parameters, (n_p,)."""
    whole = Slopes(reduced, point, chain)
    for factor, K in weights:
        whole.add(factor, K)
    return whole.total()


class Determinants:
    """Of one chain.

    Raises:
        NotPositiveDefiniteError: if what is random or hard does not determine the newest unknowns of a step.
    """

    def __init__(self, terms: Sequence[LinearizedFactor]) -> None:
        self._total = 0.0
        self.slopes: dict[int, Array] = {}
        """D⁺ of factors by their number, 0 in rows of D that are no part of it, (count, t, rows)."""
        newest: list[tuple[int, Array, Array | None]] = []
        for i, term in enumerate(terms):
            if term.factor.hard or term.factor.density:
                part = term.rows.matrix[:, term.unknowns - term.tangent : term.unknowns]
                if term.factor.hard and term.factor.first_only:
                    self._add([(i, part, independent_combinations(term.rows, term.tangent))])
                else:
                    newest.append((i, part, _random(term)))
        if len(newest) == 1 and (own := _own(terms[newest[0][0]])) is not None:
            self._take(newest[0][0], newest[0][1], own)
        elif newest:
            self._add(newest)

    def logarithm(self) -> float:
        """Σ log det DDᵀ."""
        return self._total

    def _take(self, number: int, part: Array, own: Array) -> None:
        """The random rows of a factor in their own unknowns: where a torque is measured its joint's motion is given."""
        inverse, logarithm = _inverted(part[:, own[:, None], own])
        self._total += 2 * logarithm
        slopes = np.zeros_like(part)
        slopes[:, own[:, None], own] = inverse.transpose(0, 2, 1)
        self.slopes[number] = slopes

    def _add(self, members: Sequence[tuple[int, Array, Array | None]]) -> None:
        """Rows that stand in one D: of each factor its number, its transposed Jacobian (count, t, rows) and those
        combinations of its rows that are part of D; None: all of them."""
        parts = [part if taken is None else part @ taken for _, part, taken in members]
        transposed = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
        square = transposed.shape[1] == transposed.shape[2]
        gram = transposed if square else np.matmul(transposed.transpose(0, 2, 1), transposed)
        inverse, logarithm = _inverted(gram)
        self._total += (2 if square else 1) * logarithm
        whole = inverse.transpose(0, 2, 1) if square else np.matmul(transposed, inverse)
        at = 0
        for (i, _, taken), part in zip(members, parts, strict=True):
            stop = at + part.shape[2]
            self.slopes[i] = whole[:, :, at:stop] if taken is None else whole[:, :, at:stop] @ taken.T
            at = stop


def _inverted(matrices: Array) -> tuple[Array, float]:
    """A⁻¹ of every step and Σ log |det A|."""
    inverse, logarithms = inverses(matrices)
    if np.any(np.isneginf(logarithms)):
        raise NotPositiveDefiniteError("what is random does not move the mechanism")
    return inverse, float(np.sum(logarithms))


def _own(term: LinearizedFactor) -> Array | None:
    """Places of the random rows of a factor whose other rows are measurements, one an unknown; None if it has none."""
    factor = term.factor
    if factor.hard or term.complement is not None or len(factor.density) == term.source.shape[2]:
        return None
    return np.array(factor.density)


def _random(term: LinearizedFactor) -> Array | None:
    """The rows of a factor that are hard or a density, as columns of an identity; None: all, and if they are
    combined."""
    factor, left = term.factor, term.source.shape[2]
    if factor.hard or term.complement is not None or factor.density in {(), tuple(range(left))}:
        return None
    return np.eye(left)[:, list(factor.density)]
