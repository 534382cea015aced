"""Inverse dynamics of a serial arm by least squares, as robots are mostly identified; nothing of it is the package's.

Positions are put on a uniform grid, low-passed forward and back and differentiated; torques, and the columns that they
are linear in, pass the same filter. Columns are ten inertial parameters a link, and motor inertia, viscous and Coulomb
friction and an offset a joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, filtfilt

Array = np.ndarray
ENDS = 3.0  # periods of the cutoff that are left out at both ends
_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Place:
    """A joint in the frame of the link before, whose frame turns with it."""

    at: tuple[float, float, float]
    turn: Array
    """Of its frame at angle 0, (3, 3)."""
    axis: str
    """In its own frame."""


@dataclass(frozen=True)
class Record:
    """A trajectory, filtered."""

    t: Array
    columns: Array
    """(N, joints, columns), filtered."""
    torques: Array
    """(N, joints), filtered."""


def record(chain: Sequence[Place], t: Array, q: Array, torques: Array, cutoff: float, interval: float) -> Record:
    """Columns and torques of a trajectory; friction turns over 1 % of the rms rate, as it does in fits."""
    uniform = np.arange(t[0], t[-1], interval)
    sections = butter(2, 2 * cutoff * interval)

    def filtered(values: Array) -> Array:
        return filtfilt(*sections, values, axis=0)

    def sampled(values: Array) -> Array:
        return np.column_stack([np.interp(uniform, t, column) for column in values.T])

    q = filtered(sampled(q))
    v = np.gradient(q, interval, axis=0)
    a = np.gradient(v, interval, axis=0)
    sign = np.tanh(v / (0.01 * np.sqrt(np.mean(v**2, axis=0))))
    n = len(chain)
    own = np.zeros((len(q), n, 4 * n))
    for j in range(n):
        own[:, j, 4 * j : 4 * j + 4] = np.column_stack([a[:, j], v[:, j], sign[:, j], np.ones(len(q))])
    ends = int(np.ceil(ENDS / cutoff / interval))
    kept = slice(ends, -ends)
    columns = filtered(np.concatenate([inertial(chain, q, v, a), own], axis=2))
    return Record(uniform[kept], columns[kept], filtered(sampled(torques))[kept])


def inertial(chain: Sequence[Place], q: Array, v: Array, a: Array) -> Array:
    """What torques are linear in: m, m c, I_xx, I_yy, I_zz, I_xy, I_xz, I_yz about each link's joint, (N, n, 10 n)."""
    count, n = q.shape
    found = np.zeros((count, n, 10 * n))
    R, p = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3))
    omega, alpha, pull = np.zeros((count, 3)), np.zeros((count, 3)), np.tile([0, 0, 9.81], (count, 1))
    axes, origins = [], []
    for i, place in enumerate(chain):
        away = R @ np.array(place.at)
        pull = pull + np.cross(alpha, away) + np.cross(omega, np.cross(omega, away))
        p, R = p + away, R @ place.turn
        axis = R[:, :, _AXES[place.axis]]
        alpha = alpha + axis * a[:, i, None] + np.cross(omega, axis) * v[:, i, None]
        omega = omega + axis * v[:, i, None]
        R = R @ _turned(place.axis, q[:, i])
        axes, origins = [*axes, axis], [*origins, p]
        w, d, g = (np.einsum("nji,nj->ni", R, part) for part in (omega, alpha, pull))
        zero = np.zeros((count, 3, 6))
        force = R @ np.concatenate([g[:, :, None], _cross(d) + _cross(w) @ _cross(w), zero], axis=2)
        moments = [zero[:, :, :1], -_cross(g), _entries(d) + _cross(w) @ _entries(w)]
        moment = R @ np.concatenate(moments, axis=2)
        for j in range(i + 1):
            about = moment + _cross(p - origins[j]) @ force
            found[:, j, 10 * i : 10 * i + 10] = np.einsum("nk,nkc->nc", axes[j], about)
    return found


def least_squares(one: Record) -> tuple[Array, int]:
    """Parameters, weighted by what a first solution leaves at each joint; and the rank of the columns."""
    weights, n = np.ones(one.torques.shape[1]), one.columns.shape[2]
    for _ in range(3):
        rows, right = one.columns / weights[:, None], one.torques / weights
        found, _, rank, _ = np.linalg.lstsq(rows.reshape(-1, n), right.ravel(), rcond=1e-6)
        weights = errors(one, found)
    return found, int(rank)


def errors(one: Record, parameters: Array) -> Array:
    """Root mean square of measured less predicted torques of each joint."""
    return np.sqrt(np.mean((one.torques - one.columns @ parameters) ** 2, axis=0))


def _turned(axis: str, angle: Array) -> Array:
    i, j, k = ((_AXES[axis] + shift) % 3 for shift in range(3))
    R = np.zeros((len(angle), 3, 3))
    R[:, i, i] = 1
    R[:, j, j] = R[:, k, k] = np.cos(angle)
    R[:, k, j] = np.sin(angle)
    R[:, j, k] = -R[:, k, j]
    return R


def _cross(w: Array) -> Array:
    x, y, z = w.T
    zero = np.zeros_like(x)
    return np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)


def _entries(w: Array) -> Array:
    """I w in the six entries of I."""
    x, y, z = w.T
    zero = np.zeros_like(x)
    rows = [[x, zero, zero, y, z, zero], [zero, y, zero, x, zero, z], [zero, zero, z, zero, x, y]]
    return np.array(rows).transpose(2, 0, 1)
