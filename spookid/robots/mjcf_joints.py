"""The joints of one body of a compiled MJCF, of which there may be several, as one joint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.robots.description import Connection, Freedom, Kind, Limits, Placement

_FREE, _BALL, _SLIDE, _HINGE = range(4)
"""MuJoCo's numbers of joints."""
_TYPES = ("free", "ball", "slide", "hinge")
_RIGHT = 1e-9
"""Largest cosine of a right angle, and largest distance of points that are one [m]."""


def quaternion_axes(quaternion: Array) -> Array:
    """Axes of a frame from its quaternion, scalar first, (3, 3)."""
    return np.asarray(Rotation.from_quat(np.roll(quaternion, -1)).as_matrix())


def joint_names(model: Any, bodies: Sequence[str]) -> list[str]:
    """Of all joints; those without a name are called after their bodies."""
    names = []
    for j in range(model.njnt):
        body = int(model.jnt_bodyid[j])
        place = j - int(model.body_jntadr[body]) + 1
        after = f"{bodies[body]}_joint" + (f"_{place}" if model.body_jntnum[body] > 1 else "")
        names.append(str(model.joint(j).name) or after)
    return names


def joined(model: Any, joints: Sequence[tuple[int, str, str]], body: str, place: str) -> Connection:
    """What holds a body, in the place of its own frame on its parent.

    Args:
        joints: number, name and place of each.

    Raises:
        ProblemError: for joints that make none of the package's.
    """
    types = [int(model.jnt_type[j]) for j, _, _ in joints]
    name = " and ".join(name for _, name, _ in joints) or f"{body} is fixed"
    at = joints[0][2] if joints else place
    plain: dict[tuple[int, ...], Kind] = {(): "fixed", (_FREE,): "free", (_HINGE,): "hinge", (_SLIDE,): "slide"}
    freedoms = [_freedom(model, *joint) for joint in joints if types[0] != _FREE]
    if tuple(types) in plain:
        inner = outer = Placement.none()
        if freedoms:
            j, moved = joints[0][0], _at_first(model, joints[0][0])
            inner = _frame(model, j)
            outer = inner.turned(moved) if types[0] == _HINGE else inner.moved(moved)
        return Connection(name, plain[tuple(types)], "", body, inner, outer, at, tuple(freedoms))
    if types == [_BALL]:
        own = Placement(model.jnt_pos[joints[0][0]].copy(), np.eye(3))
        return Connection(name, "ball", "", body, own, own, at, tuple(freedoms))
    found = _several(model, [j for j, _, _ in joints], types)
    if found is None:
        kinds = ", ".join(_TYPES[kind] for kind in types)
        raise ProblemError(
            f"{at}: body {body!r} has joints {name} ({kinds}), which together are no universal, cylindrical or planar "
            "joint; give each a body with a mass of its own, or make three hinges a ball"
        )
    kind, inner, outer, order = found
    return Connection(name, kind, "", body, inner, outer, at, tuple(freedoms[i] for i in order))


def _several(
    model: Any, joints: list[int], types: list[int]
) -> tuple[Kind, Placement, Placement, tuple[int, ...]] | None:
    """Kind, both frames on the body, and which joint each coordinate is."""
    axes = [model.jnt_axis[j] for j in joints]
    first = [_at_first(model, j) for j in joints]
    at = [model.jnt_pos[j] for j in joints]
    if types == [_HINGE, _HINGE] and _across(*axes) and np.linalg.norm(at[0] - at[1]) < _RIGHT:
        inner = Placement(model.jnt_pos[joints[0]].copy(), _axes(axes[0], axes[1]))
        turn = Rotation.from_rotvec([0, first[1], 0]).as_matrix()
        return "universal", inner.turned(-first[0]), Placement(inner.at, inner.axes @ turn), (0, 1)
    if sorted(types) == [_SLIDE, _HINGE] and np.linalg.norm(axes[0] - axes[1]) < _RIGHT:
        order = (types.index(_SLIDE), types.index(_HINGE))
        inner = _frame(model, joints[order[1]])
        return "cylindrical", inner, inner.moved(first[order[0]]).turned(first[order[1]]), order
    if types == [_SLIDE, _SLIDE, _HINGE] and all(_across(axes[i], axes[j]) for i, j in ((0, 1), (0, 2), (1, 2))):
        order3 = (0, 1, 2) if np.dot(np.cross(axes[0], axes[1]), axes[2]) > 0 else (1, 0, 2)
        inner = Placement(model.jnt_pos[joints[2]].copy(), _axes(axes[2], axes[order3[0]]))
        # Its angle turns about the origin of its outer frame, which the positions must not move.
        before = Placement(inner.at - first[0] * axes[0] - first[1] * axes[1], inner.axes)
        return "planar", before, inner.turned(first[2]), order3
    return None


def _axes(x: Array, y: Array) -> Array:
    return np.column_stack([x, y, np.cross(x, y)])


def _across(a: Array, b: Array) -> bool:
    return bool(abs(np.dot(a, b)) < _RIGHT)


def _frame(model: Any, j: int) -> Placement:
    return Placement.along(model.jnt_axis[j], model.jnt_pos[j].copy())


def _at_first(model: Any, j: int) -> float:
    """Where a joint of one coordinate is as the file has it."""
    return float(model.qpos0[model.jnt_qposadr[j]])


def _freedom(model: Any, j: int, name: str, place: str) -> Freedom:
    dof = int(model.jnt_dofadr[j])
    ends = map(float, model.jnt_range[j]) if model.jnt_limited[j] else (-np.inf, np.inf)
    lower, upper = ends
    effort = float(np.max(np.abs(model.jnt_actfrcrange[j]))) if model.jnt_actfrclimited[j] else np.inf
    ball = model.jnt_type[j] == _BALL
    stiffness = float(model.jnt_stiffness[j])
    rest = 0.0 if ball or stiffness == 0 else float(model.qpos_spring[model.jnt_qposadr[j]])
    return Freedom(
        name,
        place,
        damping=float(model.dof_damping[dof]),
        friction=float(model.dof_frictionloss[dof]),
        armature=float(model.dof_armature[dof]),
        stiffness=stiffness,
        rest=rest,
        limits=Limits() if ball else Limits(lower, upper, effort),
    )
