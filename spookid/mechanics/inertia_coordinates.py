"""Coordinates of an inertia that a body can have whatever their values are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from itertools import permutations, product
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import DEPENDENT
from spookid.mechanics import rotations
from spookid.mechanics.inertia import (
    DIGITS,
    Belief,
    FullInertia,
    at_guess,
    check_guess,
    from_second_moment,
    second_moment,
    symmetric,
)
from spookid.parameter import Parameter, is_constant, symbolic
from spookid.records import dataclass

Physical = tuple[ca.SX, ca.SX, ca.SX]  # mass, centre of mass (3,), and inertia about it (3, 3)
_THIN = 1e-3
"""Extent, as a share of the initial inertia's mean, below which motion does not distinguish a body from a flat one.
Data that contradict every body require a flat one, infinitely far away in coordinates: they stop here, at a bound."""
_HELD = 1e-4  # standard deviation with which ``room`` is what it says


@dataclass(frozen=True, eq=False)
class Ellipsoid(metaclass=Checked):
    """Ellipsoid that encloses a body, in the frame of the body; it bounds the distribution of mass.

    Raises:
        ProblemError: if it is not made of numbers, or a semi-axis is not positive.
    """

    center: Any
    """(3,) [m]."""
    semi_axes: Any
    """Along its own axes, (3,) [m]."""
    turn: Any = (0, 0, 0)
    """Rotation of its axes in the frame of the body, a rotation vector (3,) [rad]."""
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("center", "semi_axes", "turn"):
            what = f"{self.place}: Ellipsoid: {name}"
            value = symbolic(getattr(self, name), what, (3,))
            if not is_constant(value):
                raise ProblemError(f"{what} holds a Parameter; give numbers")
            object.__setattr__(self, name, ca.DM(value).full()[:, 0])
        if not np.all(self.semi_axes > 0):
            raise ProblemError(f"{self.place}: Ellipsoid has semi-axes {self.semi_axes}; all must be positive")

    def room(self, mass: ca.SX, center: ca.SX, inertia: ca.SX) -> ca.SX:
        """Realizability tr(J Q)/m = 1 − ∫ρ(x − x_s)ᵀ Q⁻¹ (x − x_s)/m: not negative if a mass density within the
        ellipsoid has this inertia."""
        axes = ca.DM(rotations.matrix(rotations.exponential(ca.SX(self.turn)))).full()
        shape, away = ca.DM(axes / self.semi_axes**2 @ axes.T), center - ca.DM(self.center)
        return 1 - ca.trace(shape @ second_moment(inertia)) / mass - ca.dot(away, shape @ away)


class InertiaCoordinates(FullInertia):
    """Base class of inertias whose coordinates are Parameters, named after the inertia: see ``LogCholesky`` and
    ``ExponentialEigenvalue``."""

    names: ClassVar[tuple[str, ...]]
    """Of the coordinates, after that of the inertia."""
    units: ClassVar[tuple[str, ...]]
    notes: ClassVar[tuple[str, ...]]
    extents: ClassVar[tuple[str, ...]]
    """Those that are logarithms of how far mass lies from the centre."""
    power: ClassVar[int]
    """1 if these are lengths, 2 if they are second moments."""
    coordinates: tuple[Parameter, ...]
    """Those that occur in it."""
    inside: Ellipsoid | None
    room: Parameter | None
    """None without ``inside``."""

    def __init__(
        self,
        name: str,
        guess: FullInertia,
        *,
        within: float | None = None,
        around: FullInertia | None = None,
        sigma: float | Sequence[float] | None = None,
        inside: Ellipsoid | None = None,
    ) -> None:
        place, kind = declared_at(), type(self).__name__
        check_guess(kind, name, guess, f"{place}: {kind}")
        what = f"{place}: {kind} {name!r}"
        try:
            start = self._start(guess)
        except ValueError as error:
            raise ProblemError(f"{what} has an unphysical initial inertia: {error}") from None
        mass, inertia = at_guess(guess.mass).item(), at_guess(guess.inertia)
        thin = _THIN * float(np.sqrt(np.trace(inertia) / 6 / mass))
        least, declared = math.log(thin if self.power == 1 else mass * thin**2), list[Parameter]()
        rows = zip(self.names, start.tolist(), self.units, self.notes, _sigmas(sigma, len(start), what), strict=True)
        for own, value, unit, note, size in rows:
            lower = min(least, value - 1) if own in self.extents else -math.inf
            prior = None if size is None else (value, size)
            declared.append(Parameter(f"{name}_{own}", value, lower=lower, unit=unit, note=note, prior=prior))
        whole, center, about = self.physical(ca.vertcat(*declared))
        expected = around or (guess if within is not None else None)
        super().__init__(whole, center, inertia=about, within=within, around=expected, place=place)
        room = None
        if inside is not None:
            left = at_guess(inside.room(self.mass, self.center_of_mass, self.inertia)).item()
            if not left > 0:
                said = f"{what} has an initial inertia that is no body inside its ellipsoid"
                raise ProblemError(f"{said}; move or enlarge the ellipsoid")
            note = "realizability within the enclosing ellipsoid"
            room = Parameter(f"{name}_room", left, lower=0.0, upper=1.0, note=note)
        for field_name, made in (("coordinates", tuple(declared)), ("inside", inside), ("room", room)):
            object.__setattr__(self, field_name, made)

    def _start(self, guess: FullInertia) -> Array:
        mass, center, inertia = (at_guess(e) for e in (guess.mass, guess.center_of_mass, guess.inertia))
        start = self.from_physical(float(mass[0]), center, inertia)
        # A length that rounding left of zero would be the scale on which a fit moves it.
        extent = DIGITS * float(np.sqrt(np.trace(inertia) / 2 / mass[0]))
        lengths = np.array([unit == "m" for unit in self.units]) & (np.abs(start) < extent)
        return np.asarray(np.where(lengths, 0.0, start))

    @cached_property
    def beliefs(self) -> tuple[Belief, ...]:
        """Priors of the inertia: the prior of ``within`` on π, and the realizability ``room`` within the ellipsoid."""
        if self.inside is None or self.room is None:
            return super().beliefs
        left = self.inside.room(self.mass, self.center_of_mass, self.inertia)
        return (*super().beliefs, Belief("room", left - self.room, 0.0, _HELD))

    def from_pi_values(self, pi: Array, near: Array) -> Array:
        """Coordinates of numerical inertial parameters π (10,); of equivalent ones, those nearest to given values.

        Raises:
            ValueError: if there are none.
        """
        if not pi[0] > 0:
            raise ValueError("has a mass that is not positive")
        c = pi[1:4] / pi[0]
        inertia = symmetric(pi[4:]) - pi[0] * (c @ c * np.eye(3) - np.outer(c, c))
        return self.nearest(self.from_physical(float(pi[0]), c, inertia), near)

    @staticmethod
    def nearest(found: Array, near: Array) -> Array:
        """Equivalent coordinates of the same inertia that are nearest to given coordinates."""
        return found

    @staticmethod
    def physical(coordinates: ca.SX) -> Physical:
        """What the coordinates mean."""
        raise NotImplementedError

    @staticmethod
    def from_physical(mass: float, center_of_mass: Array, inertia: Array) -> Array:
        """Coordinates of given numbers.

        Args:
            mass: [kg].
            center_of_mass: (3,) [m].
            inertia: about the centre of mass, (3, 3) [kg m²].

        Raises:
            ValueError: if there are none, with what is wrong.
        """
        raise NotImplementedError


class LogCholesky(InertiaCoordinates):
    """Log-Cholesky coordinates: ten free, smooth and unique coordinates of every physical inertia that is not flat
    (Rucker, Wensing, IEEE Robotics and Automation Letters 7, 2022),
    ``Body("link", inertia=LogCholesky("link", FullInertia(...)))``.

    The pseudo-inertia is J = U Uᵀ with

        U = e^alpha [[e^d_1, s_12, s_13, t_1], [0, e^d_2, s_23, t_2], [0, 0, e^d_3, t_3], [0, 0, 0, 1]]:

    the mass is e^(2 alpha), t the centre of mass [m], and the rest, lengths and logarithms of lengths in metres,
    describe the distribution of mass around it.

    Args:
        name: prefix of the names of the coordinates, an identifier; usually the name of the body: ``link_alpha``.
        guess: a FullInertia of initial values; Parameters in it count with their initial values. If no body has it, or
            it is flat, ``FullInertia.possible`` gives the nearest that is valid.
        within, around: the prior of π, see ``FullInertia``; without ``around`` its mean is the initial inertia.
        sigma: the prior of the coordinates: standard deviations around their initial values in their own units, one for
            all or one each.
        inside: an ellipsoid that encloses the body: what is left of it, ``<name>_room`` = 1 − the mean square of the
            distance from its centre in semi-axes, is one more Parameter, with the lower bound 0. Backends know bounds.

    Raises:
        ProblemError: for a name that is no identifier, or an initial inertia that is flat, impossible or outside
            ``inside``.
    """

    extents, power = ("d_1", "d_2", "d_3"), 1
    names = ("alpha", "d_1", "d_2", "d_3", "s_12", "s_23", "s_13", "t_1", "t_2", "t_3")
    units = ("", "", "", "", "m", "m", "m", "m", "m", "m")
    notes = (
        "half the logarithm of the mass in kg",
        *(f"logarithm of an extent in m along {axis}" for axis in "xyz"),
        *(f"shear of the body's mass distribution in the {a}-{b} plane" for a, b in ("xy", "yz", "xz")),
        *(f"{axis} of the centre of mass" for axis in "xyz"),
    )

    @staticmethod
    def physical(coordinates: ca.SX) -> Physical:
        """Mass e^(2 alpha), centre of mass t, and second moment Σ = m U₃U₃ᵀ for the coordinates."""
        alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = ca.vertsplit(coordinates)
        mass = ca.exp(2 * alpha)
        upper = ca.blockcat([[ca.exp(d1), s12, s13], [0, ca.exp(d2), s23], [0, 0, ca.exp(d3)]])
        return mass, ca.vertcat(t1, t2, t3), from_second_moment(mass * upper @ upper.T)

    @staticmethod
    def from_physical(mass: float, center_of_mass: Array, inertia: Array) -> Array:
        """Inverse of ``physical``; see ``InertiaCoordinates``."""
        second = _thick(mass, inertia) / mass
        flipped = np.linalg.cholesky(second[::-1, ::-1])
        U = flipped[::-1, ::-1]
        return np.array([np.log(mass) / 2, *np.log(np.diag(U)), U[0, 1], U[1, 2], U[0, 2], *np.ravel(center_of_mass)])


class ExponentialEigenvalue(InertiaCoordinates):
    """Exponential eigenvalues: ten free coordinates of every physical inertia that is not flat (Martinez, Tonneau,
    Mastalli: Bayesian identification under constraints),
    ``Body("link", inertia=ExponentialEigenvalue("link", FullInertia(...)))``.

    The mass is e^sigma [kg], h = m c the first moment [kg m]; L = e^(sigma_x, sigma_y, sigma_z) [kg m²] are the second
    moments along the principal axes, of which R = exp([omega]×) turns the body's into these, so that the inertia about
    the centre of mass is R diag(L_y + L_z, L_x + L_z, L_x + L_y) Rᵀ.

    If two second moments are equal, the rotation about the third axis has no effect; then ``LogCholesky`` is better.

    Args and errors are those of ``LogCholesky``.
    """

    extents, power = ("sigma_x", "sigma_y", "sigma_z"), 2
    names = ("sigma", *(f"{what}_{axis}" for what in ("h", "sigma", "omega") for axis in "xyz"))
    units = ("", "kg m", "kg m", "kg m", "", "", "", "rad", "rad", "rad")
    notes = (
        "logarithm of the mass in kg",
        *(f"mass times coordinate {axis} of the centre of mass" for axis in "xyz"),
        *(f"logarithm of the second moment in kg m² along the principal axis {axis}" for axis in "xyz"),
        *(f"{axis} of the rotation vector of the principal axes" for axis in "xyz"),
    )

    @staticmethod
    def physical(coordinates: ca.SX) -> Physical:
        sigma, h, sizes, omega = ca.vertsplit(coordinates, [0, 1, 4, 7, 10])
        mass, second = ca.exp(sigma), ca.exp(sizes)
        R = rotations.matrix(rotations.exponential(omega))
        return mass, h / mass, R @ ca.diag(ca.sum1(second) - second) @ R.T

    @staticmethod
    def from_physical(mass: float, center_of_mass: Array, inertia: Array) -> Array:
        """Inverse of ``physical`` with the smallest rotation; arguments as of ``InertiaCoordinates``."""
        from scipy.spatial.transform import Rotation  # slow to load, and few ask for it

        second, axes = np.linalg.eigh(_thick(mass, inertia))
        axes[:, 2] *= np.linalg.det(axes)
        known = np.log(mass), *mass * np.ravel(center_of_mass)
        turn = Rotation.from_matrix(axes).as_rotvec()
        return ExponentialEigenvalue.nearest(np.array([*known, *np.log(second), *turn]), np.zeros(10), turn_only=True)

    @staticmethod
    def nearest(found: Array, near: Array, turn_only: bool = False) -> Array:
        """Nearest equivalent coordinates: principal axes in any order and direction, rotations beyond half a turn."""
        from scipy.spatial.transform import Rotation  # slow to load, and few ask for it

        axes, sizes = Rotation.from_rotvec(found[7:]).as_matrix(), found[4:7]
        first = 7 if turn_only else 4
        ways = []
        for order, (s, t) in product(permutations(range(3)), product((1, -1), repeat=2)):
            R = axes[:, order] * np.array([s, t, 1.0])
            R[:, 2] *= np.linalg.det(R)
            turn = Rotation.from_matrix(R).as_rotvec()
            angle = float(np.linalg.norm(turn))
            wound = turn * (1 - 2 * np.pi / angle) if angle > 0 else turn
            ways += [np.concatenate([found[:4], sizes[list(order)], one]) for one in (turn, wound)]
        return np.asarray(min(ways, key=lambda way: float(np.linalg.norm((way - near)[first:]))))


def _thick(mass: float, inertia: Array) -> Array:
    """The second moment about the centre of mass, (3, 3)."""
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    moments = np.linalg.eigvalsh(second)
    if not mass > 0:
        raise ValueError(f"the mass is {mass:g} kg; it must be positive")
    if not moments[0] > DEPENDENT * moments[2]:  # coordinates of what is thinner are infinite
        told = ", ".join(f"{moment:.4g}" for moment in np.linalg.eigvalsh(inertia))
        raise ValueError(
            f"among the principal moments {told} kg m², the largest must be below the sum of the others; raise "
            "the smaller ones, as FullInertia.possible does"
        )
    return np.asarray(second)


def _sigmas(sigma: float | Sequence[float] | None, count: int, what: str) -> list[float | None]:
    """One for each coordinate."""
    if sigma is None:
        return [None] * count
    try:
        given = np.ravel(np.asarray(sigma, dtype=float))
        given = np.full(count, given[0]) if given.size == 1 else given
    except (TypeError, ValueError):
        given = np.zeros(0)
    if given.shape != (count,) or not np.all((given > 0) & np.isfinite(given)):
        raise ProblemError(f"{what} has sigma {shown(sigma)}; give one positive number, or {count}")
    return list(given.tolist())
