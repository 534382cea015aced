"""Points of a plane, bars between two of them, and where they are in natural coordinates.

The plane has the axes x and y, with angles from x to y. In natural coordinates a mechanism is where its points are: the
coordinates of a bar are those of its two ends, and its mass matrix is constant (García de Jalón and Bayo, *Kinematic
and dynamic simulation of multibody systems*, 1994, chapters 2 and 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.coefficients import not_negative
from spookid.parameter import is_constant, is_zero, symbolic


@dataclass(frozen=True, eq=False)
class Point(metaclass=Checked):
    """Moving point of a planar mechanism, at which links end.

    Args:
        name: for results and messages.
        at: approximate initial position (2,) [m], numbers; the mechanism is assembled from there.
        mass: lumped mass at the point [kg], such as that of a slider.

    Raises:
        ProblemError: for coordinates that are no two numbers, or a negative fixed mass.
    """

    name: str
    at: Any
    mass: Any = 0
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    fixed = False
    """True of a point of the ground."""

    def __post_init__(self) -> None:
        what = f"{self.place}: {type(self).__name__} {self.name!r}"
        check_name(self.name, what)
        object.__setattr__(self, "at", symbolic(self.at, f"{what}: at", (2,)))
        object.__setattr__(self, "mass", not_negative(self.mass, "mass", what))
        if not self.fixed and not is_constant(self.at):
            raise ProblemError(f"{what} is at an expression of Parameters; give numbers, about where it is at first")
        if self.fixed and not is_zero(self.mass):
            raise ProblemError(f"{what} has a mass, which never moves; leave it out")

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        return [self.at, self.mass]


@dataclass(frozen=True, eq=False)
class Ground(Point):
    """A point of the ground.

    Args:
        name: for results and messages.
        at: position (2,) [m], numbers or expressions of Parameters.
    """

    fixed = True


@dataclass(frozen=True, eq=False)
class Link(metaclass=Checked):
    """Rigid bar between two points; its x axis runs from ``start`` to ``end``.

    Args:
        name: for results and messages.
        start, end: its ends.
        mass: [kg].
        length: L [m]; None: the distance of the ends as they are declared.
        center: centre of mass (2,) [m], from ``start`` along the bar and across it, to the left; None: in the middle.
        inertia: about the centre of mass [kg m²]; None: m L²/12, of a uniform bar.

    Raises:
        ProblemError: for fixed values that are not positive, a length that would be zero or a Parameter without being
            given, or a ``center`` without an ``inertia``.
    """

    name: str
    start: Point
    end: Point
    mass: Any
    length: Any = None
    center: Any = None
    inertia: Any = None
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, self._what)
        if self.start is self.end or (self.start.fixed and self.end.fixed):
            raise ProblemError(f"{self._what} cannot move; give two ends, at most one of the ground")
        if self.center is not None and self.inertia is None:
            raise ProblemError(f"{self._what} has a center but no inertia, and is no uniform bar; give both")
        apart = ca.norm_2(self.end.at - self.start.at)
        if self.length is None and not is_constant(apart):
            raise ProblemError(f"{self._what} ends where a Parameter says; give its length")
        given = {"mass": symbolic(self.mass, f"{self._what}: mass")}
        given["length"] = ca.SX(apart) if self.length is None else symbolic(self.length, f"{self._what}: length")
        middle = ca.vertcat(given["length"] / 2, 0)
        uniform = given["mass"] * given["length"] ** 2 / 12
        given["center"] = middle if self.center is None else symbolic(self.center, f"{self._what}: center", (2,))
        given["inertia"] = uniform if self.inertia is None else symbolic(self.inertia, f"{self._what}: inertia")
        for name, value in given.items():
            if name != "center" and is_constant(value) and not float(value) > 0:
                raise ProblemError(f"{self._what} has {name} {float(value):g}; it must be positive")
            object.__setattr__(self, name, ca.densify(value))

    @property
    def _what(self) -> str:
        return f"{self.place}: Link {self.name!r}"

    @property
    def ends(self) -> tuple[Point, Point]:
        """Both points."""
        return self.start, self.end

    @property
    def to_center(self) -> ca.SX:
        """Matrix C that maps both ends of the bar to its centre of mass, r = C (P_start, P_end), (2, 4)."""
        along, across = self.center[0] / self.length, self.center[1] / self.length
        one, left = ca.SX.eye(2), turned_left(ca.SX.eye(2))
        return ca.horzcat((1 - along) * one - across * left, along * one + across * left)

    def mass_matrix(self, *, turning: bool = True) -> ca.SX:
        """Constant mass matrix of a bar in the coordinates of both ends, (4, 4): m CᵀC plus inertia/L² terms.

        Args:
            turning: False without the inertia, where an angle of the link is a coordinate and has it.
        """
        total = self.mass * self.to_center.T @ self.to_center
        if turning:
            parting = ca.horzcat(-ca.SX.eye(2), ca.SX.eye(2))
            total += self.inertia / self.length**2 * parting.T @ parting
        return ca.densify(total)

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter, except those of its ends."""
        return [self.mass, self.length, self.center, self.inertia]


@dataclass(frozen=True, eq=False)
class Placement:
    """Positions of points, links and angles of a planar mechanism as functions of its coordinates."""

    q: ca.SX
    """(n,)."""
    columns: Mapping[int, int]
    """The first coordinate of each moving point and angle, by ``id``."""
    angles: Mapping[int, int]
    """The coordinate that is the angle of a link, by its ``id``."""

    def position(self, point: Point) -> ca.SX:
        """(2,) [m]."""
        if point.fixed:
            return point.at
        first = self.columns[id(point)]
        return self.q[first : first + 2]

    def selection(self, point: Point) -> ca.SX:
        """Jacobian of a point's position with respect to the coordinates, sparse (2, n)."""
        chosen = ca.SX(2, self.q.numel())
        if not point.fixed:
            first = self.columns[id(point)]
            chosen[0, first], chosen[1, first + 1] = 1, 1
        return chosen

    def ends(self, link: Link) -> ca.SX:
        """Jacobian of the positions of both ends with respect to the coordinates, sparse (4, n)."""
        return ca.vertcat(*(self.selection(end) for end in link.ends))

    def span(self, link: Link) -> ca.SX:
        """Vector from the start of a link to its end, (2,) [m]."""
        return self.position(link.end) - self.position(link.start)

    def parting(self, link: Link) -> ca.SX:
        """Jacobian of ``span`` with respect to the coordinates, sparse (2, n)."""
        return self.selection(link.end) - self.selection(link.start)

    def turning(self, link: Link, against: Link | None = None) -> ca.SX:
        """Angular velocity ω of a link, optionally relative to another link, as a linear function of the velocities:
        row vector (1, n). If the angle is a coordinate, the velocity of this coordinate."""
        if against is not None:
            return self.turning(link) - self.turning(against)
        if id(link) in self.angles:
            return self.unit(self.angles[id(link)])
        return turned_left(self.span(link)).T @ self.parting(link) / link.length**2

    def unit(self, column: int) -> ca.SX:
        """Unit row vector, (1, n)."""
        row = ca.SX(1, self.q.numel())
        row[0, column] = 1
        return row


@dataclass(frozen=True, eq=False)
class Part(metaclass=Checked):
    """Base class of constraints and loads of planar mechanisms.

    Its points, its links and what may hold a Parameter are those among its fields.
    """

    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    @property
    def what(self) -> str:
        """Beginning of error messages about this constraint or load."""
        return f"{self.place}: {type(self).__name__}"

    @property
    def points(self) -> tuple[Point, ...]:
        """Points that the constraint or load refers to."""
        return tuple(value for value in vars(self).values() if isinstance(value, Point))

    @property
    def links(self) -> tuple[Link, ...]:
        """Links that the constraint or load refers to."""
        return tuple(value for value in vars(self).values() if isinstance(value, Link))

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter, except those of points and links."""
        return [value for value in vars(self).values() if isinstance(value, ca.SX)]

    def _take(self, *names: str) -> None:
        """Convert coefficients, which must not be negative."""
        for name in names:
            object.__setattr__(self, name, not_negative(getattr(self, name), name, self.what))


def turned_left(vector: ca.SX) -> ca.SX:
    """Rotate vectors (2, ...) by 90 degrees from x to y."""
    return ca.vertcat(-vector[1, :], vector[0, :])


def cross(a: ca.SX, b: ca.SX) -> ca.SX:
    """Cross product a × b: the sine of the angle from a to b times both lengths."""
    return a[0] * b[1] - a[1] * b[0]


def check_name(name: object, what: str) -> None:
    """Raise ProblemError if a name is not a text or is empty."""
    if not (isinstance(name, str) and name):
        raise ProblemError(f"{what}: its name is {shown(name)}; give a text")
