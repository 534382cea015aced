"""Poses and velocities of a mechanism as numbers: bodies placed hinge by hinge, and differences of poses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.spatial.transform import Rotation

from spookid.kernels.kernel import Array
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in, substitute

Values = Mapping[str, float]
"""Number of every parameter of the model, by name."""


@dataclass(frozen=True, eq=False)
class _Pose:
    position: Array
    """(N, 3)."""
    rotation: Rotation

    def frame(self, at: Array, axes: Array) -> _Pose:
        """A frame fixed in this pose."""
        return _Pose(self.position + self.rotation.apply(at), self.rotation * Rotation.from_matrix(axes))

    def body(self, at: Array, axes: Array) -> _Pose:
        """The pose whose frame this is."""
        rotation = self.rotation * Rotation.from_matrix(axes).inv()
        return _Pose(self.position - rotation.apply(at), rotation)


def rest_angles(model: Model, values: Values) -> Array:
    """Rest angle of each hinge, (n_j,) [rad]."""
    return np.array([_number(joint.rest_angle, values).item() for joint in model.joints])


def place(model: Model, angles: Array, values: Values) -> Array:
    """Poses with every hinge at its angle and no constraint violated.

    Args:
        angles: (N, n_j) [rad].

    Returns:
        q, (N, 7 n_b); free bodies stand at the origin.
    """
    count = len(angles)
    origin = _Pose(np.zeros((count, 3)), Rotation.from_rotvec(np.zeros((count, 3))))
    poses: dict[Body, _Pose] = {GROUND: origin, **{body: origin for body in model.bodies if body.free}}
    for joint in model.tree():
        turn = angles[:, [model.joints.index(joint)]] * np.array([1.0, 0.0, 0.0])
        known, new = (joint.parent, joint.child) if joint.parent.body in poses else (joint.child, joint.parent)
        turn = turn if known is joint.parent else -turn
        base = poses[known.body].frame(*_frame(known, values))
        turned = _Pose(base.position, base.rotation * Rotation.from_rotvec(turn))
        poses[new.body] = turned.body(*_frame(new, values))
    placed = [poses[body] for body in model.bodies]
    return np.hstack([np.hstack([p.position, p.rotation.as_quat(scalar_first=True)]) for p in placed])


def velocities(poses: Array, step: float) -> Array:
    """v_{k+1} = (q_{k+1} ⊟ q_k)/h with the exact logarithm, v_0 = v_1; (N, 7 n_b) to (N, 6 n_b) (4.3)."""
    columns = []
    for pose in np.split(poses, poses.shape[1] // 7, axis=1):
        rotation = Rotation.from_quat(pose[:, 3:], scalar_first=True)
        turned = (rotation[:-1].inv() * rotation[1:]).as_rotvec()
        columns += [np.diff(pose[:, :3], axis=0), turned]
    moved = np.hstack(columns) / step
    return np.vstack([moved[:1], moved])


def central(poses: Array, step: float) -> Array:
    """Velocities at each pose, the mean of both sides, extrapolated at the ends; (N, 7 n_b) to (N, 6 n_b)."""
    sides = velocities(np.ascontiguousarray(poses), step)[1:]
    middle = (sides[1:] + sides[:-1]) / 2
    first, last = 1.5 * sides[:1] - 0.5 * sides[1:2], 1.5 * sides[-1:] - 0.5 * sides[-2:-1]
    return np.vstack([first, middle, last])


def _frame(frame: Frame, values: Values) -> tuple[Array, Array]:
    return _number(frame.at, values), _number(frame.axes, values)


def _number(expression: ca.SX, values: Values) -> Array:
    return substitute(expression, values)


def hinge_angles(model: Model, poses: Array, values: Values) -> Array:
    """Angles of all hinges in (−π, π], (N, 7 n_b) to (N, n_j)."""
    q = ca.SX.sym("q", model.configuration.ambient)
    still = ca.SX(model.configuration.tangent, 1)
    angles = ca.vertcat(ca.SX(0, 1), *(model.hinge(joint, q, still).angle for joint in model.joints))
    parameters = parameters_in([angles], "the model", ignore=[q])
    function = ca.Function("angles", [q, ca.vertcat(*parameters)], [angles])
    numbers = ca.DM([values[p.name] for p in parameters])
    return np.asarray(function(poses.T, numbers).full()).T


_MOST_CORRECTIONS = 50
_SETTLED = 1e-12


def follow(rows: ca.Function, start: Array, targets: Array) -> Array:
    """Poses along which rows vanish, or are least, each from the pose before: (N, 7 n_b).

    Args:
        rows: (q, target, step) to rows, their Jacobian (rows, 6 n_b) and q ⊞ step.
        start: where to begin, (7 n_b,).
        targets: (N, n).
    """
    poses, q, still = [], start, np.zeros(6 * len(start) // 7)
    for target in targets:
        for _ in range(_MOST_CORRECTIONS):
            value, slope, _ = (np.asarray(part.full()) for part in rows(q, target, still))
            step = -np.linalg.lstsq(slope, value[:, 0], rcond=1e-10)[0]
            # Half a radian at a time keeps far starts on the branch they are on.
            step *= min(1.0, 0.5 / max(float(np.max(np.abs(step))), 1e-300))
            q = rows(q, target, step)[2].full()[:, 0]
            if np.max(np.abs(step)) <= _SETTLED:
                break
        poses.append(q)
    return np.array(poses)
