"""The UR10e by FIGAROH, in an environment of its own: ``python figaroh_arm.py DATA``, where ``arm.py`` starts it.

Its regressor, base parameters by its QR decomposition, and least squares in two passes weighted by what each joint
leaves. Derivatives are those of filtered positions, as its examples take them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pinocchio
from figaroh.tools.qrdecomposition import get_baseParams
from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced, get_index_eliminate
from pinocchio.robot_wrapper import RobotWrapper
from scipy.signal import butter, sosfiltfilt

GAINS = np.array([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])
"""Published [N m/A]."""
RATE, CUTOFF = 100.0, 6.0
"""Of the samples, and of the filter [Hz]."""
SETTINGS = {
    **{"is_joint_torques": True, "is_external_wrench": False},
    **{"act_idxv": range(6), "act_idxq": range(6)},
    **{"has_friction": True, "has_actuator_inertia": True, "has_joint_offset": True},
}


def filtered(values: np.ndarray) -> np.ndarray:
    return np.asarray(sosfiltfilt(butter(4, CUTOFF, fs=RATE, output="sos"), values, axis=0))


def regression(robot: RobotWrapper, file: Path, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Regressor (6 N, p) and torques (6 N,) of a log, joint by joint, both filtered."""
    log = np.load(file)
    t = np.arange(log["t"][first], log["t"][last], 1 / RATE)
    q, current = (
        np.column_stack([np.interp(t, log["t"], log[name][:, i]) for i in range(6)]) for name in ("q", "current")
    )
    q, torque = filtered(q), filtered(GAINS * current)
    v = np.gradient(q, 1 / RATE, axis=0)
    a = np.gradient(v, 1 / RATE, axis=0)
    W = build_regressor_basic(robot, q, v, a, SETTINGS)
    kept = slice(round(0.5 * RATE), -round(0.5 * RATE))
    W = np.concatenate([filtered(rows)[kept] for rows in W.reshape(6, len(t), -1)])
    return W, torque[kept].T.ravel()


def main(data: Path) -> None:
    robot = RobotWrapper(pinocchio.buildModelFromUrdf(str(data / "ur10e.urdf")))
    W, torque = regression(robot, data / "excitation_12harm_40s.npz", 500, 4460)
    names = {f"p{i}": 0.0 for i in range(W.shape[1])}
    gone, rest = get_index_eliminate(W, names)
    base, _, places = get_baseParams(build_regressor_reduced(W, gone), rest)
    weights = np.ones(len(torque))
    for _ in range(2):
        found = np.linalg.lstsq(weights[:, None] * base, weights * torque, rcond=None)[0]
        errors = np.sqrt(np.mean((torque - base @ found).reshape(6, -1) ** 2, axis=1))
        weights = np.repeat(1 / errors, len(torque) // 6)
    W, torque = regression(robot, data / "excitation_14harm_50s.npz", 195, 4966)
    unseen = build_regressor_reduced(W, gone)[:, list(places)]
    off = np.sqrt(np.mean((torque - unseen @ found).reshape(6, -1) ** 2, axis=1))
    sys.stdout.write(json.dumps({"errors": off.tolist(), "numbers": len(found)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
