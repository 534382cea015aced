"""Slopes of a function of the reduced Jacobians, where equality constraints and private unknowns have been eliminated.

A step's reduced Jacobian is Cᵀ J Z: Z spans the surface G = 0 of local equality constraints, C the residuals that
private unknowns, with Jacobian P, cannot reach. Both turn as the point moves,

    dZ = −G⁺ dG Z,    dC = −P⁺ᵀ dPᵀ C    (but for turns within themselves, which no determinant sees),

so that ⟨K, d(CᵀJZ)⟩ is a sum of ⟨A, dJ⟩ over the columns of the states, the private ones among them, and of ⟨B, dG⟩.
The slopes in private unknowns, which follow by least squares, go back through P⁺.

Log-determinants of the rows that are a density: the process-noise equations of each step, and the surface of the first
state.

The density of equations with Jacobian D in some unknowns contains √det DDᵀ, which is |det D| for a square D. As
d log √det DDᵀ = ⟨D⁺ᵀ, dD⟩, the pseudo-inverse D⁺ is its derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from spookid.kernels.arrays import Array, Integers, location
from spookid.kernels.kernel import Call
from spookid.kernels.native import integers, routines
from spookid.kernels.precision import STEPS_OF_A_CALL
from spookid.solvers.condensation import Layout, condensed, inverse_of_rank, inverses, sparse_plan
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.solvers.systems import independent_combinations
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point


class Turns:
    """Conversion of weights A from reduced Jacobians to full ones, before elimination of private unknowns.

    Args:
        steps: N.
        tangent: columns of a step.
        columns: those that are no private unknowns.
        inverse: G⁺ of the local equality constraints, (N, visible, rows); None if there are none.
        basis: Z, (N, visible, t); None: weights are those of all visible columns.
    """

    def __init__(self, steps: int, tangent: int, columns: Integers, inverse: Array | None, basis: Array | None) -> None:
        self._tangent, self._columns, self._inverse, self._basis = tangent, columns, inverse, basis
        self.products = np.zeros((steps, len(columns) if basis is None else basis.shape[2], len(columns)))
        """K Cᵀ J of all factors, by which the surface turns."""

    def visible(self, factor: Factor) -> Integers:
        """Columns of a factor's Jacobian that do not belong to private unknowns."""
        return (np.arange(len(factor.variables))[:, None] * self._tangent + self._columns).ravel()

    def private(self, factor: Factor) -> Integers:
        """Those of its private unknowns."""
        offset, private = factor.private or (0, ())
        return list(factor.variables).index(offset) * self._tangent + np.array(private, dtype=np.int64)

    def lifted(self, factor: Factor, matrix: Array, across: Array, inverse: Array | None) -> Array:
        """Weights A of a factor's full Jacobian, (count, columns, rows).

        Args:
            matrix: its full transposed Jacobians.
            across: K Cᵀ, (count, t of each step, rows).
            inverse: P⁺, (count, private, rows); None if it has no private unknowns.
        """
        (count, _, rows), t = across.shape, self.products.shape[1]
        found = np.zeros((count, len(factor.variables) * self._tangent, rows))
        moved = np.empty_like(across)
        for i, offset in enumerate(factor.variables):
            steps, part, columns = slice(offset, offset + count), slice(i * t, (i + 1) * t), i * self._tangent
            own, weights = matrix[:, columns + self._columns], across[:, part]
            if self._inverse is not None:
                self.products[steps] += np.matmul(weights, own.transpose(0, 2, 1))
            if self._basis is not None:
                own = np.matmul(self._basis[steps].transpose(0, 2, 1), own)
                weights = np.matmul(self._basis[steps], weights)
            found[:, columns + self._columns], moved[:, part] = weights, own
        if inverse is not None:
            found[:, self.private(factor)] = -np.matmul(np.matmul(inverse, moved.transpose(0, 2, 1)), across)
        return found

    def lifted_by(self, factor: Factor, call: Call, across: Array, inverse: Array | None) -> Array:
        """The same by C code if there is any, from the program of the Jacobians: weights of their zeros are zero."""
        by, program, places = routines(), call.program, call.kernel.places
        if by is None or program is None or places is None:
            return self.lifted(factor, call(slice(None)), across, inverse)
        offsets, (wide, rows), columns = tuple(factor.variables), call.shape, self._tangent * len(factor.variables)
        layout = Layout(offsets, self._tangent, tuple(self._columns.tolist()), wide - columns - 1)
        plan = sparse_plan(layout, places.tobytes(), call.shape, self.products.shape[1], True, ())
        private = integers([] if inverse is None else self.private(factor))
        given, found = np.ascontiguousarray(across), np.zeros((len(across), columns, rows))
        for start in range(0, len(given), STEPS_OF_A_CALL):
            part = slice(start, min(start + STEPS_OF_A_CALL, len(given)))
            at = (location(None if a is None else a[start:]) for a in (self._basis, given, inverse))
            by.lift(
                *(part.stop - start, program.address, *program.arguments(*call.at(part))),
                *(location(plan.sizes), plan.lists.address, *at, len(private), location(private)),
                *(location(places), location(self.products[start:]), location(found[part]), columns * rows),
            )
        return found

    def surface(self, local: Iterable[Factor]) -> Iterator[tuple[Factor, Array]]:
        """Weights A of the local equality constraints, −Z (K Cᵀ J) G⁺."""
        if self._inverse is None:
            return
        weights, first = -np.matmul(self.products, self._inverse), 0
        weights = weights if self._basis is None else np.matmul(self._basis, weights)
        for factor in local:
            found = np.zeros((len(weights), self._tangent, len(factor.rows)))
            found[:, self._columns] = weights[:, :, first : first + len(factor.rows)]
            yield factor, found
            first += len(factor.rows)


class _Slopes:
    """Gradient of Σ ⟨K, reduced Jacobian⟩ along one chain, factor by factor."""

    def __init__(self, reduced: ReducedProblem, point: Point, chain: int) -> None:
        self._reduced, self._point, self._chain, problem = reduced, point, chain, reduced.problem
        self._space, tangent = reduced.spaces(point)[chain], problem.manifold.tangent
        self._states = np.zeros((problem.chains[chain].steps, tangent))
        """In the tangents of all unknowns."""
        self._parameters, inverse, wide = np.zeros(len(problem.names)), None, len(reduced.columns)
        if self._space.basis is not None:
            blocks = [problem.local_rows(f, point, chain)(slice(None))[:, :wide] for f in problem.local]
            G = np.concatenate(blocks, axis=2).transpose(0, 2, 1)
            inverse = inverse_of_rank(G, wide - reduced.tangent)
        self._turns = Turns(len(self._states), tangent, reduced.columns, inverse, self._space.basis)
        self._reached: list[tuple[Factor, Array]] = []
        """Factors with private unknowns, and P⁺."""

    def add(self, factor: Factor, weights: Array) -> None:
        """Add the contribution of a factor, for weights K (count, reduced columns, remaining rows)."""
        self._contract(factor, weights if self._reduced.whole else self._lifted(factor, weights))

    def total(self) -> tuple[Array, Array]:
        """Total gradient in the remaining unknowns, (N t,), and in the parameters, (n_p,)."""
        for factor, weights in self._turns.surface(self._reduced.problem.local):
            self._contract(factor, weights)
        for factor, inverse in self._reached:
            self._return(factor, inverse)
        visible = self._states[:, self._reduced.columns]
        if self._space.drag is not None:
            self._parameters += np.tensordot(visible, self._space.drag, 2)
        if self._space.basis is not None:
            visible = np.matmul(visible[:, None], self._space.basis)[:, 0]
        return visible.ravel(), self._parameters

    def _contract(self, factor: Factor, weights: Array) -> None:
        self._add(factor, self._reduced.problem.contract(factor, self._point, self._chain, weights))

    def _add(self, factor: Factor, slopes: Array) -> None:
        full = self._states.shape[1]
        for i, offset in enumerate(factor.variables):
            self._states[offset : offset + len(slopes)] += slopes[:, i * full : (i + 1) * full]
        self._parameters += slopes[:, len(factor.variables) * full :].sum(axis=0)

    def _lifted(self, factor: Factor, weights: Array) -> Array:
        """A of K."""
        complement, problem, inverse = self._space.complements.get(factor.name), self._reduced.problem, None
        across = weights if complement is None else np.matmul(weights, complement.transpose(0, 2, 1))
        if factor.private is not None:
            reached = problem.private_rows(factor, self._point, self._chain)(slice(None))[:, :-1]
            inverse = inverse_of_rank(reached.transpose(0, 2, 1), self._reduced.hidden(factor))
            self._reached.append((factor, inverse))
        call = problem.jacobian(factor, self._point, self._chain)
        return self._turns.lifted_by(factor, call, across, inverse)

    def _return(self, factor: Factor, inverse: Array) -> None:
        """Slopes in private unknowns to those of all others: −Jᵀ P⁺ᵀ g."""
        assert factor.private is not None
        offset, private = factor.private
        g = self._states[offset : offset + len(inverse), list(private)]
        pulled, full = -np.matmul(g[:, None], inverse).transpose(0, 2, 1), self._states.shape[1]
        call = self._reduced.problem.jacobian(factor, self._point, self._chain)
        layout = Layout(tuple(factor.variables), full, tuple(range(full)), len(self._parameters))
        self._add(factor, condensed(call, layout, None, None, pulled)[:, :-1, 0])


def slopes(
    reduced: ReducedProblem, point: Point, chain: int, weights: Iterable[tuple[Factor, Array]]
) -> tuple[Array, Array]:
    """Gradient of Σ ⟨K, reduced Jacobian⟩ in the remaining unknowns, (N t,), and in the parameters, (n_p,)."""
    whole = _Slopes(reduced, point, chain)
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
        """The process-noise equations of a factor in their own unknowns: where a torque is measured its joint's motion
        is given."""
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
        raise NotPositiveDefiniteError("process noise does not reach every degree of freedom")
    return inverse, float(np.sum(logarithms))


def _own(term: LinearizedFactor) -> Array | None:
    """Places of the process-noise equations of a factor whose other rows are measurements, one an unknown; None if it
    has none."""
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
