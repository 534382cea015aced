"""The SPOOK step for a likelihood (``SpookSpace``): random along the joints' rates alone, everything else hard.

The unknowns are (q, v) as in ``Spook``. The momentum residual of a step without what its joints do,

    p = M (v₊ − v) − h (f + f_g) = Σ_j (Gᵀλ + Ḡᵀτ)_j,

gives the impulses λ that each joint of the tree transmits and those τ along its coordinates, by recursion from the
leaves to the root and with no compliance to divide by, so that λ is no unknown. Rows of a step are

    w = τ − τ(v₊, λ, u)                    random with a standard deviation of s √h, s in N m/√Hz,
    (q₊ ⊟ q)/h − v₊ = 0,  Σλ + G v₊ = a    hard,

as many together as the new state has unknowns. Velocity and constraint rows carry no noise: it would be one of the
joints' compliance. The forward step satisfies these rows to the last digit, so ⊟ is the exact logarithm. At the first
step g = 0 and G v = 0 are hard, and nothing else is believed of it.

Of joints that close loops λ is an unknown of the step's end, and so are the random impulses along their coordinates.

SPOOK: the regularized step of Lacoursière, as inverse dynamics and as a forward step (Marklund et al., 2.8 to 3.17).

The step, with M, G, g, f at step k and multipliers λ that are impulses, is

    M v₊ − Gᵀλ − Ḡᵀτ(v₊, λ) = M v + h (f + f_g),     Σ λ + G v₊ = a = −(4/h) Υ g + Υ G v,     q₊ = q ⊞ h v₊,

Υ = diag 1/(1 + 4τ/h), Σ = (4/h²) diag ε/(1 + 4τ/h); τ holds the impulses along the joints' coordinates: friction,
springs, motors. Signs follow these equations; those printed with (2.8), (2.29) and (2.30) do not fit them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cached_property
from typing import ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import velocities
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model, row_labels
from spookid.parameter import is_zero, stacked
from spookid.records import dataclass
from spookid.stepping.base import Stepper
from spookid.stepping.contact_law import Reactions
from spookid.stepping.impulses import (
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    StepFunction,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.unknowns import StateScheme, VirtualWork, WorkScheme
from spookid.stepping.variational import Variational
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
        """Data of factors that have inputs only for γ."""
        return self.model.holding.speed_data(self.u)

    @property
    def first_rows(self) -> tuple[ca.SX, ca.SX]:
        """What constraints lack in a first state: g, 0 of those on velocities, and G v − γ, each (n_g,)."""
        holding = self.model.holding
        apart = ca.vertcat(self.at.violation, ca.SX(holding.on_velocities, 1))
        return apart, self.at.constraint @ self.v - holding.all_speeds(self.u)

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
        at, h = self.at, self.settings.step
        return at.mass @ (w - self.v) - at.constraint.T @ multipliers - at.slip.T @ along - h * force


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


def _refuse_rigid(things: Iterable[Joint | Constraint], why: str, remedy: str) -> None:
    """Raise ProblemError for the first of them that has no compliance."""
    for thing in things:
        if any(map(is_zero, ca.vertsplit(thing.compliance))):
            raise ProblemError(f"{thing.place}: {thing.kind} {thing.name!r} has compliance 0{why}; {remedy}")


def doubled(model: Model, unknowns: Array, step: float) -> Array:
    """States (N, 13 n_b) of which every other one belongs to the same motion in steps of 2h: the velocity is that since
    two steps before."""
    q = np.ascontiguousarray(unknowns[:, : model.configuration.ambient])
    sides = velocities(q, step)
    v = (sides[2:] + sides[1:-1]) / 2  # from the third step on; those before are extrapolated
    return np.hstack([q, np.vstack([3 * v[:1] - 2 * v[1:2], 2 * v[:1] - v[1:2], v])])


@dataclass(frozen=True)
class SpookSpace(WorkScheme["_SplitStep"], StateScheme):
    """Positions and velocities at each step as unknowns; see ``Spook`` for what the members are."""

    name = "spook"
    order: ClassVar[int] = 1
    backward: ClassVar[bool] = True
    holds_contacts: ClassVar[bool] = False
    law: DryFriction = field(default=DryFriction(), repr=False)

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a rigid loop, whose redundant impulses nothing determines."""
        _refuse_rigid(
            model.holding.names if model.has_loops else model.ties,
            " in a mechanism with loops, so Spook() cannot estimate the noise",
            "give its joints compliance or use Variational()",
        )

    def reactions(self, model: Model) -> int:
        return JointCoordinates(model).private

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns of which every other one belongs to the same motion in steps of 2h; None with loops, whose
        multipliers belong to a step."""
        return None if self.reactions(model) else doubled(model, unknowns, step)

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """The inputs' means over each step, (N − 1, n_u)."""
        return mean

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of a step, its hard rows, and those of the first state."""
        step = self.step(model, settings)
        first = [_first_factor(step)] if model.rows else []
        return [*first, step.random_factor(), _hard_factor(step), *step.friction_factors()]

    def symbols(self, model: Model, settings: Settings) -> _SplitStep:
        return _SplitStep(model, settings, self.law, self.manifold(model))


class _SplitStep(VirtualWork):
    """The symbols of one step from x to x₊."""

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints, m = JointCoordinates(model), model.state.ambient
        first, last = m + self.joints.closing_rows, m + self.joints.private
        self.base = SpookStep(model, settings, law, manifold, self.joints.private)
        self.q = self.base.q
        self.variables, self.u, self.extra = self.base.variables, self.base.u, self.base.extra
        self.loads, self.random = self.base.x_next[m:first], self.base.x_next[first:last]
        self.slips = self.base.slips(self.base.v_next)

    @cached_property
    def at(self) -> Mechanics:
        return self.base.at

    def transmitted(self, along: ca.SX) -> Transmitted:
        base, at = self.base, self.at
        force = at.force + at.gyroscopic(base.v) + self.model.pushed(base.q, base.v_next, self.u)
        impulse = at.mass @ (base.v_next - base.v) - self.settings.step * force
        return self.joints.balanced(at, impulse - self.cut(along))


def _hard_factor(step: _SplitStep) -> Factor:
    """(q₊ ⊟ q)/h − v₊ = 0 and Σλ + G v₊ − a = 0."""
    model, base = step.model, step.base
    moved = model.configuration.difference(base.q_next, base.q) / step.settings.step
    rows = ca.vertcat(moved - base.v_next, base.constraint(base.v_next, step.multipliers))
    labels = row_labels(model, "v") + model.holding.labels()
    return Factor("step", Group.STATE, rows, step.variables, base.speed_data, labels, kind=Kind.HARD)


def _first_factor(step: _SplitStep) -> Factor:
    """g = 0 and G v = 0 at the first step."""
    labels, held = step.model.holding.labels(), step.base.at.violation.numel()
    apart, parting = step.base.first_rows
    names = tuple(f"{label} {what}" for what in ("apart", "parting") for label in labels)
    names = (*names[:held], *names[len(labels) :])
    rows, data = ca.vertcat(apart[:held], parting), step.base.speed_data
    return Factor("first state", Group.STATE, rows, {0: step.base.x}, data, names, first_only=True, kind=Kind.HARD)


_SHIFT = 1e-10
"""Of the diagonal of GGᵀ, whose entries are of the order of 1."""


@dataclass(frozen=True)
class Spook(StateScheme, Stepper):
    """Positions and velocities at each step as unknowns."""

    multipliers: Literal["eliminated", "lifted"] = "eliminated"
    """``"eliminated"``: λ = Σ⁻¹(a − G w), as in the paper; the compliance must be positive, and a stiff joint makes the
    problem hard to solve. ``"lifted"``: λ is unknown, and Σλ + G v₊ = a are hard rows; any compliance from zero up, and
    the same answer where both can be had. Where the noise is estimated both are one (``SpookSpace``), and any
    compliance will do."""
    law: DryFriction = field(default=DryFriction(), repr=False)
    """Form of dry friction; ``Problem.friction`` sets it."""
    order: ClassVar[int] = 1
    backward: ClassVar[bool] = True
    rigid: ClassVar[bool] = False
    infinite_weight: ClassVar[bool] = False
    holds_contacts: ClassVar[bool] = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """As on the command line."""
        return "spook-lifted" if self._lifted else "spook"

    @property
    def _lifted(self) -> bool:
        return self.multipliers == "lifted"

    def likelihood(self, law: DryFriction) -> SpookSpace:
        """Both kinds of multipliers are one there."""
        return SpookSpace(law)

    @property
    def leader(self) -> Stepper:
        """Rigid joints: stiff ones, or multipliers that start from nothing, only make it harder to begin."""
        return Variational()

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a rigid joint whose multipliers are to be eliminated."""
        remedy = 'use Spook(multipliers="lifted") or Variational()'
        if not self._lifted:
            _refuse_rigid(model.holding.names, ", so Spook() cannot eliminate its multipliers", remedy)

    def reactions(self, model: Model) -> int:
        return model.rows if self._lifted else 0

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """None if multipliers are unknown, which belong to a step."""
        return None if self._lifted else doubled(model, unknowns, step)

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 1, n_u), from the inputs held at each step, (N, n_u)."""
        return held[:-1]

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The impulse residuals of a step and of the initial state, and the lifted constraint rows."""
        step = self._step(model, settings)
        friction = self.law.factors(model, settings, step.slips(step.v_next), step.extra, step.variables)
        if not self._lifted:
            return [_initial_factor(step, step.sigma), _impulse_factor(step, step.eliminated), *friction]
        rows, labels = step.constraint(step.v_next, step.multipliers), model.holding.labels()  # (2.18)
        held = Factor("constraint", Group.STATE, rows, step.variables, step.speed_data, labels, kind=Kind.HARD)
        return [_initial_factor(step, step.softened), _impulse_factor(step, step.lifted), held, *friction]

    def _step(self, model: Model, settings: Settings) -> SpookStep:
        return SpookStep(model, settings, self.law, self.manifold(model), self.reactions(model))

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step from x to x₊, the inputs u as data."""
        step = self._step(model, settings)
        return StepFunction(step.variables, step.u, self._estimated(step))

    def _estimated(self, step: SpookStep) -> ca.SX:
        return step.multipliers if self._lifted else step.eliminated(step.v_next)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        step = self._step(model, settings)
        slips = step.slips(step.v_next)
        return StepFunction(
            step.variables, step.u, self.law.along(model, settings, slips, self._estimated(step), step.extra)
        )

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """The step as equations in (v₊, λ), for any compliance from zero up (2.18; with reactions 2.26)."""
        step = SpookStep(model, settings, DryFriction(), model.state, 0)
        impulses, laws = random_symbol(model, random), None
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", step.sigma.numel())
        others = disturbance(model, step.at, impulses)
        if exact:
            reactions, slips = Reactions(model, settings, step.at, step.q), step.slips(v_next)
            others = reactions.impulse(slips, multipliers) + others
            rates = reactions.rates(v_next, reactions.regularized(step.v, v_next))
            # Loads that users write may act along one coordinate as another one moves.
            symmetric = not (model.loads or any(joint.loads for joint in model.joints))
            laws = reactions.laws(slips, multipliers, rates, symmetric)
            needed = step.balance(v_next, multipliers, ca.SX(len(model.freedoms), 1))
        else:
            needed = step.impulse(v_next, multipliers)
        return ForwardStep(
            x=step.x,
            u=ca.vertcat(step.u, impulses),
            unknowns=ca.vertcat(v_next, multipliers),
            equations=ca.vertcat(needed - others, -step.constraint(v_next, multipliers)),
            x_next=ca.vertcat(model.configuration.retract(step.q, settings.step * v_next), v_next),
            guess=ca.vertcat(step.v, ca.SX.zeros(multipliers.numel())),
            velocities=v_next.numel(),
            laws=laws,
        )

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return held[:-1]


def _impulse_factor(step: SpookStep, multipliers: Callable[[ca.SX], ca.SX]) -> Factor:
    """Δp_q and Δp_u of a step times √κ (3.7, 3.8 with 2.30), with the multipliers as a function of w."""
    moved = step.model.configuration.minus(step.q_next, step.q) / step.settings.step
    residuals = [step.impulse(w, multipliers(w)) for w in (moved, step.v_next)]
    rows, labels = ca.sqrt(step.settings.weight) * ca.vertcat(*residuals), ("Δp_q", "Δp_u")
    return Factor("impulse", Group.STATE, rows, step.variables, step.u, _both(step, labels), motion=True)


def _initial_factor(step: SpookStep, sigma: ca.SX) -> Factor:
    """Δp_q0 = M_Σ Δq₀/h and Δp_u0 = M_Σ Δv₀ with Δq₀ = −G⁺ g, Δv₀ = G⁺ G v₀, times √κ (after 3.16, 3.17).

    M_Σ = M + GᵀΣ⁻¹G, with the diagonal of a Σ that nowhere vanishes.
    """
    G, (apart, parting) = step.at.constraint, step.first_rows
    projected = _pseudo_inverse_times(G, ca.horzcat(-apart / step.settings.step, parting))
    weighted = step.at.mass @ projected + G.T @ ((G @ projected) / ca.horzcat(sigma, sigma))
    rows, labels = ca.sqrt(step.settings.weight) * ca.densify(ca.vec(weighted)), _both(step, ("Δp_q0", "Δp_u0"))
    return Factor("initial state", Group.STATE, rows, {0: step.x}, step.speed_data, labels, first_only=True)


def _both(step: SpookStep, quantities: tuple[str, str]) -> tuple[str, ...]:
    return tuple(label for quantity in quantities for label in row_labels(step.model, quantity))


def _pseudo_inverse_times(G: ca.SX, right: ca.SX) -> ca.SX:
    """G⁺ right with G⁺ = Gᵀ(GGᵀ)⁻¹ by LDLᵀ.

    Rows that others imply (closed loops) make GGᵀ singular; a shift far below its entries then gives G⁺ to 1e-9.
    """
    if G.shape[0] == 0:
        return ca.SX(G.shape[1], right.shape[1])
    D, LT, p = ca.ldl(G @ G.T + _SHIFT * ca.SX.eye(G.shape[0]))
    return G.T @ ca.ldl_solve(right, D, LT, p)
