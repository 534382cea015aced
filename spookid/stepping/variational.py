"""A variational step of second order in positions alone, with rigid joints.

With v = (q_k ⊟ q_{k−1})/h and v₊ = (q_{k+1} ⊟ q_k)/h, by the exact logarithm, the step at t_k is

    M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g)(q_k, (v + v₊)/2),        g(q_k) = 0 at every k.

Derivation. The discrete Lagrangian L_d(q_k, q_{k+1}) = h T((q_{k+1} ⊟ q_k)/h) − (h/2)(U(q_k) + U(q_{k+1})) gives, with
respect to translations, M(v₊ − v) = −h ∂U + Gᵀλ; for rotations the momentum Jω is carried from one body frame to the
next, and the change of frame over a step of angle hω contributes −h ω × Jω up to terms of third order. Taken at the
midpoint velocity v̄ = (v + v₊)/2, that term does no work on v̄: for a free body ½ω₊ᵀJω₊ − ½ωᵀJω = ω̄ᵀJ(ω₊ − ω) = 0,
kinetic energy is kept exactly. Dissipation at v̄ makes the step symmetric in time, hence of second order; the small-
angle difference (3.24) in the place of the logarithm would leave an error of (hω)²/6 in every velocity.

Dry friction is the mean over all velocities between v and v₊, symmetric like the rest, so that the order is two through
every reversal of a joint too, however sharp it is (``DryFriction``). A simulation with friction that sticks has it
follow the velocity v₊ at the end of the step, an error of first order that its own substeps take away.

Constraints hold at every step and not through a spring, so that the step has no constraint dynamics of its own: the row
g + ελ/h = 0 would be an explicit spring, unstable for small ε. Compliance and damping of joints are ignored.

A velocity of a state x_k = (q_k, v_k) is that at t_k. The first forward step has only the half interval from t_0: it
adds half the impulse of a step around t_0 from 2 v_0 − v_½, M (v_½ − v_0) = Gᵀλ + Ḡᵀτ/2 + (h/2)(f + f_g)(q_0, v_0).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.model import Mechanics, Model, row_labels
from spookid.records import dataclass
from spookid.stepping.base import Scheme, Stepper, compliant
from spookid.stepping.contact_law import Reactions
from spookid.stepping.impulses import (
    VELOCITY_ROWS,
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    StepFunction,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.joint_space import JointSpace
from spookid.stepping.unknowns import PositionScheme, hats
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class Variational(PositionScheme, Stepper):
    """Positions at each step and the multipliers of rigid joints as unknowns."""

    name = "variational"
    corrects: ClassVar[bool] = True
    staggered: ClassVar[bool] = True
    two_sided: ClassVar[bool] = True
    forward_turns: ClassVar[bool] = True

    law: DryFriction = field(default=DryFriction(), repr=False)
    """Form of dry friction; ``Problem.friction`` sets it."""

    def likelihood(self, law: DryFriction) -> JointSpace:
        """The same step in the coordinates of the joints."""
        return JointSpace(law)

    def fitting(self, model: Model) -> Scheme:
        """The same step in the coordinates of the joints, if those are asked for, in trees that have no limits, where
        turns of angles must be told, for constraints on velocities, and if contacts push."""
        tree = not (
            model.has_loops
            or set(model.ties) - set(model.holding.contacts)
            or any(joint.limits is not None for joint in model.joints)
        )
        needing = tree or model.holding.rolling or any(not tie.told_by_poses for tie in model.ties)
        if model.contacts or model.coordinates == "joint" or (model.coordinates is None and needing):
            return JointSpace(self.law, weighted=True).fitting(model)
        return self

    def stiffened(self, model: Model) -> list[str]:
        """Which joints are not as compliant as declared."""
        return compliant(model)

    def reactions(self, model: Model) -> int:
        return model.rows

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 2, n_u): the mean input over the interval around t_1 … t_{N−2}."""
        return (held[:-2] + held[1:-1]) / 2

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The impulse residual at each inner step, hard if ``hard``, and the rows g(q_k) = 0 at every step."""
        step = _Inner(model, settings, self)
        impulse = _impulse(model, settings, step.at, step.sides, step.multipliers, step.friction, step.u)
        weight, m = 1 if hard else ca.sqrt(settings.weight), model.configuration.tangent
        given = "impulse", Group.STATE, weight * impulse, step.variables, step.u, row_labels(model, "Δp")
        private = (1, range(m, m + model.rows)) if model.rows else None
        factors = [Factor(*given, motion=True, kind=Kind.HARD if hard else Kind.SOFT, private=private)]
        held = model.rows - model.holding.on_velocities
        if held:
            rows, none = model.holding.labels()[:held], ca.SX.sym("none", 0)
            factors.append(Factor("joints", Group.STATE, step.at.violation, {0: step.here}, none, rows, kind=Kind.HARD))
        if model.holding.on_velocities:
            factors.append(step.rolling())
        return factors + self.law.factors(model, settings, step.slips, step.extra, step.variables)

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step at t_k, an unknown."""
        x, n = ca.SX.sym("x", self.manifold(model).ambient), model.configuration.ambient
        return StepFunction({0: x}, ca.SX.sym("none", 0), x[n : n + model.rows])

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        step = _Inner(model, settings, self)
        value = self.law.along(model, settings, step.slips, step.multipliers, step.extra)
        return StepFunction(step.variables, ca.SX.sym("none", 0), value)

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """The step as equations in (v₊, λ) from x = (q, v), v of the interval before.

        Behind the signals stands the share of the interval: 1, and ½ in the first step; then their means over the step
        if constraints take any, 1 for each contact that holds and 0 for others, and random impulses, if any. What
        pushes is rigid like the joints: gaps are not negative at q_{k+1}. Friction that sticks acts at v₊, not at the
        midpoint: a midpoint that sticks, v₊ = −v, would rattle on without end.
        """
        impulses = random_symbol(model, random)
        x, u = ca.SX.sym("x", model.state.ambient), ca.SX.sym("u", len(model.signals) + 1)
        mean = ca.SX.sym("mean", len(model.signals) * model.holding.takes_inputs)
        q, v = ca.vertsplit(x, [0, model.configuration.ambient, model.state.ambient])
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", model.rows)
        q_next = model.configuration.retract(q, settings.step * v_next)
        held = ca.SX.sym("held", len(model.holding.contacts))
        passage = Passage.between(model.configuration, q, q_next, settings.step)
        rolling = model.holding.over_step(passage, mean, held, multipliers)
        share = replace(settings, step=u[-1] * settings.step)
        at, sides = model.mechanics(q), _Sides.of(v, v_next, u[-1])
        slips, others, laws = _slips(at, sides), disturbance(model, at, impulses), None
        friction = ca.SX(len(model.freedoms), 1)
        if exact:
            # Joints hold at q₊ and push at q, and the gyroscopic impulse follows the midpoint velocity: not symmetric.
            reactions = Reactions(model, share, at, q)
            others = reactions.impulse(slips, multipliers) + others
            laws = reactions.laws(slips, multipliers, reactions.rates(v_next, reactions.rigid(q_next, v)))
        else:
            friction = DryFriction().impulses(model, share, slips, multipliers, ca.SX(0, 1))
        impulse = _impulse(model, share, at, sides, multipliers, friction, u[:-1]) - others
        return ForwardStep(
            x=x,
            u=ca.vertcat(u, mean, held, impulses),
            unknowns=ca.vertcat(v_next, multipliers),
            equations=ca.vertcat(impulse, model.holding.reached(q, q_next) / settings.step, rolling),
            x_next=ca.vertcat(q_next, v_next),
            guess=ca.vertcat(v, ca.SX.zeros(model.rows)),
            velocities=v_next.numel(),
            laws=laws,
        )

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of the forward steps, (N − 1, n_u + 1), weighted by a hat over [t_{k−1}, t_{k+1}].

        Args:
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """
        means = hats(mean, late)
        share = np.ones((len(means), 1))
        share[0] = 0.5
        return np.hstack([means, share])

    def recorded(self, model: Model, marched: Array, step: float) -> Array:
        """States at t_k from those of the march, whose velocities belong to the interval before."""
        if len(marched) < 3:
            return marched
        states = marched.copy()
        v = marched[:, model.configuration.ambient :]
        states[1:-1, model.configuration.ambient :] = (v[1:-1] + v[2:]) / 2
        states[-1, model.configuration.ambient :] = 1.5 * v[-1] - 0.5 * v[-2]
        return states


class _Inner:
    """The symbols of one step around t_k, from the unknowns at three steps."""

    def __init__(self, model: Model, settings: Settings, scheme: Variational) -> None:
        self._model, self._step = model, settings.step
        before, self.here, after = scheme.three(model)
        self.variables = {0: before, 1: self.here, 2: after}
        self.u = ca.SX.sym("u", len(model.signals))
        n = model.configuration.ambient
        q, self.multipliers, self.extra = ca.vertsplit(self.here, [0, n, n + model.rows, before.numel()])
        self.v = model.configuration.difference(q, before[:n]) / settings.step
        self.v_next = model.configuration.difference(after[:n], q) / settings.step
        self.at = model.mechanics(q)
        self.sides = _Sides(self.v, self.v_next, self.v_next - self.v)
        self.slips = _slips(self.at, self.sides)
        self.friction = scheme.law.impulses(model, settings, self.slips, self.multipliers, self.extra)

    def rolling(self) -> Factor:
        """A v − γ of constraints on velocities over each step, hard; its data are means of the inputs over it."""
        space, holding = self._model.configuration, self._model.holding
        before, here = (self.variables[i] for i in range(2))
        passage = Passage.between(space, before[: space.ambient], here[: space.ambient], self._step)
        rows, data = holding.over_step(passage, self.u), holding.speed_data(self.u)
        labels = holding.labels()[self._model.rows - holding.on_velocities :]
        return Factor(VELOCITY_ROWS, Group.STATE, rows, {0: before, 1: here}, data, labels, kind=Kind.HARD)


@dataclass(frozen=True)
class _Sides:
    """Velocities on both sides of t_k, (6 n_b,)."""

    before: ca.SX
    after: ca.SX
    change: ca.SX
    """By which the impulse changes the velocity: half of their difference where the motion starts at t_k."""

    @classmethod
    def of(cls, v: ca.SX, v_next: ca.SX, share: ca.SX) -> _Sides:
        """Of a forward step from v: the velocity before t_k or, with a share of ½, that at t_k, around which both sides
        lie alike."""
        return cls(v_next - (3 - 2 * share) * (v_next - v), v_next, v_next - v)

    @property
    def middle(self) -> ca.SX:
        """The velocity at t_k."""
        return (self.before + self.after) / 2


def _slips(at: Mechanics, sides: _Sides) -> Slips:
    """Slip rates at the midpoint velocity."""
    middle, both = at.slip @ sides.middle, (at.slip @ sides.before, at.slip @ sides.after)
    return Slips.between(middle, both, at.slip @ sides.change, at.displacement)


def _impulse(
    model: Model, settings: Settings, at: Mechanics, sides: _Sides, multipliers: ca.SX, friction: ca.SX, u: ca.SX
) -> ca.SX:
    """M (v₊ − v) − Gᵀλ − Ḡᵀτ − h (f + f_g) at the midpoint velocity, (6 n_b,)."""
    along = along_coordinates(model, settings, _slips(at, sides), friction, u)
    force = at.force + at.gyroscopic(sides.middle) + model.pushed(at.configuration, sides.middle, u)
    return at.mass @ sides.change - at.constraint.T @ multipliers - at.slip.T @ along - settings.step * force
