"""Steppers from x = (q, v) to x₊ with multipliers λ, of which one method says the equations; the base of your own.

The unknowns at each step are q, v and the λ of the step that has led there. The impulse rows of a step are split as in
``Spook``: joints of the tree transmit nothing besides λ, which are equality constraints, and the rest, along their
coordinates and on free bodies, is random. Of joints that close loops estimated random impulses are unknowns as well.
All other rows are hard.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import field
from functools import cached_property
from typing import ClassVar, TypeVar

import casadi as ca

from spookid.errors import ProblemError, evaluating
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.holding import row_labels
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted, disturbance_names
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping.base import (
    DETERMINISTIC,
    EXTRAPOLATED,
    NEEDS_JOINTS,
    SWITCHED,
    TURNS,
    Dynamics,
    Stepper,
    StepRows,
    compliant,
    refuse_joint_coordinates,
)
from spookid.stepping.contact_law import ContactStep, Reactions
from spookid.stepping.impulses import (
    VELOCITY_ROWS,
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.unknowns import StateScheme
from spookid.transcription.factor import Factor, Group, Kind

T = TypeVar("T", bound="OneStep")


@dataclass(frozen=True, eq=False)
class Impulse:
    """Impulse residual of a step, as a kind of equation."""

    rows: ca.SX
    """(6 n_b,)."""
    at: Mechanics
    """Where its forces act."""
    slips: Slips
    """At which its friction acts."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations of a step in a user-defined stepper; ``OneStep`` has an example."""

    impulse: Impulse
    """As ``Step.impulse`` gives it."""
    hard: ca.SX
    """Rows that vanish: how the poses follow the velocities, (6 n_b,), and a row for each multiplier."""


@dataclass(frozen=True, eq=False)
class Step:
    """Symbols of one step, and functions to build its equations."""

    model: Model
    settings: Settings
    q: ca.SX
    """Poses at its beginning, (7 n_b,)."""
    v: ca.SX
    """Velocities there, (6 n_b,)."""
    q_next: ca.SX
    v_next: ca.SX
    multipliers: ca.SX
    """λ, (n_g,) [N s or N m s]."""
    u: ca.SX
    """Inputs, averaged over the step."""
    random: ca.SX
    """Random impulses; empty if there are none."""
    friction: DryFriction | None
    """None where dry friction is no part of the impulse."""
    extra: ca.SX
    """Unknowns of the friction law."""
    touching: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    """Unknowns of contacts; none where these are no part of the impulse."""

    @property
    def h(self) -> ca.SX:
        """Its length [s]."""
        return self.settings.step

    def plus(self, q: ca.SX, moved: ca.SX) -> ca.SX:
        """Poses q ⊞ moved, by the exponential map."""
        return self.model.configuration.retract(q, moved)

    def minus(self, q_1: ca.SX, q_0: ca.SX) -> ca.SX:
        """Displacement from poses q_0 to q_1, (6 n_b,), by the logarithm."""
        return self.model.configuration.difference(q_1, q_0)

    @property
    def velocity_rows(self) -> ca.SX:
        """Residual A v − γ of velocity constraints at the middle of the step, appended to the stepper's equations."""
        passage = Passage.between(self.model.configuration, self.q, self.q_next, self.h)
        return self.model.holding.over_step(passage, self.u)

    def violation(self, q: ca.SX) -> ca.SX:
        """Position constraints g(q), (n_p,)."""
        return self.model.violation(q)

    @property
    def compliances(self) -> ca.SX:
        """Compliance ε of each constraint equation, (n_g,)."""
        return stacked(joint.compliances() for joint in self.model.joints)

    @cached_property
    def contacts(self) -> ContactStep:
        """Normal and friction forces of contacts, at the poses at the beginning of the step."""
        form = self.friction.form if self.friction else "exact"
        ends = self.q, self.v, self.q_next, self.v_next
        return ContactStep(self.model, self.settings, form, *ends, self.touching)

    def impulse(self, q: ca.SX, v: ca.SX) -> Impulse:
        """Impulse residual M (v₊ − v) − Gᵀλ − Ḡᵀτ − h (f + f_g); all but v₊ − v at poses q and velocities v."""
        at = self.model.mechanics(q)
        now, before, end = (at.slip @ velocity for velocity in (v, self.v, self.v_next))
        efforts = gear_efforts(self.model, q, at.displacement, now, self.u, self.settings.slip_width)
        slips = Slips.between(now, (before, end), end - before, at.displacement, efforts)
        rubbing = ca.SX(len(self.model.freedoms), 1)
        if self.friction is not None:
            rubbing = self.friction.impulses(self.model, self.settings, slips, self.multipliers, self.extra)
        along = along_coordinates(self.model, self.settings, slips, rubbing, self.u)
        force = at.force + at.gyroscopic(v) + self.model.pushed(q, v, self.u)
        acting = at.slip.T @ along + self.h * force + disturbance(self.model, at, self.random)
        if self.touching.numel():
            acting += self.contacts.impulse
        return Impulse(at.mass @ (self.v_next - self.v) - at.constraint.T @ self.multipliers - acting, at, slips)


class OneStep(StateScheme["_Rows"], Stepper):
    """Base class of user-defined steppers: define ``name``, ``order`` and ``equations``.

    The implicit midpoint rule:

    >>> class Midpoint(OneStep):
    ...     name, order = "midpoint", 2
    ...
    ...     def equations(self, step):
    ...         v = (step.v + step.v_next) / 2
    ...         moved = step.minus(step.q_next, step.q) / step.h - v
    ...         middle = step.plus(step.q, step.h / 2 * v)
    ...         return Equations(step.impulse(middle, v), ca.vertcat(moved, step.violation(step.q_next) / step.h))
    """

    rigid: ClassVar[bool] = True
    """True if joints hold exactly: then they do so in the first state, too. False for equations with compliance."""
    refuses: ClassVar[Mapping[str, str]] = {
        SWITCHED: NEEDS_JOINTS,
        EXTRAPOLATED: "its order of convergence is unknown",
        DETERMINISTIC: "without extrapolation to step zero, discretization errors would decide between both",
        TURNS: "its joints are constraints on poses",
    }

    @abstractmethod
    def equations(self, step: Step) -> Equations:
        """Equations of a step, which may contain all symbols of ``step``."""

    def fitting(self: T, model: Model, law: DryFriction, dynamics: Dynamics) -> T:
        """Same stepper with a form of dry friction and of noise."""
        refuse_joint_coordinates(model)
        other = copy(self)
        for name, value in (("law", law), ("dynamics", dynamics)):
            object.__setattr__(other, name, value)
        return other

    def stiffened(self, model: Model) -> list[str]:
        """Names of joints that are less compliant than declared."""
        return compliant(model) if self.rigid else []

    def reactions(self, model: Model) -> int:
        """Reactions of the preceding step: λ, and random impulses in loops if they are estimated."""
        return model.rows + self._random(model)

    def _random(self, model: Model) -> int:
        return len(JointCoordinates(model).cut_places) if self.estimated else 0

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return mean

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return mean

    def symbols(self, model: Model, settings: Settings) -> _Rows:
        return _Rows(model, settings, self)

    def step(self, model: Model, settings: Settings) -> _Rows:
        return self.symbols(model, settings)  # a class of yours may have fields that are no keys

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Factors of the first state, equality constraints, and random impulses."""
        step, none = self.step(model, settings), ca.SX.sym("none", 0)
        (held, fast), variables, loads = self._labels(model), step.variables, step.split.loads
        labels = tuple(f"v {label}" for label in row_labels(model.bodies, "moved")) + held
        tree = tuple(f"λ {label}" for label in model.holding.labels(step.joints.tree))
        balance = ca.vertcat(ca.SX(0, 1), *(loads[joint] for joint in step.joints.tree))
        speeds = step.own.velocity_rows, variables, model.holding.speed_data(step.u), fast
        others = [
            self._first(model, step.x, step.own),
            Factor("step", Group.STATE, step.written.hard, variables, none, labels, kind=Kind.HARD),
            Factor("transmitted", Group.STATE, balance, variables, step.u, tree, kind=Kind.HARD),
            Factor(VELOCITY_ROWS, Group.STATE, *speeds, kind=Kind.HARD),
        ]
        return [*(f for f in others if f.rows), step.impulse(self), *step.law_factors()]

    @staticmethod
    def _labels(model: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the constraint equations on positions, and of those on velocities."""
        labels, held = model.holding.labels(), model.rows - model.holding.on_velocities
        return labels[:held], labels[held:]

    def _first(self, model: Model, x: ca.SX, step: Step) -> Factor:
        """In the first state joints hold, if they are rigid; what led to it is nothing."""
        m = model.state.ambient
        rest = x[m : m + self.reactions(model) + self.touching(model)]
        at, v, labels = model.mechanics(x[: model.configuration.ambient]), x[model.configuration.ambient : m], []
        rows = [rest]
        names = [f"before {i}" for i in range(rest.numel())]
        if self.rigid:
            held, fast = self._labels(model)
            rows += [at.violation, at.constraint @ v - model.holding.all_speeds(step.u)]
            labels = [*(f"{label} apart" for label in held), *(f"{label} parting" for label in held + fast)]
        given = "first state", Group.STATE, ca.vertcat(*rows), {0: x}, model.holding.speed_data(step.u)
        return Factor(*given, (*names, *labels), first_only=True, kind=Kind.HARD)

    def symbols_of(self, model: Model, settings: Settings) -> tuple[ca.SX, ca.SX, Step]:
        """Unknowns at both ends of a step, and the step's symbols."""
        size, n, m = self.manifold(model).ambient, model.configuration.ambient, model.state.ambient
        x, x_next, u = ca.SX.sym("x", size), ca.SX.sym("x_next", size), ca.SX.sym("u", len(model.inputs))
        multipliers, random = x_next[m : m + model.rows], ca.SX(0, 1)
        if self._random(model):
            random = ca.SX.zeros(len(disturbance_names(model)))
            random[JointCoordinates(model).cut_places] = x_next[m + model.rows : m + model.rows + self._random(model)]
        last = size - self.law.unknowns(model)
        touching = x_next[m + model.rows + self._random(model) : last]
        ends = x[:n], x[n:m], x_next[:n], x_next[n:m]
        extra = (x_next if model.contacts else x)[last:]  # beside contacts an unknown of the step's end, as theirs
        return x, x_next, Step(model, settings, *ends, multipliers, u, random, self.law, extra, touching)

    def written(self, step: Step) -> Equations:
        """Equations of a step, with a check of their number."""
        wanted = step.v.numel() + step.multipliers.numel() - step.model.holding.on_velocities
        with evaluating(f"Stepper {self.name!r}: equations"):
            written = self.equations(step)
            _ = written.hard.numel(), written.impulse.rows.numel()  # it may have returned something else
        if written.hard.numel() != wanted:
            raise ProblemError(
                f"Stepper {self.name!r} has {written.hard.numel()} equality constraints per step; required are "
                f"{step.v.numel()} for the poses and one for each of {wanted - step.v.numel()} multipliers"
            )
        return written

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """Step as equations in (w, v₊, λ) with q₊ = q ⊞ h w; reactions act at q as with rigid joints."""
        n, t = model.configuration.ambient, model.configuration.tangent
        x, u = ca.SX.sym("x", model.state.ambient), ca.SX.sym("u", len(model.inputs))
        w, v_next, multipliers = ca.SX.sym("w", t), ca.SX.sym("v_next", t), ca.SX.sym("lambda", model.rows)
        q, v, q_next = x[:n], x[n:], model.configuration.retract(x[:n], settings.step * w)
        impulses, law = random_symbol(model, random), None if exact else DryFriction()
        step = Step(model, settings, q, v, q_next, v_next, multipliers, u, impulses, law, ca.SX(0, 1))
        written, laws = self.written(step), None
        impulse, slips = written.impulse.rows, written.impulse.slips
        if exact:
            reactions = Reactions(model, settings, model.mechanics(q), q)
            laws = reactions.laws(slips, multipliers, reactions.rates(v_next, reactions.rigid(q_next, v)))
            impulse -= reactions.impulse(slips, multipliers)
        return ForwardStep(
            x=ca.vertcat(q, v),
            u=ca.vertcat(u, impulses),
            unknowns=ca.vertcat(w, v_next, multipliers),
            equations=ca.vertcat(impulse, written.hard, step.velocity_rows),
            x_next=ca.vertcat(q_next, v_next),
            guess=ca.vertcat(v, v, ca.SX.zeros(model.rows)),
            velocities=2 * t,
            laws=laws,
        )


class _Rows(StepRows):
    """The symbols of one step, and its impulse split between the joints of the tree."""

    def __init__(self, model: Model, settings: Settings, scheme: OneStep) -> None:
        self.model, self.settings, self.law = model, settings, scheme.law
        self.x, after, self.own = scheme.symbols_of(model, settings)
        self.joints, self.variables, self.u, self.extra = (
            JointCoordinates(model),
            {0: self.x, 1: after},
            self.own.u,
            self.own.extra,
        )
        self.written = scheme.written(self.own)
        self.slips = self.written.impulse.slips
        self.random = (
            stacked(self.own.random[place] for place in self.joints.cut_places)
            if self.own.random.numel()
            else ca.SX(0, 1)
        )

    @cached_property
    def split(self) -> Transmitted:
        """Impulses that the tree's joints must transmit besides λ, and the impulses along their coordinates."""
        return self.joints.balanced(self.written.impulse.at, self.written.impulse.rows)

    @property
    def residual(self) -> ca.SX:
        return self.split.along

    @property
    def rates(self) -> ca.SX:
        impulse = ca.SX.sym("p", self.model.configuration.tangent)
        return ca.jacobian(self.joints.balanced(self.written.impulse.at, impulse).along, impulse).T

    @property
    def multipliers(self) -> ca.SX:
        return self.own.multipliers

    @cached_property
    def contacts(self) -> ContactStep | None:
        return self.own.contacts if self.model.contacts else None
