"""A mechanism of the plane as bodies and joints, in the y-z plane of the world, and its state in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.constraints import Distance
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.joint_kinds import PinInSlot
from spookid.mechanics.joints import Hinge, Joint
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.point_loads import PointLoad, PointTorque, SpringDamper
from spookid.parameter import stacked
from spookid.planar.closing import Values
from spookid.planar.parts import AbsoluteAngle, ConstantDistance, FixedSlider, MovingSlider, PinFriction, Spring, Torque
from spookid.planar.points import Link, Point, cross, turned_left

if TYPE_CHECKING:
    from spookid.planar.mechanism import Mechanism

Pair = tuple[Link, Link | None]  # a link and what it turns against in a pin: another link, or the ground


@dataclass(frozen=True, eq=False)
class Rigid:
    """Rigid-body model with the same motion as a planar mechanism.

    Each link is a body with y along it and z across it, to the left; masses lumped at a point are part of the first
    link that ends there. Each point is a hinge on the ground, or between the links that end there, called like the
    point, and also like the link if there are several. A slider is a ``PinInSlot`` of its name. Joints begin where the
    mechanism is assembled as it is declared: that is the rest angle of each, so that fits start on this branch.
    """

    mechanism: Mechanism

    # --- bodies ---

    @cached_property
    def bodies(self) -> dict[int, Body]:
        """Rigid body of each link, by the link's ``id``."""
        found = {}
        for link in self.mechanism.links:
            mass, _, inertia = self._whole(link)
            # Moments about the two axes in the plane take no part in any motion.
            found[id(link)] = Body(link.name, mass=mass, inertia=(inertia, inertia, inertia), place=link.place)
        return found

    def body(self, link: Link) -> Body:
        """That of a link.

        Raises:
            ProblemError: for one of another mechanism.
        """
        if id(link) not in self.bodies:
            raise ProblemError(f"{self.mechanism.place}: Mechanism has no {shown(link)}; give one of its links")
        return self.bodies[id(link)]

    def _whole(self, link: Link) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Mass, centre of mass in the link (2,) and inertia about it, with lumped masses."""
        parts = [(link.mass, link.center, link.inertia)]
        for point in link.ends:
            if self.carrier(point) is link:
                parts.append((point.mass, _end(link, point), ca.SX(0)))
        mass = sum((m for m, _, _ in parts), ca.SX(0))
        center = sum((m * c for m, c, _ in parts), ca.SX(2, 1)) / mass
        return mass, center, sum((i + m * ca.sumsqr(c - center) for m, c, i in parts), ca.SX(0))

    def carrier(self, point: Point) -> Link | None:
        """First link that ends at a point; the body of this link contains the point. None for a point on the ground."""
        if point.fixed:
            return None
        return next(link for link in self.mechanism.links if any(end is point for end in link.ends))

    def frame(self, point: Point, link: Link | None = None) -> Frame:
        """Return a frame at a point, with its y axis along a link, by default the first link that ends there; for a
        fixed point, a frame on the ground."""
        owner = link or self.carrier(point)
        if owner is None:
            return GROUND.frame(at=(0, point.at[0], point.at[1]))
        at = _end(owner, point) - self._whole(owner)[1]
        return self.body(owner).frame(at=(0, at[0], at[1]))

    # --- joints ---

    @cached_property
    def hinges(self) -> tuple[tuple[Point, Pair, Hinge], ...]:
        """Pairs of links that rotate about each point, with the hinge of each pair."""
        found: list[tuple[Point, Pair, Hinge]] = []
        for point in self.mechanism.points:
            pairs = self._pairs(point)
            for pair in pairs:
                own = [f for f in self._frictions if f.point is point and _same(pair, (f.link, f.against))]
                hinge = Hinge(
                    point.name if len(pairs) == 1 else f"{point.name} {pair[0].name}",
                    self.frame(point, pair[1]),
                    self.frame(point, pair[0]),
                    compliance=0,
                    viscous=sum((friction.viscous for friction in own), ca.SX(0)),
                    coulomb=sum((friction.coulomb for friction in own), ca.SX(0)),
                    rest=self._apart(*pair),
                    disturbance=self.mechanism.disturbance,
                    place=point.place,
                )
                found.append((point, pair, hinge))
        return tuple(found)

    def hinge(self, point: Point, link: Link | None = None) -> Hinge:
        """Return the hinge at a point; if the point has several hinges, name a link.

        Raises:
            ProblemError: if there is none, or more than one.
        """
        there = [hinge for at, pair, hinge in self.hinges if at is point and (link is None or link in pair)]
        if len(there) != 1:
            raise ProblemError(f"{point.place}: {len(there)} hinges are at Point {point.name!r}; name one of its links")
        return there[0]

    def _pairs(self, point: Point) -> list[Pair]:
        """Links that end at a point, each against the ground or another: a tree, with a pair for each friction."""
        links = [link for link in self.mechanism.links if any(end is point for end in link.ends)]
        if point.fixed:
            return [(link, None) for link in links]
        pairs: list[Pair] = []
        joined = {id(link): {id(link)} for link in links}
        rubbing = [load for load in self._frictions if load.point is point]
        for link, against in [(f.link, f.against) for f in rubbing] + [(other, links[0]) for other in links[1:]]:
            assert against is not None
            if id(against) not in joined[id(link)]:
                pairs.append((link, against))
                group = joined[id(link)] | joined[id(against)]
                joined |= dict.fromkeys(group, group)
        return pairs

    @property
    def _frictions(self) -> Sequence[PinFriction]:
        return [load for load in self.mechanism.loads if isinstance(load, PinFriction)]

    def _apart(self, link: Link, against: Link | None, zero: ca.SX | None = None) -> float:
        """Angle of a link from another where the mechanism is assembled first, or from a direction, in (−π, π]."""
        at = self.mechanism.at(ca.SX(ca.DM(self.mechanism.closing.start)))
        base = (ca.SX([1, 0]) if zero is None else zero) if against is None else at.span(against)
        span = at.span(link)
        angle = ca.atan2(cross(base, span), ca.dot(base, span))
        return float(at_guess(ca.densify(angle)).item())

    @cached_property
    def slots(self) -> dict[str, PinInSlot]:
        """Those of sliders, by name."""
        sliders = (thing for thing in self.mechanism.constraints if isinstance(thing, (FixedSlider, MovingSlider)))
        return {slider.name: self._slot(slider) for slider in sliders}

    def _slot(self, slider: FixedSlider | MovingSlider) -> PinInSlot:
        line, link = getattr(slider, "link", None), self.carrier(slider.point)
        assert link is not None
        at = self.mechanism.at(ca.SX(ca.DM(self.mechanism.closing.start)))
        if isinstance(slider, FixedSlider):
            origin, along = slider.a.at, slider.direction
            slot = GROUND.frame(at=(0, origin[0], origin[1]), y=(0, along[0], along[1]))
        else:
            origin, along = at.position(slider.link.start), at.span(slider.link) / slider.link.length
            slot = self.frame(slider.link.start, slider.link)
        position = at_guess(ca.densify(ca.dot(along, at.position(slider.point) - origin))).item()
        return PinInSlot(
            slider.name,
            slot,
            self.frame(slider.point, link),
            compliance=0,
            viscous=(slider.viscous, 0),
            coulomb=(slider.coulomb, 0),
            rest=(position, self._apart(link, line, along)),
            disturbance=self.mechanism.disturbance if slider.disturbance is None else slider.disturbance,
            place=slider.place,
        )

    # --- the model ---

    @cached_property
    def model(self) -> Model:
        """All of it."""
        mechanism = self.mechanism
        joints: list[Joint] = [hinge for _, _, hinge in self.hinges]
        known = [(point, pair) for point, pair, _ in self.hinges]
        for load in self._frictions:
            if not any(at is load.point and _same(pair, (load.link, load.against)) for at, pair in known):
                what = f"{load.what} is between links that others at {load.point.name!r} join already"
                raise ProblemError(f"{what}; leave one out")
        rods = (thing for thing in mechanism.constraints if isinstance(thing, ConstantDistance))
        held = [
            Distance(rod.name, self.frame(rod.a), self.frame(rod.b), rod.length, compliance=0, place=rod.place)
            for rod in rods
        ]
        torques = [self._torque(load) for load in mechanism.loads if isinstance(load, Torque)]
        loads = [load for given in torques if not isinstance(given, Motor) for load in given]
        loads += [
            SpringDamper(self.frame(s.a), self.frame(s.b), stiffness=s.stiffness, rest=s.rest, damping=s.damping)
            for s in mechanism.loads
            if isinstance(s, Spring)
        ]
        return Model(
            bodies=list(self.bodies.values()),
            joints=[*joints, *self.slots.values()],
            motors=[motor for motor in torques if isinstance(motor, Motor)],
            loads=loads,
            constraints=held,
            gravity=ca.vertcat(0, mechanism.gravity),
            place=mechanism.place,
        )

    def _torque(self, load: Torque) -> Motor | list[PointLoad]:
        """A motor in the hinge between both, or torques on both if there is none."""
        for _, pair, hinge in self.hinges:
            if _same(pair, (load.link, load.against)):
                sign = 1 if pair[0] is load.link else -1
                return Motor(hinge, load.signal, sign * load.gain, place=load.place)
        sides = [(load.link, load.gain)] + ([] if load.against is None else [(load.against, -load.gain)])
        return [PointTorque(self.body(link).frame(), (k, 0, 0), signals=load.signal) for link, k in sides]

    # --- states ---

    def states(self, q: Array, v: Array, parameters: Values = None) -> tuple[Array, Array]:
        """Convert coordinates and rates (n,) to poses (n_b, 7) and velocities (n_b, 6) of the bodies, the form of
        ``initial`` in ``Problem.simulate``. Also for arrays with a leading axis of steps.

        Args:
            parameters: values by name; default: initial values.
        """
        symbols = tuple(ca.SX.sym(name, len(self.mechanism.names)) for name in "qv")
        poses = ca.vertcat(*(self._pose(link, symbols[0]) for link in self.mechanism.links))
        moved = ((ca.jtimes(self._pose(link, symbols[0]), *symbols)[:3], link) for link in self.mechanism.links)
        twists = ca.vertcat(*(ca.vertcat(r, self.mechanism.rate(link, *symbols), 0, 0) for r, link in moved))
        found = self._evaluated((poses, twists), symbols, (q, v), parameters)
        shape = (*np.asarray(q).shape[:-1], len(self.mechanism.links))
        return found[0].reshape(*shape, 7), found[1].reshape(*shape, 6)

    def coordinates(self, poses: Array, velocities: Array, parameters: Values = None) -> tuple[Array, Array]:
        """Convert poses (n_b, 7) and velocities (n_b, 6) of the bodies, such as those of a simulation, to coordinates
        and rates (n,). Also for arrays with a leading axis of steps, along which angles are continuous."""
        count, given = len(self.mechanism.links), np.asarray(poses)
        symbols = ca.SX.sym("poses", 7 * count), ca.SX.sym("velocities", 6 * count)
        shape = given.shape[:-2]
        rows = given.reshape(*shape, -1), np.asarray(velocities).reshape(*shape, -1)
        q, v = self._evaluated(self._places(*symbols), symbols, rows, parameters)
        angles = list(self.mechanism.closing.angles)
        if angles:
            near = np.remainder(q[..., angles] - self.mechanism.closing.start[angles] + np.pi, 2 * np.pi) - np.pi
            q[..., angles] = self.mechanism.closing.start[angles] + near
            if q.ndim == 2:
                q[:, angles] = np.unwrap(q[:, angles], axis=0)
        return q, v

    def _evaluated(
        self, formulas: Sequence[ca.SX], symbols: Sequence[ca.SX], rows: Sequence[Array], values: Values
    ) -> list[Array]:
        parameters, p = self.mechanism.closing.parameters, self.mechanism.closing.numbers(values)
        function = ca.Function("states", [*symbols, stacked(parameters)], [*map(ca.densify, formulas)])
        shape = np.asarray(rows[0]).shape[:-1]
        found = function(*(np.atleast_2d(part).T for part in rows), p)
        return [np.array(part.full().T).reshape(*shape, -1) for part in found]

    def _pose(self, link: Link, q: ca.SX) -> ca.SX:
        at = self.mechanism.at(q)
        center, half = self._whole(link)[1], self.mechanism.angle(link, q) / 2
        along = at.span(link) / link.length
        origin = at.position(link.start) + center[0] * along + center[1] * turned_left(along)
        return ca.vertcat(0, origin, ca.cos(half), ca.sin(half), 0, 0)

    def _places(self, poses: ca.SX, velocities: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Coordinates and rates in terms of poses and velocities."""
        places, rates = [ca.SX(0, 1)], [ca.SX(0, 1)]
        for point in (point for point in self.mechanism.points if not point.fixed):
            link = self.carrier(point)
            assert link is not None
            i = self._number(link)
            turn, at = rotations.matrix(poses[7 * i + 3 : 7 * i + 7])[1:, 1:], _end(link, point) - self._whole(link)[1]
            places.append(poses[7 * i + 1 : 7 * i + 3] + turn @ at)
            rates.append(velocities[6 * i + 1 : 6 * i + 3] + velocities[6 * i + 3] * turned_left(turn @ at))
        for angle in self.mechanism.angles:
            sides = [(1, angle.link)] + ([] if isinstance(angle, AbsoluteAngle) else [(-1, angle.against)])
            turns = [(sign, self._number(link)) for sign, link in sides]
            places.append(sum((s * 2 * ca.atan2(poses[7 * i + 4], poses[7 * i + 3]) for s, i in turns), ca.SX(0)))
            rates.append(sum((s * velocities[6 * i + 3] for s, i in turns), ca.SX(0)))
        return ca.vertcat(*places), ca.vertcat(*rates)

    def _number(self, link: Link) -> int:
        return list(self.bodies).index(id(link))


def _end(link: Link, point: Point) -> ca.SX:
    """Where an end is in the link, (2,) [m]."""
    return ca.SX(2, 1) if point is link.start else ca.vertcat(link.length, 0)


def _same(pair: Pair, other: Pair) -> bool:
    """True for the same two links in either order."""
    straight = pair[0] is other[0] and pair[1] is other[1]
    return straight or (pair[0] is other[1] and pair[1] is other[0])
