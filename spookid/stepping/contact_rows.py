"""Rows of contacts that hold, in a step around t_k of which one function serves all times.

A datum says of each contact what it does in [t_k, t_{k+1}]. Where it holds, its row is the motion of the contact over
that interval, and λ_k is an unknown; where it does not, the row is λ_k itself, which so is nothing. In both cases there
are as many rows, private unknowns, and directions of the new state. In the free intervals next to those in which a
contact holds it may have held for a part, or let go under load: there λ_k is free, and the row says next to nothing
of where the contact is.

The rows of motion are random with the slip of the contact, which is as small as digits allow unless another is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca

from spookid.mechanics.model import Model
from spookid.mechanics.standing import HeldContact
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, Kind

_ANYWHERE = 1.0
"""How far a contact may have moved in a step by whose end it does no longer hold [m, rad]."""
CONTACT_ROWS = "contacts"
"""Name of the factor of hard rows; its data are those of contacts alone."""


@dataclass(frozen=True, eq=False)
class StepMotion:
    """All bodies at t_k, and where contacts are at t_{k+1}."""

    q: ca.SX
    """(7 n_b,)."""
    v: ca.SX
    """(6 n_b,)."""
    a: ca.SX
    """(6 n_b,)."""
    after: list[ca.SX]
    """``HeldContact.place_of`` of each contact at t_{k+1}."""


@dataclass(frozen=True, eq=False)
class ContactRows:
    """Of a model's contacts in one step."""

    model: Model
    settings: Settings
    motion: StepMotion
    multipliers: Callable[[HeldContact], ca.SX]
    """λ_k of a contact."""

    @cached_property
    def data(self) -> ca.SX:
        """For each contact 1 where it holds, then for each 1 where it may, (2 n_c,)."""
        return ca.SX.sym("contacts", 2 * len(self.model.holding.contacts))

    def beside(self, factor: Factor, joints: int) -> Factor:
        """The random rows of a step with those of contacts below them.

        Where the efforts of all joints are measured their motion is given, and what contacts transmit is free: no row
        is a density of the new state then.

        Args:
            joints: how many rows, the first, are along coordinates of joints.
        """
        rows, labels, noise = [factor.residual], list(factor.rows), list(factor.noise)
        for i, contact in enumerate(self.model.holding.contacts):
            holds, may = self._flags(i)
            apart = self._apart(i)
            known = holds / self.settings.slips[i] + may / _ANYWHERE
            rows.append(known * apart + (1 - holds - may) * self.multipliers(contact))
            labels += self.model.holding.labels([contact])
            noise += [slip_name(contact)] * apart.numel()
        density = (*factor.density, *range(len(factor.rows), len(labels)))
        if joints and min(density) >= joints:
            density = ()
        data = ca.vertcat(factor.data, self.data)
        given = {"residual": ca.vertcat(*rows), "rows": tuple(labels), "noise": tuple(noise), "density": density}
        return replace(factor, data=data, **given)

    def idle(self, factor: Factor) -> Factor:
        """Rows of a step that are weighted or hard, with λ of contacts that do not hold below them."""
        rows, labels = [factor.residual], list(factor.rows)
        for i, contact in enumerate(self.model.holding.contacts):
            holds, may = self._flags(i)
            rows.append((1 - holds - may) * self.multipliers(contact))
            labels += self.model.holding.labels([contact])
        return replace(factor, data=ca.vertcat(factor.data, self.data), residual=ca.vertcat(*rows), rows=tuple(labels))

    def hard(self, variables: dict[int, ca.SX]) -> Factor:
        """The motion of contacts where they hold, over h: hard rows beside weighted ones."""
        contacts = self.model.holding.contacts
        rows = [self._flags(i)[0] * self._apart(i) / self.settings.step for i in range(len(contacts))]
        labels = self.model.holding.labels(contacts)
        return Factor(CONTACT_ROWS, Group.STATE, ca.vertcat(*rows), variables, self.data, labels, kind=Kind.HARD)

    def _flags(self, i: int) -> tuple[ca.SX, ca.SX]:
        return self.data[i], self.data[len(self.model.holding.contacts) + i]

    def _apart(self, i: int) -> ca.SX:
        """By how much contact i moves over the step, or what its row at acceleration level lacks times h²."""
        contact, model, motion = self.model.holding.contacts[i], self.model, self.motion
        place = contact.place_of(model.original or model, motion.q)
        if contact.level == "position":
            return contact.moved(motion.after[i], place)
        stiffness, damping = contact.baumgarte
        home = contact.moved(place, contact.home)
        speed, quickening = self._derivatives(contact)
        return self.settings.step**2 * (quickening + damping * speed + stiffness * home)

    def _derivatives(self, contact: HeldContact) -> tuple[ca.SX, ca.SX]:
        """ẏ and ÿ = A a + Ȧ v."""
        model, space = self.model.original or self.model, self.model.configuration
        q, v, a = (ca.SX.sym(name, n) for name, n in (("q", space.ambient), ("v", space.tangent), ("a", space.tangent)))
        speed = contact.rates(model, q, v)
        quickening = ca.jtimes(speed, ca.vertcat(q, v), ca.vertcat(ca.densify(space.basis(q) @ v), a))
        motion = [ca.densify(part) for part in (self.motion.q, self.motion.v, self.motion.a)]
        found = ca.substitute([speed, quickening], [q, v, a], motion)
        return found[0], found[1]


def slip_name(contact: HeldContact) -> str:
    """Of its noise."""
    return f"{contact.name} slip"
