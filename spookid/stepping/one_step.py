"""Steppers from x = (q, v) to x₊ with multipliers λ, of which one method says the equations; the base of your own.

The unknowns at each step are q, v and the λ of the step that has led there. Of a step's rows those of the impulse are
weighted, or hard, and all others are hard. Where the noise is estimated the impulse rows are split as in
``SpookSpace``: what joints of the tree would have to transmit besides λ is nothing, hard rows, and what is left along
their coordinates and on free bodies is random. Of joints that close loops the random impulses are unknowns as well.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import field
from functools import cached_property
from typing import ClassVar, TypeVar

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, evaluating
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.joint_coordinates import JointCoordinates, disturbance_names
from spookid.mechanics.model import Mechanics, Model, row_labels
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping import contact_law
from spookid.stepping.base import Stepper, compliant
from spookid.stepping.contact_law import ContactStep, Reactions
from spookid.stepping.impulses import (
    VELOCITY_ROWS,
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    StepFunction,
    along_coordinates,
    disturbance,
    random_factor,
    random_symbol,
)
from spookid.stepping.unknowns import StateScheme
from spookid.transcription.factor import Factor, Group, Kind

T = TypeVar("T", bound="OneStep")


@dataclass(frozen=True, eq=False)
class Impulse:
    """What a step lacks of the impulses that its change of velocity takes."""

    rows: ca.SX
    """(6 n_b,)."""
    at: Mechanics
    """Where its forces act."""
    slips: Slips
    """At which its friction acts."""


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations of a step."""

    impulse: Impulse
    """As ``Step.impulse`` gives it."""
    hard: ca.SX
    """Rows that vanish: how the poses follow the velocities, (6 n_b,), and a row for each multiplier."""


@dataclass(frozen=True, eq=False)
class Step:
    """The symbols of one step, and what its equations are made of."""

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
        """Poses q ⊞ moved, by the exponential."""
        return self.model.configuration.retract(q, moved)

    def minus(self, q_1: ca.SX, q_0: ca.SX) -> ca.SX:
        """What moves poses q_0 to q_1, (6 n_b,), by the logarithm."""
        return self.model.configuration.difference(q_1, q_0)

    @property
    def velocity_rows(self) -> ca.SX:
        """A v − γ of constraints on velocities at the middle of the step, which stand below the rows of the stepper."""
        passage = Passage.between(self.model.configuration, self.q, self.q_next, self.h)
        return self.model.holding.over_step(passage, self.u)

    def violation(self, q: ca.SX) -> ca.SX:
        """g(q) of the constraints on positions, (n_p,)."""
        return self.model.violation(q)

    @property
    def compliances(self) -> ca.SX:
        """ε of each constraint row, (n_g,)."""
        return stacked(joint.compliances() for joint in self.model.joints)

    @cached_property
    def contacts(self) -> ContactStep:
        """What contacts do, which push and rub at the poses at the beginning."""
        form = self.friction.form if self.friction else "exact"
        ends = self.q, self.v, self.q_next, self.v_next
        return ContactStep(self.model, self.settings, form, *ends, self.touching)

    def impulse(self, q: ca.SX, v: ca.SX) -> Impulse:
        """M (v₊ − v) − Gᵀλ − Ḡᵀτ − h (f + f_g), all but v₊ − v at the poses q and velocities v."""
        at = self.model.mechanics(q)
        now, before, end = (at.slip @ velocity for velocity in (v, self.v, self.v_next))
        slips = Slips.between(now, (before, end), end - before, at.displacement)
        rubbing = ca.SX(len(self.model.freedoms), 1)
        if self.friction is not None:
            rubbing = self.friction.impulses(self.model, self.settings, slips, self.multipliers, self.extra)
        along = along_coordinates(self.model, self.settings, slips, rubbing, self.u)
        force = at.force + at.gyroscopic(v) + self.model.pushed(q, v, self.u)
        acting = at.slip.T @ along + self.h * force + disturbance(self.model, at, self.random)
        if self.touching.numel():
            acting += self.contacts.impulse
        return Impulse(at.mass @ (self.v_next - self.v) - at.constraint.T @ self.multipliers - acting, at, slips)


class OneStep(StateScheme, Stepper):
    """A stepper of your own: say its ``name``, its ``order`` and its ``equations``.

    The implicit midpoint rule::

        class Midpoint(OneStep):
            name, order = "midpoint", 2

            def equations(self, step):
                v = (step.v + step.v_next) / 2
                moved = step.minus(step.q_next, step.q) / step.h - v
                middle = step.plus(step.q, step.h / 2 * v)
                return Equations(step.impulse(middle, v), ca.vertcat(moved, step.violation(step.q_next) / step.h))
    """

    two_sided: ClassVar[bool] = True
    rigid: ClassVar[bool] = True
    """True if joints hold exactly: then they do so in the first state, too. False for equations with compliance."""
    estimates: bool = False
    """True of the scheme where the noise is estimated."""
    touches: ClassVar[bool] = True

    @abstractmethod
    def equations(self, step: Step) -> Equations:
        """Rows of a step, which may contain all of its symbols."""

    def likelihood(self: T, law: DryFriction) -> T:
        """The same step with random impulses."""
        other = copy(self.with_law(law))
        object.__setattr__(other, "estimates", True)
        return other

    def stiffened(self, model: Model) -> list[str]:
        """Which joints are not as compliant as declared."""
        return compliant(model) if self.rigid else []

    def reactions(self, model: Model) -> int:
        """Of the step before: λ, random impulses in loops if they are estimated, and what contacts do."""
        return model.rows + self._random(model) + contact_law.unknowns(model, self.law.form)

    def _random(self, model: Model) -> int:
        return len(JointCoordinates(model).cut_places) if self.estimates else 0

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """The states, and no multipliers; what contacts do in each step stands in front of the friction law's."""
        touching, own = np.hsplit(friction, [contact_law.unknowns(model, self.law.form)])
        before = np.vstack([np.zeros((1, touching.shape[1])), touching[:-1]])
        return np.hstack([states, np.zeros((len(states), model.rows + self._random(model))), before, own])

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return mean

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return mean

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """Impulse rows, hard rows and those of the first state; with noise estimated random rows for the first."""
        x, x_next, step = self._symbols(model, settings)
        variables, written = {0: x, 1: x_next}, self._written(step)
        (held, fast), speeds = self._labels(model), model.holding.speed_data(step.u)
        labels = tuple(f"v {label}" for label in row_labels(model, "moved")) + held
        rows, data = written.hard, ca.SX.sym("none", 0)
        if self.estimates:
            joints = JointCoordinates(model)
            split = joints.balanced(written.impulse.at, written.impulse.rows)
            impulses = ca.vertcat(split.along, *(step.random[place] for place in joints.cut_places))
            impulse = random_factor(joints, settings, impulses, variables, step.u)
            rows, data = ca.vertcat(rows, *(split.loads[joint] for joint in joints.tree)), step.u
            labels += tuple(f"λ {label}" for label in model.holding.labels(joints.tree))
        else:
            weighted = (1 if hard else ca.sqrt(settings.weight)) * written.impulse.rows
            balance, kind = row_labels(model, "Δp"), Kind.HARD if hard else Kind.SOFT
            impulse = Factor("impulse", Group.STATE, weighted, variables, step.u, balance, kind=kind, motion=True)
        others = [
            self._first(model, x, step),
            Factor("step", Group.STATE, rows, variables, data, labels, kind=Kind.HARD),
            Factor(VELOCITY_ROWS, Group.STATE, step.velocity_rows, variables, speeds, fast, kind=Kind.HARD),
        ]
        law = self.law.factors(model, settings, written.impulse.slips, step.extra, variables)
        return [*(factor for factor in others if factor.rows), impulse, *step.contacts.factors(variables), *law]

    @staticmethod
    def _labels(model: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the constraint rows on positions, and of those on velocities."""
        labels, held = model.holding.labels(), model.rows - model.holding.on_velocities
        return labels[:held], labels[held:]

    def _first(self, model: Model, x: ca.SX, step: Step) -> Factor:
        """In the first state joints hold, if they are rigid; what led to it is nothing."""
        m = model.state.ambient
        rest = x[m : m + self.reactions(model)]
        at, v, labels = model.mechanics(x[: model.configuration.ambient]), x[model.configuration.ambient : m], []
        rows = [rest]
        names = [f"before {i}" for i in range(rest.numel())]
        if self.rigid:
            held, fast = self._labels(model)
            rows += [at.violation, at.constraint @ v - model.holding.all_speeds(step.u)]
            labels = [*(f"{label} apart" for label in held), *(f"{label} parting" for label in held + fast)]
        given = "first state", Group.STATE, ca.vertcat(*rows), {0: x}, model.holding.speed_data(step.u)
        return Factor(*given, (*names, *labels), first_only=True, kind=Kind.HARD)

    def _symbols(self, model: Model, settings: Settings) -> tuple[ca.SX, ca.SX, Step]:
        """The unknowns at both ends of a step, and the step."""
        size, n, m = self.manifold(model).ambient, model.configuration.ambient, model.state.ambient
        x, x_next, u = ca.SX.sym("x", size), ca.SX.sym("x_next", size), ca.SX.sym("u", len(model.signals))
        multipliers, random = x_next[m : m + model.rows], ca.SX(0, 1)
        if self._random(model):
            random = ca.SX.zeros(len(disturbance_names(model)))
            random[JointCoordinates(model).cut_places] = x_next[m + model.rows : m + model.rows + self._random(model)]
        last = size - self.law.unknowns(model)
        touching = x_next[m + model.rows + self._random(model) : last]
        ends = x[:n], x[n:m], x_next[:n], x_next[n:m]
        return x, x_next, Step(model, settings, *ends, multipliers, u, random, self.law, x[last:], touching)

    def _written(self, step: Step) -> Equations:
        """The equations, as many as they must be."""
        wanted = step.v.numel() + step.multipliers.numel() - step.model.holding.on_velocities
        with evaluating(f"Stepper {self.name!r}: equations"):
            written = self.equations(step)
            _ = written.hard.numel(), written.impulse.rows.numel()  # it may have returned something else
        if written.hard.numel() != wanted:
            raise ProblemError(
                f"Stepper {self.name!r} has {written.hard.numel()} hard rows; it needs {step.v.numel()} that move the "
                f"poses and one for each of {wanted - step.v.numel()} multipliers"
            )
        return written

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        x, x_next, step = self._symbols(model, settings)
        return StepFunction({0: x, 1: x_next}, step.u, step.multipliers)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        x, x_next, step = self._symbols(model, settings)
        slips = self._written(step).impulse.slips
        value = self.law.along(model, settings, slips, step.multipliers, step.extra)
        return StepFunction({0: x, 1: x_next}, step.u, value)

    def contacts_along(self, model: Model, settings: Settings) -> StepFunction:
        x, x_next, step = self._symbols(model, settings)
        return StepFunction({0: x, 1: x_next}, step.u, step.contacts.along)

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """The step as equations in (w, v₊, λ) with q₊ = q ⊞ h w; reactions act at q and push as rigid joints do."""
        n, t = model.configuration.ambient, model.configuration.tangent
        x, u = ca.SX.sym("x", model.state.ambient), ca.SX.sym("u", len(model.signals))
        w, v_next, multipliers = ca.SX.sym("w", t), ca.SX.sym("v_next", t), ca.SX.sym("lambda", model.rows)
        q, v, q_next = x[:n], x[n:], model.configuration.retract(x[:n], settings.step * w)
        impulses, law = random_symbol(model, random), None if exact else DryFriction()
        step = Step(model, settings, q, v, q_next, v_next, multipliers, u, impulses, law, ca.SX(0, 1))
        written, laws = self._written(step), None
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
