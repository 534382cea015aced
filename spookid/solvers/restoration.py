"""Points put back to where they belong: on the surface of local hard rows, with private unknowns fitted.

Finding the way back needs what linearizing there needs, so it is kept: the tangent space of the surface, how the
parameters drag it along, and the residuals that private unknowns cannot reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spookid.factor import Factor
from spookid.kernels import Array
from spookid.native import routines
from spookid.solvers.batched import fit, null_space, rank, smallest_solution, split
from spookid.transcription import Point, Transcription

_NEWTON = 20
_ON_SURFACE, _NEAR = 1e-14, 1e-8
"""Largest residual of a point on the surface, and of one from which a step of Newton's method ends there."""
_REFITS, _STILL = 3, 1e-12
_CHUNK = 1024
"""Steps that are put back at once, few enough for a processor's cache."""

Held = Callable[[int, Factor], Array | float]
"""What is added to the residual of a factor of one chain, (count, rows), before its private unknowns are fitted."""
Rows = Callable[[Point, int, slice], Array]


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
        self.rank = self._rank(start, None) if problem.local else 0
        """Of the local hard rows of a step."""
        self.ranks = {f.name: self._rank(start, f) for f in self._private}
        """Of each factor's private columns."""

    def restore(self, point: Point, held: Held) -> tuple[Point, list[Space]]:
        """The point put back, and what is left there to each chain."""
        point = Point(tuple(np.array(states) for states in point.states), point.parameters, point.codes)
        return point, [self._space(point, c, self._on_surface, held) for c in range(len(point.states))]

    def spaces(self, point: Point) -> list[Space]:
        """What is left to each chain at a point that stays where it is."""
        return [self._space(point, c, self._rows, None) for c in range(len(point.states))]

    def _space(self, point: Point, chain: int, rows: Rows, held: Held | None) -> Space:
        """``rows`` linearizes the surface at some steps, and may move them there; private unknowns are fitted if it is
        given what is held."""
        basis, drag = self._surface(point, chain, rows)
        complements = {}
        for factor in self._private:
            count = factor.count(self._problem.chains[chain].steps)
            whole = np.empty((count, len(factor.rows), len(factor.rows) - self.ranks[factor.name]))
            shift = None if held is None else held(chain, factor)
            for part in _parts(count):
                if shift is None:
                    whole[part] = self._complement(factor, point, chain, part)
                else:
                    some = shift if isinstance(shift, float) else shift[part]
                    whole[part] = self._fitted(factor, point, chain, part, some)
            complements[factor.name] = whole
        return Space(basis, drag, complements)

    def _rank(self, point: Point, private: Factor | None) -> int:
        """Largest rank of the local rows, or of a factor's private columns."""
        largest = 0
        for c, chain in enumerate(self._problem.chains):
            for part in _parts(chain.steps if private is None else private.count(chain.steps)):
                if private is None:
                    matrix = self._visible(self._rows(point, c, part))
                else:
                    matrix = self._problem.linearize_private(private, point, c, part)[:, :-1]
                largest = max(largest, rank(matrix))
                if largest == min(matrix.shape[1:]):
                    return largest
        return largest

    def _surface(self, point: Point, chain: int, rows: Rows) -> tuple[Array | None, Array | None]:
        """Z and D of a chain; ``rows`` linearizes some of its steps."""
        problem, count, wide = self._problem, self._problem.chains[chain].steps, len(self._problem.visible)
        if not problem.local:
            return None, None
        basis = np.empty((count, wide, wide - self.rank))
        drag = np.empty((count, wide, len(problem.names))) if problem.drags else None
        for part in _parts(count):
            matrix = rows(point, chain, part)
            if drag is None:
                basis[part] = null_space(self._visible(matrix), self.rank, self._native)
            else:
                both = split(self._visible(matrix), self.rank, self._native)
                basis[part] = both.null
                drag[part] = -np.matmul(both.inverse, matrix[:, wide:-1].transpose(0, 2, 1))
        return basis, drag

    def _on_surface(self, point: Point, chain: int, part: slice) -> Array:
        """Some steps moved onto the surface by Newton's method; the local rows there, as ``_rows``."""
        problem, states, last = self._problem, point.states[chain], False
        for _ in range(_NEWTON):
            matrix = self._rows(point, chain, part)
            largest = float(np.max(np.abs(matrix[:, -1]), initial=0.0))
            if last or largest <= _ON_SURFACE or not np.isfinite(largest):
                break
            steps = np.zeros((len(matrix), problem.manifold.tangent))
            steps[:, problem.visible] = smallest_solution(
                self._visible(matrix), -matrix[:, -1], self.rank, self._native
            )
            states[part] = problem.moved(states[part], steps)
            last = largest <= _NEAR
        return matrix

    def _rows(self, point: Point, chain: int, part: slice) -> Array:
        """Transposed Jacobians of the local rows at some steps, the parameters' if need be, and the residual,
        (count, columns + 1, rows)."""
        blocks = [self._problem.linearize_local(f, point, chain, part) for f in self._problem.local]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=2)

    def _visible(self, matrix: Array) -> Array:
        """Jacobian (count, rows, visible)."""
        return matrix[:, : len(self._problem.visible)].transpose(0, 2, 1)

    def _fitted(self, factor: Factor, point: Point, chain: int, part: slice, shift: Array | float) -> Array:
        """Private unknowns of some steps fitted by least squares; C there."""
        offset, columns = factor.private or (0, range(0))
        entries = [self._problem.manifold.coordinate(c) for c in columns]
        states = point.states[chain][offset:][part]
        linear = factor.name in self._problem.linear
        for _ in range(1 if linear else _REFITS):
            matrix = self._problem.linearize_private(factor, point, chain, part)
            jacobian, right = matrix[:, :-1].transpose(0, 2, 1), -matrix[:, -1] - shift
            move, complement = fit(jacobian, right, self.ranks[factor.name], self._native)
            states[:, entries] += move
            largest = float(np.max(np.abs(states[:, entries]), initial=_STILL))
            if np.max(np.abs(move), initial=0.0) < _STILL * largest:
                return complement
        return complement if linear else self._complement(factor, point, chain, part)

    def _complement(self, factor: Factor, point: Point, chain: int, part: slice) -> Array:
        """C of some steps of a factor."""
        private = self._problem.linearize_private(factor, point, chain, part)[:, :-1]
        return null_space(private, self.ranks[factor.name], self._native)


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
