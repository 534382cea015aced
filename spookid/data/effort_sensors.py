"""Sensors of forces: what torque sensors, currents of motors and load cells show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import casadi as ca

from spookid.data.channels import Channel, DeclaredSensor, Sensor, check_signals
from spookid.data.losses import BENT
from spookid.data.sensors import OfCoordinate, check_joint_in
from spookid.data.state import State
from spookid.errors import ProblemError
from spookid.mechanics.inertia import at_guess
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor


@dataclass(frozen=True, eq=False)
class JointTorque(OfCoordinate):
    """What drives a coordinate of a joint [N m or N], as a torque sensor or the current of a motor tells it.

    It is ``Motor(joint, signal, gain=1 / scale, measured=True)`` by another name, with the sigma and the offset of a
    sensor: the measured torque, on lines from sample to sample, drives the mechanism, and its noise is what is random
    in the motion of that coordinate. With a given state weight nothing is, and it is an input like others. The current
    of a motor with the constant K [N m/A] has ``scale=1 / K``.

    Raises:
        ProblemError: if ``joint`` is no joint or has no such coordinate, ``sigma`` is not positive, or the loss is not
            linear.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss in BENT:
            raise ProblemError(
                f"{self._what} has loss {self.loss!r}; its noise drives the motion, so leave samples far off out (NaN)"
            )

    @property
    def unit(self) -> str:
        """The effort's unit."""
        return self.measured.effort

    @property
    def title(self) -> str:
        """What it measures."""
        return f"{'torque' if self.measured.unit == 'rad' else 'force'} at {self.joint.labels[self.coordinate]}"

    def predicted(self, state: State) -> ca.SX:
        """Nothing: its rows are those of the motion."""
        return ca.SX(0, 1)

    def channels(self, model: Model) -> tuple[Channel, ...]:
        """None: its rows are those of the motion.

        Raises:
            ProblemError: if the joint is not in the model, or a motor drives the same coordinate.
        """
        self.check(model)
        for motor in model.motors:
            if motor.label == self.joint.labels[self.coordinate] and motor is not self.motor:
                raise ProblemError(
                    f"{self._what} measures what the Motor at {motor.place} drives; leave out that motor, or give it "
                    "the signal and measured=True in the place of the sensor"
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
    """What a ``JointTorque`` is to the mechanism: a motor that does what was measured."""

    sigma: float | None = field(kw_only=True, default=None)
    """Standard deviation of a sample [N m or N], at the guess of its scale; None: it is estimated."""


def with_torques(model: Model, observations: Sequence[Sensor]) -> Model:
    """The model with the motors that sensors of torques are, and no others of that kind."""
    wanted = [sensor.motor for sensor in observations if isinstance(sensor, JointTorque)]
    present = [motor for motor in model.motors if isinstance(motor, TorqueMotor)]
    if wanted == present:
        return model
    return replace(model, motors=[*(motor for motor in model.motors if motor not in present), *wanted])


@dataclass(frozen=True, eq=False)
class JointForce(DeclaredSensor):
    """The force that a joint hands on [N], as a load cell gives it: that of the parent's side on the child's, in the
    axes of the joint's parent frame, with all that acts along its coordinates.

    It follows from the motion of all bodies beyond the joint, whose inertias it thereby tells.

    Raises:
        ProblemError: if ``joint`` is no joint, or ``sigma`` is not positive.
    """

    joint: Joint
    signals: tuple[str, str, str]
    """Names of the measured signals in the recordings, along x, y, z."""
    sigma: float | Sequence[float] | None = None
    """Standard deviation of its noise [N]; None: it is estimated, or 1 with a given state weight."""

    is_free_form = False
    unit = "N"

    @property
    def title(self) -> str:
        """What it measures."""
        return f"force in {self.joint.name}"

    def __post_init__(self) -> None:
        check_signals(self, 3)
        self.check_arguments()

    def check(self, model: Model) -> None:
        """Raise ProblemError if the joint is not in the model, or the model closes loops."""
        check_joint_in(self, self.joint, model)
        State.symbols(model).wrench(self.joint)

    def predicted(self, state: State) -> ca.SX:
        """The force."""
        return state.axes(self.joint.parent).T @ state.wrench(self.joint)[0]
