"""Poses that follow from what was measured at a step and from the joints alone, where these determine them.

Where signals of positions y were measured, Gauss and Newton find the poses q of least Σ|Δy/σ|² on which the joints are
as far from closed as they were estimated, g(q) = g(q̂), beginning at the estimate q̂. Offsets and scales of sensors and
lengths are those of the estimates. Nothing but the sensors and the joints speaks: no motion, no other step.

From a problem to the words and numbers that a result folder keeps of its mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.declaration import Declaration
from spookid.data.channels import Channel, apart, order
from spookid.data.sensors import JointPosition, PointPosition
from spookid.data.state import State
from spookid.kernels.arrays import Array, Integers, Mask, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics.body import Body
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.constraints import Constraint, Coupling, Distance, Gear
from spookid.mechanics.inertia import FullInertia
from spookid.mechanics.joint_kinds import Screw
from spookid.mechanics.joints import Joint
from spookid.mechanics.loads import Load
from spookid.mechanics.manifold import jacobian
from spookid.mechanics.motor import Motor
from spookid.parameter import is_constant, is_zero, stacked, substitute
from spookid.records import dataclass
from spookid.results.motion import moments
from spookid.results.result import MeasuredPoses
from spookid.results.trajectory import Trajectory
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
from spookid.transcription.factor import Constant
from spookid.transcription.transcription import Point

MOST_RECORDINGS = 4
"""Those that are animated; of others no poses are sought."""
_ITERATIONS = 20
_SETTLED = 1e-6
"""Step [m, rad] at the end of an iteration that converged."""
_IMPLIED = 1e-9
"""Share of the largest singular value below which a row of the constraints follows from others."""
_DETERMINED = 1e-3
"""The same of what sensors see of the freedoms that joints leave, from which on they determine them."""


def measured_poses(assembly: Assembly, point: Point, motion: Sequence[Trajectory]) -> tuple[MeasuredPoses, ...]:
    """On each recording, at the steps that an animation shows.

    Args:
        point: with the estimates.
        motion: estimated, on each recording.
    """
    channels = assembly.problem.channels
    seen = [i for i, channel in enumerate(channels) if order(channel, assembly.problem.model) == 0]
    sigmas, found = assembly.sigmas[seen], list[MeasuredPoses]()
    equations = _equations(assembly, [channels[i] for i in seen], assembly.numbers(point, 0))
    for i, trajectory in enumerate(motion):
        frames = moments(trajectory.t)[: None if i < MOST_RECORDINGS else 0]
        values = [constant.value for constant in assembly.numbers(point, i)]
        estimated, observed = trajectory.q[frames], trajectory.observed[frames][:, seen]
        flat = estimated.reshape(len(frames), assembly.problem.model.configuration.ambient)
        poses = _solved(equations, flat, observed, sigmas, contiguous(values))
        found.append(MeasuredPoses(frames.astype(np.float64), poses.reshape(estimated.shape)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Equations:
    """Of (q, y, δ, numbers): g, G, what sensors show beyond y, its slopes, and q ⊞ δ."""

    kernel: Kernel
    shapes: Sequence[tuple[int, int]]

    def __call__(self, q: Array, targets: Array, values: Array, steps: Array) -> list[Array]:
        """At all frames, (F, rows, columns) each."""
        sizes = [rows * columns for rows, columns in self.shapes]
        given, out = [contiguous(one) for one in (q, targets, steps)], np.empty((len(q), sum(sizes)))
        parts = np.split(self.kernel(given, [values], out), np.cumsum(sizes)[:-1], axis=1)
        whole = zip(parts, self.shapes, strict=True)
        return [part.reshape(len(q), *shape[::-1]).swapaxes(1, 2) for part, shape in whole]


def _equations(assembly: Assembly, channels: Sequence[Channel], constants: Sequence[Constant]) -> _Equations:
    model, space = assembly.problem.model, assembly.problem.model.configuration
    q, y = ca.SX.sym("q", space.ambient), ca.SX.sym("y", len(channels))
    step = ca.SX.sym("step", space.tangent)
    state = State(model, q, ca.SX(space.tangent, 1))
    beyond = stacked(apart(c, c.predicted(state), y[i]) for i, c in enumerate(channels))
    g = model.violation(q)
    parts = [g, _slopes(g, q, assembly), beyond, _slopes(beyond, q, assembly), space.retract(q, step)]
    numbers = ca.vertcat(*(constant.symbol for constant in constants))
    whole = ca.densify(ca.vertcat(*map(ca.vec, parts)))
    return _Equations(Kernel(ca.Function("poses", [q, y, step, numbers], [whole]), 3), [part.shape for part in parts])


def _slopes(rows: ca.SX, q: ca.SX, assembly: Assembly) -> ca.SX:
    space = assembly.problem.model.configuration
    return jacobian(rows, q, space) if rows.numel() else ca.SX(0, space.tangent)


def _solved(equations: _Equations, estimated: Array, observed: Array, sigmas: Array, values: Array) -> Array:
    """Poses (F, 7 n_b), NaN where they are not determined or not found.

    Args:
        observed: (F, n), NaN where missing.
    """
    q = estimated.copy()
    known = np.isfinite(observed)
    open_: Mask = np.asarray(known.any(axis=1) & np.isfinite(estimated).all(axis=1))
    settled = np.zeros(len(q), dtype=bool)
    targets = np.where(known, observed, 0.0)
    still = np.zeros((len(q), equations.shapes[1][1]))
    first = equations(q, targets, values, still)[0] if open_.any() else None
    for _ in range(_ITERATIONS):
        if first is None or not (open_ & ~settled).any():
            break
        g, G, beyond, slopes, _ = equations(q, targets, values, still)
        steps = still.copy()
        for rows, here in _alike(known, open_ & ~settled):
            parts = G[here], (g - first)[here], slopes[here][:, rows], beyond[here][:, rows]
            steps[here], open_[here] = _steps(*parts, sigmas[rows])
            settled[here] = np.max(np.abs(steps[here]), axis=1) < _SETTLED
        q = equations(q, targets, values, steps)[4][:, :, 0]
    return np.where((open_ & settled)[:, None], q, np.nan)


def _alike(known: Mask, wanted: Mask) -> Iterator[tuple[Mask, Integers]]:
    """What is known of frames, and the frames among those wanted of which that is so."""
    places = np.flatnonzero(wanted)
    patterns, which = np.unique(known[places], axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield pattern, places[which.ravel() == i]


def _steps(G: Array, g: Array, slopes: Array, beyond: Array, sigmas: Array) -> tuple[Array, Mask]:
    """Of Gauss and Newton, (F, 6 n_b), and where there is one: elsewhere the sensors leave something open that the
    joints do, and it is zero."""
    steps, found = np.zeros((len(G), G.shape[2])), np.zeros(len(G), dtype=bool)
    left, sizes, directions = np.linalg.svd(G, full_matrices=True)
    ranks = np.sum(sizes > _IMPLIED * sizes[:, :1], axis=1)
    for rank in np.unique(ranks).tolist():
        at = np.flatnonzero(ranks == rank)
        held, free = directions[at, :rank], directions[at, rank:].transpose(0, 2, 1)
        missing = left[at, :, :rank].transpose(0, 2, 1) @ g[at] / sizes[at, :rank, None]
        back = -held.transpose(0, 2, 1) @ missing
        seen = slopes[at] @ free
        known = np.flatnonzero(_determined(seen))
        weighted = (beyond[at] + slopes[at] @ back)[known] / sigmas[:, None]
        along = np.linalg.pinv(seen[known] / sigmas[:, None]) @ weighted
        steps[at[known]] = (back[known] - free[known] @ along)[:, :, 0]
        found[at[known]] = True
    return steps, found


def _determined(seen: Array) -> Mask:
    """Where sensors see all that is free, by their slopes (F, rows, free), (F,)."""
    if seen.shape[1] < seen.shape[2] or not seen.size:
        return np.zeros(len(seen), dtype=bool)
    lengths = np.linalg.norm(seen, axis=2, keepdims=True)
    alive = np.isfinite(seen).all(axis=(1, 2)) & (lengths > 0).any(axis=(1, 2))
    safe = np.where(alive[:, None, None], seen / np.where(lengths > 0, lengths, 1.0), 0.0)
    spectrum = np.linalg.svd(safe, compute_uv=False)
    return np.asarray(alive & (spectrum[:, -1] >= _DETERMINED * spectrum[:, 0]))


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
    "effort": {"rad": "N m", "m": "N"},
    "stiction": {"rad": "N m", "m": "N"},
    "stribeck zeta": {"rad": "s^2", "m": "s^2/m^2"},
    **{key: {"rad": "rad/s", "m": "m/s"} for key in ("stribeck_velocity", "breakaway_velocity", "coulomb_velocity")},
}
_AXES = "xyz"


def mechanism(problem: Declaration, values: Mapping[str, float]) -> Mechanism:
    """The mechanism of ``problem``, its parameters at ``values``; what recordings have their own of is the first's."""
    model, values = problem.model, problem.parameter_set.on(values)
    return Mechanism(
        bodies=tuple(_body(body, values) for body in model.bodies),
        hinges=tuple(_joint(joint, values, problem.stepper.rigid) for joint in model.joints),
        motors=tuple(_motor(motor, values) for motor in model.motors),
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


def _sensor(sensor: Channel, problem: Declaration, values: Mapping[str, float]) -> SensorOutline:
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
