"""SPOOK: the regularized step of Lacoursière, as inverse dynamics and as a forward step (Marklund et al., 2.8 to 3.17).

The step, with M, G, g, f at step k and multipliers λ that are impulses, is

    M v₊ − Gᵀλ − Ḡᵀτ(v₊, λ) = M v + h (f + f_g),     Σ λ + G v₊ = a = −(4/h) Υ g + Υ G v,     q₊ = q ⊞ h v₊,

Υ = diag 1/(1 + 4τ/h), Σ = (4/h²) diag ε/(1 + 4τ/h); τ holds the impulses along the hinges' axes: friction, springs,
motors. Signs follow these equations; those printed with (2.8), (2.29) and (2.30) do not fit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca

from spookid.factor import Factor, Group
from spookid.friction import coefficients, smooth_absolute, smooth_sign, smooth_torque
from spookid.joints import ROWS, Hinge
from spookid.model import Mechanics, Model, row_labels


@dataclass(frozen=True)
class Settings:
    """Symbols of the settings that stand in a step."""

    step: ca.SX
    """h [s]."""
    weight: ca.SX
    """κ, the state weight."""
    slip_width: ca.SX
    """Width of the smooth stick/slip transition of each hinge, (n_j,) [rad/s]."""
    impulse_width: ca.SX
    """Width δ of √(λ² + δ²) in the load-dependent friction bound [N s]."""

    @classmethod
    def of(cls, model: Model) -> Settings:
        """Fresh symbols for a model."""
        n = len(model.joints)
        return cls(ca.SX.sym("h"), ca.SX.sym("kappa"), ca.SX.sym("slip_width", n), ca.SX.sym("impulse_width"))


@dataclass(frozen=True)
class Spook:
    """Positions and velocities as unknowns, multipliers eliminated through the compliance, which must be positive."""

    name = "spook"

    def factors(self, model: Model, settings: Settings) -> list[Factor]:
        """The impulse residuals of a step, and those of the initial state."""
        return [_initial_factor(model, settings), _step_factor(model, settings)]

    def multipliers(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step from x to x₊, the inputs u as data."""
        step = Step(model, settings)
        x_next = ca.SX.sym("x_next", model.state.ambient)
        v_next = x_next[model.configuration.ambient :]
        return StepFunction({0: step.x, 1: x_next}, step.u, step.eliminated(v_next))

    def forward(self, model: Model, settings: Settings) -> ForwardStep:
        """The step as equations in (v₊, λ), for any compliance from zero up (2.18)."""
        step = Step(model, settings)
        v_next = ca.SX.sym("v_next", model.configuration.tangent)
        multipliers = ca.SX.sym("lambda", step.sigma.numel())
        constraint = step.sigma * multipliers + step.at.constraint @ v_next - step.target
        q_next = model.configuration.retract(step.q, settings.step * v_next)
        return ForwardStep(
            x=step.x,
            u=step.u,
            unknowns=ca.vertcat(v_next, multipliers),
            equations=ca.vertcat(step.impulse(v_next, multipliers), constraint),
            x_next=ca.vertcat(q_next, v_next),
        )


@dataclass(frozen=True)
class StepFunction:
    """An expression of the states at neighbouring steps and of the step's data."""

    variables: Mapping[int, ca.SX]
    data: ca.SX
    value: ca.SX


@dataclass(frozen=True)
class ForwardStep:
    """One step as equations to solve: equations(x, u, unknowns) = 0, then x_next(x, unknowns)."""

    x: ca.SX
    u: ca.SX
    unknowns: ca.SX
    equations: ca.SX
    x_next: ca.SX


class Step:
    """The symbols and equations of one step from x with inputs u; ``w`` is v₊ or (q₊ ⊟ q)/h."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.x = ca.SX.sym("x", model.state.ambient)
        self.u = ca.SX.sym("u", len(model.signals))
        self.q, self.v = ca.vertsplit(self.x, [0, model.configuration.ambient, model.state.ambient])
        self.at: Mechanics = model.mechanics(self.q)
        self.slip_before = self.at.slip @ self.v
        h = settings.step
        relaxation = ca.vertcat(ca.SX(0, 1), *(1 / (1 + 4 * j.damping / h) for j in model.joints for _ in range(ROWS)))
        compliance = ca.vertcat(ca.SX(0, 1), *(j.compliances() for j in model.joints))
        self.sigma = 4 / h**2 * compliance * relaxation
        """Diagonal of Σ, (5 n_j,)."""
        self.target = relaxation * (self.at.constraint @ self.v - 4 / h * self.at.violation)
        """a = −(4/h) Υ g + Υ G v, (5 n_j,)."""

    def eliminated(self, w: ca.SX) -> ca.SX:
        """λ(w) = Σ⁻¹ (a − G w), (5 n_j,)."""
        return (self.target - self.at.constraint @ w) / self.sigma

    def impulse(self, w: ca.SX, multipliers: ca.SX) -> ca.SX:
        """M (w − v) − Gᵀλ − Ḡᵀτ − h (f + f_g), (6 n_b,): the external impulse a step to ``w`` needs (3.7, 3.8)."""
        force = self.at.force + self.at.gyroscopic(self.v)
        along = ca.vertcat(ca.SX(0, 1), *self._along_axes(self.at.slip @ w, multipliers))
        return (
            self.at.mass @ (w - self.v)
            - self.at.constraint.T @ multipliers
            - self.at.slip.T @ along
            - self.settings.step * force
        )

    def _along_axes(self, slip: ca.SX, multipliers: ca.SX) -> list[ca.SX]:
        """Impulse about the axis of each hinge [N m s] at the slip rates of ``w``."""
        h, impulses = self.settings.step, []
        for j, joint in enumerate(self.model.joints):
            impulse = h * smooth_torque(joint, self.at.angle[j], slip[j])
            if joint.rubs:
                bound = self._bound(joint, j, multipliers[ROWS * j : ROWS * (j + 1)])
                impulse -= bound * smooth_sign(slip[j], self.settings.slip_width[j])
            impulses.append(impulse)
        for motor in self.model.motors:
            j = self.model.joints.index(motor.hinge)
            u = self.u[self.model.signals.index(motor.signal)]
            impulses[j] += h * motor.gain * u - motor.shaft_inertia * (slip[j] - self.slip_before[j])
        return impulses

    def _bound(self, joint: Hinge, j: int, multipliers: ca.SX) -> ca.SX:
        """L = μ Σ|λ_i| + h c [N m s], |λ| smoothed."""
        dry, coulomb = coefficients(joint, self.slip_before[j])
        load = ca.sum1(smooth_absolute(multipliers, self.settings.impulse_width))
        return dry * load + self.settings.step * coulomb


def _step_factor(model: Model, settings: Settings) -> Factor:
    """Δp_q and Δp_u of a step, multipliers eliminated, times √κ (3.7, 3.8 with 2.30)."""
    step = Step(model, settings)
    x_next = ca.SX.sym("x_next", model.state.ambient)
    q_next, v_next = ca.vertsplit(x_next, [0, model.configuration.ambient, model.state.ambient])
    residuals = [
        step.impulse(w, step.eliminated(w)) for w in (model.configuration.minus(q_next, step.q) / settings.step, v_next)
    ]
    return Factor(
        "impulse",
        Group.STATE,
        ca.sqrt(settings.weight) * ca.vertcat(*residuals),
        {0: step.x, 1: x_next},
        step.u,
        row_labels(model, "Δp_q") + row_labels(model, "Δp_u"),
    )


def _initial_factor(model: Model, settings: Settings) -> Factor:
    """Δp_q0 = M_Σ Δq₀/h and Δp_u0 = M_Σ Δv₀ with Δq₀ = −G⁺ g, Δv₀ = G⁺ G v₀, times √κ (after 3.16, 3.17)."""
    step = Step(model, settings)
    g, G = step.at.violation, step.at.constraint
    projected = _pseudo_inverse_times(G, ca.horzcat(-g / settings.step, G @ step.v))
    weighted = step.at.mass @ projected + G.T @ ((G @ projected) / ca.horzcat(step.sigma, step.sigma))
    return Factor(
        "initial state",
        Group.STATE,
        ca.sqrt(settings.weight) * ca.densify(ca.vec(weighted)),
        {0: step.x},
        ca.SX.sym("none", 0),
        row_labels(model, "Δp_q0") + row_labels(model, "Δp_u0"),
        first_only=True,
    )


def _pseudo_inverse_times(G: ca.SX, right: ca.SX) -> ca.SX:
    """G⁺ right with G⁺ = Gᵀ(GGᵀ)⁻¹, rows of G independent; LDLᵀ without square roots."""
    if G.shape[0] == 0:
        return ca.SX(G.shape[1], right.shape[1])
    D, LT, p = ca.ldl(G @ G.T)
    return G.T @ ca.ldl_solve(right, D, LT, p)
