"""From a problem to the words and numbers that a result folder keeps of its mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.data.sensors import Sensor
from spookid.mechanics.body import Body
from spookid.mechanics.joints import Hinge, Motor
from spookid.parameter import is_constant, substitute
from spookid.results.sketch import (
    BodyOutline,
    HingeOutline,
    Mechanism,
    MotorOutline,
    Quantity,
    SensorOutline,
    Vector,
)

_UNITS = {
    "viscous": "N m s",
    "dry": "m",
    "coulomb": "N m",
    "drag": "N m s^2",
    "stiffness": "N m",
    "rest_angle": "rad",
    "damping": "s",
}
_AXES = "xyz"

Values = Mapping[str, float]


def mechanism(problem: Declaration, values: Values) -> Mechanism:
    """The mechanism of ``problem``, its parameters at ``values``."""
    model = problem.model
    return Mechanism(
        bodies=tuple(_body(body, values) for body in model.bodies),
        hinges=tuple(_hinge(joint, values) for joint in model.joints),
        motors=tuple(_motor(motor, values) for motor in model.motors),
        sensors=tuple(_sensor(sensor, problem) for sensor in problem.observations),
        gravity=_vector(model.gravity, values),
    )


def _body(body: Body, values: Values) -> BodyOutline:
    quantities = [_quantity("mass", body.mass, "kg", values)]
    for i in range(3):
        for j in range(i, 3):
            entry = ca.densify(body.inertia[i, j])
            if i == j or not _is_zero(entry):
                quantities.append(_quantity(f"J_{_AXES[i]}{_AXES[j]}", entry, "kg m^2", values))
    return BodyOutline(body.name, body.free, tuple(quantities))


def _hinge(joint: Hinge, values: Values) -> HingeOutline:
    compliance = [("compliance", "m/N"), ("angular compliance", "rad/(N m)")]
    quantities = [_quantity(name, joint.compliance[i], unit, values) for i, (name, unit) in enumerate(compliance)]
    for name, unit in _UNITS.items():
        if not _is_zero(getattr(joint, name)):
            quantities.append(_quantity(name.replace("_", " "), getattr(joint, name), unit, values))
    if joint.stribeck is not None:
        unit = _UNITS["dry"] if not _is_zero(joint.dry) else _UNITS["coulomb"]
        quantities.append(_quantity("stribeck delta", joint.stribeck[0], unit, values))
        quantities.append(_quantity("stribeck zeta", joint.stribeck[1], "s^2", values))
    parent, child = joint.bodies()
    return HingeOutline(
        name=joint.name,
        parent=parent.name,
        child=child.name,
        parent_at=_vector(joint.parent.at, values),
        child_at=_vector(joint.child.at, values),
        axis=_vector(joint.parent.axes[:, 0], values),
        quantities=tuple(quantities),
    )


def _motor(motor: Motor, values: Values) -> MotorOutline:
    quantities = [_quantity("gain", motor.gain, "N m per unit of the input", values)]
    if not _is_zero(motor.shaft_inertia):
        quantities.append(_quantity("shaft inertia", motor.shaft_inertia, "kg m^2", values))
    return MotorOutline(motor.hinge.name, motor.signal, tuple(quantities))


def _sensor(sensor: Sensor, problem: Declaration) -> SensorOutline:
    own = math.nan if problem.dynamics == "estimated" else 1.0
    return SensorOutline(sensor.signal, sensor.title, own if sensor.sigma is None else float(sensor.sigma), sensor.unit)


def _quantity(name: str, formula: ca.SX, unit: str, values: Values) -> Quantity:
    text = "" if is_constant(formula) else str(formula)
    return Quantity(name, text, float(substitute(ca.densify(formula), values)[0]), unit)


def _vector(formula: ca.SX, values: Values) -> Vector:
    x, y, z = np.asarray(substitute(ca.densify(ca.vec(formula)), values), dtype=np.float64).tolist()
    return x, y, z


def _is_zero(formula: ca.SX) -> bool:
    return is_constant(formula) and float(formula) == 0
