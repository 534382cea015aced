"""Linearization of a problem at a point, and its curvature: the equations of each factor along each recording.

All further computations start from it: damped steps add a merit function (``steps``), the likelihood adds
log-determinants (``statistics.likelihood``), and statistics propagate noise to the estimates
(``statistics.condensing``).

The second-order term of the Hessian, S = Σ rᵢ ∇²rᵢ, which Gauss–Newton neglects, is exact and as sparse as JᵀJ.
JᵀJ + S is half the Hessian of the cost. In the unknowns of the reduced problem,

- with local equality constraints g(x_k) = 0, S is that of the Lagrangian ½|r|² + μᵀg, with the multipliers μ that
  balance the gradient normal to the constraints;
- private unknowns λ enter linearly: with U = J_λ⁺ᵀ Sᵀ_xλ, their elimination adds (J_x + U)ᵀ(J_x + U) − J_xᵀJ_x to the
  projection of J;
- coupled equality constraints contribute with their multipliers ρ (c + s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.kernel import CHUNK
from spookid.kernels.precision import NO_INFORMATION
from spookid.records import dataclass
from spookid.solvers.condensation import combinations, inverse_of_rank
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, summed
from spookid.solvers.systems import System
from spookid.transcription.factor import Block, Factor
from spookid.transcription.transcription import Point, Transcription


class Linearization:
    """Linearization of all equations at a point, in the unknowns of the reduced problem.

    Args:
        reduced: the problem.
        point: on its local equality constraints.
        kept: True if all Jacobians are kept; else those of factors with all their rows and columns are computed when
            asked for.
        lenient: as of ``System``.
    """

    def __init__(self, reduced: ReducedProblem, point: Point, kept: bool = False, lenient: bool = False) -> None:
        self.reduced, self.problem, self.point, self._lenient = reduced, reduced.problem, point, lenient
        reduced.spaces(point)
        found = reduced.pool.map(partial(self._linearized, kept), range(len(self.problem.chains)))
        self.chains = tuple(terms for terms, _ in found)
        """Per chain its factors."""
        self._bases = [basis for _, basis in found]
        self.systems: dict[int, System] = {}
        """Of chains whose states have been factorized."""

    def _linearized(self, kept: bool, chain: int) -> tuple[tuple[LinearizedFactor, ...], Array | None]:
        rows, basis = self.reduced.linearize(self.point, chain, kept)
        steps, pairs = self.problem.chains[chain].steps, zip(self.reduced.kept, rows, strict=True)
        return tuple(
            LinearizedFactor(f, r, steps, self.reduced.tangent, self.reduced.scale(f)) for f, r in pairs
        ), basis

    @property
    def parameters(self) -> int:
        """n_p."""
        return len(self.problem.names)

    def changed(self, change: Callable[[LinearizedFactor], LinearizedFactor]) -> Linearization:
        """Same linearization with other equations of each factor."""
        other = copy(self)
        other.chains, other.systems = tuple(tuple(map(change, terms)) for terms in self.chains), {}
        other.__dict__.pop("schur", None)
        return other

    def scaled(self, scales: Mapping[str, Array]) -> Linearization:
        """Same linearization with equations of each factor in ``scales`` multiplied by its numbers, (rows,)."""
        return self.changed(lambda t: t.scaled(scales[t.factor.name]) if t.factor.name in scales else t)

    def system(self, chain: int) -> System:
        """The states of one chain.

        Raises:
            NotPositiveDefiniteError: if they are not determined.
        """
        return system_of(self.systems, chain, self.chains[chain], self._lenient)

    def release(self) -> None:
        """Release the factorization of the states, which uses the most memory; it is computed again on request."""
        self.systems.clear()

    @cached_property
    def schur(self) -> Array:
        """Schur complement of the states in JᵀJ, with exact equality constraints, for parameters and residuals, (n_p +
        1, n_p + 1); raises as ``system``."""
        return np.asarray(np.sum([self.system(c).corner for c in range(len(self.chains))], axis=0))

    def retracted(self, states: Sequence[Array], parameters: Array) -> Point:
        """Point after a step of the states, per chain (N t,), and of the parameters, before its projection."""
        pairs = zip(states, self._bases, strict=True)
        steps = [self.reduced.expand(move.reshape(-1, self.reduced.tangent), basis) for move, basis in pairs]
        return self.problem.retract(self.point, steps, parameters)


def system_of(known: dict[int, System], chain: int, terms: Sequence[LinearizedFactor], lenient: bool = False) -> System:
    """Linear system of a chain's states, from a cache or newly computed."""
    if chain not in known:
        known[chain] = System(terms, lenient)
    return known[chain]


@dataclass(frozen=True, eq=False)
class Information:
    """Information of the data on the parameters, at a solution from any solver."""

    matrix: Array
    """Schur complement of the states in JᵀWJ, within equality constraints, (n_p, n_p); NaN if it fails."""
    redundant: int
    """Equality constraints of a step that follow from the others."""


def information(problem: Transcription, point: Point) -> Information:
    """Information matrix at ``point``; of a complementarity pair, the smaller member is fixed at zero."""
    try:
        reduced = ReducedProblem(problem.at_solution(), point)
        return Information(Linearization(reduced, point, lenient=True).schur[:-1, :-1], reduced.redundant)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return unknown(problem)


def implied(problem: Transcription, point: Point) -> list[dict[str, Mask]]:
    """Per chain and factor name, True for equality constraints that others imply at ``point``, (count, rows): for local
    ones, linear combinations of earlier ones at their step; for coupled ones, those that the elimination omits.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    held = problem.at_solution()
    reduced = ReducedProblem(held, point)
    here, found = Linearization(reduced, point, lenient=True), []
    for c in range(len(held.chains)):
        rows = here.system(c).implied()
        blocks = [held.local_rows(f, point, c)(slice(None))[:, : len(reduced.columns)] for f in reduced.local]
        if blocks:
            combined = combinations(np.concatenate(blocks, axis=2))
            cuts = np.cumsum([block.shape[2] for block in blocks])[:-1]
            rows |= dict(zip((f.name for f in reduced.local), np.split(combined, cuts, axis=1), strict=True))
        found.append(rows)
    return found


def unknown(problem: Transcription) -> Information:
    """Where it cannot be had."""
    n = len(problem.names)
    return Information(np.full((n, n), np.nan), 0)


def unseen_directions(problem: Transcription, point: Point, scales: Array) -> Array:
    """Directions of scaled parameters that change nothing at ``point`` and satisfy equalities between parameters:
    orthonormal rows, (k, n_p)."""
    basis = problem.free_directions(point.parameters, unequal=False).basis(scales)
    along = scales[:, None] * basis
    matrix = along.T @ information(problem, point).matrix @ along
    if not np.all(np.isfinite(matrix)):
        return np.zeros((0, len(scales)))
    lengths = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    moves = lengths > NO_INFORMATION * np.max(lengths, initial=0.0)
    sizes = np.where(moves, lengths, 1.0)
    values, vectors = np.linalg.eigh(np.where(np.outer(moves, moves), matrix, 0.0) / np.outer(sizes, sizes))
    directions = (vectors / sizes[:, None])[:, values < NO_INFORMATION]
    return np.asarray((basis @ np.linalg.qr(directions)[0]).T)


def curvature(reduced: ReducedProblem, point: Point, chain: int, basis: Array | None) -> NormalEquations:
    """Curvature S of one chain at ``point`` in the ``basis`` (N, columns, tangent); the gradient stays zero."""
    return _Curvature(reduced, point, chain, basis).assembled()


@dataclass(frozen=True, eq=False)
class _Surface:
    """The local equality constraints and their tangent space, step by step."""

    blocks: Sequence[Block]
    basis: Array
    """(N, columns, tangent)."""
    inverse: Array
    """G⁺, (N, columns, rows)."""
    drag: Array
    """How the parameters pull a point along with the surface, (N, columns, n_p)."""


class _Curvature:
    def __init__(self, reduced: ReducedProblem, point: Point, chain: int, basis: Array | None) -> None:
        self._reduced, self._problem, self._point, self._chain = reduced, reduced.problem, point, chain
        self._width = self._problem.manifold.tangent
        blocks = {block.factor.name: block for block in self._problem.linearize(point, chain)}
        residuals = [blocks[f.name].residual for f in self._problem.factors]
        self._kept = [blocks[f.name] for f in reduced.kept]
        self._weights = [
            w * reduced.scale(f) for f, w in zip(reduced.kept, reduced.pulls(chain, residuals), strict=True)
        ]
        local = [blocks[f.name] for f in reduced.local]
        self._surface = None if basis is None else self._tangent_space(local, basis)

    def assembled(self) -> NormalEquations:
        reach = max(f.reach for f in self._reduced.kept)
        steps = self._problem.chains[self._chain].steps
        return summed(self._parts(), reach, steps, self._reduced.tangent, len(self._problem.names))

    def _parts(self) -> Iterator[tuple[tuple[int, ...], Array, int]]:
        """S of each factor, a few steps at a time, which then stay in the processor's cache."""
        kept = zip(self._kept, self._weights, strict=True)
        terms: list[tuple[Factor, Block | None, Array]] = [(block.factor, block, w) for block, w in kept]
        terms += [(factor, None, mu) for factor, mu in self._multipliers()]
        for factor, block, weights in terms:
            for start in range(0, len(weights), CHUNK):
                here = slice(start, min(start + CHUNK, len(weights)))
                second = self._problem.curvature(factor, self._point, self._chain, weights[here], here)
                own = self._visible(factor, second, axes=2) if block is None else self._of(block, second, here)
                left = self._kept_rows(factor, own, start)
                yield tuple(factor.variables), np.pad(left, ((0, 0), (0, 1), (0, 1))), start  # a zero gradient behind

    def _of(self, block: Block, second: Array, here: slice) -> Array:
        """S of a kept factor at some steps, its private unknowns eliminated, in the visible columns."""
        factor = block.factor
        visible = self._visible(factor, second, axes=2)
        if factor.name not in self._reduced.private:
            return visible
        offset, columns = self._reduced.private[factor.name]
        hidden = list(factor.variables).index(offset) * self._width + columns
        jacobian = self._reduced.scale(factor) * block.matrix[here, :-1]
        fitted = jacobian[:, hidden].transpose(0, 2, 1)
        inverse = inverse_of_rank(fitted, self._reduced.hidden(factor))
        slopes = self._visible(factor, jacobian, axes=1)
        moved = slopes + np.matmul(self._visible(factor, second[:, :, hidden], axes=1), inverse)
        return visible + _square(slopes) - _square(moved)

    def _multipliers(self) -> list[tuple[Factor, Array]]:
        """μ of each local hard factor, (N, rows)."""
        if self._surface is None:
            return []
        gradient = np.zeros((self._problem.chains[self._chain].steps, self._width))
        for block, weights in zip(self._kept, self._weights, strict=True):
            product = np.matmul(block.matrix[:, :-1], weights[:, :, None])[:, :, 0]
            for i, offset in enumerate(block.factor.variables):
                gradient[offset : offset + len(product)] += product[:, i * self._width : (i + 1) * self._width]
        across = gradient[:, None, self._reduced.columns]
        mu = -np.matmul(across, self._surface.inverse)[:, 0]
        cuts = np.cumsum([len(block.factor.rows) for block in self._surface.blocks])[:-1]
        return [(b.factor, part) for b, part in zip(self._surface.blocks, np.split(mu, cuts, axis=1), strict=True)]

    def _tangent_space(self, blocks: Sequence[Block], basis: Array) -> _Surface:
        matrix = np.concatenate([b.matrix[:, :-1].transpose(0, 2, 1) for b in blocks], axis=1)
        columns = self._reduced.columns
        inverse = inverse_of_rank(matrix[:, :, columns], len(columns) - self._reduced.tangent)
        return _Surface(blocks, basis, inverse, -np.matmul(inverse, matrix[:, :, self._width :]))

    def _visible(self, factor: Factor, matrix: Array, axes: int) -> Array:
        """The columns of a factor that are not private, along the first axis behind the steps or along both."""
        places = np.arange(len(factor.variables))[:, None] * self._width + self._reduced.columns
        keep = np.r_[places.ravel(), len(factor.variables) * self._width : matrix.shape[1]]
        return matrix[:, keep] if axes == 1 else matrix[:, keep[:, None], keep]

    def _kept_rows(self, factor: Factor, matrix: Array, start: int) -> Array:
        """TᵀST at some steps from ``start`` on, with T from the unknowns that are left to the visible ones of a factor,
        parameters last."""
        if self._surface is None:
            return matrix
        wide, narrow = len(self._reduced.columns), self._reduced.tangent
        n, steps, count = len(self._problem.names), len(factor.variables), len(matrix)
        expansion = np.zeros((count, steps * wide + n, steps * narrow + n))
        expansion[:, steps * wide :, steps * narrow :] = np.eye(n)
        for i, offset in enumerate(factor.variables):
            at = slice(start + offset, start + offset + count)
            rows = slice(i * wide, (i + 1) * wide)
            expansion[:, rows, i * narrow : (i + 1) * narrow] = self._surface.basis[at]
            expansion[:, rows, steps * narrow :] = self._surface.drag[at]
        return np.asarray(np.matmul(expansion.transpose(0, 2, 1), np.matmul(matrix, expansion)))


def _square(slopes: Array) -> Array:
    """JᵀJ of transposed Jacobians (count, columns, rows)."""
    return np.asarray(np.matmul(slopes, slopes.transpose(0, 2, 1)))
