"""SPOOK: the regularized step of Lacoursière, as inverse dynamics and as a forward step (Marklund et al., 2.8 to 3.17).

The step, with M, G, g, f at step k and multipliers λ that are impulses, is

    M v₊ − Gᵀλ − Ḡᵀτ(v₊, λ) = M v + h (f + f_g),     Σ λ + G v₊ = a = −(4/h) Υ g + Υ G v,     q₊ = q ⊞ h v₊,

Υ = diag 1/(1 + 4τ/h), Σ = (4/h²) diag ε/(1 + 4τ/h); τ holds the impulses along the joints' coordinates: friction,
springs, motors. Signs follow these equations; those printed with (2.8), (2.29) and (2.30) do not fit them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, Literal

import casadi as ca

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.model import Model, row_labels
from spookid.parameter import is_zero
from spookid.records import dataclass
from spookid.stepping.base import Stepper
from spookid.stepping.contact_law import Reactions
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import ForwardStep, Settings, StepFunction, disturbance, random_symbol
from spookid.stepping.spook_space import SpookSpace, SpookStep, doubled
from spookid.stepping.unknowns import StateScheme
from spookid.stepping.variational import Variational
from spookid.transcription.factor import Factor, Group, Kind

_SHIFT = 1e-10
"""Of the diagonal of GGᵀ, whose entries are of the order of 1."""


@dataclass(frozen=True)
class Spook(StateScheme, Stepper):
    """Positions and velocities at each step as unknowns."""

    multipliers: Literal["eliminated", "lifted"] = "eliminated"
    """``"eliminated"``: λ = Σ⁻¹(a − G w), as in the paper; the compliance must be positive, and a stiff joint makes the
    problem hard to solve. ``"lifted"``: λ is unknown, and Σλ + G v₊ = a are hard rows; any compliance from zero up, and
    the same answer where both can be had. Where the noise is estimated both are one (``spook_space``), and any
    compliance will do."""
    law: DryFriction = field(default=DryFriction(), repr=False)
    """Form of dry friction; ``Problem.friction`` sets it."""
    order: ClassVar[int] = 1
    backward: ClassVar[bool] = True
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
        if self._lifted:
            return
        for joint in model.holding.names:
            if any(map(is_zero, ca.vertsplit(joint.compliance))):
                raise ProblemError(
                    f"{joint.place}: {joint.kind} {joint.name!r} has compliance 0, so Spook() cannot eliminate its "
                    'multipliers; use Spook(multipliers="lifted") or Variational()'
                )

    def reactions(self, model: Model) -> int:
        """λ if it is lifted."""
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
        impulse = _impulse_factor(step, step.lifted)
        return [_initial_factor(step, step.softened), impulse, _constraint_factor(step), *friction]

    def _step(self, model: Model, settings: Settings) -> SpookStep:
        return SpookStep(model, settings, self.law, self.manifold(model), self.reactions(model))

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step from x to x₊, the inputs u as data."""
        step = self._step(model, settings)
        return StepFunction(step.variables, step.u, self._estimated(step))

    def _estimated(self, step: SpookStep) -> ca.SX:
        return step.multipliers if self._lifted else step.eliminated(step.v_next)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """Over the step from x to x₊."""
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
        """Inputs of the forward steps, (N − 1, n_u)."""
        return held[:-1]


def _impulse_factor(step: SpookStep, multipliers: Callable[[ca.SX], ca.SX]) -> Factor:
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
        motion=True,
    )


def _constraint_factor(step: SpookStep) -> Factor:
    """Σλ + G v₊ = a as hard rows (2.18)."""
    return Factor(
        "constraint",
        Group.STATE,
        step.constraint(step.v_next, step.multipliers),
        step.variables,
        step.speed_data,
        step.model.holding.labels(),
        kind=Kind.HARD,
    )


def _initial_factor(step: SpookStep, sigma: ca.SX) -> Factor:
    """Δp_q0 = M_Σ Δq₀/h and Δp_u0 = M_Σ Δv₀ with Δq₀ = −G⁺ g, Δv₀ = G⁺ G v₀, times √κ (after 3.16, 3.17).

    M_Σ = M + GᵀΣ⁻¹G, with the diagonal of a Σ that nowhere vanishes.
    """
    G, (apart, parting) = step.at.constraint, step.first_rows
    projected = _pseudo_inverse_times(G, ca.horzcat(-apart / step.settings.step, parting))
    weighted = step.at.mass @ projected + G.T @ ((G @ projected) / ca.horzcat(sigma, sigma))
    return Factor(
        "initial state",
        Group.STATE,
        ca.sqrt(step.settings.weight) * ca.densify(ca.vec(weighted)),
        {0: step.x},
        step.speed_data,
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
