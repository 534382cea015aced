"""What acts on links and points of a plane: motors, friction of pins, springs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.coefficients import refuse_negative
from spookid.mechanics.friction_loads import smooth_sign
from spookid.parameter import is_zero, symbolic
from spookid.planar.points import Link, Placement, Point

_ROUNDING = 1e-12
"""Length [m] below which the direction of a spring is rounding."""


@dataclass(frozen=True, eq=False)
class PlanarLoad(metaclass=Checked):
    """What acts on a mechanism; the base of every kind."""

    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    @property
    def what(self) -> str:
        """With which messages about it begin."""
        return f"{self.place}: {type(self).__name__}"

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of inputs in the recordings."""
        return ()

    @property
    def points(self) -> tuple[Point, ...]:
        """Those that it acts on."""
        return ()

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that it acts on."""
        return ()

    @abstractmethod
    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """What it adds to Q, (n,)."""

    @abstractmethod
    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter, points and links apart."""

    def _take(self, names: Sequence[str], *, positive: bool = True) -> None:
        for name in names:
            value = symbolic(getattr(self, name), f"{self.what}: {name}")
            if positive:
                refuse_negative(value, name, self.what)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Torque(PlanarLoad):
    """A motor that turns a link, against the ground or another link: K u, from x to y [N m].

    Args:
        link: the one that it turns.
        signal: name of the input u in the recordings.
        gain: K [N m/unit].
        against: the link that bears the reaction; None: the ground.

    Raises:
        ProblemError: for what is no link, or a link against itself.
    """

    link: Link
    signal: str
    gain: Any = 1
    against: Link | None = None

    def __post_init__(self) -> None:
        _check_links(self.links, self.what)
        if not self.signal:
            raise ProblemError(f"{self.what}: signal is {shown(self.signal)}; give the name of an input")
        self._take(("gain",), positive=False)

    @property
    def signals(self) -> tuple[str, ...]:
        """That of u."""
        return (self.signal,)

    @property
    def links(self) -> tuple[Link, ...]:
        """One or two."""
        return (self.link,) if self.against is None else (self.link, self.against)

    @property
    def label(self) -> str:
        """Of the effort."""
        return self.link.name if self.against is None else f"{self.link.name} against {self.against.name}"

    def direction(self, at: Placement) -> ca.SX:
        """The rate at which a torque of 1 N m works, as a row times the rates, (1, n)."""
        return relative_turning(at, self.link, self.against)

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """K u along its direction."""
        return self.direction(at).T * (self.gain * inputs[self.signal])

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.gain]


@dataclass(frozen=True, eq=False)
class PinFriction(PlanarLoad):
    """Friction in a pin, between a link and the ground or another link: −b ω − c sign(ω).

    Args:
        point: the pin.
        link: one that ends there.
        against: another that ends there; None: the ground, at one of its points.
        viscous: b [N m s].
        coulomb: c [N m], a dry friction of constant torque.
        width: of smooth dry friction [rad/s], tanh(ω/width) for the sign, in ``Mechanism.force``; the rigid-body model
            takes the ``friction_width`` of its ``Problem``.

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
                raise ProblemError(
                    f"{self.what} is of Link {link.name!r}, which does not end at its point; give a link that does"
                )
        if (self.against is None) != self.point.fixed:
            raise ProblemError(
                f"{self.what} at {self.point.name!r} needs against=, another link, if that is no point of the ground, "
                "and none if it is"
            )
        self._take(("viscous", "coulomb"))

    @property
    def points(self) -> tuple[Point, ...]:
        """The pin."""
        return (self.point,)

    @property
    def links(self) -> tuple[Link, ...]:
        """One or two."""
        return (self.link,) if self.against is None else (self.link, self.against)

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Against the rate at which the pin turns."""
        return rubbed(relative_turning(at, self.link, self.against), v, self, self.what)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.viscous, self.coulomb]


@dataclass(frozen=True, eq=False)
class Spring(PlanarLoad):
    """A spring and a damper between two points at the distance l: they pull by k (l − l₀) + c dl/dt.

    Args:
        a, b: the points.
        stiffness: k [N/m].
        rest: l₀ [m].
        damping: c [N s/m].

    Raises:
        ProblemError: for what is no point, or fixed values that are negative.
    """

    a: Point
    b: Point
    stiffness: Any = 0
    rest: Any = 0
    damping: Any = 0

    def __post_init__(self) -> None:
        self._take(("stiffness", "rest", "damping"))

    @property
    def points(self) -> tuple[Point, ...]:
        """Both."""
        return self.a, self.b

    def force(self, at: Placement, v: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Each end is pulled towards the other."""
        apart = at.position(self.b) - at.position(self.a)
        length = ca.sqrt(ca.sumsqr(apart) + _ROUNDING**2)
        along = (apart / length).T @ (at.selection(self.b) - at.selection(self.a))
        return -along.T * (self.stiffness * (length - self.rest) + self.damping * (along @ v))

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.stiffness, self.rest, self.damping]


def relative_turning(at: Placement, link: Link, against: Link | None) -> ca.SX:
    """How fast a link turns against another or the ground, as a row times the rates, (1, n)."""
    own = at.turning(link)
    return own if against is None else own - at.turning(against)


def rubbed(rate: ca.SX, v: ca.SX, law: Any, what: str) -> ca.SX:
    """What friction of a law's ``viscous``, ``coulomb`` and ``width`` adds to Q, (n,).

    Args:
        rate: at which it works, as a row times the rates, (1, n).

    Raises:
        ProblemError: for dry friction without a width.
    """
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
    """Raise ProblemError for a size of a random force that is no number, or negative."""
    if size is not None and not 0 <= size < math.inf:
        raise ProblemError(f"{what}: disturbance is {shown(size)}; give a number from 0 on, or None")


def _check_links(links: tuple[Any, ...], what: str) -> None:
    if len(links) == 2 and links[0] is links[1]:
        raise ProblemError(f"{what} acts on {links[0].name!r} against itself; give two links")
