"""Loads along the coordinates of a joint: their base, for those that users write too, springs and efforts.

A load acts in one of two ways. What is smooth gives an ``effort``: a force along a displacement, a torque about an
angle. Dry friction gives a ``bound`` instead: how large it is at the most, while the stepper finds how large it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked, is_number
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.kernels.precision import ROUNDING
from spookid.mechanics.coefficients import Coefficient, load_coefficient
from spookid.parameter import is_zero, symbolic
from spookid.records import dataclass

Hold = Literal["previous", "linear", "band"]


@dataclass(frozen=True, eq=False)
class Input:
    """Input signal that acts on a mechanism, with delay and hold."""

    signal: str
    """Its name in the recordings."""
    delay: ca.SX = field(default_factory=lambda: ca.SX(0))
    """Time by which it acts later than its timestamps [s]."""
    hold: Hold = "previous"
    """Value between its samples: the one before, on a line from that to the next, or band-limited."""
    lag: ca.SX = field(default_factory=lambda: ca.SX(0))
    """Time constant of the first-order lag with which it acts [s]."""
    power: int = 1
    """Power of the signal that is averaged over a step: 2 and 3 say how its values spread there."""

    @property
    def name(self) -> str:
        """Name of the signal with its power."""
        return self.signal if self.power == 1 else f"{self.signal}^{self.power}"


@dataclass(frozen=True)
class Bound:
    """Bound μ Σ|λ_i| + h c of the dry-friction impulse over a step h, with the constraint impulses λ of the joint.

    If it differs by direction, ``load`` and ``constant`` are the means of both, and friction is between
    −(bound + lean) where the coordinate grows and bound − lean where it falls.

    >>> bound = Bound(load=ca.SX(0), constant=ca.SX(0.1))  # 0.1 N m, whatever the load
    """

    load: ca.SX
    """μ of each coordinate, (n,) [m about an angle; without unit along a displacement]."""
    constant: ca.SX
    """c of each coordinate, (n,) [N m or N]."""
    load_lean: ca.SX | None = None
    """Half of μ forward less μ backward, (n,); None if they are the same."""
    constant_lean: ca.SX | None = None
    """Half of c forward less c backward, (n,) [N m or N]; None if they are the same."""

    @classmethod
    def none(cls, coordinates: int) -> Bound:
        """No dry friction."""
        return cls(ca.SX.zeros(coordinates), ca.SX.zeros(coordinates))

    @classmethod
    def sided(cls, forward: Bound, backward: Bound) -> Bound:
        """Friction bound with separate values for increasing and decreasing coordinates."""
        pairs = (forward.load, backward.load), (forward.constant, backward.constant)
        return cls(*((a + b) / 2 for a, b in pairs), *((a - b) / 2 for a, b in pairs))

    def __add__(self, other: Bound) -> Bound:
        pairs = (self.load_lean, other.load_lean), (self.constant_lean, other.constant_lean)
        leans = (b if a is None else a if b is None else a + b for a, b in pairs)
        return Bound(self.load + other.load, self.constant + other.constant, *leans)

    @property
    def acts(self) -> tuple[bool, ...]:
        """True for each coordinate whose friction bound is not zero."""
        return tuple(not (is_zero(self.load[i]) and is_zero(self.constant[i])) for i in range(self.constant.numel()))

    @property
    def leans(self) -> bool:
        """True if the friction bound depends on the direction of motion."""
        return self.load_lean is not None or self.constant_lean is not None


@dataclass(frozen=True)
class Efforts:
    """Torque or force of motor and weight on both sides of a joint's gears, along coordinates, (n,) each [N m or N]."""

    motor: ca.SX
    """That of motors and servos."""
    external: ca.SX
    """That of the weight of what the joint carries."""
    inputs: Mapping[str, ca.SX] = field(default_factory=dict)
    """All inputs of the model, by signal."""

    @classmethod
    def sample(cls, coordinates: int) -> Efforts:
        """Example efforts, to analyse the structure of a friction bound."""
        return cls(*(ca.SX(ca.DM([value] * coordinates)) for value in (0.6, -0.35)))

    def __getitem__(self, rows: slice) -> Efforts:
        return Efforts(self.motor[rows, 0], self.external[rows, 0])


class Load(metaclass=Checked):
    """Base class of loads along the n coordinates of a joint; a subclass defines one of its methods.

    >>> class Magnet(Load):
    ...     def effort(self, position, rate, inputs):
    ...         return -0.2 * ca.sin(3 * position)
    >>> geared = Hinge("magnet", GROUND.frame(), arm.frame(), loads=[Magnet()])

    It takes symbols, and returns an expression of them.
    """

    signals: Sequence[str] = ()
    """Names of input signals in the recordings, which ``effort`` receives."""
    hold: Hold = "previous"
    """Value of a signal between its samples: the one before, or ``"linear"`` or ``"band"``-limited interpolation."""
    delay: Any = 0
    """Time by which signals act later than their timestamps [s], a number or an expression of Parameters."""
    reported: Mapping[str, Coefficient] = MappingProxyType({})
    """Values for reports, by name; empty for user-defined loads."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Input signals of the load, with delay and hold."""
        delay = symbolic(self.delay, f"{type(self).__name__}: delay")
        return tuple(Input(name, delay, self.hold) for name in self.signals)

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Force or torque along each coordinate, (n,) [N or N m].

        Args:
            position: the joint's coordinates, (n,) [m or rad]; an angle of a hinge in (−π, π].
            rate: their rates, (n,) [m/s or rad/s].
            inputs: as many as ``signals``.
        """
        return ca.SX.zeros(rate.numel())

    def smooth_effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX, width: ca.SX) -> ca.SX:
        """Effort smoothed over the velocity range ``width`` near rest [m/s or rad/s], (n,); default: ``effort``.

        The width is that of smooth dry friction. Solvers need derivatives that are continuous at rest.
        """
        return self.effort(position, rate, inputs)

    def bound(self, rate: ca.SX) -> Bound:
        """Bound of dry friction for given velocities of the preceding step, (n,) [m/s or rad/s]."""
        return Bound.none(rate.numel())

    def bound_at(self, position: ca.SX, rate: ca.SX) -> Bound:
        """Bound of dry friction that also depends on the position, (n,) [m or rad]; default: ``bound``."""
        return self.bound(rate)

    sees_efforts: bool = False
    """True for a bound that depends on the efforts that gears transmit."""

    def bound_under(self, position: ca.SX, rate: ca.SX, efforts: Efforts) -> Bound:
        """Bound of dry friction that also depends on efforts of motor and weight; default: ``bound_at``."""
        return self.bound_at(position, rate)

    def check(self, coordinates: int, what: str) -> None:
        """Raise ProblemError if the load cannot be evaluated, or does not return an effort for each coordinate.

        Raises:
            ProblemError: with ``what`` at the beginning.
        """
        kind = type(self).__name__
        with evaluating(f"{what}: load {kind}"):
            effort, *bounds = Load.expressions(self, coordinates)[: -1 if self.signals else None]
        names = ("load of its bound", "constant of its bound", "load that its bound leans by",
                 "constant that its bound leans by")  # fmt: skip
        for name, part in (("effort", effort), *zip(names, bounds, strict=False)):
            if part.numel() != coordinates:
                raise ProblemError(
                    f"{what}: {name} of load {kind} has {part.numel()} values; give one for each of {coordinates} "
                    "coordinates"
                )

    def expressions(self, coordinates: int) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""
        ranges = (0.3, 0.7), (0.2, 0.9), (0.1, 0.2)
        position, rate, width = (ca.SX(ca.DM(np.linspace(*ends, coordinates))) for ends in ranges)
        inputs = ca.SX(ca.DM(np.linspace(0.4, 0.6, len(self.signals))))
        bound = self.bound_under(position, rate, Efforts.sample(coordinates))
        leans = (lean for lean in (bound.load_lean, bound.constant_lean) if lean is not None)
        effort = self.smooth_effort(position, rate, inputs, width)
        late = [one.delay for one in self.inputs[:1]]
        return [ca.SX(effort), ca.SX(bound.load), ca.SX(bound.constant), *map(ca.SX, leans), *late]


class Spring(Load):
    """Linear spring with effort −k (x − x₀) along the coordinate x.

    >>> door = Hinge("door", GROUND.frame(), arm.frame(), loads=[Spring(0.3, rest=0.1)])

    Args:
        stiffness: k [N m/rad or N/m], one number or one for each coordinate.
        rest: x₀ [rad or m], likewise.

    Raises:
        ProblemError: for a negative fixed stiffness.
    """

    def __init__(self, stiffness: Any, rest: Any = 0) -> None:
        what = f"{declared_at()}: Spring"
        self._stiffness = load_coefficient(stiffness, f"{what}: stiffness", sided=False, varying=False)
        self._rest = load_coefficient(rest, f"{what}: rest", sided=False, varying=False, negative=True)
        self.reported = {"stiffness": self._stiffness, "rest": self._rest}

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return -_one(self._stiffness, position) * (position - _one(self._rest, position))


class Backlash(Load):
    """Play of a gear on the coordinate x between both sides: beyond ±w/2 a spring −k (|x| − w/2) sign x and a damper.

    >>> axes = dict(x=(0, 1, 0), y=(0, 0, -1))
    >>> rotor = Body("rotor", mass=0.1, inertia=(2e-3, 2e-3, 2e-3))  # with the gear, as felt at its output
    >>> motor = Hinge("motor", GROUND.frame(**axes), rotor.frame(**axes), viscous=0.02)
    >>> gear = Hinge("gear", rotor.frame(**axes), arm.frame(**axes), loads=[Backlash(0.002, 100, 0.2)])

    With a width of zero it is an elastic gear.

    Args:
        width: w, all of the play [rad or m]; one number or one for each coordinate, as all others.
        stiffness: k where both sides touch [N m/rad or N/m].
        damping: d of −d s, with the rate s, where they touch [N m s/rad or N s/m].
        rounding: width of smoothing at both ends, as a share of w/2.

    Raises:
        ProblemError: for a negative fixed value, or a rounding that is no share.
    """

    def __init__(self, width: Any, stiffness: Any, damping: Any = 0, *, rounding: float = 0.1) -> None:
        what = f"{declared_at()}: Backlash"
        if not (is_number(rounding) and 0 < rounding < 1):
            raise ProblemError(f"{what}: rounding is {shown(rounding)}; give a share of the width between 0 and 1")
        given = {"width": width, "stiffness": stiffness, "damping": damping}
        self.reported = {
            name: load_coefficient(value, f"{what}: {name}", sided=False, varying=False)
            for name, value in given.items()
        }
        self._rounding = float(rounding)

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        width, stiffness, damping = (_one(value, position) for value in self.reported.values())
        ends = position + width / 2, position - width / 2
        above, below = (ca.sqrt(end**2 + (self._rounding * width / 2) ** 2 + ROUNDING**2) for end in ends)
        inside, free = (above - below) / 2, (ends[0] / above - ends[1] / below) / 2
        return -stiffness * (position - inside) - damping * (1 - free) * rate


class Effort(Load):
    """Given force or torque along a coordinate: a constant, a ripple over the position, or either times a signal::

        Effort(offset)                                  # [N m or N]
        Effort(Fourier({7: (a, b)}))                    # cogging
        Effort(K, signal="u")                           # K u

    Args:
        value: [N m or N, of a signal per its unit]; a number, an expression, a ``Fourier``, or one of these for each
            coordinate.
        signal: the name of an input in the recordings.
        delay: time by which the signal acts later than its timestamps [s], a number or an expression of Parameters.
        hold: value of the signal between its samples: the one before (``"previous"``) or interpolated (``"linear"``).

    Raises:
        ProblemError: for another value, or a signal that is no name.
    """

    def __init__(self, value: Any, signal: str | None = None, *, delay: Any = 0, hold: Hold = "previous") -> None:
        what = f"{declared_at()}: Effort"
        if signal == "":
            raise ProblemError(f"{what}: signal is {shown(signal)}; give the name of an input")
        self._value = load_coefficient(value, f"{what}: value", sided=False, negative=True)
        self.reported = {"effort": self._value}
        self.signals = () if signal is None else (signal,)
        self.delay, self.hold = symbolic(delay, f"{what}: delay"), hold

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        """Effort at the position, multiplied by the signal if there is one."""
        given = _one(self._value, position) + ca.SX.zeros(rate.numel())
        return given * inputs[0] if self.signals else given


def _one(value: Coefficient, position: ca.SX) -> ca.SX:
    """Of a coefficient that is the same in both directions."""
    return value.at(position)[0]
