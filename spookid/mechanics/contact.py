"""Contacts that push and rub: a point of one body on a plane of another."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Literal

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import Body, Frame
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass

_NOT_NEGATIVE = ("friction", "restitution", "compliance", "damping")


@dataclass(frozen=True, eq=False)
class Contact(metaclass=Checked):
    """A point that cannot go below a plane, and rubs on it (Marklund et al., 2.21, 2.24).

    The gap is the height of the point above the plane [m], negative where it penetrates; the normal impulse pushes the
    point up and is never negative. Friction acts against the slip of the point over the plane.

    A point that comes down faster than ``threshold``, and would be below the plane at the end of a step, leaves at
    ``restitution`` times its speed (Newton's law), from where it is: the time of an impact is known to a step. What is
    slower, or does not rebound, ends the step on the plane. ``Variational()`` takes contacts as rigid, ``Spook()``
    regularizes them as it does joints: at rest under a force F the point penetrates by compliance times F, and within
    about ``damping`` of touching the approach is braked over a few steps.

    Raises:
        ProblemError: for a negative fixed coefficient, a restitution above 1, a threshold that is no positive speed, a
            cone that is not known, or a contact of a body with itself.
    """

    name: str
    point: Frame
    """A frame whose origin is the point."""
    plane: Frame
    """A frame whose x and y axes span the plane and are its tangents; its z axis is the normal, towards the free side.
    ``GROUND.frame()`` is the floor."""
    friction: Any = 0
    """μ, without unit."""
    restitution: Any = 0
    """e, from 0 to 1: speed along the normal after an impact over that before."""
    cone: Literal["box", "disc"] = "box"
    """Which impulses of friction there may be: along each of the plane's two tangents at most μ times the normal
    impulse, or together (Coulomb's cone)."""
    threshold: float = 0.1
    """Speed along the normal up to which nothing rebounds [m/s]."""
    compliance: Any = 1e-4
    """ε [m/N]."""
    damping: Any = 0.02
    """τ, relaxation time [s]."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Contact {self.name!r}"
        if self.point.body is self.plane.body:
            raise ProblemError(
                f"{what} is of {self.point.body.name!r} with itself; give points and planes of two bodies"
            )
        if not 0 < self.threshold < math.inf:
            raise ProblemError(f"{what}: threshold is {shown(self.threshold)}; give a positive speed in m/s")
        for name in _NOT_NEGATIVE:
            value = symbolic(getattr(self, name), f"{what}: {name}")
            if is_constant(value) and float(value) < 0:
                raise ProblemError(f"{what}: {name} is {float(value):g}; it must not be negative")
            if name == "restitution" and is_constant(value) and float(value) > 1:
                raise ProblemError(f"{what}: restitution is {float(value):g}; an impact cannot add speed, give 0 to 1")
            object.__setattr__(self, name, value)

    @property
    def rebounds(self) -> bool:
        """False if its restitution is zero."""
        return not is_zero(self.restitution)

    @property
    def rubs(self) -> bool:
        """False if its friction is zero."""
        return not is_zero(self.friction)

    def bodies(self) -> tuple[Body, Body]:
        """That of the point and that of the plane."""
        return self.point.body, self.plane.body

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        own = [getattr(self, name) for name in _NOT_NEGATIVE]
        return own + self.point.expressions() + self.plane.expressions()
