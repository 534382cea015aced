"""Contacts that push and rub: a point of one body on a plane of another.

Impacts: a point of a body hits a plane of another one, rebounds, and rubs while it does.

Over the instant of an impact forces of joints, motors and gravity do nothing; with the velocity J v of the point over
the plane, the impulse Λ on it and the normal z,

    M (v⁺ − v⁻) = JᵀΛ,    J_z v⁺ + e J_z v⁻ = 0,    Λ_xy = −μ Λ_z d,    d the direction of the slip,

which is the reset map of Martinez et al., III and IV, with restitution on normal rows alone (their equation 17 has
another sign); what sticks has J_xy v⁺ = 0 instead of friction.

Contacts that hold: a point or a frame of a body that stays where it is on another one, always or at times.

What holds is that nothing moves over a step, y(q_{k+1}) = y(q_k) with y where the frame is on the other one, which is a
row on positions without the place of the contact among its unknowns: where a foot stands, the data say. The multipliers
act along A(q_k) = ∂y/∂ψ, as those of rigid joints do, and vanish while a contact does not hold.

The rows at acceleration level are those of multibody codes, ÿ = −k_d ẏ − k_p (y − y_0) (Baumgarte; Martinez et al.,
III-B and IV-A with equations 24 and 25). They hold a little less than what they stand for, and bias what damps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import Body, Frame
from spookid.mechanics.coefficients import not_negative
from spookid.mechanics.holding import Touch
from spookid.mechanics.system import floats
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass

if TYPE_CHECKING:
    from spookid.mechanics.model import Model

_NOT_NEGATIVE = ("friction", "restitution", "compliance", "damping")


@dataclass(frozen=True, eq=False)
class Contact(metaclass=Checked):
    """Unilateral contact of a point with a plane, with friction on the plane (Marklund et al., 2.21, 2.24).

    The gap is the height of the point above the plane [m], negative where it penetrates; the normal impulse pushes the
    point up and is never negative. Friction acts against the slip of the point over the plane.

    A point that comes down faster than ``threshold``, and would be below the plane at the end of a step, leaves at
    ``restitution`` times its speed (Newton's law), from where it is: the time of an impact is known to a step. A slower
    point, or one without restitution, ends the step on the plane. ``Variational()`` takes contacts as rigid,
    ``Spook()`` regularizes them as it does joints: at rest under a force F the point penetrates by compliance times F,
    and within about ``damping`` of touching the approach is braked over a few steps.

    Raises:
        ProblemError: for a negative fixed coefficient, a restitution above 1, a threshold that is not positive, an
            unknown cone, or a contact of a body with itself.
    """

    name: str
    point: Frame
    """A frame whose origin is the point."""
    plane: Frame
    """A frame whose x and y axes span the plane and are its tangents; its z axis is the normal, towards the free side.
    ``GROUND.frame()`` is the floor."""
    friction: Any = 0
    """μ, without unit."""
    restitution: Any = 0
    """e, from 0 to 1: speed along the normal after an impact over that before."""
    cone: Literal["box", "disc"] = "box"
    """Friction cone: along each of the plane's two tangents at most μ times the normal
    impulse, or together (Coulomb's cone)."""
    threshold: float = 0.1
    """Speed along the normal up to which nothing rebounds [m/s]."""
    compliance: Any = 1e-4
    """ε [m/N]."""
    damping: Any = 0.02
    """τ, relaxation time [s]."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Contact {self.name!r}"
        if self.point.body is self.plane.body:
            name = self.point.body.name
            raise ProblemError(f"{what} is of {name!r} with itself; give points and planes of two bodies")
        if not 0 < self.threshold < math.inf:
            raise ProblemError(f"{what}: threshold is {shown(self.threshold)}; give a positive speed in m/s")
        for name in _NOT_NEGATIVE:
            value = not_negative(getattr(self, name), name, what)
            if name == "restitution" and is_constant(value) and float(value) > 1:
                raise ProblemError(f"{what}: restitution is {float(value):g}; an impact cannot add speed, give 0 to 1")
            object.__setattr__(self, name, value)

    @property
    def rebounds(self) -> bool:
        """True if the restitution is not zero."""
        return not is_zero(self.restitution)

    @property
    def rubs(self) -> bool:
        """True if the friction of the contact is not zero."""
        return not is_zero(self.friction)

    def bodies(self) -> tuple[Body, Body]:
        """Body of the contact point and body of the plane."""
        return self.point.body, self.plane.body

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        own = [getattr(self, name) for name in _NOT_NEGATIVE]
        return own + self.point.expressions() + self.plane.expressions()


Times = str | Sequence[float] | Mapping[str, "Times"]
"""When impacts happen: times [s]; the name of a signal that rises to ``threshold`` at each; or one of these by the name
of each recording."""

_SLOW = 1e-3  # slip below which friction has no full direction [m/s]


@dataclass(frozen=True, eq=False)
class Impact(Touch):
    """Impact of a point on a plane at known times, with rebound: a ball, a leg that hits a stop, a foot at touchdown.

    x and y of ``on`` span the plane, z is its normal; its height along z is estimated. Times need to be correct to
    about a time step: the exact time follows from the motion before and after the impact. Its multiplier is the impulse
    on the body of ``frame`` along z, and along the other ``axes`` where it sticks [N s].

    ``Impact("floor", ball.frame(), times=[0.31, 0.55], restitution=e, friction=mu)``

    Raises:
        ProblemError: for times of another form, a restitution outside [0, 1], a negative friction, axes without z, or
            as of ``PointContact``.
    """

    times: Times = field(default=(), kw_only=True)
    """When; see ``Times``."""
    threshold: float = field(default=0.5, kw_only=True)
    """Threshold of the signal, in its unit."""
    restitution: Any = field(default=0.0, kw_only=True)
    """e: speed along the normal after an impact over that before, 0 to 1."""
    friction: Any = field(default=0.0, kw_only=True)
    """μ: impulse against the slip over that along the normal, of a point that slides on through the impact;
    ``math.inf`` of one that sticks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("restitution", 1.0), ("friction", math.inf)):
            given = getattr(self, name)
            endless = most == given == math.inf if isinstance(given, float) else False
            value = ca.SX(given) if endless else symbolic(given, f"{self.what}: {name}")
            if is_constant(value) and not 0 <= float(value) <= most:
                limits = "a number from 0 to 1" if most == 1 else "a number that is not negative"
                raise ProblemError(f"{self.what}: {name} is {float(value):g}; give {limits}")
            object.__setattr__(self, name, value)
        if "z" not in self.axes:
            raise ProblemError(f"{self.what} has axes {shown(self.axes)} without z, the normal of on; turn on")
        if not np.isfinite(self.threshold):
            raise ProblemError(f"{self.what}: threshold is {shown(self.threshold)}; give a number")

    scheduled = "times", ()

    def check_schedule(self, given: Any) -> None:
        if isinstance(given, str):
            return
        times = floats(given, f"{self.what}: times", "rising times [s], or the name of a signal")
        if times.ndim != 1 or not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            raise ProblemError(f"{self.what}: times is {shown(given)}; give rising times [s], or the name of a signal")

    @property
    def sticks(self) -> bool:
        """True if the point sticks to the plane during an impact."""
        return is_constant(self.friction) and math.isinf(float(self.friction))

    @property
    def rubs(self) -> bool:
        """True if friction acts while the point slides during an impact."""
        return not (self.sticks or is_zero(self.friction))

    @property
    def rows_along(self) -> str:
        """Axes with equations: z, and x and y if the point sticks."""
        return self.axes if self.sticks else "z"

    def expressions(self, model: Model) -> list[ca.SX]:
        return [*super().expressions(model), self.restitution, *([] if self.sticks else [self.friction])]

    def height(self, model: Model, q: ca.SX) -> ca.SX:
        """Height of the point above the plane [m]."""
        along: ca.SX = self.place_of(model, q)[self.rows_along.index("z")]
        return along

    def friction_on_bodies(self, model: Model, q: ca.SX, v: ca.SX, normal: ca.SX) -> ca.SX:
        """Generalized friction impulse on all bodies for a normal impulse along z, (6 n_b,).

        Args:
            v: symbols.
            normal: the impulse along z [N s].
        """
        slip = self.velocity(model, q, v)[:2]
        direction = slip / ca.sqrt(ca.dot(slip, slip) + _SLOW**2)
        return -self.friction * normal * (ca.jacobian(slip, v).T @ direction)


Holds = bool | str | Sequence[tuple[float, float]] | Mapping[str, "Holds"]
"""When a contact holds: True, always; the name of a signal, while it is at least ``threshold``; or intervals of time
[s]; or one of these by the name of each recording."""
Level = Literal["position", "acceleration"]


@dataclass(frozen=True, eq=False)
class HeldContact(Touch):
    """Base class of the bilateral contacts ``PointContact`` and ``Weld``.

    Raises:
        ProblemError: for a schedule of another form, a level that is not known, or a negative slip, threshold or gain,
            and as of ``Touch``.
    """

    holds: Holds = field(default=True, kw_only=True)
    """When; see ``Holds``. A step counts if the contact holds at both of its ends."""
    threshold: float = field(default=0.5, kw_only=True)
    """Of the signal, in its unit: 0.5 of one that is 0 or 1, some newtons of a force."""
    slip: float | None = field(default=0.0, kw_only=True)
    """How much it creeps, as a random velocity [m/s/√Hz, and rad/s/√Hz of a ``Weld``]: 0, it does not; None: estimated
    with the other noise."""
    level: Level = field(default="position", kw_only=True)
    """``"position"``, or ``"acceleration"`` with the gains of ``baumgarte`` (where the noise is estimated)."""
    baumgarte: tuple[float, float] = field(default=(0.0, 0.0), kw_only=True)
    """k_p [1/s²], which pulls to the origin of ``on``, and k_d [1/s]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = {"threshold": self.threshold, "slip": 0.0 if self.slip is None else self.slip}
        numbers |= {"a gain of baumgarte": min(self.baumgarte)}
        for name, value in numbers.items():
            if not (np.isfinite(value) and (value >= 0 or name == "threshold")):
                raise ProblemError(f"{self.what}: {name} is {shown(value)}; give a number that is not negative")

    scheduled = "holds", True

    def check_schedule(self, given: Any) -> None:
        if given is True or isinstance(given, str):
            return
        wanted = "True, a signal's name, or intervals [(t_0, t_1), ...]"
        spans = floats(given, f"{self.what}: holds", wanted)
        if given is False or spans.size % 2 or not np.all(np.diff(spans.reshape(-1, 2)) > 0):
            raise ProblemError(f"{self.what}: holds is {shown(given)}; give {wanted}")

    @property
    def switches(self) -> bool:  # type: ignore[override]
        """True if the contact is open at some times."""
        return self.holds is not True

    @property
    def creeps(self) -> float | None:  # type: ignore[override]
        return self.slip

    @property
    def stabilized(self) -> bool:  # type: ignore[override]
        return self.level != "position"


@dataclass(frozen=True, eq=False)
class PointContact(HeldContact):
    """Contact that fixes a point of a body but not its rotation, such as a standing foot: three equations.

    Its multiplier is the impulse of the contact's force on the body of ``frame``, along the axes of ``on`` [N s].

    ``PointContact("foot", shank.frame(at=(0, 0, -0.2)), holds="foot_force", threshold=20)``
    """


@dataclass(frozen=True, eq=False)
class Weld(HeldContact):
    """Contact that fixes a frame of a body, such as the sole of a foot or a gripping hand: six equations.

    Its multiplier is the impulse of the contact's force on the body of ``frame`` [N s] and that of its moment about the
    frame's origin [N m s], along the axes of ``on``.

    ``Weld("grip", hand.frame(), box.frame(), holds=[(1.0, 4.5)])``
    """

    turns = True
