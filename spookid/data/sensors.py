"""Sensors of joints and of points: encoders, tachometers, torque sensors, load cells, markers, expressions of one's
own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Self

import casadi as ca

from spookid.data.channels import Channel, DeclaredSensor, OneSignal, Sensor
from spookid.data.losses import StudentT, robust
from spookid.data.state import State, period_of
from spookid.errors import ProblemError, shown
from spookid.mechanics.body import Frame
from spookid.mechanics.coefficients import Coordinate, check_coordinate, refuse_negative
from spookid.mechanics.hidden import Lagging
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.joints import Hinge, Joint
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.parameter import is_zero
from spookid.records import dataclass

_AXES = "xyz"


@dataclass(frozen=True, eq=False)
class OfCoordinate(OneSignal):
    """Base class of sensors that measure one coordinate of a joint."""

    joint: Joint
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Noise standard deviation in the signal's unit; None: estimated, or 1 if the problem has ``state_weight``."""
    coordinate: int = field(default=0, kw_only=True)
    """Which of the joint's coordinates."""
    lag: Any = field(default=0, kw_only=True)
    """Time constant T of a first-order lag before the noise [s], T ẏ = x − y, a number or an expression of Parameters:
    the filter of a report. The value at the start is estimated. Simulations start at rest."""

    is_free_form = False

    @property
    def measured(self) -> Coordinate:
        """The coordinate."""
        return self.joint.coordinates[self.coordinate]

    @property
    def label(self) -> str:
        """That of the coordinate."""
        return self.joint.labels[self.coordinate]

    def __post_init__(self) -> None:
        check_coordinate(self.joint, self.coordinate, f"{self.place}: {type(self).__name__} observes")
        super().__post_init__()
        lag = self.each("lag")[0]
        refuse_negative(lag, "lag", self._what)
        if not is_zero(lag) and at_guess(lag).item() <= 0:
            raise ProblemError(f"{self._what}: lag is 0 at the initial values; begin with a positive value")

    @cached_property
    def filter(self) -> Lagging | None:
        """State of a sensor with a lag: the value that it has reached."""
        lag, of_rate = self.each("lag")[0], isinstance(self, JointRate)
        name = f"{self.signal} filter"
        return None if is_zero(lag) else Lagging.behind(name, self.joint, self.coordinate, of_rate, lag)

    @cached_property
    def prompt(self) -> Self:
        """The same sensor without a lag."""
        return self if self.filter is None else replace(self, lag=0)

    def predicted(self, state: State) -> ca.SX:
        return self.true(state) if self.filter is None else state.rate(self.filter.joint)

    def true(self, state: State) -> ca.SX:
        """Value without the lag."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class JointPosition(OfCoordinate):
    """Encoder that measures one coordinate of a joint [rad or m]. Angles of hinges may be wrapped or multi-turn,
    because their residuals are modulo 2π.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, or ``sigma`` is not positive.
    """

    @property
    def period(self) -> float | None:
        return self.measured.period

    @property
    def unit(self) -> str:
        return self.measured.unit

    @property
    def title(self) -> str:
        return f"{'angle' if self.unit == 'rad' else 'position'} of {self.label}"

    def true(self, state: State) -> ca.SX:
        return state.angle(self.joint)[self.coordinate]


@dataclass(frozen=True, eq=False)
class HingeAngle(JointPosition):
    """Encoder that measures the angle of a hinge [rad]: ``JointPosition`` of a hinge."""

    def __post_init__(self) -> None:
        if not isinstance(self.joint, Hinge):
            raise ProblemError(
                f"{self.place}: HingeAngle observes {shown(self.joint)}, which is no Hinge"
                "; use JointPosition for other joints"
            )
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class JointRate(OfCoordinate):
    """Tachometer that measures the velocity of a joint coordinate [rad/s or m/s].

    >>> filtered = JointRate(hinge, "velocity", lag=Parameter("T", 0.01, lower=0, unit="s"))

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, or ``sigma`` is not positive.
    """

    said = "rate of {0.label}"

    @property
    def unit(self) -> str:
        return f"{self.measured.unit}/s"

    def true(self, state: State) -> ca.SX:
        return state.rate(self.joint)[self.coordinate]


@dataclass(frozen=True, eq=False)
class PointPosition(DeclaredSensor):
    """Marker or camera that measures the world coordinates of a point on a body [m].

    ``PointPosition(tip, "z", "height")`` is one of them, ``PointPosition(tip, "xyz", ("x", "y", "z"))`` are three.

    Raises:
        ProblemError: if ``point`` is no frame, ``axis`` none of x, y, z nor several of them, there are not as many
            signals, or ``sigma`` is not positive.
    """

    point: Frame
    """A frame whose origin is the point, ``body.frame(at=...)``."""
    axis: str
    """Coordinates in the world: "x", "y" or "z", or several of these letters."""
    signal: str | Sequence[str]
    """Name of the measured signal in the recordings, or one for each coordinate."""
    sigma: float | Sequence[float] | None = None
    """Noise standard deviation [m]; None: estimated, or 1 if the problem has ``state_weight``."""

    unit = "m"
    said = "{0.axis} of a point of {0.point.body.name}"

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals' names."""
        return (self.signal,) if isinstance(self.signal, str) else tuple(self.signal)

    @property
    def count(self) -> int:  # type: ignore[override]
        return len(self.axis)

    def __post_init__(self) -> None:
        if not (isinstance(self.axis, str) and self.axis and set(self.axis) <= set(_AXES)):
            raise ProblemError(f"{self.place}: PointPosition has axis {self.axis!r}; choose 'x', 'y' or 'z'")
        super().__post_init__()

    def predicted(self, state: State) -> ca.SX:
        position = state.position(self.point)
        return ca.vertcat(*(position[_AXES.index(axis)] for axis in self.axis))


@dataclass(frozen=True, eq=False)
class PointDistance(OneSignal):
    """Draw-wire sensor or laser that measures the distance between the origins of two frames [m].

    Raises:
        ProblemError: if one is no frame, both are on one body, or ``sigma`` is not positive.
    """

    first: Frame
    second: Frame
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Noise standard deviation [m]; None: estimated, or 1 if the problem has ``state_weight``."""

    unit = "m"
    may_be_on_ground = True
    said = "distance from {0.first.body.name} to {0.second.body.name}"

    def __post_init__(self) -> None:
        if self.first.body is self.second.body:
            raise ProblemError(f"{self._what} is between two points of {self.first.body.name!r}; it never changes")
        super().__post_init__()

    def predicted(self, state: State) -> ca.SX:
        return ca.norm_2(state.position(self.second) - state.position(self.first))


@dataclass(frozen=True, eq=False)
class Observation(OneSignal):
    """Sensor of any scalar expression of state and Parameters:
    ``Observation(lambda s: s.position(tip)[2] - z_0, "z")``.

    Raises:
        ProblemError: if ``expression`` cannot be called or ``sigma`` is not positive.
    """

    expression: Callable[[State], ca.SX]
    """Function of a ``State`` with ``angle``, ``rate``, ``position``, ``velocity``, ``axes`` and
    ``angular_velocity``."""
    signal: str
    """Name of the measured signal in the recordings."""
    sigma: float | None = None
    """Noise standard deviation in the signal's unit; None: estimated, or 1 if the problem has ``state_weight``."""
    period: float | None = None
    """The expression's period, for angles 2π; residuals are taken the short way round. None: that of a sum of angles
    times numbers follows from these, anything else has none."""
    unit: str = ""
    """The expression's unit, for people."""

    said = "an expression of the state"

    def predicted(self, state: State) -> ca.SX:
        return ca.SX(self.expression(state))

    def period_in(self, model: Model) -> float | None:
        """Declared period, or the period of a linear combination of angles."""
        return period_of(self.predicted, model, self._what) if self.period is None else float(self.period)


@dataclass(frozen=True, eq=False)
class JointTorque(OfCoordinate):
    """Torque sensor or motor current that measures the effort driving a joint coordinate [N m or N].

    It equals ``Motor(joint, signal, gain=1 / scale, measured=True)``, with the sigma and the offset of a sensor. The
    measured torque, interpolated between samples, drives the mechanism; its noise is the process noise of that
    coordinate. If the weight of the equations of motion is given, it is an input without noise. The current of a motor
    with the constant K [N m/A] has ``scale=1 / K``.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, ``sigma`` is not positive, or the loss is not
            linear.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if robust(self.loss) or isinstance(self.loss, StudentT):
            raise ProblemError(
                f"{self._what} has loss {self.loss!r}; its noise drives the motion, so leave samples far off out (NaN)"
            )
        if self.jitter != 0 or self.resolution:
            raise ProblemError(f"{self._what} has jitter or resolution; its noise is white and normal, so leave it out")
        if self.filter is not None:
            raise ProblemError(f"{self._what} has a lag, and what it shows drives the motion; leave the lag out")

    @property
    def unit(self) -> str:
        return self.measured.effort

    @property
    def title(self) -> str:
        return f"{'torque' if self.measured.unit == 'rad' else 'force'} at {self.label}"

    def predicted(self, state: State) -> ca.SX:
        """Empty, because the measured torque enters the equations of motion."""
        return ca.SX(0, 1)

    def channels(self, model: Model) -> tuple[Channel, ...]:
        """No channels, because the measured torque enters the equations of motion.

        Raises:
            ProblemError: if the joint is not in the model, or a motor drives the same coordinate.
        """
        self.check(model)
        for motor in model.motors:
            if motor.label == self.label and motor is not self.motor:
                raise ProblemError(
                    f"{self._what} measures what the Motor at {motor.place} drives; leave out that motor, or give it "
                    "the signal and measured=True instead of the sensor"
                )
        return ()

    @cached_property
    def motor(self) -> TorqueMotor:
        """The motor that it is."""
        scale, offset = self.each("scale")[0], self.each("offset")[0]
        return TorqueMotor(
            self.joint,
            self.signal,
            1 / scale,
            measured=True,
            coordinate=self.coordinate,
            place=self.place,
            offset=-offset / scale,
            delay=self.each("delay")[0],
            sigma=None if self.sigma is None else self.sigma / abs(at_guess(scale).item()),
        )


@dataclass(frozen=True, eq=False)
class TorqueMotor(Motor):
    """Motor that replaces a ``JointTorque`` in the model and applies the measured effort."""

    sigma: float | None = field(kw_only=True, default=None)
    """Standard deviation of a sample [N m or N], at the initial value of its scale; None: it is estimated."""


def with_filters(model: Model, observations: Sequence[Sensor]) -> Model:
    """Return the model with the state of each sensor that has a lag."""
    wanted = [one.filter for one in observations if isinstance(one, OfCoordinate) and one.filter is not None]
    if wanted == list(model.filters):
        return model
    gone = {one.joint for one in model.filters}
    bodies = [body for body in model.bodies if body not in {joint.child.body for joint in gone}]
    joints = [joint for joint in model.joints if joint not in gone]
    return replace(model, bodies=bodies, joints=joints, filters=wanted)


def with_torques(model: Model, observations: Sequence[Sensor]) -> Model:
    """Return the model with a motor for each torque sensor."""
    wanted = [sensor.motor for sensor in observations if isinstance(sensor, JointTorque)]
    present = [motor for motor in model.motors if isinstance(motor, TorqueMotor)]
    if wanted == present:
        return model
    return replace(model, motors=[*(motor for motor in model.motors if motor not in present), *wanted])


@dataclass(frozen=True, eq=False)
class JointForce(DeclaredSensor):
    """Load cell that measures the force which a joint transmits from parent to child [N], in the axes of the parent
    frame, including efforts along the joint's coordinates.

    It follows from the motion of all bodies beyond the joint, whose inertias it thereby determines.

    Raises:
        ProblemError: if ``joint`` is no joint, or ``sigma`` is not positive.
    """

    joint: Joint
    signals: tuple[str, str, str]
    """Names of the measured signals in the recordings, along x, y, z."""
    sigma: float | Sequence[float] | None = None
    """Noise standard deviation [N]; None: estimated, or 1 if the problem has ``state_weight``."""

    is_free_form = False
    count = 3
    unit = "N"
    said = "force in {0.joint.name}"

    def check(self, model: Model) -> None:
        """Raise ProblemError if the joint is not in the model, or if the model has closed loops."""
        super().check(model)
        State.symbols(model).wrench(self.joint)

    def predicted(self, state: State) -> ca.SX:
        return state.axes(self.joint.parent).T @ state.wrench(self.joint)[0]
