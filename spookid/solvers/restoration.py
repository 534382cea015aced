"""Points put back to where they belong: on the surface of local hard rows, with private unknowns fitted.

Finding the way back needs what linearizing there needs, so it is kept: the tangent space of the surface, how the
parameters drag it along, and the residuals that private unknowns cannot reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spookid.compiled import CompiledKernel
from spookid.factor import Factor
from spookid.kernels import Array
from spookid.native import address, integers, routines
from spookid.solvers.batched import null_space, rank, smallest_solution, split
from spookid.transcription import Point, Transcription

_NEWTON = 20
_LIMITS = np.array([1e-14, 1e-8])
"""Largest residual of a point on the surface, and of one from which a step of Newton's method ends there."""
_REFITS = 3
_STILL = np.array([1e-12])
"""Unknowns that move by a smaller share of their size stand still."""
_CHUNK = 1024
"""Steps that are put back at once, few enough for a processor's cache."""

Held = Callable[[int, Factor], Array | float]
"""What is added to the residual of a factor of one chain, (count, rows), before its private unknowns are fitted."""


@dataclass(frozen=True, eq=False)
class Space:
    """What is left to the steps of one chain."""

    basis: Array | None
    """Z: orthonormal tangent vectors of the surface, (N, visible, tangent); None: all of the visible columns."""
    drag: Array | None
    """D: how the parameters pull a point along with the surface, (N, visible, n_p); None: they do not."""
    complements: Mapping[str, Array]
    """C: orthonormal residuals of a factor that its private unknowns cannot reach, (count, rows, rows left)."""


class Restoration:
    """The local hard rows and the private unknowns of a problem; ranks are those at ``start``."""

    def __init__(self, problem: Transcription, start: Point) -> None:
        self._problem = problem
        self._native = routines(sum(chain.steps for chain in problem.chains))
        self._private = [f for f in problem.factors if f.private and f not in problem.local]
        self._wide, self._seen = len(problem.visible), integers(problem.visible)
        self._entries = {
            f.name: integers([problem.manifold.coordinate(c) for c in f.private[1]]) for f in self._private if f.private
        }
        """Factor name to the coordinates of its private unknowns."""
        self.rank = self._rank(start, None) if problem.local else 0
        """Of the local hard rows of a step."""
        self.ranks = {f.name: self._rank(start, f) for f in self._private}
        """Of each factor's private columns."""

    def restore(self, point: Point, held: Held) -> tuple[Point, list[Space]]:
        """The point put back, and what is left there to each chain."""
        point = Point(tuple(np.array(states) for states in point.states), point.parameters, point.codes)
        return point, [self._space(point, c, held) for c in range(len(point.states))]

    def spaces(self, point: Point) -> list[Space]:
        """What is left to each chain at a point that stays where it is."""
        return [self._space(point, c, None) for c in range(len(point.states))]

    def _space(self, point: Point, chain: int, held: Held | None) -> Space:
        """The steps are moved if it is given what is held."""
        basis, drag = self._surface(point, chain, 0 if held is None else _NEWTON)
        return Space(basis, drag, {f.name: self._complement(f, point, chain, held) for f in self._private})

    def _rank(self, point: Point, private: Factor | None) -> int:
        """Largest rank of the local rows, or of a factor's private columns."""
        largest = 0
        for c, chain in enumerate(self._problem.chains):
            count = chain.steps if private is None else private.count(chain.steps)
            for part in (slice(0, min(1, count)), *_parts(count)):  # mostly the first step tells
                if private is None:
                    matrix = self._rows(point, c, part)[:, : self._wide]
                else:
                    matrix = self._problem.private_rows(private, point, c)(part)[:, :-1]
                largest = max(largest, rank(matrix))
                if largest == min(matrix.shape[1:]):
                    return largest
        return largest

    # --- the surface ---

    def _surface(self, point: Point, chain: int, passes: int) -> tuple[Array | None, Array | None]:
        """Z and D of a chain, its steps moved onto the surface by so many steps of Newton's method at the most."""
        problem, count = self._problem, self._problem.chains[chain].steps
        if not problem.local:
            return None, None
        basis = np.empty((count, self._wide, self._wide - self.rank))
        drag = np.empty((count, self._wide, len(problem.names))) if problem.drags else None
        for part in _parts(count):
            room = basis[part], None if drag is None else drag[part]
            if not self._settled(point, chain, part, passes, *room):
                self._settle(point, chain, part, passes, *room)
        return basis, drag

    def _settled(self, point: Point, chain: int, part: slice, passes: int, basis: Array, drag: Array | None) -> bool:
        """Some steps moved by compiled C; False if there is none, or if the rows depend on one another."""
        problem, by, factor, move = self._problem, self._native, self._problem.local[0], self._problem.mover
        call, rows = problem.local_rows(factor, point, chain), len(factor.rows)
        if by is None or len(problem.local) > 1 or not self.rank == rows <= self._wide:
            return False
        if not (isinstance(call.kernel, CompiledKernel) and isinstance(move, CompiledKernel)):
            return False
        states, parameters = point.states[chain][part], len(problem.names) * problem.drags
        by.settle(
            *(len(states), call.kernel.function, *call.kernel.arguments(*call.at(part)), move.function),
            *(address(states), problem.manifold.ambient, problem.manifold.tangent, address(self._seen)),
            *(self._wide, rows, parameters, passes, address(_LIMITS), address(basis), address(drag)),
        )
        return True

    def _settle(self, point: Point, chain: int, part: slice, passes: int, basis: Array, drag: Array | None) -> None:
        """The same by NumPy."""
        matrix = self._moved(point, chain, part, passes)
        if drag is None:
            basis[:] = null_space(_jacobian(matrix[:, : self._wide]), self.rank)
            return
        both = split(_jacobian(matrix[:, : self._wide]), self.rank)
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

    # --- private unknowns ---

    def _complement(self, factor: Factor, point: Point, chain: int, held: Held | None) -> Array:
        """C of a factor along a chain, its private unknowns fitted if it is given what is held."""
        count, rows = factor.count(self._problem.chains[chain].steps), len(factor.rows)
        shift = 0.0 if held is None else held(chain, factor)
        passes = 0 if held is None else 1 if factor.name in self._problem.linear else _REFITS
        complement = np.empty((count, rows, rows - self.ranks[factor.name]))
        for part in _parts(count):
            some = None if isinstance(shift, float) else shift[part]
            if not self._fitted(factor, point, chain, part, passes, some, complement[part]):
                self._fit(factor, point, chain, part, passes, some, complement[part])
        return complement

    def _fitted(
        self, factor: Factor, point: Point, chain: int, part: slice, passes: int, shift: Array | None, room: Array
    ) -> bool:
        """Private unknowns of some steps fitted by compiled C; False if there is none, or if they cannot be told."""
        call, by, rank = self._problem.private_rows(factor, point, chain), self._native, self.ranks[factor.name]
        if by is None or not isinstance(call.kernel, CompiledKernel) or not rank == call.shape[0] - 1 <= call.shape[1]:
            return False
        states, entries = self._own(factor, point, chain, part), self._entries[factor.name]
        shift = None if shift is None else np.ascontiguousarray(shift)
        by.fit(
            *(len(states), call.kernel.function, *call.kernel.arguments(*call.at(part))),
            *(address(states), self._problem.manifold.ambient, address(entries), len(factor.rows), rank),
            *(address(shift), passes, address(_STILL), address(room)),
        )
        return True

    def _fit(
        self, factor: Factor, point: Point, chain: int, part: slice, passes: int, shift: Array | None, room: Array
    ) -> None:
        """The same by NumPy."""
        states, entries = self._own(factor, point, chain, part), self._entries[factor.name]
        call, rank = self._problem.private_rows(factor, point, chain), self.ranks[factor.name]
        matrix = call(part)
        for _ in range(passes):
            right = -matrix[:, -1] if shift is None else -matrix[:, -1] - shift
            move = smallest_solution(_jacobian(matrix[:, :-1]), right, rank)
            states[:, entries] += move
            size = float(np.max(np.abs(states[:, entries]), initial=_STILL[0]))
            if passes == 1 or not np.max(np.abs(move), initial=0.0) >= _STILL[0] * size:
                break
            matrix = call(part)
        room[:] = null_space(matrix[:, :-1], rank)

    @staticmethod
    def _own(factor: Factor, point: Point, chain: int, part: slice) -> Array:
        """States of the steps that hold a factor's private unknowns."""
        offset, _ = factor.private or (0, range(0))
        return point.states[chain][offset:][part]


def _jacobian(transposed: Array) -> Array:
    return transposed.transpose(0, 2, 1)


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
