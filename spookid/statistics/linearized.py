"""A transcription linearized at a point: the rows of each factor along each chain, kept or computed when asked for.

Compiled kernels compute Jacobians faster than what is done with them takes, and a step's are several times larger than
all else that is known of it: they are computed some steps at a time and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.kernels.stages import HardRows
from spookid.kernels.thread_pool import Workspace
from spookid.records import dataclass
from spookid.solvers.elimination import assembled
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows, Stream
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, normal_equations
from spookid.statistics.systems import independent_combinations
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point, Transcription

_NUMBERS = 150_000
"""That are computed at once, of a few steps or of many."""

Columns = list[Array]
"""m vectors of residuals along one chain: per factor (count, m, rows)."""
Signs = NDArray[np.int8]
"""The same of one factor, of −1, 0 and 1."""


@dataclass(frozen=True, eq=False)
class LinearizedFactor:
    """One factor's rows along one chain, in the unknowns of the reduced problem."""

    factor: Factor
    source: Rows | Stream
    """The rows, or what computes them."""
    residual: Array
    """(count, rows)."""
    alive: Array
    """1 where a row depends on anything, 0 where its sample is missing, (count, rows)."""
    steps: int
    """N, of the chain."""
    tangent: int
    """Unknowns of a step."""
    scale: float = 1.0
    """By which raw residuals of the factor were multiplied, those of hard rows to be as stiff as the others."""

    @property
    def complement(self) -> Array | None:
        """That of ``Rows``."""
        return self.source.complement if isinstance(self.source, Rows) else None

    @property
    def unknowns(self) -> int:
        """Of the steps that a row sees."""
        return len(self.source.offsets) * self.tangent

    @property
    def parameters(self) -> int:
        """n_p."""
        return self.source.shape[1] - self.unknowns - 1

    def at(self, steps: slice) -> Rows:
        """Its rows at some steps."""
        if isinstance(self.source, Rows):
            return replace(self.source, matrix=self.source.matrix[steps])
        return Rows(self.source.offsets, self.source.jacobian(steps), None)

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """Some steps after the other, and the rows there, which the next ones overwrite."""
        count, columns, rows = self.source.shape
        buffer = np.empty(0)
        for here in chunks(count, columns * (rows + self.parameters + 1)):  # products with T stand beside them
            if isinstance(self.source, Rows):
                yield here, self.at(here)
            else:
                call, size = self.source.jacobian, here.stop - here.start
                buffer = buffer if buffer.size else call.room(size)
                yield here, Rows(self.source.offsets, call.into(buffer[:size], here), None)

    def images(self, steps: Array) -> Iterator[tuple[slice, Array]]:
        """J times steps of the states (N, tangent, m): some steps after the other, and (count, m, rows) there."""
        for here, rows in self.parts():
            yield here, rows.image(steps[here.start : here.stop + max(rows.offsets)])

    def between(self, first: int, last: int) -> NormalEquations:
        """The part of its rows from ``first`` to before ``last``, of the steps that they reach from ``first`` on."""
        rows = self.at(slice(first, last))
        return normal_equations([rows], len(rows.matrix) + max(rows.offsets), self.tangent, self.parameters)

    def scaled(self, scales: Array) -> LinearizedFactor:
        """With its rows multiplied by some numbers, (rows,)."""
        return replace(self, source=_scaled(self.source, scales), residual=self.residual * scales)


def chunks(count: int, numbers: int) -> Iterator[slice]:
    """So many steps of so many numbers each, some at a time."""
    size = max(_NUMBERS // max(numbers, 1), 1)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _scaled(source: Rows | Stream, scales: Array) -> Rows | Stream:
    if isinstance(source, Rows):
        return replace(source, matrix=source.matrix * scales)
    call, pull_back = source.jacobian, source.pull_back
    scaled = scales if call.scales is None else call.scales * scales
    return Stream(source.offsets, replace(call, scales=scaled), lambda residual: pull_back(residual * scales))


@dataclass(frozen=True, eq=False)
class LinearizedProblem:
    """A transcription linearized at a point."""

    problem: Transcription
    chains: tuple[tuple[LinearizedFactor, ...], ...]

    @property
    def parameters(self) -> int:
        """n_p."""
        return len(self.problem.names)

    def scaled(self, scales: Mapping[str, Array]) -> LinearizedProblem:
        """With the rows of each factor that ``scales`` names multiplied by its numbers, (rows,)."""

        def scaled(term: LinearizedFactor) -> LinearizedFactor:
            name = term.factor.name
            return term.scaled(scales[name]) if name in scales else term

        return replace(self, chains=tuple(tuple(map(scaled, terms)) for terms in self.chains))


def linearize(problem: Transcription, point: Point) -> LinearizedProblem:
    """The linearization at ``point``; of a pair the smaller member is held.

    Raises:
        NotPositiveDefiniteError: if anything is not finite.
    """
    problem = problem.at_solution()
    reduced = ReducedProblem(problem, point)
    chains = []
    for c, chain in enumerate(problem.chains):
        rows, _ = reduced.linearize(point, c)
        pairs = zip(reduced.kept, rows, strict=True)
        chains.append(tuple(_term(reduced, factor, r, chain.steps) for factor, r in pairs))
    return LinearizedProblem(problem, tuple(chains))


def linearize_beside(problem: Transcription, factor: Factor, point: Point) -> list[LinearizedFactor]:
    """One more factor in the unknowns of a problem that was linearized at ``point``, along each chain.

    Raises:
        NotPositiveDefiniteError: if anything is not finite.
    """
    reduced = ReducedProblem(problem.with_factors((factor, *problem.factors)), point)
    return [
        _term(reduced, factor, reduced.rows(factor, point, c), chain.steps) for c, chain in enumerate(problem.chains)
    ]


def _term(reduced: ReducedProblem, factor: Factor, rows: Rows | Stream, steps: int) -> LinearizedFactor:
    if isinstance(rows, Stream) and (factor.first_only or rows.jacobian.program is None):
        rows = Rows(rows.offsets, rows.jacobian(slice(None)), None)
    if isinstance(rows, Rows) and factor.first_only and factor.group is Group.STATE:
        basis = independent_combinations(rows, len(rows.offsets) * reduced.tangent)  # noise lives in them only
        complement = basis[None] if rows.complement is None else np.matmul(rows.complement, basis)
        rows = Rows(rows.offsets, np.matmul(rows.matrix, basis), complement)
    count, _, width = rows.shape
    scale = float(np.sqrt(reduced.penalty)) if factor in reduced.coupled else 1.0
    term = LinearizedFactor(
        factor, rows, np.empty((count, width)), np.empty((count, width)), steps, reduced.tangent, scale
    )
    for here, part in term.parts():
        if not np.all(np.isfinite(part.matrix)):
            raise NotPositiveDefiniteError("a residual or a derivative is not finite")
        term.residual[here] = part.matrix[:, -1]
        term.alive[here] = np.any(part.matrix[:, :-1] != 0, axis=1)
    return term


def added(terms: Sequence[LinearizedFactor], workspace: Workspace) -> NormalEquations:
    """Normal equations of one chain, the squares of hard rows among them; see ``elimination.assembled``."""
    first, sources = terms[0], [term.source for term in terms]
    return assembled(sources, hard_rows(terms), first.steps, first.tangent, first.parameters, workspace)


def hard_rows(terms: Sequence[LinearizedFactor]) -> list[HardRows]:
    """Those of one chain."""
    return [HardRows(t.source.offsets, t.source.matrix) for t in terms if t.factor.hard and isinstance(t.source, Rows)]


def products(one: Array, other: Array, weights: Array | float = 1.0) -> Array:
    """Inner products of vectors of residuals of one factor, (count, m, rows) and (count, m', rows), each row times its
    weight, (m, m')."""
    total, weights = np.zeros((one.shape[1], other.shape[1])), np.broadcast_to(weights, one.shape[2:])
    counted = slice(None) if weights.all() else np.flatnonzero(weights)
    for here in chunks(len(one), one[:1].size + other[:1].size):
        left, right = one[here][:, :, counted], other[here][:, :, counted]
        total += np.tensordot(left * weights[counted], right, axes=((0, 2), (0, 2)))
    return total
