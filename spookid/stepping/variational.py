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

from dataclasses import replace
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.base import Dynamics, Stepper, compliant
from spookid.stepping.contact_law import Reactions
from spookid.stepping.impulses import (
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.joint_space import JointSpace, PoseSpace
from spookid.stepping.leapfrog import Leapfrog
from spookid.stepping.unknowns import PositionScheme, VirtualWork, hats


@dataclass(frozen=True)
class Variational(Stepper):
    """Positions at each step and the multipliers of rigid joints as unknowns."""

    name = "variational"
    order = 2
    staggered: ClassVar[bool] = True

    def fitting(self, model: Model, law: DryFriction, dynamics: Dynamics) -> PositionScheme[VirtualWork]:
        """The same step in the coordinates of the joints, or in those of all bodies: if these are asked for, and of
        loops with a given weight. Rates of the joints are unknowns, too, if constraints hold velocities or contacts
        push.

        Raises:
            ProblemError: for poses where contacts, or constraints on velocities, are.
        """
        linking = model.contacts or model.holding.rolling
        if model.coordinates == "maximal" and (linking or model.holding.contacts):
            raise ProblemError(
                f"{model.place}: Model has coordinates 'maximal' and contacts or constraints on velocities, which need "
                "the coordinates of joints; leave coordinates out"
            )
        if linking:
            return Leapfrog(law, dynamics)
        looped = model.has_loops or set(model.ties) - set(model.holding.contacts)
        posed = looped and not model.holding.contacts and all(tie.told_by_poses for tie in model.ties)
        if model.coordinates == "maximal" or (model.coordinates is None and dynamics != "estimated" and posed):
            return PoseSpace(law, dynamics)
        return JointSpace(law, dynamics)

    def stiffened(self, model: Model) -> list[str]:
        """Which joints are not as compliant as declared."""
        return compliant(model)

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
        share, at, change = replace(settings, step=u[-1] * settings.step), model.mechanics(q), v_next - v
        # The velocity before t_k or, with a share of ½, that on the other side of v, which is at t_k.
        before = v_next - (3 - 2 * u[-1]) * change
        middle, rates = (before + v_next) / 2, [at.slip @ velocity for velocity in (before, v_next, change)]
        slips = Slips.between(at.slip @ middle, (rates[0], rates[1]), rates[2], at.displacement)
        others, laws = disturbance(model, at, impulses), None
        friction = ca.SX(len(model.freedoms), 1)
        if exact:
            # Joints hold at q₊ and push at q, and the gyroscopic impulse follows the midpoint velocity: not symmetric.
            reactions = Reactions(model, share, at, q)
            others = reactions.impulse(slips, multipliers) + others
            laws = reactions.laws(slips, multipliers, reactions.rates(v_next, reactions.rigid(q_next, v)))
        else:
            friction = DryFriction().impulses(model, share, slips, multipliers, ca.SX(0, 1))
        along = along_coordinates(model, share, slips, friction, u[:-1])
        force = at.force + at.gyroscopic(middle) + model.pushed(q, middle, u[:-1])
        borne = at.constraint.T @ multipliers + at.slip.T @ along + share.step * force
        impulse = at.mass @ change - borne - others
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
