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
"""

from __future__ import annotations

from functools import cached_property

import casadi as ca

from spookid.mechanics.contact import Contact
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.dry_friction import Form
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Box, Factor, Group, Kind

_SOFT = 1e-3
"""Speed that an impulse of the mechanism's mass times a speed may add to a rate, over that speed."""
_HARD = 1e-4
"""The same of rebounds, whose restitution is off by about as much."""
_SWITCHING = 0.1
"""Share of the mechanism's mass by which a rate counts as an impulse where a solver opens or closes a contact: with too
much of it the noise of a gap over a step is taken for a lift."""
_TINY = 1e-12
"""Length below which a slip has no direction."""
_PAIRS = {"box": ("normal", "along +x", "along −x", "along +y", "along −y"), "disc": ("normal", "disc")}
"""Names of the pairs of a contact."""
CONTACT_LAW = "contact law"
"""Name of the factor."""


def rebounds(contact: Contact, gap: ca.SX, speed: ca.SX, step: ca.SX) -> ca.SX:
    """1 where an impact falls into a step that begins at a gap with a speed along the normal, else 0."""
    if not contact.rebounds:
        return ca.SX(0)
    return ca.logic_and(gap + step * speed < 0, -speed > contact.threshold)


def normal_rates(contact: Contact, gap: ca.SX, gap_next: ca.SX, speed: ca.SX, step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """r of a contact that stays on the plane, and of one that rebounds [m/s]."""
    return gap_next / step, (gap_next - gap) / step + contact.restitution * speed


def unknowns(model: Model, form: Form) -> int:
    """Of each step: u and z of each contact, and with pairs σ of both tangents or κ of the disc."""
    return sum(size(contact, form) for contact in model.contacts)


def size(contact: Contact, form: Form) -> int:
    """Of one contact."""
    beside = 2 if contact.cone == "box" else 1
    return 1 + (2 + (form == "mpcc") * beside) * contact.rubs


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
    """The unknowns of ``unknowns``: u over its unit, z_1, z_2 and what stands beside them, contact by contact."""

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
            up = rebounds(contact, now[3 * i], speed, h)
            found.append(Touching(contact, self.settings, rows, own, rates, rows[1:, :] @ self.v_next, up))
        return found

    @property
    def impulse(self) -> ca.SX:
        """What contacts do to all bodies, (6 n_b,)."""
        none = ca.SX(self.model.configuration.tangent, 1)
        return sum((one.rows.T @ ca.vertcat(one.normal, one.tangential) for one in self.touching), none)

    @property
    def along(self) -> ca.SX:
        """Of each contact its impulses along the normal and both tangents, and how far they are from the law [N s],
        (4 n_c,)."""
        rows = [ca.vertcat(one.normal, one.tangential, one.distance) for one in self.touching]
        return ca.vertcat(ca.SX(0, 1), *rows)

    def factors(self, variables: dict[int, ca.SX]) -> list[Factor]:
        """The law as hard rows with codes, or as pairs and hard rows."""
        if not self.touching:
            return []
        if self.form == "mpcc":
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
        """|min(u, r)| or μ u |z − P(z − s/w)|, P the projection onto the cone's section, whichever is larger [N s]."""
        rate = ca.if_else(self.rebounding, *reversed(self._soft_rates))
        normal = self.settings.touch_impulse * ca.fabs(ca.fmin(self.own[0], rate))
        if not self.contact.rubs:
            return normal
        aimed = self.own[1:3] - self._soft_slip
        size = ca.fabs(aimed) if self.contact.cone == "box" else ca.norm_2(aimed)
        away = self.own[1:3] - aimed / ca.fmax(size, 1)
        return ca.fmax(normal, self.contact.friction * ca.fabs(self.normal) * ca.norm_2(away))

    def boxes(self) -> list[Box]:
        """Of the normal: open, on the plane, or rebounding; of the tangents."""
        u, codes, (touching, leaving) = self.own[0], ca.SX.sym("normal"), self._soft_rates
        up = self.rebounding
        wanted = u - _SWITCHING * ca.if_else(up, leaving, touching)
        ends = ca.if_else(codes > 0, leaving, u)
        normal = Box(codes, touching, ends, (0,), wanted, ca.SX(0), ca.if_else(up, 0, ca.inf))
        if not self.contact.rubs:
            return [normal]
        pushed, z, slip = self.contact.friction * ca.fmax(u, 0), self.own[1:3], self._soft_slip
        aimed = pushed * z - _SWITCHING * slip
        if self.contact.cone == "box":
            codes, bound = ca.SX.sym("tangents", 2), pushed * ca.SX.ones(2)
            return [normal, Box(codes, -slip, z - ca.sign(codes), (0, 1), aimed, -bound, bound)]
        codes, length = ca.SX.sym("disc"), ca.sqrt(ca.sumsqr(aimed) + _TINY**2)
        return [normal, Box(codes, -slip, z - aimed / length, (0, 0), length, ca.SX(-1), pushed)]

    def pairs(self) -> tuple[list[tuple[ca.SX, ca.SX]], list[ca.SX]]:
        """(a, b) of each pair, and hard rows."""
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
