"""Motion of all bodies from positions, rates and accelerations of the joints, and what it takes: linear in the bodies.

From the roots outwards each body's angular velocity ω, its ω̇ and the acceleration of its centre of mass follow from
those of the body before and from the joint's own motion; from the leaves inwards forces and moments add up, and their
part along a joint's rates is what acts there (recursive Newton–Euler; Featherstone, *Rigid Body Dynamics Algorithms*,
chapter 5). Everything is in each body's own axes, and the ground accelerates by −g instead of gravity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.hidden import Wheel
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import split
from spookid.mechanics.model import Model
from spookid.parameter import Parameter, parameters_in, stacked, substitute
from spookid.records import dataclass

Wrench = tuple[ca.SX, ca.SX]
"""Force (3,) and torque about the centre of mass (3,), or such impulses, in the axes of a body."""


@dataclass(frozen=True, eq=False)
class _Crossing:
    """From the frame of a joint on the inner body to its frame on the outer one."""

    joint: Joint
    inner: Frame
    outer: Frame
    away: ca.SX  # origin of the outer frame in the inner one, (3,)
    axes: ca.SX  # axes of the outer frame in the inner one, columns of (3, 3)
    moving: ca.SX
    """Velocity of that origin in the inner frame, and angular velocity of the outer frame against the inner one in its
    own axes, (6,)."""
    quickening: ca.SX  # its time derivative, (6,)
    slopes: ca.SX  # how it follows the joint's rates, (6, n)

    def along(self, force: ca.SX, moment: ca.SX) -> ca.SX:
        """Virtual work of a force (inner axes) and a moment about the origin (outer axes) for unit velocities, (n,)."""
        return self.slopes.T @ ca.vertcat(force, moment)


@dataclass(frozen=True, eq=False)
class Turning:
    """Angular velocity and acceleration of one body, each (3,) in the body's axes."""

    omega: ca.SX
    alpha: ca.SX
    acceleration: ca.SX  # of its centre of mass, less gravity

    def at(self, point: ca.SX) -> ca.SX:
        """Acceleration of a point on the body minus gravity."""
        return self.acceleration + _lever(self, point)


@dataclass(frozen=True, eq=False)
class Recursion:
    """Forward kinematics of all bodies of a model, for a given motion of tree joints and free bodies."""

    joints: JointCoordinates
    x: ca.SX
    s: ca.SX
    a: ca.SX

    @cached_property
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""
        return self.joints.configuration(self.x)

    @cached_property
    def v(self) -> ca.SX:
        """Velocities of all bodies, (6 n_b,)."""
        x = ca.SX.sym("x", self.x.numel())
        flow = ca.jtimes(self.joints.configuration(x), x, ca.densify(self.joints.manifold.basis(x) @ self.s))
        moved = ca.substitute(flow, x, ca.densify(self.x))
        bodies = enumerate(self.joints.model.bodies)
        return ca.vertcat(*(ca.vertcat(moved[7 * i : 7 * i + 3], self.bodies[body].omega) for i, body in bodies))

    @cached_property
    def accelerations(self) -> ca.SX:
        """Accelerations of all bodies, (6 n_b,): linear in the world, angular in the body's frame."""
        gravity, found = self.joints.model.gravity, []
        for body in self.joints.model.bodies:
            turning = self.bodies[body]
            found += [self.axes[body] @ turning.acceleration + gravity, turning.alpha]
        return ca.vertcat(*found)

    @cached_property
    def positions(self) -> ca.SX:
        """Coordinates of all joints in the model's order, (n_s,); coordinates of tree joints may exceed a turn."""
        found, start = {}, 0
        for joint in self.joints.tree:
            size = joint.manifold.ambient
            found[joint] = joint.manifold.difference(self.x[start : start + size, 0], joint.manifold.zero)
            start += size
        model = self.joints.model
        found |= {joint: model.joint(joint, self.q).displacement for joint in self.joints.cut}
        return stacked(found[joint] for joint in model.joints)

    @cached_property
    def rates(self) -> ca.SX:
        """Of all joints, (n_s,)."""
        return self._of_joints(self.s, self.v if self.joints.cut else None)

    @cached_property
    def rate_changes(self) -> ca.SX:
        """Accelerations along the coordinates of all joints, (n_s,)."""
        return self._of_joints(self.a, self.accelerations if self.joints.cut else None)

    def _of_joints(self, own: ca.SX, of_bodies: ca.SX | None) -> ca.SX:
        """Of the joints of the tree what is given; of those that close loops the rates of velocities of bodies."""
        model, joints = self.joints.model, self.joints
        found = {
            joint: own[joints.start(joint) : joints.start(joint) + len(joint.coordinates), 0] for joint in joints.tree
        }
        if of_bodies is not None:
            found |= {joint: model.joint(joint, self.q, of_bodies).rates for joint in joints.cut}
        return stacked(found[joint] for joint in model.joints)

    @cached_property
    def axes(self) -> dict[Body, ca.SX]:
        """Axes of each body in the world, columns of (3, 3)."""
        return {
            body: rotations.unit_matrix(self.joints.model.pose(body, self.q)[1]) for body in self.joints.model.bodies
        }

    @cached_property
    def bodies(self) -> dict[Body, Turning]:
        """How each body moves."""
        still = ca.SX(3, 1)
        found = {GROUND: Turning(still, still, -self.joints.model.gravity)}
        start = self.s.numel() - 6 * len(self.joints.roots)
        for i, body in enumerate(self.joints.roots):
            s, a = (part[start + 6 * i : start + 6 * i + 6] for part in (self.s, self.a))
            linear = self.axes[body].T @ (a[:3] - self.joints.model.gravity)
            found[body] = Turning(s[3:], a[3:], linear)
        for crossing in self._crossings:
            found[crossing.outer.body] = _beyond(crossing, found[crossing.inner.body])
        return found

    @cached_property
    def needed(self) -> dict[Body, Wrench]:
        """Force and torque that accelerate each body against inertia and gravity: m a, and J ω̇ + ω × Jω."""
        found = {}
        for body in self.joints.model.bodies:
            turning = self.bodies[body]
            spun = ca.cross(turning.omega, body.inertia @ turning.omega)
            found[body] = body.mass * turning.acceleration, body.inertia @ turning.alpha + spun
        return found

    def less(self, wrenches: Mapping[Body, Wrench], given: ca.SX) -> dict[Body, Wrench]:
        """Subtract given forces in the world and torques in the body, (6 n_b,), from the wrenches."""
        found = dict(wrenches)
        for i, body in enumerate(self.joints.model.bodies):
            force, torque = given[6 * i : 6 * i + 3], given[6 * i + 3 : 6 * i + 6]
            found[body] = found[body][0] - self.axes[body].T @ force, found[body][1] - torque
        return found

    def in_world(self, wrenches: Mapping[Body, Wrench]) -> ca.SX:
        """Convert wrenches to forces in the world and torques in the body axes of all bodies, (6 n_b,)."""
        parts = ((self.axes[b] @ wrenches[b][0], wrenches[b][1]) for b in self.joints.model.bodies)
        return ca.vertcat(*(part for pair in parts for part in pair))

    def along(self, wrenches: Mapping[Body, Wrench]) -> ca.SX:
        """Virtual work of wrenches for unit velocities of tree joints, then force (world) and torque on free bodies,
        (n,)."""
        total, rows = dict(wrenches), {}
        for crossing in reversed(self._crossings):
            inner, outer = crossing.inner, crossing.outer
            force, torque = total[outer.body]
            own = outer.axes.T @ force
            moment = outer.axes.T @ (torque - ca.cross(outer.at, force))
            handed = crossing.axes @ own
            rows[crossing.joint] = crossing.along(handed, moment)
            if inner.body is not GROUND:
                turned = inner.axes @ (crossing.axes @ moment + ca.cross(crossing.away, handed))
                handed = inner.axes @ handed
                before = total[inner.body]
                total[inner.body] = before[0] + handed, before[1] + turned + ca.cross(inner.at, handed)
        free = (part for b in self.joints.roots for part in (self.axes[b] @ total[b][0], total[b][1]))
        return ca.densify(stacked([*(rows[joint] for joint in self.joints.tree), *free]))

    @cached_property
    def _crossings(self) -> list[_Crossing]:
        joints = self.joints
        own = [len(joint.coordinates) for joint in joints.tree]
        free = [6] * len(joints.roots)
        positions = split(self.x, [*(joint.manifold.ambient for joint in joints.tree), *([7] * len(free))])
        rates, accelerations = (split(part, [*own, *free]) for part in (self.s, self.a))
        order = joints.order()
        return [_crossing(*one, x, s, a) for one, x, s, a in zip(order, positions, rates, accelerations, strict=False)]


def _crossing(joint: Joint, _: Body, outer: Body, position: ca.SX, rate: ca.SX, acceleration: ca.SX) -> _Crossing:
    p, s = ca.SX.sym("p", joint.manifold.ambient), ca.SX.sym("s", len(joint.coordinates))
    (away, turn), (drift, omega) = joint.transform(p), joint.motion(p, s)
    axes = rotations.unit_matrix(turn)
    frames = joint.parent, joint.child
    if outer is not joint.child.body:
        frames = joint.child, joint.parent
        away, drift = -(axes.T @ away), ca.cross(omega, axes.T @ away) - axes.T @ drift
        axes, omega = axes.T, -(axes @ omega)
    moving = ca.vertcat(drift, omega)
    parts = [away, axes, moving, ca.SX(6, 1), ca.jacobian(moving, s)]
    if joint.coordinates:
        flow = ca.densify(joint.manifold.basis(p) @ s)
        parts[3] = ca.sparsify(ca.jtimes(moving, p, flow) + ca.jtimes(moving, s, acceleration))
        parts = ca.substitute(parts, [p, s], [position, rate])
    away, axes, moving, quickening, slopes = parts
    return _Crossing(joint, *frames, away, axes, moving, quickening, slopes)


def _beyond(crossing: _Crossing, before: Turning) -> Turning:
    """The motion of the outer body from that of the inner one."""
    inner, outer = crossing.inner, crossing.outer
    drift, omega = ca.vertsplit(crossing.moving, [0, 3, 6])
    faster, turning = ca.vertsplit(crossing.quickening, [0, 3, 6])
    spin, spinning, pulled = (inner.axes.T @ part for part in (before.omega, before.alpha, before.at(inner.at)))
    carried = crossing.axes.T @ spin
    away = crossing.away
    origin = pulled + ca.cross(spinning, away) + ca.cross(spin, ca.cross(spin, away)) + 2 * ca.cross(spin, drift)
    found = Turning(
        outer.axes @ (carried + omega),
        outer.axes @ (crossing.axes.T @ spinning + turning + ca.cross(carried, omega)),
        outer.axes @ (crossing.axes.T @ (origin + faster)),
    )
    return Turning(found.omega, found.alpha, found.acceleration - _lever(found, outer.at))


def _lever(turning: Turning, arm: ca.SX) -> ca.SX:
    """ω̇ × r + ω × (ω × r), (3,)."""
    return ca.cross(turning.alpha, arm) + ca.cross(turning.omega, ca.cross(turning.omega, arm))


Values = Mapping[str, float]  # number of every parameter of the model, by name


def rest_positions(model: Model, values: Values) -> Array:
    """Rest positions of the springs of each joint coordinate, (n_s,) [rad or m]."""
    rest = [ca.SX.zeros(len(joint.coordinates)) + joint.rest for joint in model.joints]
    return substitute(stacked(rest), values)


def place(model: Model, displacements: Array, values: Values) -> Array:
    """Compute poses from joint coordinates; all constraints of the tree are satisfied."""
    return _conversions(model)[0](displacements, values)


@lru_cache(maxsize=8)
def _conversions(model: Model) -> tuple[_ByRows, _ByRows]:
    """From coordinates of all joints to poses, and back."""
    given, q = ca.SX.sym("displacements", len(model.freedoms)), ca.SX.sym("q", model.configuration.ambient)
    return _ByRows.of(JointCoordinates(model).posed(given), given), _ByRows.of(model.displacements(q), q)


@cache
def _turn() -> Kernel:
    """From one quaternion to another, by its rotation vector."""
    e0, e1 = ca.SX.sym("e0", 4), ca.SX.sym("e1", 4)
    return Kernel(ca.Function("turn", [e0, e1], [ca.densify(rotations.difference(e1, e0))]), 2)


def velocities(poses: Array, step: float) -> Array:
    """Velocities v_{k+1} = (q_{k+1} ⊟ q_k)/h with the exact logarithm, v_0 = v_1; (N, 7 n_b) to (N, 6 n_b) (4.3)."""
    columns = []
    for pose in np.split(poses, poses.shape[1] // 7, axis=1):
        e = contiguous(pose[:, 3:] / np.linalg.norm(pose[:, 3:], axis=1, keepdims=True))
        turned = _turn()([e[:-1], e[1:]], [], np.empty((len(e) - 1, 3)))
        columns += [np.diff(pose[:, :3], axis=0), turned]
    moved = np.hstack(columns) / step
    return np.vstack([moved[:1], moved])


def central(poses: Array, step: float) -> Array:
    """Velocities at each pose: means of both sides, extrapolated at the ends; (N, 7 n_b) to (N, 6 n_b)."""
    sides = velocities(np.ascontiguousarray(poses), step)[1:]
    middle = (sides[1:] + sides[:-1]) / 2
    first, last = 1.5 * sides[:1] - 0.5 * sides[1:2], 1.5 * sides[-1:] - 0.5 * sides[-2:-1]
    return np.vstack([first, middle, last])


def displacements(model: Model, poses: Array, values: Values) -> Array:
    """Coordinates of all joints along a motion, with hinge angles in (−π, π], (N, 7 n_b) to (N, n_s)."""
    return _conversions(model)[1](poses, values)


def unwrapped(model: Model, displacements: Array) -> Array:
    """Coordinates (N, n_s) with periodic coordinates made continuous in time."""
    columns = displacements.copy()
    for i, freedom in enumerate(model.freedoms):
        period = math.tau if isinstance(freedom.joint, Wheel) else freedom.coordinate.period
        if period is not None:
            columns[:, i] = np.unwrap(columns[:, i], period=period)
    return columns


def evaluated(expression: ca.SX, symbol: ca.SX, rows: Array, values: Values) -> Array:
    """Evaluate an expression of ``symbol`` for each row of numbers, (N, n)."""
    return _ByRows.of(expression, symbol)(rows, values)


@dataclass(frozen=True, eq=False)
class _ByRows:
    """An expression that is evaluated at each row of numbers."""

    kernel: Kernel
    columns: int
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, expression: ca.SX, symbol: ca.SX) -> _ByRows:
        """For numbers of a symbol."""
        parameters = parameters_in([expression], "the model", ignore=[symbol])
        function = ca.Function("rows", [symbol, ca.vertcat(*parameters)], [ca.densify(expression)])
        return cls(Kernel(function, 1), expression.numel(), tuple(parameters))

    def __call__(self, rows: Array, values: Values) -> Array:
        """Its values, (N, n)."""
        out = np.empty((len(rows), self.columns))
        numbers = contiguous([values[p.name] for p in self.parameters])
        return self.kernel([contiguous(rows)], [numbers], out) if out.size else out
