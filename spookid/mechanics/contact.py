"""Contacts that push and rub: a point of one body on a plane of another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import Body, Frame
from spookid.parameter import is_constant, symbolic

_NOT_NEGATIVE = ("friction", "compliance", "damping")


@dataclass(frozen=True, eq=False)
class Contact:
    """A point that cannot go below a plane, regularized as joints are (Marklund et al., 2.21, 2.24).

    The gap is the height of the point above the plane [m], negative where it penetrates; the normal impulse pushes the
    point up and is never negative. Friction is that of a box: along each of the plane's two tangents its impulse is at
    most μ times the normal impulse, against the slip of the point over the plane. At rest under a force F the point
    penetrates by compliance times F. There is no impact law: within about ``damping`` of touching, the regularization
    brakes the approach over a few steps.

    Raises:
        ProblemError: for a negative fixed coefficient, or a contact of a body with itself.
    """

    name: str
    point: Frame
    """A frame whose origin is the point."""
    plane: Frame
    """A frame whose x and y axes span the plane and are its tangents; its z axis is the normal, towards the free side.
    ``GROUND.frame()`` is the floor."""
    friction: Any = 0
    """μ, without unit."""
    compliance: Any = 1e-4
    """ε [m/N]."""
    damping: Any = 0.02
    """τ, relaxation time [s]."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Contact {self.name!r}"
        for side in (self.point, self.plane):
            if not isinstance(side, Frame):
                raise ProblemError(
                    f"{what} is of {shown(side)}, which is no frame; use body.frame(...) or GROUND.frame()"
                )
        if self.point.body is self.plane.body:
            raise ProblemError(f"{what} is of {self.point.body.name!r} with itself")
        for name in _NOT_NEGATIVE:
            value = symbolic(getattr(self, name), f"{what}: {name}")
            if is_constant(value) and float(value) < 0:
                raise ProblemError(f"{what}: {name} is {float(value):g}; it must not be negative")
            object.__setattr__(self, name, value)

    def bodies(self) -> tuple[Body, Body]:
        """That of the point and that of the plane."""
        return self.point.body, self.plane.body

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        own = [getattr(self, name) for name in _NOT_NEGATIVE]
        return own + self.point.expressions() + self.plane.expressions()
