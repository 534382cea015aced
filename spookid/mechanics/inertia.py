"""How mass is distributed in a rigid body: mass, centre of mass and inertia, and what no body has.

A body of density ρ has the mass m = ∫ρ, the first moment h = m c and the second moment Σ = ∫ρ x xᵀ, together the
pseudo-inertia J = [[Σ, h], [hᵀ, m]] (4, 4), positive definite for every body that is not flat. Its inertia about the
origin is tr(Σ) 1 − Σ; that Σ is positive definite is the triangle inequality of the principal moments (Wensing, Kim,
Slotine, IEEE Robotics and Automation Letters 3, 2018).
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import ROUNDING
from spookid.parameter import expression, is_constant, parameters_in, substitute, symbolic
from spookid.records import dataclass

DIGITS = 1e-6  # relative error of numbers that are written with six digits
PRINTED = 1e-2  # that by which it may be missed at all: numbers in files are printed with few digits
_WIDEST = 10.0  # share of a value from which on nothing is known of it; what is larger is meant in per cent
ENTRIES = ("I_xx", "I_yy", "I_zz", "I_xy", "I_xz", "I_yz")
_PLACES = [tuple(map("xyz".index, name.removeprefix("I_"))) for name in ENTRIES]
PI = ("mass", "h_x", "h_y", "h_z", *ENTRIES)  # what π is made of
_MAY_VANISH = np.array([False, True, True, True, False, False, False, True, True, True])


@dataclass(frozen=True, eq=False)
class Belief:
    """Normal prior distribution of an expression of Parameters."""

    title: str
    formula: ca.SX
    mean: float
    sigma: float

    @property
    def row(self) -> ca.SX:
        """Residual of the prior: distance of the expression from the mean, divided by sigma."""
        return (self.formula - self.mean) / self.sigma


@dataclass(frozen=True, eq=False)
class FullInertia(metaclass=Checked):
    """Mass, centre of mass and full inertia of a body, ``Body("link", inertia=FullInertia(...))``.

    Each of the ten numbers may be a Parameter or an expression of Parameters. Ten free numbers may describe no possible
    body; ``LogCholesky`` and ``ExponentialEigenvalue`` always do.

    Args:
        mass: [kg].
        center_of_mass: c (3,) [m] in the frame of the body, in which all of the body's frames are given.
        inertia: I_xx, I_yy, I_zz, I_xy, I_xz, I_yz (6,) [kg m²] in the axes of the body's frame, where I_xy = −∫ρxy
            is the entry of the matrix, as in URDF files; or the symmetric 3x3, or three principal moments.
        about: the point that the inertia is given about; whatever it is, ``inertia`` then is about the centre of mass.
        within: relative prior standard deviation: 0.3 for "within 30 %". Each entry of π (``pi``) is normally
            distributed around its value in ``around``, sigma is this share of the value; of first moments and products
            of inertia, which may be zero, at least this share of m ρ and m ρ², with 6 m ρ² the trace of the inertia
            about the centre of mass (ρ is the mean extent along an axis). Below 10.
        around: a FullInertia with the mean of the prior, for ``within``; None: the initial values of the Parameters.

    Raises:
        ProblemError: for numbers that no body has, given or expected: a mass or a principal moment that is not
            positive, a largest moment more than 1 % above the sum of the others (of less, as printed digits leave it,
            results have a warning; ``possible`` corrects it); or values of another shape.
    """

    mass: Any
    center_of_mass: Any = (0, 0, 0)
    inertia: Any = field(kw_only=True)
    about: Literal["center_of_mass", "origin"] = field(default="center_of_mass", kw_only=True)
    within: float | None = field(default=None, kw_only=True)
    around: FullInertia | None = field(default=None, kw_only=True)
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        mass = symbolic(self.mass, f"{self._what}: mass")
        center = symbolic(self.center_of_mass, f"{self._what}: center_of_mass", (3,))
        inertia = _about_center(mass, center, self.inertia, self.about, self._what)
        for name, value in (("mass", mass), ("center_of_mass", center), ("inertia", inertia)):
            object.__setattr__(self, name, ca.densify(value))
        object.__setattr__(self, "about", "center_of_mass")
        if is_constant(mass) and not float(mass) > 0:
            raise ProblemError(f"{self._what} has mass {float(mass):g} kg; a mass must be positive")
        if is_constant(inertia) and (wrong := impossible(ca.DM(inertia).full(), PRINTED)):
            raise ProblemError(f"{self._what}: {wrong}, which no body has; check products, axes and reference point")
        self._check_known()

    def _check_known(self) -> None:
        """Refuse a ``within`` that is no share, or one of what no body has."""
        within, around = self.within, self.around
        if within is None:
            if around is not None:
                raise ProblemError(f"{self._what} has around= without within=; give within=, as 0.3 for 30 %")
            return
        if not 0 < within < _WIDEST:
            raise ProblemError(
                f"{self._what} has within={shown(within)}; give a positive share below {_WIDEST:g}, as 0.3 for 30 %"
            )
        expected = around or self
        mass = at_guess(expected.mass).item()
        wrong = impossible(at_guess(expected.inertia), PRINTED) if mass > 0 else f"the mass is {mass:g} kg"
        if wrong:
            raise ProblemError(f"{self._what}: the mean of the prior within={within:g} is not physical: {wrong}")

    @classmethod
    def from_pi(cls, pi: Any, **known: Any) -> FullInertia:
        """Make an inertia from inertial parameters π, in which the equations of motion are linear.

        Args:
            pi: mass, first moments m c, and the six entries of the inertia about the body's origin (10,).
            known: ``within`` and ``around``.
        """
        given = symbolic(pi, f"{declared_at()}: FullInertia: pi", (10,))
        return cls(given[0], given[1:4] / given[0], inertia=given[4:], about="origin", **known)

    @staticmethod
    @checked
    def possible(
        mass: float,
        center_of_mass: Any = (0, 0, 0),
        *,
        inertia: Any,
        about: Literal["center_of_mass", "origin"] = "center_of_mass",
        extent: float = 0.01,
    ) -> FullInertia:
        """Return the physical inertia nearest to given values, for files with unphysical inertias.

        Second moments about the centre of mass along the principal axes that are too small, or negative, are raised:
        the nearest in the Frobenius norm of Σ. Larger extents stay unchanged.

        Args:
            mass, center_of_mass, inertia, about: as for a FullInertia, numbers only.
            extent: least extent of the body along an axis, as a share of the longest.

        Raises:
            ProblemError: for a mass that is not positive, an inertia that is not positive about the centre of mass, or
                values that are not numbers.
        """
        what = f"{declared_at()}: FullInertia.possible"
        m, c = symbolic(mass, f"{what}: mass"), symbolic(center_of_mass, f"{what}: center_of_mass", (3,))
        given = _about_center(m, c, inertia, about, what)
        if not all(map(is_constant, (m, c, given))):
            raise ProblemError(f"{what} is given a Parameter; give numbers")
        if not 0 < extent <= 1:
            raise ProblemError(f"{what} has extent={shown(extent)}; give a share above 0, at most 1")
        moments, axes = np.linalg.eigh(ca.DM(second_moment(given)).full())
        if not moments[2] > 0:
            told = ", ".join(f"{moment:.4g}" for moment in np.linalg.eigvalsh(ca.DM(given).full()))
            raise ProblemError(f"{what} is given principal moments {told} kg m² about the centre of mass; correct them")
        least = extent**2 * moments[2]
        if moments[0] < least:
            given = from_second_moment(ca.SX(ca.DM(axes * np.maximum(moments, least) @ axes.T)))
        return FullInertia(m, c, inertia=given)

    def __repr__(self) -> str:
        about = "" if is_constant(self.mass) else "about "
        return f"<{type(self).__name__} of {about}{at_guess(self.mass).item():.4g} kg>"

    @property
    def _what(self) -> str:
        return f"{self.place}: {type(self).__name__}"

    @property
    def pi(self) -> ca.SX:
        """Inertial parameters π: mass, m c, and I_xx, I_yy, I_zz, I_xy, I_xz, I_yz about the body's origin, (10,)."""
        about = self.inertia + steiner(self.mass, self.center_of_mass)
        return ca.densify(ca.vertcat(self.mass, self.mass * self.center_of_mass, six(about)))

    @property
    def pseudo(self) -> ca.SX:
        """The pseudo-inertia J about the body's origin, (4, 4)."""
        return pseudo_inertia(self.mass, self.center_of_mass, second_moment(self.inertia))

    @property
    def quantities(self) -> tuple[tuple[str, ca.SX, str], ...]:
        """Mass, centre of mass and inertia about the centre of mass, each with name and unit."""
        c = zip(("c_x", "c_y", "c_z"), ca.vertsplit(self.center_of_mass), strict=True)
        entries = zip(ENTRIES, ca.vertsplit(six(self.inertia)), strict=True)
        return (("mass", self.mass, "kg"), *((n, e, "m") for n, e in c), *((n, e, "kg m^2") for n, e in entries))

    @cached_property
    def beliefs(self) -> tuple[Belief, ...]:
        """What ``within`` says of π."""
        if self.within is None:
            return ()
        expected = self.around or self
        values, inertia = at_guess(expected.pi), at_guess(expected.inertia)
        extent = np.trace(inertia) / 6  # m ρ²
        least = np.array([0, *3 * [np.sqrt(values[0] * extent)], *6 * [extent]]) * _MAY_VANISH
        sigmas = self.within * np.maximum(np.abs(values), least)
        rows = zip(PI, ca.vertsplit(self.pi), values.tolist(), sigmas.tolist(), strict=True)
        return tuple(Belief(title, formula, mean, sigma) for title, formula, mean, sigma in rows)

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        return [self.mass, self.center_of_mass, self.inertia, *(belief.row for belief in self.beliefs)]


def check_guess(kind: str, name: str, guess: FullInertia, what: str) -> None:
    """Raise ProblemError for an initial inertia to which ``within`` cannot be applied."""
    if guess.within is not None:
        raise ProblemError(f"{what} {name!r} uses numbers of its `guess=`, not its within=; give within= to the {kind}")


def _about_center(mass: ca.SX, center: ca.SX, inertia: Any, about: str, what: str) -> ca.SX:
    """An inertia about the centre of mass, (3, 3)."""
    given = inertia_matrix(inertia, f"{what}: inertia")
    return ca.simplify(given - steiner(mass, center)) if about == "origin" else given


def inertia_matrix(value: Any, what: str) -> ca.SX:
    """Convert three principal moments, six entries (``ENTRIES``) or a symmetric matrix to a (3, 3) matrix."""
    given = expression(value, what)
    if given.numel() == 3:
        return ca.diag(symbolic(ca.vec(given), what, (3,)))
    if given.numel() == 6 and 1 in given.shape:
        entries = symbolic(ca.vec(given), what, (6,))
        inertia = ca.SX(3, 3)
        for place, (i, j) in enumerate(_PLACES):
            inertia[i, j] = inertia[j, i] = entries[place]
        return inertia
    if given.shape != (3, 3):
        size = " x ".join(map(str, given.shape))
        raise ProblemError(f"{what} must be three principal moments, six entries or 3 x 3, not {size}")
    inertia = symbolic(given, what, (3, 3))
    for skew in ca.vertsplit(ca.densify(ca.vec(ca.simplify(inertia - inertia.T)))):
        if is_constant(skew) and abs(float(skew)) > ROUNDING:
            raise ProblemError(
                f"{what} is a 3x3 matrix that is not symmetric"
                "; give (Ixx, Iyy, Izz, Ixy, Ixz, Iyz), or make it symmetric"
            )
    return (inertia + inertia.T) / 2


def six(inertia: ca.SX) -> ca.SX:
    """Entries I_xx, I_yy, I_zz, I_xy, I_xz, I_yz of a symmetric (3, 3) matrix."""
    return ca.densify(ca.vertcat(*(inertia[i, j] for i, j in _PLACES)))


def symmetric(entries: Array) -> Array:
    """Symmetric matrix (3, 3) from its six entries."""
    matrix = np.empty((3, 3))
    for entry, (i, j) in zip(entries, _PLACES, strict=True):
        matrix[i, j] = matrix[j, i] = entry
    return matrix


def steiner(mass: ca.SX, c: ca.SX) -> ca.SX:
    """Parallel-axis term m (|c|² 1 − c cᵀ), (3, 3): inertia about the origin minus inertia about the centre of mass."""
    return mass * (ca.dot(c, c) * ca.SX.eye(3) - c @ c.T)


def second_moment(inertia: ca.SX) -> ca.SX:
    """Second moment of mass Σ = ½ tr(I) 1 − I about the same point as the inertia I, (3, 3)."""
    return ca.trace(inertia) / 2 * ca.SX.eye(3) - inertia


def pseudo_inertia(mass: ca.SX, c: ca.SX, second: ca.SX) -> ca.SX:
    """Pseudo-inertia J about the origin, (4, 4), from the second moment Σ about the centre of mass c."""
    return ca.blockcat([[second + mass * c @ c.T, mass * c], [mass * c.T, mass]])


def from_second_moment(second: ca.SX) -> ca.SX:
    """Inertia I = tr(Σ) 1 − Σ from the second moment of mass Σ, (3, 3)."""
    return ca.trace(second) * ca.SX.eye(3) - second


def at_guess(formula: ca.SX) -> Array:
    """Numerical inertia at the initial values of its Parameters."""
    known = {} if formula.is_constant() else {p.name: p.guess for p in parameters_in([formula], "the inertia")}
    return substitute(formula, known)


def impossible(inertia: Array, rounding: float = DIGITS) -> str:
    """Reason why an inertia about the centre of mass (3, 3) is not physical; empty if it is, within tolerance."""
    moments = np.linalg.eigvalsh(inertia)
    told = ", ".join(f"{moment:.4g}" for moment in moments)
    if not moments[0] > 0:
        return f"principal moments {told} kg m² about the centre of mass are not all positive"
    if moments[2] > moments[0] + moments[1] + rounding * moments[2]:
        return f"principal moments {told} kg m² about the centre of mass: the largest is above the sum of the others"
    return ""
