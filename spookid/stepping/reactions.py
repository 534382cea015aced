"""A step with friction that sticks and constraints that only push, as equations and bounded reactions (2.21, 2.24).

The reactions of a step are impulses u along rows B of the velocities: for each coordinate with dry friction its slip
row Ḡ, for each limit of a joint ±Ḡ, for each contact the rows of its gap and of its two tangents. The equations of
motion hold

    F(x, y, u) = 0,      y = (v₊, λ),

with the term −Bᵀu, and each reaction obeys a law of its rate r(x, y, u) and of its bound L = c + W|λ|:

    friction     u = −L sign(r), |u| ≤ L where r = 0; r = B v₊: what sticks does not creep (Σ_t = 0);
    push         0 ≤ u ⟂ r ≥ 0.

Friction acts at the slip v₊ in every stepper, so that a joint that stops stands still from the next step on.
"""

from __future__ import annotations

import casadi as ca

from spookid.mechanics import rotations
from spookid.mechanics.contact import Contact
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import is_zero, stacked
from spookid.stepping.contact_law import normal_rates, rebounds
from spookid.stepping.dry_friction import DryFriction, rubbing
from spookid.stepping.impulses import Laws, Settings, Slips

_LAW = DryFriction("exact")


class Reactions:
    """The reactions of a model at one configuration.

    Args:
        at: mechanics at ``q``, the symbol of the configuration (7 n_b,).
    """

    def __init__(self, model: Model, settings: Settings, at: Mechanics, q: ca.SX) -> None:
        self.model, self._settings, self._q = model, settings, q
        self.rubbing = rubbing(model)
        self._limited = [(joint, i, pair) for joint in model.joints for i, pair in joint.stops]
        slips = [at.slip[j, :] for j in self.rubbing]
        places = [model.freedoms_of(joint).start + i for joint, i, _ in self._limited]
        ends = [sign * at.slip[j, :] for j in places for sign in (1, -1)]
        touching = [jacobian(model.contact(contact, q), q, model.configuration) for contact in model.contacts]
        self.directions = ca.vertcat(ca.SX(0, model.configuration.tangent), *slips, *ends, *touching)
        """B, (m, 6 n_b)."""
        self.symbol = ca.SX.sym("reaction", self.directions.shape[0])
        self.unilateral = (
            *(False for _ in slips),
            *(True for _ in ends),
            *(row == 0 for _ in touching for row in range(3)),
        )
        self._pushing = [i for i, pushes in enumerate(self.unilateral) if pushes]

    @property
    def discs(self) -> tuple[tuple[int, int], ...]:
        """Tangents of contacts with Coulomb's cone."""
        first = self.symbol.numel() - 3 * len(self.model.contacts)
        round_ = (3 * k for k, contact in enumerate(self.model.contacts) if contact.cone == "disc")
        return tuple((first + start + 1, first + start + 2) for start in round_)

    def gaps(self, q: ca.SX) -> ca.SX:
        """What must not be negative, at any expression of the configuration: both ends of limits, gaps of contacts."""
        gaps = []
        for joint, i, limits in self._limited:
            lower, upper = ca.vertsplit(limits)
            away = self.model.joint(joint, q).displacement[i] - (lower + upper) / 2
            if joint.coordinates[i].turns_over:
                away = rotations.wrapped(away)
            gaps += [(upper - lower) / 2 + away, (upper - lower) / 2 - away]
        gaps += [self.model.contact(contact, q)[0] for contact in self.model.contacts]
        return stacked(gaps)

    def rigid(self, q_next: ca.SX, v: ca.SX) -> ca.SX:
        """Rows of what pushes where it is rigid: gaps at the end of the step over h, or the speeds of rebounds."""
        h, now = self._settings.step, self.gaps(self._q)
        rows = ca.vertsplit(self.gaps(q_next) / h)
        for i, contact in self._rebounding:
            speed = self.directions[self._pushing[i], :] @ v
            up = rebounds(contact, now[i], speed, h)
            rows[i] = ca.if_else(up, normal_rates(contact, now[i], h * rows[i], speed, h)[1], rows[i])
        return stacked(rows)

    @property
    def _rebounding(self) -> list[tuple[int, Contact]]:
        """Contacts that rebound, and which of what pushes they are."""
        first = len(self._pushing) - len(self.model.contacts)
        return [(first + k, contact) for k, contact in enumerate(self.model.contacts) if contact.rebounds]

    def regularized(self, v: ca.SX, v_next: ca.SX) -> ca.SX:
        """Rows of what pushes in SPOOK: C v₊ + Σ u + (4/h) Υ c − Υ C v (2.21), or C v₊ + e C v of rebounds."""
        h = self._settings.step
        ends = [(joint.stop_compliance(i), joint.damping) for joint, i, _ in self._limited for _ in range(2)]
        soft = ends + [(contact.compliance, contact.damping) for contact in self.model.contacts]
        relaxation = stacked(1 / (1 + 4 * damping / h) for _, damping in soft)
        compliance = stacked(epsilon for epsilon, _ in soft)
        C = ca.vertcat(ca.SX(0, v.numel()), *(self.directions[i, :] for i in self._pushing))
        pushes = stacked(self.symbol[i] for i in self._pushing)
        sigma = 4 / h**2 * compliance * relaxation
        gap = 4 / h * relaxation * self.gaps(self._q)
        rows, gaps = C @ v_next + sigma * pushes + gap - relaxation * (C @ v), self.gaps(self._q)
        for i, contact in self._rebounding:
            speed, after = C[i, :] @ v, C[i, :] @ v_next
            # What is to rebound is not braked before it touches, nor softened as it does.
            leaving = ca.if_else(rebounds(contact, gaps[i], speed, h), contact.restitution * speed, gaps[i] / h)
            rows[i] = ca.if_else(-speed > contact.threshold, after + leaving, rows[i])
        return rows

    def rates(self, v_next: ca.SX, pushing: ca.SX) -> ca.SX:
        """r, (m,): slip rates B v₊ of friction, ``pushing`` of what pushes."""
        rates = ca.vertsplit(ca.densify(self.directions @ v_next))
        for i, row in zip(self._pushing, ca.vertsplit(pushing), strict=True):
            rates[i] = row
        return stacked(rates)

    def impulse(self, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """What the reactions do to all bodies, (6 n_b,): Bᵀu, less the lean of friction that differs by direction."""
        impulse, leans = self.directions.T @ self.symbol, _LAW.leans(self.model, self._settings, slips, multipliers)
        if not leans.nnz():
            return impulse
        return impulse - self.directions[: len(self.rubbing), :].T @ leans[self.rubbing]

    def laws(self, slips: Slips, multipliers: ca.SX, rates: ca.SX, symmetric: bool = False) -> Laws:
        """What they obey at rates as of ``rates``."""
        bounds = self._bounds(slips, multipliers)
        return Laws(self.symbol, rates, *bounds, self.unilateral, self.discs, symmetric)

    def _bounds(self, slips: Slips, multipliers: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        """c (m,), W (m, l) and the loads (l,) of L = c + W|λ|: μ Σ|λ_i| + h c of joints, μ u_n of contacts."""
        m, freedoms = self.symbol.numel(), self.model.freedoms
        constant, loaded, loads = ca.SX(m, 1), [], []
        for i, j in enumerate(self.rubbing):
            joint, own = freedoms[j].joint, self.model.freedoms_of(freedoms[j].joint)
            bound, k = joint.bound(slips.position[own, 0], slips.before[own, 0]), freedoms[j].index
            constant[i] = self._settings.step * bound.constant[k]
            if not is_zero(bound.load[k]):
                loaded.append((i, bound.load[k]))
                loads.append(multipliers[self.model.rows_of(joint), 0])
        for k, contact in enumerate(self.model.contacts):
            normal = m - 3 * len(self.model.contacts) + 3 * k
            constant[normal + 1 : normal + 3] = contact.friction * self.symbol[normal]
        weights, start = ca.SX(m, sum(load.numel() for load in loads)), 0
        for (i, coefficient), load in zip(loaded, loads, strict=True):
            weights[i, start : start + load.numel()] = coefficient
            start += load.numel()
        return ca.densify(constant), weights, stacked(loads)
