"""Poses and velocities of a mechanism as numbers: bodies placed joint by joint, and differences of poses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array, contiguous
from spookid.kernels.kernel import Kernel
from spookid.mechanics import rotations
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.model import Model
from spookid.parameter import Parameter, parameters_in, stacked, substitute
from spookid.records import dataclass

Values = Mapping[str, float]
"""Number of every parameter of the model, by name."""


def rest_positions(model: Model, values: Values) -> Array:
    """Where the springs of each joint's coordinates are at rest, (n_s,) [rad or m]."""
    rest = [ca.SX.zeros(len(joint.coordinates)) + joint.rest for joint in model.joints]
    return substitute(stacked(rest), values)


def place(model: Model, displacements: Array, values: Values) -> Array:
    """Poses with every joint at its coordinates and no constraint of the tree violated.

    Args:
        displacements: of all joints, (N, n_s) [rad or m].

    Returns:
        q, (N, 7 n_b); free bodies stand at the origin.
    """
    return _placed(model)(displacements, values)


@lru_cache(maxsize=8)
def _placed(model: Model) -> _ByRows:
    joints = JointCoordinates(model)
    given = ca.SX.sym("displacements", len(model.freedoms))
    return _ByRows.of(joints.posed(given), given)


@cache
def _turn() -> Kernel:
    """From one quaternion to another, by its rotation vector."""
    e0, e1 = ca.SX.sym("e0", 4), ca.SX.sym("e1", 4)
    return Kernel(ca.Function("turn", [e0, e1], [ca.densify(rotations.difference(e1, e0))]), 2)


def velocities(poses: Array, step: float) -> Array:
    """v_{k+1} = (q_{k+1} ⊟ q_k)/h with the exact logarithm, v_0 = v_1; (N, 7 n_b) to (N, 6 n_b) (4.3)."""
    columns = []
    for pose in np.split(poses, poses.shape[1] // 7, axis=1):
        e = contiguous(pose[:, 3:] / np.linalg.norm(pose[:, 3:], axis=1, keepdims=True))
        turned = _turn()([e[:-1], e[1:]], [], np.empty((len(e) - 1, 3)))
        columns += [np.diff(pose[:, :3], axis=0), turned]
    moved = np.hstack(columns) / step
    return np.vstack([moved[:1], moved])


def central(poses: Array, step: float) -> Array:
    """Velocities at each pose, the mean of both sides, extrapolated at the ends; (N, 7 n_b) to (N, 6 n_b)."""
    sides = velocities(np.ascontiguousarray(poses), step)[1:]
    middle = (sides[1:] + sides[:-1]) / 2
    first, last = 1.5 * sides[:1] - 0.5 * sides[1:2], 1.5 * sides[-1:] - 0.5 * sides[-2:-1]
    return np.vstack([first, middle, last])


def displacements(model: Model, poses: Array, values: Values) -> Array:
    """Coordinates of all joints, angles of hinges in (−π, π], (N, 7 n_b) to (N, n_s)."""
    return _displaced(model)(poses, values)


@lru_cache(maxsize=8)
def _displaced(model: Model) -> _ByRows:
    q = ca.SX.sym("q", model.configuration.ambient)
    return _ByRows.of(model.displacements(q), q)


def unwrapped(model: Model, displacements: Array) -> Array:
    """Coordinates (N, n_s) with those that have a period made continuous in time."""
    columns = displacements.copy()
    for i, freedom in enumerate(model.freedoms):
        if freedom.coordinate.period is not None:
            columns[:, i] = np.unwrap(columns[:, i], period=freedom.coordinate.period)
    return columns


def evaluated(expression: ca.SX, symbol: ca.SX, rows: Array, values: Values) -> Array:
    """An expression of ``symbol`` at each row of numbers, (N, n)."""
    return _ByRows.of(expression, symbol)(rows, values)


@dataclass(frozen=True, eq=False)
class _ByRows:
    """An expression that is evaluated at each row of numbers."""

    kernel: Kernel
    columns: int
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, expression: ca.SX, symbol: ca.SX) -> _ByRows:
        """For numbers of a symbol."""
        parameters = parameters_in([expression], "the model", ignore=[symbol])
        function = ca.Function("rows", [symbol, ca.vertcat(*parameters)], [ca.densify(expression)])
        return cls(Kernel(function, 1), expression.numel(), tuple(parameters))

    def __call__(self, rows: Array, values: Values) -> Array:
        """Its values, (N, n)."""
        out = np.empty((len(rows), self.columns))
        numbers = contiguous([values[p.name] for p in self.parameters])
        return self.kernel([contiguous(rows)], [numbers], out) if out.size else out
