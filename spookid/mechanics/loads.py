"""Loads along the coordinates of a joint: springs, friction, drag, and the base of those that users write.

A load acts in one of two ways. What is smooth gives an ``effort``: a force along a displacement, a torque about an
angle. Dry friction gives a ``bound`` instead: how large it is at the most, while the stepper finds how large it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, evaluating
from spookid.parameter import is_constant


@dataclass(frozen=True)
class Bound:
    """Bound of dry friction over a step, μ Σ|λ_i| + h c with the impulses λ of the joint's constraint, h the step."""

    load: ca.SX
    """μ of each coordinate, (n,) [m about an angle; without unit along a displacement]."""
    constant: ca.SX
    """c of each coordinate, (n,) [N m or N]."""

    @classmethod
    def none(cls, coordinates: int) -> Bound:
        """No dry friction."""
        return cls(ca.SX.zeros(coordinates), ca.SX.zeros(coordinates))

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.load + other.load, self.constant + other.constant)

    @property
    def acts(self) -> tuple[bool, ...]:
        """True for each coordinate whose bound is not zero."""
        return tuple(
            not (is_absent(self.load[i]) and is_absent(self.constant[i])) for i in range(self.constant.numel())
        )


class Load:
    """What acts along a joint's n coordinates; a subclass has one of the two methods, and Parameters as it likes.

    class Magnet(Load):
        def effort(self, position, rate, inputs):
            return -k * ca.sin(3 * position)

    Hinge(..., loads=[Magnet()])
    """

    signals: Sequence[str] = ()
    """Names of input signals in the recordings, which ``effort`` receives."""

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Force along, or torque about, each coordinate, (n,) [N or N m].

        Args:
            position: the joint's coordinates, (n,) [m or rad]; an angle of a hinge in (−π, π].
            rate: their rates, (n,) [m/s or rad/s].
            inputs: as many as ``signals``.
        """
        return ca.SX.zeros(rate.numel())

    def bound(self, rate: ca.SX) -> Bound:
        """Bound of dry friction at the rates of the step before, (n,) [m/s or rad/s]."""
        return Bound.none(rate.numel())

    def check(self, coordinates: int, what: str) -> None:
        """Refuse a load that cannot be evaluated, or does not act along each coordinate.

        Raises:
            ProblemError: with ``what`` at the beginning.
        """
        kind = type(self).__name__
        with evaluating(f"{what}: load {kind}"):
            parts = self.expressions(coordinates)
        for name, part in zip(("effort", "load of its bound", "constant of its bound"), parts, strict=True):
            if part.numel() != coordinates:
                raise ProblemError(
                    f"{what}: {name} of load {kind} has {part.numel()} values; give one for each of {coordinates} "
                    "coordinates"
                )

    def expressions(self, coordinates: int) -> list[ca.SX]:
        """All that may hold a Parameter: what it does in a state of numbers."""
        position, rate, inputs = (
            ca.SX(ca.DM(np.linspace(first, last, size)))
            for first, last, size in ((0.3, 0.7, coordinates), (0.2, 0.9, coordinates), (0.4, 0.6, len(self.signals)))
        )
        bound = self.bound(rate)
        return [ca.SX(self.effort(position, rate, inputs)), ca.SX(bound.load), ca.SX(bound.constant)]


@dataclass(frozen=True, eq=False)
class Viscous(Load):
    """−b s of the rate s."""

    coefficient: Any
    """b [N m s or N s/m], one number or one for each coordinate."""

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """−b s."""
        return -self.coefficient * rate


@dataclass(frozen=True, eq=False)
class Drag(Load):
    """−d s|s| of the rate s."""

    coefficient: Any
    """d [N m s² or N s²/m²], one number or one for each coordinate."""

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """−d s|s|."""
        return -self.coefficient * rate * ca.fabs(rate)


@dataclass(frozen=True, eq=False)
class Spring(Load):
    """−k (x − x₀) of the coordinate x."""

    stiffness: Any
    """k [N m or N/m], one number or one for each coordinate."""
    rest: Any = 0
    """x₀ [rad or m]."""

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """−k (x − x₀)."""
        return -self.stiffness * (position - self.rest)


@dataclass(frozen=True, eq=False)
class Friction(Load):
    """Dry friction: load-dependent, Coulomb's, and Stribeck's addition to whichever of the two there is (4.1)."""

    load: ca.SX
    """μ, one number or one for each coordinate."""
    coulomb: ca.SX
    """c, likewise [N m or N]."""
    stribeck: ca.SX | None = None
    """(δ, ζ): δ exp(−ζ s²) is added to μ, or to c if there is no μ, s of the step before."""

    def bound(self, rate: ca.SX) -> Bound:
        """(μ, c), Stribeck's term included."""
        still = ca.SX.zeros(rate.numel())
        if self.stribeck is None:
            return Bound(self.load + still, self.coulomb + still)
        delta, zeta = ca.vertsplit(self.stribeck)
        extra = delta * ca.exp(-zeta * rate**2)
        if all(map(is_absent, ca.vertsplit(self.load))):
            return Bound(self.load + still, self.coulomb + extra)
        return Bound(self.load + extra, self.coulomb + still)


def is_absent(value: ca.SX) -> bool:
    """True for the number zero."""
    return is_constant(value) and float(value) == 0
