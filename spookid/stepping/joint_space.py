"""The variational step in the coordinates of the joints, for a likelihood: what is random is a row a degree of freedom.

The step is that of ``variational``, M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g), g = 0 at every k, with poses that are placed
from joint coordinates, so that joints of the tree hold identically and their λ follow from the impulses that they
carry. What is left is the virtual work of the residual p along unit rates,

    w = Sᵀp,    n rows in N m s (N s for the translation of free bodies),

random with a standard deviation of s √h, where s is a disturbance in N m/√Hz. It is a density of the new state, unless
the torque at a joint is measured: then its row is an error of that measurement.

Joints that close a loop hold by hard rows; their λ, and the random impulses along their coordinates, are private
unknowns of the step, so that the covariance of the rows that remain is Σ_j s_j² a_j a_jᵀ over all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.interpolation import slopes
from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.mechanics.body import Body
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.impacts import Impact
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.linear import halved
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.mechanics.recursion import Recursion, Wrench
from spookid.mechanics.touching import Touch
from spookid.parameter import stacked
from spookid.stepping.base import Scheme
from spookid.stepping.contact_rows import AROUND, ContactRows, Schedule, StepMotion, impact_factor
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import HATS, Settings, Slips
from spookid.stepping.leapfrog import Leapfrog
from spookid.stepping.pose_space import PoseSpace
from spookid.stepping.unknowns import PositionScheme, middle, sides
from spookid.stepping.virtual_work import VirtualWork, WorkScheme
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class JointSpace(WorkScheme, PositionScheme):
    """Joint coordinates at each step as unknowns."""

    name = "variational"
    offers_hard: ClassVar[bool] = True
    turns: ClassVar[bool] = True
    switches: ClassVar[bool] = True
    law: DryFriction = field(default=DryFriction(), repr=False)
    weighted: bool = False
    """True for rows with the weight κ, or hard, False for those of a likelihood."""

    def fitting(self, model: Model) -> Scheme:
        """The same step with poses and velocities as unknowns if constraints hold velocities or contacts push, or with
        poses alone if those are asked for.

        Raises:
            ProblemError: for joint coordinates with constraints on velocities.
        """
        slides = any(tie.on_velocities and not isinstance(tie, Touch) for tie in model.ties)
        if model.coordinates == "joint" and (slides or model.contacts):
            what = "contacts, which need" if model.contacts else "a constraint on velocities, which needs"
            raise ProblemError(
                f"{model.place}: Model has coordinates 'joint' and {what} those of all bodies; leave coordinates out"
            )
        if slides or model.contacts or (model.holding.contacts and model.coordinates == "maximal"):
            return Leapfrog(law=self.law)
        return PoseSpace(self.law) if model.coordinates == "maximal" else self

    def motion(self, model: Model) -> Manifold:
        """The coordinates of the joints."""
        return JointCoordinates(model).manifold

    def reactions(self, model: Model) -> int:
        """What cut joints transmit, and in a likelihood the random impulses along their coordinates."""
        joints = JointCoordinates(model)
        return joints.closing_rows + (0 if self.weighted else joints.cut_rates)

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return JointCoordinates(model).configuration(x)

    def moving(self, model: Model, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
        """Of all bodies, by recursion along the tree."""
        return _motion(JointCoordinates(model), x, s, a, order)

    def through(
        self, model: Model, settings: Settings, order: int, states: int
    ) -> tuple[dict[int, ca.SX], list[Motion]] | None:
        """Of joints that do not turn in space: their coordinates are interpolated."""
        joints = JointCoordinates(model)
        if any(kind != "flat" for kind, _ in joints.manifold.parts):
            return None
        x = [ca.SX.sym(f"x_{i}", self.manifold(model).ambient) for i in range(states)]
        places = ca.horzcat(*(one[: joints.manifold.ambient] for one in x))
        rates, changes = (places @ slopes(states, n).T / settings.step**n for n in (1, 2))
        return dict(enumerate(x)), [_motion(joints, one, rates[:, i], changes[:, i], order) for i, one in enumerate(x)]

    def start(self, model: Model, states: Array, displacements: Array, friction: Array) -> Array:
        """Joint coordinates, and nothing transmitted."""
        joints = JointCoordinates(model)
        given = ca.SX.sym("displacements", len(model.freedoms)), ca.SX.sym("roots", 7 * len(joints.roots))
        convert = ca.Function("coordinates", list(given), [ca.densify(joints.coordinates(*given))])
        roots = [states[:, 7 * i : 7 * i + 7] for i in (model.bodies.index(body) for body in joints.roots)]
        poses = np.hstack([np.zeros((len(states), 0)), *roots])
        tree = np.asarray(convert(displacements.T, poses.T).full()).T
        return np.hstack([tree, np.zeros((len(states), self.reactions(model))), friction])

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of each inner step, and those that close loops at every step."""
        step = self.step(model, settings)
        joints = step.joints
        first = joints.manifold.tangent
        private = (1, range(first, first + self.reactions(model))) if joints.closing else None
        impulse = _weighted(step, private, hard) if self.weighted else step.random_factor(private, HATS)
        factors = []
        if model.holding.contacts and self.weighted:
            impulse = step.contacts.idle(impulse)
            if len(step.impacts) < len(model.holding.contacts):
                factors.append(step.contacts.hard(step.variables).written_in(step.symbols, step.values))
        elif model.holding.contacts:
            impulse = step.contacts.beside(impulse, first - 6 * len(joints.roots))
        factors.insert(0, impulse.written_in(step.symbols, step.values))
        if step.impacts:
            unknowns = [ca.SX.sym(f"x_{i}", self.manifold(model).ambient) for i in range(2 * AROUND + 1)]
            steps = dict(enumerate(unknowns))
            factors.append(impact_factor(joints, settings, step.impacts, steps, self.weighted))
        closing = [thing for thing in joints.closing if thing not in model.holding.contacts]
        if closing:
            closed, none = ca.vertcat(*step.closed), ca.SX.sym("none", 0)
            rows = model.holding.labels(closing)
            factors.append(Factor("joints", Group.STATE, closed, {0: step.here}, none, rows, kind=Kind.HARD))
        law = self.law.factors(model, settings, step.slips, step.extra, step.variables)
        return factors + [factor.substituted(step.symbols, step.values) for factor in law]

    def step(self, model: Model, settings: Settings) -> _JointStep:
        """That around t_k."""
        return _step(model, settings, self)


@dataclass(frozen=True, eq=False)
class Instant:
    """Equations of motion at an instant of a tree, in its joint coordinates, with smooth dry friction."""

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
    """The equations of motion of a model without closed loops and constraints; those are an instant's if h is small."""
    scheme = JointSpace()
    step = _step(model, settings, scheme)
    before, here, after = (ca.SX.sym(name, scheme.manifold(model).ambient) for name in ("before", "here", "after"))
    moved = middle(*sides(step.joints.manifold, (before, here, after), settings.step), settings.step)
    return Instant((before, here, after), ca.vertcat(here, *moved), step.symbols, step.u, step.residual)


def _weighted(step: _JointStep, private: tuple[int, range] | None, hard: bool) -> Factor:
    """√κ L⁻¹ w with L Lᵀ = SᵀS: its square is that of the least p of all bodies with Sᵀp = w, which is what the rows in
    maximal coordinates cost at their best λ."""
    rows = step.residual
    if not hard:
        S = ca.jacobian(step.motion.v, step.motion.s)
        rows = ca.sqrt(step.settings.weight) * halved(S.T @ S, rows)
    return Factor(
        "impulse",
        Group.STATE,
        rows,
        step.variables,
        step.u,
        tuple(f"Δp {name}" for name in step.joints.names),
        motion=True,
        kind=Kind.HARD if hard else Kind.SOFT,
        private=private,
    )


def _motion(joints: JointCoordinates, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
    """Of all bodies, with as many time derivatives as are asked for."""
    motion = Recursion(joints, x[: joints.manifold.ambient], s, a)
    still = ca.SX(joints.model.configuration.tangent, 1)
    v, acceleration = (motion.v if order else still), (motion.accelerations if order == 2 else still)
    return Motion(
        motion.q, v, acceleration, (motion.positions, motion.rates if order else ca.SX(len(joints.model.freedoms), 1))
    )


@lru_cache(maxsize=4)
def _step(model: Model, settings: Settings, scheme: JointSpace) -> _JointStep:
    """Kept, for a fit needs it several times, and building expressions takes longer than an iteration."""
    return _JointStep(model, settings, scheme.law, scheme.manifold(model))


class _JointStep(VirtualWork):
    """The symbols of one step around t_k.

    All is written in the unknowns x there, and in rates s and accelerations a: the mean of (x_k ⊟ x_{k−1})/h and
    (x_{k+1} ⊟ x_k)/h, and their difference over h.
    """

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints = JointCoordinates(model)
        self.variables = {i: ca.SX.sym(name, manifold.ambient) for i, name in enumerate(("x_before", "x", "x_after"))}
        self.here = ca.SX.sym("x_here", manifold.ambient)
        self.u = ca.SX.sym("u", len(model.signals))
        n, rows = self.joints.manifold.ambient, self.joints.closing_rows
        cuts = [0, n, n + rows, manifold.ambient - law.unknowns(model), manifold.ambient]
        x, loads, self.random, self.extra = ca.vertsplit(self.here, cuts)
        self.schedule = Schedule.of(model)
        self._unknown = self.joints.apart(loads)
        self.loads = stacked(self.schedule.acting(thing) * own for thing, own in self._unknown.items())
        s, a = (ca.SX.sym(name, self.joints.manifold.tangent) for name in ("s", "a"))
        moved = sides(self.joints.manifold, list(self.variables.values()), settings.step)
        after = self._places(self.joints.configuration(self.variables[2]))
        self._after = [ca.SX.sym("place", place.numel()) for place in after]
        """Where contacts are at t_{k+1}."""
        self.symbols = ca.vertcat(self.here, s, a, *self._after)
        self.values = ca.vertcat(self.variables[1], *middle(*moved, settings.step), *after)
        self.motion = Recursion(self.joints, x, s, a)
        self._here = self._places(self.motion.q)
        """Where they are at t_k."""
        if self.schedule.late is not None:
            self._move_to_impact(moved)
        self.slips = self._slips()

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
    def contacts(self) -> ContactRows:
        """Those that hold."""
        motion = StepMotion(self.q, self.motion.v, self.motion.accelerations, self._here, self._after)
        return ContactRows(self.model, self.settings, motion, self.schedule, self._unknown)

    def settled(self, expression: ca.SX) -> ca.SX:
        """In the unknowns at three steps; λ of contacts that do not hold are nothing by rows of their own."""
        written = ca.substitute(ca.densify(expression), self.symbols, self.values)
        settled: ca.SX = ca.substitute(written, self.schedule.data, self.schedule.throughout)
        return settled

    def _slips(self) -> Slips:
        """Slip rates at t_k, and how they change over the step."""
        h = self.settings.step
        displacements, now, change = self.motion.positions, self.motion.rates, h * self.motion.rate_changes
        sides = now - change / 2, now + change / 2
        ranged = (joint.in_range(displacements[self.model.freedoms_of(joint), 0]) for joint in self.model.joints)
        position = stacked(ranged)
        return Slips(now=now, end=sides[1], before=now, change=change, rubbing=sides, position=position)

    @property
    def closed(self) -> list[ca.SX]:
        """Rows of what closes: g of each joint that closes a loop and of each constraint on positions."""
        q, model = self.motion.q, self.model
        of_joints = [model.joint(joint, q).violation for joint in self.joints.cut]
        ties = (tie for tie in model.ties if not tie.on_velocities)
        positions = self.motion.positions

        def at(joint: Joint) -> ca.SX:
            return positions[model.freedoms_of(joint), 0]

        return [*of_joints, *(model.holding.tied(tie, q, at) for tie in ties)]

    @cached_property
    def closing(self) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """λ of what closes, and what they do to the bodies with the friction of impacts, (6 n_b,)."""
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

    @property
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""
        return self.motion.q

    def transmitted(self, along: ca.SX) -> Transmitted:
        """What the joints of the tree transmit, with impulses along the coordinates of all joints."""
        return self.joints.transmitted(self.q, self.motion.in_world(self._needed(along)))

    def net(self, along: ca.SX) -> ca.SX:
        """What the motion takes along unit rates, less loads on bodies and what closes, (n,)."""
        return self.motion.along(self._needed(along))

    def _needed(self, along: ca.SX) -> dict[Body, Wrench]:
        """Impulses that the motion takes, less those of loads on points and of joints that close loops."""
        h, motion, model = self.settings.step, self.motion, self.model
        needed = {body: (h * force, h * torque) for body, (force, torque) in motion.needed.items()}
        given = self.cut(along)
        if model.loads:
            given += h * model.pushed(motion.q, motion.v, self.u)
        return motion.less(needed, given) if given.nnz() else needed
