"""State spaces that are not flat: where a state lives, and the tangent space in which solvers move it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import is_whole
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics import rotations
from spookid.parameter import stacked

Kind = Literal["flat", "rotation"]


def _is_part(part: object) -> bool:
    if not (isinstance(part, tuple) and len(part) == 2 and is_whole(part[1])):
        return False
    kind, size = part
    return bool(size in (0, 4) if kind == "rotation" else isinstance(kind, str) and kind == "flat" and size >= 0)


@dataclass(frozen=True)
class Manifold:
    """Product manifold of real coordinates ("flat") and unit quaternions.

    >>> Manifold((("flat", 3), ("rotation", 4))).ambient
    7
    """

    parts: tuple[tuple[Kind, int], ...]
    """(kind, number of coordinates) in order; a rotation has 4 coordinates and 3 tangent directions."""

    def __post_init__(self) -> None:  # made too often for the checks of other classes
        if not (isinstance(self.parts, tuple) and all(map(_is_part, self.parts))):
            raise ProblemError(f"Manifold: parts= is {shown(self.parts)}; give pairs ('flat', n) or ('rotation', 4)")

    @property
    def ambient(self) -> int:
        """Number of coordinates of a point on the manifold."""
        return sum(size for _, size in self.parts)

    @property
    def tangent(self) -> int:
        """Dimension of the tangent space."""
        return sum(size - (kind == "rotation") for kind, size in self.parts)

    @property
    def joined(self) -> Manifold:
        """The same manifold with adjacent flat parts merged."""
        parts: list[tuple[Kind, int]] = []
        for kind, size in self.parts:
            if kind == "flat" and parts and parts[-1][0] == "flat":
                size += parts.pop()[1]
            parts.append((kind, size))
        return Manifold(tuple(part for part in parts if part[1]))

    def part(self, coordinates: Sequence[int]) -> Manifold:
        """Submanifold of some coordinates; each rotation is included entirely or not at all.

        Raises:
            ValueError: for some of a rotation.
        """
        parts: list[tuple[Kind, int]] = []
        start, wanted = 0, set(coordinates)
        for kind, size in self.parts:
            count = len(wanted.intersection(range(start, start + size)))
            if kind == "rotation" and count not in (0, size):
                raise ValueError(
                    f"coordinates {start} to {start + size - 1} form one rotation: select all of them or none"
                )
            parts.append((kind, count))
            start += size
        return Manifold(tuple(parts)).joined

    @property
    def zero(self) -> ca.SX:
        """Origin: zero coordinates and identity rotations, (ambient,)."""
        parts = (ca.SX([1, 0, 0, 0]) if kind == "rotation" else ca.SX.zeros(size) for kind, size in self.parts)
        return stacked(parts)

    def coordinate(self, column: int) -> int:
        """Index of the real coordinate that belongs to a tangent column.

        Raises:
            ValueError: if it is one of a rotation.
        """
        point = step = 0
        for kind, size in self.parts:
            if step <= column < step + size - (kind == "rotation"):
                if kind == "rotation":
                    break
                return point + column - step
            point, step = point + size, step + size - (kind == "rotation")
        raise ValueError(f"tangent column {column} belongs to a rotation; give the column of a real coordinate")

    def retract(self, x: ca.SX, delta: ca.SX) -> ca.SX:
        """Retraction x ⊞ δ: addition for flat parts, e ⋆ exp(ψ) for rotations; (ambient,), (tangent,) to (ambient,)."""
        return stacked(self._each(rotations.plus, operator.add, self._points(x), self._steps(delta)))

    def chart(self, x: ca.SX, delta: ca.SX) -> ca.SX:
        """Chart around x: point (ambient,) for coordinates δ (tangent,), equal to ``retract`` to second order, but by
        the smooth Cayley map."""

        def turned(e: ca.SX, psi: ca.SX) -> ca.SX:
            return rotations.multiply(e, rotations.cayley(psi))

        return ca.vertcat(*self._each(turned, operator.add, self._points(x), self._steps(delta)))

    def chart_tangent(self, delta: ca.SX) -> ca.SX:
        """Tangent matrix T of the chart, sparse (tangent, tangent): chart(x, δ + dδ) = chart(x, δ) ⊞ T dδ."""
        return ca.diagcat(*self._each(rotations.cayley_tangent, _unit, self._steps(delta)))

    def minus(self, x1: ca.SX, x0: ca.SX) -> ca.SX:
        """Difference x₁ ⊟ x₀, (tangent,), with the smooth small-angle formula for rotations (3.24)."""
        return stacked(self._each(rotations.minus, operator.sub, self._points(x1), self._points(x0)))

    def difference(self, x1: ca.SX, x0: ca.SX) -> ca.SX:
        """Difference x₁ ⊟ x₀, (tangent,), with the exact logarithm of rotations."""
        return stacked(self._each(rotations.difference, operator.sub, self._points(x1), self._points(x0)))

    def basis(self, x: ca.SX) -> ca.SX:
        """Basis of the tangent space ∂(x ⊞ δ)/∂δ at δ = 0, sparse (ambient, tangent)."""
        return ca.diagcat(*self._each(rotations.tangent, _unit, self._points(x)))

    def lowered(self, x: ca.SX, flow: ca.SX) -> ca.SX:
        """Tangent vector δ that solves basis(x) δ = flow, for a velocity ``flow`` of x, (tangent,)."""
        parts = zip(self.parts, self._points(x), self._points(flow), strict=True)
        # The columns of a rotation's basis are orthogonal, each of length a half.
        return stacked(4 * rotations.tangent(e).T @ d if kind == "rotation" else d for (kind, _), e, d in parts)

    def normed(self, x: Array) -> Array:
        """Normalize the quaternions in a numerical point (ambient,)."""
        cuts = np.cumsum([size for _, size in self.parts])[:-1]
        parts = zip(self.parts, np.split(x, cuts), strict=True)
        return np.concatenate([p / np.linalg.norm(p) if kind == "rotation" else p for (kind, _), p in parts])

    def continuous(self, points: Array) -> Array:
        """Make the signs of quaternions continuous along a motion, (N, ambient)."""
        turns = [np.append(1.0, _signs(q[1:], q[:-1])).cumprod() for q in self._quaternions(points)]
        return self._turned(points, turns)

    def like(self, points: Array, others: Array) -> Array:
        """Choose the signs of quaternions in points (N, ambient) so that they are nearest to other points."""
        pairs = zip(self._quaternions(points), self._quaternions(others), strict=True)
        return self._turned(points, [_signs(*pair) for pair in pairs])

    def _quaternions(self, points: Array) -> list[Array]:
        """Views of them, (N, 4) each."""
        ends = accumulate(size for _, size in self.parts)
        return [points[:, end - 4 : end] for end, (kind, _) in zip(ends, self.parts, strict=True) if kind == "rotation"]

    def _turned(self, points: Array, signs: Sequence[Array]) -> Array:
        turned = points.copy()
        for quaternions, sign in zip(self._quaternions(turned), signs, strict=True):
            quaternions *= sign[:, None]
        return turned

    def _each(
        self, turned: Callable[..., ca.SX], flat: Callable[..., ca.SX], *vectors: Sequence[ca.SX]
    ) -> Iterator[ca.SX]:
        """A function of the pieces of vectors for each part, by its kind."""
        for (kind, _), *pieces in zip(self.parts, *vectors, strict=True):
            yield turned(*pieces) if kind == "rotation" else flat(*pieces)

    def _points(self, x: ca.SX) -> Sequence[ca.SX]:
        return split(x, [size for _, size in self.parts])

    def _steps(self, delta: ca.SX) -> Sequence[ca.SX]:
        return split(delta, [size - (kind == "rotation") for kind, size in self.parts])


QUATERNION = Manifold((("rotation", 4),))  # the space of one


def _unit(x: ca.SX) -> ca.SX:
    return ca.SX.eye(x.numel())


def _signs(quaternions: Array, others: Array) -> Array:
    return np.where(np.sum(quaternions * others, axis=1) < 0, -1.0, 1.0)


def split(vector: ca.SX, sizes: Sequence[int]) -> Sequence[ca.SX]:
    """Split a vector into parts of given sizes; three times faster than CasADi's ``vertsplit``."""
    return [vector[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def jacobian(expression: ca.SX, x: ca.SX, manifold: Manifold) -> ca.SX:
    """Jacobian ∂expression(x ⊞ δ)/∂δ at δ = 0, sparse (rows, tangent), by forward mode along the tangent basis."""
    return ca.sparsify(ca.jtimes(expression, x, ca.densify(manifold.basis(x))))


def gradient(expression: ca.SX, x: ca.SX, manifold: Manifold) -> ca.SX:
    """Gradient of a scalar on the manifold, (tangent,), by reverse mode."""
    return manifold.basis(x).T @ ca.gradient(expression, x)


def solved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Solve a small sparse linear system (n, n) for right-hand sides (n, k), by blocks of its lower triangular form."""
    matrix = ca.sparsify(matrix)
    count, rows, columns, row_cuts, column_cuts, *_ = matrix.sparsity().btf()
    found, none = [ca.SX(0)] * matrix.shape[0], ca.SX(0, right.shape[1])
    for block in range(count):
        at = rows[row_cuts[block] : row_cuts[block + 1]]
        own = columns[column_cuts[block] : column_cuts[block + 1]]
        before = columns[: column_cuts[block]]
        known = ca.vertcat(none, *(found[i] for i in before))
        part = ca.solve(matrix[at, own], right[at, :] - matrix[at, before] @ known)
        for i, value in zip(own, ca.vertsplit(part), strict=True):
            found[i] = value
    return ca.vertcat(none, *found)


def halved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Solve L x = right, where L is the Cholesky factor of a small symmetric positive definite matrix (n, n)."""
    upper, found = ca.chol(ca.densify(matrix)), list[ca.SX]()
    for i, value in enumerate(ca.vertsplit(ca.densify(right))):
        before = sum((upper[j, i] * known for j, known in enumerate(found)), ca.SX(0))
        found.append((value - before) / upper[i, i])
    return ca.vertcat(*found)
