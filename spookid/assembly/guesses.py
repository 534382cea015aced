"""Guesses of Parameters with which no fit could begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from spookid.data.channels import Channel, Sensor
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.kernels.not_finite import first_cause
from spookid.mechanics.body import Body
from spookid.mechanics.contacts import Contact
from spookid.mechanics.joints import Joint
from spookid.mechanics.model import Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.point_loads import PointLoad
from spookid.parameter import is_constant, number, parameters_in, substitute


def check_finite(model: Model, channels: Sequence[Channel], values: Mapping[str, float]) -> None:
    """Raise ProblemError for what is declared as an expression of Parameters that is not finite.

    Args:
        values: guesses of all Parameters, by name.
    """
    things: tuple[Body | Joint | Motor | Contact | PointLoad, ...]
    things = (*model.bodies, *model.joints, *model.motors, *model.contacts, *model.loads)
    declared = [(f"{model.place}: the gravity of the Model", [model.gravity])]
    declared += [(f"{thing.place}: an expression of {thing!r}", thing.expressions()) for thing in things]
    declared += [(f"{_what(c.sensor)}: an expression of it", c.expressions()) for c in channels]
    every = ca.veccat(*(e for _, expressions in declared for e in expressions))
    if is_constant(every) or np.isfinite(substitute(every, values)).all():
        return
    for what, expressions in declared:
        parameters = parameters_in(expressions, what)
        numbers = [np.array([values[p.name]]) for p in parameters]
        if why := first_cause(ca.veccat(*expressions), parameters, numbers, {p.name: p for p in parameters}):
            raise ProblemError(f"{what} is not finite at the guesses: {why}; guess its Parameters otherwise")


def check_scales(sensors: Sequence[Sensor], motors: Sequence[Motor], values: Mapping[str, float]) -> None:
    """Raise ProblemError for a sensor that would show nothing, or a winding without resistance.

    Args:
        values: guesses of all Parameters, by name.
    """
    for sensor in sensors:
        if any(number(scale, values) == 0 for scale in sensor.each("scale")):
            raise ProblemError(
                f"{_what(sensor)} has a scale that is 0 at {_guesses(sensor.each('scale'))}; guess another"
            )
    for motor in motors:
        if motor.resistance is not None and number(motor.resistance, values) == 0:
            raise ProblemError(
                f"{motor.place}: Motor has a resistance that is 0 at {_guesses([motor.resistance])}; guess another"
            )


def check_delays(
    sensors: Sequence[Sensor], motors: Sequence[Motor], recording: Recording, values: Mapping[str, float]
) -> None:
    """Raise ProblemError for a delay as long as the recording, which leaves nothing of the signal."""
    lasts = float(recording.t[-1] - recording.t[0])
    late = [(_what(sensor), delay) for sensor in sensors for delay in sensor.each("delay")]
    for what, delay in [*late, *((f"{motor.place}: Motor with {motor.signal!r}", motor.delay) for motor in motors)]:
        if not abs(number(delay, values)) < lasts:
            raise ProblemError(
                f"{what} has a delay of {number(delay, values):g} s, and recording {recording.name!r} lasts {lasts:g} "
                "s; give it in seconds"
            )


def _guesses(expressions: Sequence[ca.SX]) -> str:
    names = ", ".join(p.name for p in parameters_in(expressions, "it"))
    return f"the guess of {names}" if names else "the values given"


def _what(sensor: Sensor) -> str:
    names = sensor.signals[0] if len(sensor.signals) == 1 else sensor.signals
    return f"{sensor.place}: {type(sensor).__name__} of {names!r}"
