"""Motors that drive a coordinate of a joint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import casadi as ca

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.joints import Joint, check_coordinate, refuse_negative
from spookid.parameter import symbolic

Hold = Literal["previous", "linear"]


@dataclass(frozen=True, eq=False)
class Input:
    """A signal that acts on a mechanism."""

    signal: str
    """Its name in the recordings."""
    delay: ca.SX = field(default_factory=lambda: ca.SX(0))
    """By how much later than its stamps it acts [s]."""
    hold: Hold = "previous"
    """What it is between its samples: the one before, or on a line from that to the next."""


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
    delay: Any = field(default=0, kw_only=True)
    """By how much later than its stamps the signal acts [s], a number or an expression of Parameters."""
    hold: Hold = field(default="previous", kw_only=True)
    """What the signal is between its samples: the one before (``"previous"``), as commands that a computer sends, or on
    a line from that to the next (``"linear"``)."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        what = f"{self.place}: Motor"
        if not isinstance(self.joint, Joint):
            raise ProblemError(f"{what} drives {shown(self.joint)}, which is no Hinge or other Joint")
        check_coordinate(self.joint, self.coordinate, f"{what} drives")
        object.__setattr__(self, "gain", symbolic(self.gain, f"{what}: gain"))
        object.__setattr__(self, "shaft_inertia", symbolic(self.shaft_inertia, f"{what}: shaft_inertia"))
        refuse_negative(self.shaft_inertia, "shaft_inertia", what)
        object.__setattr__(self, "delay", symbolic(self.delay, f"{what}: delay"))
        if self.hold not in get_args(Hold):
            raise ProblemError(f"{what}: hold {self.hold!r} is not known; choose 'previous' or 'linear'")

    @property
    def label(self) -> str:
        """Of the coordinate that it drives."""
        return self.joint.labels[self.coordinate]

    @property
    def input(self) -> Input:
        """Its signal, and how that acts."""
        return Input(self.signal, self.delay, self.hold)

    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.gain, self.shaft_inertia, self.delay]
