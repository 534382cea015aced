"""A state of a mechanism in symbols, and what can be asked of it; the period of an expression of angles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.precision import HALF_DIGITS
from spookid.mechanics import rotations
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.constraints import common_measure
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import parameters_in, stacked
from spookid.records import dataclass


def period_of(predicted: Callable[[State], ca.SX], model: Model, what: str) -> float | None:
    """That of a scalar which jumps by the same wherever an angle turns over, such as a sum of angles times numbers;
    None if it does not jump, or by what depends on the state or on Parameters, or if no number is a share of all jumps.
    """
    state = State.symbols(model, joints=True)
    assert state.joints is not None
    displacements, value = state.joints[0], predicted(state)
    every = [(i, f.coordinate.period) for i, f in enumerate(model.freedoms) if f.coordinate.turns_over]
    turning = [(i, period) for i, period in every if period and ca.depends_on(value, displacements[i])]
    if not turning:
        return None
    others = [state.q, state.v, state.a, state.joints[1], *state.inputs.values(), state.step]
    others += parameters_in([value], what, ignore=[displacements, *others])
    function = ca.Function("value", [displacements, ca.veccat(*others)], [value])
    random, jumps = np.random.default_rng(0), np.zeros((3, len(turning)))
    for row in jumps:
        at = random.uniform(-1, 1, displacements.numel()), random.uniform(0.5, 1.5, function.numel_in(1))
        for k, (i, period) in enumerate(turning):  # from one side of where a coordinate turns over to the other
            sides = np.tile(at[0], (2, 1))
            sides[:, i] = -period / 2, period / 2
            low, high = (float(function(side, at[1])) for side in sides)
            row[k] = high - low
    if not np.allclose(jumps, jumps[0], rtol=HALF_DIGITS, atol=HALF_DIGITS):
        return None
    sizes = np.abs(jumps[0][np.abs(jumps[0]) > HALF_DIGITS]).tolist()
    return common_measure(sizes) if sizes else None


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion of a mechanism at one time, expressed in the unknowns of a fit."""

    q: ca.SX  # poses (r, e) of all bodies, (7 n_b,)
    v: ca.SX  # velocities (ṙ in the world, ω in the body) of all bodies, (6 n_b,)
    a: ca.SX  # accelerations (r̈ in the world, ω̇ in the body) of all bodies, (6 n_b,)
    joints: tuple[ca.SX, ca.SX] | None = None
    """Coordinates of all joints, angles that may exceed a turn, and their rates, (n_s,) each, where these are nearer
    to the unknowns than poses are."""

    @property
    def parts(self) -> list[ca.SX]:
        """All expressions."""
        return [self.q, self.v, self.a, *(self.joints or ())]

    def inserted(self, old: ca.SX, new: ca.SX) -> Motion:
        """Replace the symbols of the state in expressions by given expressions."""
        q, v, a, *joints = ca.substitute(self.parts, [old], [new])
        return Motion(q, v, a, (joints[0], joints[1]) if joints else None)


@dataclass(frozen=True, eq=False)
class State:
    """Symbolic state of a mechanism, for sensors and residuals.

    >>> height = Observation(lambda state: state.position(rod.frame())[2], "z")
    """

    model: Model
    q: ca.SX
    """Poses (r, e) of all bodies, (7 n_b,)."""
    v: ca.SX
    """Velocities (ṙ in the world, ω in the body) of all bodies, (6 n_b,)."""
    a: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    """Accelerations (r̈ in the world, ω̇ in the body) of all bodies, (6 n_b,)."""
    inputs: Mapping[str, ca.SX] = field(default_factory=dict)
    """The model's input signals, held from this state on; residuals of one's own may use them."""
    step: ca.SX = field(default_factory=lambda: ca.SX.sym("h"))
    """h [s]."""
    joints: tuple[ca.SX, ca.SX] | None = field(default=None, repr=False)
    """Coordinates and velocities of all joints, (n_s,) each, if they are known beside the poses."""

    widths: ca.SX | None = field(default=None, repr=False)
    """Widths of smooth dry friction, (n_s,), if they are known."""

    @classmethod
    def of(cls, model: Model, motion: Motion, **known: Any) -> State:
        """Make a state from a motion; ``known`` contains inputs, time step and friction widths."""
        return cls(model, motion.q, motion.v, motion.a, joints=motion.joints, **known)

    @classmethod
    def symbols(cls, model: Model, joints: bool = False) -> State:
        """Make a state of new symbols; joint coordinates get symbols on request."""
        q = ca.SX.sym("q", model.configuration.ambient)
        v, a = (ca.SX.sym(name, model.configuration.tangent) for name in ("v", "a"))
        n, inputs = len(model.freedoms), {signal: ca.SX.sym(signal) for signal in model.signals}
        own = (ca.SX.sym("angles", n), ca.SX.sym("rates", n)) if joints else None
        return cls(model, q, v, a, inputs, joints=own)

    @property
    def motion(self) -> Motion:
        """Poses, velocities and accelerations of the bodies, and of joints if these are known."""
        return Motion(self.q, self.v, self.a, self.joints)

    def angle(self, joint: Joint) -> ca.SX:
        """Coordinates of a joint, (n,) [rad or m]; the angle of a hinge in (−π, π]."""
        if self.joints is None:
            return self.model.joint(joint, self.q, self.v).displacement
        return joint.in_range(self.joints[0][self.model.freedoms_of(joint), 0])

    def rate(self, joint: Joint) -> ca.SX:
        """Velocities of a joint's coordinates, (n,) [rad/s or m/s]."""
        if self.joints is None:
            return self.model.joint(joint, self.q, self.v).rates
        return self.joints[1][self.model.freedoms_of(joint), 0]

    def position(self, frame: Frame) -> ca.SX:
        """Position of a frame's origin in the world, (3,) [m]."""
        return self.model.moving(frame, self.q, self.v).origin

    def axes(self, frame: Frame) -> ca.SX:
        """Axes of a frame in the world, columns of (3, 3)."""
        return self.model.moving(frame, self.q, self.v).axes

    def velocity(self, frame: Frame) -> ca.SX:
        """Velocity of a frame's origin in the world, (3,) [m/s]."""
        return self.model.moving(frame, self.q, self.v).velocity

    def angular_velocity(self, body: Body) -> ca.SX:
        """Angular velocity ω of a body in its own frame, (3,) [rad/s]."""
        return self.model.twist(body, self.v)[1]

    def acceleration(self, frame: Frame) -> ca.SX:
        """Acceleration of a frame's origin in the world, (3,) [m/s²]."""
        if frame.body not in self.model.bodies:
            return ca.SX(3, 1)
        (_, omega), (linear, turning) = self.model.twist(frame.body, self.v), self.model.twist(frame.body, self.a)
        inside = ca.cross(turning, frame.at) + ca.cross(omega, ca.cross(omega, frame.at))
        return linear + rotations.matrix(self.model.pose(frame.body, self.q)[1]) @ inside

    def angular_acceleration(self, body: Body) -> ca.SX:
        """Angular acceleration ω̇ of a body in its own frame, (3,) [rad/s²]."""
        return self.model.twist(body, self.a)[1]

    def wrench(self, joint: Joint) -> tuple[ca.SX, ca.SX]:
        """The wrench that a joint transmits from its parent to its child: a force (3,) [N] at the origin of the child's
        frame and a torque (3,) [N m] in the world, with all that acts along its coordinates.

        It equals the inertial wrench of all bodies beyond the joint, less gravity and the loads on them.

        Raises:
            ProblemError: for a mechanism that closes loops, or with loads on points that follow inputs.
        """
        model = self.model
        if model.has_loops or model.ties:
            raise ProblemError(
                f"{joint.place}: {joint.kind} {joint.name!r} is in a mechanism that closes loops, where "
                "the motion does not determine the force in each joint; observe no force there"
            )
        signals = [signal for load in model.loads for signal in load.signals]
        if missing := [signal for signal in signals if signal not in self.inputs]:
            raise ProblemError(
                f"{joint.place}: {joint.kind} {joint.name!r} hands on loads that follow the input {missing[0]!r}, "
                "which sensors do not know; observe no force there"
            )
        u = stacked(self.inputs.get(signal, ca.SX(0)) for signal in model.signals)
        mass = model.inertia()
        lacking = (
            mass @ self.a - model.weight() - Mechanics.gyroscopic_of(mass, self.v) - model.pushed(self.q, self.v, u)
        )
        origin, force, torque = self.position(joint.child), ca.SX(3, 1), ca.SX(3, 1)
        outer, beyond = model.beyond(joint)
        for body in beyond:
            i, (r, e) = model.bodies.index(body), model.pose(body, self.q)
            own = lacking[6 * i : 6 * i + 3]
            force += own
            torque += rotations.matrix(e) @ lacking[6 * i + 3 : 6 * i + 6] + ca.cross(r - origin, own)
        sign = 1 if outer is joint.child.body else -1
        return sign * force, sign * torque

    def order(self, rows: ca.SX) -> int:
        """Highest time derivative of the configuration on which equations in this state depend: 0, 1 or 2."""
        return max((i for i, x in ((1, self.v), (2, self.a)) if ca.jacobian_sparsity(rows, x).nnz()), default=0)
