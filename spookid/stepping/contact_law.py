"""Contacts that push and rub, as equations or pairs in the unknowns of a fit (2.21, 2.24; Moreau and Jean for impacts).

In the step from t_k, with the gap g_k, velocities v before it and v₊ of it, and C the row of the gap, a contact has the
rate

    r = g_{k+1}/h                              that what touches is on the plane at the end of the step,
    r = (g_{k+1} − g_k)/h + e C v              where it rebounds: g_k + h C v < 0 and −C v above the threshold,

and obeys 0 ≤ u ⟂ r ≥ 0 with the normal impulse u. Along the tangents it feels μ u z at the slip s₊ = Ḡ v₊, with

    box     z_i = clip(z_i − s_i/w, −1, 1) for each of the two,
    disc    z the point of the unit disc nearest z − s/w.

u and z are unknowns at every step. Where a contact is open z follows the slip and does nothing; it never sticks there.

What several points of a rigid body push and rub is not determined by its motion. So every rate has a small share of the
impulse added to it, ``_SOFT`` u/m: the impulses are then those of equally soft points, and rates are met to that share
of the velocity that an impulse changes.

A step with friction that sticks and constraints that only push, as equations and bounded reactions (2.21, 2.24).

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

from functools import cached_property

import casadi as ca

from spookid.mechanics import rotations
from spookid.mechanics.contacts import Contact
from spookid.mechanics.joint_coordinates import bound_of
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Mechanics, Model
from spookid.mechanics.point_loads import size as length_of
from spookid.parameter import is_zero, stacked
from spookid.records import dataclass
from spookid.stepping.impulses import DryFriction, Form, Laws, Settings, Slips, rubbing
from spookid.transcription.factor import Box, Factor, Group, Kind

_SOFT = 1e-3
"""Speed that an impulse of the mechanism's mass times a speed may add to a rate, over that speed."""
_HARD = 1e-4
"""The same of rebounds, whose restitution is off by about as much."""
_SWITCHING = 0.1
"""Share of the mechanism's mass by which a rate counts as an impulse where a solver opens or closes a contact: with too
much of it the noise of a gap over a step is taken for a lift."""
_PAIRS = {"box": ("normal", "along +x", "along −x", "along +y", "along −y"), "disc": ("normal", "disc")}
"""Names of the pairs of a contact."""
CONTACT_LAW = "contact law"
"""Name of the factor."""


def rebounds(contact: Contact, gap: ca.SX, speed: ca.SX, step: ca.SX) -> ca.SX:
    """1 if an impact happens in a step that begins with this gap and normal speed, otherwise 0."""
    if not contact.rebounds:
        return ca.SX(0)
    return ca.logic_and(gap + step * speed < 0, -speed > contact.threshold)


def normal_rates(contact: Contact, gap: ca.SX, gap_next: ca.SX, speed: ca.SX, step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Normal rates r of a contact that stays closed, and of one that rebounds [m/s]."""
    return gap_next / step, (gap_next - gap) / step + contact.restitution * speed


def regularized_rates(
    contact: Contact, impulse: ca.SX, gap: ca.SX, speed: ca.SX, after: ca.SX, step: ca.SX
) -> tuple[ca.SX, ca.SX]:
    """Same rates for SPOOK, at the speed ``after`` the step: C v₊ + Σ u + (4/h) Υ c − Υ C v (2.21), or C v₊ + e C v."""
    relaxation = 1 / (1 + 4 * contact.damping / step)
    touching = after + 4 / step * relaxation * (contact.compliance / step * impulse + gap) - relaxation * speed
    if contact.rebounds:  # it is not braked before it touches
        touching = ca.if_else(-speed > contact.threshold, after + gap / step, touching)
    return touching, after + contact.restitution * speed


def unknowns(model: Model, form: Form) -> int:
    """Unknowns of a step: u and z of each contact, and with pairs σ of both tangents or κ of the disc."""
    return sum(size(contact, form) for contact in model.contacts)


def in_pairs(form: str) -> bool:
    """True if the contact law is formulated by complementarity pairs."""
    return form == "mpcc"


def size(contact: Contact, form: Form) -> int:
    """Of one contact."""
    beside = 2 if contact.cone == "box" else 1
    return 1 + (2 + in_pairs(form) * beside) * contact.rubs


@dataclass(frozen=True, eq=False)
class ContactStep:
    """All contacts in a step."""

    model: Model
    settings: Settings
    form: Form
    q: ca.SX
    """Poses at its beginning, (7 n_b,)."""
    v: ca.SX
    """Velocities before, (6 n_b,)."""
    q_next: ca.SX
    v_next: ca.SX
    extra: ca.SX
    """The unknowns of ``unknowns``: u over its unit, z_1, z_2 and further unknowns, contact by contact."""
    soft: bool = False
    """True for the rates of SPOOK."""

    @cached_property
    def touching(self) -> list[Touching]:
        """Contact by contact."""
        found, start = [], 0
        q, h, contacts = ca.SX.sym("q", self.q.numel()), self.settings.step, self.model.contacts
        places = ca.vertcat(ca.SX(0, 1), *(self.model.contact(contact, q) for contact in contacts))
        given = [places, jacobian(places, q, self.model.configuration)]
        now, slopes = ca.substitute(given, [q], [ca.densify(self.q)])
        next_ = ca.substitute([places], [q], [ca.densify(self.q_next)])[0]
        for i, contact in enumerate(contacts):
            rows, end = slopes[3 * i : 3 * i + 3, :], start + size(contact, self.form)
            own, start = self.extra[start:end], end
            speed = rows[0, :] @ self.v
            rates = normal_rates(contact, now[3 * i], next_[3 * i], speed, h)
            if self.soft:
                pushed = self.settings.touch_impulse * own[0]
                rates = regularized_rates(contact, pushed, now[3 * i], speed, rows[0, :] @ self.v_next, h)
            up = rebounds(contact, now[3 * i], speed, h)
            found.append(Touching(contact, self.settings, rows, own, rates, rows[1:, :] @ self.v_next, up))
        return found

    @property
    def impulse(self) -> ca.SX:
        """Impulse of all contacts on all bodies, (6 n_b,)."""
        none = ca.SX(self.model.configuration.tangent, 1)
        return sum((one.rows.T @ ca.vertcat(one.normal, one.tangential) for one in self.touching), none)

    @property
    def along(self) -> ca.SX:
        """For each contact, impulses along the normal and both tangents, and the residual of the contact law [N s], (4
        n_c,)."""
        rows = [ca.vertcat(one.normal, one.tangential, one.distance) for one in self.touching]
        return ca.vertcat(ca.SX(0, 1), *rows)

    def factors(self, variables: dict[int, ca.SX]) -> list[Factor]:
        """Contact law as equality constraints with an active set, or as pairs and equality constraints."""
        if not self.touching:
            return []
        if in_pairs(self.form):
            return self._paired(variables)
        parts = [part for one in self.touching for part in one.boxes()]
        box, touching = Box.joined(parts), [one.contact for one in self.touching]
        rows = tuple(
            f"{what} {one.name}" for one in touching for what in ("normal", "along x", "along y")[: 1 + 2 * one.rubs]
        )
        none = ca.SX.sym("none", 0)
        return [Factor(CONTACT_LAW, Group.STATE, box.rows(), variables, none, rows, kind=Kind.HARD, box=box)]

    def _paired(self, variables: dict[int, ca.SX]) -> list[Factor]:
        pairs, hard, named, directed = list[tuple[ca.SX, ca.SX]](), list[ca.SX](), list[str](), list[str]()
        for one in self.touching:
            own, directions = one.pairs()
            pairs += own
            hard += directions
            named += [f"{what} {one.contact.name}" for what in _PAIRS[one.contact.cone][: len(own)]]
            directed += [f"{what} {one.contact.name}" for what in ("along x", "along y") if directions]
        none, halves = ca.SX.sym("none", 0), ca.vertcat(*(a for a, _ in pairs), *(b for _, b in pairs))
        rows = tuple(f"{half} {name}" for half in ("slack", "room") for name in named)
        found = [Factor(CONTACT_LAW, Group.STATE, halves, variables, none, rows, kind=Kind.PAIRS)]
        if hard:
            at = ca.vertcat(*hard), variables, none, tuple(directed)
            found.append(Factor("slip direction", Group.STATE, *at, kind=Kind.HARD))
        return found


@dataclass(frozen=True, eq=False)
class Touching:
    """One contact in a step."""

    contact: Contact
    settings: Settings
    rows: ca.SX
    """Of the gap and of both tangents, (3, 6 n_b)."""
    own: ca.SX
    """Its unknowns."""
    rates: tuple[ca.SX, ca.SX]
    """r without what is soft where it stays on the plane, and where it rebounds."""
    slip: ca.SX
    """s₊, (2,)."""
    rebounding: ca.SX
    """1 where it rebounds."""

    @property
    def normal(self) -> ca.SX:
        """u [N s]."""
        return self.settings.touch_impulse * self.own[0]

    @property
    def tangential(self) -> ca.SX:
        """μ u z, (2,)."""
        if not self.contact.rubs:
            return ca.SX(2, 1)
        return self.contact.friction * self.normal * self.own[1:3]

    @property
    def _soft_rates(self) -> list[ca.SX]:
        """Both rates with what is soft, over the speed that counts."""
        speed, shares = self.settings.touch_speed, (_SOFT, _HARD)
        return [rate / speed + share * self.own[0] for rate, share in zip(self.rates, shares, strict=True)]

    @property
    def _soft_slip(self) -> ca.SX:
        """s₊ likewise, (2,)."""
        return self.slip / self.settings.touch_speed + _SOFT * self.contact.friction * self.own[0] * self.own[1:3]

    @property
    def distance(self) -> ca.SX:
        """Residual |min(u, r)| or μ u |z − P(z − s/w)|, P the projection onto the cone, whichever is larger [N s]."""
        rate = ca.if_else(self.rebounding, *reversed(self._soft_rates))
        normal = self.settings.touch_impulse * ca.fabs(ca.fmin(self.own[0], rate))
        if not self.contact.rubs:
            return normal
        aimed = self.own[1:3] - self._soft_slip
        size = ca.fabs(aimed) if self.contact.cone == "box" else ca.norm_2(aimed)
        away = self.own[1:3] - aimed / ca.fmax(size, 1)
        return ca.fmax(normal, self.contact.friction * ca.fabs(self.normal) * ca.norm_2(away))

    def boxes(self) -> list[Box]:
        """Boxes of the normal (open, closed, rebounding) and the tangents; for a rounded law only rebounding or not."""
        u, codes, (touching, leaving) = self.own[0], ca.SX.sym("normal"), self._soft_rates
        up, rounded = self.rebounding, self.settings.touch_rounding > 0
        wanted = ca.if_else(rounded, up, u - _SWITCHING * ca.if_else(up, leaving, touching))
        lower, upper = ca.if_else(rounded, -1, 0), ca.if_else(rounded, 0.5, ca.if_else(up, 0, ca.inf))
        inside, held = (self._rounded_push(r) for r in (touching, ca.if_else(codes > 0, leaving, touching)))
        ends = ca.if_else(rounded, held, ca.if_else(codes > 0, leaving, u))
        normal = Box(codes, ca.if_else(rounded, inside, touching), ends, (0,), wanted, lower, upper)
        if not self.contact.rubs:
            return [normal]
        pushed, z, slip = self.contact.friction * ca.fmax(u, 0), self.own[1:3], self._soft_slip
        aimed, stuck = pushed * z - _SWITCHING * slip, ca.if_else(rounded, self._rounded_slip, -slip)
        if self.contact.cone == "box":
            codes, bound = ca.SX.sym("tangents", 2), pushed * ca.SX.ones(2)
            ends, of, size, lower, upper = z - ca.sign(codes), (0, 1), aimed, -bound, bound
        else:
            codes, length = ca.SX.sym("disc"), length_of(aimed)
            ends, of, size, lower, upper = z - aimed / length, (0, 0), length, ca.SX(-1), pushed
        ends, size = ca.if_else(rounded, self._rounded_slip, ends), ca.if_else(rounded, 0, size)
        return [normal, Box(codes, stuck, ends, of, size, lower, upper)]

    def _rounded_push(self, rate: ca.SX) -> ca.SX:
        """u + r − √(u² + r² + 2t²), zero where u r = t² (Fischer and Burmeister; Kanzow)."""
        t = self.settings.touch_rounding
        return self.own[0] + rate - ca.sqrt(self.own[0] ** 2 + rate**2 + ca.if_else(t > 0, 2 * t**2, 1))

    @property
    def _rounded_slip(self) -> ca.SX:
        """z √(|s|² + t²) + s, of each tangent or of both together."""
        t, slip = self.settings.touch_rounding, self._soft_slip
        squares = slip**2 if self.contact.cone == "box" else ca.sumsqr(slip)
        return self.own[1:3] * ca.sqrt(squares + ca.if_else(t > 0, t**2, 1)) + slip

    def pairs(self) -> tuple[list[tuple[ca.SX, ca.SX]], list[ca.SX]]:
        """Complementarity pairs (a, b), and equality constraints."""
        u = self.own[0]
        found = [(u, ca.if_else(self.rebounding, *reversed(self._soft_rates)))]
        if not self.contact.rubs:
            return found, []
        z, slip = self.own[1:3], self._soft_slip
        if self.contact.cone == "box":
            for i in range(2):
                sigma = self.own[3 + i]
                found += [(sigma, 1 + z[i]), (sigma - slip[i], 1 - z[i])]
            return found, []
        kappa = self.own[3]
        return [*found, (kappa, 1 - ca.sumsqr(z))], ca.vertsplit(slip + kappa * z)


_LAW = DryFriction("exact")


class Reactions:
    """Contact and friction reactions of a model at one configuration: mechanics ``at`` the symbol ``q``, (7 n_b,)."""

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
        first = len(self._pushing) - len(model.contacts)
        self._rebounding = [(first + k, contact) for k, contact in enumerate(model.contacts) if contact.rebounds]

    @property
    def discs(self) -> tuple[tuple[int, int], ...]:
        """Tangents of contacts with a Coulomb friction cone."""
        first = self.symbol.numel() - 3 * len(self.model.contacts)
        round_ = (3 * k for k, contact in enumerate(self.model.contacts) if contact.cone == "disc")
        return tuple((first + start + 1, first + start + 2) for start in round_)

    def gaps(self, q: ca.SX) -> ca.SX:
        """Quantities that must not be negative, for a configuration: distances to both limits, gaps of contacts."""
        gaps = []
        for joint, i, limits in self._limited:
            lower, upper = ca.vertsplit(limits)
            away = self.model.joint(joint, q).displacement[i] - (lower + upper) / 2
            if joint.coordinates[i].turns_over:
                away = rotations.wrapped(away)
            gaps += [(upper - lower) / 2 + away, (upper - lower) / 2 - away]
        return stacked([*gaps, *(self.model.contact(contact, q)[0] for contact in self.model.contacts)])

    def rigid(self, q_next: ca.SX, v: ca.SX) -> ca.SX:
        """Equations of rigid contacts and limits: gap at the end of the step divided by h, or rebound speed."""
        h, now = self._settings.step, self.gaps(self._q)
        rows = ca.vertsplit(self.gaps(q_next) / h)
        for i, contact in self._rebounding:
            speed = self.directions[self._pushing[i], :] @ v
            up = rebounds(contact, now[i], speed, h)
            rows[i] = ca.if_else(up, normal_rates(contact, now[i], h * rows[i], speed, h)[1], rows[i])
        return stacked(rows)

    def regularized(self, v: ca.SX, v_next: ca.SX) -> ca.SX:
        """Contact and limit equations in SPOOK: C v₊ + Σ u + (4/h) Υ c − Υ C v (2.21), or C v₊ + e C v at rebounds."""
        h = self._settings.step
        kinds = [(joint, ("m", "rad").index(joint.coordinates[i].unit)) for joint, i, _ in self._limited]
        soft = [(joint.compliance[kind], joint.damping) for joint, kind in kinds for _ in range(2)]
        soft += [(contact.compliance, contact.damping) for contact in self.model.contacts]
        relaxation = stacked(1 / (1 + 4 * damping / h) for _, damping in soft)
        C = ca.vertcat(ca.SX(0, v.numel()), *(self.directions[i, :] for i in self._pushing))
        pushes = stacked(self.symbol[i] for i in self._pushing)
        sigma = 4 / h**2 * stacked(epsilon for epsilon, _ in soft) * relaxation
        gaps = self.gaps(self._q)
        rows = C @ v_next + sigma * pushes + 4 / h * relaxation * gaps - relaxation * (C @ v)
        for i, contact in self._rebounding:
            speed, after = C[i, :] @ v, C[i, :] @ v_next
            # What is to rebound is not braked before it touches, nor softened as it does.
            leaving = ca.if_else(rebounds(contact, gaps[i], speed, h), contact.restitution * speed, gaps[i] / h)
            rows[i] = ca.if_else(-speed > contact.threshold, after + leaving, rows[i])
        return rows

    def rates(self, v_next: ca.SX, pushing: ca.SX) -> ca.SX:
        """Rates r, (m,): slip rates B v₊ of friction, and ``pushing`` of contacts and limits."""
        rates = ca.vertsplit(ca.densify(self.directions @ v_next))
        for i, row in zip(self._pushing, ca.vertsplit(pushing), strict=True):
            rates[i] = row
        return stacked(rates)

    def impulse(self, slips: Slips, multipliers: ca.SX) -> ca.SX:
        """Impulse of the reactions on all bodies, (6 n_b,): Bᵀu, minus the direction-dependent part of friction."""
        impulse, leans = self.directions.T @ self.symbol, _LAW.leans(self.model, self._settings, slips, multipliers)
        if not leans.nnz():
            return impulse
        return impulse - self.directions[: len(self.rubbing), :].T @ leans[self.rubbing]

    def laws(self, slips: Slips, multipliers: ca.SX, rates: ca.SX, symmetric: bool = False) -> Laws:
        """Laws of the reactions for rates as from ``rates``."""
        bounds = self._bounds(slips, multipliers)
        return Laws(self.symbol, rates, *bounds, self.unilateral, self.discs, symmetric)

    def _bounds(self, slips: Slips, multipliers: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        """c (m,), W (m, l) and the loads (l,) of L = c + W|λ|: μ Σ|λ_i| + h c of joints, μ u_n of contacts."""
        m, freedoms = self.symbol.numel(), self.model.freedoms
        constant, loaded, loads = ca.SX(m, 1), [], []
        for i, j in enumerate(self.rubbing):
            joint, k = freedoms[j].joint, freedoms[j].index
            bound = bound_of(self.model, joint, slips.position, slips.before, slips.now, slips.efforts)
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
