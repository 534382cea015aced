"""Impacts: a point of a body hits a plane of another one, rebounds, and rubs while it does.

Over the instant of an impact forces of joints, motors and gravity do nothing; with the velocity J v of the point over
the plane, the impulse Λ on it and the normal z,

    M (v⁺ − v⁻) = JᵀΛ,    J_z v⁺ + e J_z v⁻ = 0,    Λ_xy = −μ Λ_z d,    d the direction of the slip,

which is the reset map of Martinez et al., III and IV, with restitution on normal rows alone (their equation 17 has
another sign); what sticks has J_xy v⁺ = 0 in the place of friction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.mechanics.constraints import Mechanism
from spookid.mechanics.touching import Touch
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass

Times = str | Sequence[float] | Mapping[str, "Times"]
"""When impacts happen: times [s]; the name of a signal that rises to ``threshold`` at each; or one of these by the name
of each recording."""

_SLOW = 1e-3
"""Slip below which friction has no full direction [m/s]."""


@dataclass(frozen=True, eq=False)
class Impact(Touch):
    """A point that hits a plane at known times and rebounds: a ball, a leg that hits a stop, a foot before it stands.

    x and y of ``on`` span the plane, z is its normal; where along z it is, the data say. Times need to be right
    to a time step or so: when exactly an impact is follows from the motion before and after it. Its multiplier is the
    impulse on the body of ``frame`` along z, and along the other ``axes`` where it sticks [N s].

    ``Impact("floor", ball.frame(), times=[0.31, 0.55], restitution=e, friction=mu)``

    Raises:
        ProblemError: for times of another form, a restitution outside [0, 1], a negative friction, axes without z, or
            as of ``PointContact``.
    """

    times: Times = field(default=(), kw_only=True)
    """When; see ``Times``."""
    threshold: float = field(default=0.5, kw_only=True)
    """Of the signal, in its unit."""
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
        _check_times(self.times, self.what)

    @property
    def sticks(self) -> bool:
        """True if it does not slide in an impact."""
        return is_constant(self.friction) and math.isinf(float(self.friction))

    @property
    def rubs(self) -> bool:
        """True if friction acts on what slides."""
        return not (self.sticks or is_zero(self.friction))

    @property
    def rows_along(self) -> str:
        """z, and the others if it sticks."""
        return self.axes if self.sticks else "z"

    def schedule(self, recording: str | None) -> str | Sequence[float]:
        """When it happens in a recording; as of no recording with names of some, never.

        Raises:
            ProblemError: if nothing is said of it.
        """
        if not isinstance(self.times, Mapping):
            return self.times
        return () if recording is None else self.of_recording(self.times, recording, "times")  # type: ignore[return-value]

    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [*super().expressions(model), self.restitution, *([] if self.sticks else [self.friction])]

    def height(self, model: Mechanism, q: ca.SX) -> ca.SX:
        """Of the point over the plane [m]."""
        along: ca.SX = self.place_of(model, q)[self.rows_along.index("z")]
        return along

    def friction_on_bodies(self, model: Mechanism, q: ca.SX, v: ca.SX, normal: ca.SX) -> ca.SX:
        """What friction does to all bodies under an impulse along z, along their velocities (6 n_b,).

        Args:
            v: symbols.
            normal: the impulse along z [N s].
        """
        slip = self.velocity(model, q, v)[:2]
        direction = slip / ca.sqrt(ca.dot(slip, slip) + _SLOW**2)
        return -self.friction * normal * (ca.jacobian(slip, v).T @ direction)


def _check_times(times: Times, what: str) -> None:
    if isinstance(times, Mapping):
        for name, one in times.items():
            if not isinstance(name, str) or isinstance(one, Mapping):
                raise ProblemError(f"{what}: times has {shown(name)}; give times by the names of recordings")
            _check_times(one, what)
        return
    if isinstance(times, str):
        return
    try:
        given = np.asarray(times, dtype=float)
    except (TypeError, ValueError):
        given = np.full(1, np.nan)
    if given.ndim != 1 or not np.all(np.isfinite(given)) or np.any(np.diff(given) <= 0):
        raise ProblemError(f"{what}: times is {shown(times)}; give rising times [s], or the name of a signal")
