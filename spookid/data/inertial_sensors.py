"""Sensors on bodies that tell how these turn and speed up: inertial units and motion capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, field
from typing import Any

import casadi as ca

from spookid.data.channels import DeclaredSensor
from spookid.data.state import State
from spookid.errors import ProblemError, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import Frame
from spookid.mechanics.coefficients import acts
from spookid.parameter import symbolic
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class _Mounted(DeclaredSensor):
    """A sensor of three axes on a body, or of some of them."""

    frame: Frame
    """On a body, at the sensor, its axes along the sensor's."""
    signals: str | Sequence[str]
    """Names of the measured signals in the recordings, one for each letter of ``axis``."""
    sigma: float | Sequence[float] | None = None
    """Noise standard deviation in the signals' unit; None: estimated, or 1 if the problem has ``state_weight``."""
    bias: InitVar[Any] = field(default=None, kw_only=True)
    """What it shows where there is nothing to show, one for all or one each; another name of ``offset``."""
    mounting: Any = field(default=(0, 0, 0), kw_only=True)
    """How the sensor is turned in its frame, a rotation vector (3,) [rad]: numbers or expressions of Parameters."""
    axis: str = field(default="xyz", kw_only=True)
    """Measured axes: "x", "y" or "z", or several of these letters."""

    @property
    def count(self) -> int:  # type: ignore[override]
        return len(self.axis)

    def __post_init__(self, bias: Any) -> None:
        if not (self.axis and set(self.axis) <= set("xyz")):
            raise ProblemError(f"{self._what} has axis {shown(self.axis)}; choose 'x', 'y', 'z', or several of them")
        if isinstance(self.signals, str):
            object.__setattr__(self, "signals", (self.signals,))
        what = f"{self.place}: {type(self).__name__}: mounting"
        object.__setattr__(self, "mounting", symbolic(self.mounting, what, (3,)))
        if bias is not None:
            if not (isinstance(self.offset, int) and self.offset == 0):
                raise ProblemError(f"{self._what} has bias and offset, which are one; give bias alone")
            object.__setattr__(self, "offset", bias)
        super().__post_init__()

    def along(self, vector: ca.SX) -> ca.SX:
        """Measured components of a vector in the axes of the sensor."""
        return ca.vertcat(*(vector["xyz".index(letter)] for letter in self.axis))


@dataclass(frozen=True, eq=False)
class Gyroscope(_Mounted):
    """Gyroscope that measures the angular velocity of a body in the axes of a frame [rad/s]: scale · ω + bias.

    Raises:
        ProblemError: if ``frame`` is no frame, there are not as many signals as axes, or ``sigma`` is not positive.
    """

    unit = "rad/s"
    said = "angular velocity of {0.frame.body.name}"

    def predicted(self, state: State) -> ca.SX:
        return self.along((self.frame.axes @ turned(self.mounting)).T @ state.angular_velocity(self.frame.body))


@dataclass(frozen=True, eq=False)
class Accelerometer(_Mounted):
    """Accelerometer at a frame's origin: specific force in its axes [m/s²], scale · (acceleration − gravity) + bias.

    At rest it measures −g, the specific force of the support.

    ``Accelerometer(tip, "a", axis="x")`` has one axis, ``Accelerometer(tip, ("ax", "ay", "az"))`` three.

    Raises:
        ProblemError: if ``frame`` is no frame, there are not as many signals as axes, or ``sigma`` is not positive.
    """

    unit = "m/s^2"
    said = "specific force on {0.frame.body.name}"

    def predicted(self, state: State) -> ca.SX:
        axes = state.axes(self.frame) @ turned(self.mounting)
        return self.along(axes.T @ (state.acceleration(self.frame) - state.model.gravity))


@dataclass(frozen=True, eq=False)
class Orientation(DeclaredSensor):
    """Motion-capture sensor of a frame's orientation in the world: unit quaternion w, x, y, z of either sign, which
    rotates vectors from the frame into the world.

    A turn by a small φ [rad] changes the quaternion by |φ|/2, so that noise of σ rad about every axis is noise of σ/2
    in all directions in which unit quaternions can differ. Four components have three such directions. The scatter of
    single components therefore does not determine the noise standard deviation, and ``sigma`` has to be given.

    Raises:
        ProblemError: if ``frame`` is no frame, there are not four signals, or ``sigma`` is no positive number.
    """

    frame: Frame
    """On a body."""
    signals: tuple[str, str, str, str]
    """Names of the measured signals in the recordings, w, x, y, z."""
    sigma: float
    """Standard deviation of its noise about every axis [rad]."""
    mounting: Any = field(default=(0, 0, 0), kw_only=True)
    """Rotation of the sensor in the frame, a rotation vector (3,) [rad]: numbers or expressions of
    Parameters."""

    count = 4
    either_sign = True
    said = "orientation of {0.frame.body.name}"

    def __post_init__(self) -> None:
        if self.sigma is None or isinstance(self.sigma, Sequence):
            raise ProblemError(f"{self._what} has sigma {shown(self.sigma)}; give one number [rad], all axes alike")
        object.__setattr__(self, "mounting", symbolic(self.mounting, f"{self.place}: Orientation: mounting", (3,)))
        super().__post_init__()

    def deviation(self, index: int) -> float:
        return self.sigma / 2

    def predicted(self, state: State) -> ca.SX:
        own = state.model.moving(self.frame, state.q, state.v).orientation
        return rotations.multiply(own, rotations.exponential(self.mounting)) if acts(self.mounting) else own


def turned(mounting: ca.SX) -> ca.SX:
    """Rotation matrix of a rotation vector, (3, 3)."""
    if not acts(mounting):
        return ca.SX.eye(3)
    return rotations.matrix(rotations.exponential(mounting))
