"""Sensors: what measured signals say about the state, and the channels that they have."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from numbers import Real
from typing import Any, Self

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.data.losses import LOSSES, Loss, RobustLoss, StudentT, robust
from spookid.data.state import State
from spookid.errors import ProblemError, declared_at, evaluating, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Frame
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model
from spookid.parameter import expression, is_constant, is_zero, parameters_in, rows_of, stacked, substitute, symbolic
from spookid.records import dataclass


class Sensor(metaclass=Checked):
    """Base class of sensors, which predict one or several signals from the state. A clinometer:

    >>> class Clinometer(Sensor):
    ...     unit = "rad"
    ...
    ...     def __init__(self, frame, signal, sigma=None, offset=0):
    ...         self.frame, self.signals, self.sigma, self.offset = frame, (signal,), sigma, offset
    ...
    ...     def predicted(self, state):
    ...         return ca.asin(state.axes(self.frame)[2, 0])

    ``predicted`` may hold Parameters. The predicted value is multiplied by ``scale``, and ``offset`` is added.
    """

    signals: Any
    """Names of the measured signals in the recordings, a tuple of texts."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of the noise in the signals' unit, one for all or one each; None: it is estimated, or 1 if the
    weight of the equations of motion is given."""
    offset: Any = 0
    """Offset of the signals: signal = scale · true value + offset, in their unit: a number or an expression of
    Parameters, one for all or one each."""
    scale: Any = 1
    """Scale of the signals per unit of the true value; as ``offset``."""
    loss: Loss = "auto"
    """Robust loss of residuals: ``"linear"``, ``"huber"``, ``"cauchy"``, a ``RobustLoss`` of your own or a
    ``StudentT``; or ``"auto"``: linear, without single samples of positions that are plainly wrong
    (``spookid.estimation.outliers``)."""
    delay: Any = 0
    """Delay of the signals' timestamps [s], a number or an expression of Parameters."""
    correlation_time: Any = 0
    """Time over which the noise of the signals is correlated [s], a number or a Parameter; 0: it is white."""
    resolution: float | None = None
    """Width q of a count in the signals' unit, whose rounding adds q²/12 to the variance of the noise; 0: the signals
    are continuous. None: if sigma is estimated, q is recognized from the recordings, and sigma is at least q/√12."""
    jitter: float | None = 0
    """Standard deviation τ of the timestamps [s], which adds (ẏ τ)² to the variance of a sample, with ẏ the rate of the
    signal along the estimated motion; None: it is estimated."""
    unit: Any = ""
    """Unit of the true value, a text."""
    period: Any = None
    """Period of the true value, 2π for angles: residuals are taken modulo it. None without a period."""
    either_sign: bool = False
    """True if its signals mean the same with the other sign, as the components of a quaternion do."""
    is_free_form: bool = True
    """True if the true value may depend on Parameters that the model does not have."""
    place: str
    """``file.py:line`` of its declaration."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "place", declared_at())
        return made

    said = ""
    """Format of the name of the measured quantity, such as ``"rate of {0.label}"``; empty: its kind."""

    @property
    def title(self) -> str:
        """Name of the measured quantity."""
        return self.said.format(self) or type(self).__name__

    @abstractmethod
    def predicted(self, state: State) -> Any:
        """True value in a given state: a scalar, or one value for each signal of the sensor."""

    def check(self, model: Model) -> None:
        """Raise ProblemError if the sensor does not fit the model."""

    def check_arguments(self) -> None:
        """Raise ProblemError if sigma is not positive, the loss is unknown, or an offset or scale is invalid."""
        for sigma in self._sigmas or [self.sigma]:
            if isinstance(sigma, ca.SX):
                raise ProblemError(
                    f"{self._what} has a sigma that holds Parameters; leave sigma out to estimate it, and the results "
                    "have it under the signal's name"
                )
            if not (sigma is None or (isinstance(sigma, Real) and 0 < float(sigma) < math.inf)):
                what = f"{self._what} has sigma {shown(self.sigma)}"
                raise ProblemError(f"{what}; it must be positive, or None to estimate it")
        if not (isinstance(self.loss, (RobustLoss, StudentT)) or self.loss in LOSSES):
            names = ", ".join(LOSSES)
            said = f"{self._what} has loss {shown(self.loss)}; choose from {names}"
            raise ProblemError(f"{said}, or give a RobustLoss or a StudentT")
        for name in ("resolution", "jitter"):
            size = getattr(self, name)
            if not (size is None or (isinstance(size, Real) and 0 <= float(size) < math.inf)):
                raise ProblemError(f"{self._what} has {name} {shown(size)}; give a number of at least 0, or None")
        self.each("offset")
        if any(map(is_zero, self.each("scale"))):
            raise ProblemError(f"{self._what} has scale 0, with which it shows nothing; give another")

    def each(self, name: str) -> list[ca.SX]:
        """Offset, scale or delay for each signal of the sensor, from one value for all or a list.

        Raises:
            ProblemError: if it is no number or expression, nor one for each.
        """
        what, n = f"{self._what}: {name}", len(self.signals)
        value = expression(getattr(self, name), what)
        if value.numel() == n > 1:
            return list(ca.vertsplit(ca.densify(symbolic(ca.vec(value), what, (n,)))))
        if value.numel() != 1:
            raise ProblemError(f"{what} has {value.numel()} values; give one, or one for each of its {n} signals")
        return [symbolic(value, what)] * n

    def deviation(self, index: int) -> float | None:
        """Noise standard deviation of one signal, in the unit of the signal, with the rounding to declared counts; None
        if not given."""
        sigma: float | None = self._sigmas[index] if self._sigmas else self.sigma  # type: ignore[assignment]
        return None if sigma is None else math.hypot(sigma, (self.resolution or 0.0) / math.sqrt(12))

    @property
    def _sigmas(self) -> list[Any]:
        """Those of the signals, if each has its own."""
        if isinstance(self.sigma, np.ndarray) and self.sigma.ndim == 1:
            return list(self.sigma.tolist())
        return list(self.sigma) if isinstance(self.sigma, Sequence) else []

    @property
    def _what(self) -> str:
        names = self.signals[0] if len(self.signals) == 1 else self.signals
        return f"{self.place}: {type(self).__name__} of {names!r}"

    def channels(self, model: Model) -> tuple[Channel, ...]:
        """One channel per signal of the sensor.

        Raises:
            ProblemError: if it does not fit the model, or predicts another number of values than it has signals.
        """
        self.check(model)
        self.check_arguments()
        with evaluating(self._what):
            count = rows_of(self.predicted(State.symbols(model))).numel()
        sigmas = len(self._sigmas) or count
        if not count == len(self.signals) == sigmas:
            given = f" and {sigmas} sigma" if sigmas != count else ""
            raise ProblemError(f"{self._what} predicts {count} values; it has {len(self.signals)} signals{given}")
        period = self.period_in(model)
        return tuple(Channel(self, i, period) for i in range(count))

    def period_in(self, model: Model) -> float | None:
        """Return the declared ``period``; without it, the period that follows from the model."""
        return None if self.period is None else float(self.period)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredSensor(Sensor):
    """Base class of the package's sensors, with their common arguments."""

    offset: Any = 0
    scale: Any = 1
    loss: Loss = "auto"
    delay: Any = 0
    correlation_time: Any = 0
    resolution: float | None = None
    jitter: float | None = 0

    count = 1
    """How many signals it has."""
    may_be_on_ground = False
    """True if a frame of the ground is one that it can observe."""

    def __post_init__(self) -> None:
        signals = self.signals
        if isinstance(signals, str) or not isinstance(signals, Sequence) or len(signals) != self.count:
            what = f"{self.place}: {type(self).__name__} has the signals {shown(signals)}"
            raise ProblemError(f"{what}; give the names of {self.count}")
        self.check_arguments()

    def check(self, model: Model) -> None:
        """Raise ProblemError if the sensor refers to a joint or frame that is not in the model."""
        for part in (getattr(self, one.name) for one in fields(self)):
            if isinstance(part, Joint) and part not in model.joints:
                what, name = "a joint", repr(part.name)
            elif isinstance(part, Frame) and part.body not in (*model.bodies, *[GROUND][: self.may_be_on_ground]):
                what, name = "a frame", f"a frame of {part.body.name!r}"
            else:
                continue
            raise ProblemError(
                f"{self.place}: {type(self).__name__} observes {name}, which is not in the model"
                f"; add it, or observe {what} of the model"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class OneSignal(DeclaredSensor):
    """Base class of sensors of one signal, which have a field ``signal``."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The signal's name."""
        return (self.signal,)  # type: ignore[attr-defined]


def channels_of(model: Model, sensors: Sequence[Sensor]) -> tuple[Channel, ...]:
    """Channels of sensors, one per signal, in the order of the sensors."""
    return tuple(channel for sensor in sensors for channel in sensor.channels(model))


@dataclass(frozen=True, eq=False)
class Channel:
    """One signal of a sensor."""

    sensor: Sensor
    index: int  # among its signals
    true_period: float | None = None  # of what is true, for angles 2π; None if it has none

    @property
    def signal(self) -> str:
        """Name of the measured signal in the recordings."""
        return str(self.sensor.signals[self.index])

    @property
    def sigma(self) -> float | None:
        """Noise standard deviation in the signal's unit; None: estimated, or 1 if the problem has ``state_weight``."""
        return self.sensor.deviation(self.index)

    @property
    def offset(self) -> ca.SX:
        """Offset of the signal, added to scale · true value, in the signal's unit."""
        return self.sensor.each("offset")[self.index]

    @property
    def scale(self) -> ca.SX:
        """Signal per unit of the true value."""
        return self.sensor.each("scale")[self.index]

    @property
    def delay(self) -> ca.SX:
        """Delay of the signal's timestamps [s]."""
        return self.sensor.each("delay")[self.index]

    @property
    def correlation_time(self) -> ca.SX:
        """Correlation time of the noise [s]; 0: white noise."""
        return self.sensor.each("correlation_time")[self.index]

    @property
    def loss(self) -> Loss:
        """Loss function for outlying samples."""
        return self.sensor.loss

    @property
    def is_adjusted(self) -> bool:
        """True if the noise has heavy tails or timestamps are inaccurate, so that a stage adjusts the samples."""
        return isinstance(self.loss, StudentT) or self.sensor.jitter != 0

    @property
    def unit(self) -> str:
        """Unit of the signal; empty if a scale converts the true value to an unknown unit."""
        scale = self.scale
        return "" if is_constant(scale) and abs(float(scale)) != 1 else str(self.sensor.unit)

    @property
    def period(self) -> float | None:
        """Period of the signal at the initial values of Parameters; None if the signal is not periodic."""
        if self.true_period is None:
            return None
        guesses = {p.name: p.guess for p in parameters_in([self.scale], self.sensor.place)}
        return self.true_period * abs(float(substitute(self.scale, guesses).item()))

    @property
    def title(self) -> str:
        """Name of the measured quantity."""
        return self.sensor.title if len(self.sensor.signals) == 1 else f"{self.sensor.title} [{self.index}]"

    def expressions(self) -> list[ca.SX]:
        """All expressions of the sensor that may contain a Parameter, except the true value."""
        return [self.offset, self.scale, self.delay, self.correlation_time]

    @property
    def is_free_form(self) -> bool:
        """True if the true value may depend on Parameters that the model does not have."""
        return self.sensor.is_free_form

    def predicted(self, state: State) -> ca.SX:
        """Predicted signal, a scalar."""
        return self.shown(rows_of(self.sensor.predicted(state))[self.index])

    def shown(self, true: ca.SX) -> ca.SX:
        """Signal of the sensor for a given true value: scale and offset are applied."""
        return self.scale * true + self.offset


def all_predicted(channels: Iterable[Channel], state: State) -> ca.SX:
    """Predicted signals of all channels in a given state, (n,)."""
    return stacked(channel.predicted(state) for channel in channels)


def apart(channel: Channel, one: ca.SX, other: ca.SX) -> ca.SX:
    """Difference of two values of a signal, modulo the period of the signal."""
    difference = one - other
    if channel.true_period is None:
        return difference
    turn = 2 * math.pi / (channel.true_period * channel.scale)
    return rotations.wrapped(turn * difference) / turn


def signed(channels: Sequence[Channel], measured: ca.SX, predicted: ca.SX) -> ca.SX:
    """Measured values of channels, (n,); for sensors of either sign, the sign nearer to the prediction is chosen."""
    result = ca.SX(measured)
    for sensor in dict.fromkeys(channel.sensor for channel in channels if channel.sensor.either_sign):
        own = [i for i, channel in enumerate(channels) if channel.sensor is sensor]
        result[own] *= ca.if_else(ca.dot(measured[own], predicted[own]) < 0, -1, 1)
    return result


def whitened(channel: Channel, predicted: ca.SX, measured: ca.SX, sigma: ca.SX) -> ca.SX:
    """Weighted residual of a sample, whose square is its cost; sigma is the noise standard deviation."""
    row, loss = apart(channel, predicted, measured) / sigma, robust(channel.loss)
    return row if loss is None else loss.row(row)


@lru_cache(maxsize=64)
def order(channel: Channel, model: Model) -> int:
    """Highest time derivative of the configuration in the signal: 0, 1 for velocities, 2 for accelerations."""
    state = State.symbols(model)
    return state.order(channel.predicted(state))
