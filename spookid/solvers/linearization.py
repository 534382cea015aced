"""Linearization of a problem at a point: the equations of each factor along each recording.

All further computations start from it: damped steps add a merit function (``steps``), the likelihood adds
log-determinants (``statistics.likelihood``), and statistics propagate noise to the estimates
(``statistics.condensing``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial

import numpy as np

from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import NO_INFORMATION
from spookid.records import dataclass
from spookid.solvers.condensation import combinations
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.solvers.systems import System
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
