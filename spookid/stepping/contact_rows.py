"""Rows of contacts that hold, in a step around t_k of which one function serves all times.

A datum says of each contact what it does in [t_k, t_{k+1}]. Where it holds, its row is the motion of the contact over
that interval, and λ_k is an unknown; where it does not, the row is λ_k itself, which so is nothing. In both cases there
are as many rows, private unknowns, and directions of the new state. In the free intervals next to those in which a
contact holds it may have held for a part, or let go under load: there λ_k is free, and the row says next to nothing
of where the contact is.

The rows of motion are random with the slip of the contact, which is as small as digits allow unless another is given.

Rows of impacts: what the motions before and after one have to do with each other.

An impact at a time t* acts in the steps around t_k as a force would that is an instant: an impulse Λ weighted by the
hats of the steps on both sides of t*, which is exact where the motion is free. So the impulses λ are unknowns of the
three steps around the t_k that is nearest to t*, and masses and forces are those at the pose of the impact. Coordinates
of joints are parabolas through steps k−3, k−2, k−1 and k+1, k+2, k+3; with these, at the t* where the point is at the
same place along the normal on both,

    ẏ⁺ + e ẏ⁻ = 0,    and of what sticks    ẋ⁺ = 0 along the plane,

the reset map of ``mechanics.contacts``. No mass stands in these rows, and no time is an unknown of theirs: t* is one
step of Newton's method from a time that is known, and fits continue around the times that they find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca

from spookid.mechanics.constraints import Constraint
from spookid.mechanics.contacts import HeldContact, Impact
from spookid.mechanics.holding import Touch
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Recursion
from spookid.mechanics.model import Model
from spookid.records import dataclass
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, Kind

_ANYWHERE = 1.0
"""How far a contact may have moved in a step by whose end it does no longer hold [m, rad]."""
SLIP_FLOOR = 1e-6
"""Contacts do not move less in a step [m, rad]."""
CONTACT_ROWS = "contacts"
"""Name of the factor of equality constraints; its data are those of contacts alone."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Symbols that describe the scheduled contacts of a step."""

    contacts: tuple[Touch, ...]
    data: ca.SX
    """For each contact 1 where it holds in the interval behind t_k, then for each 1 where it may, (2 n_c,); of models
    with impacts one more, how many steps after t_k one is that is next to it."""

    @classmethod
    def of(cls, model: Model) -> Schedule:
        """Fresh symbols for a model."""
        contacts = model.holding.contacts
        late = any(isinstance(contact, Impact) for contact in contacts)
        return cls(contacts, ca.SX.sym("contacts", 2 * len(contacts) + late))

    @property
    def throughout(self) -> ca.SX:
        """Data where all hold."""
        n = len(self.contacts)
        return ca.vertcat(ca.SX.ones(n), ca.SX.zeros(self.data.numel() - n))

    @property
    def late(self) -> ca.SX | None:
        """Time of an impact after t_k, in steps; None for models without impacts."""
        return self.data[-1] if self.data.numel() % 2 else None

    def holds(self, i: int) -> ca.SX:
        """1 if contact i holds."""
        return self.data[i]

    def may(self, i: int) -> ca.SX:
        """1 if it may."""
        return self.data[len(self.contacts) + i]

    def acting(self, thing: object) -> ca.SX:
        """1 for equations that have a multiplier, 0 for open contacts."""
        if thing not in self.contacts:
            return ca.SX(1)
        i = self.contacts.index(thing)
        return self.holds(i) + self.may(i)


@dataclass(frozen=True, eq=False)
class StepMotion:
    """Motion of all bodies at t_k, or at an impact near it, and contact positions at t_k and t_{k+1}."""

    q: ca.SX
    """(7 n_b,)."""
    v: ca.SX
    """(6 n_b,)."""
    a: ca.SX
    """(6 n_b,)."""
    here: list[ca.SX]
    """``Touch.place_of`` of each contact at t_k."""
    after: list[ca.SX]
    """``Touch.place_of`` of each contact at t_{k+1}."""


@dataclass(frozen=True, eq=False)
class ContactRows:
    """Equations of a model's scheduled contacts in one step."""

    model: Model
    settings: Settings
    motion: StepMotion
    schedule: Schedule
    multipliers: Mapping[Joint | Constraint, ca.SX]
    """Unknowns λ_k of each contact, which act where it holds or may."""

    def beside(self, factor: Factor, joints: int) -> Factor:
        """Weighted residuals of a step, with those of contacts appended.

        Where the efforts of all joints are measured their motion is given, and what contacts transmit is free: no row
        is a density of the new state then.

        Args:
            joints: how many rows, the first, are along coordinates of joints.
        """
        rows, labels, noise = [factor.residual], list(factor.rows), list(factor.noise)
        for i, contact in enumerate(self.model.holding.contacts):
            apart = self._apart(i)
            known = self.schedule.holds(i) / self.settings.slips[i] + self.schedule.may(i) / _ANYWHERE
            rows.append(known * apart + self._idle(contact))
            labels += self.model.holding.labels([contact])
            noise += [slip_name(contact)] * apart.numel()
        density = (*factor.density, *range(len(factor.rows), len(labels)))
        if joints and min(density) >= joints:
            density = ()
        data = ca.vertcat(factor.data, self.schedule.data)
        given = {"residual": ca.vertcat(*rows), "rows": tuple(labels), "noise": tuple(noise), "density": density}
        return replace(factor, data=data, **given)

    def idle(self, factor: Factor) -> Factor:
        """Weighted or hard equations of a step, with λ of open contacts appended."""
        rows, labels = [factor.residual], list(factor.rows)
        for contact in self.model.holding.contacts:
            rows.append(self._idle(contact))
            labels += self.model.holding.labels([contact])
        return replace(
            factor, data=ca.vertcat(factor.data, self.schedule.data), residual=ca.vertcat(*rows), rows=tuple(labels)
        )

    def hard(self, variables: dict[int, ca.SX]) -> Factor:
        """Displacement of closed contacts over h, as equality constraints."""
        held = {i: one for i, one in enumerate(self.model.holding.contacts) if isinstance(one, HeldContact)}
        rows = [self.schedule.holds(i) * self._apart(i) / self.settings.step for i in held]
        labels = self.model.holding.labels(held.values())
        return Factor(
            CONTACT_ROWS, Group.STATE, ca.vertcat(*rows), variables, self.schedule.data, labels, kind=Kind.HARD
        )

    def _idle(self, contact: Touch) -> ca.SX:
        """λ where it does not act."""
        return (1 - self.schedule.acting(contact)) * self.multipliers[contact]

    def _apart(self, i: int) -> ca.SX:
        """By how much contact i moves over the step, or what its row at acceleration level lacks times h²."""
        contact, motion = self.model.holding.contacts[i], self.motion
        place = motion.here[i]
        if not (isinstance(contact, HeldContact) and contact.stabilized):
            return contact.moved(motion.after[i], place)
        stiffness, damping = contact.baumgarte
        home = contact.moved(place, contact.home)
        speed, quickening = self.derivatives(contact)
        return self.settings.step**2 * (quickening + damping * speed + stiffness * home)

    def derivatives(self, contact: HeldContact) -> tuple[ca.SX, ca.SX]:
        """First and second derivatives ẏ and ÿ = A a + Ȧ v of contact positions."""
        model, space = self.model.original or self.model, self.model.configuration
        q, v, a = (ca.SX.sym(name, n) for name, n in (("q", space.ambient), ("v", space.tangent), ("a", space.tangent)))
        speed = contact.rates(model, q, v)
        quickening = ca.jtimes(speed, ca.vertcat(q, v), ca.vertcat(ca.densify(space.basis(q) @ v), a))
        motion = [ca.densify(part) for part in (self.motion.q, self.motion.v, self.motion.a)]
        found = ca.substitute([speed, quickening], [q, v, a], motion)
        return found[0], found[1]


def slip_name(contact: Touch) -> str:
    """Of its noise."""
    return f"{contact.name} slip"


IMPACTS = "impacts"
"""Name of the factor; its data are of each impact 1 at the middle one of its steps, else 0, and how many steps after it
the impact is."""
AROUND = 3
"""Steps before and after the nearest one that its rows reach to."""
_FAR = 1.5
"""Steps from the nearest one beyond which no impact is sought."""
_APPROACH = 1e-3
"""Jump of velocities below which there is barely an impact [m/s]."""


class Flight:
    """Motion of a tree on one side of an impact.

    Args:
        x, s, a: coordinates, rates and accelerations at a step.
        offset: of that step from the one nearest to the impact.
    """

    def __init__(self, joints: JointCoordinates, parts: Sequence[ca.SX], offset: int, step: ca.SX) -> None:
        self._joints, self._parts, self._offset, self._step = joints, parts, offset, step

    def at(self, late: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Configuration q (7 n_b,) and velocities v (6 n_b,), a number of steps after the nearest one."""
        (x, s, a), t = self._parts, (late - self._offset) * self._step
        there = self._joints.manifold.retract(x, t * s + t**2 / 2 * a)
        motion = Recursion(self._joints, there, s + t * a, ca.SX(a.numel(), 1))
        return motion.q, motion.v


class Encounter:
    """Equations of an impact, from the motion on both sides.

    Args:
        late: how many steps after the nearest one it is, about.
    """

    def __init__(self, impact: Impact, joints: JointCoordinates, flights: Sequence[Flight], late: ca.SX, step: ca.SX):
        self._impact, self._model = impact, joints.model.original or joints.model
        states = [flight.at(late) for flight in flights]
        before, after = (impact.height(self._model, q) for q, _ in states)
        speeds = [impact.velocity(self._model, q, v)[2] for q, v in states]
        jump = step * (speeds[1] - speeds[0])
        further = (before - after) * jump / (jump**2 + (_APPROACH * step) ** 2)
        self.late = ca.fmax(ca.fmin(late + further, _FAR), -_FAR)
        """How many steps after the nearest one it is."""
        self.velocities = [impact.velocity(self._model, *flight.at(self.late)) for flight in flights]
        """Of the point over the plane before and after, along the axes of ``on``, (3,) each [m/s]."""

    @property
    def reset(self) -> ca.SX:
        """Residual of the impact law, (rows,) [m/s]."""
        before, after = self.velocities
        rows = [after["xyz".index(axis)] for axis in self._impact.rows_along]
        rows[self._impact.rows_along.index("z")] += self._impact.restitution * before[2]
        return ca.vertcat(*rows)


def flights(joints: JointCoordinates, unknowns: Sequence[ca.SX], step: ca.SX) -> tuple[list[Flight], ca.SX, ca.SX]:
    """Motions on both sides of an impact as symbols, and their values as functions of the unknowns.

    Args:
        unknowns: of seven neighbouring steps.
    """
    manifold, offset = joints.manifold, AROUND - 1
    sizes = manifold.ambient, manifold.tangent, manifold.tangent
    found, symbols, values = [], list[ca.SX](), list[ca.SX]()
    for side in (-offset, offset):
        before, here, after = (unknowns[AROUND + side + i][: manifold.ambient] for i in (-1, 0, 1))
        left, right = manifold.difference(here, before) / step, manifold.difference(after, here) / step
        parts = [ca.SX.sym(name, size) for name, size in zip("xsa", sizes, strict=True)]
        found.append(Flight(joints, parts, side, step))
        symbols += parts
        values += [here, (left + right) / 2, (right - left) / step]
    return found, ca.vertcat(*symbols), ca.vertcat(*values)


def impact_factor(
    joints: JointCoordinates,
    settings: Settings,
    impacts: Sequence[Impact],
    unknowns: Mapping[int, ca.SX],
    weighted: bool,
) -> Factor:
    """Factor of the impact laws of a model, divided by the noise of closed contacts in a step.

    Args:
        unknowns: symbols of seven neighbouring steps.
        weighted: True where no noise is estimated.
    """
    holding, n, step = joints.model.holding, len(impacts), settings.step
    data, (around, symbols, values) = ca.SX.sym("strikes", 2 * n), flights(joints, list(unknowns.values()), step)
    rows, labels, noise = [], list[str](), list[str]()
    for i, impact in enumerate(impacts):
        size = SLIP_FLOOR if weighted else settings.slips[holding.contacts.index(impact)]
        reset = Encounter(impact, joints, around, data[n + i], step).reset
        rows.append(data[i] * step * reset / size)
        labels += holding.labels([impact])
        noise += [slip_name(impact)] * reset.numel()
    given = dict(unknowns), data, tuple(labels)
    return Factor(IMPACTS, Group.STATE, ca.vertcat(*rows), *given, noise=tuple(noise)).written_in(symbols, values)
