"""Constraints between what joints leave: rods, gears and other couplings, and the base of those that users write.

A constraint is rows that hold along the motion, each with a multiplier λ [N s or N m s] that acts along its derivative
and does no work; nothing in it is random. Those on positions, g(q) = 0, hold as joints do: with compliance and damping
in ``Spook()``, rigid in ``Variational()``. Those on velocities, A(q) v = γ, are the nonholonomic ones: in ``Spook()``
they creep with a compliance, and in other steppers they hold over each step h at its middle,

    A(q_k ⊞ h v/2) v = γ,     v = (q_{k+1} ⊟ q_k)/h,     γ the mean over the step,

which is symmetric in time and so of second order; λ_k acts along A(q_k) in the step around t_k.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Frame
from spookid.mechanics.coefficients import COMPLIANCE, check_coordinate, not_negative
from spookid.mechanics.inertia import DIGITS
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass

if TYPE_CHECKING:
    from spookid.mechanics.model import Model

Positions = Callable[[Joint], ca.SX]  # coordinates of a joint, (n,)


@dataclass(frozen=True, eq=False)
class Passage:
    """Poses and velocities of all bodies at both ends of one step."""

    q: ca.SX  # poses at its beginning, (7 n_b,)
    q_next: ca.SX  # those at its end
    step: ca.SX  # its length [s]
    middle: ca.SX  # poses at its middle
    v: ca.SX  # velocities there, (6 n_b,)

    @classmethod
    def between(cls, space: Manifold, q: ca.SX, q_next: ca.SX, step: ca.SX) -> Passage:
        """Make a passage in which bodies move along a geodesic from poses q to q_next."""
        moved = space.difference(q_next, q)
        return cls(q, q_next, step, space.retract(q, moved / 2), moved / step)


@dataclass(frozen=True, eq=False)
class Constraint(metaclass=Checked):
    """Base class of constraints between bodies, which are equations of their poses or velocities.

    A subclass has either ``violation``, or ``rates`` and ``speeds``, and then ``on_velocities = True``.

    >>> isinstance(Gear("gear", hinge, elbow, -3), Constraint)
    True

    Raises:
        ProblemError: for a negative compliance or damping.
    """

    on_velocities: ClassVar[bool] = False
    """True if its rows are A(q) v = γ."""
    told_by_poses: ClassVar[bool] = True
    """True if poses determine whether it holds; False if the number of turns counts, too."""
    signals: ClassVar[tuple[str, ...]] = ()
    """Names of the inputs that γ takes."""

    name: str
    compliance: Any = field(default=COMPLIANCE, kw_only=True)
    """ε of a row in ``Spook()``: [m/N or rad/(N m)] of positions, [m/s/N or rad/s/(N m)] of velocities."""
    damping: Any = field(default=0.02, kw_only=True)
    """τ of rows on positions in ``Spook()``, their relaxation time [s]."""
    place: str = field(default_factory=declared_at, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("compliance", "damping"):
            object.__setattr__(self, name, not_negative(getattr(self, name), name, self.what))

    @abstractmethod
    def labels(self, model: Model) -> tuple[str, ...]:
        """Names of its rows."""

    def check(self, model: Model) -> None:
        """Raise ProblemError if the constraint does not fit the model, by default if its frames are on other bodies."""
        for frame in (value for value in vars(self).values() if isinstance(value, Frame)):
            if frame.body is not GROUND and frame.body not in model.bodies:
                what = f"{self.what} is of Body {frame.body.name!r}"
                raise ProblemError(f"{what}, which is not in the bodies; add it to them")

    @abstractmethod
    def expressions(self, model: Model) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""

    def violation(self, model: Model, q: ca.SX, positions: Positions) -> ca.SX:
        """g(q), (rows,).

        Args:
            positions: positions of each joint, continuous in time where the unknowns determine them.
        """
        raise NotImplementedError

    def rates(self, model: Model, q: ca.SX, v: ca.SX) -> ca.SX:
        """A(q) v, (rows,)."""
        raise NotImplementedError

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Prescribed velocity γ: one value for all equations, or one value per equation."""
        raise NotImplementedError

    def over_step(self, model: Model, passage: Passage, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Residual A v − γ of the velocity constraints at the middle of a step, (rows,).

        Args:
            inputs: their means over the step.
        """
        rows, speeds = self.rates(model, passage.middle, passage.v), self.speeds(inputs)
        return rows - of_rows(speeds, rows.numel())

    @property
    def kind(self) -> str:
        """Its kind, for messages."""
        return type(self).__name__

    @property
    def what(self) -> str:
        """Beginning of error messages about this constraint: place and name."""
        return f"{self.place}: {self.kind} {self.name!r}"


@dataclass(frozen=True, eq=False)
class Distance(Constraint):
    """Massless rod with a ball joint at each end: keeps the distance between the origins of two frames.

    Its multiplier is the force of the rod, positive if it pushes.

    Raises:
        ProblemError: for frames that are not in the model or on one body, or a length that is not positive.
    """

    frame_a: Frame
    frame_b: Frame
    length: Any
    """l [m]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame_a.body is self.frame_b.body:
            raise ProblemError(f"{self.what} joins {self.frame_a.body.name!r} to itself; give frames of two bodies")
        object.__setattr__(self, "length", symbolic(self.length, f"{self.what}: length"))
        if is_constant(self.length) and float(self.length) <= 0:
            raise ProblemError(f"{self.what} has length {float(self.length):g}; it must be positive")

    def labels(self, model: Model) -> tuple[str, ...]:
        return ("length",)

    def expressions(self, model: Model) -> list[ca.SX]:
        ends = self.frame_a.expressions() + self.frame_b.expressions()
        return [self.compliance, self.damping, self.length, *ends]

    def violation(self, model: Model, q: ca.SX, positions: Positions) -> ca.SX:
        """Distance residual (|r_b − r_a|² − l²)/(2 l) [m], to first order the excess length."""
        a, b = (model.moving(frame, q).origin for frame in (self.frame_a, self.frame_b))
        return (ca.dot(b - a, b - a) / self.length - self.length) / 2


def common_measure(values: Sequence[float]) -> float | None:
    """Greatest common divisor of real numbers whose ratios have denominators up to 1000; None if it does not exist."""
    from fractions import Fraction  # slow to load, and few ask for it

    ratios = [Fraction(value / values[0]).limit_denominator(1000) for value in values if math.isfinite(value)]
    known = [float(ratio) * values[0] for ratio in ratios]
    if not values or len(ratios) < len(values) or not np.allclose(known, values, rtol=DIGITS**2, atol=0.0):
        return None
    shared = math.lcm(*(ratio.denominator for ratio in ratios))
    return abs(values[0]) * math.gcd(*(int(ratio * shared) for ratio in ratios)) / shared


class Term(NamedTuple):
    """One joint coordinate with its coefficient in a linear constraint."""

    joint: Joint
    coordinate: int
    ratio: ca.SX

    @property
    def label(self) -> str:
        """Of the coordinate."""
        return self.joint.labels[self.coordinate]

    @property
    def turns_over(self) -> bool:
        """True if the coordinate is an angle that is wrapped to (−π, π]."""
        return self.joint.coordinates[self.coordinate].turns_over


class LinearConstraint(Constraint):
    """Base class of linear constraints Σ r_i x_i = offset between joint coordinates x; subclasses define ``terms``."""

    offset: Any
    """Of the sum."""

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The sum."""

    def _check_terms(self, terms: Sequence[Term]) -> None:
        """Convert the offset, and refuse terms that tie nothing."""
        object.__setattr__(self, "offset", symbolic(self.offset, f"{self.what}: offset"))
        places = [(id(term.joint), term.coordinate) for term in terms]
        if len(set(places)) < len(places):
            raise ProblemError(f"{self.what} ties a coordinate to itself; give two")
        if any(is_zero(term.ratio) for term in terms):
            raise ProblemError(f"{self.what} has ratio 0; lock the coordinate with another joint")

    def labels(self, model: Model) -> tuple[str, ...]:
        return ("ratio",)

    def check(self, model: Model) -> None:
        for joint in (term.joint for term in self.terms):
            if joint not in model.joints:
                what = f"{self.what} ties {joint.kind} {joint.name!r}"
                raise ProblemError(f"{what}, which is not in the model; add it to the joints")

    def expressions(self, model: Model) -> list[ca.SX]:
        return [self.compliance, self.damping, self.offset, *(term.ratio for term in self.terms)]

    def violation(self, model: Model, q: ca.SX, positions: Positions) -> ca.SX:
        """Residual Σ r x − offset, modulo the effect of whole turns of the angles."""
        apart = sum((t.ratio * positions(t.joint)[t.coordinate] for t in self.terms), -self.offset)
        whole = self._whole()
        return apart if whole is None else whole * rotations.wrapped(apart / whole)

    @property
    def told_by_poses(self) -> bool:  # type: ignore[override]
        """True if poses determine the residual; False for several angles whose ratios are not rational."""
        return self._whole() is not None or not any(term.turns_over for term in self.terms)

    def _whole(self) -> ca.SX | None:
        """The largest of which whole turns make multiples in the row, over 2π; None if nothing, or not one size."""
        ratios = [term.ratio for term in self.terms if term.turns_over]
        if len(ratios) < 2:
            return ratios[0] if ratios else None
        if not all(map(is_constant, ratios)):
            return None
        common = common_measure(list(map(float, ratios)))
        return None if common is None else ca.SX(common)


@dataclass(frozen=True, eq=False)
class Gear(LinearConstraint):
    """Gear constraint b = ratio a + offset between two joint coordinates, for gears, belts, or rack and pinion.

    Angles of a state are in (−π, π]. The equation holds through any number of turns for one angle and one length,
    and for two angles whose ratio is one of whole numbers up to 1000 (numbers of teeth); ``offset`` is then known
    modulo that, too. Two angles with another ratio, or one that is a Parameter, need ``Variational()``: unknowns of
    fits are then the angles themselves, which begin in (−π, π] or at the values of their sensors, and each step of a
    simulation holds by how much both angles turn, from what they are at its beginning. ``Spook()``,
    ``coordinates="maximal"`` and further constraints on velocities are refused once an angle leaves (−π, π]
    (ProblemError, by ``solve`` and ``simulate``).

    Raises:
        ProblemError: for a joint that is not in the model, a coordinate that it does not have, or a ratio of zero.
    """

    joint_a: Joint
    joint_b: Joint
    ratio: Any
    """b/a [rad/rad, m/m, or m/rad of a rack b and its pinion a]; negative of two spur gears."""
    offset: Any = 0
    """b where a is zero [rad or m]."""
    coordinate_a: int = field(default=0, kw_only=True)
    """Number of the coordinate within the joint."""
    coordinate_b: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for joint, coordinate in ((self.joint_a, self.coordinate_a), (self.joint_b, self.coordinate_b)):
            _check_joint(self.what, joint, coordinate)
        object.__setattr__(self, "ratio", symbolic(self.ratio, f"{self.what}: ratio"))
        self._check_terms(self.terms)

    @property
    def terms(self) -> tuple[Term, ...]:
        """b − ratio a."""
        other = Term(self.joint_b, self.coordinate_b, ca.SX(1))
        return Term(self.joint_a, self.coordinate_a, -self.ratio), other


@dataclass(frozen=True, eq=False)
class Coupling(LinearConstraint):
    """Linear coupling Σ r_i x_i = offset of joint coordinates, such as a differential whose motors act on the sum and
    the difference of two joints::

        Coupling("sum", {motor_a: 1, pitch: -n, roll: -n})
        Coupling("difference", {motor_b: 1, pitch: -n, roll: n})

    Inertia, friction and motor on the motor's side belong to a body with a joint of its own.
    For angles over several turns see ``Gear``.

    Args:
        name: for results and messages.
        ratios: r_i by joint, or by (joint, coordinate) for one of several coordinates; a number or an expression of
            Parameters each [any unit that makes the terms one].
        offset: value of the sum.

    Raises:
        ProblemError: for fewer than two coordinates, a joint that is not in the model, a coordinate that it does not
            have, or a ratio of zero.
    """

    ratios: Mapping[Any, Any]
    offset: Any = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.ratios, Mapping) and len(self.ratios) > 1):
            raise ProblemError(f"{self.what} ties {shown(self.ratios)}; give {{joint: ratio, ...}} of two or more")
        made = []
        for key, ratio in self.ratios.items():
            joint, coordinate = key if isinstance(key, tuple) and len(key) == 2 else (key, 0)
            _check_joint(self.what, joint, coordinate)
            made.append(Term(joint, coordinate, symbolic(ratio, f"{self.what}: ratio of {joint.name}")))
        self._check_terms(made)
        object.__setattr__(self, "ratios", {(t.joint, t.coordinate): t.ratio for t in made})

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(Term(joint, coordinate, ratio) for (joint, coordinate), ratio in self.ratios.items())


def _check_joint(what: str, joint: Any, coordinate: Any) -> None:
    if not isinstance(joint, Joint):
        raise ProblemError(f"{what} ties {shown(joint)}, which is no Hinge or other Joint; give a joint")
    check_coordinate(joint, coordinate, f"{what} ties")


def of_rows(speeds: ca.SX, count: int) -> ca.SX:
    """Return γ of each equation, from one value for all equations or one per equation."""
    return speeds if speeds.numel() == count else ca.repmat(speeds, count)
