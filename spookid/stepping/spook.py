"""SPOOK: the regularized step of Lacoursière, as inverse dynamics and as a forward step (Marklund et al., 2.8 to 3.17).

The step, with M, G, g, f at step k and multipliers λ that are impulses, is

    M v₊ − Gᵀλ − Ḡᵀτ(v₊, λ) = M v + h (f + f_g),     Σ λ + G v₊ = a = −(4/h) Υ g + Υ G v,     q₊ = q ⊞ h v₊,

Υ = diag 1/(1 + 4τ/h), Σ = (4/h²) diag ε/(1 + 4τ/h); τ holds the impulses along the hinges' axes: friction, springs,
motors. Signs follow these equations; those printed with (2.8), (2.29) and (2.30) do not fit them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.mechanics.joints import ROWS
from spookid.mechanics.kinematics import velocities
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model, constraint_labels, row_labels
from spookid.parameter import is_constant
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import (
    ForwardStep,
    Settings,
    Slips,
    StepFunction,
    along_axes,
    disturbance,
    random_symbol,
)
from spookid.stepping.reactions import ExactStep, Reactions
from spookid.transcription.factor import Factor, Group, Kind

_SHIFT = 1e-10
"""Of the diagonal of GGᵀ, whose entries are of the order of 1."""


@dataclass(frozen=True)
class Spook:
    """Positions and velocities at each step as unknowns.

    Raises:
        ProblemError: for other multipliers than these two.
    """

    multipliers: Literal["eliminated", "lifted"] = "eliminated"
    """``"eliminated"``: λ = Σ⁻¹(a − G w), as in the paper; the compliance must be positive, and a stiff hinge makes the
    problem hard to solve. ``"lifted"``: λ is unknown, and Σλ + G v₊ = a are hard rows; any compliance from zero up, and
    the same answer where both can be had. Where the noise is estimated both are one (``spook_space``), and any
    compliance will do."""
    law: DryFriction = field(default=DryFriction(), repr=False)
    """Form of dry friction; ``Problem.friction`` sets it."""
    order: ClassVar[int] = 1
    """Errors of a motion fall with this power of h."""

    def __post_init__(self) -> None:
        if self.multipliers not in ("eliminated", "lifted"):
            raise ProblemError(f"Spook: multipliers is {self.multipliers!r}; choose 'eliminated' or 'lifted'")

    @property
    def name(self) -> str:
        """As on the command line."""
        return "spook-lifted" if self._lifted else "spook"

    @property
    def _lifted(self) -> bool:
        return self.multipliers == "lifted"

    def check_weight(self, state_weight: float, what: str) -> None:
        """Raise ProblemError for an infinite state weight, which this stepper cannot do."""
        if not np.isfinite(state_weight):
            raise ProblemError(f"{what}: an infinite state_weight needs the stepper Variational()")

    def check_model(self, model: Model) -> None:
        """Raise ProblemError for a rigid hinge whose multipliers are to be eliminated."""
        if self._lifted:
            return
        for joint in model.joints:
            if any(is_constant(e) and float(e) == 0 for e in ca.vertsplit(joint.compliance)):
                raise ProblemError(
                    f"{joint.place}: Hinge {joint.name!r} has compliance 0, so Spook() cannot eliminate its "
                    'multipliers; use Spook(multipliers="lifted") or Variational()'
                )

    def notices(self, model: Model) -> list[str]:
        """What a user should know."""
        return []

    def manifold(self, model: Model) -> Manifold:
        """The unknowns of a step: (q, v), λ if lifted, and those of the friction law."""
        flat = self._multipliers(model) + self.law.unknowns(model)
        return Manifold((*model.state.parts, *((("flat", flat),) if flat else ())))

    def _multipliers(self, model: Model) -> int:
        return ROWS * len(model.joints) if self._lifted else 0

    def window(self, model: Model, settings: Settings, rates: bool) -> tuple[dict[int, ca.SX], ca.SX, ca.SX]:
        """The unknowns that a state at one step is made of, by offset, and that state's q and v."""
        x = ca.SX.sym("x", self.manifold(model).ambient)
        n, m = model.configuration.ambient, model.state.ambient
        return {0: x}, x[:n], x[n:m]

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return x[: model.configuration.ambient]

    def start(self, model: Model, states: Array, angles: Array, friction: Array) -> Array:
        """Unknowns (N, ambient) from states x = (q, v), (N, 13 n_b), unwrapped angles of all hinges, (N, n_j), and the
        unknowns of the friction law, (N, n)."""
        return np.hstack([states, np.zeros((len(states), self._multipliers(model))), friction])

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b), from the unknowns."""
        return unknowns[:, : model.state.ambient]

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns (N, ambient) of which every other one belongs to the same motion in steps of 2h: the velocity is
        that since two steps before. None if multipliers are unknown, which belong to a step."""
        if self._lifted:
            return None
        q = np.ascontiguousarray(unknowns[:, : model.configuration.ambient])
        sides = velocities(q, step)
        v = (sides[2:] + sides[1:-1]) / 2  # from the third step on; those before are extrapolated
        return np.hstack([q, np.vstack([3 * v[:1] - 2 * v[1:2], 2 * v[:1] - v[1:2], v])])

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 1, n_u), from the inputs held at each step, (N, n_u)."""
        return held[:-1]

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The impulse residuals of a step and of the initial state, and the lifted constraint rows."""
        step = self._step(model, settings)
        friction = self.law.factors(model, settings, step.slips(step.v_next), step.extra, step.variables)
        if not self._lifted:
            return [_initial_factor(step, step.sigma), _impulse_factor(step, step.eliminated), *friction]
        impulse = _impulse_factor(step, step.lifted)
        return [_initial_factor(step, step.softened), impulse, _constraint_factor(step), *friction]

    def _step(self, model: Model, settings: Settings) -> Step:
        return Step(model, settings, self.law, self.manifold(model), self._multipliers(model))

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step from x to x₊, the inputs u as data."""
        step = self._step(model, settings)
        return StepFunction(step.variables, step.u, self._estimated(step))

    def _estimated(self, step: Step) -> ca.SX:
        return step.multipliers if self._lifted else step.eliminated(step.v_next)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """What ``DryFriction.along`` gives of every hinge over the step from x to x₊, (4 n_j,)."""
        step = self._step(model, settings)
        slips = step.slips(step.v_next)
        return StepFunction(
            step.variables, step.u, self.law.along(model, settings, slips, self._estimated(step), step.extra)
        )

    def forward(self, model: Model, settings: Settings, random: bool = False) -> ForwardStep:
        """The step as equations in (v₊, λ), for any compliance from zero up (2.18)."""
        step = Step(model, settings, DryFriction(), model.state, 0)
        impulses = random_symbol(model, random)
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", step.sigma.numel())
        q_next = model.configuration.retract(step.q, settings.step * v_next)
        return ForwardStep(
            x=step.x,
            u=ca.vertcat(step.u, impulses),
            unknowns=ca.vertcat(v_next, multipliers),
            equations=ca.vertcat(
                step.impulse(v_next, multipliers) - disturbance(model, step.at, impulses),
                step.constraint(v_next, multipliers),
            ),
            x_next=ca.vertcat(q_next, v_next),
        )

    def exact(self, model: Model, settings: Settings, random: bool = False) -> ExactStep:
        """The step as equations in (v₊, λ) with reactions, for any compliance from zero up (2.26)."""
        step = Step(model, settings, DryFriction(), model.state, 0)
        reactions = Reactions(model, settings, step.at, step.q)
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", step.sigma.numel())
        impulse = step.balance(v_next, multipliers, ca.SX(len(model.joints), 1))
        impulses = random_symbol(model, random)
        impulse -= reactions.directions.T @ reactions.symbol + disturbance(model, step.at, impulses)
        constant, weights, loads = reactions.bounds(step.slip_before, multipliers)
        return ExactStep(
            x=step.x,
            u=ca.vertcat(step.u, impulses),
            unknowns=ca.vertcat(v_next, multipliers),
            reactions=reactions.symbol,
            equations=ca.vertcat(impulse, -step.constraint(v_next, multipliers)),
            rates=reactions.rates(v_next, reactions.regularized(step.v, v_next)),
            constant=constant,
            weights=weights,
            loads=loads,
            unilateral=reactions.unilateral,
            x_next=ca.vertcat(model.configuration.retract(step.q, settings.step * v_next), v_next),
            symmetric=True,
        )

    def forward_inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs of the forward steps, (N − 1, n_u)."""
        return held[:-1]

    def recorded(self, model: Model, marched: Array, step: float) -> Array:
        """States at t_k from those of the march."""
        return marched


class Step:
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
        relaxation = ca.vertcat(ca.SX(0, 1), *(1 / (1 + 4 * j.damping / h) for j in model.joints for _ in range(ROWS)))
        compliance = ca.vertcat(ca.SX(0, 1), *(j.compliances() for j in model.joints))
        self.sigma = 4 / h**2 * compliance * relaxation
        """Diagonal of Σ, (5 n_j,)."""
        together = sum((ca.SX(body.mass) for body in model.bodies), ca.SX(0))
        self.softened = self.sigma + relaxation / together
        """Diagonal of Σ̃, Σ of joints that are no stiffer than one on which all masses together swing with ω h = 2."""
        self.target = relaxation * (self.at.constraint @ self.v - 4 / h * self.at.violation)
        """a = −(4/h) Υ g + Υ G v, (5 n_j,)."""

    def eliminated(self, w: ca.SX) -> ca.SX:
        """λ(w) = Σ⁻¹ (a − G w), (5 n_j,)."""
        return (self.target - self.at.constraint @ w) / self.sigma

    def lifted(self, w: ca.SX) -> ca.SX:
        """λ(w) = λ − Σ̃⁻¹ G (w − v₊) with the unknown λ of v₊, (5 n_j,): with Σ̃ = Σ as eliminated.

        With λ for both residuals nothing but M would tie (q₊ ⊟ q)/h to v₊, and positions would follow the noise in the
        directions that joints hold.
        """
        return self.multipliers - (self.at.constraint @ (w - self.v_next)) / self.softened

    def constraint(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """Σλ + G w − a, (5 n_j,)."""
        return self.sigma * multipliers + self.at.constraint @ w - self.target

    def slips(self, w: ca.SX) -> Slips:
        """Slip rates of a step to ``w``."""
        now = self.at.slip @ w
        return Slips(now, now, self.slip_before, now - self.slip_before, (now,))

    def impulse(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """M (w − v) − Gᵀλ − Ḡᵀτ − h (f + f_g), (6 n_b,): the external impulse a step to ``w`` needs (3.7, 3.8)."""
        friction = self.law.impulses(self.model, self.settings, self.slips(w), multipliers, self.extra)
        return self.balance(w, multipliers, friction)

    def balance(self, w: ca.SX, multipliers: ca.SX, friction: ca.SX) -> ca.SX:
        """The same with given impulses of dry friction about the hinges' axes, (n_j,)."""
        force = self.at.force + self.at.gyroscopic(self.v)
        along = along_axes(self.model, self.settings, self.at.angle, self.slips(w), friction, self.u)
        return (
            self.at.mass @ (w - self.v)
            - self.at.constraint.T @ multipliers
            - self.at.slip.T @ along
            - self.settings.step * force
        )


def _impulse_factor(step: Step, multipliers: Callable[[ca.SX], ca.SX]) -> Factor:
    """Δp_q and Δp_u of a step times √κ (3.7, 3.8 with 2.30), with the multipliers as a function of w."""
    moved = step.model.configuration.minus(step.q_next, step.q) / step.settings.step
    residuals = [step.impulse(w, multipliers(w)) for w in (moved, step.v_next)]
    return Factor(
        "impulse",
        Group.STATE,
        ca.sqrt(step.settings.weight) * ca.vertcat(*residuals),
        step.variables,
        step.u,
        row_labels(step.model, "Δp_q") + row_labels(step.model, "Δp_u"),
    )


def _constraint_factor(step: Step) -> Factor:
    """Σλ + G v₊ = a as hard rows (2.18)."""
    return Factor(
        "constraint",
        Group.STATE,
        step.constraint(step.v_next, step.multipliers),
        step.variables,
        ca.SX.sym("none", 0),
        constraint_labels(step.model),
        kind=Kind.HARD,
    )


def _initial_factor(step: Step, sigma: ca.SX) -> Factor:
    """Δp_q0 = M_Σ Δq₀/h and Δp_u0 = M_Σ Δv₀ with Δq₀ = −G⁺ g, Δv₀ = G⁺ G v₀, times √κ (after 3.16, 3.17).

    M_Σ = M + GᵀΣ⁻¹G, with the diagonal of a Σ that nowhere vanishes.
    """
    g, G = step.at.violation, step.at.constraint
    projected = _pseudo_inverse_times(G, ca.horzcat(-g / step.settings.step, G @ step.v))
    weighted = step.at.mass @ projected + G.T @ ((G @ projected) / ca.horzcat(sigma, sigma))
    return Factor(
        "initial state",
        Group.STATE,
        ca.sqrt(step.settings.weight) * ca.densify(ca.vec(weighted)),
        {0: step.x},
        ca.SX.sym("none", 0),
        row_labels(step.model, "Δp_q0") + row_labels(step.model, "Δp_u0"),
        first_only=True,
    )


def _pseudo_inverse_times(G: ca.SX, right: ca.SX) -> ca.SX:
    """G⁺ right with G⁺ = Gᵀ(GGᵀ)⁻¹ by LDLᵀ.

    Rows that others imply (closed loops) make GGᵀ singular; a shift far below its entries then gives G⁺ to 1e-9.
    """
    if G.shape[0] == 0:
        return ca.SX(G.shape[1], right.shape[1])
    D, LT, p = ca.ldl(G @ G.T + _SHIFT * ca.SX.eye(G.shape[0]))
    return G.T @ ca.ldl_solve(right, D, LT, p)
