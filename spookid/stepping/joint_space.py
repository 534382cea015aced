"""The variational step in positions at three neighbouring steps, of joints or of all bodies.

The step is that of ``variational``, M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g), g = 0 at every k. The virtual work of its
residual p along unit rates of the coordinates of the joints,

    w = Sᵀp,    n rows in N m s (N s for the translation of free bodies),

is what is random: with a standard deviation of s √h, where s is process noise in N m/√Hz. It is a density of the new
state, unless the torque at a joint is measured: then its row is an error of that measurement. Joints that close a loop
hold by equality constraints; their λ, and the random impulses along their coordinates, are private unknowns of the
step, so that the covariance of the rows that remain is Σ_j s_j² a_j a_jᵀ over all coordinates.

``JointSpace`` places poses from joint coordinates, so that joints of the tree hold identically and their λ follow from
the impulses that they carry. ``PoseSpace`` has the poses q_k of all bodies, and all of g(q_k) = 0 as equality
constraints that hold one step alone, so that solvers eliminate it there, joint by joint; S is that at poses that
satisfy the tree.

``JointSystem`` is a model without closed loops as equations of motion in the coordinates of its joints.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import ClassVar

import casadi as ca

from spookid.argument_checks import Checked
from spookid.data.interpolation import slopes
from spookid.data.state import Motion
from spookid.errors import ProblemError, declared_at
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.contacts import Impact
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model
from spookid.mechanics.system import System
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping.base import CONTACTS, NEEDS_JOINTS, SWITCHED, Dynamics
from spookid.stepping.contact_rows import AROUND, ContactRows, Schedule, StepMotion, impact_factor
from spookid.stepping.impulses import HATS, DryFriction, Settings, Slips
from spookid.stepping.unknowns import JointScheme, JointStep, PositionScheme, VirtualWork, middle, sides
from spookid.transcription.factor import Factor, Group, Kind

_LINKING = "their rows link a step with the next, and this one is between three"


@dataclass(frozen=True)
class JointSpace(JointScheme["_JointStep"]):
    """Scheme with joint coordinates at each step as unknowns."""

    refuses: ClassVar[dict[str, str]] = {CONTACTS: _LINKING}

    def through(
        self, model: Model, settings: Settings, order: int, states: int
    ) -> tuple[dict[int, ca.SX], list[Motion]] | None:
        """Interpolation of joint coordinates, for joints without rotations in space."""
        joints = JointCoordinates(model)
        if any(kind != "flat" for kind, _ in joints.manifold.parts):
            return None
        x = [ca.SX.sym(f"x_{i}", self.manifold(model).ambient) for i in range(states)]
        places = ca.horzcat(*(one[: joints.manifold.ambient] for one in x))
        rates, changes = (places @ slopes(states, n).T / settings.step**n for n in (1, 2))
        return dict(enumerate(x)), [
            self.moving(model, one, rates[:, i], changes[:, i], order) for i, one in enumerate(x)
        ]

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Weighted residuals of each inner step, and loop constraints at every step."""
        step, estimated = self.step(model, settings), self.estimated
        joints, impulse = step.joints, step.impulse(self)
        factors = []
        if model.holding.contacts and not estimated:
            impulse = step.contact_rows.idle(impulse)
            if len(step.impacts) < len(model.holding.contacts):
                factors.append(step.contact_rows.hard(step.variables).written_in(step.symbols, step.values))
        elif model.holding.contacts:
            impulse = step.contact_rows.beside(impulse, joints.manifold.tangent - 6 * len(joints.roots))
        factors.insert(0, impulse.written_in(step.symbols, step.values))
        if step.impacts:
            unknowns = [ca.SX.sym(f"x_{i}", self.manifold(model).ambient) for i in range(2 * AROUND + 1)]
            steps = dict(enumerate(unknowns))
            factors.append(impact_factor(joints, settings, step.impacts, steps, not estimated))
        return [*factors, *self.closed(step), *step.law_factors()]

    def symbols(self, model: Model, settings: Settings) -> _JointStep:
        return _JointStep(model, settings, self)


@dataclass(frozen=True, eq=False)
class Instant:
    """Equations of motion of a tree at one instant, in joint coordinates, with smooth dry friction."""

    neighbours: tuple[ca.SX, ca.SX, ca.SX]
    """Positions x (ambient,) at three times, a step apart."""
    moving: ca.SX
    """x, rates and accelerations at the middle one, one below the other."""
    symbols: ca.SX
    """For these."""
    u: ca.SX
    """Inputs."""
    lacking: ca.SX
    """w = Sᵀp, what the motion takes in a step of h less what acts, (n,) [N m s or N s]."""


def instant(model: Model, settings: Settings) -> Instant:
    """Equations of motion at one instant, for a model without closed loops and constraints."""
    scheme = JointSpace()
    step = scheme.step(model, settings)
    before, here, after = scheme.three(model)
    moved = middle(*sides(step.joints.manifold, (before, here, after), settings.step), settings.step)
    return Instant((before, here, after), ca.vertcat(here, *moved), step.symbols, step.u, step.residual)


class _JointStep(JointStep):
    """The symbols of one step around t_k, from the unknowns at three steps."""

    def __init__(self, model: Model, settings: Settings, scheme: JointSpace) -> None:
        variables = dict(enumerate(scheme.three(model)))
        moved = sides(JointCoordinates(model).manifold, list(variables.values()), settings.step)
        super().__init__(model, settings, scheme, 1, variables, variables[1], middle(*moved, settings.step))
        self.schedule = Schedule.of(model)
        self._unknown = self.joints.apart(self.loads)
        self.loads = stacked(self.schedule.acting(thing) * own for thing, own in self._unknown.items())
        after = self._places(self.joints.configuration(variables[2]))
        self._after = [ca.SX.sym("place", place.numel()) for place in after]
        """Where contacts are at t_{k+1}."""
        self.symbols, self.values = ca.vertcat(self.symbols, *self._after), ca.vertcat(self.values, *after)
        self._here = self._places(self.q)
        """Where they are at t_k."""
        if self.schedule.late is not None:
            self._move_to_impact(moved)

    def _places(self, q: ca.SX) -> list[ca.SX]:
        model = self.model
        return [contact.place_of(model.original or model, q) for contact in model.holding.contacts]

    def _move_to_impact(self, rates: tuple[ca.SX, ca.SX]) -> None:
        """Take forces and masses where an impact is, between steps, and not at t_k."""
        late, n = self.schedule.late, self.joints.manifold.ambient
        moved = self.settings.step * (ca.fmax(late, 0) * rates[0] + ca.fmin(late, 0) * rates[1])
        here = self.variables[1]
        there = self.joints.manifold.retract(here[:n], moved)
        places = self._places(self.joints.configuration(here[:n]))
        self._here = [ca.SX.sym("place", place.numel()) for place in places]
        self.symbols = ca.vertcat(self.symbols, *self._here)
        rest = self.values[here.numel() :]
        self.values = ca.vertcat(there, here[n:], rest, *places)

    @cached_property
    def contact_rows(self) -> ContactRows:
        """Those that hold."""
        motion = StepMotion(self.q, self.motion.v, self.motion.accelerations, self._here, self._after)
        return ContactRows(self.model, self.settings, motion, self.schedule, self._unknown)

    def settled(self, expression: ca.SX) -> ca.SX:
        """Expression in the unknowns at three steps; own equations set λ of open contacts to zero."""
        written = super().settled(expression)
        settled: ca.SX = ca.substitute(written, self.schedule.data, self.schedule.throughout)
        return settled

    @property
    def closed(self) -> dict[Joint | Constraint, ca.SX]:
        """Loop constraints except contacts, which have their own equations."""
        return {thing: rows for thing, rows in super().closed.items() if thing not in self.model.holding.contacts}

    @cached_property
    def closing(self) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """Multipliers λ of loop constraints, and their impulses on bodies with the friction of impacts, (6 n_b,)."""
        given, bodies = super().closing
        model, v = self.model.original or self.model, ca.SX.sym("v", self.motion.v.numel())
        for impact in (impact for impact in self.impacts if impact.rubs):
            rubbed = impact.friction_on_bodies(model, self.q, v, given[impact])
            bodies += ca.substitute(rubbed, v, ca.densify(self.motion.v))
        return given, bodies

    @cached_property
    def impacts(self) -> list[Impact]:
        """Those of the model."""
        return [contact for contact in self.model.holding.contacts if isinstance(contact, Impact)]


@dataclass(frozen=True)
class PoseSpace(PositionScheme["_PoseStep"]):
    """Scheme with poses of all bodies at each step as unknowns."""

    refuses: ClassVar[dict[str, str]] = {CONTACTS: _LINKING, SWITCHED: NEEDS_JOINTS}
    law: DryFriction = DryFriction()
    dynamics: Dynamics = "estimated"

    def reactions(self, model: Model) -> int:
        return self.closing_unknowns(model)

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Weighted residuals of each inner step, and constraints g(q_k) = 0 at every step."""
        step = self.step(model, settings)
        factors = [step.impulse(self)]
        if model.rows:
            here, labels, none = step.variables[1], model.holding.labels(), ca.SX.sym("none", 0)
            held = model.violation(step.q)
            factors.append(Factor("joints", Group.STATE, held, {0: here}, none, labels, kind=Kind.HARD))
        return factors + step.law_factors()

    def symbols(self, model: Model, settings: Settings) -> _PoseStep:
        return _PoseStep(model, settings, self)


class _PoseStep(VirtualWork):
    """The symbols of one step around t_k, from the unknowns at three steps."""

    overlap = HATS

    def __init__(self, model: Model, settings: Settings, scheme: PoseSpace) -> None:
        self.model, self.settings, self.law = model, settings, scheme.law
        self.joints, self.variables = JointCoordinates(model), dict(enumerate(scheme.three(model)))
        self.u = ca.SX.sym("u", len(model.inputs))
        n, rows, private = model.configuration.ambient, self.joints.closing_rows, scheme.reactions(model)
        if self.joints.closing:
            first = model.configuration.tangent
            self.private = 1, range(first, first + private)
        cuts = [0, n, n + rows, n + private, self.variables[1].numel()]
        self.q, self.loads, self.random, self.extra = ca.vertsplit(self.variables[1], cuts)
        difference, h = model.configuration.difference, settings.step
        self.v = difference(self.q, self.variables[0][:n]) / h
        self.v_next = difference(self.variables[2][:n], self.q) / h
        # Slip rates at the midpoint velocity, all rows Ḡ at q_k.
        velocities = (self.v + self.v_next) / 2, self.v, self.v_next, self.v_next - self.v
        middle, before, after, change = (model.rates(self.q, v) for v in velocities)
        place = model.displacements(self.q)
        efforts = gear_efforts(model, self.q, place, middle, self.u, settings.slip_width)
        self.slips = Slips.between(middle, (before, after), change, place, efforts)

    def carried(self, impulse: ca.SX) -> Transmitted:
        return self.joints.transmitted(self.q, impulse)

    def needed(self) -> ca.SX:
        model, mass, middle = self.model, self.model.inertia(), (self.v + self.v_next) / 2
        force = model.weight() + Mechanics.gyroscopic_of(mass, middle) + model.pushed(self.q, middle, self.u)
        return mass @ (self.v_next - self.v) - self.settings.step * force


_INSTANT = 1e-6
"""Step over which an impulse is taken as a force [s]; it only scales."""


@dataclass(frozen=True, eq=False)
class JointSystem(System, metaclass=Checked):
    """Mechanism in joint positions and poses of free bodies, with one rate per degree of freedom and no constraints.

    Dry friction is the smooth one: tanh(s/w) of the rate s.

    Args:
        model: a model of bodies in a tree.
        friction_width: w of every coordinate [rad/s or m/s].

    Raises:
        ProblemError: if joints or constraints close loops, or hold velocities.
    """

    model: Model
    friction_width: float = 1e-2
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        if self.model.has_loops or self.model.holding.on_velocities:
            raise ProblemError(
                f"{self.place}: JointSystem is of a model with closed loops or constraints, which have no independent "
                "joint coordinates; leave them out, or describe the mechanism with spookid.planar"
            )
        loaded = next((joint for joint in self.model.joints if joint.follows_load), None)
        if loaded is not None:
            raise ProblemError(
                f"{loaded.place}: {loaded.kind} {loaded.name!r} has load_friction, whose force is no function of "
                "position and rate; give JointSystem a joint with coulomb"
            )

    @cached_property
    def joints(self) -> JointCoordinates:
        """The coordinates."""
        return JointCoordinates(self.model)

    @property
    def names(self) -> tuple[str, ...]:
        return self.joints.names

    @property
    def manifold(self) -> Manifold:
        return self.joints.manifold

    @property
    def signals(self) -> tuple[str, ...]:
        return self.model.signals

    @property
    def independent(self) -> tuple[int, ...]:
        return tuple(range(self.manifold.tangent))

    @property
    def actuated(self) -> tuple[str, ...]:
        return self.names

    def mass(self, q: ca.SX) -> ca.SX:
        """Mass matrix of bodies and shafts, (n, n)."""
        return self._at(q, None, None)[0]

    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Generalized force of loads, motors, friction, weight, and velocity products, (n,)."""
        return self._at(q, v, u)[1]

    def constraint(self, q: ca.SX) -> ca.SX:
        return ca.SX(0, 1)

    def actuation(self, q: ca.SX) -> ca.SX:
        return ca.SX.eye(self.manifold.tangent)

    def expressions(self) -> list[ca.SX]:
        return self.model.expressions()

    def _at(self, q: ca.SX, v: ca.SX | None, u: ca.SX | None) -> tuple[ca.SX, ca.SX]:
        n = self.manifold.tangent
        moving = ca.vertcat(q, ca.SX.zeros(n) if v is None else v, ca.SX.zeros(n))
        given = ca.SX.zeros(len(self.model.inputs)) if u is None else u
        symbols, inputs, parts = self._equations
        mass, force = ca.substitute(parts, [symbols, inputs], [ca.densify(moving), given])
        return mass, force

    @cached_property
    def _equations(self) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
        """Symbols of (q, v, a) and u, with the slopes of what the motion lacks along a, and what acts; both are taken
        at a = 0, where the friction's mean over the step is its value at the instant."""
        settings = Settings.of(self.model)
        found = instant(self.model, settings)
        widths = ca.vertcat(settings.slip_width, settings.turn_width, settings.impulse_width)
        given = ca.vertcat(_INSTANT, self.friction_width * ca.DM.ones(widths.numel()))
        lacking = ca.substitute(found.lacking / settings.step, ca.vertcat(settings.step, widths), given)
        return found.symbols, found.u, [ca.jacobian(lacking, found.symbols[-self.manifold.tangent :]), -lacking]
