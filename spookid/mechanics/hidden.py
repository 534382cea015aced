"""States of a model besides the motion of its bodies: coefficients that drift, integrals of drives, filters of sensors,
motors of gears.

All but the last are the rate of a wheel of unit inertia on which no torque acts but its derivative. So each has an
initial value, process noise and a place in simulations, fits and results as every coordinate, by the same equations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

import casadi as ca
import numpy as np

from spookid.argument_checks import is_number
from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import GROUND, Body
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.joints import Hinge, Joint
from spookid.mechanics.loads import Hold, Input, Load
from spookid.mechanics.rotations import wrapped
from spookid.parameter import Placeholder, placeholders_in, stacked, symbolic
from spookid.records import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Wheel(Hinge):
    """Hinge whose angle counts full turns."""

    coordinates = (Coordinate("angle", "rad"),)


@dataclass(frozen=True, eq=False)
class Hidden:
    """Joint whose coordinate or rate is an additional state, and symbols of the motion in expressions."""

    joint: Joint
    symbols: Sequence[tuple[Placeholder, Joint, int, bool]]
    """Symbols for positions (False) and rates (True) of coordinates of joints."""
    starts_at_zero: bool = False
    """True if the joint is at zero at the beginning of a recording."""
    ends_at_zero: bool = False
    """True if it is at zero at the end, too."""
    unit: str = ""
    """Unit of the derivative of a rate that is a state, times the inertia; empty: that of an effort."""

    @property
    def name(self) -> str:
        """Name of the joint."""
        return self.joint.name

    @property
    def body(self) -> Body:
        """Body that the joint carries."""
        return self.joint.child.body

    @classmethod
    def of_rate(
        cls,
        symbol: Placeholder,
        name: str,
        disturbance: float | None,
        loads: Sequence[Load] = (),
        others: Iterable[tuple[Placeholder, Joint, int, bool]] = (),
        inertia: Any = 1,
        **arguments: Any,
    ) -> Self:
        """State that is the rate of a wheel, with its process noise.

        Args:
            symbol: the state in expressions.
            loads: its derivative times the inertia, as the effort of a load.
            others: further symbols.
        """
        body = Body(f"{name} state", mass=1, inertia=(inertia,) * 3)
        joint = Wheel(name, GROUND.frame(), body.frame(), disturbance=disturbance, loads=loads)
        return cls(joint, ((symbol, joint, 0, True), *others), starts_at_zero=True, **arguments)


@dataclass(frozen=True, eq=False)
class Lagging(Hidden):
    """State y that follows a coordinate or rate x of a joint with a first-order lag: T ẏ = x − y.

    T is the inertia of its wheel, so that a lag of zero is no exception: y is then x.
    """

    lag: ca.SX = field(default_factory=lambda: ca.SX(0))
    """T [s]."""

    @classmethod
    def behind(cls, name: str, joint: Joint, coordinate: int, of_rate: bool, lag: ca.SX) -> Self:
        """State of a sensor of a coordinate of a joint, or of its rate."""
        x, of = Placeholder(f"{name} of"), joint.coordinates[coordinate]
        wraps, unit = not of_rate and of.period is not None, f"{of.unit}/s" if of_rate else of.unit
        loads, followed = [_Difference(x, wraps)], [(x, joint, coordinate, of_rate)]
        return cls.of_rate(Placeholder(name), name, 0.0, loads, followed, inertia=lag, lag=lag, unit=unit)

    @property
    def followed(self) -> tuple[Joint, int, bool]:
        """Joint, coordinate, and True if its rate is followed."""
        return self.symbols[1][1:]


class _Difference(Load):
    """x − y, of angles the short way round, as an effort on the wheel whose rate is y."""

    def __init__(self, x: ca.SX, wraps: bool) -> None:
        self._x, self._wraps = x, wraps

    def effort(self, position: ca.SX, rate: ca.SX, inputs: ca.SX) -> ca.SX:
        return wrapped(self._x - rate) if self._wraps else self._x - rate


class RandomWalk(Placeholder):
    """Coefficient that drifts: a random walk with zero mean over each recording, in expressions of coefficients.

    >>> heat = RandomWalk("heat")
    >>> warm = Hinge("warm", GROUND.frame(), arm.frame(), viscous=0.1 * (1 + heat), coulomb=0.2 * (1 + heat))

    It is for friction that changes as gears warm up, without a measured temperature. The coefficients are then means
    over the recording, and those of a smoother over its first recording. Its intensity is the process noise of the
    coordinate of its name, whose rate it is. Every joint with the same walk drifts in the same way.

    Args:
        name: for results; of a coordinate of the model.
        intensity: increase of its standard deviation [1/√s]; None: it is estimated.

    Raises:
        ProblemError: for a name that is no text, or an intensity that is not positive.
    """

    def __init__(self, name: str, intensity: float | None = None) -> None:
        what = f"{declared_at()}: RandomWalk"
        if not (isinstance(name, str) and name):
            raise ProblemError(f"{what}: name is {shown(name)}; give a text")
        if intensity is not None and not (is_number(intensity) and intensity > 0):
            raise ProblemError(f"{what} {name!r}: intensity is {shown(intensity)}; give a positive number, or None")
        super().__init__(name)
        self.hidden = Hidden.of_rate(self, name, intensity, ends_at_zero=True, unit="1/s")


class Signal(Placeholder):
    """Measured signal in coefficients of joints, their loads and servos, such as a temperature.

    >>> k, heat = Parameter("k", 0.0), Signal("temperature")
    >>> share = 1 + k * (heat - 40)
    >>> warm = Hinge("warm", GROUND.frame(), arm.frame(), viscous=0.1 * share, coulomb=0.2 * share)

    It has no noise; in tables of coefficients it is zero.

    Args:
        signal: name of the input in the recordings.
        delay: time by which it acts later than its timestamps [s], a number or an expression of Parameters.
        hold: value between its samples: ``"linear"`` interpolation or the one before (``"previous"``).

    Raises:
        ProblemError: for a name that is no text.
    """

    def __init__(self, signal: str, *, delay: Any = 0, hold: Hold = "linear") -> None:
        self.place = declared_at()
        if not (isinstance(signal, str) and signal):
            raise ProblemError(f"{self.place}: Signal: signal is {shown(signal)}; give the name of an input")
        super().__init__(signal)
        self.signals = (signal,)
        self.inputs = (Input(signal, symbolic(delay, f"{self.place}: Signal: delay"), hold),)


def anchored(hidden: Iterable[Hidden]) -> dict[str, bool]:
    """Names of additional states whose joint begins at zero; True if it ends there, too."""
    return {one.name: one.ends_at_zero for one in hidden if one.starts_at_zero}


def walks_in(expressions: Iterable[ca.SX]) -> list[Hidden]:
    """States of the random walks in expressions, each listed once."""
    found: Iterable[Any] = placeholders_in(expressions)
    return [one.hidden for one in found if isinstance(one, RandomWalk)]


def inserted_in(
    expression: ca.SX,
    hidden: Sequence[Hidden],
    joints: Sequence[Joint],
    motion: tuple[ca.SX, ca.SX],
    inputs: Mapping[str, ca.SX],
) -> ca.SX:
    """Expression in which positions and velocities of all joints, (n_s,) each, replace symbols of hidden states, and
    inputs those of measured signals."""
    ends = np.cumsum([len(joint.coordinates) for joint in joints])
    starts = {joint.name: int(end) - len(joint.coordinates) for joint, end in zip(joints, ends, strict=True)}
    pairs: dict[Placeholder, ca.SX] = {
        symbol: motion[of_rate][starts[joint.name] + coordinate]
        for one in hidden
        for symbol, joint, coordinate, of_rate in one.symbols
    }
    pairs |= {one: inputs[one.signals[0]] for one in placeholders_in([expression]) if isinstance(one, Signal)}
    found: ca.SX = ca.substitute(expression, ca.vertcat(*pairs), ca.densify(stacked(pairs.values())))
    return found
