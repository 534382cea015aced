"""The mechanism: bodies, joints, motors and gravity, and their mechanics as symbolic expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, collected, declared_at
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.contact import Contact
from spookid.mechanics.joints import ROWS, Hinge, Motor
from spookid.mechanics.manifold import Manifold, jacobian
from spookid.parameter import symbolic


def gravity(g: Any) -> ca.SX:
    """Acceleration of gravity (0, 0, −g), (3,) [m/s²]."""
    return ca.vertcat(0, 0, -symbolic(g, f"{declared_at()}: gravity"))


def tilted_gravity(g: Any, a: Any, b: Any) -> ca.SX:
    """(0, 0, −g) rotated by exp((a, b, 0)), to first order (−b g, a g, −g); a, b [rad], result (3,) [m/s²]."""
    place = declared_at()
    tilt = ca.vertcat(symbolic(a, f"{place}: tilt"), symbolic(b, f"{place}: tilt"), 0)
    return rotations.matrix(rotations.exponential(tilt)) @ gravity(g)


@dataclass(frozen=True)
class Mechanics:
    """What the equations of motion need at one configuration, all CasADi expressions; n_b bodies, n_j hinges."""

    violation: ca.SX
    """g(q), (5 n_j,)."""
    constraint: ca.SX
    """G = ∂g(q ⊞ ψ)/∂ψ at ψ = 0, (5 n_j, 6 n_b)."""
    slip: ca.SX
    """Ḡ, one row a hinge: slip rate s = Ḡ v, (n_j, 6 n_b)."""
    angle: ca.SX
    """Hinge angles in (−π, π], (n_j,)."""
    mass: ca.SX
    """M, (6 n_b, 6 n_b), block diagonal."""
    force: ca.SX
    """External forces and torques, (6 n_b,): gravity."""

    def gyroscopic(self, v: ca.SX) -> ca.SX:
        """f_g = (0, −ω × Jω) of each body, (6 n_b,)."""
        return self.gyroscopic_of(self.mass, v)

    @staticmethod
    def gyroscopic_of(mass: ca.SX, v: ca.SX) -> ca.SX:
        """The same for a given M."""
        torques = []
        for i in range(v.numel() // 6):
            omega = v[6 * i + 3 : 6 * i + 6]
            inertia = mass[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6]
            torques += [ca.SX(3, 1), -ca.cross(omega, inertia @ omega)]
        return ca.densify(ca.vertcat(*torques))


@dataclass(frozen=True)
class MovingFrame:
    """A frame in the world."""

    origin: ca.SX
    """(3,) [m]."""
    axes: ca.SX
    """Columns x, y, z, (3, 3)."""
    omega: ca.SX
    """Angular velocity of its body in the body, (3,) [rad/s]."""


@dataclass(frozen=True)
class HingeRelation:
    """One hinge in one state."""

    violation: ca.SX
    """g, (5,)."""
    angle: ca.SX
    """In (−π, π] [rad]."""
    slip: ca.SX
    """s [rad/s]."""


@dataclass(frozen=True, eq=False)
class Model:
    """A mechanism of rigid bodies and hinges in maximal coordinates.

    A state is q (n_b, 7) = (r [m], e) and v (n_b, 6) = (ṙ in the world [m/s], ω in the body [rad/s]), body by body.

    Hinges may close loops; rows that others imply are found when a problem is solved.

    Raises:
        ProblemError: for a body that no joint holds, a joint or motor of something that is not in the model, or two
            things of one name.
    """

    bodies: Sequence[Body]
    joints: Sequence[Hinge] = ()
    motors: Sequence[Motor] = ()
    contacts: Sequence[Contact] = field(kw_only=True, default=())
    """Points on planes; they hold no body, so that one without joints is declared ``free=True``."""
    gravity: Any = field(kw_only=True)
    """Acceleration of gravity, (3,) [m/s²]."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        for name, kind in (("bodies", Body), ("joints", Hinge), ("motors", Motor), ("contacts", Contact)):
            object.__setattr__(self, name, collected(getattr(self, name), kind, f"{self.place}: Model: {name}"))
        object.__setattr__(self, "gravity", symbolic(self.gravity, f"{self.place}: gravity", (3,)))
        if not self.bodies:
            raise ProblemError(f"{self.place}: Model has no bodies")
        self._check_names()
        self._check_membership()
        self.tree()
        held = {id(body) for joint in self.joints for body in joint.bodies()}
        for body in self.bodies:
            if id(body) not in held and not body.free:
                raise ProblemError(
                    f"{body.place}: Body {body.name!r} is held by no joint; join it or declare it free=True"
                )

    def _check_names(self) -> None:
        for kind, things in (("Body", self.bodies), ("Hinge", self.joints), ("Contact", self.contacts)):
            seen: dict[str, Any] = {}
            for thing in things:
                if thing.name in seen:
                    raise ProblemError(f"{thing.place}: {kind} {thing.name!r} has the name of another one; rename it")
                seen[thing.name] = thing

    def _check_membership(self) -> None:
        if GROUND in self.bodies:
            raise ProblemError(f"{self.place}: Model: GROUND is always there; leave it out of the bodies")
        bodies = {id(body) for body in self.bodies} | {id(GROUND)}
        for joint in self.joints:
            for body in joint.bodies():
                if id(body) not in bodies:
                    raise ProblemError(
                        f"{joint.place}: Hinge {joint.name!r} joins Body {body.name!r}, which is not in the bodies"
                    )
        for contact in self.contacts:
            for body in contact.bodies():
                if id(body) not in bodies:
                    raise ProblemError(
                        f"{contact.place}: Contact {contact.name!r} touches Body {body.name!r}, which is not in the "
                        "bodies"
                    )
        for motor in self.motors:
            if motor.hinge not in self.joints:
                raise ProblemError(f"{motor.place}: Motor drives Hinge {motor.hinge.name!r}, which is not in the model")

    def tree(self) -> list[Hinge]:
        """Hinges in an order in which each joins a new body to one already placed; those that close loops are left out.

        Raises:
            ProblemError: for bodies joined to each other but not to the ground or a free body.
        """
        placed = {id(GROUND)} | {id(body) for body in self.bodies if body.free}
        order: list[Hinge] = []
        while True:
            fresh = [j for j in self.joints if sum(id(body) in placed for body in j.bodies()) == 1]
            if not fresh:
                break
            order.append(fresh[0])
            placed |= {id(body) for body in fresh[0].bodies()}
        loose = next((body for body in self.bodies if id(body) not in placed), None)
        if loose is not None and any(loose in joint.bodies() for joint in self.joints):
            raise ProblemError(
                f"{loose.place}: Body {loose.name!r} has no chain of joints to GROUND; join it or declare it free=True"
            )
        return order

    @property
    def has_loops(self) -> bool:
        """True if hinges close loops."""
        return len(self.tree()) < len(self.joints)

    @property
    def is_unilateral(self) -> bool:
        """True if anything pushes in one direction only: a contact, or a hinge's limits."""
        return bool(self.contacts) or any(joint.limits is not None for joint in self.joints)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of the motors, each once."""
        return tuple(dict.fromkeys(motor.signal for motor in self.motors))

    @property
    def configuration(self) -> Manifold:
        """The space of q."""
        return Manifold((("flat", 3), ("rotation", 4)) * len(self.bodies))

    @property
    def state(self) -> Manifold:
        """The space of x = (q, v)."""
        return Manifold((*self.configuration.parts, ("flat", 6 * len(self.bodies))))

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        things: tuple[Body | Hinge | Motor | Contact, ...]
        things = (*self.bodies, *self.joints, *self.motors, *self.contacts)
        return [self.gravity, *(e for thing in things for e in thing.expressions())]

    def violation(self, q: ca.SX) -> ca.SX:
        """g(q), (5 n_j,), at any expression of the configuration."""
        return ca.vertcat(ca.SX(0, 1), *(self.hinge(joint, q, self._still).violation for joint in self.joints))

    def mechanics(self, q: ca.SX) -> Mechanics:
        """The equations' ingredients at configuration ``q``, a symbol (7 n_b,)."""
        columns = 6 * len(self.bodies)
        v = ca.SX.sym("v", columns)
        relations = [self.hinge(joint, q, v) for joint in self.joints]
        empty = ca.SX(0, 1)
        violation = ca.vertcat(empty, *(relation.violation for relation in relations))
        slip = ca.vertcat(empty, *(relation.slip for relation in relations))
        return Mechanics(
            violation=violation,
            constraint=jacobian(violation, q, self.configuration) if self.joints else ca.SX(0, columns),
            slip=ca.jacobian(slip, v),
            angle=ca.vertcat(empty, *(relation.angle for relation in relations)),
            mass=self.inertia(),
            force=self.weight(),
        )

    def inertia(self) -> ca.SX:
        """M, (6 n_b, 6 n_b), block diagonal; rotations in each body's own frame."""
        return ca.diagcat(*(ca.diagcat(body.mass * ca.SX.eye(3), body.inertia) for body in self.bodies))

    def weight(self) -> ca.SX:
        """Forces and torques of gravity, (6 n_b,)."""
        return ca.densify(ca.vertcat(*(ca.vertcat(body.mass * self.gravity, ca.SX(3, 1)) for body in self.bodies)))

    @property
    def _still(self) -> ca.SX:
        return ca.SX(6 * len(self.bodies), 1)

    def hinge(self, joint: Hinge, q: ca.SX, v: ca.SX) -> HingeRelation:
        """Violation, angle and slip rate of one hinge at any expressions of q and v (F.1)."""
        a, b = self.moving(joint.parent, q, v), self.moving(joint.child, q, v)
        y_b, z_b = b.axes[:, 1], b.axes[:, 2]
        g = ca.vertcat(a.origin - b.origin, ca.dot(a.axes[:, 0], y_b), ca.dot(a.axes[:, 0], z_b))
        angle = ca.atan2(ca.dot(a.axes[:, 2], y_b), ca.dot(a.axes[:, 1], y_b))
        # x of the child (F.2): a constant vector in the child's own frame, where its ω is given.
        slip = ca.dot(joint.child.axes[:, 0], b.omega) - ca.dot(b.axes[:, 0], a.axes @ (joint.parent.axes.T @ a.omega))
        return HingeRelation(g, angle, slip)

    def contact(self, contact: Contact, q: ca.SX) -> ca.SX:
        """The point of a contact in the frame of its plane at any expression of q: (gap, x, y), (3,) [m]."""
        point, plane = (self.moving(side, q, self._still) for side in (contact.point, contact.plane))
        along = plane.axes.T @ (point.origin - plane.origin)
        return ca.vertcat(along[2], along[0], along[1])

    def moving(self, frame: Frame, q: ca.SX, v: ca.SX) -> MovingFrame:
        """A frame in the world at any expressions of q and v."""
        if frame.body is GROUND:
            return MovingFrame(frame.at, frame.axes, ca.SX(3, 1))
        i = self.bodies.index(frame.body)
        rotation = rotations.matrix(q[7 * i + 3 : 7 * i + 7])
        origin = q[7 * i : 7 * i + 3] + rotation @ frame.at
        return MovingFrame(origin, rotation @ frame.axes, v[6 * i + 3 : 6 * i + 6])


def row_labels(model: Model, quantity: str) -> tuple[str, ...]:
    """Names of the 6 n_b rows of an impulse, such as ``Δp_u A.x``."""
    return tuple(
        f"{quantity} {body.name}.{axis}" for body in model.bodies for axis in ("x", "y", "z", "rx", "ry", "rz")
    )


def constraint_labels(model: Model) -> tuple[str, ...]:
    """Names of the 5 n_j constraint rows, such as ``elbow.x``."""
    return tuple(f"{joint.name}.{axis}" for joint in model.joints for axis in ("x", "y", "z", "xy", "xz")[:ROWS])
