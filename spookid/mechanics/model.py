"""The mechanism: bodies, joints, motors and gravity, and their mechanics as symbolic expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, collected, declared_at
from spookid.mechanics.body import GROUND, Body, Frame, RobotFile
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.contacts import Contact
from spookid.mechanics.hidden import Hidden, Lagging, Signal, inserted_in, walks_in
from spookid.mechanics.holding import Freedom, Holding, rooted, spanning_tree
from spookid.mechanics.inertia import Belief
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Input
from spookid.mechanics.manifold import Manifold, jacobian
from spookid.mechanics.motor import Motor
from spookid.mechanics.moving import JointState, MovingFrame
from spookid.mechanics.point_loads import PointLoad
from spookid.mechanics.servo import Servo, sorted_drives
from spookid.parameter import at_rest, placeholders_in, stacked, symbolic
from spookid.records import dataclass

Coordinates = Literal["joint", "maximal"]


@dataclass(frozen=True)
class Mechanics:
    """Quantities of the equations of motion at one configuration, as CasADi expressions.

    There are n_b bodies, and joints with n_g constraint equations and n_s coordinates together.
    """

    violation: ca.SX  # g(q) of the rows on positions, (n_p,)
    constraint: ca.SX  # g = ∂g(q ⊞ ψ)/∂ψ at ψ = 0, below it A of the rows on velocities, (n_g, 6 n_b)
    slip: ca.SX  # Ḡ, one row a coordinate: slip rates s = Ḡ v, (n_s, 6 n_b)
    displacement: ca.SX  # coordinates of all joints, angles of hinges in (−π, π], (n_s,)
    mass: ca.SX  # M, (6 n_b, 6 n_b), block diagonal
    force: ca.SX  # forces and torques of gravity, (6 n_b,)
    configuration: ca.SX  # q, (7 n_b,)

    def gyroscopic(self, v: ca.SX) -> ca.SX:
        """Gyroscopic forces f_g of each body at given velocities, (6 n_b,)."""
        return self.gyroscopic_of(self.mass, v)

    @staticmethod
    def gyroscopic_of(mass: ca.SX, v: ca.SX) -> ca.SX:
        """Gyroscopic forces f_g = (0, −ω × Jω) of each body for a given M, (6 n_b,)."""
        torques = []
        for i in range(v.numel() // 6):
            omega = v[6 * i + 3 : 6 * i + 6]
            inertia = mass[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6]
            torques += [ca.SX(3, 1), -ca.cross(omega, inertia @ omega)]
        return ca.densify(ca.vertcat(*torques))


@dataclass(frozen=True, eq=False)
class Model(metaclass=Checked):
    """Mechanism of rigid bodies, joints, motors, constraints and contacts.

    A state is q (n_b, 7) = (r [m], e) and v (n_b, 6) = (ṙ in the world [m/s], ω in the body [rad/s]), body by body.

    Joints may close loops; redundant equations are found when a problem is solved.

    Raises:
        ProblemError: for a body that no joint holds, a joint or motor on a body outside the model, or a name that is
            used twice.
    """

    bodies: Sequence[Body]
    joints: Sequence[Joint] = ()
    motors: Sequence[Any] = ()  # servos among them are moved to ``servos``
    contacts: Sequence[Contact] = field(kw_only=True, default=())
    """Points on planes; they hold no body, so that one without joints is declared ``free=True``."""
    loads: Sequence[PointLoad] = field(kw_only=True, default=())
    """Loads on points of bodies; loads along a joint's coordinates belong to the joint."""
    servos: Sequence[Servo] = field(kw_only=True, default=())  # drives that close a loop around a joint
    filters: Sequence[Lagging] = field(kw_only=True, default=(), repr=False)  # of the problem's sensors with a lag
    constraints: Sequence[Constraint] = field(kw_only=True, default=())
    """Constraints in addition to the joints."""
    original: Model | None = field(kw_only=True, default=None, repr=False)
    """Model whose bodies and joints the constraints refer to, if they differ, in the same order."""
    gravity: Any = field(kw_only=True)
    """Acceleration of gravity, (3,) [m/s²]."""
    frames: Mapping[str, Frame] = field(kw_only=True, default_factory=dict, repr=False)
    """Named frames on bodies, such as links of a robot's file that are part of one body."""
    coordinates: Coordinates | None = field(kw_only=True, default=None)
    """Unknowns of each step of a fit: ``"joint"``, positions of rigid joints in a spanning tree; ``"maximal"``,
    poses of all bodies; None: joints wherever the stepper can. Results hold poses in any case."""
    robot: RobotFile | None = field(kw_only=True, default=None, repr=False)  # the file that it was read from
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.motors, (list, tuple)):
            motors, servos = sorted_drives(self.motors)
            object.__setattr__(self, "servos", [*self.servos, *servos])
            object.__setattr__(self, "motors", motors)
        kinds: dict[str, type[Any]] = {"bodies": Body, "joints": Joint, "motors": Motor, "contacts": Contact}
        kinds |= {"loads": PointLoad, "servos": Servo, "constraints": Constraint}
        for name, kind in kinds.items():
            object.__setattr__(self, name, collected(getattr(self, name), kind, f"{self.place}: Model: {name}"))
        added = [one.joint for one in self.hidden if one.body.name not in {body.name for body in self.bodies}]
        object.__setattr__(self, "bodies", (*self.bodies, *(joint.child.body for joint in added)))
        object.__setattr__(self, "joints", (*self.joints, *added))
        object.__setattr__(self, "gravity", symbolic(self.gravity, f"{self.place}: gravity", (3,)))
        if not self.bodies:
            raise ProblemError(f"{self.place}: Model has no bodies; give one or more")
        holding: list[Joint | Constraint] = [*self.joints, *self.constraints]
        for things in (self.bodies, holding, self.contacts):
            seen = set[str]()
            for thing in things:
                if thing.name in seen:
                    what = f"{thing.place}: {type(thing).__name__} {thing.name!r}"
                    raise ProblemError(f"{what} has the name of another one; rename it")
                seen.add(thing.name)
        self._check_membership()
        self.tree()
        for constraint in self.constraints:
            constraint.check(self.original or self)
        held = {id(body) for joint in self.joints for body in joint.bodies()}
        for body in self.bodies:
            if id(body) not in held and not body.free:
                what = f"{body.place}: Body {body.name!r}"
                raise ProblemError(f"{what} is held by no joint; join it or declare it free=True")

    def __repr__(self) -> str:
        return f"<Model of {', '.join(map(repr, (*self.bodies, *self.joints, *self.motors, *self.servos)))}>"

    def _check_membership(self) -> None:
        if GROUND in self.bodies:
            raise ProblemError(f"{self.place}: Model: GROUND is always there; leave it out of the bodies")
        bodies = {id(body) for body in self.bodies} | {id(GROUND)}
        linked = [(f"{j.place}: {j.kind} {j.name!r} joins", j.bodies()) for j in self.joints]
        linked += [(f"{c.place}: Contact {c.name!r} touches", c.bodies()) for c in self.contacts]
        for what, of in linked:
            for body in of:
                if id(body) not in bodies:
                    raise ProblemError(f"{what} Body {body.name!r}, which is not in the bodies; add it to them")
        for motor in (*self.motors, *self.servos):
            if motor.joint not in self.joints:
                what = f"{motor.place}: {type(motor).__name__} drives {motor.joint.kind} {motor.joint.name!r}"
                raise ProblemError(f"{what}, which is not in the model; add it to the joints")
        for load in self.loads:
            load.check(self.bodies)
        known = {one.signal: one for one in self.inputs}
        for thing, own in self._acting_inputs():
            one = known[own.signal]
            if one.hold != own.hold or not (ca.is_equal(one.delay, own.delay, 9) and ca.is_equal(one.lag, own.lag, 9)):
                what = f"{getattr(thing, 'place', self.place)}: {type(thing).__name__} takes {own.signal!r}"
                raise ProblemError(f"{what} with another delay, lag or hold than another use of it; give both the same")

    def tree(self) -> list[Joint]:
        """Joints of a spanning tree, ordered so that each adds one new body; one joint of each loop is not included, if
        possible one without a measured effort.

        Raises:
            ProblemError: for bodies joined to each other but not to the ground or a free body.
        """
        order = spanning_tree(self.bodies, self.joints, [motor.joint for motor in self.motors if motor.measured])
        placed = rooted(self.bodies) | {id(body) for joint in order for body in joint.bodies()}
        loose = next((body for body in self.bodies if id(body) not in placed), None)
        if loose is not None and any(loose in joint.bodies() for joint in self.joints):
            what = f"{loose.place}: Body {loose.name!r}"
            raise ProblemError(f"{what} has no chain of joints to GROUND; join it or declare it free=True")
        return order

    def beyond(self, joint: Joint) -> tuple[Body, list[Body]]:
        """Outer body of a joint in the spanning tree, and all bodies that this body carries."""
        outer, placed = joint.child.body, rooted(self.bodies)
        hanging: list[Body] = []
        for other in self.tree():
            new = next(body for body in other.bodies() if id(body) not in placed)
            placed.add(id(new))
            if other is joint:
                outer = new
            if other is joint or any(body in hanging for body in other.bodies()):
                hanging.append(new)
        return outer, hanging

    @property
    def has_loops(self) -> bool:
        """True if joints close loops, or if position constraints exist."""
        return len(self.tree()) < len(self.joints) or any(not tie.on_velocities for tie in self.ties)

    @property
    def is_unilateral(self) -> bool:
        """True if the model has unilateral forces: contacts, or limits of joints."""
        return bool(self.contacts) or any(joint.limits is not None for joint in self.joints)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of all input signals, each once: of motors, joint loads, point loads and constraints."""
        things: tuple[Joint | PointLoad | Constraint, ...] = (*self.joints, *self.loads, *self.ties)
        others = (signal for thing in (*self.servos, *self.measured, *things) for signal in thing.signals)
        return tuple(dict.fromkeys([*(motor.signal for motor in self.motors), *others]))

    def signals_of(self, joint: Joint) -> tuple[str, ...]:
        """Names of the inputs of a joint's loads and servos."""
        own = (signal for servo in self.servos if servo.joint is joint for signal in servo.signals)
        return tuple(dict.fromkeys([*joint.signals, *own]))

    def effort(
        self,
        joint: Joint,
        position: ca.SX,
        rates: ca.SX,
        inputs: Mapping[str, ca.SX],
        width: ca.SX,
        motion: tuple[ca.SX, ca.SX] | None = None,
    ) -> ca.SX:
        """Effort of a joint's loads and servos, see ``Joint.effort`` and ``in_motion``, (n,) [N m or N]."""
        driven = (one.mean_effort(position, rates, inputs) for one in self.servos if one.joint is joint)
        return self.in_motion(sum(driven, joint.effort(position, rates, inputs, width)), motion, inputs)

    @cached_property
    def hidden(self) -> tuple[Hidden, ...]:
        """Additional states: motors of elastic gears, integrals of servos, random walks, and filters of sensors."""
        own = [*(j.elastic.hidden for j in self.joints if j.elastic), *(servo.integrator for servo in self.servos)]
        return (*filter(None, own), *walks_in(self._coefficients()), *self.filters)

    @cached_property
    def measured(self) -> tuple[Signal, ...]:
        """Measured signals in coefficients of joints and servos."""
        return tuple(one for one in placeholders_in(self._coefficients()) if isinstance(one, Signal))

    def _coefficients(self) -> Iterator[ca.SX]:
        return (e for things in (self.joints, self.servos) for one in things for e in one.expressions())

    def in_motion(self, expression: ca.SX, motion: tuple[ca.SX, ca.SX] | None, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Expression with positions and rates of all joints, (n_s,) each, and inputs for placeholders; None: zeros."""
        if motion is None or not (self.hidden or self.measured):
            return at_rest(expression)
        return inserted_in(expression, self.hidden, self.joints, motion, inputs)

    def by_signal(self, u: ca.SX) -> dict[str, ca.SX]:
        """Map input names to their symbols (n_u,), or the names in ``signals`` only."""
        return {one.name: u[i] for i, one in enumerate(self.inputs[: u.numel()])}

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs with delay and hold of each signal, followed by powers of commands that servos need, (n_u,)."""
        known = {own.signal: own for _, own in reversed(self._acting_inputs())}
        powers = {one.name: one for servo in self.servos for one in servo.powers}
        return (*(known.get(name, Input(name)) for name in self.signals), *powers.values())

    def _acting_inputs(self) -> list[tuple[Any, Input]]:
        """Each use of a signal by a motor, a servo or a load of a joint, and how it acts."""
        own: list[tuple[Any, Input]] = [(motor, motor.input) for motor in self.motors]
        return (
            own
            + [(thing, one) for things in (self.servos, self.measured) for thing in things for one in thing.inputs]
            + [(load, one) for joint in self.joints for load in joint.loads for one in load.inputs]
        )

    @cached_property
    def freedoms(self) -> tuple[Freedom, ...]:
        """Coordinates of all joints in the model's order, (n_s,)."""
        return tuple(Freedom(joint, i) for joint in self.joints for i in range(len(joint.coordinates)))

    @cached_property
    def ties(self) -> tuple[Constraint, ...]:
        """Constraints in the order of their equations: position constraints, then velocity constraints."""
        return tuple(sorted(self.constraints, key=lambda tie: tie.on_velocities))

    @cached_property
    def holding(self) -> Holding:
        """Constraint equations of all joints and constraints."""
        return Holding(self, self.original or self)

    @property
    def rows(self) -> int:
        """Number of constraint equations of all joints and constraints, n_g."""
        return self.holding.count

    def rows_of(self, thing: Joint | Constraint) -> slice:
        """Return the indices of the constraint equations of a joint or a constraint."""
        return self.holding.rows_of(thing)

    def freedoms_of(self, joint: Joint) -> slice:
        """Indices of a joint's coordinates among the coordinates of all joints."""
        start = sum(len(other.coordinates) for other in self.joints[: self.joints.index(joint)])
        return slice(start, start + len(joint.coordinates))

    @property
    def configuration(self) -> Manifold:
        """The space of q."""
        return Manifold((("flat", 3), ("rotation", 4)) * len(self.bodies))

    @property
    def state(self) -> Manifold:
        """Manifold of x = (q, v)."""
        return Manifold((*self.configuration.parts, ("flat", 6 * len(self.bodies))))

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        things: tuple[Any, ...] = (*self.bodies, *self.joints, *self.motors, *self.servos, *self.contacts, *self.loads)
        tied = [e for tie in self.ties for e in tie.expressions(self.original or self)]
        return [self.gravity, *(e for thing in things for e in thing.expressions()), *tied]

    @property
    def beliefs(self) -> tuple[Belief, ...]:
        """Priors of the inertias of the bodies."""
        own = [(body.name, body.distribution) for body in self.bodies if body.distribution]
        return tuple(replace(b, title=f"{name} {b.title}") for name, inertia in own for b in inertia.beliefs)

    def violation(self, q: ca.SX) -> ca.SX:
        """Position constraints g(q), (n_p,), as a function of the configuration."""
        return self.holding.violation(q)

    def mechanics(self, q: ca.SX) -> Mechanics:
        """Quantities of the equations of motion as functions of the configuration (7 n_b,)."""
        if not q.is_valid_input():
            symbol = ca.SX.sym("q", q.numel())
            at = self.mechanics(symbol)
            names = ("violation", "constraint", "slip", "displacement")
            parts = ca.substitute([getattr(at, name) for name in names], [symbol], [ca.densify(q)])
            return replace(at, **dict(zip(names, parts, strict=True)), configuration=q)
        v = ca.SX.sym("v", self.configuration.tangent)
        states = [self.joint(joint, q, v) for joint in self.joints]
        violation, none = self.holding.violation(q, states), ca.SX(0, v.numel())
        held = jacobian(violation, q, self.configuration) if violation.numel() else none
        return Mechanics(
            violation=violation,
            constraint=ca.vertcat(held, ca.jacobian(self.holding.rates(q, v), v)),
            slip=ca.jacobian(stacked(state.rates for state in states), v),
            displacement=stacked(state.displacement for state in states),
            mass=self.inertia(),
            force=self.weight(),
            configuration=q,
        )

    def inertia(self) -> ca.SX:
        """Mass matrix M, (6 n_b, 6 n_b), block diagonal, with rotations in each body's own frame."""
        return ca.diagcat(*(ca.diagcat(body.mass * ca.SX.eye(3), body.inertia) for body in self.bodies))

    def weight(self) -> ca.SX:
        """Forces and torques of gravity, (6 n_b,)."""
        return ca.densify(ca.vertcat(*(ca.vertcat(body.mass * self.gravity, ca.SX(3, 1)) for body in self.bodies)))

    def pushed(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Forces and torques of point loads on all bodies as functions of q and v, (6 n_b,).

        Args:
            u: inputs in the order of ``signals``, (n_u,).
        """
        total, inputs = ca.SX(self.configuration.tangent, 1), self.by_signal(u)
        for load in self.loads:
            at = [self.moving(frame, q, v) for frame in load.frames]
            own = stacked(inputs[signal] for signal in load.signals)
            for frame, wrench in zip(at, load.wrenches(at, own), strict=True):
                if not frame.is_fixed:
                    i = 6 * self.bodies.index(frame.frame.body)
                    total[i : i + 6] += frame.carried(*wrench)
        return total

    def joint(self, joint: Joint, q: ca.SX, v: ca.SX | None = None) -> JointState:
        """Kinematics of one joint as functions of q and v; v defaults to zero."""
        return JointState(joint, self.moving(joint.parent, q, v), self.moving(joint.child, q, v))

    def displacements(self, q: ca.SX) -> ca.SX:
        """Coordinates of all joints as functions of q, angles in (−π, π], (n_s,)."""
        return stacked(self.joint(joint, q).displacement for joint in self.joints)

    def rates(self, q: ca.SX, v: ca.SX) -> ca.SX:
        """Velocities of all joint coordinates as functions of q and v, (n_s,)."""
        return stacked(self.joint(joint, q, v).rates for joint in self.joints)

    def contact(self, contact: Contact, q: ca.SX) -> ca.SX:
        """Position of a contact point in the frame of its plane as a function of q: (gap, x, y), (3,) [m]."""
        point, plane = (self.moving(side, q) for side in (contact.point, contact.plane))
        along = plane.axes.T @ (point.origin - plane.origin)
        return ca.vertcat(along[2], along[0], along[1])

    def moving(self, frame: Frame, q: ca.SX, v: ca.SX | None = None) -> MovingFrame:
        """Motion of a frame in the world as a function of q and v; v defaults to zero."""
        if frame.body is GROUND:
            return MovingFrame.grounded(frame)
        drift, omega = (ca.SX(3, 1), ca.SX(3, 1)) if v is None else self.twist(frame.body, v)
        return MovingFrame(frame, *self.pose(frame.body, q), drift, omega)

    def pose(self, body: Body, q: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Position (3,) and quaternion (4,) of a body, from the configuration q."""
        i = self._index(body)
        return q[7 * i : 7 * i + 3], q[7 * i + 3 : 7 * i + 7]

    def twist(self, body: Body, v: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Velocity in the world (3,) and angular velocity in body axes (3,) of a body, from the velocities v."""
        i = self._index(body)
        return v[6 * i : 6 * i + 3], v[6 * i + 3 : 6 * i + 6]

    def _index(self, body: Body) -> int:
        if body not in self.bodies:
            raise ProblemError(f"{body.place}: Body {body.name!r} is not in the model; give one of its bodies")
        return self.bodies.index(body)
