"""Null space of local equality constraints: projection of points onto the constraints, with private unknowns fitted.

The projection computes what the linearization needs, and keeps it: the tangent space of the constraints, the derivative
of the projected point in the parameters, and the projection that removes private unknowns from the residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array, Integers, location
from spookid.kernels.kernel import Call
from spookid.kernels.native import Reflections, Routines, integers, reflections, routines
from spookid.kernels.precision import DEPENDENT, NEWTON, ROUNDING
from spookid.kernels.thread_pool import SERIAL, ThreadPool
from spookid.records import dataclass
from spookid.solvers.condensation import null_space_and_inverse, null_space_basis, orthonormal, rank, smallest_solution
from spookid.transcription.factor import Factor
from spookid.transcription.transcription import Point, Transcription

_LIMITS = np.array([1e-14, 1e-8])
"""Largest residual of a point on the surface, and of one from which a step of Newton's method ends there."""
_REFITS = 3
_STILL = np.array([ROUNDING])
"""Unknowns that move by a smaller share of their size stand still."""
_ROUNDING = 1e-14
"""Rows of private unknowns shorter than this share of a step's longest are zeros that were rounded."""
_FEW = 8
"""Steps at which slopes of rows are looked at."""
_CHUNK = 1024
"""Steps that are put back at once, few enough for a processor's cache."""


@dataclass(frozen=True, eq=False)
class TangentSpace:
    """Remaining directions for the steps of one chain."""

    basis: Array | None
    """Z: orthonormal tangent vectors of the surface, (N, visible, tangent); None: all of the visible columns."""
    drag: Array | None
    """D: how the parameters pull a point along with the surface, (N, visible, n_p); None: they do not."""
    complements: Mapping[str, Array]
    """C: orthonormal residuals of a factor that its private unknowns cannot reach, (count, rows, rows left)."""
    residuals: Mapping[str, Array]
    """Those of the same factors, (count, rows)."""


class NullSpace:
    """Elimination of local equality constraints and private unknowns; ranks are those at ``start``."""

    def __init__(self, problem: Transcription, start: Point, pool: ThreadPool = SERIAL) -> None:
        self._problem, self._pool = problem, pool
        self._private = [f for f in problem.factors if f.private and f not in problem.local]
        moves = bool(problem.local or self._private)
        self._native = routines() if moves else None
        self._wide, self._seen = len(problem.visible), integers(problem.visible)
        self._entries = {
            f.name: integers([problem.manifold.coordinate(c) for c in f.private[1]]) for f in self._private if f.private
        }
        """Factor name to the coordinates of its private unknowns."""
        self._plans: dict[str, Reflections] = {}
        """By the name of the factor."""
        self.rank = self._rank(start, None) if problem.local else 0
        """Of the local equality constraints of a step."""
        self.flat = self._flat(start) if problem.local else None
        """How far off these are where no step changes them, as constraints that repeat what joints hold; else None."""
        self.ranks = {f.name: self._rank(start, f) for f in self._private}
        """Of each factor's private columns."""

    def of(self, problem: Transcription) -> NullSpace:
        """That of the same factors with other numbers."""
        other = copy(self)
        other._problem = problem
        return other

    def _flat(self, point: Point) -> float | None:
        """Largest local row if slopes of all of them are zeros that were rounded, at the first steps of all chains."""
        some = [self._rows(point, c, slice(0, _FEW)) for c in range(len(point.states))]
        if any(np.any(~(np.abs(rows[:, : self._wide]) <= ROUNDING)) for rows in some):
            return None
        return max(float(np.max(np.abs(rows[:, -1]), initial=0.0)) for rows in some)

    def project(self, point: Point) -> tuple[Point, list[TangentSpace]]:
        """Projected point, and the remaining directions of each chain there."""
        if self._problem.local or self._private:
            point = Point(tuple(np.array(states) for states in point.states), point.parameters, point.codes)
        return point, self._pool.map(lambda c: self._space(point, c, True), range(len(point.states)))

    def spaces(self, point: Point) -> list[TangentSpace]:
        """Remaining directions of each chain at a point, which is not changed."""
        return self._pool.map(lambda c: self._space(point, c, False), range(len(point.states)))

    def _space(self, point: Point, chain: int, moves: bool) -> TangentSpace:
        """The steps move onto the surface if asked for, and private unknowns to where they fit."""
        basis, drag = self._surface(point, chain, NEWTON if moves else 0)
        fits = {f.name: self._reached(f, point, chain, moves) for f in self._private}
        complements, residuals = ({name: both[i] for name, both in fits.items()} for i in range(2))
        return TangentSpace(basis, drag, complements, residuals)

    def _rank(self, point: Point, private: Factor | None) -> int:
        """Largest rank of the local rows, or of a factor's private columns."""
        largest = 0
        for c, chain in enumerate(self._problem.chains):
            count = chain.steps if private is None else private.count(chain.steps)
            for part in (slice(0, min(1, count)), *_parts(count)):  # mostly the first step tells
                if private is None:
                    matrix = self._rows(point, c, part)[:, : self._wide]
                else:
                    raw = self._problem.private_rows(private, point, c)(part)[:, :-1]
                    whole = _lengths(self._problem.jacobian(private, point, c)(part))
                    # Private parts that are rounding in their rows would seem independent once these are of length one.
                    matrix = _levelled(np.where(_lengths(raw) > DEPENDENT * whole, raw, 0.0), _least(private))[0]
                largest = max(largest, rank(matrix))
                if largest == min(matrix.shape[1:]):
                    return largest
        return largest

    def _surface(self, point: Point, chain: int, passes: int) -> tuple[Array | None, Array | None]:
        """Z and D of a chain, its steps moved onto the surface by so many steps of Newton's method at the most."""
        problem, count = self._problem, self._problem.chains[chain].steps
        if not problem.local:
            return None, None
        basis = np.empty((count, self._wide, self._wide - self.rank))
        drag = np.empty((count, self._wide, len(problem.names))) if problem.drags else None
        for part in _parts(count):
            buffer = basis[part], None if drag is None else drag[part]
            if not self._settled(point, chain, part, passes, *buffer):
                self._settle(point, chain, part, passes, *buffer)
        return basis, drag

    def _settled(self, point: Point, chain: int, part: slice, passes: int, basis: Array, drag: Array | None) -> bool:
        """Some steps moved by C code; False if there is none, or if the rows depend on one another."""
        problem, by, factor, move = self._problem, self._native, self._problem.local[0], self._problem.kernels.mover
        call, rows = problem.local_rows(factor, point, chain), len(factor.rows)
        if by is None or len(problem.local) > 1 or not self.rank == rows <= self._wide:
            return False
        program, moving = call.kernel.program, move.program
        if program is None or moving is None:
            return False
        states, parameters = point.states[chain][part], len(problem.names) * problem.drags
        numbers = call.kernel.numbers((self._wide + parameters + 1, rows))
        plan = self._plan(factor.name, numbers[: self._wide], numbers[-1])
        slopes = np.ascontiguousarray(numbers[self._wide : -1], dtype=np.int32)
        by.settle(
            *(len(states), program.address, *program.arguments(*call.at(part)), moving.address),
            *(location(states), problem.manifold.ambient, problem.manifold.tangent, location(self._seen)),
            *(location(plan.sizes), plan.lists.address, parameters, location(slopes), passes),
            *(location(_LIMITS), location(basis), location(drag)),
        )
        return True

    def _plan(self, name: str, numbers: Integers, residual: Integers) -> Reflections:
        """How a factor's local rows or private columns are eliminated; drawn up once."""
        if name not in self._plans:
            self._plans[name] = reflections(numbers, residual)
        return self._plans[name]

    def _settle(self, point: Point, chain: int, part: slice, passes: int, basis: Array, drag: Array | None) -> None:
        """The same by NumPy."""
        matrix = self._moved(point, chain, part, passes)
        if drag is None:
            basis[:] = null_space_basis(_jacobian(matrix[:, : self._wide]), self.rank)
            return
        both = null_space_and_inverse(_jacobian(matrix[:, : self._wide]), self.rank)
        basis[:] = both.null
        np.matmul(both.inverse, -_jacobian(matrix[:, self._wide : -1]), out=drag)

    def _moved(self, point: Point, chain: int, part: slice, passes: int) -> Array:
        """Some steps moved onto the surface; the local rows there."""
        problem, states = self._problem, point.states[chain]
        matrix, largest = self._rows(point, chain, part), np.inf
        for _ in range(passes):
            near, largest = largest <= _LIMITS[1], float(np.max(np.abs(matrix[:, -1]), initial=0.0))
            if near or largest <= _LIMITS[0] or not np.isfinite(largest):
                break
            steps = np.zeros((len(matrix), problem.manifold.tangent))
            steps[:, self._seen] = smallest_solution(_jacobian(matrix[:, : self._wide]), -matrix[:, -1], self.rank)
            states[part] = problem.moved(states[part], steps)
            matrix = self._rows(point, chain, part)
        return matrix

    def _rows(self, point: Point, chain: int, part: slice) -> Array:
        """Transposed Jacobians of all local rows at some steps, the parameters' if need be, and the residual,
        (count, columns + 1, rows)."""
        blocks = [self._problem.local_rows(f, point, chain)(part) for f in self._problem.local]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=2)

    def _reached(self, factor: Factor, point: Point, chain: int, moves: bool) -> tuple[Array, Array]:
        """C and the residual of a factor along a chain, its private unknowns fitted if they may move."""
        call = self._problem.private_rows(factor, point, chain)
        (_, rows), rank, count = call.shape, self.ranks[factor.name], factor.count(self._problem.chains[chain].steps)
        passes = 0 if not moves else 1 if factor.name in self._problem.linear else _REFITS
        complement, residual = np.empty((count, rows, rows - rank)), np.empty((count, rows))
        offset, _ = factor.private or (0, range(0))
        for part in _parts(count):
            states, buffer = point.states[chain][offset:][part], (complement[part], residual[part])
            entries, least = self._entries[factor.name], _least(factor)
            fit = _Fit(call, part, states, entries, rank, passes, least, *buffer)
            if not fit.compiled(self._native, partial(self._plan, factor.name)):
                fit.interpreted()
        return complement, residual


@dataclass(frozen=True, eq=False)
class _Fit:
    """Private unknowns of some steps, fitted by least squares."""

    call: Call
    """Of the rows in which they stand."""
    steps: slice
    states: Array
    """Of the steps that hold them, (n, ambient); changed in place."""
    entries: NDArray[np.int64]
    """Their coordinates."""
    rank: int
    passes: int
    """At the most; none leaves the unknowns as they are."""
    least: float
    """Share of the longest row below which rows are rounding."""
    complement: Array
    """Where it puts C, (n, rows, rows − rank)."""
    residual: Array
    """Where it puts the rows' residual, (n, rows)."""

    def compiled(self, by: Routines | None, plan: Callable[[Integers, Integers], Reflections]) -> bool:
        """Compute by C code; False without it, for inseparable unknowns, or for equations inactive at some steps."""
        kernel, (columns, rows) = self.call.kernel, self.call.shape
        program = kernel.program
        if by is None or program is None or not self.rank == columns - 1 <= rows:
            return False
        numbers = kernel.numbers(self.call.shape)
        by_columns, mixed = plan(numbers[:-1].T, numbers[-1]), np.zeros(1, dtype=np.int64)
        by.fit(
            *(len(self.states), program.address, *program.arguments(*self.call.at(self.steps))),
            *(location(self.states), self.states.shape[1], location(self.entries)),
            *(location(by_columns.sizes), by_columns.lists.address),
            *(self.passes, location(_STILL), location(self.complement), location(self.residual), location(mixed)),
        )
        return not mixed[0]

    def interpreted(self) -> None:
        """By NumPy."""
        matrix = self.call(self.steps)
        move = np.zeros((len(matrix), len(self.entries)))
        for _ in range(self.passes):
            move = smallest_solution(_jacobian(matrix[:, :-1]), -matrix[:, -1], self.rank)
            self.states[:, self.entries] += move
            size = float(np.max(np.abs(self.states[:, self.entries]), initial=_STILL[0]))
            if self.passes == 1 or not np.max(np.abs(move), initial=0.0) >= _STILL[0] * size:
                break
            matrix, move = self.call(self.steps), np.zeros_like(move)
        level, lengths = _levelled(matrix[:, :-1], self.least)
        self.complement[:] = orthonormal(null_space_basis(level, self.rank) / lengths.transpose(0, 2, 1))
        self.residual[:] = matrix[:, -1] + np.matmul(move[:, None], matrix[:, :-1])[:, 0]


def _least(factor: Factor) -> float:
    """Share of the longest row below which a factor's rows are rounding; rows over noise standard deviations may be as
    short."""
    return 0.0 if factor.noise else _ROUNDING


def _levelled(transposed: Array, least: float) -> tuple[Array, Array]:
    """Rows of length one, as columns, and their lengths (n, 1, rows): rows over noise standard deviations that differ
    by many orders of magnitude, as those of a loop do, would hide their rank and the digits of what is combined of
    them. Rounding stays small: a torque about an axis through a joint's centre, made large, would spoil the digits,
    too."""
    lengths = _lengths(transposed)
    largest = np.max(lengths, axis=2, keepdims=True, initial=0.0)
    lengths = np.where(lengths > least * largest, lengths, np.where(largest > 0, largest, 1.0))
    return transposed / lengths, lengths


def _lengths(transposed: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("kcr,kcr->kr", transposed, transposed))[:, None])


def _jacobian(transposed: Array) -> Array:
    return transposed.transpose(0, 2, 1)


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
