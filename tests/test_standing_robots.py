"""Robots of example-robot-data on their feet: inertias, friction and contact forces from encoders, torques and an
inertial unit on a base that moves freely. ``SPOOKID_ROBOTS`` names the folder of its robots."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from standing_robots import Legged, standing

from spookid import Status

FOLDER = Path(os.environ.get("SPOOKID_ROBOTS", "missing"))
LEGS = ("FL", "FR", "RL", "RR")

pytestmark = [pytest.mark.study, pytest.mark.skipif(not FOLDER.is_dir(), reason="SPOOKID_ROBOTS names no folder")]


def b1() -> Legged:
    """A quadruped of 50 kg, its trunk heavier and its thighs lighter than in its file."""
    scales = {"root_joint": 1.1, **{f"{leg}_thigh_joint": 0.9 for leg in LEGS}}
    posture = {f"{leg}_{joint}_joint": angle for leg in LEGS for joint, angle in (("thigh", 0.8), ("calf", -1.6))}
    path, feet = FOLDER / "b1_description/urdf/b1.urdf", [f"{leg}_foot" for leg in LEGS]
    return Legged(str(path), feet, posture, scales, 0.5, (300.0, 10.0))


def bolt() -> Legged:
    """A biped of 1.3 kg on points, which cannot stand still."""
    scales = {"root_joint": 1.1, "FL_HFE": 0.9, "FR_HFE": 0.9}
    posture = {f"{leg}_{joint}": angle for leg in LEGS[:2] for joint, angle in (("HFE", 0.6), ("KFE", -1.2))}
    path = FOLDER / "bolt_description/robots/bolt.urdf"
    return Legged(str(path), ["FL_FOOT", "FR_FOOT"], posture, scales, 0.01, (6.0, 0.1))


@pytest.mark.parametrize(
    ("robot", "groups", "true", "duration", "step", "lifted"),
    [
        (b1, {"trunk": "base", "hip": "hip", "thigh": "thigh", "calf": "calf"}, (1.1, 1.0, 0.9, 1.0), 1.0, 0.01, {}),
        (bolt, {"base": "base", "upper": "UPPER", "rest": "L"}, (1.1, 0.9, 1.0), 0.6, 0.005, {}),
        (bolt, {"base": "base", "upper": "UPPER", "rest": "L"}, (1.1, 0.9, 1.0), 0.6, 0.005, {1: 0.3}),
    ],
)
def test_scales_friction_and_forces(robot, groups, true, duration, step, lifted):
    legged = robot()
    recording, forces = legged.recorded(duration, 0.005, lifted, seed=0)
    problem = standing(legged, recording, groups, step=step, step_correction=False)
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    for name, value in {**dict(zip(groups, true, strict=True)), "b": legged.viscous}.items():
        found = solution["b" if name == "b" else f"s_{name}"]
        assert abs(found.estimate - value) < 3.5 * found.std_err
        assert found.std_err < (0.25 * value if name == "b" else 0.05)
    every = round(step / 0.005)
    switch = round(min(lifted.values(), default=duration) / step)
    for i, foot in enumerate(legged.feet):
        found = problem.contact_forces(solution)[foot][5 : switch - 3]
        apart = found - forces[::every, i][5 : switch - 3]
        assert np.sqrt(np.mean(apart**2)) < 0.02 * np.abs(forces).max()
