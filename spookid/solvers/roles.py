"""What a factor does in a nonlinear program: a share of the objective, equality rows, or relaxed pairs.

Each role sees one factor's residuals r (count, rows) and transposed Jacobians J (count, columns, rows) along a chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spookid.factor import Factor
from spookid.kernels import Array
from spookid.solvers.relaxation import Jet, Relaxation

Mask = NDArray[np.bool_]


class Role(Protocol):
    """How a factor's residuals enter."""

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the constraint rows, each (count, k)."""

    def objective(self, r: Array) -> float:
        """o(r), summed."""

    def slope(self, r: Array) -> Array:
        """∂o/∂r, (count, rows)."""

    def constraints(self, r: Array) -> Array:
        """c(r), (count, k)."""

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """∂c/∂columns, transposed, (count, columns, k)."""

    def pattern(self, structure: Mask) -> Mask:
        """Where ∂c/∂columns can differ from zero, (k, columns), from that of r, (rows, columns)."""

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """∂(weight o + givenᵀc)/∂r, (count, rows), given of shape (count, k)."""

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array | None:
        """J ∂²(weight o + givenᵀc)/∂r² Jᵀ, (count, columns, columns); None if it is zero."""


@dataclass(frozen=True, eq=False)
class Soft:
    """|r|² in the objective."""

    count: int

    def bounds(self) -> tuple[Array, Array]:
        """No rows."""
        return np.zeros((self.count, 0)), np.zeros((self.count, 0))

    def objective(self, r: Array) -> float:
        """Sum of squares."""
        return float(np.vdot(r, r))

    def slope(self, r: Array) -> Array:
        """2 r."""
        return 2 * r

    def constraints(self, r: Array) -> Array:
        """None."""
        return r[:, :0]

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """None."""
        return J[:, :, :0]

    def pattern(self, structure: Mask) -> Mask:
        """No rows."""
        return structure[:0]

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """2 r."""
        return 2 * weight * r

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array:
        """Gauss–Newton's 2 J Jᵀ."""
        return np.asarray(np.matmul(2 * weight * J, J.transpose(0, 2, 1)))


@dataclass(frozen=True, eq=False)
class Hard:
    """r = 0, without the rows that others imply."""

    rows: int
    kept: Mask
    """False for rows that others imply, (count, rows)."""

    def bounds(self) -> tuple[Array, Array]:
        """Zero; a row that others imply is unbounded, and no row of the program."""
        free = np.where(self.kept, 0.0, np.inf)
        return -free, free

    def objective(self, r: Array) -> float:
        """None."""
        return 0.0

    def slope(self, r: Array) -> Array:
        """None."""
        return np.zeros_like(r)

    def constraints(self, r: Array) -> Array:
        """r."""
        return r

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """J."""
        return J

    def pattern(self, structure: Mask) -> Mask:
        """Its own."""
        return structure

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """As given."""
        return given

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> None:
        """None."""
        return None


@dataclass(eq=False)
class Pairs:
    """(a, b) = r with 0 ≤ a ⟂ b ≥ 0, relaxed."""

    relaxation: Relaxation
    scales: Array
    """Typical size of each row, (rows,)."""
    count: int
    t: float = 1.0
    """The relaxation's parameter, which the solver lowers."""

    def _scaled(self, r: Array) -> tuple[Array, Array]:
        a, b = np.hsplit(r / self.scales, 2)
        return a, b

    def _rows(self, r: Array) -> Jet:
        return self.relaxation.rows(*self._scaled(r), self.t)

    def _objective(self, r: Array) -> Jet:
        return self.relaxation.objective(*self._scaled(r), self.t)

    def bounds(self) -> tuple[Array, Array]:
        """Of the relaxation."""
        m = len(self.scales) // 2
        sides = np.array(self.relaxation.bounds(self.t))
        lower, upper = (np.tile(np.repeat(side, m), (self.count, 1)) for side in sides.T)
        return lower, upper

    def objective(self, r: Array) -> float:
        """Of the relaxation."""
        return float(np.sum(self._objective(r).value))

    def slope(self, r: Array) -> Array:
        """Of the relaxation."""
        jet = self._objective(r)
        return np.hstack([jet.a.sum(axis=0), jet.b.sum(axis=0)]) / self.scales

    def constraints(self, r: Array) -> Array:
        """The first function of every pair, then the second."""
        return np.hstack(list(self._rows(r).value))

    def constraint_slopes(self, r: Array, J: Array) -> Array:
        """By the chain rule."""
        jet, (A, B) = self._rows(r), self._halves(J)
        return np.concatenate([a[:, None] * A + b[:, None] * B for a, b in zip(jet.a, jet.b, strict=True)], axis=2)

    def _halves(self, J: Array) -> tuple[Array, Array]:
        m = len(self.scales) // 2
        scaled = J / self.scales
        return scaled[:, :, :m], scaled[:, :, m:]

    def pattern(self, structure: Mask) -> Mask:
        """Of both members."""
        a, b = np.vsplit(structure, 2)
        return np.vstack([a | b] * len(self.relaxation.bounds(self.t)))

    def multipliers(self, r: Array, weight: float, given: Array) -> Array:
        """By the chain rule."""
        rows, objective = self._rows(r), self._objective(r)
        shares = self._shares(given, len(rows.value))
        return (
            np.hstack(
                [
                    weight * np.sum(o, axis=0) + np.sum(shares * c, axis=0)
                    for o, c in ((objective.a, rows.a), (objective.b, rows.b))
                ]
            )
            / self.scales
        )

    def _shares(self, given: Array, k: int) -> Array:
        return given.reshape(self.count, k, -1).transpose(1, 0, 2)

    def curvature(self, r: Array, J: Array, weight: float, given: Array) -> Array:
        """Of the relaxation, a and b taken as linear."""
        rows, objective = self._rows(r), self._objective(r)
        shares = self._shares(given, len(rows.value))
        A, B = self._halves(J)
        aa, ab, bb = (
            weight * np.sum(o, axis=0) + np.sum(shares * c, axis=0)
            for o, c in ((objective.aa, rows.aa), (objective.ab, rows.ab), (objective.bb, rows.bb))
        )
        left = A * aa[:, None] + B * ab[:, None]
        right = A * ab[:, None] + B * bb[:, None]
        return np.asarray(np.matmul(left, A.transpose(0, 2, 1)) + np.matmul(right, B.transpose(0, 2, 1)))


def role_of(factor: Factor, r: Array, J: Array, relaxation: Relaxation) -> Role:
    """The role of a factor, given its residuals and Jacobians at the start."""
    if factor.pairs:
        return Pairs(relaxation, typical(r), len(r))
    if factor.hard:
        return Hard(len(factor.rows), independent(J))
    return Soft(len(r))


def typical(r: Array) -> Array:
    """Root mean square of each row over the steps; 1 where it is zero, (rows,)."""
    size = np.sqrt(np.mean(r**2, axis=0))
    return np.where(size > 0, size, 1.0)


_REDUNDANT = 1e-8
"""A row whose part that is orthogonal to the others is below this share of the longest says nothing new."""


def independent(J: Array) -> Mask:
    """A largest set of independent rows of every step, (count, rows), from transposed Jacobians (count, columns, rows).

    Gram–Schmidt with the longest remaining row first, all steps at once; a row that is zero throughout is kept.
    """
    rest = J.copy()
    count, _, rows = J.shape
    squares = np.einsum("kcr,kcr->kr", J, J)
    longest = np.max(squares, axis=1, initial=0.0)
    kept: Mask = squares == 0
    steps = np.arange(count)
    for _ in range(rows):
        squares = np.where(kept, -1.0, np.einsum("kcr,kcr->kr", rest, rest))
        pick = np.argmax(squares, axis=1)
        new = squares[steps, pick] > _REDUNDANT**2 * longest
        if not np.any(new):
            break
        kept[steps[new], pick[new]] = True
        direction = rest[steps, :, pick] / np.sqrt(np.where(new, squares[steps, pick], 1.0))[:, None]
        direction[~new] = 0.0
        for _ in range(2):  # once more against rounding
            rest -= direction[:, :, None] * np.einsum("kc,kcr->kr", direction, rest)[:, None]
    return kept
