"""The symbols and equations of one SPOOK step; see ``spook``."""

from __future__ import annotations

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array
from spookid.mechanics.kinematics import velocities
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, along_coordinates


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
    compliance = ca.vertcat(ca.SX(0, 1), *(epsilon for _, epsilon in things))
    shares = (1 / (1 + 4 * damping / h) for damping, epsilon in things for _ in range(epsilon.numel()))
    relaxation = ca.vertcat(ca.SX(0, 1), *shares)[:held]
    return ca.vertcat(4 / h**2 * compliance[:held] * relaxation, compliance[held:] / h), relaxation, held


def doubled(model: Model, unknowns: Array, step: float) -> Array:
    """States (N, 13 n_b) of which every other one belongs to the same motion in steps of 2h: the velocity is that since
    two steps before."""
    q = np.ascontiguousarray(unknowns[:, : model.configuration.ambient])
    sides = velocities(q, step)
    v = (sides[2:] + sides[1:-1]) / 2  # from the third step on; those before are extrapolated
    return np.hstack([q, np.vstack([3 * v[:1] - 2 * v[1:2], 2 * v[:1] - v[1:2], v])])
