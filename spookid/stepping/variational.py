"""A variational step of second order in positions alone, with rigid joints.

With v = (q_k ⊟ q_{k−1})/h and v₊ = (q_{k+1} ⊟ q_k)/h, by the exact logarithm, the step at t_k is

    M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g)(q_k, (v + v₊)/2),        g(q_k) = 0 at every k.

Derivation. The discrete Lagrangian L_d(q_k, q_{k+1}) = h T((q_{k+1} ⊟ q_k)/h) − (h/2)(U(q_k) + U(q_{k+1})) gives, with
respect to translations, M(v₊ − v) = −h ∂U + Gᵀλ; for rotations the momentum Jω is carried from one body frame to the
next, and the change of frame over a step of angle hω contributes −h ω × Jω up to terms of third order. Taken at the
midpoint velocity v̄ = (v + v₊)/2, that term does no work on v̄: for a free body ½ω₊ᵀJω₊ − ½ωᵀJω = ω̄ᵀJ(ω₊ − ω) = 0,
kinetic energy is kept exactly. Dissipation at v̄ makes the step symmetric in time, hence of second order; the small-
angle difference (3.24) instead of the logarithm would leave an error of (hω)²/6 in every velocity.

Dry friction is the mean over all velocities between v and v₊, symmetric like the rest, so that the order is two through
every reversal of a joint too, however sharp it is (``DryFriction``). A simulation with friction that sticks has it
follow the velocity v₊ at the end of the step, an error of first order that its own substeps take away.

Constraints hold at every step and not through a spring, so that the step has no constraint dynamics of its own: a
joint with g + ελ/h = 0 would be an explicit spring, unstable for small ε. Compliance and damping of joints are ignored.

A velocity of a state x_k = (q_k, v_k) is that at t_k. The first forward step has only the half interval from t_0: it
adds half the impulse of a step around t_0 from 2 v_0 − v_½, M (v_½ − v_0) = Gᵀλ + Ḡᵀτ/2 + (h/2)(f + f_g)(q_0, v_0).

Constraints on velocities, and contacts that push, link a step with the next, and the step of ``joint_space`` is between
three. With the rates v of the interval before t_k as unknowns beside the coordinates x_k of the joints (``Leapfrog``),
all rows are between two neighbours,

    w = Sᵀp(x_k, (v_k + v_{k+1})/2, (v_{k+1} − v_k)/h, λ_k),
    x_{k+1} = x_k ⊞ h v_{k+1},    A(x_k ⊞ h v_{k+1}/2) v_{k+1} = γ,

the first random or weighted, the others hard. λ_k of the constraints are private unknowns of the step. The rates before
the first step are free but for the constraints, so that the first w says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Passage
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.base import DETERMINISTIC, NEEDS_JOINTS, SWITCHED, Dynamics, Scheme, Stepper, compliant
from spookid.stepping.contact_law import ContactStep, Reactions
from spookid.stepping.impulses import (
    VELOCITY_ROWS,
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    Window,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.joint_space import JointSpace, PoseSpace
from spookid.stepping.unknowns import JointScheme, JointStep, PositionScheme, VirtualWork, hats, middle
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class Variational(Stepper):
    """Variational time stepper of second order, with rigid joints; positions and multipliers are unknowns. The default.

    >>> exact = problem.with_(stepper=Variational())
    """

    name = "variational"
    order = 2
    staggered: ClassVar[bool] = True

    def fitting(self, model: Model, law: DryFriction, dynamics: Dynamics) -> PositionScheme[VirtualWork]:
        """The stepper in the coordinates of a fit: joint coordinates, or poses of all bodies if requested, or for loops
        with ``state_weight``. With velocity constraints or contacts, joint rates are unknowns, too.

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
        """Names of joints that are less compliant than declared."""
        return compliant(model)

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """Step as equations in (v₊, λ) from x = (q, v), where v belongs to the preceding interval.

        The signals are followed by the share of the interval (1, and ½ in the first step), by their means over the step
        if constraints take any, by 1 for each contact that holds and 0 for others, and by random impulses, if any.
        Contacts are rigid like the joints: gaps are not negative at q_{k+1}. Sticking friction acts at v₊, not at the
        midpoint: a sticking midpoint, v₊ = −v, would oscillate without end.
        """
        impulses = random_symbol(model, random)
        x, u = ca.SX.sym("x", model.state.ambient), ca.SX.sym("u", len(model.inputs) + 1)
        mean = ca.SX.sym("mean", len(model.inputs) * model.holding.takes_inputs)
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
        place, now = at.displacement, at.slip @ middle
        efforts = gear_efforts(model, q, place, now, u[:-1], settings.slip_width)
        slips = Slips.between(now, (rates[0], rates[1]), rates[2], place, efforts)
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
        """Inputs of steps of a simulation, (N − 1, n_u + 1), weighted by a hat function over [t_{k−1}, t_{k+1}].

        Args:
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """
        means = hats(mean, late)
        share = np.ones((len(means), 1))
        share[0] = 0.5
        return np.hstack([means, share])

    def recorded(self, model: Model, marched: Array, step: float) -> Array:
        """States at t_k, computed from simulated states whose velocities belong to the preceding interval."""
        if len(marched) < 3:
            return marched
        states = marched.copy()
        v = marched[:, model.configuration.ambient :]
        states[1:-1, model.configuration.ambient :] = (v[1:-1] + v[2:]) / 2
        states[-1, model.configuration.ambient :] = 1.5 * v[-1] - 0.5 * v[-2]
        return states


@dataclass(frozen=True)
class Leapfrog(JointScheme["_Step"]):
    """Unknowns of a leapfrog step: joint coordinates, and velocities of the preceding interval."""

    refuses: ClassVar[dict[str, str]] = {
        SWITCHED: NEEDS_JOINTS,
        DETERMINISTIC: "rates before the first step are free, and deterministic dynamics would fit only these",
    }

    def motion(self, model: Model) -> Manifold:
        """Motion as joint coordinates and their velocities."""
        space = super().motion(model)
        return Manifold((*space.parts, ("flat", space.tangent))).joined

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Window of a step: velocities at t_k are means of both intervals, accelerations their difference over h."""
        x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x", "x_after"))
        if order == 0:
            still = ca.SX(super().motion(model).tangent, 1)
            return Window({0: x}, self.moving(model, x, still, still, 0))
        moved = middle(self._rates(model, x), self._rates(model, after), settings.step)
        return Window({0: x, 1: after}, self.moving(model, x, *moved, order))

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        return Scheme.first_window(self, model, settings, order)

    def around(
        self, model: Model, settings: Settings, order: int
    ) -> tuple[dict[int, ca.SX], tuple[Motion, Motion, Motion]]:
        """Motion around t_k: the preceding rates lead back to t_{k−1}, and the acceleration belongs to t_k."""
        h, space = settings.step, super().motion(model)
        x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x", "x_after"))
        sides = self._rates(model, x), self._rates(model, after)
        s, a = middle(*sides, h)
        here = x[: space.ambient]
        places = space.retract(here, -h * sides[0]), here, after[: space.ambient]
        pairs = zip((-1, 0, 1), places, strict=True)
        before, at, behind = (self.moving(model, place, s + i * h * a, a, max(order, 1)) for i, place in pairs)
        return {0: x, 1: after}, (before, at, behind)

    def _rates(self, model: Model, x: ca.SX) -> ca.SX:
        motion, n = self.motion(model), super().motion(model).ambient
        return x[n : motion.ambient]

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Initial unknowns: joint coordinates, their difference quotients, and zero multipliers."""
        space = super().motion(model)
        x, rest = np.hsplit(super().start(model, states, displacements, friction, step), [space.ambient])
        return np.hstack([x, _differences(space, x, step), rest])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """States for steps of double length; None with contacts, which belong to single steps."""
        if model.contacts:
            return None
        space, twice = super().motion(model), unknowns.copy()
        x, n = unknowns[:, : space.ambient], self.motion(model).ambient
        for first in range(2):
            twice[first::2, space.ambient : n] = _differences(space, x[first::2], 2 * step)
        return twice

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of each step, (N − 1, n_u), weighted by a hat function over [t_{k−1}, t_{k+1}]."""
        return hats(mean, late)

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Factors: weighted residuals of each step, kinematic equations, constraints, and those of the first rates."""
        step = self.step(model, settings)
        impulse = step.impulse(self).written_in(step.symbols, step.values)
        held = [step.first(), *step.rolling()] if step.joints.closing else []
        return [*held, step.moved(), *self.closed(step), impulse, *step.law_factors()]

    def symbols(self, model: Model, settings: Settings) -> _Step:
        return _Step(model, settings, self)


class _Step(JointStep):
    """The symbols of one step around t_k, from the unknowns there and at the next step."""

    def __init__(self, model: Model, settings: Settings, scheme: Leapfrog) -> None:
        space, size = JointCoordinates(model).manifold, scheme.manifold(model).ambient
        n, m, extra = space.ambient, scheme.motion(model).ambient, size - scheme.law.unknowns(model)
        touching = scheme.touching(model)
        x, after = (ca.SX.sym(name, size) for name in ("x", "x_after"))
        # What contacts and friction beside them do in a step is an unknown of its end, which they determine.
        late = extra - touching if touching else size
        here = ca.vertcat(x[:n], x[m:late], after[late:])
        self.v, self.v_next = x[n:m], after[n:m]
        self.x, self.x_next = x[:n], after[:n]
        moved = middle(self.v, self.v_next, settings.step)
        super().__init__(model, settings, scheme, 0, {0: x, 1: after}, here, moved)

    @cached_property
    def contacts(self) -> ContactStep | None:
        if not self.model.contacts:
            return None
        quickening = ca.jtimes(self.motion.v, self.motion.s, self.motion.a)  # S a
        before, behind = (self.motion.v + i * self.settings.step / 2 * quickening for i in (-1, 1))
        q_next = self.joints.configuration(self.x_next)
        return ContactStep(self.model, self.settings, self.law.form, self.q, before, q_next, behind, self.touching)

    def moved(self) -> Factor:
        """(x₊ ⊟ x)/h − v₊."""
        rows = self.joints.manifold.difference(self.x_next, self.x) / self.settings.step - self.v_next
        labels, none = tuple(f"v {name}" for name in self.joints.names), ca.SX.sym("none", 0)
        return Factor("step", Group.STATE, rows, self.variables, none, labels, kind=Kind.HARD)

    def rolling(self) -> list[Factor]:
        """Velocity constraints A v₊ − γ at the middle of the step; their data are mean inputs over the step."""
        holding, joints, h = self.model.holding, self.joints, self.settings.step
        fast = [tie for tie in self.model.ties if tie.on_velocities]
        if not fast:
            return []
        between = joints.manifold.retract(self.x, h / 2 * self.v_next)
        there = Recursion(joints, between, self.v_next, ca.SX(self.v_next.numel(), 1))
        q, q_next = (joints.configuration(x) for x in (self.x, self.x_next))
        rows, labels = holding.over_step(Passage(q, q_next, h, there.q, there.v), self.u), holding.labels(fast)
        data = holding.speed_data(self.u)
        return [Factor(VELOCITY_ROWS, Group.STATE, rows, self.variables, data, labels, kind=Kind.HARD)]

    def first(self) -> Factor:
        """Constraints on the velocities before the first step."""
        model, joints = self.model, self.joints
        motion = Recursion(joints, self.x, self.v, ca.SX(self.v.numel(), 1))
        at = model.mechanics(motion.q)
        parting = at.constraint @ motion.v - model.holding.all_speeds(self.u)
        rows = ca.vertcat(*(parting[model.rows_of(thing)] for thing in joints.closing))
        labels = tuple(f"{label} parting" for label in model.holding.labels(joints.closing))
        given = "first state", Group.STATE, rows, {0: self.variables[0]}, model.holding.speed_data(self.u), labels
        return Factor(*given, first_only=True, kind=Kind.HARD)


def _differences(space: Manifold, x: Array, step: float) -> Array:
    """Rates of the interval before each step, those of the first as in the next, (N, ambient) to (N, tangent)."""
    symbols = ca.SX.sym("x", space.ambient), ca.SX.sym("x_next", space.ambient)
    function = ca.Function("rates", list(symbols), [ca.densify(space.difference(*reversed(symbols)) / step)])
    rates = np.asarray(function(x[:-1].T, x[1:].T).full()).T
    return np.vstack([rates[:1], rates])
