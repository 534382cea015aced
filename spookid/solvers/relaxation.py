"""Complementarity pairs 0 ≤ a ⟂ b ≥ 0 as what an interior-point method can do, and driven towards them.

A relaxation turns each pair into constraint rows c(a, b) between bounds and a share o(a, b) of the objective, given
with first and second derivatives. a and b are scaled by their typical sizes, so that its parameter has no unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from spookid.kernels import Array

Name = Literal["fischer-burmeister", "scholtes", "penalty"]


@dataclass(frozen=True, eq=False)
class Jet:
    """Values of k functions of (a, b) with their derivatives; each array (k, n, m) for a, b of shape (n, m)."""

    value: Array
    a: Array
    b: Array
    aa: Array
    ab: Array
    bb: Array


class Relaxation(Protocol):
    """How pairs enter a nonlinear program for one value t of the relaxation's parameter."""

    @property
    def sequence(self) -> tuple[float, ...]:
        """Values of t, one solve after another."""

    def bounds(self, t: float) -> tuple[tuple[float, float], ...]:
        """(lower, upper) of each of the k rows of a pair."""

    def rows(self, a: Array, b: Array, t: float) -> Jet:
        """c(a, b)."""

    def objective(self, a: Array, b: Array, t: float) -> Jet:
        """o(a, b), one function."""


def _jet(*columns: tuple[Array | float, ...], like: Array) -> Jet:
    """From (value, a, b, aa, ab, bb) of each function."""
    return Jet(*(np.stack([np.broadcast_to(c[i], like.shape) for c in columns]) for i in range(6)))


@dataclass(frozen=True)
class FischerBurmeister:
    """a + b − √(a² + b² + 2t) = 0, that is a, b > 0 and a b = t (Fischer 1992; Kanzow 1996)."""

    sequence: tuple[float, ...] = (1e-3, 1e-6, 1e-9, 1e-11)

    def bounds(self, t: float) -> tuple[tuple[float, float], ...]:
        """One equality."""
        return ((0.0, 0.0),)

    def rows(self, a: Array, b: Array, t: float) -> Jet:
        """The function."""
        s = np.sqrt(a * a + b * b + 2 * t)
        # a + b − s cancels where one of them is large.
        value = np.where(a + b > 0, 2 * (a * b - t) / (a + b + s), a + b - s)
        cube = s**3
        return _jet(
            (value, 1 - a / s, 1 - b / s, -(b * b + 2 * t) / cube, a * b / cube, -(a * a + 2 * t) / cube), like=a
        )

    def objective(self, a: Array, b: Array, t: float) -> Jet:
        """None."""
        return _jet((0.0,) * 6, like=a)


@dataclass(frozen=True)
class Scholtes:
    """a ≥ 0, b ≥ 0, a b ≤ t (Scholtes 2001)."""

    sequence: tuple[float, ...] = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)

    def bounds(self, t: float) -> tuple[tuple[float, float], ...]:
        """Two signs and the product."""
        return ((0.0, np.inf), (0.0, np.inf), (-np.inf, t))

    def rows(self, a: Array, b: Array, t: float) -> Jet:
        """a, b, a b."""
        return _jet((a, 1.0, 0.0, 0.0, 0.0, 0.0), (b, 0.0, 1.0, 0.0, 0.0, 0.0), (a * b, b, a, 0.0, 1.0, 0.0), like=a)

    def objective(self, a: Array, b: Array, t: float) -> Jet:
        """None."""
        return _jet((0.0,) * 6, like=a)


@dataclass(frozen=True)
class Penalty:
    """a ≥ 0, b ≥ 0, and t⁻¹ a b in the objective; exact for some t > 0 (Ralph and Wright 2004)."""

    sequence: tuple[float, ...] = (1e0, 1e-2, 1e-4, 1e-6)

    def bounds(self, t: float) -> tuple[tuple[float, float], ...]:
        """Two signs."""
        return ((0.0, np.inf), (0.0, np.inf))

    def rows(self, a: Array, b: Array, t: float) -> Jet:
        """a, b."""
        return _jet((a, 1.0, 0.0, 0.0, 0.0, 0.0), (b, 0.0, 1.0, 0.0, 0.0, 0.0), like=a)

    def objective(self, a: Array, b: Array, t: float) -> Jet:
        """a b/t."""
        return _jet((a * b / t, b / t, a / t, 0.0, 1 / t, 0.0), like=a)


RELAXATIONS: Mapping[str, Relaxation] = {
    "fischer-burmeister": FischerBurmeister(),
    "scholtes": Scholtes(),
    "penalty": Penalty(),
}
