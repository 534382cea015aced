"""Frames in the world, on bodies that move, and how expressions of them change with that motion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Frame
from spookid.parameter import stacked
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class MovingFrame:
    """A frame in the world, on a body in some state; all CasADi expressions."""

    frame: Frame
    center: ca.SX
    """Centre of mass of its body, (3,) [m]."""
    attitude: ca.SX
    """Unit quaternion of its body, (4,)."""
    drift: ca.SX
    """Velocity of the centre of mass in the world, (3,) [m/s]."""
    omega: ca.SX
    """Angular velocity of the body in the body, (3,) [rad/s]."""

    @classmethod
    def grounded(cls, frame: Frame) -> MovingFrame:
        """A frame on the ground."""
        return cls(frame, ca.SX(3, 1), ca.SX([1, 0, 0, 0]), ca.SX(3, 1), ca.SX(3, 1))

    @property
    def is_fixed(self) -> bool:
        """True if it is on the ground."""
        return self.frame.body is GROUND

    @cached_property
    def body_axes(self) -> ca.SX:
        """Axes of its body, columns of (3, 3)."""
        return ca.SX.eye(3) if self.is_fixed else rotations.matrix(self.attitude)

    @cached_property
    def origin(self) -> ca.SX:
        """(3,) [m]."""
        return self.frame.at if self.is_fixed else self.center + self.body_axes @ self.frame.at

    @cached_property
    def axes(self) -> ca.SX:
        """Columns x, y, z, (3, 3)."""
        return self.frame.axes if self.is_fixed else self.body_axes @ self.frame.axes

    @property
    def x(self) -> ca.SX:
        """First axis, (3,)."""
        return self.axes[:, 0]

    @property
    def y(self) -> ca.SX:
        """Second axis, (3,)."""
        return self.axes[:, 1]

    @property
    def z(self) -> ca.SX:
        """Third axis, (3,)."""
        return self.axes[:, 2]

    @cached_property
    def orientation(self) -> ca.SX:
        """Unit quaternion of the frame, (4,)."""
        own = rotations.from_matrix(self.frame.axes)
        return own if self.is_fixed else rotations.multiply(self.attitude, own)

    def orientation_in(self, other: MovingFrame) -> ca.SX:
        """Unit quaternion that turns ``other`` into it, in the axes of ``other``, (4,)."""
        return rotations.multiply(rotations.conjugate(other.orientation), self.orientation)

    @cached_property
    def velocity(self) -> ca.SX:
        """Velocity of the origin in the world, (3,) [m/s]."""
        return self.drift + self.body_axes @ ca.cross(self.omega, self.frame.at)

    def carried(self, force: ca.SX, torque: ca.SX) -> ca.SX:
        """What a force at the origin and a torque, both in the world, are to the body, (6,): by virtual work a force in
        the world, and a torque about the centre of mass in the body."""
        inside = self.body_axes.T @ force
        return ca.vertcat(force, self.body_axes.T @ torque + ca.cross(self.frame.at, inside))

    @cached_property
    def pose(self) -> ca.SX:
        """Of its body, (7,)."""
        return ca.vertcat(self.center, self.attitude)

    @cached_property
    def twist(self) -> ca.SX:
        """Velocity of its body, (6,): in the world, and angular in the body."""
        return ca.vertcat(self.drift, self.omega)

    @cached_property
    def basis(self) -> ca.SX:
        """∂(pose)/∂t = basis twist, (7, 6)."""
        return ca.diagcat(ca.SX.eye(3), rotations.tangent(self.attitude))

    def in_symbols(self) -> MovingFrame:
        """The same frame on a body in a state of fresh symbols; itself if it is on the ground."""
        if self.is_fixed:
            return self
        sizes = {"center": 3, "attitude": 4, "drift": 3, "omega": 3}
        return MovingFrame(self.frame, *(ca.SX.sym(name, size) for name, size in sizes.items()))


def anywhere(frame: Frame, i: int) -> MovingFrame:
    """A frame on a body in a state of numbers, none of them special and others for every i; the ground stays."""
    if frame.body is GROUND:
        return MovingFrame.grounded(frame)
    numbers = np.sin(np.arange(1, 14) * (i + 1.3))
    numbers[3:7] /= np.linalg.norm(numbers[3:7])
    return MovingFrame(frame, *(ca.SX(ca.DM(part)) for part in np.split(numbers, [3, 7, 10])))


def angle_about_x(a: MovingFrame, b: MovingFrame) -> ca.SX:
    """From y of a to y of b, in (−π, π]."""
    return ca.atan2(ca.dot(a.z, b.y), ca.dot(a.y, b.y))


def rate(expression: ca.SX, frames: Sequence[MovingFrame]) -> ca.SX:
    """Time derivative of an expression of frames in symbols (``in_symbols``)."""
    moving = [frame for frame in frames if not frame.is_fixed]
    poses = stacked(frame.pose for frame in moving)
    flow = stacked(frame.basis @ frame.twist for frame in moving)
    return ca.jtimes(expression, poses, ca.densify(flow))


def inserted(expression: ca.SX, symbols: Sequence[MovingFrame], frames: Sequence[MovingFrame]) -> ca.SX:
    """An expression of frames in symbols at other frames."""
    pairs = [(s, f) for s, f in zip(symbols, frames, strict=True) if not s.is_fixed]
    old = [part for s, _ in pairs for part in (s.pose, s.twist)]
    new = [ca.densify(part) for _, f in pairs for part in (f.pose, f.twist)]
    return ca.substitute([expression], old, new)[0]
