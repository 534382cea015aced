"""A mechanism of the plane in natural coordinates: equations of motion, and the same as a model of rigid bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import casadi as ca

from spookid.argument_checks import Checked, checked
from spookid.errors import ProblemError, collected, declared_at
from spookid.kernels.arrays import Array
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.mechanics.system import System
from spookid.parameter import expression, symbolic
from spookid.planar.closing import Branch, Closing, Values
from spookid.planar.parts import (
    AbsoluteAngle,
    PlanarConstraint,
    PlanarLoad,
    RelativeAngle,
    Torque,
    check_disturbance,
    distance_row,
)
from spookid.planar.points import Link, Part, Placement, Point
from spookid.planar.rigid import Rigid


@dataclass(frozen=True, eq=False)
class Mechanism(System, metaclass=Checked):
    """Planar mechanism of links whose ends meet in points, with constraints and loads.

    Its coordinates are those of the points that move, x and y of one after the other in the order in which links and
    constraints name them, then the angles that are declared as coordinates. Each link holds its length.

    Args:
        links: bars between points.
        constraints: sliders, rods, and angles that are coordinates: ``FixedSlider``, ``MovingSlider``,
            ``ConstantDistance``, ``AbsoluteAngle``, ``RelativeAngle``.
        loads: ``Torque``, ``PinFriction``, ``Spring``.
        gravity: g along −y, or (g_x, g_y) [m/s²].
        independent_names: names of the independent coordinates; None: angles as far as they are independent,
            then those that move the most against the others where the mechanism is assembled first.
        disturbance: process noise: the random torque in each pin [N m/√Hz], in the rigid-body model, and the random
            force of each slider [N/√Hz] without a ``disturbance`` of its own; None: it is estimated.

    Raises:
        ProblemError: for two things of one name, an angle of one link twice, links that do not meet where they are
            declared, constraints that imply each other there, no degree of freedom, or independent coordinates that
            are not.
    """

    links: Sequence[Link]
    constraints: Sequence[PlanarConstraint] = ()
    loads: Sequence[PlanarLoad] = ()
    gravity: Any = field(kw_only=True)
    independent_names: Sequence[str] | None = field(default=None, kw_only=True)
    disturbance: float | None = field(default=None, kw_only=True)
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name, kind in (("links", Link), ("constraints", PlanarConstraint), ("loads", PlanarLoad)):
            object.__setattr__(self, name, collected(getattr(self, name), kind, f"{self._what}: {name}"))
        if self.independent_names is not None:
            names = self.independent_names if not isinstance(self.independent_names, str) else [self.independent_names]
            own = collected(names, str, f"{self._what}: independent_names")
            object.__setattr__(self, "independent_names", own)
        if not self.links:
            raise ProblemError(f"{self._what} has no links; give one or more")
        given = expression(self.gravity, f"{self._what}: gravity")
        fall = ca.vertcat(0, -given) if given.is_scalar() else given
        object.__setattr__(self, "gravity", symbolic(fall, f"{self._what}: gravity", (2,)))
        check_disturbance(self.disturbance, self._what)
        self._check_names()
        self._check_members()
        _ = self.independent  # which refuses what cannot be assembled

    def _check_names(self) -> None:
        kinds: tuple[Sequence[Point | Link | PlanarConstraint], ...]
        kinds = (*self.points, *self.constraints), self.links
        for things in kinds:
            seen: set[str] = set()
            for thing in things:
                if thing.name in seen:
                    what = f"{thing.place}: {type(thing).__name__} {thing.name!r}"
                    raise ProblemError(f"{what} has the name of another; rename one")
                seen.add(thing.name)

    def _check_members(self) -> None:
        points, links = set(map(id, self.points)), set(map(id, self.links))
        ends = {id(end) for link in self.links for end in link.ends}
        for point in self.points:
            if not point.fixed and id(point) not in ends:
                raise ProblemError(f"{point.place}: Point {point.name!r} is the end of no link; let one end there")
        for thing in self._parts:
            for link in (link for link in thing.links if id(link) not in links):
                what = f"{thing.what} names Link {link.name!r}"
                raise ProblemError(f"{what}, which is not in the mechanism; add it to the links")
            for point in (point for point in thing.points if id(point) not in points):
                what = f"{thing.what} names Point {point.name!r}"
                raise ProblemError(f"{what}, at which nothing of it is; give one of its points")
        angled = [id(angle.link) for angle in self.constraints if isinstance(angle, AbsoluteAngle)]
        if len(angled) > len(set(angled)):
            raise ProblemError(f"{self._what} has two AbsoluteAngles of one link; leave one")

    @property
    def _what(self) -> str:
        return f"{self.place}: Mechanism"

    @property
    def _parts(self) -> tuple[Part, ...]:
        return (*self.constraints, *self.loads)

    # --- coordinates ---

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points of the mechanism, including points on the ground, each once."""
        ends = (end for link in self.links for end in link.ends)
        others = (point for part in self._parts for point in part.points)
        return tuple({id(point): point for point in (*ends, *others)}.values())

    @cached_property
    def angles(self) -> tuple[AbsoluteAngle | RelativeAngle, ...]:
        """Those that are coordinates."""
        return tuple(thing for thing in self.constraints if isinstance(thing, (AbsoluteAngle, RelativeAngle)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates: ``P.x``, ``P.y`` of each moving point, and names of angles, (n,)."""
        moving = (point.name for point in self.points if not point.fixed)
        return (*(f"{name}.{axis}" for name in moving for axis in "xy"), *(angle.name for angle in self.angles))

    @property
    def manifold(self) -> Manifold:
        return Manifold((("flat", len(self.names)),))

    @cached_property
    def _columns(self) -> dict[int, int]:
        moving = [point for point in self.points if not point.fixed]
        first = {id(point): 2 * i for i, point in enumerate(moving)}
        return first | {id(angle): 2 * len(moving) + i for i, angle in enumerate(self.angles)}

    def at(self, q: ca.SX) -> Placement:
        """Positions of all points and links as functions of the coordinates (n,)."""
        turns = {id(a.link): self._columns[id(a)] for a in self.angles if isinstance(a, AbsoluteAngle)}
        return Placement(ca.SX(q), self._columns, turns)

    # --- equations of motion ---

    @cached_property
    def signals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(signal for load in self.loads for signal in load.signals))

    @property
    def independent(self) -> tuple[int, ...]:
        return self.closing.independent

    def mass(self, q: ca.SX) -> ca.SX:
        """Mass matrix M, (n, n): constant without ``RelativeAngle``.

        An ``AbsoluteAngle`` has the inertia of its link, which the coordinates of the ends then do not have. To a
        ``RelativeAngle`` the square of its constraint's rate is added, times the inertia of its link: no motion that
        satisfies the constraints feels it, and M is positive definite.
        """
        at, total = self.at(q), ca.SX(len(self.names), len(self.names))
        for link in self.links:
            ends = at.ends(link)
            total += ends.T @ link.mass_matrix(turning=id(link) not in at.angles) @ ends
            if id(link) in at.angles:
                row = at.unit(at.angles[id(link)])
                total += link.inertia * row.T @ row
        for point in self.points:
            total += point.mass * at.selection(point).T @ at.selection(point)
        for angle in self.angles:
            if isinstance(angle, RelativeAngle):
                rate = at.turning(angle.link, angle.against) - at.unit(at.columns[id(angle)])
                total += angle.link.inertia * rate.T @ rate
        return ca.densify(total)

    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Generalized force Q of gravity, loads and smooth friction, (n,).

        Raises:
            ProblemError: for dry friction without a width.
        """
        at, inputs = self.at(q), {name: u[i] for i, name in enumerate(self.signals)}
        total = ca.SX(len(self.names), 1)
        for link in self.links:
            total += at.ends(link).T @ (link.to_center.T @ (link.mass * self.gravity))
        for point in self.points:
            total += at.selection(point).T @ (point.mass * self.gravity)
        for load in self.loads:
            total += load.force(at, v, inputs)
        for thing in self.constraints:
            total += thing.force(at, v)
        return ca.densify(total)

    def constraint(self, q: ca.SX) -> ca.SX:
        """Constraints Φ: lengths of links [m], then the declared constraints in their order [m or rad], (m,)."""
        at = self.at(q)
        lengths = (distance_row(at.span(link), link.length) for link in self.links)
        return ca.densify(ca.vertcat(*lengths, *(thing.row(at) for thing in self.constraints)))

    @cached_property
    def _torques(self) -> dict[str, Torque]:
        return {load.label: load for load in reversed(self.loads) if isinstance(load, Torque)}

    @property
    def actuated(self) -> tuple[str, ...]:
        """Links on which a ``Torque`` acts, each listed once."""
        return tuple(reversed(self._torques))

    def actuation(self, q: ca.SX) -> ca.SX:
        """Generalized force Q per unit of each effort of ``actuated``, (n, n_a)."""
        at = self.at(q)
        columns = (self._torques[name].direction(at).T for name in self.actuated)
        return ca.densify(ca.horzcat(ca.SX(len(self.names), 0), *columns))

    def expressions(self) -> list[ca.SX]:
        things: tuple[Point | Link | Part, ...] = (*self.points, *self.links, *self._parts)
        return [self.gravity, *(part for thing in things for part in thing.expressions())]

    # --- places and angles, for sensors ---

    def position(self, point: Point, q: ca.SX) -> ca.SX:
        """Position of a point as a function of the coordinates, (2,) [m]."""
        return self.at(q).position(point)

    def velocity(self, point: Point, v: ca.SX) -> ca.SX:
        """Velocity of a point as a function of the velocities of the coordinates, (2,) [m/s]."""
        return ca.densify(self.at(v).selection(point) @ v)

    def angle(self, link: Link, q: ca.SX) -> ca.SX:
        """Angle of a link from the x axis, in (−π, π] [rad]."""
        span = self.at(q).span(link)
        return ca.atan2(span[1], span[0])

    def rate(self, link: Link, q: ca.SX, v: ca.SX) -> ca.SX:
        """Angular velocity of a link, as a gyroscope on it measures it [rad/s]."""
        return self.at(q).turning(link) @ v

    # --- the position problem ---

    @cached_property
    def closing(self) -> Closing:
        """The position problem."""
        angles = [self._columns[id(angle)] for angle in self.angles]
        return Closing.of(self, self._declared, angles, self.independent_names, self._what)

    @property
    def _declared(self) -> Array:
        """Coordinates of the points as declared, angles as they then are, (n,)."""
        there = ca.SX(len(self.names), 1)
        for point in (point for point in self.points if not point.fixed):
            first = self._columns[id(point)]
            there[first : first + 2] = point.at
        at = self.at(ca.densify(there))  # each angle is 0, and its row by how much it is more
        for angle in self.angles:
            there[self._columns[id(angle)]] = angle.row(at)
        return at_guess(ca.densify(there))

    # --- assemblies ---

    @checked
    def assembled(
        self,
        guess: Array | Mapping[str, float] | None = None,
        *,
        branch: Branch | None = None,
        parameters: Values = None,
    ) -> Array:
        """Coordinates that satisfy all constraints of the mechanism, (n,).

        Args:
            guess: all coordinates (n,), the nearest assembly to which is found; or values by name, of as many
                coordinates as there are degrees of freedom, to which the mechanism is moved from where it is declared,
                on the same branch; None: as it is declared.
            branch: one of ``branches``, instead of the nearest assembly; then ``guess`` takes values by name only.
            parameters: values by name; default: initial values.

        Raises:
            ProblemError: if no assembly is found there.
        """
        return self.closing.assembled(guess, branch, parameters)

    @checked
    def branch(self, q: Array, parameters: Values = None) -> Branch:
        """Return the branch (assembly mode) of the mechanism, the variable C of the paper.

        The dependent coordinates follow from the independent ones in groups, loop by loop. Two solutions of one group
        meet where the determinant of its constraints' derivatives vanishes, and it has one sign on this side and the
        other on that: a mechanism cannot change a sign without passing through such a place.

        Returns:
            a sign, 1 or −1, of each group, 0 at such a place.
        """
        return self.closing.branch(q, parameters)

    @checked
    def branches(self, values: Mapping[str, float], parameters: Values = None) -> dict[Branch, Array]:
        """All assemblies of the mechanism with given independent coordinates, by branch.

        Groups of two coordinates, which two circles or a circle and a line determine (dyads: a four-bar, a
        slider-crank, a five-bar), have all of theirs; of larger ones those are found to which Newton's method leads
        from 16 starts, and of several with the same signs the nearest to where the mechanism is declared.

        Raises:
            ProblemError: for other coordinates than the independent ones.
        """
        return self.closing.branches(values, parameters)

    # --- the same of rigid bodies ---

    @cached_property
    def rigid(self) -> Rigid:
        """Equivalent rigid-body model, with the bodies and hinges that correspond to links and points."""
        return Rigid(self)

    @property
    def model(self) -> Model:
        """The equivalent ``Model``. The plane becomes the world's y-z plane, with the plane's x along the world's y and
        its y along z. Hinges rotate about the world's x, with angles of the same sign."""
        return self.rigid.model
