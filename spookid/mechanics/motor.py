"""Motors that drive a coordinate of a joint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, cast

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at
from spookid.mechanics.coefficients import check_coordinate, refuse_negative
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Hold, Input
from spookid.parameter import is_constant, is_zero, symbolic
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class Motor(metaclass=Checked):
    """Motor on a joint (F.3) with input u: torque K u, or K i of a current, or K (u − K n s)/R of a voltage.

    Through a gear of ratio n it does n times that to a coordinate of the rate s, and its rotor is felt n² times there:
    impulse h (n K u + offset) − (J_shaft + n² J) (s₊ − s), along that coordinate only. A gear loses nothing: what it
    loses is friction of the joint. ::

        Motor(hinge, "torque")                                            # of the motor, in N m
        Motor(hinge, "i", torque_constant=k, ratio=100, rotor_inertia=J)  # a current
        Motor(hinge, "u", torque_constant=k, resistance=R, ratio=100)     # a voltage

    Args:
        joint: the driven joint.
        signal: name of the input u in the recordings.
        gain: K, torque or force of the motor per unit of the signal [N m/unit or N/unit]; None: 1, or what follows from
            ``torque_constant`` and ``resistance``.
        shaft_inertia: J_shaft [kg m² or kg], along the joint's coordinate only.
        measured: True if the signal is a measured effort, with noise of its own, such as a current or a torque; False
            if it is known, such as a command, and only the process noise is random. The noise is that of the signal,
            whatever the gain; results give it as an effort.
        coordinate: number of the driven coordinate of the joint, from 0 on.
        ratio: n, rate of the motor over that of the coordinate [rad/rad or rad/m]; may be negative.
        torque_constant: k of the motor [N m/A = V s/rad], instead of ``gain``: the signal is a current [A],
            or a voltage if there is a ``resistance``.
        resistance: R of the winding [Ω]: the signal is a voltage [V], reduced by the back-EMF k n s; inductance is
            neglected.
        rotor_inertia: J of the rotor about its own axis [kg m²].
        offset: a constant torque or force along the coordinate [N m or N].
        delay: time by which the signal acts later than its timestamps [s], a number or an expression of Parameters.
        hold: the signal between its samples: the sample before (``"previous"``, zero-order hold), as for commands of a
            computer, linear interpolation (``"linear"``), as for measured signals, or the smooth signal without
            frequencies above 0.45 of the sampling rate (``"band"``); None: ``"linear"`` if it is ``measured``, else
            ``"previous"``.
        lag: time constant T of a first-order lag of the signal [s], T u̇_a = u − u_a, a number or an expression of
            Parameters; the lag is at rest at the first sample.
        effort: function of the input that returns the torque or force of the motor [N m or N], instead of ``gain``;
            it is applied after ``delay`` and ``lag``, and may hold Parameters: ``lambda u: K * u * ca.fabs(u)``.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, for both a ``gain`` and a ``torque_constant``,
            a ``resistance`` without one, an ``effort`` with one of these, with inertias or ``measured``, or for fixed
            values that are negative, or zero where they must not be.
    """

    joint: Joint
    signal: str
    gain: Any = None
    shaft_inertia: Any = 0
    measured: bool = field(default=False, kw_only=True)
    coordinate: int = field(default=0, kw_only=True)
    ratio: Any = field(default=1, kw_only=True)
    torque_constant: Any = field(default=None, kw_only=True)
    resistance: Any = field(default=None, kw_only=True)
    rotor_inertia: Any = field(default=0, kw_only=True)
    offset: Any = field(default=0, kw_only=True)
    delay: Any = field(default=0, kw_only=True)
    hold: Hold = field(default=cast(Hold, None), kw_only=True)
    lag: Any = field(default=0, kw_only=True)
    effort: Callable[[ca.SX], Any] | None = field(default=None, kw_only=True)
    place: str = field(default_factory=declared_at, repr=False)

    def __repr__(self) -> str:
        return f"<Motor at {self.joint.name!r}, input {self.signal!r}>"

    def __post_init__(self) -> None:
        what = f"{self.place}: Motor"
        check_coordinate(self.joint, self.coordinate, f"{what} drives")
        optional = ("torque_constant", "resistance")
        for name in (*optional, "shaft_inertia", "ratio", "rotor_inertia", "offset", "delay", "lag"):
            if getattr(self, name) is not None or name not in optional:
                object.__setattr__(self, name, symbolic(getattr(self, name), f"{what}: {name}"))
        for name in ("shaft_inertia", "rotor_inertia", "resistance", "lag"):
            refuse_negative(getattr(self, name), name, what)
        for name in ("ratio", "resistance"):
            if getattr(self, name) is not None and is_zero(getattr(self, name)):
                raise ProblemError(f"{what}: {name} is 0; give what it is, or leave it out")
        if self.effort is not None:
            zero = all(is_zero(getattr(self, name)) for name in ("shaft_inertia", "rotor_inertia"))
            if self.measured or not zero or any(one is not None for one in (self.gain, self.torque_constant)):
                raise ProblemError(
                    f"{what} has effort, with which gain, torque_constant, inertias and measured do not go; leave them "
                    "out, and give an inertia as armature of the joint"
                )
        if self.hold is None:
            # Held, a sampled torque would act half a sample late.
            object.__setattr__(self, "hold", "linear" if self.measured else "previous")
        object.__setattr__(self, "gain", self._gain(what))

    def _gain(self, what: str) -> ca.SX:
        """K as it is given, or of a current or a voltage."""
        if self.torque_constant is None:
            if self.resistance is not None:
                raise ProblemError(f"{what} has a resistance and no torque_constant; give both for a voltage")
            return symbolic(1 if self.gain is None else self.gain, f"{what}: gain")
        own = self.torque_constant if self.resistance is None else self.torque_constant / self.resistance
        # A copy of a motor is given the gain that follows from its torque_constant.
        if self.gain is not None and not ca.is_equal(symbolic(self.gain, f"{what}: gain"), own, 20):
            raise ProblemError(
                f"{what} has gain and torque_constant; give gain for a torque, or torque_constant for a current or, "
                "with resistance, a voltage"
            )
        return own

    @property
    def label(self) -> str:
        """Label of the driven coordinate."""
        return self.joint.labels[self.coordinate]

    @property
    def input(self) -> Input:
        """Input signal of the motor, with its delay, hold and lag."""
        return Input(self.signal, self.delay, self.hold, self.lag)

    @property
    def unit_effort(self) -> ca.SX:
        """Effort along the coordinate per unit of the signal, n K [N m/unit or N/unit]."""
        return self.ratio * self.gain

    @property
    def sensitivity(self) -> ca.SX:
        """Unit effort divided by its value at the initial values of its Parameters; this ratio scales the effort of a
        measured signal and of its noise. 1 without Parameters."""
        if is_constant(self.unit_effort):
            return ca.SX(1)
        return self.unit_effort / at_guess(self.unit_effort).item()

    def driving_effort(self, u: ca.SX) -> ca.SX:
        """Effort along the coordinate at rest: n K u plus the offset [N m or N]."""
        return self.unit_effort * u + self.offset

    @property
    def damping(self) -> ca.SX:
        """Damping n² k²/R by the back-EMF along the coordinate [N m s or N s/m]."""
        if self.resistance is None:
            return ca.SX(0)
        return (self.ratio * self.torque_constant) ** 2 / self.resistance

    @property
    def inertia(self) -> ca.SX:
        """Inertia J_shaft + n² J of the motor along the coordinate [kg m² or kg]."""
        return self.shaft_inertia + self.ratio**2 * self.rotor_inertia

    def impulse(self, step: ca.SX, u: ca.SX, rate: ca.SX, change: ca.SX) -> ca.SX:
        """Impulse of the motor along the coordinate over one step [N m s or N s].

        Args:
            rate: rate of the coordinate.
            change: change of that rate over the step.
        """
        return step * (self.driving_effort(u) - self.damping * rate) - self.inertia * change

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        own = [self.gain, self.shaft_inertia, self.ratio, self.rotor_inertia, self.offset, self.delay, self.lag]
        return own + [value for value in (self.torque_constant, self.resistance) if value is not None]
