"""What acts on links and points of a plane, and what holds between them (Blanco-Claraco, Leanza, Reina, Appendix III).

Rows are written so that they are lengths [m] or angles [rad] to first order, and their multipliers forces [N] or
torques [N m]: those of the paper over twice the length, or over the length, of the bar or line.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import casadi as ca

from spookid.errors import ProblemError, shown
from spookid.mechanics.friction_loads import smooth_sign
from spookid.mechanics.point_loads import size
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.planar.points import Ground, Link, Part, Placement, Point, check_name, cross


@dataclass(frozen=True, eq=False)
class PlanarLoad(Part):
    """Base class of loads on a planar mechanism."""

    signals: ClassVar[tuple[str, ...]] = ()
    """Names of inputs in the recordings."""

    @abstractmethod
    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Contribution of a load to the generalized force Q, (n,)."""


@dataclass(frozen=True, eq=False)
class Torque(PlanarLoad):
    """Motor that rotates a link against the ground or another link with torque K u, positive from x to y [N m].

    Args:
        link: the one that it turns.
        signal: name of the input u in the recordings.
        gain: K [N m/unit].
        against: the link that bears the reaction; None: the ground.

    Raises:
        ProblemError: for anything but links, or one link twice.
    """

    link: Link
    signal: str
    gain: Any = 1
    against: Link | None = None

    def __post_init__(self) -> None:
        _check_links(self.links, self.what)
        if not self.signal:
            raise ProblemError(f"{self.what}: signal is {shown(self.signal)}; give the name of an input")
        object.__setattr__(self, "gain", symbolic(self.gain, f"{self.what}: gain"))

    @property
    def signals(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.signal,)

    @property
    def label(self) -> str:
        """Name of the effort."""
        return self.link.name if self.against is None else f"{self.link.name} against {self.against.name}"

    def direction(self, at: Placement) -> ca.SX:
        """Power of a torque of 1 N m as a linear function of the velocities: row vector (1, n)."""
        return at.turning(self.link, self.against)

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        return self.direction(at).T * (self.gain * inputs[self.signal])


@dataclass(frozen=True, eq=False)
class PinFriction(PlanarLoad):
    """Friction torque −b ω − c sign(ω) in a pin between a link and the ground or another link.

    Args:
        point: the pin.
        link: one that ends there.
        against: another link that ends there; None: the ground, at one of its points.
        viscous: b [N m s].
        coulomb: c [N m], a dry friction of constant torque.
        width: width of smooth dry friction [rad/s], tanh(ω/width) for the sign, in ``Mechanism.force``; the rigid-body
            model takes the ``friction_width`` of its ``Problem``.

    Raises:
        ProblemError: for links that do not end there, or fixed values that are negative.
    """

    point: Point
    link: Link
    against: Link | None = None
    viscous: Any = 0
    coulomb: Any = 0
    width: float | None = None

    def __post_init__(self) -> None:
        _check_links(self.links, self.what)
        for link in self.links:
            if not any(end is self.point for end in link.ends):
                what = f"{self.what} is of Link {link.name!r}, which does not end at its point"
                raise ProblemError(f"{what}; give a link that does")
        if (self.against is None) != self.point.fixed:
            raise ProblemError(
                f"{self.what} at {self.point.name!r} needs against=, another link, if that is no point of the ground, "
                "and none if it is"
            )
        self._take("viscous", "coulomb")

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        return rubbed(at.turning(self.link, self.against), v, self, self.what)


@dataclass(frozen=True, eq=False)
class Spring(PlanarLoad):
    """Spring and damper between two points at distance l, with tension k (l − l₀) + c dl/dt.

    Args:
        a, b: the points.
        stiffness: k [N/m].
        rest: l₀ [m].
        damping: c [N s/m].

    Raises:
        ProblemError: for anything but points, or negative fixed values.
    """

    a: Point
    b: Point
    stiffness: Any = 0
    rest: Any = 0
    damping: Any = 0

    def __post_init__(self) -> None:
        self._take("stiffness", "rest", "damping")

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Generalized force of a tension that pulls both ends together, (n,)."""
        apart = at.position(self.b) - at.position(self.a)
        length = size(apart)
        along = (apart / length).T @ (at.selection(self.b) - at.selection(self.a))
        return -along.T * (self.stiffness * (length - self.rest) + self.damping * (along @ v))


def rubbed(rate: ca.SX, v: ca.SX, law: Any, what: str) -> ca.SX:
    """Generalized force Q of friction with ``viscous``, ``coulomb`` and ``width``, (n,)."""
    slip = rate @ v
    total = law.viscous * slip
    if not is_zero(law.coulomb):
        if law.width is None:
            raise ProblemError(
                f"{what} has dry friction, which turns with the rate at once; give it a width, which is for graphs: a "
                "Problem of the mechanism's model has a friction_width"
            )
        total += law.coulomb * smooth_sign(slip, ca.SX(law.width))
    return -rate.T * total


def check_disturbance(size: float | None, what: str) -> None:
    """Raise ProblemError if a process-noise intensity is not a number, or negative."""
    if size is not None and not 0 <= size < math.inf:
        raise ProblemError(f"{what}: `disturbance` is {shown(size)}; give a number from 0 on, or None")


def _check_links(links: tuple[Any, ...], what: str) -> None:
    if len(links) == 2 and links[0] is links[1]:
        raise ProblemError(f"{what} acts on {links[0].name!r} against itself; give two links")


@dataclass(frozen=True, eq=False)
class PlanarConstraint(Part):
    """Base class of planar constraints; each is one equation Φ = 0."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, self.what)

    @property
    def what(self) -> str:
        return f"{super().what} {self.name!r}"

    @abstractmethod
    def row(self, at: Placement) -> ca.SX:
        """Φ."""

    def force(self, at: Placement, v: ca.SX) -> ca.SX:
        """Generalized force of friction in the constraint, (n,); default: zero."""
        return ca.SX(v.numel(), 1)


@dataclass(frozen=True, eq=False)
class ConstantDistance(PlanarConstraint):
    """Constraint that keeps two points at a constant distance (43), like a massless rod; a ``Link`` includes it.

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

    def row(self, at: Placement) -> ca.SX:
        """Distance constraint (|b − a|²/l − l)/2 [m]."""
        return distance_row(at.position(self.b) - at.position(self.a), self.length)


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
        self._take("viscous", "coulomb")

    @abstractmethod
    def sliding(self, at: Placement) -> ca.SX:
        """Sliding velocity along the line as a linear function of the velocities: row vector (1, n)."""

    def force(self, at: Placement, v: ca.SX) -> ca.SX:
        return rubbed(self.sliding(at), v, self, self.what)


@dataclass(frozen=True, eq=False)
class FixedSlider(_Slider):
    """Constraint that keeps a pin on a fixed line (44).

    Args:
        name: for messages, and of the joint in the rigid-body model.
        point: the point of a link that slides.
        a, b: two points of the ground through which the line runs, in this direction.
        viscous: b [N s/m], friction along the line.
        coulomb: c [N], dry friction along it.
        width: width of smooth dry friction [m/s], see ``PinFriction``.
        disturbance: process noise: random force along the line [N/√Hz] and random torque in the pin [N m/√Hz], in
            the rigid-body model; None: that of the ``Mechanism``.

    Raises:
        ProblemError: for a pin that does not move, or a line that is not through two points of the ground.
    """

    a: Ground
    b: Ground

    def __post_init__(self) -> None:
        super().__post_init__()
        apart = ca.norm_2(self.b.at - self.a.at)
        if is_constant(apart) and not float(apart) > 0:
            raise ProblemError(f"{self.what} has a line through one point; give two that are apart")

    @property
    def direction(self) -> ca.SX:
        """Unit vector along the line, (2,)."""
        return (self.b.at - self.a.at) / ca.norm_2(self.b.at - self.a.at)

    def row(self, at: Placement) -> ca.SX:
        """Signed distance of the pin from the line, positive to the left [m]."""
        return cross(self.direction, at.position(self.point) - self.a.at)

    def sliding(self, at: Placement) -> ca.SX:
        return self.direction.T @ at.selection(self.point)


@dataclass(frozen=True, eq=False)
class MovingSlider(_Slider):
    """Constraint that keeps a pin on the moving line along a link (45).

    Args:
        name: for messages, and of the joint in the rigid-body model.
        point: the point of another link that slides.
        link: the line runs through its two ends, and beyond.
        viscous, coulomb, width, disturbance: friction and process noise along the line, as of a ``FixedSlider``.

    Raises:
        ProblemError: for a pin that does not move, or that is an end of the link.
    """

    link: Link

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.point is end for end in self.link.ends):
            raise ProblemError(f"{self.what} holds an end of {self.link.name!r}; give a point of another link")

    def row(self, at: Placement) -> ca.SX:
        """Signed distance of the pin from the link's line, positive to the left [m]."""
        return cross(at.span(self.link), at.position(self.point) - at.position(self.link.start)) / self.link.length

    def sliding(self, at: Placement) -> ca.SX:
        apart = at.selection(self.point) - at.selection(self.link.start)
        return at.span(self.link).T @ apart / self.link.length


@dataclass(frozen=True, eq=False)
class _Angle(PlanarConstraint):
    """An angle of links that is a coordinate of its own.

    The paper has two rows, x_j − x_i − L cos θ and y_j − y_i − L sin θ, and takes the one whose derivative in θ is the
    larger. This is one row for every θ: with the unit vector e along θ and the span d of the link, atan2(e × d, e · d)
    is the angle from e to d itself. Its derivative in θ is −1 everywhere; it vanishes at the right angle only, where
    each of the two others has a second, wrong one; and as it is taken modulo a turn, θ may continue over any number of
    turns. It jumps where θ is off by half a turn, where no row could tell which way is right.
    """

    link: Link

    @abstractmethod
    def reference(self, at: Placement) -> ca.SX:
        """Direction of angle zero, (2,)."""

    def row(self, at: Placement) -> ca.SX:
        """Difference between the link's angle and the angle coordinate, in (−π, π] [rad]."""
        theta, zero, span = at.q[at.columns[id(self)]], self.reference(at), at.span(self.link)
        c, s = ca.cos(theta), ca.sin(theta)
        along = ca.vertcat(c * zero[0] - s * zero[1], s * zero[0] + c * zero[1])
        return ca.atan2(cross(along, span), ca.dot(along, span))


@dataclass(frozen=True, eq=False)
class AbsoluteAngle(_Angle):
    """Angle of a link from the x axis as an additional coordinate [rad], continuous over full turns (46, 47).

    Args:
        name: name of the coordinate.
        link: the link, from its start to its end.
    """

    def reference(self, at: Placement) -> ca.SX:
        return ca.SX([1, 0])


@dataclass(frozen=True, eq=False)
class RelativeAngle(_Angle):
    """Angle from one link to another as an additional coordinate [rad], continuous over full turns.

    Args:
        name: name of the coordinate.
        link: the second link, from its start to its end.
        against: the first link, from its start to its end.

    Raises:
        ProblemError: for one link alone.
    """

    against: Link

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link is self.against:
            raise ProblemError(f"{self.what} is of {self.link.name!r} against itself; give two links")

    def reference(self, at: Placement) -> ca.SX:
        return at.span(self.against)


def distance_row(apart: ca.SX, length: ca.SX) -> ca.SX:
    """Distance constraint (|d|²/l − l)/2, to first order the excess of the points' distance over l [m]."""
    return (ca.dot(apart, apart) / length - length) / 2
