"""Sensors: what measured signals say about the state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, Self

import casadi as ca

from spookid.data.state import State
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.mechanics.body import Frame
from spookid.mechanics.joints import Coordinate, Hinge, Joint, check_coordinate
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, substitute


class Sensor(ABC):
    """What one signal or several say about a state; the base of every kind. An accelerometer::

        class Accelerometer(Sensor):
            unit = "m/s^2"

            def __init__(self, frame, signals, sigma=None):
                self.frame, self.signals, self.sigma = frame, signals, sigma

            def predicted(self, state):
                return state.axes(self.frame).T @ (state.acceleration(self.frame) - state.model.gravity)

    ``predicted`` may hold Parameters.
    """

    signals: Any
    """Names of the measured signals in the recordings, a tuple of texts."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of the noise in the signals' unit, one for all or one each; None: it is estimated, or 1 with a
    given state weight."""
    unit: Any = ""
    """Of the signals, for people: a text."""
    period: Any = None
    """Of the signals, for angles 2π: residuals are taken the short way round. None if they have none."""
    delay: Any = 0
    """By how much later than what they show the signals are stamped [s], a number or an expression of Parameters."""
    is_free_form: bool = True
    """False if it holds no Parameters but those of the model."""
    place: str
    """``file.py:line`` of its declaration."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "place", declared_at())
        return made

    @property
    def title(self) -> str:
        """What it measures, for people."""
        return type(self).__name__

    @abstractmethod
    def predicted(self, state: State) -> Any:
        """What it would show: a scalar, or one value for each of its signals."""

    def check(self, model: Model) -> None:  # noqa: B027, most sensors fit all models
        """Raise ProblemError if it does not fit the model."""

    def check_sigma(self) -> None:
        """Raise ProblemError if sigma is not positive."""
        for sigma in self.sigma if isinstance(self.sigma, Sequence) else [self.sigma]:
            if not (sigma is None or (isinstance(sigma, Real) and math.isfinite(sigma) and sigma > 0)):
                raise ProblemError(
                    f"{self._what} has sigma {self.sigma!r}; it must be positive, or None to estimate it"
                )

    @property
    def _what(self) -> str:
        names = self.signals[0] if len(self.signals) == 1 else self.signals
        return f"{self.place}: {type(self).__name__} of {names!r}"

    def channels(self, model: Model) -> tuple[Channel, ...]:
        """One for each of its signals.

        Raises:
            ProblemError: if it does not fit the model, or predicts another number of values than it has signals.
        """
        self.check(model)
        self.check_sigma()
        with evaluating(self._what):
            count = _rows(self, State.symbols(model)).numel()
        sigmas = len(self.sigma) if isinstance(self.sigma, Sequence) else count
        if not count == len(self.signals) == sigmas:
            given = f" and {sigmas} sigma" if sigmas != count else ""
            raise ProblemError(f"{self._what} predicts {count} values; it has {len(self.signals)} signals{given}")
        return tuple(Channel(self, i) for i in range(count))


class _OneSignal(Sensor):
    """A sensor with a field ``signal``."""

    signal: str

    @property
    def signals(self) -> tuple[str, ...]:
        """The signal's name."""
        return (self.signal,)


@dataclass(frozen=True, eq=False)
class Channel:
    """One signal of a sensor."""

    sensor: Sensor
    index: int
    """Among its signals."""

    @property
    def signal(self) -> str:
        """Name of the measured signal in the recordings."""
        return str(self.sensor.signals[self.index])

    @property
    def sigma(self) -> float | None:
        """Standard deviation of its noise in its unit; None: it is estimated, or 1 with a given state weight."""
        sigma = self.sensor.sigma
        return sigma[self.index] if isinstance(sigma, Sequence) else sigma

    @property
    def unit(self) -> str:
        """The signal's unit."""
        return str(self.sensor.unit)

    @property
    def period(self) -> float | None:
        """The signal's period, None if it has none."""
        return None if self.sensor.period is None else float(self.sensor.period)

    @property
    def delay(self) -> ca.SX:
        """By how much later than what it shows the signal is stamped [s]."""
        return ca.SX(self.sensor.delay)

    @property
    def title(self) -> str:
        """What it measures, for people."""
        return self.sensor.title if len(self.sensor.signals) == 1 else f"{self.sensor.title} [{self.index}]"

    @property
    def is_free_form(self) -> bool:
        """False if it holds no Parameters but those of the model."""
        return self.sensor.is_free_form

    def predicted(self, state: State) -> ca.SX:
        """What it would show, a scalar."""
        return _rows(self.sensor, state)[self.index]


def _rows(sensor: Sensor, state: State) -> ca.SX:
    """What a sensor would show, (n,)."""
    shown = sensor.predicted(state)
    parts = shown if isinstance(shown, (list, tuple)) else [shown]
    return ca.densify(ca.vertcat(*(ca.vec(ca.SX(part)) for part in parts)))


@dataclass(frozen=True, eq=False)
class JointPosition(_OneSignal):
    """A coordinate of a joint [rad or m], as an encoder gives it; angles of hinges wrapped or multi-turn, for their
    residuals are modulo 2π.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, or ``sigma`` is not positive.
    """

    joint: Joint
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise [rad or m]; None: it is estimated, or 1 with a given state weight."""
    coordinate: int = field(default=0, kw_only=True)
    """Which of the joint's coordinates."""
    delay: Any = field(default=0, kw_only=True)
    """By how much later than what it shows the signal is stamped [s]."""

    is_free_form = False

    @property
    def _measured(self) -> Coordinate:
        return self.joint.coordinates[self.coordinate]

    @property
    def period(self) -> float | None:
        """The signal's period, None if it has none."""
        return self._measured.period

    @property
    def unit(self) -> str:
        """The signal's unit."""
        return self._measured.unit

    @property
    def title(self) -> str:
        """What it measures."""
        return f"{'angle' if self.unit == 'rad' else 'position'} of {self.joint.labels[self.coordinate]}"

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.joint, Joint):
            raise ProblemError(f"{self.place}: {kind} observes {shown(self.joint)}, which is no Hinge or other Joint")
        check_coordinate(self.joint, self.coordinate, f"{self.place}: {kind} observes")
        self.check_sigma()

    def check(self, model: Model) -> None:
        """Raise ProblemError if the joint is not in the model."""
        if self.joint not in model.joints:
            kind = type(self).__name__
            raise ProblemError(f"{self.place}: {kind} observes {self.joint.name!r}, which is not in the model")

    def predicted(self, state: State) -> ca.SX:
        """The coordinate; an angle of a hinge in (−π, π]."""
        return state.angle(self.joint)[self.coordinate]


@dataclass(frozen=True, eq=False)
class HingeAngle(JointPosition):
    """The angle of a hinge [rad], measured by an encoder: ``JointPosition`` of a hinge."""

    def __post_init__(self) -> None:
        if not isinstance(self.joint, Hinge):
            raise ProblemError(f"{self.place}: HingeAngle observes {shown(self.joint)}, which is no Hinge")
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class PointPosition(_OneSignal):
    """One coordinate of a point of a body in the world [m], as a marker or a camera gives it.

    Raises:
        ProblemError: if ``point`` is no frame, ``axis`` none of x, y, z, or ``sigma`` not positive.
    """

    point: Frame
    """A frame whose origin is the point, ``body.frame(at=...)``."""
    axis: Literal["x", "y", "z"]
    """Coordinate in the world."""
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise [m]; None: it is estimated, or 1 with a given state weight."""

    unit = "m"

    @property
    def title(self) -> str:
        """What it measures."""
        return f"{self.axis} of a point of {self.point.body.name}"

    def __post_init__(self) -> None:
        if not isinstance(self.point, Frame):
            raise ProblemError(f"{self.place}: PointPosition observes {shown(self.point)}, which is no frame")
        if self.axis not in ("x", "y", "z"):
            raise ProblemError(f"{self.place}: PointPosition has axis {self.axis!r}; choose 'x', 'y' or 'z'")
        self.check_sigma()

    def check(self, model: Model) -> None:
        """Raise ProblemError if the body is not in the model."""
        if self.point.body not in model.bodies:
            raise ProblemError(f"{self.place}: PointPosition observes a point of a body that is not in the model")

    def predicted(self, state: State) -> ca.SX:
        """The coordinate."""
        return state.position(self.point)["xyz".index(self.axis)]


@dataclass(frozen=True, eq=False)
class Observation(_OneSignal):
    """Any scalar expression of the state, of Parameters too: ``Observation(lambda s: s.position(tip)[2] - z_0, "z")``.

    Raises:
        ProblemError: if ``expression`` cannot be called or ``sigma`` is not positive.
    """

    expression: Callable[[State], ca.SX]
    """Of a ``State`` with ``angle``, ``rate``, ``position``, ``velocity``, ``axes`` and ``angular_velocity``."""
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Standard deviation of its noise, in the signal's unit; None: it is estimated, or 1 with a given state weight."""
    period: float | None = None
    """The signal's period, for angles 2π; residuals are taken the short way round."""
    unit: str = ""
    """The signal's unit, for people."""

    title = "an expression of the state"

    def __post_init__(self) -> None:
        if not callable(self.expression):
            raise ProblemError(f"{self.place}: Observation of {self.signal!r} needs a function of the state")
        self.check_sigma()

    def predicted(self, state: State) -> ca.SX:
        """The expression's value."""
        return ca.SX(self.expression(state))


def delay(channel: Channel, values: Mapping[str, float]) -> float:
    """Its delay as a number [s]."""
    return float(channel.delay) if is_constant(channel.delay) else float(substitute(channel.delay, values).item())


def apart(channel: Channel, one: ca.SX, other: ca.SX) -> ca.SX:
    """One value of a signal less another, the short way round for periodic signals."""
    if channel.period is None:
        return one - other
    turn = 2 * math.pi / channel.period
    return ca.atan2(ca.sin(turn * (one - other)), ca.cos(turn * (one - other))) / turn


def error(channel: Channel, state: State, measured: ca.SX) -> ca.SX:
    """Predicted less measured, the short way round for periodic signals."""
    return apart(channel, channel.predicted(state), measured)


def order(channel: Channel, model: Model) -> int:
    """How many time derivatives of the configuration it sees: 0, 1 for velocities, 2 for accelerations."""
    state = State.symbols(model)
    return state.order(channel.predicted(state))
