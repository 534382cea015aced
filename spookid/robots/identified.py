"""What was found of a robot, in the words of its file: inertias of bodies, and what acts at joints;
and whether a result is of that robot: the same bodies, of the same links, on the same joints;
and inverse dynamics of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.data.sensors import JointPosition
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.body import Body
from spookid.mechanics.inertia import ENTRIES, PRINTED, impossible
from spookid.mechanics.joints import Joint
from spookid.mechanics.motor import Motor
from spookid.parameter import is_constant, number, parameters_in
from spookid.results.result import Derived, Solution
from spookid.results.values import JointOutline, Mechanism
from spookid.robots.description import Connection, Group, Inertial
from spookid.robots.parts import Parts
from spookid.studies.motor_efforts import MotorEfforts, inverse_dynamics
from spookid.studies.simulation_start import values_of
from spookid.tables.table import number as written

_CENTER = ("c_x", "c_y", "c_z")
AT_JOINTS = ("viscous", "coulomb", "armature", "stiffness", "rest")
"""What files hold of a coordinate, if not all of them all of it."""


@dataclass(frozen=True, eq=False)
class Identified:
    """Identified masses, inertias and joint coefficients of a robot."""

    bodies: dict[str, dict[str, float]]
    """Mass, centre of mass and inertia about it of bodies, or some of these."""
    joints: dict[str, dict[str, float]]
    """Of coordinates by their label."""
    result: Solution | None = field(default=None, repr=False)
    """Where they are from; None if they were given."""

    @property
    def derived(self) -> dict[str, Derived]:
        """Quantities of bodies and joints by name, with standard errors."""
        return {} if self.result is None else {**self.result.physical, **self.result.joints}

    def covariance(self) -> Array:
        """Covariance matrix of ``derived``, (n, n): correlations by the delta method, times standard errors."""
        rows = list(self.derived.values())
        if self.result is None or not rows:
            return np.zeros((0, 0))
        known = self.result.sensitivities
        whole = known.covariance if known.seen is None else known.seen.covariance
        slopes = np.array([[row.slopes.get(name, 0.0) for name in known.names] for row in rows])
        plain = slopes @ whole @ slopes.T
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.array([row.std_err for row in rows]) / np.sqrt(np.diag(plain))
        scale[[row.std_err == 0 for row in rows]] = 0.0
        return np.asarray(plain * np.outer(scale, scale))


def from_result(robot: Parts, result: Solution) -> Identified:
    """Identified values of a robot's bodies and joints, read from a result."""
    bodies: dict[str, dict[str, float]] = {}
    joints: dict[str, dict[str, float]] = {}
    for place, values, known in ((bodies, result.physical, robot.bodies), (joints, result.joints, robot.freedoms)):
        for one in values.values():
            what = one.name.removeprefix(f"{one.body} ")
            if one.body in known and "[" not in what:  # what each recording has of its own has no place
                place.setdefault(one.body, {})[what] = one.estimate
    found = Identified(bodies, joints, result)
    if not (bodies or joints):
        own = list(dict.fromkeys(one.body for one in found.derived.values()))
        raise ProblemError(
            f"the results of {result.problem!r} and robot {robot.name!r} have no names in common: the results have "
            f"{', '.join(own) or 'no bodies or joints'}, the robot has {', '.join([*robot.bodies, *robot.freedoms])}; "
            "name bodies and joints as in the robot's file"
        )
    check_same(robot, result)
    return found


def from_values(robot: Parts, values: Mapping[str, float]) -> Identified:
    """Values of a robot's bodies and joints, computed from Parameter values by name."""
    formulas = [e for body in robot.bodies.values() for e in body.expressions()]
    formulas += [e for joint in robot.joints.values() for e in joint.expressions()]
    names = [p.name for p in parameters_in(formulas, f"{robot!r}")]
    for name in values:
        if name not in names:
            raise ProblemError(f"robot {robot.name!r} has no Parameter {name!r}, only {', '.join(names) or 'none'}")
    for name in names:
        if name not in values:
            raise ProblemError(f"robot {robot.name!r} has a Parameter {name!r} without a value; add the value")
    return at_values(list(robot.bodies.values()), list(robot.joints.values()), [values])[0]


def at_values(
    bodies: Sequence[Body], joints: Sequence[Joint], values: Sequence[Mapping[str, float]]
) -> list[Identified]:
    """Values of bodies and joints, by name, for each of several sets of Parameter values."""
    formulas: list[tuple[str, str, ca.SX]] = []
    for body in bodies:
        quantities = () if body.distribution is None else body.distribution.quantities
        formulas += [(body.name, name, ca.densify(formula)) for name, formula, _ in quantities]
    inertial = len(formulas)
    for joint, what in product(joints, AT_JOINTS):
        entries = ca.vertsplit(getattr(joint, what))
        formulas += [(label, what, entries[min(i, len(entries) - 1)]) for i, label in enumerate(joint.labels)]
    symbols = parameters_in([formula for *_, formula in formulas], "bodies and joints")
    function = ca.Function("quantities", [ca.vertcat(*symbols)], [ca.vertcat(*(formula for *_, formula in formulas))])
    numbers = function(np.array([[one[p.name] for one in values] for p in symbols])).full()
    found = [Identified({}, {}) for _ in values]
    for row, (owner, what, formula) in enumerate(formulas):
        if not is_constant(formula):
            for one, value in zip(found, numbers[row].tolist(), strict=True):
                (one.bodies if row < inertial else one.joints).setdefault(owner, {})[what] = value
    return found


def shared(robot: Parts, group: Group, found: Mapping[str, float]) -> dict[str, Inertial | None]:
    """Distribute the identified inertial of a body over its links: the heaviest link gets the difference, or all of it
    if the rest is not physical; massless links get None."""
    whole = _whole(group.inertial(robot.description), found)
    own = {name: robot.description.links[name].inertial for name in group.members}
    fixed = {name: part for name, part in own.items() if name not in group.held}
    # What no longer has mass and moves as soon as its joint is not held is no robot for others.
    for links, kept in ((own, own), (fixed, group.held), (own, ())):
        holder = max(links, key=lambda name: -1.0 if links[name] is None else links[name].mass)  # type: ignore[union-attr]
        rest = whole
        for name, part in own.items():
            if part is not None and name != holder and name in kept:
                rest = rest - part.seen_from(group.members[name])
        if not kept or (rest.mass > 0 and not impossible(rest.inertia, PRINTED)):
            break
    emptied = {name: None for name, part in own.items() if part is not None and name != holder and name not in kept}
    return {**emptied, holder: rest.seen_from(group.members[holder].inverse)}


def _whole(own: Inertial, found: Mapping[str, float]) -> Inertial:
    """A body's inertial with what was found instead of its own."""
    center = np.array([found.get(name, value) for name, value in zip(_CENTER, own.center.tolist(), strict=True)])
    inertia = own.inertia.copy()
    for name in ENTRIES:
        i, j = ("xyz".index(axis) for axis in name[-2:])
        inertia[i, j] = inertia[j, i] = found.get(name, inertia[i, j])
    return Inertial(found.get("mass", own.mass), center, inertia)


_CLOSE = 1e-4
"""Distances [m] and directions that differ by less are the same, for files round them."""


def check_same(robot: Parts, result: Solution) -> None:
    """Refuse a result that belongs to another mechanism. Additional bodies and joints of the problem are allowed."""
    mechanism, where = result.mechanism, repr(result.problem)
    if mechanism is None:
        return
    _check_moving(robot, mechanism, where)
    _check_bodies(robot, mechanism, where)
    joints = {joint.name: joint for joint in mechanism.hinges}
    for connection in robot.grouped.connections:
        own = joints.get(connection.name)
        if own is not None and (difference := _difference(robot, connection, own, mechanism)):
            raise ProblemError(
                f"joint {own.name!r} of robot {robot.name!r} {difference} in the results of {where}; give the file of "
                "the robot that was fitted"
            )


def _check_moving(robot: Parts, mechanism: Mechanism, where: str) -> None:
    """The same joints move, and those that do not are where they were."""
    moving = {joint.name for joint in mechanism.hinges}
    for name in robot.joints:
        if name not in moving:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} is fixed in the results of {where}; read the robot as the "
                f"problem does: with held={{{name!r}: ...}}, or --hold {name}=..."
            )
    for name in robot.still:
        if name in moving:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} is fixed but moves in the results of {where}; read the robot "
                f"as the problem does: without {name!r} in held=, or without --hold {name}=..."
            )
    known = mechanism.robot.held if mechanism.robot else {}
    for name, at in robot.held.items():
        if abs(known.get(name, at) - at) > _CLOSE:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} is fixed at {at:g}, but at {known[name]:g} in the results of "
                f"{where}; give held={{{name!r}: {known[name]:g}}}, or --hold {name}={known[name]:g}"
            )


def _check_bodies(robot: Parts, mechanism: Mechanism, where: str) -> None:
    """The same links are bodies."""
    known = {body.name: body.free for body in mechanism.bodies}
    remedy = "read the robot as the problem does: with free=, merge= and held= as there"
    for name, body in robot.bodies.items():
        if known.get(name) is not body.free:
            raise ProblemError(f"body {name!r} of robot {robot.name!r} differs in the results of {where}; {remedy}")
    for name in known:
        if name in robot.description.links and name not in robot.bodies:
            group = robot.grouped.groups[name].name
            what = (
                f"{name!r} is a separate body in the results of {where}, but part of {group!r} in robot {robot.name!r}"
            )
            raise ProblemError(f"{what}; {remedy}")


def _difference(robot: Parts, connection: Connection, own: JointOutline, mechanism: Mechanism) -> str:
    """How a joint is another than that of a result; empty if it is not."""
    joint = robot.joints[connection.name]
    if own.kind != joint.kind:
        return f"is a {joint.kind}, and a {own.kind}"
    ends, turns = ((connection.parent, connection.inner), (connection.child, connection.outer)), []
    for (link, given), name, at in zip(ends, (own.parent, own.child), (own.parent_at, own.child_at), strict=True):
        group, place = robot.grouped.frame(link, given)
        there = "GROUND" if group.ground else group.name
        if name != there:
            return f"is on {there!r}, and on {name!r}"
        center = np.zeros(3) if group.ground else _center(mechanism, name, group.inertial(robot.description).center)
        off = float(np.linalg.norm(np.array(at) + center - place.at))
        if off > _CLOSE:
            return f"is {written(off, 3)} m away from its place on body {name!r}"
        turns.append(place.axes)
    if np.abs(turns[0][:, 0] - own.axis).max() > _CLOSE:
        return "has another axis than"
    if own.turn is not None and np.abs(turns[0] @ turns[1].T - own.turn).max() > _CLOSE:
        return "has another position zero than"
    return ""


def _center(mechanism: Mechanism, name: str, otherwise: Array) -> Array:
    """Centre of mass, from which places on a body count in a result; as in the file if the result does not say."""
    found: Mapping[str, float] = next(
        ({q.name: q.value for q in body.quantities} for body in mechanism.bodies if body.name == name), {}
    )
    return np.array([found.get(f"c_{axis}", otherwise[i]) for i, axis in enumerate("xyz")])


def efforts_along(
    robot: Parts,
    recording: Recording,
    positions: Mapping[str, str],
    efforts: Mapping[str, str],
    *,
    cutoff: float | None = None,
) -> MotorEfforts:
    """Inverse dynamics of a robot for a recording, with the recorded efforts."""
    motors = [Motor(robot.joints[label], name, measured=True, hold="linear") for label, name in efforts.items()]
    sensors = [JointPosition(robot.joints[label], name) for label, name in positions.items()]
    problem = Problem(robot.name, robot.model(motors=motors), [recording], sensors, place=robot.name)
    return inverse_dynamics(problem, cutoff=cutoff)


def efforts_as_fitted(robot: Parts, problem: Problem, result: Solution, name: str) -> MotorEfforts:
    """Inverse dynamics of a version of a robot for a recording of a problem, as ``problem.inverse_dynamics``: with the
    problem's sensors and motors and the estimates of a result; raises ProblemError likewise."""
    recording = next((one for one in problem.recordings if one.name == name), None)
    if recording is None:
        raise ProblemError(f"{problem.what} has no recording {name!r} any more; solve it again")
    initial = problem.parameter_set.updated(problem.initial, values_of(problem, result))
    values, joints = problem.with_(initial=initial).guess_on(name), robot.joints
    motors, sensors = list[Motor](), list[JointPosition]()
    for m in (m for m in problem.model.motors if m.joint.name in joints):
        how = {"gain": m.unit_effort, "offset": m.offset, "delay": m.delay, "lag": m.lag}
        own: dict[str, Any] = {key: number(part, values) for key, part in how.items()}
        own |= {"coordinate": m.coordinate, "hold": m.hold, "measured": True}
        motors.append(Motor(joints[m.joint.name], m.signal, **own))
    for c in problem.channels:
        if isinstance(c.sensor, JointPosition) and c.sensor.joint.name in joints:
            how = {"scale": c.scale, "offset": c.offset, "delay": c.delay}
            own = {key: number(part, values) for key, part in how.items()}
            sensors.append(JointPosition(joints[c.sensor.joint.name], c.signal, coordinate=c.sensor.coordinate, **own))
    model = robot.model(motors=motors)
    return inverse_dynamics(Problem(robot.name, model, [recording], sensors, cutoff=problem.cutoff, place=robot.name))
