"""Motors that drive a coordinate of a joint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.joints import Joint, check_coordinate, refuse_negative
from spookid.parameter import symbolic


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor on a joint (F.3): impulse h K u − J_shaft (s₊ − s), with u a measured input.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, or for a negative fixed shaft inertia.
    """

    joint: Joint
    signal: str
    """Name of the input u in the recordings."""
    gain: Any = 1
    """K, torque or force per unit of the signal [N m/unit or N/unit]."""
    shaft_inertia: Any = 0
    """J_shaft [kg m² or kg], felt along the joint's coordinate only."""
    measured: bool = field(default=False, kw_only=True)
    """True if the signal is a measurement of what the motor did, with noise of its own, such as a current or a torque;
    False if it is known, such as a command, and only what disturbs the mechanism is random."""
    coordinate: int = field(default=0, kw_only=True)
    """Which of the joint's coordinates it drives."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Motor"
        if not isinstance(self.joint, Joint):
            raise ProblemError(f"{what} drives {shown(self.joint)}, which is no Hinge or other Joint")
        check_coordinate(self.joint, self.coordinate, f"{what} drives")
        object.__setattr__(self, "gain", symbolic(self.gain, f"{what}: gain"))
        object.__setattr__(self, "shaft_inertia", symbolic(self.shaft_inertia, f"{what}: shaft_inertia"))
        refuse_negative(self.shaft_inertia, "shaft_inertia", what)

    @property
    def label(self) -> str:
        """Of the coordinate that it drives."""
        return self.joint.labels[self.coordinate]

    def effort(self, u: ca.SX) -> ca.SX:
        """K u, what it does at an input [N m or N]."""
        return self.gain * u

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.gain, self.shaft_inertia]
