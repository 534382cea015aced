"""What holds between points and links of a plane (Blanco-Claraco, Leanza, Reina, Appendix III).

Rows are written so that they are lengths [m] or angles [rad] to first order, and their multipliers forces [N] or
torques [N m]: those of the paper over twice the length, or over the length, of the bar or line.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at
from spookid.mechanics.coefficients import refuse_negative
from spookid.parameter import is_constant, symbolic
from spookid.planar.loads import check_disturbance, rubbed
from spookid.planar.points import Ground, Link, Placement, Point, check_name, cross


@dataclass(frozen=True, eq=False)
class PlanarConstraint(metaclass=Checked):
    """One row Φ = 0; the base of every kind."""

    name: str
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, self.what)

    @property
    def what(self) -> str:
        """With which messages about it begin."""
        return f"{self.place}: {type(self).__name__} {self.name!r}"

    @property
    def points(self) -> tuple[Point, ...]:
        """Those that it holds."""
        return ()

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that it holds."""
        return ()

    @abstractmethod
    def row(self, at: Placement) -> ca.SX:
        """Φ."""

    def force(self, at: Placement, v: ca.SX) -> ca.SX:
        """Of its friction, (n,); by default none."""
        return ca.SX(v.numel(), 1)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter, points and links apart."""
        return []


@dataclass(frozen=True, eq=False)
class ConstantDistance(PlanarConstraint):
    """Two points at a constant distance (43), as of a massless rod; a ``Link`` has its own.

    Args:
        name: for messages.
        a, b: points.
        length: [m].

    Raises:
        ProblemError: for a fixed length that is not positive.
    """

    a: Point
    b: Point
    length: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "length", symbolic(self.length, f"{self.what}: length"))
        if is_constant(self.length) and not float(self.length) > 0:
            raise ProblemError(f"{self.what} has length {float(self.length):g}; it must be positive")

    @property
    def points(self) -> tuple[Point, ...]:
        """Both."""
        return self.a, self.b

    def row(self, at: Placement) -> ca.SX:
        """(|b − a|²/l − l)/2 [m]."""
        return distance_row(at.position(self.b) - at.position(self.a), self.length)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.length]


@dataclass(frozen=True, eq=False)
class _Slider(PlanarConstraint):
    """A point on a line."""

    point: Point
    viscous: Any = field(default=0, kw_only=True)
    coulomb: Any = field(default=0, kw_only=True)
    width: float | None = field(default=None, kw_only=True)
    disturbance: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_disturbance(self.disturbance, self.what)
        if self.point.fixed:
            raise ProblemError(f"{self.what} holds {self.point.name!r}, which does not move; give a planar.Point")
        for name in ("viscous", "coulomb"):
            value = symbolic(getattr(self, name), f"{self.what}: {name}")
            refuse_negative(value, name, self.what)
            object.__setattr__(self, name, value)

    @abstractmethod
    def sliding(self, at: Placement) -> ca.SX:
        """Its velocity along the line as a row times the rates, (1, n)."""

    def force(self, at: Placement, v: ca.SX) -> ca.SX:
        """Against that velocity."""
        return rubbed(self.sliding(at), v, self, self.what)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.viscous, self.coulomb]


@dataclass(frozen=True, eq=False)
class FixedSlider(_Slider):
    """A pin on a fixed line (44).

    Args:
        name: for messages, and of the joint in the rigid-body model.
        point: the pin, a point of a link.
        a, b: two points of the ground through which the line runs, in this direction.
        viscous: b [N s/m], friction along the line.
        coulomb: c [N], dry friction along it.
        width: of smooth dry friction [m/s], see ``PinFriction``.
        disturbance: size of the random force along the line [N/√Hz] and of the random torque in the pin [N m/√Hz], in
            the rigid-body model; None: that of the ``Mechanism``.

    Raises:
        ProblemError: for a pin that is no moving point, or a line that is not through two points of the ground.
    """

    a: Ground
    b: Ground

    def __post_init__(self) -> None:
        super().__post_init__()
        apart = ca.norm_2(self.b.at - self.a.at)
        if is_constant(apart) and not float(apart) > 0:
            raise ProblemError(f"{self.what} has a line through one point; give two that are apart")

    @property
    def points(self) -> tuple[Point, ...]:
        """The pin and the two of the line."""
        return self.point, self.a, self.b

    @property
    def direction(self) -> ca.SX:
        """Of the line, of length one, (2,)."""
        return (self.b.at - self.a.at) / ca.norm_2(self.b.at - self.a.at)

    def row(self, at: Placement) -> ca.SX:
        """How far the pin is to the left of the line [m]."""
        return cross(self.direction, at.position(self.point) - self.a.at)

    def sliding(self, at: Placement) -> ca.SX:
        """Along the line."""
        return self.direction.T @ at.selection(self.point)


@dataclass(frozen=True, eq=False)
class MovingSlider(_Slider):
    """A pin on the line along a link (45), which moves.

    Args:
        name: for messages, and of the joint in the rigid-body model.
        point: the pin, a point of another link.
        link: the line runs through its two ends, and beyond.
        viscous, coulomb, width, disturbance: of friction along the line and random forces, as of a ``FixedSlider``.

    Raises:
        ProblemError: for a pin that is no moving point, or an end of the link.
    """

    link: Link

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.point is end for end in self.link.ends):
            raise ProblemError(f"{self.what} holds an end of {self.link.name!r}; give a point of another link")

    @property
    def points(self) -> tuple[Point, ...]:
        """The pin."""
        return (self.point,)

    @property
    def links(self) -> tuple[Link, ...]:
        """The one with the line."""
        return (self.link,)

    def row(self, at: Placement) -> ca.SX:
        """How far the pin is to the left of the link [m]."""
        return cross(at.span(self.link), at.position(self.point) - at.position(self.link.start)) / self.link.length

    def sliding(self, at: Placement) -> ca.SX:
        """Along the link, from its start."""
        apart = at.selection(self.point) - at.selection(self.link.start)
        return at.span(self.link).T @ apart / self.link.length


@dataclass(frozen=True, eq=False)
class _Angle(PlanarConstraint):
    """An angle of links that is a coordinate of its own.

    The paper has two rows, x_j − x_i − L cos θ and y_j − y_i − L sin θ, and takes the one whose derivative in θ is the
    larger. This is one row for every θ: with the unit vector e along θ and the span d of the link, atan2(e × d, e · d)
    is the angle from e to d itself. Its derivative in θ is −1 everywhere; it vanishes at the right angle only, where
    each of the two others has a second, wrong one; and as it is taken modulo a turn, θ may go on over any number of
    turns. It jumps where θ is off by half a turn, where no row could tell which way is right.
    """

    link: Link

    @abstractmethod
    def reference(self, at: Placement) -> ca.SX:
        """The direction in which the angle is zero, (2,)."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Whose angle it is."""
        return (self.link,)

    def row(self, at: Placement) -> ca.SX:
        """By how much the link is ahead of the angle, in (−π, π] [rad]."""
        theta, zero, span = at.q[at.columns[id(self)]], self.reference(at), at.span(self.link)
        c, s = ca.cos(theta), ca.sin(theta)
        along = ca.vertcat(c * zero[0] - s * zero[1], s * zero[0] + c * zero[1])
        return ca.atan2(cross(along, span), ca.dot(along, span))


@dataclass(frozen=True, eq=False)
class AbsoluteAngle(_Angle):
    """The angle of a link from the x axis, a coordinate of its own [rad], continuous over turns (46, 47).

    Args:
        name: of the coordinate.
        link: from its start to its end.
    """

    def reference(self, at: Placement) -> ca.SX:
        """The x axis."""
        return ca.SX([1, 0])


@dataclass(frozen=True, eq=False)
class RelativeAngle(_Angle):
    """The angle from one link to another, a coordinate of its own [rad], continuous over turns.

    Args:
        name: of the coordinate.
        link: the other, from its start to its end.
        against: the one, from its start to its end.

    Raises:
        ProblemError: for one link alone.
    """

    against: Link

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link is self.against:
            raise ProblemError(f"{self.what} is of {self.link.name!r} against itself; give two links")

    @property
    def links(self) -> tuple[Link, ...]:
        """Both."""
        return self.link, self.against

    def reference(self, at: Placement) -> ca.SX:
        """Along the one."""
        return at.span(self.against)


def distance_row(apart: ca.SX, length: ca.SX) -> ca.SX:
    """(|d|²/l − l)/2: to first order how much too far apart two points are [m]."""
    return (ca.dot(apart, apart) / length - length) / 2
