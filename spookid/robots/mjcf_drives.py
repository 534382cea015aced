"""Drives of an MJCF: motors whose effort is proportional to a control, and servos that follow a command."""

from __future__ import annotations

from typing import Any

import numpy as np

from spookid.robots.description import Actuator, FileServo


def _single(mujoco: Any) -> tuple[Any, ...]:
    """Joints of one coordinate."""
    return mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE


def servos_of(spec: Any, mujoco: Any) -> tuple[FileServo, ...]:
    """Servos of one coordinate without a gear, with the effort k_p (u − q) − k_d s or k_p (u − s); u may have a lag."""
    plain = (
        mujoco.mjtTrn.mjTRN_JOINT,
        mujoco.mjtGain.mjGAIN_FIXED,
        mujoco.mjtBias.mjBIAS_AFFINE,
    )
    lags = mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT
    single = {joint.name for joint in spec.joints if joint.type in _single(mujoco)}
    found = []
    for one in spec.actuators:
        kp, (constant, of_position, of_rate) = float(one.gainprm[0]), map(float, one.biasprm[:3])
        own = (one.trntype, one.gaintype, one.biastype) == plain and one.target in single
        lag = float(one.dynprm[0]) if one.dyntype in lags else 0.0
        own = own and one.dyntype in (mujoco.mjtDyn.mjDYN_NONE, *lags)
        if not own or one.gear[0] != 1 or constant != 0 or kp <= 0 or of_position not in (0, -kp):
            continue
        if of_position == 0 and of_rate != -kp:
            continue
        mode, kd = ("position", -of_rate) if of_position else ("velocity", 0.0)
        largest = max(map(abs, map(float, one.forcerange)))
        limit = largest if one.forcelimited and largest > 0 else np.inf
        name = one.name or f"{one.target}_servo"
        found.append(FileServo(name, one.target, mode, kp, kd, limit, float(one.delay), lag))  # type: ignore[arg-type]
    return tuple(found)


def motors_of(spec: Any, mujoco: Any, path: str) -> tuple[Actuator, ...]:
    """Motors along one coordinate, with effort gear times gain times control input."""
    plain = mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtDyn.mjDYN_NONE
    single = {joint.name for joint in spec.joints if joint.type in _single(mujoco)}
    return tuple(
        Actuator(one.name or f"{one.target}_motor", one.target, float(one.gear[0] * one.gainprm[0]), path)
        for one in spec.actuators
        if (one.trntype, one.gaintype, one.biastype, one.dyntype) == plain and one.target in single
    )
