"""Rigid bodies and the frames on them, gravity, and an inertia as masses at given points, none negative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import nnls
from spookid.mechanics import rotations
from spookid.mechanics.coefficients import guessed, guessed_all
from spookid.mechanics.inertia import DIGITS, FullInertia, at_guess, check_guess, inertia_matrix, six, steiner
from spookid.parameter import Parameter, is_constant, symbolic
from spookid.records import dataclass


@dataclass(frozen=True)
class RobotFile:
    """Path of a robot's file and the options with which it was read; see ``spookid.robots.read``."""

    path: str  # absolute
    sha256: str  # of its bytes; of a xacro file those of the URDF that it stands for
    free: bool = False
    held: Mapping[str, float] = field(default_factory=dict)
    merge: bool = True
    mend: bool = False
    trust: bool = False


def gravity(g: Any) -> ca.SX:
    """Acceleration of gravity (0, 0, −g), (3,) [m/s²]."""
    return ca.vertcat(0, 0, -symbolic(g, f"{declared_at()}: gravity"))


def tilted_gravity(g: Any, a: Any, b: Any) -> ca.SX:
    """Gravity (0, 0, −g) rotated by exp((a, b, 0)), to first order (−b g, a g, −g); a, b [rad], result (3,) [m/s²]."""
    place = declared_at()
    tilt = ca.vertcat(symbolic(a, f"{place}: tilt"), symbolic(b, f"{place}: tilt"), 0)
    return rotations.matrix(rotations.exponential(tilt)) @ gravity(g)


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinate frame fixed to a body, or to the ground."""

    body: Body
    """The body it is fixed to, or ``GROUND``."""
    at: ca.SX
    """Origin from the body's centre of mass, along the body's axes, (3,) [m]."""
    axes: ca.SX
    """Columns x, y, z in the body's frame, (3, 3)."""

    def __repr__(self) -> str:
        return f"<Frame of {self.body.name}>"

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        return [self.at, self.axes]


@dataclass(frozen=True, eq=False)
class Body(metaclass=Checked):
    """Rigid body. Its origin is its centre of mass, unless its inertia declares another centre of mass.

    A state holds the position of the centre of mass and the orientation of the body's axes.

    Args:
        name: for results and messages.
        mass: mass [kg], a number or an expression of Parameters; omit it if ``inertia`` contains it.
        inertia: principal moments (3,) about the centre of mass along the body's axes, I_xx, I_yy, I_zz, I_xy, I_xz,
            I_yz, or a symmetric 3x3 [kg m²]; or a ``FullInertia``, ``LogCholesky``, ``ExponentialEigenvalue`` or
            ``PointMasses``, which have mass and centre of mass too.
        free: True if no joint connects it.

    Raises:
        ProblemError: for a fixed mass or moment that is not positive, a wrong shape of the inertia, or a mass that is
            missing or given twice.
    """

    name: str
    mass: Any = None
    inertia: Any = None
    free: bool = False
    place: str = field(default_factory=declared_at, repr=False)
    distribution: FullInertia | None = field(init=False, default=None, repr=False)
    """Declared ``inertia`` if it contains the mass."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ProblemError(f"{self.place}: a Body's name is {shown(self.name)}; give a text")
        what = f"{self.place}: Body {self.name!r}"
        given = self.inertia
        if isinstance(given, FullInertia):
            if self.mass is not None:
                raise ProblemError(
                    f"{what} has a mass, and its {type(given).__name__} has one, too; leave the mass out"
                )
            object.__setattr__(self, "distribution", given)
            object.__setattr__(self, "mass", given.mass)
            given = given.inertia
        elif self.mass is None or given is None:
            raise ProblemError(f"{what} needs a mass and an inertia; give both, or a FullInertia")
        mass = symbolic(self.mass, f"{what}: mass")
        inertia = inertia_matrix(given, f"{what}: inertia")
        number, where = guessed(mass)
        if number <= 0:
            raise ProblemError(f"{what} has mass {number:g} kg{where}; a mass must be positive")
        for i in range(3):
            number, where = guessed(inertia[i, i])
            if number <= 0:
                raise ProblemError(f"{what} has moment of inertia {number:g} kg m²{where}; it must be positive")
        numbers, where = guessed_all(inertia)
        if np.isfinite(numbers).all() and np.min(np.linalg.eigvalsh(numbers)) <= 0:
            raise ProblemError(f"{what} has an inertia that is not positive definite{where}; correct its entries")
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "inertia", inertia)

    def __repr__(self) -> str:
        return f"<Body {self.name!r}>"

    def frame(self, *, at: Any = (0, 0, 0), x: Any = (1, 0, 0), y: Any = (0, 1, 0)) -> Frame:
        """Make a frame on this body from its origin and the directions of its x and y axes.

        Args:
            at: origin (3,) [m] in the body's frame: from its centre of mass, unless its inertia has a centre of mass of
                its own.
            x: direction of the x axis (3,), of any length; a hinge turns about it.
            y: direction of the y axis (3,), perpendicular to x; it is where a hinge's angle is zero.

        Raises:
            ProblemError: for an axis of length zero, or axes that are not perpendicular.
        """
        what = f"{declared_at()}: frame on {self.name!r}"
        origin, x, y = (symbolic(value, f"{what}: {n}", (3,)) for value, n in ((at, "at"), (x, "x"), (y, "y")))
        for axis, name in ((x, "x"), (y, "y")):
            if is_constant(axis) and not float(ca.norm_2(axis)) > 0:
                raise ProblemError(f"{what} has an axis {name} of length zero; give a direction")
        x, y = x / ca.norm_2(x), y / ca.norm_2(y)
        cosine = ca.dot(x, y)
        if is_constant(cosine) and abs(float(cosine)) > DIGITS:
            raise ProblemError(f"{what} has x and y axes that are not perpendicular; x . y must be 0")
        y = y - cosine * x
        y = y / ca.norm_2(y)
        if self.distribution is not None:
            origin = origin - self.distribution.center_of_mass
        return Frame(self, origin, ca.horzcat(x, y, ca.cross(x, y)))

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        beside = [] if self.distribution is None else self.distribution.expressions()
        return [self.mass, self.inertia, *beside]


GROUND = Body("GROUND", mass=1, inertia=(1, 1, 1))
"""The inertial frame. It does not move; its mass and inertia take no part in anything."""


_EVEN = 1e-3  # weight of masses that are alike where the initial value does not tell them
_FAR = 2.0  # ratio of masses, or of traces of inertias, from which on a body is another one


class PointMasses(FullInertia):
    """Inertia of nonnegative point masses at given points, which are Parameters ``link_m_1`` to ``link_m_n``.

    Every body within the hull of the points is approximated, the better the more points there are (Ayusawa,
    Nakamura, IROS 2010). The equations of motion are linear in the masses. More than ten masses are not unique, only
    the inertia of them all.

    Args:
        name: prefix of their names, an identifier; usually the name of the body.
        points: (n, 3) [m] in the frame of the body, at least four that are not in a plane.
        guess: a FullInertia of initial values; the nearest that the points have is taken, whose mass and trace of the
            inertia must not be half or twice as large. Parameters in it count with their initial values.
        within, around: the prior of π, see ``FullInertia``; without ``around`` its mean is the initial inertia.

    Raises:
        ProblemError: for points that are no numbers, in a plane or far from the initial inertia, or an invalid name.
    """

    coordinates: tuple[Parameter, ...]
    """The masses."""

    def __init__(
        self,
        name: str,
        points: Any,
        guess: FullInertia,
        *,
        within: float | None = None,
        around: FullInertia | None = None,
    ) -> None:
        place = declared_at()
        check_guess("PointMasses", name, guess, f"{place}: PointMasses")
        what = f"{place}: PointMasses {name!r}"
        given = _given(points, what)
        if len(given) < 4 or np.linalg.matrix_rank(given[1:] - given[0], tol=1e-9) < 3:
            raise ProblemError(f"{what} has points in a plane; give at least four that are not")
        columns = _columns(given)
        start = _start(columns, guess)
        _check_near(columns @ start, guess, what)
        declared = tuple(
            Parameter(f"{name}_m_{i}", mass, lower=0.0, unit="kg", note=f"mass at {tuple(point)} m")
            for i, (mass, point) in enumerate(zip(start.tolist(), given.tolist(), strict=True), start=1)
        )
        whole = FullInertia.from_pi(ca.DM(columns) @ ca.vertcat(*declared))
        expected = around or (guess if within is not None else None)
        parts = whole.mass, whole.center_of_mass
        super().__init__(*parts, inertia=whole.inertia, within=within, around=expected, place=place)
        object.__setattr__(self, "coordinates", declared)


def _given(points: Any, what: str) -> Array:
    """Points as an array (n, 3)."""
    try:
        given = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        given = np.full((1, 3), np.nan)
    if given.ndim != 2 or given.shape[1] != 3:
        raise ProblemError(f"{what} has points of shape {given.shape}; give a row a point, (n, 3)")
    if not np.all(np.isfinite(given)):
        raise ProblemError(f"{what} has points {shown(points)}; give finite numbers (n, 3)")
    return given


def _columns(points: Array) -> Array:
    """π of 1 kg at each point, (10, n)."""
    one, parts = ca.SX(1), [ca.SX(ca.DM(point)) for point in points]
    columns = (ca.vertcat(one, c, six(steiner(one, c))) for c in parts)
    return np.asarray(ca.DM(ca.horzcat(*columns)).full())


def _start(columns: Array, guess: FullInertia) -> Array:
    """Masses whose π is nearest to that of the initial value, each entry over its size."""
    wanted = at_guess(guess.pi)
    sizes = np.maximum(np.abs(columns).max(axis=1) * wanted[0], 1e-300)
    count = columns.shape[1]
    even = _EVEN * np.eye(count) / wanted[0]
    rows = np.vstack([columns / sizes[:, None], even])
    masses, _ = nnls(rows, np.concatenate([wanted / sizes, even @ np.full(count, wanted[0] / count)]))
    return np.asarray(masses)


def _check_near(pi: Array, guess: FullInertia, what: str) -> None:
    """Refuse points whose nearest body is another than that of the initial value."""
    wanted = at_guess(guess.mass).item(), np.trace(at_guess(guess.inertia))
    mass = float(pi[0])
    size = float(np.sum(pi[4:7]) - 2 * np.sum(pi[1:4] ** 2) / mass) if mass > 0 else 0.0
    for found, asked, thing, unit in zip(
        (mass, size), wanted, ("mass", "trace of the inertia"), ("kg", "kg m²"), strict=True
    ):
        if not 1 / _FAR < found / asked < _FAR:
            raise ProblemError(
                f"{what} has points that cannot hold its initial inertia: the nearest has the {thing} {found:.3g} "
                f"{unit}, not {asked:.3g} {unit}; give points in the body and on its outline, in its frame"
            )
