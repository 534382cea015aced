"""Rigid bodies and the frames on them."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.coefficients import guessed, guessed_all
from spookid.mechanics.inertia import FullInertia, inertia_matrix
from spookid.parameter import is_constant, symbolic
from spookid.records import dataclass

PERPENDICULAR = 1e-6
"""Largest cosine between the x and the y axis of a frame that is taken for a right angle."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A coordinate frame fixed to a body, or to the ground."""

    body: Body
    """The body it is fixed to, or ``GROUND``."""
    at: ca.SX
    """Origin from the body's centre of mass, along the body's axes, (3,) [m]."""
    axes: ca.SX
    """Columns x, y, z in the body's frame, (3, 3)."""

    def __repr__(self) -> str:
        return f"<Frame of {self.body.name}>"

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.at, self.axes]


@dataclass(frozen=True, eq=False)
class Body(metaclass=Checked):
    """A rigid body; its origin is its centre of mass, unless its inertia says where that is.

    A state holds the position of the centre of mass and the orientation of the body's axes.

    Args:
        name: for results and messages.
        mass: [kg], a number or an expression of Parameters; left out if ``inertia`` says it.
        inertia: principal moments (3,) about the centre of mass along the body's axes, I_xx, I_yy, I_zz, I_xy, I_xz,
            I_yz, or a symmetric 3x3 [kg m²]; or a ``FullInertia``, ``LogCholesky``, ``ExponentialEigenvalue`` or
            ``PointMasses``, which have mass and centre of mass too.
        free: True if no joint holds it.

    Raises:
        ProblemError: for a fixed mass or moment that is not positive, another shape of the inertia, no mass or two.
    """

    name: str
    mass: Any = None
    inertia: Any = None
    free: bool = False
    place: str = field(default_factory=declared_at, repr=False)
    distribution: FullInertia | None = field(init=False, default=None, repr=False)
    """What ``inertia`` was declared as if that has the mass too."""

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise ProblemError(f"{self.place}: a Body's name is {shown(self.name)}; give a text")
        what = f"{self.place}: Body {self.name!r}"
        given = self.inertia
        if isinstance(given, FullInertia):
            if self.mass is not None:
                raise ProblemError(f"{what} has a mass beside that of its {type(given).__name__}; leave it out")
            object.__setattr__(self, "distribution", given)
            object.__setattr__(self, "mass", given.mass)
            given = given.inertia
        elif self.mass is None or given is None:
            raise ProblemError(f"{what} needs a mass and an inertia; give both, or a FullInertia")
        mass = symbolic(self.mass, f"{what}: mass")
        inertia = inertia_matrix(given, f"{what}: inertia")
        number, where = guessed(mass)
        if number <= 0:
            raise ProblemError(f"{what} has mass {number:g} kg{where}; a mass must be positive")
        for i in range(3):
            number, where = guessed(inertia[i, i])
            if number <= 0:
                raise ProblemError(f"{what} has moment of inertia {number:g} kg m²{where}; it must be positive")
        numbers, where = guessed_all(inertia)
        if np.isfinite(numbers).all() and np.min(np.linalg.eigvalsh(numbers)) <= 0:
            raise ProblemError(
                f"{what} has an inertia that is not positive definite{where}; correct its moments and products"
            )
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "inertia", inertia)

    def __repr__(self) -> str:
        return f"<Body {self.name!r}>"

    def frame(self, *, at: Any = (0, 0, 0), x: Any = (1, 0, 0), y: Any = (0, 1, 0)) -> Frame:
        """A frame on this body, given by its origin and the directions of its x and y axes.

        Args:
            at: origin (3,) [m] in the body's frame: from its centre of mass, unless its inertia says where that is.
            x: direction of the x axis (3,), of any length; a hinge turns about it.
            y: direction of the y axis (3,), perpendicular to x; it is where a hinge's angle is zero.

        Raises:
            ProblemError: for an axis of length zero, or axes that are not perpendicular.
        """
        what = f"{declared_at()}: frame on {self.name!r}"
        origin, x, y = (symbolic(value, f"{what}: {n}", (3,)) for value, n in ((at, "at"), (x, "x"), (y, "y")))
        for axis, name in ((x, "x"), (y, "y")):
            if is_constant(axis) and not float(ca.norm_2(axis)) > 0:
                raise ProblemError(f"{what} has an axis {name} of length zero; give a direction")
        x, y = x / ca.norm_2(x), y / ca.norm_2(y)
        cosine = ca.dot(x, y)
        if is_constant(cosine) and abs(float(cosine)) > PERPENDICULAR:
            raise ProblemError(f"{what} has x and y axes that are not perpendicular; x . y must be 0")
        y = y - cosine * x
        y = y / ca.norm_2(y)
        if self.distribution is not None:
            origin = origin - self.distribution.center_of_mass
        return Frame(self, origin, ca.horzcat(x, y, ca.cross(x, y)))

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        beside = [] if self.distribution is None else self.distribution.expressions()
        return [self.mass, self.inertia, *beside]


GROUND = Body("GROUND", mass=1, inertia=(1, 1, 1))
"""The inertial frame. It does not move; its mass and inertia take no part in anything."""
