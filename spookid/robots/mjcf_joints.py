"""The joints of one body of a compiled MJCF, of which there may be several, as one joint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.robots.description import Connection, Freedom, Kind, Limits, Placement

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's numbers of joints."""
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
    plain: dict[tuple[int, ...], Kind] = {(): "fixed", (FREE,): "free", (HINGE,): "hinge", (SLIDE,): "slide"}
    freedoms = [_freedom(model, *joint) for joint in joints if types[0] != FREE]
    if tuple(types) in plain:
        inner = outer = Placement.none()
        if freedoms:
            j, moved = joints[0][0], _at_first(model, joints[0][0])
            inner = _frame(model, j)
            outer = inner.turned(moved) if types[0] == HINGE else inner.moved(moved)
        return Connection(name, plain[tuple(types)], "", body, inner, outer, at, tuple(freedoms))
    if types == [BALL]:
        own = Placement(model.jnt_pos[joints[0][0]].copy(), np.eye(3))
        return Connection(name, "ball", "", body, own, own, at, tuple(freedoms))
    found = _several(model, [j for j, _, _ in joints], types)
    if found is None:
        kinds = ", ".join(("free", "ball", "slide", "hinge")[kind] for kind in types)
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
    right = np.abs(np.array(axes) @ np.array(axes).T) < _RIGHT
    if types == [HINGE, HINGE] and right[0, 1] and np.linalg.norm(at[0] - at[1]) < _RIGHT:
        inner = Placement(at[0].copy(), np.column_stack([axes[0], axes[1], np.cross(axes[0], axes[1])]))
        turn = Rotation.from_rotvec([0, first[1], 0]).as_matrix()
        return "universal", inner.turned(-first[0]), Placement(inner.at, inner.axes @ turn), (0, 1)
    if sorted(types) == [SLIDE, HINGE] and np.linalg.norm(axes[0] - axes[1]) < _RIGHT:
        order = (types.index(SLIDE), types.index(HINGE))
        inner = _frame(model, joints[order[1]])
        return "cylindrical", inner, inner.moved(first[order[0]]).turned(first[order[1]]), order
    if types == [SLIDE, SLIDE, HINGE] and right[0, 1] and right[0, 2] and right[1, 2]:
        order3 = (0, 1, 2) if np.dot(np.cross(axes[0], axes[1]), axes[2]) > 0 else (1, 0, 2)
        x, y = axes[2], axes[order3[0]]
        inner = Placement(at[2].copy(), np.column_stack([x, y, np.cross(x, y)]))
        # Its angle turns about the origin of its outer frame, which the positions must not move.
        before = Placement(inner.at - first[0] * axes[0] - first[1] * axes[1], inner.axes)
        return "planar", before, inner.turned(first[2]), order3
    return None


def _frame(model: Any, j: int) -> Placement:
    return Placement.along(model.jnt_axis[j], model.jnt_pos[j].copy())


def _at_first(model: Any, j: int) -> float:
    """Where a joint of one coordinate is as the file has it."""
    return float(model.qpos0[model.jnt_qposadr[j]])


def _freedom(model: Any, j: int, name: str, place: str) -> Freedom:
    dof = int(model.jnt_dofadr[j])
    lower, upper = map(float, model.jnt_range[j]) if model.jnt_limited[j] else (-np.inf, np.inf)
    effort = float(np.max(np.abs(model.jnt_actfrcrange[j]))) if model.jnt_actfrclimited[j] else np.inf
    ball = model.jnt_type[j] == BALL
    stiffness = float(model.jnt_stiffness[j])
    rest = 0.0 if ball or stiffness == 0 else float(model.qpos_spring[model.jnt_qposadr[j]])
    return Freedom(
        name,
        place,
        viscous=float(model.dof_damping[dof]),
        coulomb=float(model.dof_frictionloss[dof]),
        armature=float(model.dof_armature[dof]),
        stiffness=stiffness,
        rest=rest,
        limits=Limits() if ball else Limits(lower, upper, effort),
    )
