"""Frames in the world, on bodies that move, and how expressions of them change with that motion.

What a user writes of a joint must fit together: its transform leads to where its rows and its position say it is,
and rows and coordinates together see every motion of its frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, evaluating
from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.parameter import parameters_in, stacked, substitute
from spookid.records import dataclass

if TYPE_CHECKING:
    from spookid.mechanics.joints import Joint


@dataclass(frozen=True, eq=False)
class MovingFrame:
    """Motion of a body's frame in the world at a symbolic state, as CasADi expressions."""

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
        """True if the frame is on the ground."""
        return self.frame.body is GROUND

    @cached_property
    def body_axes(self) -> ca.SX:
        """Axes of the frame's body in the world, columns of (3, 3)."""
        return ca.SX.eye(3) if self.is_fixed else rotations.matrix(self.attitude)

    @cached_property
    def origin(self) -> ca.SX:
        """(3,) [m]."""
        return self.frame.at if self.is_fixed else self.center + self.body_axes @ self.frame.at

    @cached_property
    def axes(self) -> ca.SX:
        """Axes of the frame in the world, columns x, y, z of (3, 3)."""
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
        """Unit quaternion of the rotation from frame ``other`` to this frame, in the axes of ``other``, (4,)."""
        return rotations.multiply(rotations.conjugate(other.orientation), self.orientation)

    @cached_property
    def velocity(self) -> ca.SX:
        """Velocity of the origin in the world, (3,) [m/s]."""
        return self.drift + self.body_axes @ ca.cross(self.omega, self.frame.at)

    def carried(self, force: ca.SX, torque: ca.SX) -> ca.SX:
        """Convert a force at the origin and a torque, both in the world, to body twist coordinates, (6,)."""
        inside = self.body_axes.T @ force
        return ca.vertcat(force, self.body_axes.T @ torque + ca.cross(self.frame.at, inside))

    @cached_property
    def pose(self) -> ca.SX:
        """Of its body, (7,)."""
        return ca.vertcat(self.center, self.attitude)

    @cached_property
    def twist(self) -> ca.SX:
        """Velocity of the frame's body, (6,): linear in the world, angular in the body's frame."""
        return ca.vertcat(self.drift, self.omega)

    @cached_property
    def basis(self) -> ca.SX:
        """Matrix from the body's twist to the time derivative of its pose, (7, 6)."""
        return ca.diagcat(ca.SX.eye(3), rotations.tangent(self.attitude))

    def in_symbols(self) -> MovingFrame:
        """Same frame on a body with new state symbols; unchanged if the frame is on the ground."""
        if self.is_fixed:
            return self
        sizes = {"center": 3, "attitude": 4, "drift": 3, "omega": 3}
        return MovingFrame(self.frame, *(ca.SX.sym(name, size) for name, size in sizes.items()))


@dataclass(frozen=True, eq=False)
class JointState:
    """One joint in one state."""

    joint: Joint
    parent: MovingFrame
    child: MovingFrame

    @property
    def violation(self) -> ca.SX:
        """g, (rows,)."""
        return self.joint.violation(self.parent, self.child)

    @property
    def displacement(self) -> ca.SX:
        """Coordinates of a joint, (n,); angles in (−π, π] [rad or m]."""
        return self.joint.displacement(self.parent, self.child)

    @property
    def rates(self) -> ca.SX:
        """s, (n,) [rad/s or m/s]."""
        return self.joint.rates(self.parent, self.child)


def anywhere(frame: Frame, i: int) -> MovingFrame:
    """Frame on a body at an example numerical state that differs for every i; frames on the ground stay fixed."""
    if frame.body is GROUND:
        return MovingFrame.grounded(frame)
    numbers = np.sin(np.arange(1, 14) * (i + 1.3))
    numbers[3:7] /= np.linalg.norm(numbers[3:7])
    return MovingFrame(frame, *(ca.SX(ca.DM(part)) for part in np.split(numbers, [3, 7, 10])))


def angle_about_x(a: MovingFrame, b: MovingFrame) -> ca.SX:
    """Angle about the x axis from y of frame a to y of frame b, in (−π, π]."""
    return ca.atan2(ca.dot(a.z, b.y), ca.dot(a.y, b.y))


def rate(expression: ca.SX, frames: Sequence[MovingFrame]) -> ca.SX:
    """Time derivative of an expression of symbolic frames (``in_symbols``)."""
    moving = [frame for frame in frames if not frame.is_fixed]
    poses = stacked(frame.pose for frame in moving)
    flow = stacked(frame.basis @ frame.twist for frame in moving)
    return ca.jtimes(expression, poses, ca.densify(flow))


def inserted(expression: ca.SX, symbols: Sequence[MovingFrame], frames: Sequence[MovingFrame]) -> ca.SX:
    """Replace symbolic frames in an expression by other frames."""
    pairs = [(s, f) for s, f in zip(symbols, frames, strict=True) if not s.is_fixed]
    old = [part for s, _ in pairs for part in (s.pose, s.twist)]
    new = [ca.densify(part) for _, f in pairs for part in (f.pose, f.twist)]
    return ca.substitute([expression], old, new)[0]


def check_joint(joint: Joint, what: str) -> None:
    """Raise ProblemError for a joint whose methods fail, return wrong sizes, or contradict each other."""
    there, still = _there(joint), ca.SX(3, 1)
    with evaluating(f"{what}: transform"):
        found: Any = joint.transform(ca.SX(ca.DM(there)))
        parts = [_number(part) for part in found] if isinstance(found, (tuple, list)) else []
    if [part.size for part in parts] != [3, 4]:
        raise ProblemError(f"{what}: transform must return a pair, an origin (3,) and a unit quaternion (4,)")
    if abs((length := float(np.linalg.norm(parts[1]))) - 1) > HALF_DIGITS:
        raise ProblemError(f"{what}: transform returns a quaternion of length {length:.3g}; its length must be 1")
    origin, turn = (ca.SX(ca.DM(part)) for part in parts)
    body = Body("there", mass=1, inertia=(1, 1, 1))  # whatever the joint holds
    b = MovingFrame(Frame(body, still, ca.SX.eye(3)), origin, turn, still, still)
    a = MovingFrame.grounded(Frame(GROUND, still, ca.SX.eye(3)))
    with evaluating(what):
        violation, position = (_number(part) for part in (joint.violation(a, b), joint.position(a, b)))
    for name, found, wanted in (("violation", violation, joint.rows), ("position", position, joint.manifold.ambient)):
        if found.size != wanted:
            raise ProblemError(f"{what}: {name} has {found.size} values; it needs {wanted}")
    if np.max(np.abs(violation), initial=0.0) > HALF_DIGITS:
        raise ProblemError(
            f"{what}: where its transform leads, its violation is {np.max(np.abs(violation)):.3g}, not 0"
            "; correct what the joint's transform or its violation returns"
        )
    # A quaternion and its negative are one rotation.
    signs = (1.0, -1.0) if any(kind == "rotation" for kind, _ in joint.manifold.parts) else (1.0,)
    if min(np.max(np.abs(position - sign * there), initial=0.0) for sign in signs) > HALF_DIGITS:
        raise ProblemError(
            f"{what}: its transform of the position {there} leads to the position {position}"
            "; correct what the joint's transform or its displacement returns"
        )
    with evaluating(what):
        seen = _seen(joint, a, b)
    left, sizes, _ = np.linalg.svd(seen)
    if sizes[-1] > HALF_DIGITS:
        return
    rows = (f"row {name!r}" for name in (*joint.linear, *joint.angular))
    names = [*rows, *(f"coordinate {coordinate.name!r}" for coordinate in joint.coordinates)]
    weights = np.abs(left[:, sizes <= HALF_DIGITS][:, 0])
    same = [name for name, weight in zip(names, weights, strict=True) if weight > np.sqrt(HALF_DIGITS)]
    changed = "changes with no motion" if len(same) == 1 else "change with the same motions"
    raise ProblemError(
        f"{what}: {' and '.join(same)} {changed}; rows and coordinates must be of six motions that differ"
    )


def written(joint: Joint) -> list[ca.SX]:
    """Results of a joint's methods at a numerical state; these are all expressions that may contain a Parameter."""
    a, b, there = anywhere(joint.parent, 0), anywhere(joint.child, 1), ca.SX(ca.DM(_there(joint)))
    return list(map(ca.SX, (joint.violation(a, b), joint.position(a, b), joint.rates(a, b), *joint.transform(there))))


def _there(joint: Joint) -> Array:
    """A position that is no special one."""
    points = [np.linspace(0.4, 0.2, size) for _, size in joint.manifold.parts]
    return joint.manifold.normed(np.concatenate(points)) if points else np.zeros(0)


def _number(part: Any) -> Array:
    """Values at the initial values of the Parameters in them, (n,)."""
    formula = ca.densify(ca.vec(ca.SX(part)))
    guesses = {p.name: p.guess for p in parameters_in([formula], "the joint")}
    return np.atleast_1d(substitute(formula, guesses)) if formula.numel() else np.zeros(0)


def _seen(joint: Joint, a: MovingFrame, b: MovingFrame) -> Array:
    """What rows and coordinates change with the velocity of frame b, (6, 6), each row of length 1, or 0 of none."""
    moving = b.in_symbols()
    found = ca.densify(inserted(joint.slopes(a, moving, moving), [moving], [b]))
    rows = _number(found).reshape(found.shape, order="F")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > HALF_DIGITS))
