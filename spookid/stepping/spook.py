"""SPOOK: the regularized step of Lacoursière, as inverse dynamics and as a forward step (Marklund et al., 2.8 to 3.17).

The step, with M, G, g, f at step k and multipliers λ that are impulses, is

    M v₊ − Gᵀλ − Ḡᵀτ(v₊, λ) = M v + h (f + f_g),     Σ λ + G v₊ = a = −(4/h) Υ g + Υ G v,     q₊ = q ⊞ h v₊,

Υ = diag 1/(1 + 4τ/h), Σ = (4/h²) diag ε/(1 + 4τ/h); τ holds the impulses along the joints' coordinates: friction,
springs, motors. Signs follow these equations; those printed with (2.8), (2.29) and (2.30) do not fit them.

With a given weight a fit has the rows of the paper: the impulse that is missing for w = v₊ and for w = (q₊ ⊟ q)/h, both
random. With estimated noise, and with deterministic dynamics, the step is random along the joints' rates alone, and
everything else is hard. The momentum residual of a step without what its joints do,

    p = M (v₊ − v) − h (f + f_g) = Σ_j (Gᵀλ + Ḡᵀτ)_j,

gives the impulses λ that each joint of the tree transmits and those τ along its coordinates, by recursion from the
leaves to the root and with no compliance to divide by, so that λ is no unknown. Rows of a step are

    w = τ − τ(v₊, λ, u)                    random with a standard deviation of s √h, s in N m/√Hz, or zero,
    (q₊ ⊟ q)/h − v₊ = 0,  Σλ + G v₊ = a    hard,

as many together as the new state has unknowns. Velocity and constraint equations carry no noise: it would be one of the
joints' compliance. The forward step satisfies these rows to the last digit, so ⊟ is the exact logarithm. At the first
step g = 0 and G v = 0 are hard. Of joints that close loops λ is an unknown of the step's end, and so are the random
impulses along their coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property
from typing import ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.holding import row_labels
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Values, evaluated, velocities
from spookid.mechanics.model import Model
from spookid.parameter import is_zero, stacked
from spookid.records import dataclass
from spookid.stepping.base import (
    DETERMINISTIC,
    EXTRAPOLATED,
    HELD,
    SWITCHED,
    TURNS,
    Dynamics,
    Stepper,
    refuse_joint_coordinates,
)
from spookid.stepping.contact_law import ContactStep, Reactions
from spookid.stepping.impulses import (
    DryFriction,
    ForwardStep,
    Settings,
    Slips,
    Window,
    along_coordinates,
    disturbance,
    random_symbol,
)
from spookid.stepping.unknowns import StateScheme, VirtualWork
from spookid.stepping.variational import Variational
from spookid.transcription.factor import Factor, Group, Kind

_SHIFT = 1e-10
"""Of the diagonal of GGᵀ, whose entries are of the order of 1."""
_MASSES = "masses and damping would be biased by more than their standard errors; use Variational()"


@dataclass(frozen=True)
class Spook(StateScheme["SpookStep"], Stepper):
    """SPOOK time stepper: semi-implicit Euler with compliant, damped joints; first order. Use it to reproduce SPOOK."""

    multipliers: Literal["eliminated", "lifted"] = "eliminated"
    """``"eliminated"``: λ = Σ⁻¹(a − G w), as in the paper; the compliance must be positive. ``"lifted"``: λ is unknown,
    and Σλ + G v₊ = a are equality constraints; any compliance from zero up, and the same answer where both can be had.
    Fits with joints that are too stiff to eliminate λ are those of ``"lifted"``. Without a given weight both are one,
    and any compliance will do."""
    law: DryFriction = field(default=DryFriction(), repr=False)
    """Form of dry friction; ``Problem.friction`` sets it."""
    dynamics: Dynamics = field(default="weight", repr=False)
    """Where the standard deviation of the weighted residuals comes from; ``Problem.state_weight`` sets it."""
    order = 1
    rigid: ClassVar[bool] = False
    refuses: ClassVar[dict[str, str]] = {
        HELD: _MASSES,
        SWITCHED: _MASSES,
        EXTRAPOLATED: "its errors are of first order in h",
        DETERMINISTIC: "its errors are of first order in h, and would decide between the estimators",
        TURNS: "its joints are constraints on poses",
    }

    @property
    def name(self) -> str:  # type: ignore[override]
        """As on the command line."""
        return "spook-lifted" if self.multipliers == "lifted" else "spook"

    @property
    def _lifted(self) -> bool:
        return self.multipliers == "lifted" and self.weighted

    def fitting(self, model: Model, law: DryFriction, dynamics: Dynamics) -> Spook:
        refuse_joint_coordinates(model)
        return replace(self, law=law, dynamics=dynamics)

    def conditioned(self, model: Model, step: float, values: Values) -> Spook:
        """Return a stepper with multipliers as unknowns if eliminating them makes equations ill-conditioned.

        In them stand M² and (GᵀΣ⁻¹G)². So 1/Σ may exceed (G M⁻¹ Gᵀ)⁻¹ by one over the root of a number's precision.
        """
        if not (self.multipliers == "eliminated" and model.rows):
            return self
        q = ca.SX.sym("q", model.configuration.ambient)
        at, pose = model.mechanics(q), np.tile([0.0, 0, 0, 1, 0, 0, 0], len(model.bodies))[None]
        mobility = ca.diag(at.constraint @ ca.solve(at.mass, at.constraint.T))
        stiffness = ca.mmax(mobility / regularized(model, ca.SX(step))[0])
        stiff = np.finfo(float).eps ** -0.5 < evaluated(stiffness, q, pose, values).item() < np.inf
        return replace(self, multipliers="lifted") if stiff else self

    @property
    def leader(self) -> Stepper:
        """Stepper for preliminary fits, with rigid joints, because fits with compliant joints converge less easily."""
        return Variational()

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a rigid joint with eliminated multipliers, and for a rigid loop, whose redundant
        impulses are not determined."""
        if self.weighted:
            if not self._lifted:
                remedy = 'use `Spook(multipliers="lifted")` or Variational()'
                _refuse_rigid(model.holding.names, ", so Spook() cannot eliminate its multipliers", remedy)
            return
        _refuse_rigid(
            model.holding.names if model.has_loops else model.ties,
            " in a mechanism with loops, so Spook() cannot estimate the noise",
            "give its joints compliance or use Variational()",
        )

    def reactions(self, model: Model) -> int:
        if self.weighted:
            return model.rows if self._lifted else 0
        return self.closing_unknowns(model)

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Window of a step: v belongs to the preceding interval, so that (v₊ − v)/h is the acceleration at q."""
        if order < 2:
            return super().window(model, settings, order)
        n, m = model.configuration.ambient, model.state.ambient
        x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x", "x_after"))
        return Window({0: x, 1: after}, Motion(x[:n], x[n:m], (after[n:m] - x[n:m]) / settings.step))

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """States for steps of double length; None with unknown multipliers or contacts, which belong to single
        steps."""
        if self.reactions(model) or model.contacts:
            return None
        q = np.ascontiguousarray(unknowns[:, : model.configuration.ambient])
        sides = velocities(q, step)
        v = (sides[2:] + sides[1:-1]) / 2  # from the third step on; those before are extrapolated
        return np.hstack([q, np.vstack([3 * v[:1] - 2 * v[1:2], 2 * v[:1] - v[1:2], v])])

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of each step, (N − 1, n_u): means over the step, or held values if ``state_weight`` is given."""
        return held[:-1] if self.weighted else mean

    def symbols(self, model: Model, settings: Settings) -> SpookStep:
        return SpookStep(model, settings, self)

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """Weighted residuals of a step, equality constraints of a step, and factors of the first state."""
        step = self.step(model, settings)
        if not self.weighted:
            first = [step.first()] if model.rows else []
            return [*first, step.impulse(self), step.held(), *step.law_factors()]
        factors = [step.weighted_first(), step.weighted()]
        if self._lifted:
            rows, labels = step.constraint(step.v_next, step.multipliers), model.holding.labels()  # (2.18)
            given = "constraint", Group.STATE, rows, step.variables, step.speed_data, labels
            factors.append(Factor(*given, kind=Kind.HARD))
        return factors + step.law_factors()

    def forward(self, model: Model, settings: Settings, random: bool = False, exact: bool = False) -> ForwardStep:
        """Step as equations in (v₊, λ), for any compliance including zero (2.18; with reactions 2.26)."""
        step = SpookStep(model, settings, Spook(), forward=True)
        impulses, laws = random_symbol(model, random), None
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", step.sigma.numel())
        others = disturbance(model, step.at, impulses)
        if exact:
            reactions, slips = Reactions(model, settings, step.at, step.q), step.slips_to(v_next)
            others = reactions.impulse(slips, multipliers) + others
            rates = reactions.rates(v_next, reactions.regularized(step.v, v_next))
            # Loads that users write may act along one coordinate as another one moves.
            symmetric = not (model.loads or any(joint.loads for joint in model.joints))
            laws = reactions.laws(slips, multipliers, rates, symmetric)
            balance = step.balance(v_next, multipliers, ca.SX(len(model.freedoms), 1))
        else:
            balance = step.lacking(v_next, multipliers)
        return ForwardStep(
            x=step.x,
            u=ca.vertcat(step.u, impulses),
            unknowns=ca.vertcat(v_next, multipliers),
            equations=ca.vertcat(balance - others, -step.constraint(v_next, multipliers)),
            x_next=ca.vertcat(model.configuration.retract(step.q, settings.step * v_next), v_next),
            guess=ca.vertcat(step.v, ca.SX.zeros(multipliers.numel())),
            velocities=v_next.numel(),
            laws=laws,
        )

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        return held[:-1]


class SpookStep(VirtualWork):
    """Symbols and equations of one step from state x with inputs u; ``w`` is v₊ or (q₊ ⊟ q)/h."""

    def __init__(self, model: Model, settings: Settings, scheme: Spook, forward: bool = False) -> None:
        self.model, self.settings, self.law = model, settings, scheme.law
        touching = 0 if forward else scheme.touching(model)  # a forward step has its own reactions
        self._scheme, self.joints = scheme, JointCoordinates(model)
        size = model.state.ambient + scheme.reactions(model) + touching + scheme.law.unknowns(model)
        self.x, self.x_next = ca.SX.sym("x", size), ca.SX.sym("x_next", size)
        self.variables = {0: self.x, 1: self.x_next}
        self.u = ca.SX.sym("u", len(model.inputs))
        m = model.state.ambient
        last = m + scheme.reactions(model)
        cuts = [0, model.configuration.ambient, m, last, last + touching, size]
        self.q, self.v, self._unknown, _, extra = ca.vertsplit(self.x, cuts)
        self.q_next, self.v_next, _, self._touching, late = ca.vertsplit(self.x_next, cuts)
        self.extra = late if touching else extra  # beside contacts an unknown of the step's end, as theirs
        if not scheme.weighted:
            self.loads, self.random = ca.vertsplit(self.x_next[m:last], [0, self.joints.closing_rows, last - m])
        self.slip_before = self.at.slip @ self.v
        h = settings.step
        self.sigma, relaxation, held = regularized(model, h)
        """Diagonal of Σ, (n_g,)."""
        together = sum((ca.SX(body.mass) for body in model.bodies), ca.SX(0))
        self.softened = self.sigma
        """Diagonal of Σ̃: Σ, or where λ is unknown that of joints that are no stiffer than one on which all masses
        together swing with ω h = 2, (n_g,)."""
        if scheme.multipliers == "lifted":
            self.softened = self.sigma + ca.vertcat(relaxation, ca.SX.ones(model.rows - held)) / together
        moving = self.at.constraint[:held, :] @ self.v
        self.target = ca.vertcat(relaxation * (moving - 4 / h * self.at.violation), model.holding.speeds(self.u))
        """a = −(4/h) Υ g + Υ G v, and γ of constraints on velocities, (n_g,)."""
        self.slips = self.slips_to(self.v_next)

    @cached_property
    def contacts(self) -> ContactStep | None:
        if not self._touching.numel():
            return None
        sides = self.q, self.v, self.q_next, self.v_next
        return ContactStep(self.model, self.settings, self.law.form, *sides, self._touching, soft=True)

    @property
    def speed_data(self) -> ca.SX:
        """Data of factors that use inputs only through γ."""
        return self.model.holding.speed_data(self.u)

    @property
    def multipliers(self) -> ca.SX:
        if not self._scheme.weighted:
            return super().multipliers
        return self.multipliers_to(self.v_next)

    def multipliers_to(self, w: ca.SX) -> ca.SX:
        """Multipliers λ(w) = Σ⁻¹ (a − G w), (n_g,), or with the unknown λ of v₊, λ − Σ̃⁻¹ G (w − v₊).

        With λ for both residuals nothing but M would tie (q₊ ⊟ q)/h to v₊, and positions would follow the noise in the
        directions that joints hold.
        """
        if self._unknown.numel():
            return self._unknown - (self.at.constraint @ (w - self.v_next)) / self.softened
        return (self.target - self.at.constraint @ w) / self.sigma

    def constraint(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """Constraint residual Σλ + G w − a, (n_g,)."""
        return self.sigma * multipliers + self.at.constraint @ w - self.target

    def slips_to(self, w: ca.SX) -> Slips:
        """Slip rates of the joints over a step to ``w``."""
        now = self.at.slip @ w
        place, width = self.at.displacement, self.settings.slip_width
        efforts = gear_efforts(self.model, self.q, place, now, self.u, width)
        return Slips(now, now, self.slip_before, now - self.slip_before, (now,), place, efforts)

    def lacking(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """Impulse residual M (w − v) − Gᵀλ − Ḡᵀτ − h (f + f_g), (6 n_b,): the unmodelled impulse of a step to ``w``,
        and the impulse of contacts (3.7, 3.8)."""
        friction = self.law.impulses(self.model, self.settings, self.slips_to(w), multipliers, self.extra)
        return self.balance(w, multipliers, friction) - self._pushed

    def balance(self, w: ca.SX, multipliers: ca.SX, friction: ca.SX) -> ca.SX:
        """Impulse residual along the joint coordinates for given impulses of dry friction, (n_s,)."""
        along = along_coordinates(self.model, self.settings, self.slips_to(w), friction, self.u)
        return self.momentum(w) - self.at.constraint.T @ multipliers - self.at.slip.T @ along

    def momentum(self, w: ca.SX) -> ca.SX:
        """Change of momentum in a step without constraint impulses, M (w − v) − h (f + f_g), (6 n_b,)."""
        force = self.at.force + self.at.gyroscopic(self.v) + self.model.pushed(self.q, w, self.u)
        return self.at.mass @ (w - self.v) - self.settings.step * force

    def needed(self) -> ca.SX:
        return self.momentum(self.v_next) - self._pushed

    @property
    def _pushed(self) -> ca.SX:
        """What contacts do to all bodies, (6 n_b,)."""
        return ca.SX(self.v.numel(), 1) if self.contacts is None else self.contacts.impulse

    def carried(self, impulse: ca.SX) -> Transmitted:
        return self.joints.balanced(self.at, impulse)

    def weighted(self) -> Factor:
        """Weighted residuals Δp_q and Δp_u of a step, times √κ (3.7, 3.8 with 2.30)."""
        moved = self.model.configuration.minus(self.q_next, self.q) / self.settings.step
        residuals = [self.lacking(w, self.multipliers_to(w)) for w in (moved, self.v_next)]
        rows = ca.sqrt(self.settings.weight) * ca.vertcat(*residuals)
        return Factor("impulse", Group.STATE, rows, self.variables, self.u, self._both("Δp_q", "Δp_u"), motion=True)

    def weighted_first(self) -> Factor:
        """Weighted residuals of the first state: Δp_q0 = M_Σ Δq₀/h and Δp_u0 = M_Σ Δv₀ with Δq₀ = −G⁺ g, Δv₀ = G⁺ G v₀,
        times √κ (after 3.16, 3.17).

        M_Σ = M + GᵀΣ̃⁻¹G, with the diagonal of a Σ̃ that nowhere vanishes.
        """
        G, (apart, parting), sigma = self.at.constraint, self._first_rows, self.softened
        projected = _pseudo_inverse_times(G, ca.horzcat(-apart / self.settings.step, parting))
        impulses = self.at.mass @ projected + G.T @ ((G @ projected) / ca.horzcat(sigma, sigma))
        rows, labels = ca.sqrt(self.settings.weight) * ca.densify(ca.vec(impulses)), self._both("Δp_q0", "Δp_u0")
        return Factor("initial state", Group.STATE, rows, {0: self.x}, self.speed_data, labels, first_only=True)

    def held(self) -> Factor:
        """Equality constraints of a step: (q₊ ⊟ q)/h − v₊ = 0 and Σλ + G v₊ − a = 0."""
        moved = self.model.configuration.difference(self.q_next, self.q) / self.settings.step
        rows = ca.vertcat(moved - self.v_next, self.constraint(self.v_next, self.multipliers))
        labels = row_labels(self.model.bodies, "v") + self.model.holding.labels()
        return Factor("step", Group.STATE, rows, self.variables, self.speed_data, labels, kind=Kind.HARD)

    def first(self) -> Factor:
        """Constraints of the first state: g = 0 and G v = 0."""
        labels, held = self.model.holding.labels(), self.at.violation.numel()
        apart, parting = self._first_rows
        names = (*(f"{label} apart" for label in labels[:held]), *(f"{label} parting" for label in labels))
        rows, data = ca.vertcat(apart[:held], parting), self.speed_data
        return Factor("first state", Group.STATE, rows, {0: self.x}, data, names, first_only=True, kind=Kind.HARD)

    @property
    def _first_rows(self) -> tuple[ca.SX, ca.SX]:
        """The violation of constraints by a first state: g, 0 of those on velocities, and G v − γ, each (n_g,)."""
        holding = self.model.holding
        apart = ca.vertcat(self.at.violation, ca.SX(holding.on_velocities, 1))
        return apart, self.at.constraint @ self.v - holding.all_speeds(self.u)

    def _both(self, *quantities: str) -> tuple[str, ...]:
        return tuple(label for quantity in quantities for label in row_labels(self.model.bodies, quantity))


def regularized(model: Model, h: ca.SX) -> tuple[ca.SX, ca.SX, int]:
    """Regularization Σ (n_g,), damping Υ (n_p,) and n_p: (4/h²) ε Υ for position constraints with Υ = 1/(1 + 4τ/h), ε/h
    for velocity constraints."""
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


def _pseudo_inverse_times(G: ca.SX, right: ca.SX) -> ca.SX:
    """G⁺ right with G⁺ = Gᵀ(GGᵀ)⁻¹ by LDLᵀ.

    Rows that others imply (closed loops) make GGᵀ singular; a shift far below its entries then gives G⁺ to 1e-9.
    """
    if G.shape[0] == 0:
        return ca.SX(G.shape[1], right.shape[1])
    D, LT, p = ca.ldl(G @ G.T + _SHIFT * ca.SX.eye(G.shape[0]))
    return G.T @ ca.ldl_solve(right, D, LT, p)
