"""Poses that follow from what was measured at a step and from the joints alone, where these determine them.

Where signals of positions y were measured, they are the poses of least Σ|Δy/σ|² on which the joints are as far from
closed as they were estimated, beginning at the estimate. Offsets and scales of sensors and lengths are those of the
estimates; no motion and no other step count.

From a problem to the words and numbers that a result folder keeps of its mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly, assemble
from spookid.assembly.problem import Problem
from spookid.assembly.tracking import Tracking
from spookid.data.channels import Channel, order
from spookid.data.sensors import JointPosition, PointPosition
from spookid.graphs.solution import Picture
from spookid.kernels.arrays import Array
from spookid.kernels.precision import TINY
from spookid.mechanics.body import Body
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.constraints import Constraint, Coupling, Distance, Gear
from spookid.mechanics.inertia import FullInertia
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joint_kinds import Screw
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Values, displacements, unwrapped
from spookid.mechanics.loads import Load
from spookid.mechanics.motor import Motor
from spookid.mechanics.servo import Servo
from spookid.parameter import is_constant, is_zero, substitute
from spookid.results.trajectory import MeasuredPoses, Trajectory, moments
from spookid.results.values import (
    BodyOutline,
    ConstraintOutline,
    JointOutline,
    Mechanism,
    MotorOutline,
    PointOutline,
    Quantity,
    SensorOutline,
    Vector,
)
from spookid.transcription.transcription import Point

MOST_RECORDINGS = 4
"""Those whose motion a report shows; of others no poses are sought."""
DETERMINED = 1e-3
"""Share of the largest singular value of the coordinates' effect on joints and sensors, from which these determine
all coordinates."""


def measured_poses(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> tuple[MeasuredPoses, ...]:
    """Measured poses of each recording, at the steps that a report shows.

    Args:
        point: with the estimates.
        motion: estimated, on each recording.
    """
    problem, found = assembly.problem, list[MeasuredPoses]()
    seen = [i for i, channel in enumerate(problem.channels) if order(channel, problem.model) == 0]
    for i, trajectory in enumerate(motion):
        frames = moments(trajectory.t)[: None if i < MOST_RECORDINGS else 0]
        estimated, observed = trajectory.q[frames], trajectory.observed[frames][:, seen]
        shape = estimated.shape
        estimated = estimated.reshape(len(frames), problem.model.configuration.ambient)
        values = problem.parameter_set.on(assembly.values(point), trajectory.name)
        poses = np.full(estimated.shape, np.nan)
        known = np.isfinite(observed) & np.isfinite(estimated).all(axis=1, keepdims=True)
        for pattern in np.unique(known, axis=0) if len(frames) else ():
            here = np.flatnonzero((known == pattern).all(axis=1))
            channels, weights = [problem.channels[seen[c]] for c in np.flatnonzero(pattern)], assembly.sigmas[seen]
            if channels:
                weights = weights[pattern].min() / weights[pattern]
                tracking = Tracking(problem.model, channels, values, weights=weights)
                poses[here] = _solved(problem, tracking, estimated[here], observed[here][:, pattern], values)
        found.append(MeasuredPoses(frames.astype(np.float64), poses.reshape(shape)))
    return tuple(found)


def _solved(problem: Problem, tracking: Tracking, estimated: Array, observed: Array, values: Values) -> Array:
    """Poses (F, 7 n_b) from estimated ones, NaN where sensors and joints do not determine them."""
    model = problem.model
    moved = unwrapped(model, displacements(model, estimated, values))
    start = JointCoordinates(model).along(estimated, moved)
    x = tracking.settled(start, observed)
    slopes = tracking.slopes(x, observed)
    lengths = np.linalg.norm(slopes, axis=2, keepdims=True)
    scaled = np.where(np.isfinite(slopes) & (lengths > 0), slopes / np.where(lengths > 0, lengths, 1.0), 0.0)
    spectrum = np.linalg.svd(scaled, compute_uv=False)
    determined = spectrum[:, -1] >= DETERMINED * np.maximum(spectrum[:, 0], TINY)
    if slopes.shape[1] < slopes.shape[2]:
        determined[:] = False
    # Joints that give way stay as far from closed as they were estimated.
    own, here, there = (ca.SX.sym(name, estimated.shape[1]) for name in ("own", "here", "there"))
    turned = model.configuration.retract(own, model.configuration.difference(there, here))
    move = ca.Function("move", [own, here, there], [ca.densify(turned)])
    poses = np.asarray(move(estimated.T, tracking.poses(start).T, tracking.poses(x).T).full()).T
    return np.where(determined[:, None], poses, np.nan)


UNITS = {
    "viscous": {"rad": "N m s", "m": "N s/m"},
    "load_friction": {"rad": "m", "m": ""},
    "coulomb": {"rad": "N m", "m": "N"},
    "drag": {"rad": "N m s^2", "m": "N s^2/m^2"},
    "stiffness": {"rad": "N m", "m": "N/m"},
    "rest": {"rad": "rad", "m": "m"},
    "armature": {"rad": "kg m^2", "m": "kg"},
}
"""Of coefficients of joints, by the unit of the coordinate."""
_WORDS = {"rest": {"rad": "rest angle", "m": "rest position"}}
_OF_LOADS = {
    "width": {"rad": "rad", "m": "m"},
    "damping": {"rad": "N m s", "m": "N s/m"},
    "effort": {"rad": "N m", "m": "N"},
    "stiction": {"rad": "N m", "m": "N"},
    "stribeck zeta": {"rad": "s^2", "m": "s^2/m^2"},
    **{key: {"rad": "1/(N m)", "m": "1/N"} for key in ("motor_square", "external_square")},
    **{key: {"rad": "", "m": ""} for key in ("motor", "external", "motor_stiction", "external_stiction", "exponent")},
    **{key: {"rad": "rad/s", "m": "m/s"} for key in ("stribeck_velocity", "breakaway_velocity", "coulomb_velocity")},
}
_AXES = "xyz"


def mechanism(problem: Problem, values: Mapping[str, float]) -> Mechanism:
    """Description of the mechanism of ``problem`` at parameter ``values``; parameters per recording are the first's."""
    model, values = problem.model, problem.parameter_set.on(values)
    return Mechanism(
        bodies=tuple(_body(body, values) for body in model.bodies),
        hinges=tuple(_joint(joint, values, problem.stepper.rigid) for joint in model.joints),
        motors=(*(_motor(one, values) for one in model.motors), *(_servo(one, values) for one in model.servos)),
        sensors=tuple(_sensor(sensor, problem, values) for sensor in problem.channels),
        gravity=_vector(model.gravity, values),
        constraints=tuple(_constraint(constraint, values) for constraint in model.constraints),
        robot=model.robot,
    )


def _body(body: Body, values: Mapping[str, float]) -> BodyOutline:
    if body.distribution is not None:
        own = tuple(_of_inertia(body.distribution, *quantity, values) for quantity in body.distribution.quantities)
        return BodyOutline(body.name, body.free, own)
    quantities = [_quantity("mass", body.mass, "kg", values)]
    for i in range(3):
        for j in range(i, 3):
            entry = ca.densify(body.inertia[i, j])
            if i == j or not is_zero(entry):
                quantities.append(_quantity(f"J_{_AXES[i]}{_AXES[j]}", entry, "kg m^2", values))
    return BodyOutline(body.name, body.free, tuple(quantities))


def _of_inertia(inertia: FullInertia, name: str, entry: ca.SX, unit: str, values: Mapping[str, float]) -> Quantity:
    """One of mass, centre of mass and inertia; of coordinates it only says which they are."""
    told = _quantity(name, entry, unit, values)
    of_many = type(inertia) is not FullInertia and told.formula
    return replace(told, formula=type(inertia).__name__) if of_many else told


def _joint(joint: Joint, values: Mapping[str, float], rigid: bool) -> JointOutline:
    compliance = [] if rigid else [("compliance", "m/N"), ("angular compliance", "rad/(N m)")]
    quantities = [_quantity(name, joint.compliance[i], unit, values) for i, (name, unit) in enumerate(compliance)]
    for name in UNITS:
        quantities += _coefficients(joint, name, values)
    quantities += [quantity for load in joint.loads for quantity in _of_load(load, joint, values)]
    if not (rigid or is_zero(joint.damping)):
        quantities.append(_quantity("damping", joint.damping, "s", values))
    if joint.stribeck is not None:
        kind = joint.coordinates[0].unit
        unit = UNITS["coulomb" if all(map(is_zero, ca.vertsplit(joint.load_friction))) else "load_friction"][kind]
        quantities.append(_quantity("stribeck delta", joint.stribeck[0], unit, values))
        inverse = "s^2" if kind == "rad" else "s^2/m^2"
        quantities.append(_quantity("stribeck zeta", joint.stribeck[1], inverse, values))
    if isinstance(joint, Screw):
        quantities.append(_quantity("pitch", joint.pitch, "m/rad", values))
    parent, child = joint.bodies()
    turn = [_vector(row.T, values) for row in ca.vertsplit(joint.parent.axes @ joint.child.axes.T)]
    return JointOutline(
        name=joint.name,
        parent=parent.name,
        child=child.name,
        parent_at=_vector(joint.parent.at, values),
        child_at=_vector(joint.child.at, values),
        axis=_vector(joint.parent.axes[:, 0], values),
        quantities=tuple(quantities),
        kind=joint.kind,
        turn=(turn[0], turn[1], turn[2]),
    )


def _constraint(constraint: Constraint, values: Mapping[str, float]) -> ConstraintOutline:
    quantities, ties, at = [], tuple[str, ...](), tuple[Vector, ...]()
    if isinstance(constraint, Gear):
        sides = [(constraint.joint_a, constraint.coordinate_a), (constraint.joint_b, constraint.coordinate_b)]
        ties = tuple(joint.labels[i] for joint, i in sides)
        one, other = (joint.coordinates[i].unit for joint, i in sides)
        quantities.append(_quantity("ratio", constraint.ratio, "" if one == other else f"{other}/{one}", values))
        if not is_zero(constraint.offset):
            quantities.append(_quantity("offset", constraint.offset, other, values))
    elif isinstance(constraint, Coupling):
        ties = tuple(term.label for term in constraint.terms)
        quantities += [_quantity(f"ratio of {term.label}", term.ratio, "", values) for term in constraint.terms]
        if not is_zero(constraint.offset):
            quantities.append(_quantity("offset", constraint.offset, "", values))
    elif isinstance(constraint, Distance):
        ends = (constraint.frame_a, constraint.frame_b)
        ties, at = tuple(end.body.name for end in ends), tuple(_vector(end.at, values) for end in ends)
        quantities.append(_quantity("length", constraint.length, "m", values))
    return ConstraintOutline(constraint.name, constraint.kind, ties, at, tuple(quantities))


def _coefficients(joint: Joint, name: str, values: Mapping[str, float]) -> list[Quantity]:
    """Those that are not zero: one of all coordinates, or one of each."""
    entries = ca.vertsplit(getattr(joint, name))
    found = []
    for coordinate, entry in zip(joint.coordinates, entries, strict=False):
        if not is_zero(entry):
            words = _word(name, coordinate)
            which = f" {coordinate.name}" if len(entries) > 1 else ""
            found.append(_quantity(words + which, entry, UNITS[name][coordinate.unit], values))
    return found


def _of_load(load: Load, joint: Joint, values: Mapping[str, float]) -> Iterator[Quantity]:
    """Coefficients of a load of the package that are not zero."""
    per = f" per unit of {load.signals[0]}" if load.signals else ""
    follows_load = "load_friction" in load.reported and not load.reported["load_friction"].is_absent
    units = {**UNITS, **_OF_LOADS, "stribeck delta": UNITS["load_friction" if follows_load else "coulomb"]}
    for name, coefficient in load.reported.items():
        listed = coefficient.listed()
        several = any(place for place, _, _ in listed)
        for place, which, entry in listed:
            coordinate = joint.coordinates[place]
            if not is_zero(entry):
                parts = (_word(name, coordinate), coordinate.name if several else "", which)
                yield _quantity(" ".join(filter(None, parts)), entry, units[name][coordinate.unit] + per, values)


def _word(name: str, coordinate: Coordinate) -> str:
    return _WORDS.get(name, {}).get(coordinate.unit, name.replace("_", " "))


def _motor(motor: Motor, values: Mapping[str, float]) -> MotorOutline:
    coordinate = motor.joint.coordinates[motor.coordinate]
    turns, inertia = f"rad/{coordinate.unit}", {"rad": "kg m^2", "m": "kg"}[coordinate.unit]
    plain = is_constant(motor.ratio) and float(motor.ratio) == 1
    parts = (
        (
            "gain",
            motor.gain if motor.torque_constant is None else None,
            f"{coordinate.effort if plain else 'N m'} per unit of the input",
        ),
        ("torque constant", motor.torque_constant, "N m/A"),
        ("resistance", motor.resistance, "Ω"),
        ("ratio", None if plain else motor.ratio, turns),
        ("rotor inertia", motor.rotor_inertia, "kg m^2"),
        ("shaft inertia", motor.shaft_inertia, inertia),
        ("offset", motor.offset, coordinate.effort),
    )
    shown = [(n, value, unit) for n, value, unit in parts if value is not None and (n == "gain" or not is_zero(value))]
    return MotorOutline(motor.label, motor.signal, tuple(_quantity(*part, values) for part in shown))


def _servo(servo: Servo, values: Mapping[str, float]) -> MotorOutline:
    return MotorOutline(servo.label, servo.command, tuple(_quantity(*part, values) for part in servo.quantities()))


def _sensor(sensor: Channel, problem: Problem, values: Mapping[str, float]) -> SensorOutline:
    own = math.nan if problem.estimates_noise else 1.0
    sigma = own if sensor.sigma is None else float(sensor.sigma)
    return SensorOutline(sensor.signal, sensor.title, sigma, sensor.unit, _point(sensor, values), _shown_joint(sensor))


def _shown_joint(sensor: Channel) -> str:
    """Of what shows a joint's position without a scale or a delay of its own."""
    seen = sensor.sensor
    plain = is_constant(sensor.scale) and float(sensor.scale) == 1 and is_zero(sensor.delay)
    return seen.joint.labels[seen.coordinate] if isinstance(seen, JointPosition) and plain else ""


def _point(sensor: Channel, values: Mapping[str, float]) -> PointOutline | None:
    """Of what shows a coordinate of a point without a scale of its own."""
    seen = sensor.sensor
    if not isinstance(seen, PointPosition) or not (is_constant(sensor.scale) and float(sensor.scale) == 1):
        return None
    return PointOutline(seen.point.body.name, _vector(seen.point.at, values), _AXES.index(seen.axis[sensor.index]))


def _quantity(name: str, formula: ca.SX, unit: str, values: Mapping[str, float]) -> Quantity:
    text = "" if is_constant(formula) else str(formula)
    return Quantity(name, text, float(substitute(ca.densify(formula), values)[0]), unit)


def _vector(formula: ca.SX, values: Mapping[str, float]) -> Vector:
    x, y, z = np.asarray(substitute(ca.densify(ca.vec(formula)), values), dtype=np.float64).tolist()
    return x, y, z


def picture(problem: Problem) -> Picture:
    """Factor graph of the problem for drawing; see ``Problem.graph``."""
    found = assemble(problem).transcription
    private = [column for column in range(found.manifold.tangent) if column not in found.visible]
    nodes = {"x": found.visible, "λ": private} if private else {"x": found.visible}
    return Picture(f"factor graph of {problem.name}", found, nodes)
