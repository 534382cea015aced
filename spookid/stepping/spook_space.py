"""The SPOOK step for a likelihood: random along the joints' rates alone, everything else hard.

The unknowns are (q, v) as in ``spook``. The momentum residual of a step without what its joints do,

    p = M (v₊ − v) − h (f + f_g) = Σ_j (Gᵀλ + Ḡᵀτ)_j,

gives the impulses λ that each joint of the tree transmits and those τ along its coordinates, by recursion from the
leaves to the root and with no compliance to divide by, so that λ is no unknown. Rows of a step are

    w = τ − τ(v₊, λ, u)                    random with a standard deviation of s √h, s in N m/√Hz,
    (q₊ ⊟ q)/h − v₊ = 0,  Σλ + G v₊ = a    hard,

as many together as the new state has unknowns. Velocity and constraint rows carry no noise: it would be one of the
joints' compliance. The forward step satisfies these rows to the last digit, so ⊟ is the exact logarithm. At the first
step g = 0 and G v = 0 are hard, and nothing else is believed of it.

Of joints that close loops λ is an unknown of the step's end, and so are the random impulses along their coordinates.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.kinematics import velocities
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import is_zero, stacked
from spookid.records import dataclass
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, along_coordinates
from spookid.stepping.unknowns import StateScheme, VirtualWork, WorkScheme
from spookid.transcription.factor import Factor, Group, Kind


class SpookStep:
    """The symbols and equations of one step from x with inputs u; ``w`` is v₊ or (q₊ ⊟ q)/h."""

    def __init__(
        self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold, multipliers: int
    ) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.x, self.x_next = ca.SX.sym("x", manifold.ambient), ca.SX.sym("x_next", manifold.ambient)
        self.variables = {0: self.x, 1: self.x_next}
        self.u = ca.SX.sym("u", len(model.signals))
        m = model.state.ambient
        cuts = [0, model.configuration.ambient, m, m + multipliers, manifold.ambient]
        self.q, self.v, self.multipliers, self.extra = ca.vertsplit(self.x, cuts)
        self.q_next, self.v_next, _, _ = ca.vertsplit(self.x_next, cuts)
        self.at: Mechanics = model.mechanics(self.q)
        self.slip_before = self.at.slip @ self.v
        h = settings.step
        self.sigma, relaxation, held = regularized(model, h)
        """Diagonal of Σ, (n_g,)."""
        together = sum((ca.SX(body.mass) for body in model.bodies), ca.SX(0))
        self.softened = self.sigma + ca.vertcat(relaxation, ca.SX.ones(model.rows - held)) / together
        """Diagonal of Σ̃, Σ of joints that are no stiffer than one on which all masses together swing with ω h = 2."""
        moving = self.at.constraint[:held, :] @ self.v
        self.target = ca.vertcat(relaxation * (moving - 4 / h * self.at.violation), model.holding.speeds(self.u))
        """a = −(4/h) Υ g + Υ G v, and γ of constraints on velocities, (n_g,)."""

    @property
    def speed_data(self) -> ca.SX:
        """The inputs, for factors that have them only for γ; nothing if no γ is one."""
        return self.u if self.model.holding.takes_inputs else ca.SX.sym("none", 0)

    @property
    def first_rows(self) -> tuple[ca.SX, ca.SX]:
        """What constraints lack in a first state: g, 0 of those on velocities, and G v − γ, each (n_g,)."""
        fast = self.model.holding.on_velocities
        speeds = ca.vertcat(ca.SX(self.model.rows - fast, 1), self.model.holding.speeds(self.u))
        return ca.vertcat(self.at.violation, ca.SX(fast, 1)), self.at.constraint @ self.v - speeds

    def eliminated(self, w: ca.SX) -> ca.SX:
        """λ(w) = Σ⁻¹ (a − G w), (n_g,)."""
        return (self.target - self.at.constraint @ w) / self.sigma

    def lifted(self, w: ca.SX) -> ca.SX:
        """λ(w) = λ − Σ̃⁻¹ G (w − v₊) with the unknown λ of v₊, (n_g,): with Σ̃ = Σ as eliminated.

        With λ for both residuals nothing but M would tie (q₊ ⊟ q)/h to v₊, and positions would follow the noise in the
        directions that joints hold.
        """
        return self.multipliers - (self.at.constraint @ (w - self.v_next)) / self.softened

    def constraint(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """Σλ + G w − a, (n_g,)."""
        return self.sigma * multipliers + self.at.constraint @ w - self.target

    def slips(self, w: ca.SX) -> Slips:
        """Slip rates of a step to ``w``."""
        now = self.at.slip @ w
        return Slips(now, now, self.slip_before, now - self.slip_before, (now,), self.at.displacement)

    def impulse(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """M (w − v) − Gᵀλ − Ḡᵀτ − h (f + f_g), (6 n_b,): the external impulse a step to ``w`` needs (3.7, 3.8)."""
        friction = self.law.impulses(self.model, self.settings, self.slips(w), multipliers, self.extra)
        return self.balance(w, multipliers, friction)

    def balance(self, w: ca.SX, multipliers: ca.SX, friction: ca.SX) -> ca.SX:
        """The same with given impulses of dry friction along the joints' coordinates, (n_s,)."""
        force = self.at.force + self.at.gyroscopic(self.v) + self.model.pushed(self.q, w, self.u)
        along = along_coordinates(self.model, self.settings, self.slips(w), friction, self.u)
        return (
            self.at.mass @ (w - self.v)
            - self.at.constraint.T @ multipliers
            - self.at.slip.T @ along
            - self.settings.step * force
        )


def regularized(model: Model, h: ca.SX) -> tuple[ca.SX, ca.SX, int]:
    """Σ (n_g,), Υ (n_p,) and n_p: (4/h²) ε Υ of rows on positions with Υ = 1/(1 + 4τ/h), ε/h of those on velocities."""
    held = model.rows - model.holding.on_velocities
    of_joints = [(joint.damping, joint.compliances()) for joint in model.joints]
    of_ties = [(tie.damping, ca.repmat(tie.compliance, len(model.holding.names[tie]))) for tie in model.ties]
    things = [*of_joints, *of_ties]
    compliance = stacked(epsilon for _, epsilon in things)
    shares = (1 / (1 + 4 * damping / h) for damping, epsilon in things for _ in range(epsilon.numel()))
    relaxation = stacked(shares)[:held]
    return ca.vertcat(4 / h**2 * compliance[:held] * relaxation, compliance[held:] / h), relaxation, held


def doubled(model: Model, unknowns: Array, step: float) -> Array:
    """States (N, 13 n_b) of which every other one belongs to the same motion in steps of 2h: the velocity is that since
    two steps before."""
    q = np.ascontiguousarray(unknowns[:, : model.configuration.ambient])
    sides = velocities(q, step)
    v = (sides[2:] + sides[1:-1]) / 2  # from the third step on; those before are extrapolated
    return np.hstack([q, np.vstack([3 * v[:1] - 2 * v[1:2], 2 * v[:1] - v[1:2], v])])


@dataclass(frozen=True)
class SpookSpace(WorkScheme, StateScheme):
    """Positions and velocities at each step as unknowns; see ``Spook`` for what the members are."""

    name = "spook"
    order: ClassVar[int] = 1
    backward: ClassVar[bool] = True
    holds_contacts: ClassVar[bool] = False
    law: DryFriction = field(default=DryFriction(), repr=False)

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a rigid loop, whose redundant impulses nothing determines."""
        for joint in model.holding.names if model.has_loops else model.ties:
            if any(map(is_zero, ca.vertsplit(joint.compliance))):
                raise ProblemError(
                    f"{joint.place}: {joint.kind} {joint.name!r} has compliance 0 in a mechanism with loops, so "
                    "Spook() cannot estimate the noise; give its joints compliance or use Variational()"
                )

    def reactions(self, model: Model) -> int:
        """What cut joints have transmitted since the step before."""
        joints = JointCoordinates(model)
        return joints.closing_rows + joints.cut_rates

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns of which every other one belongs to the same motion in steps of 2h; None with loops, whose
        multipliers belong to a step."""
        return None if self.reactions(model) else doubled(model, unknowns, step)

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 1, n_u): the inputs' means over each step."""
        return mean

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of a step, its hard rows, and those of the first state."""
        step = self.step(model, settings)
        friction = self.law.factors(model, settings, step.slips, step.extra, step.variables)
        first = [_first_factor(step)] if model.rows else []
        return [*first, step.random_factor(), _hard_factor(step), *friction]

    def step(self, model: Model, settings: Settings) -> _SplitStep:
        """That from x to x₊."""
        return _SplitStep(model, settings, self.law, self.manifold(model))


class _SplitStep(VirtualWork):
    """The symbols of one step from x to x₊."""

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints, m = JointCoordinates(model), model.state.ambient
        rows, rates = self.joints.closing_rows, self.joints.cut_rates
        self.base = SpookStep(model, settings, law, manifold, rows + rates)
        self.variables, self.u, self.extra = self.base.variables, self.base.u, self.base.extra
        self.loads, self.random = self.base.x_next[m : m + rows], self.base.x_next[m + rows : m + rows + rates]
        self.slips = self.base.slips(self.base.v_next)

    @property
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""
        return self.base.q

    @cached_property
    def at(self) -> Mechanics:
        """The mechanics at these poses."""
        return self.base.at

    def transmitted(self, along: ca.SX) -> Transmitted:
        """What the joints of the tree transmit, with impulses along the coordinates of all joints."""
        base, at = self.base, self.at
        force = at.force + at.gyroscopic(base.v) + self.model.pushed(base.q, base.v_next, self.u)
        impulse = at.mass @ (base.v_next - base.v) - self.settings.step * force
        return self.joints.balanced(at, impulse - self.cut(along))


def _hard_factor(step: _SplitStep) -> Factor:
    """(q₊ ⊟ q)/h − v₊ = 0 and Σλ + G v₊ − a = 0."""
    model, base = step.model, step.base
    moved = model.configuration.difference(base.q_next, base.q) / step.settings.step
    rows = ca.vertcat(moved - base.v_next, base.constraint(base.v_next, step.multipliers))
    labels = tuple(f"v {body.name}.{axis}" for body in model.bodies for axis in ("x", "y", "z", "rx", "ry", "rz"))
    return Factor(
        "step", Group.STATE, rows, step.variables, base.speed_data, labels + model.holding.labels(), kind=Kind.HARD
    )


def _first_factor(step: _SplitStep) -> Factor:
    """g = 0 and G v = 0 at the first step."""
    labels, held = step.model.holding.labels(), step.base.at.violation.numel()
    apart, parting = step.base.first_rows
    names = tuple(f"{label} {what}" for what in ("apart", "parting") for label in labels)
    names = (*names[:held], *names[len(labels) :])
    rows, data = ca.vertcat(apart[:held], parting), step.base.speed_data
    return Factor("first state", Group.STATE, rows, {0: step.base.x}, data, names, first_only=True, kind=Kind.HARD)
