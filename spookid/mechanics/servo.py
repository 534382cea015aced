"""Drives that close a loop around a joint: servos with position, velocity or effort commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import casadi as ca

from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.mechanics.coefficients import check_coordinate, refuse_negative
from spookid.mechanics.hidden import Hidden
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Hold, Input, Load
from spookid.mechanics.motor import Motor
from spookid.parameter import Placeholder, is_zero, stacked, symbolic
from spookid.records import dataclass

Mode = Literal["position", "velocity", "effort"]

_ROUNDING = 1e-10  # share of a signal's square below which its variance is rounding
_NUMBERS = ("torque_constant", "resistance", "supply", "back_emf", "duty_limit", "current_limit", "source_resistance")


@dataclass(frozen=True, eq=False)
class DCDrive:
    """Voltage drive of a DC motor without inductance: V = sat(duty) supply, i = (V − k_e s)/R, τ = k i.

    Everything is felt at the joint: with a gear of ratio n, ``torque_constant`` is n times that of the motor.

    >>> drive = DCDrive(torque_constant=0.5, resistance=8.0, supply="vin")  # a measured supply voltage
    >>> drive = DCDrive(torque_constant=0.5, resistance=8.0, supply=7.4)  # a constant one
    >>> drive = DCDrive(torque_constant=0.5, resistance=8.0, supply=7.4, source_resistance=0.3)  # that sags under load

    Args:
        torque_constant: k [N m/A or N/A].
        resistance: R of the winding [Ω].
        supply: voltage at a duty of 1 [V], a number, an expression of Parameters, or the name of a measured signal.
        back_emf: k_e [V s/rad or V s/m]; None: k.
        duty_limit: largest duty, of either sign; None: no limit.
        current_limit: largest current of either sign [A]; None: no limit.
        source_resistance: R_s between the supply and the drive [Ω], which conducts the current i times the duty d:
            the voltage there is ``supply`` − R_s d i, so that i = (d ``supply`` − k_e s)/(R + R_s d²).
        capacitor: False if none averages the current of the supply over a period of the PWM: the supply then conducts
            i while the switch is on, and the magnitude of d takes the place of d².

    Raises:
        ProblemError: for negative fixed values, or a zero divisor.
    """

    torque_constant: Any
    resistance: Any
    supply: Any
    back_emf: Any = None
    duty_limit: Any = 1.0
    current_limit: Any = None
    source_resistance: Any = 0
    capacitor: bool = True

    def __post_init__(self) -> None:
        what = f"{declared_at()}: DCDrive"
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not (name == "supply" and isinstance(value, str)):
                object.__setattr__(self, name, symbolic(value, f"{what}: {name}"))
                refuse_negative(getattr(self, name), name, what)
        for name in ("resistance", "duty_limit", "current_limit"):
            if getattr(self, name) is not None and is_zero(getattr(self, name)):
                raise ProblemError(f"{what}: {name} is 0; give a positive value")

    def effort(self, duty: ca.SX, rate: ca.SX, supply: ca.SX, share: float) -> ca.SX:
        """Torque or force τ for a commanded duty and a velocity of the coordinate [N m or N]."""
        emf = self.torque_constant if self.back_emf is None else self.back_emf
        duty = limited(duty, self.duty_limit, share)
        conducts = duty**2 if self.capacitor else ca.sqrt(duty**2 + share**2)
        current = (duty * supply - emf * rate) / (self.resistance + self.source_resistance * conducts)
        return self.torque_constant * limited(current, self.current_limit, share)

    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        return [value for name in _NUMBERS if isinstance(value := getattr(self, name), ca.SX)]


class Servo(Load):
    """Drive that follows a command u: τ = sat(k_p (u − q) + k_i z + k_d (u̇ − s) + feedforward), q and s of its joint.

    The integral is ż = u − q, of a velocity command u − s. It stays within ±``integral_limit``: there it only returns.

    It is one of a model's motors. Fits, simulation and checks take its commands as inputs. ::

        Servo(hinge, "goal", kp=kp, kd=kd, delay=d, limit=tau_max)
        Servo(hinge, "goal", kp=G * kp, drive=DCDrive(torque_constant=k, resistance=R, supply="vin"), enabled="on")

    Position and rate are those of the estimated motion, not those that a sensor shows. ``kp`` and k/R of a ``drive``
    are identifiable separately only where a limit or the back-EMF acts.

    Args:
        joint: the driven joint.
        command: name of the signal u in the recordings: a position [rad or m], a rate, or an effort, see ``mode``.
        kp: k_p [N m/rad or N/m]; with a ``drive`` a duty [1/rad or 1/m]. Of a velocity command [N m s/rad]; an effort
            command is multiplied by it.
        ki: k_i of the integral [N m/(rad s) or N/(m s); of a drive 1/(rad s)]; its value z is a state of the model, a
            coordinate named after the joint.
        integral_limit: largest |z| [rad s or m s; of a velocity command rad or m]; None: no limit.
        kd: k_d of the rate, or of its difference to ``command_rate`` [N m s/rad or N s/m; of a drive s/rad or s/m].
        mode: "position", "velocity" or "effort": the unit of the command.
        gain: name of a signal that multiplies ``kp`` and ``kd``, such as a gain that differs between recordings.
        command_rate: name of the signal u̇ [rad/s or m/s]; None: the damping term is −k_d s.
        feedforward: name of a signal that is added to the effort, or to the duty of a ``drive``.
        limit: largest effort of either sign [N m or N]; None: no limit.
        drive: a ``DCDrive`` that turns the sum, now a duty, into an effort; None: the sum is the effort.
        enabled: name of a signal that is 1 while the drive is on, and 0 while it is off.
        offset: position of the joint where the drive's encoder shows zero [rad or m].
        bias: constant effort, or duty of a ``drive``.
        delay: time by which commands act later than their timestamps [s], a number or an expression of Parameters.
        lag: time constant T of a first-order lag of commands [s], T u̇_a = u − u_a, a number or an expression of
            Parameters; the lag is at rest at the first sample.
        hold: value of a command between its samples: the one before (``"previous"``) or interpolated (``"linear"``).
        rounding: width of smoothing at each limit, as a share of the limit.
        coordinate: number of the driven coordinate of the joint.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, for an unknown ``mode``, for negative fixed
            gains or limits, or for a ``limit`` of zero.
    """

    def __init__(
        self,
        joint: Joint,
        command: str,
        *,
        kp: Any = 1,
        ki: Any = 0,
        integral_limit: Any = None,
        kd: Any = 0,
        mode: Mode = "position",
        gain: str | None = None,
        command_rate: str | None = None,
        feedforward: str | None = None,
        limit: Any = None,
        drive: DCDrive | None = None,
        enabled: str | None = None,
        offset: Any = 0,
        bias: Any = 0,
        delay: Any = 0,
        lag: Any = 0,
        hold: Hold = "previous",
        rounding: float = 0.01,
        coordinate: int = 0,
    ) -> None:
        self.place = declared_at()
        what = f"{self.place}: Servo"
        check_coordinate(joint, coordinate, f"{what} drives")
        if not 0 < rounding < 1:
            raise ProblemError(f"{what}: rounding is {shown(rounding)}; give a share of the limit between 0 and 1")
        self.joint, self.command, self.mode, self.coordinate = joint, command, mode, coordinate
        self.drive, self.hold, self.rounding = drive, hold, float(rounding)
        numbers = {"kp": kp, "ki": ki, "kd": kd, "offset": offset, "bias": bias, "delay": delay, "lag": lag}
        self.values = {name: symbolic(value, f"{what}: {name}") for name, value in numbers.items()}
        self.limit = None if limit is None else symbolic(limit, f"{what}: limit")
        self.integral_limit = None if integral_limit is None else symbolic(integral_limit, f"{what}: integral_limit")
        limits = {"limit": self.limit, "integral_limit": self.integral_limit}
        for name, value in (*((name, self.values[name]) for name in ("kp", "ki", "kd", "lag")), *limits.items()):
            if value is not None:
                refuse_negative(value, name, what)
        for name, value in limits.items():
            if value is not None and is_zero(value):
                raise ProblemError(f"{what}: {name} is 0; give a positive value, or leave it out")
        if mode == "effort" and not is_zero(self.values["ki"]):
            raise ProblemError(f"{what} has ki and mode 'effort'; an integral needs a position or velocity command")
        supply = drive.supply if drive is not None and isinstance(drive.supply, str) else None
        given = {"command": command, "command_rate": command_rate, "feedforward": feedforward, "gain": gain}
        given |= {"enabled": enabled, "supply": supply}
        self.roles = {role: name for role, name in given.items() if name is not None}
        for role, name in self.roles.items():
            if not name:
                raise ProblemError(f"{what}: {role} is {shown(name)}; give the name of a signal")
        self.signals = tuple(dict.fromkeys(self.roles.values()))
        self.integrator = None if is_zero(self.values["ki"]) else self._integrator()

    def __repr__(self) -> str:
        return f"<Servo at {self.joint.name!r}, command {self.command!r}>"

    @property
    def label(self) -> str:
        """Label of the driven coordinate."""
        return self.joint.labels[self.coordinate]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Input signals of the servo: commands are delayed and held; measured signals are interpolated linearly."""
        late = {self.roles.get(role) for role in ("command", "command_rate", "feedforward")}
        return tuple(
            Input(name, self.values["delay"], self.hold, self.values["lag"])
            if name in late
            else Input(name, hold="linear" if name == self.roles.get("supply") else "previous")
            for name in self.signals
        )

    @property
    def powers(self) -> tuple[Input, ...]:
        """Square and cube of a held command of a drive that saturates, which describe its levels within a step."""
        limits = [self.limit, *([] if self.drive is None else [self.drive.duty_limit, self.drive.current_limit])]
        if self.hold != "previous" or all(limit is None for limit in limits):
            return ()
        return tuple(replace(self.inputs[0], power=power) for power in (2, 3))

    def mean_effort(self, position: ca.SX, rate: ca.SX, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Mean effort τ over a step, from means of the inputs and of the powers of the command, (n,) [N m or N].

        A jump of the command within the step may saturate the drive on one side only. Each level is limited by itself.
        """
        given, names = stacked(inputs[name] for name in self.signals), [one.name for one in self.powers]
        if not all(name in inputs for name in names) or not names:
            return self.effort(position, rate, given)
        total, place = ca.SX.zeros(rate.numel()), self.signals.index(self.command)
        for level, share in two_levels(given[place], *(inputs[name] for name in names)):
            given[place] = level
            total += share * self.effort(position, rate, given)
        return total

    def _integrator(self) -> Hidden:
        z, q, s = (Placeholder(f"{self.label} {name}") for name in ("integral", "position", "rate"))
        others = (q, self.joint, self.coordinate, False), (s, self.joint, self.coordinate, True)
        unit = self.joint.coordinates[self.coordinate].unit + ("/s" if self.mode == "velocity" else "")
        return Hidden.of_rate(z, f"{self.label} integral", 0.0, [_Integrand(self, z, q, s)], others, unit=unit)

    def integrand(self, z: ca.SX, q: ca.SX, s: ca.SX, inputs: ca.SX) -> ca.SX:
        """Derivative ż of the integral z: the control error while on; at a limit, only what leads back."""
        error = self._integrated(q, s, inputs)
        if self.integral_limit is None:
            return error
        # Zero at the limit itself: z ends there, however wide the rounding is.
        above, below = (ca.tanh((1 + side * z / self.integral_limit) / self.rounding) for side in (-1, 1))
        return above * ca.fmax(error, 0) + below * ca.fmin(error, 0)

    def next_integral(self, z: ca.SX, q: ca.SX, s: ca.SX, inputs: ca.SX, step: float) -> ca.SX:
        """Value of the integral z one step later, within its exact limits."""
        ahead, limit = z + step * self._integrated(q, s, inputs), self.integral_limit
        return ahead if limit is None else ca.fmax(ca.fmin(ahead, limit), -limit)

    def _integrated(self, q: ca.SX, s: ca.SX, inputs: ca.SX) -> ca.SX:
        given = self._given(inputs)
        return given.get("enabled", ca.SX(1)) * self._error(q, s, given)

    def _given(self, inputs: ca.SX) -> dict[str, ca.SX]:
        own = dict(zip(self.signals, ca.vertsplit(inputs), strict=True))
        return {role: own[name] for role, name in self.roles.items()}

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Effort τ along the servo's coordinate, zero along others, (n,) [N m or N]."""
        given = self._given(inputs)
        result = ca.SX.zeros(rate.numel())
        result[self.coordinate] = self._effort(position[self.coordinate], rate[self.coordinate], given)
        return result

    def _error(self, q: ca.SX, s: ca.SX, given: dict[str, ca.SX]) -> ca.SX:
        return given["command"] - {"position": q - self.values["offset"], "velocity": s, "effort": ca.SX(0)}[self.mode]

    def _effort(self, q: ca.SX, s: ca.SX, given: dict[str, ca.SX]) -> ca.SX:
        kp, ki, kd, bias = (self.values[name] for name in ("kp", "ki", "kd", "bias"))
        gain, integral = given.get("gain", ca.SX(1)), 0 if self.integrator is None else self.integrator.symbols[0][0]
        total = gain * (kp * self._error(q, s, given) + ki * integral + kd * (given.get("command_rate", 0) - s))
        total += given.get("feedforward", 0) + bias
        if self.drive is not None:
            supply = given.get("supply", self.drive.supply)
            total = self.drive.effort(total, s, supply, self.rounding)
        return given.get("enabled", ca.SX(1)) * limited(total, self.limit, self.rounding)

    def expressions(self, coordinates: int = 0) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        own = [*self.values.values(), *(one for one in (self.limit, self.integral_limit) if one is not None)]
        return own + ([] if self.drive is None else self.drive.expressions())

    def quantities(self) -> Iterator[tuple[str, ca.SX, str]]:
        """Name, value and unit of each coefficient that is not zero, for tables."""
        unit = self.joint.coordinates[self.coordinate].unit
        of_effort = self.joint.coordinates[self.coordinate].effort
        duty = "1" if self.drive is not None else of_effort
        per = {"position": f"{duty}/{unit}", "velocity": f"{duty} s/{unit}", "effort": "1"}[self.mode]
        units = {"kp": per, "ki": f"{per[: -len(unit)]}({unit} s)" if self.mode == "position" else f"{duty}/{unit}"}
        units |= {"kd": f"{duty} s/{unit}", "offset": unit, "bias": duty, "delay": "s", "lag": "s"}
        for name, value in self.values.items():
            if not is_zero(value):
                yield name, value, units[name]
        if self.limit is not None:
            yield "limit", self.limit, of_effort
        if self.integral_limit is not None:
            yield "integral limit", self.integral_limit, f"{unit} s" if self.mode == "position" else unit
        if self.drive is not None:
            drive = self.drive
            parts = (
                ("torque constant", drive.torque_constant, f"{of_effort}/A"),
                ("resistance", drive.resistance, "Ω"),
                ("supply", drive.supply, "V"),
                ("back-EMF constant", drive.back_emf, f"V s/{unit}"),
                ("duty limit", drive.duty_limit, "1"),
                ("current limit", drive.current_limit, "A"),
                ("source resistance", drive.source_resistance, "Ω"),
            )
            yield from (part for part in parts if isinstance(part[1], ca.SX) and not is_zero(part[1]))


class Curve(Servo):
    """Motor whose effort is a given function of its input."""

    def __init__(self, motor: Motor) -> None:
        given = {name: getattr(motor, name) for name in ("delay", "lag", "hold", "coordinate")}
        super().__init__(motor.joint, motor.signal, mode="effort", bias=motor.offset, **given)
        self.place, self._motor = motor.place, motor
        with evaluating(f"{self.place}: Motor: effort"):
            count = self._torque(ca.SX(0.5)).numel()
        if count != 1:
            raise ProblemError(f"{self.place}: Motor: effort returns {count} values; return one")

    def __repr__(self) -> str:
        return repr(self._motor)

    @property
    def powers(self) -> tuple[Input, ...]:
        return tuple(replace(self.inputs[0], power=power) for power in (2, 3) if self.hold == "previous")

    def _torque(self, u: ca.SX) -> ca.SX:
        assert self._motor.effort is not None
        return ca.SX(self._motor.ratio * self._motor.effort(u))

    def _effort(self, q: ca.SX, s: ca.SX, given: dict[str, ca.SX]) -> ca.SX:
        return self._torque(given["command"]) + self.values["bias"]

    def expressions(self, coordinates: int = 0) -> list[ca.SX]:
        return [*super().expressions(coordinates), self._torque(ca.SX(0.5))]

    def quantities(self) -> Iterator[tuple[str, ca.SX, str]]:
        yield from (one for one in super().quantities() if one[0] != "kp")


def sorted_drives(drives: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Motors whose effort is proportional to their input, and all other drives."""
    curved = (Curve(one) if isinstance(one, Motor) and one.effort is not None else one for one in drives)
    every = list(curved)
    servos = [one for one in every if isinstance(one, Servo)]
    return [one for one in every if not isinstance(one, Servo)], servos


class _Integrand(Load):
    """Derivative of the integral of a servo, as an effort on the coordinate that carries the state."""

    def __init__(self, servo: Servo, z: ca.SX, q: ca.SX, s: ca.SX) -> None:
        self._servo, self._symbols, self.signals = servo, (z, q, s), servo.signals

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self._servo.inputs

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return self._servo.integrand(*self._symbols, inputs)


def two_levels(mean: ca.SX, square: ca.SX, cube: ca.SX) -> tuple[tuple[ca.SX, ca.SX], tuple[ca.SX, ca.SX]]:
    """Two levels of a signal, with their time shares in a step, that reproduce the means of the signal, its square and
    its cube: the levels before and after a jump, or the nodes of a Gauss quadrature (Golub and Welsch, 1969)."""
    spread, third = square - mean**2, cube - 3 * mean * square + 2 * mean**3
    least = _ROUNDING * square + _ROUNDING**2
    skew = third * spread / (spread**2 + least**2)  # 0 where there is one level
    half = ca.sqrt(ca.fmax(spread + skew**2 / 4, 0) + least)
    above = 1 / 2 - skew / (4 * half)
    return (mean + skew / 2 + half, above), (mean + skew / 2 - half, 1 - above)


def limited(value: ca.SX, limit: ca.SX | None, share: float) -> ca.SX:
    """Smooth limit of a value to ±L, half the difference of √((x ± L)² + w²), rounded off over a share of the limit."""
    if limit is None:
        return value
    width = share * limit
    above, below = (ca.sqrt((value + end) ** 2 + width**2) for end in (limit, -limit))
    return (above - below) / 2
