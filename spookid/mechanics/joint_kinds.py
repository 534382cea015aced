"""Kinds of joints beside the hinge; frames a and b are the parent's and the child's, x the axis of those with one.

A turn of frame b by φ about its x axis, which lies along that of a, has y_b = cos φ y_a + sin φ z_a.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import casadi as ca

from spookid.errors import ProblemError
from spookid.mechanics import rotations
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import QUATERNION, Manifold
from spookid.mechanics.moving import MovingFrame, angle_about_x
from spookid.parameter import is_zero, symbolic
from spookid.records import dataclass


class _Sliding(Joint):
    """A joint whose child slides along axes of the parent, and may turn about their common x axis.

    Its rows are where the child's origin is along the parent's other axes, x of the parent along y and z of the child,
    and y of the parent along z of the child unless it turns. Its coordinates are the position of the child's origin
    along the parent's axes [m], then the angle about x in (−π, π] [rad].
    """

    along: ClassVar[tuple[int, ...]]
    """Axes of the parent along which it slides."""

    @property
    def _turns(self) -> bool:
        return len(self.coordinates) > len(self.along)

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        apart = _apart(a, b)
        across = (apart[i] for i in range(3) if i not in self.along)
        return ca.vertcat(*across, _tilted(a, b), *([] if self._turns else [ca.dot(a.y, b.z)]))

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        apart = _apart(a, b)
        return ca.vertcat(*(apart[i] for i in self.along), *([angle_about_x(a, b)] if self._turns else []))

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        return self._moved(position), _turned(position[-1]) if self._turns else ca.SX([1, 0, 0, 0])

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        return self._moved(rates), ca.vertcat(rates[-1], 0, 0) if self._turns else ca.SX(3, 1)

    def _moved(self, given: ca.SX) -> ca.SX:
        """Along the axes, (3,)."""
        return ca.vertcat(*(given[self.along.index(i)] if i in self.along else 0 for i in range(3)))


@dataclass(frozen=True, eq=False, repr=False)
class Prismatic(_Sliding):
    """Slider joint: translation along the x axes of two frames, without rotation.

    Its position is that of the child's origin along the parent's x [m]. Its arguments are those of every ``Joint``.
    """

    coordinates, along = (Coordinate("position", "m"),), (0,)
    linear, angular = ("y", "z"), ("xy", "xz", "yz")


@dataclass(frozen=True, eq=False, repr=False)
class Cylindrical(_Sliding):
    """Cylindrical joint, a rod in a sleeve: translation along and rotation about the x axes of two frames.

    Its coordinates are the position of the child's origin along the parent's x [m], and its angle about x [rad].

    >>> sleeve = Cylindrical("sleeve", GROUND.frame(), arm.frame(), viscous=(2.0, 0.1))  # along x, about x
    """

    coordinates, along = (Coordinate("position", "m"), Coordinate("angle", "rad", math.tau)), (0,)
    linear, angular = ("y", "z"), ("xy", "xz")


@dataclass(frozen=True, eq=False, repr=False)
class Planar(_Sliding):
    """Planar joint, a puck on a table: the child's origin moves in the parent's y-z plane and rotates about its x axis.

    Its coordinates are the position along y and z of the parent [m], and the angle about x [rad].

    >>> puck = Planar("puck", GROUND.frame(), arm.frame())
    """

    coordinates, along = (Coordinate("y", "m"), Coordinate("z", "m"), Coordinate("angle", "rad", math.tau)), (1, 2)
    linear, angular = ("x",), ("xy", "xz")


@dataclass(frozen=True, eq=False, repr=False)
class PinInSlot(_Sliding):
    """Pin in a straight slot: the child's origin moves along the parent's y axis and rotates about its x axis.

    Its coordinates are the position along y of the parent [m], and the angle about x [rad].

    >>> pin = PinInSlot("pin", GROUND.frame(), arm.frame(at=(0.1, 0, 0)))
    """

    coordinates, along = (Coordinate("position", "m"), Coordinate("angle", "rad", math.tau)), (1,)
    linear, angular = ("x", "z"), ("xy", "xz")


@dataclass(frozen=True, eq=False, repr=False)
class Screw(Joint):
    """Screw joint: rotation about the x axes of two frames, with ``pitch`` metres of translation along x per radian.

    Its one coordinate is the angle [rad]. The position along x counts its turns.

    >>> spindle = Screw("spindle", GROUND.frame(), arm.frame(), pitch=0.005 / (2 * np.pi))  # 5 mm a turn

    Raises:
        ProblemError: for a pitch of zero, and as of ``Joint``.
    """

    coordinates = (Coordinate("angle", "rad", math.tau, counts_turns=True),)
    linear, angular = ("x", "y", "z"), ("xy", "xz")

    pitch: Any = None
    """p [m/rad], the lead of a turn over 2π; negative of a left-handed screw."""

    def __post_init__(self, dry: Any) -> None:
        what = f"{self.place}: {self.kind} {self.name!r}"
        if self.pitch is None:
            raise ProblemError(f"{what} has no pitch; give the metres that it moves for each radian")
        object.__setattr__(self, "pitch", symbolic(self.pitch, f"{what}: pitch"))
        if is_zero(self.pitch):
            raise ProblemError(f"{what} has pitch 0; use a Hinge")
        super().__post_init__(dry)

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Screw residual: position minus pitch times angle, modulo a turn, then the equations of a hinge, (5,)."""
        apart = _apart(a, b)
        return ca.vertcat(
            self.pitch * rotations.wrapped(apart[0] / self.pitch - angle_about_x(a, b)), apart[1:], _tilted(a, b)
        )

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Angle of the screw nearest to the angle that follows from the position along x."""
        moved = _apart(a, b)[0] / self.pitch
        return moved + rotations.wrapped(angle_about_x(a, b) - moved)

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.vertcat(self.pitch * position, 0, 0), _turned(position)

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.vertcat(self.pitch * rates, 0, 0), ca.vertcat(rates, 0, 0)

    def expressions(self) -> list[ca.SX]:
        return [*super().expressions(), self.pitch]


@dataclass(frozen=True, eq=False, repr=False)
class Universal(Joint):
    """Universal joint, a cross with two pins: rotation about x of the first frame, then about y of the second.

    Its coordinates are both angles [rad]; where they are zero the frames agree.

    >>> cross = Universal("cross", GROUND.frame(), arm.frame(), viscous=(0.01, 0.02))
    """

    coordinates = (Coordinate("angle x", "rad", math.tau), Coordinate("angle y", "rad", math.tau))
    linear, angular = ("x", "y", "z"), ("xy",)

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Distance of the origins, and component of the parent's x axis along the child's y axis, (4,)."""
        return ca.vertcat(a.origin - b.origin, ca.dot(a.x, b.y))

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return ca.vertcat(angle_about_x(a, b), ca.atan2(ca.dot(a.x, b.z), ca.dot(a.x, b.x)))

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), _turned(position[0], position[1])

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Angular velocity about x of the first frame, in axes of the second, plus that about y of the second."""
        return ca.SX(3, 1), ca.vertcat(ca.cos(position[1]) * rates[0], rates[1], ca.sin(position[1]) * rates[0])


@dataclass(frozen=True, eq=False, repr=False)
class Spherical(Joint):
    """Ball joint: rotation about every axis.

    Its coordinates are the rotation vector ψ from the parent's axes to the child's [rad], its rates the angular
    velocity of the child against the parent in the child's axes, and what acts along them is a torque in these axes. A
    spring acts along ψ, which is that of its potential energy if its stiffness is one number and its rest zero.

    >>> ball = Spherical("ball", GROUND.frame(), arm.frame(at=(0, 0, 0.1)), viscous=0.01)
    """

    coordinates = (Coordinate("x", "rad"), Coordinate("y", "rad"), Coordinate("z", "rad"))
    linear = ("x", "y", "z")

    @property
    def manifold(self) -> Manifold:
        return QUATERNION

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Distance of the origins, (3,)."""
        return a.origin - b.origin

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return b.orientation_in(a)

    def rates(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return b.frame.axes.T @ b.omega - b.axes.T @ (a.axes @ (a.frame.axes.T @ a.omega))

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), position

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), rates


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Joint):
    """Rigid connection of two bodies. It has no coordinate, and deflects only with its compliance.

    >>> bracket = Fixed("bracket", GROUND.frame(), arm.frame(), compliance=1e-6)
    """

    coordinates = ()
    linear, angular = ("x", "y", "z"), ("xy", "xz", "yz")

    def violation(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        """Distance of the origins and relative rotation of the frames, (6,)."""
        return ca.vertcat(a.origin - b.origin, _tilted(a, b), ca.dot(a.y, b.z))

    def position(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return ca.SX(0, 1)

    def rates(self, a: MovingFrame, b: MovingFrame) -> ca.SX:
        return ca.SX(0, 1)

    def transform(self, position: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), ca.SX([1, 0, 0, 0])

    def motion(self, position: ca.SX, rates: ca.SX) -> tuple[ca.SX, ca.SX]:
        return ca.SX(3, 1), ca.SX(3, 1)


def _apart(a: MovingFrame, b: MovingFrame) -> ca.SX:
    """Origin of b in a, (3,) [m]."""
    return a.axes.T @ (b.origin - a.origin)


def _tilted(a: MovingFrame, b: MovingFrame) -> ca.SX:
    """x of a along y and z of b, (2,): zero where the x axes agree."""
    return ca.vertcat(ca.dot(a.x, b.y), ca.dot(a.x, b.z))


def _turned(about_x: ca.SX, about_y: ca.SX | None = None) -> ca.SX:
    """Quaternion of a turn about x, then one about the new y, (4,)."""
    c, s = ca.cos(about_x / 2), ca.sin(about_x / 2)
    if about_y is None:
        return ca.vertcat(c, s, 0, 0)
    c_y, s_y = ca.cos(about_y / 2), ca.sin(about_y / 2)
    return ca.vertcat(c * c_y, s * c_y, c * s_y, s * s_y)
