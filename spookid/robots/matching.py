"""Whether a result is of the robot that a file says: the same bodies, of the same links, on the same joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.results.result import Result
from spookid.results.sketch import JointOutline, Mechanism
from spookid.robots.description import Connection
from spookid.robots.parts import Parts
from spookid.tables.numbers import number

_CLOSE = 1e-4
"""Distances [m] and directions that differ by less are the same, for files round them."""


def check_same(robot: Parts, result: Result) -> None:
    """Refuse a result of another mechanism than the robot's: what was found would be that of other bodies. Bodies and
    joints that a problem has on top of its robot's are none of this.

    Raises:
        ProblemError: that says which body or joint is another.
    """
    if result.mechanism is None:
        return
    _check_moving(robot, result, result.mechanism)
    _check_bodies(robot, result, result.mechanism)
    joints = {joint.name: joint for joint in result.mechanism.hinges}
    for connection in robot.grouped.connections:
        if connection.name in joints:
            own = joints[connection.name]
            difference = _difference(robot, connection, own, result.mechanism)
            if difference:
                raise ProblemError(
                    f"joint {own.name!r} of robot {robot.name!r} {difference} in the results of {result.problem!r}; "
                    "give the file of the robot that was fitted"
                )


def _check_moving(robot: Parts, result: Result, mechanism: Mechanism) -> None:
    """The same joints move, and those that do not are where they were."""
    moving = {joint.name for joint in mechanism.hinges}
    where = f"in the results of {result.problem!r}"
    for name in robot.joints:
        if name not in moving:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} does not move {where}; read the robot as the problem does: "
                f"with held={{{name!r}: ...}}, or --hold {name}=..."
            )
    for name in robot.still:
        if name in moving:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} is held and moves {where}; read the robot as the problem "
                f"does: without {name!r} in held=, or without --hold {name}=..."
            )
    known = mechanism.robot.held if mechanism.robot else {}
    for name, at in robot.held.items():
        if abs(known.get(name, at) - at) > _CLOSE:
            raise ProblemError(
                f"joint {name!r} of robot {robot.name!r} is held at {at:g}, and at {known[name]:g} {where}; read the "
                f"robot as the problem does: with held={{{name!r}: {known[name]:g}}}, or --hold {name}={known[name]:g}"
            )


def _check_bodies(robot: Parts, result: Result, mechanism: Mechanism) -> None:
    """The same links are bodies."""
    known = {body.name: body.free for body in mechanism.bodies}
    for name, body in robot.bodies.items():
        if known.get(name) is not body.free:
            raise ProblemError(
                f"body {name!r} of robot {robot.name!r} is not the same in the results of {result.problem!r}; read the "
                "robot as the problem does: with free=, merge= and held= as there"
            )
    for name in known:
        if name in robot.description.links and name not in robot.bodies:
            raise ProblemError(
                f"{name!r} is a body of its own in the results of {result.problem!r}, and part of "
                f"{robot.grouped.groups[name].name!r} in robot {robot.name!r}; read the robot as the problem does: "
                "with free=, merge= and held= as there"
            )


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
            return f"is {number(off, 3)} m off on {name!r} from where it is"
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
