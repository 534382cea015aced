"""The linearized problem with its states eliminated: T of (3.32), and what a fit leaves of any vector of residuals.

With whitened Jacobians J_x of the states and J_χ of the parameters, T = (I − J_x J_x⁺) J_χ. A projection costs two
substitutions in the states' Cholesky factor, so all of this is linear in the number of steps. T is kept; the Jacobians,
which are several times larger and cheap to compute, are computed anew wherever they are asked for, some steps at a
time, if there are compiled kernels to do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.compiled import CompiledKernel
from spookid.kernels.kernel import Array
from spookid.solvers.elimination import Elimination, eliminate
from spookid.solvers.neighbours import backward
from spookid.solvers.reduction import Reduction, Rows, Stream
from spookid.solvers.structured import NormalEquations, NotPositiveDefiniteError, assemble
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Point, Transcription

RANK = 1e-10
"""Eigenvalues of the scaled information below this share of the largest are zero to round-off."""
_INDEPENDENT = 1e-9
"""Singular values of the initial state's rows below this share of the largest are zero."""
_SOUND = 1e-6
"""Relative error of tr(J_x J_x⁺), a whole number, with which its parts are still of use."""
_CHUNK = 64
"""Steps whose Jacobians are computed at once."""

Columns = list[Array]
"""m vectors of residuals along one chain: per factor (count, m, rows)."""
Signs = NDArray[np.int8]
"""The same of one factor, of −1, 0 and 1."""


@dataclass(frozen=True, eq=False)
class Strip:
    """One factor's rows along one chain, in the unknowns that the reduction leaves."""

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
    """By which raw residuals of the factor were multiplied: that of hard rows is their penalty's root."""

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

    def matrix(self, steps: slice) -> Array:
        """Transposed Jacobians at some steps, steps in order of offset and parameters last, then the residual,
        (count, columns + 1, rows)."""
        return self.source.matrix[steps] if isinstance(self.source, Rows) else self.source.jacobian(steps)

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Some steps after the other, and ``matrix`` there, which that of the next ones overwrites."""
        room = np.empty((0 if isinstance(self.source, Rows) else _CHUNK, *self.source.shape[1:]))
        for here in _chunks(len(self.residual)):
            if isinstance(self.source, Rows):
                yield here, self.source.matrix[here]
            else:
                call = self.source.jacobian
                yield here, call.kernel(*call.at(here), room[: here.stop - here.start])

    def add_products(self, columns: Array | Signs, total: Array) -> None:
        """Add Jᵀ times columns (count, m, rows) to a vector of the states, (N, tangent, m)."""
        for here, matrix in self.parts():
            across = columns[here].transpose(0, 2, 1)
            for offset, part in self._by_offset(matrix):
                total[here.start + offset : here.stop + offset] += np.matmul(part, across)

    def images(self, steps: Array) -> Iterator[tuple[slice, Array]]:
        """J times steps of the states (N, tangent, m): some steps after the other, and (count, m, rows) there."""
        for here, matrix in self.parts():
            yield here, self.image(here, matrix, steps)

    def image(self, here: slice, matrix: Array, steps: Array) -> Array:
        """The same at the steps of ``matrix``."""
        moved = [(steps[here.start + offset : here.stop + offset], part) for offset, part in self._by_offset(matrix)]
        images = [np.matmul(step.transpose(0, 2, 1), part) for step, part in moved]
        return np.asarray(sum(images[1:], images[0]))

    def between(self, first: int, last: int) -> NormalEquations:
        """The part of its rows from ``first`` to before ``last``, of the steps that they reach from ``first`` on."""
        rows = Rows(self.source.offsets, self.matrix(slice(first, last)), None)
        return assemble([rows], len(rows.matrix) + max(rows.offsets), self.tangent, self.parameters)

    def scaled(self, scales: Array) -> Strip:
        """With its rows multiplied by some numbers, (rows,)."""
        return replace(self, source=_scaled(self.source, scales), residual=self.residual * scales)

    def _by_offset(self, matrix: Array) -> list[tuple[int, Array]]:
        t = self.tangent
        return [(offset, matrix[:, i * t : (i + 1) * t]) for i, offset in enumerate(self.source.offsets)]


def _chunks(count: int) -> Iterator[slice]:
    """So many steps, some at a time."""
    return (slice(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK))


def _scaled(source: Rows | Stream, scales: Array) -> Rows | Stream:
    if isinstance(source, Rows):
        return replace(source, matrix=source.matrix * scales)
    call, pull_back = source.jacobian, source.pull_back

    def evaluate(stepwise: Sequence[Array], shared: Sequence[Array], out: Array) -> Array:
        return np.multiply(call.kernel(stepwise, shared, out), scales, out=out)

    return Stream(source.offsets, replace(call, kernel=evaluate), lambda residual: pull_back(residual * scales))


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
            name = strip.factor.name
            return strip.scaled(scales[name]) if name in scales else strip

        return replace(self, chains=tuple(tuple(map(scaled, strips)) for strips in self.chains))


def linear(problem: Transcription, point: Point) -> Linear:
    """The linearization at ``point``; hard rows that link steps become stiff ones, of a pair the smaller member's.

    Raises:
        NotPositiveDefiniteError: if anything is not finite.
    """
    problem = problem.at_solution()
    reduction = Reduction(problem, point)
    reduction.stiffen()
    chains = []
    for c, chain in enumerate(problem.chains):
        rows, _ = reduction.linearize(point, c)
        pairs = zip(reduction.kept, rows, strict=True)
        chains.append(tuple(_strip(reduction, factor, r, chain.steps) for factor, r in pairs))
    return Linear(problem, tuple(chains))


def _strip(reduction: Reduction, factor: Factor, rows: Rows | Stream, steps: int) -> Strip:
    if isinstance(rows, Stream) and (factor.first_only or not isinstance(rows.jacobian.kernel, CompiledKernel)):
        rows = Rows(rows.offsets, rows.jacobian(slice(None)), None)
    if isinstance(rows, Rows) and factor.first_only and factor.group is Group.STATE:
        rows = _independent(rows, len(rows.offsets) * reduction.tangent)
    count, _, width = rows.shape
    scale = float(np.sqrt(reduction.penalty)) if factor in reduction.coupled else 1.0
    strip = Strip(factor, rows, np.empty((count, width)), np.empty((count, width)), steps, reduction.tangent, scale)
    for here, matrix in strip.parts():
        if not np.all(np.isfinite(matrix)):
            raise NotPositiveDefiniteError("a residual or a derivative is not finite")
        strip.residual[here] = matrix[:, -1]
        strip.alive[here] = np.any(matrix[:, :-1] != 0, axis=1)
    return strip


def _independent(rows: Rows, states: int) -> Rows:
    """Those of one step that do not depend on one another in its ``states``: noise lives in them only."""
    left, values, _ = np.linalg.svd(rows.matrix[0, :states].T, full_matrices=False)
    basis = left[:, values > _INDEPENDENT * values.max(initial=0.0)]
    complement = basis[None] if rows.complement is None else np.matmul(rows.complement, basis)
    return replace(rows, matrix=np.matmul(rows.matrix, basis), complement=complement)


def added(strips: Sequence[Strip]) -> NormalEquations:
    """Normal equations of one chain."""
    first = strips[0]
    return assemble([strip.source for strip in strips], first.steps, first.tangent, first.parameters)


def products(one: Array, other: Array, weights: Array | float = 1.0) -> Array:
    """Inner products of vectors of residuals of one factor, (count, m, rows) and (count, m', rows), each row times its
    weight, (m, m')."""
    total = np.zeros((one.shape[1], other.shape[1]))
    for here in _chunks(len(one)):
        total += np.tensordot(one[here] * weights, other[here], axes=((0, 2), (0, 2)))
    return total


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
        self.linear, n = here, here.parameters
        self._states, self._eliminations = 0, dict[int, Elimination]()
        projected = [self._projected(c, refined) for c in range(len(here.chains))]
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

    def release(self) -> None:
        """Forget the states' factors, the larger part of all that is kept; they are made again when asked for."""
        self._eliminations.clear()

    def leverages(self) -> list[Columns] | None:
        """Per chain and factor the sums over the steps of the diagonal of J_x J_x⁺, which is how far the states follow
        noise in each row, (rows,). None if rounding spoils it."""
        found = [self._leverages(c) for c in range(len(self.linear.chains))]
        trace = sum(float(np.sum(rows)) for parts in found for rows in parts)
        return found if abs(trace - self._states) <= _SOUND * self._states else None

    def left(self, columns: Sequence[Sequence[Array | Signs]]) -> list[Columns]:
        """(I − H) times vectors of residuals, per chain."""
        return self._without_parameters([self.without_states(c, part) for c, part in enumerate(columns)])

    def inner(self, one: Sequence[Columns], other: Sequence[Columns]) -> Array:
        """Inner products of vectors of residuals, (m, m')."""
        pairs = ((a, b) for ones, others in zip(one, other, strict=True) for a, b in zip(ones, others, strict=True))
        return np.asarray(sum(products(a, b) for a, b in pairs))

    def without_states(self, chain: int, columns: Sequence[Array | Signs]) -> Columns:
        """(I − J_x J_x⁺) times vectors of residuals of one chain."""
        steps = self._steps(chain, columns)
        left = [np.array(c, dtype=np.float64) for c in columns]
        self._subtract(chain, left, steps)
        return left

    def _projected(self, chain: int, refined: bool) -> Columns:
        """T, and in the last column (I − J_x J_x⁺) r, of one chain."""
        strips, found = self.linear.chains[chain], []
        self._eliminations[chain], moving = _eliminated(strips)
        self._states += moving
        steps = self._eliminations[chain].respond().reshape(strips[0].steps, strips[0].tangent, -1)
        for strip in strips:
            columns = np.empty((len(strip.residual), steps.shape[2], strip.residual.shape[1]))
            for here, matrix in strip.parts():
                columns[here] = matrix[:, strip.unknowns :] - strip.image(here, matrix, steps)
            found.append(columns)
        del steps
        if refined:
            self._subtract(chain, found, self._steps(chain, found))
        return found

    def _steps(self, chain: int, columns: Sequence[Array | Signs]) -> Array:
        """J_x⁺ times vectors of residuals of one chain, (N, tangent, m)."""
        strips = self.linear.chains[chain]
        right = np.zeros((strips[0].steps, strips[0].tangent, columns[0].shape[1]))
        for strip, part in zip(strips, columns, strict=True):
            strip.add_products(part, right)
        return self._elimination(chain).solve(right.reshape(-1, right.shape[2])).reshape(right.shape)

    def _subtract(self, chain: int, columns: Columns, steps: Array) -> None:
        """Take J_x times steps of the states of one chain, (N, tangent, m), from vectors of residuals."""
        for strip, part in zip(self.linear.chains[chain], columns, strict=True):
            for here, image in strip.images(steps):
                part[here] -= image

    def _without_parameters(self, columns: Sequence[Columns]) -> list[Columns]:
        """(I − T T⁺) times vectors of residuals, in their place."""
        steps = (self.inverse @ self.inner(self.T, columns)).T
        for Ts, parts in zip(self.T, columns, strict=True):
            for T, part in zip(Ts, parts, strict=True):
                for here in _chunks(len(T)):
                    part[here] -= np.matmul(steps, T[here])
        return list(columns)

    def _leverages(self, chain: int) -> Columns:
        """Of one chain, with the covariances P of neighbouring steps in the unknowns that each row sees."""
        strips = self.linear.chains[chain]
        N, t = strips[0].steps, strips[0].tangent
        found = [np.zeros(strip.residual.shape[1]) for strip in strips]
        for start, covariances in backward(self._elimination(chain).columns, N, t):
            for strip, total in zip(strips, found, strict=True):
                states = strip.matrix(slice(start, start + len(covariances)))[:, : strip.unknowns]
                P = covariances[: len(states)]
                if max(strip.source.offsets) + 1 > len(strip.source.offsets):
                    places = np.concatenate([np.arange(o * t, (o + 1) * t) for o in strip.source.offsets])
                    P = P[:, places[:, None], places]
                P = P[:, : strip.unknowns, : strip.unknowns]
                total += np.einsum("kur,kur->r", states, np.matmul(P, states))
        return found

    def _elimination(self, chain: int) -> Elimination:
        if chain not in self._eliminations:
            self._eliminations[chain], _ = _eliminated(self.linear.chains[chain])
        return self._eliminations[chain]


def _eliminated(strips: Sequence[Strip]) -> tuple[Elimination, int]:
    """The states of one chain, and how many of them move any row."""
    for damping in (0.0, 1e-14):
        equations = added(strips)
        moving = int(np.count_nonzero(equations.diagonal))
        try:
            return eliminate(equations, damping, overwrite=True), moving
        except NotPositiveDefiniteError:
            continue
    raise NotPositiveDefiniteError("the states are not determined")


def pseudo_inverse(information: Array, held: NDArray[np.bool_]) -> tuple[Array, int]:
    """Pseudo-inverse, each parameter scaled by its own information, of those that are not held; and its rank."""
    scale = np.sqrt(np.diag(information))
    scale = np.where((scale > 0) & ~held, scale, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > RANK * values.max(initial=0.0)
    half = vectors[:, seen] / np.sqrt(values[seen]) / scale[:, None]
    return np.asarray(half @ half.T), int(np.sum(seen))
