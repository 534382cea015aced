"""Planned motions of a leg on a floating base within the cone of its foot, and of a loop: beside the same mechanism on
the ground, limits, refusals, the commands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Accelerometer,
    Body,
    FullInertia,
    Gyroscope,
    Hinge,
    JointPosition,
    Model,
    MotionLimits,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Weld,
    gravity,
)
from spookid.__main__ import main

G = 9.81
HOME = {"ankle": 0.5, "knee": -0.5}  # the trunk is upright
NOISE = {"ankle_tau": 0.1, "knee_tau": 0.1, "ankle_q": 1e-5, "knee_q": 1e-5}
WRENCH = {"trunk force": 1e-3, "trunk torque": 1e-3}
LIMITS = MotionLimits(
    position={"ankle": (0.0, 1.0), "knee": (-1.6, -0.1)},
    rate={"ankle": 3.0, "knee": 3.0},
    effort={"ankle": 12.0, "knee": 30.0},
    place={"trunk": [(-math.inf, math.inf), (-math.inf, math.inf), (-0.22, math.inf)]},  # at home it is at -0.2
    cone={"sole": (0.3, 20.0)},
)
HOW = {"initial": HOME, "rate": 50.0, "harmonics": 3, "noise": NOISE | WRENCH}


def leg(floating: bool = True, motors: int = 2) -> Problem:
    """Foot, shank and trunk in the plane x, z: the foot is welded to the ground, or is the ground."""
    m, c = Parameter("m", 5.0, lower=0.1, unit="kg"), Parameter("c", 0.3, lower=0, unit="N m")
    foot = Body("foot", mass=0.5, inertia=(0.01, 0.01, 0.01))
    shank = Body("shank", inertia=FullInertia(1.0, (0, 0, 0.15), inertia=(0.01, 0.01, 0.001)))
    trunk = Body("trunk", inertia=FullInertia(m, (0, 0, 0.2), inertia=(0.05, 0.05, 0.05)), free=floating)
    axle = dict(x=(0, 1, 0), y=(0, 0, 1))
    ankle = Hinge(
        "ankle", (foot if floating else GROUND).frame(at=(0, 0, 0.05), **axle), shank.frame(**axle), coulomb=c
    )
    knee = Hinge("knee", shank.frame(at=(0, 0, 0.3), **axle), trunk.frame(**axle))
    bodies, contacts = ([foot, shank, trunk], [Weld("sole", foot.frame())]) if floating else ([shank, trunk], [])
    model = Model(
        bodies,
        [ankle, knee],
        motors=[Motor(joint, f"{joint.name}_tau", measured=True) for joint in (ankle, knee)[:motors]],
        constraints=contacts,
        gravity=gravity(G),
    )
    seen: list[Any] = [JointPosition(joint, f"{joint.name}_q") for joint in (ankle, knee)]
    if floating:  # of which way is up nothing else tells
        seen.append(Accelerometer(trunk.frame(), ("acc_x", "acc_y", "acc_z"), sigma=0.01))
        seen.append(Gyroscope(trunk.frame(), ("gyro_x", "gyro_y", "gyro_z"), sigma=1e-3))
    return Problem("leg", model=model, recordings=[], observations=seen, friction_width=0.05)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (MotionLimits(cone={"sole": (0.3, 80.0)}), "holding the home pose takes .* more than the limits"),
        (MotionLimits(cone={"heel": (0.3, 20.0)}), "limits name the contact 'heel'; there are sole"),
        (MotionLimits(position={"knee": (0.0, 1.0)}), "'knee' is at -0.5 in the home pose, outside of its limits"),
    ],
)
def test_what_cannot_stand_is_refused(limits: MotionLimits, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        leg().excite(2.0, limits.over(LIMITS), **HOW)


def test_a_base_that_no_motor_holds_is_refused() -> None:
    limits = MotionLimits(rate={"ankle": 3.0, "knee": 3.0})
    with pytest.raises(ProblemError, match="'knee' is driven by no motor, and no loop or contact bears"):
        leg(motors=1).excite(2.0, limits, initial=HOME, noise={"ankle_tau": 0.1} | WRENCH)


def test_the_commands_of_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Home is where the recording begins; other joints follow from the crank's angle."""
    file, out = Path(__file__).parents[1] / "problems" / "fourbar.py", tmp_path / "plan.csv"
    noise = ["--noise", "*=1e-3"]
    limits = ["--rate-limit", "*=8", "--effort-limit", "drive=1"]
    small = ["--duration", "1", "--rate", "50", "--harmonics", "3", "--starts", "1", "--step", "0.02"]
    assert main(["excite", str(file), *noise, *limits, *small, "--until", "I_crank=1%", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "The standard error of I_crank is below 1 % after" in said
    plan, crank, rocker, base = Recording.from_csv(out), 0.10, 0.30, 0.30
    assert max(np.abs(plan.signals[f"{joint}_rate"]).max() for joint in ("drive", "knee", "wrist", "pivot")) <= 8.0
    angles = plan.signals["crank"], plan.signals["rocker"]
    ends = [r * np.stack([np.cos(q), np.sin(q)]) for r, q in zip((crank, rocker), angles, strict=True)]
    assert np.allclose(np.linalg.norm(ends[0] - ends[1] - [[base], [0.0]], axis=0), 0.25, atol=1e-8), "the loop closes"
    positions = tmp_path / "positions.csv"
    Recording(plan.t, {"crank": plan.signals["crank"]}).to_csv(positions)
    check = ["check", str(file), *noise, "--step", "0.02", "--trajectory"]
    assert main([*check, str(out)]) == 0
    whole = capsys.readouterr().out
    assert main([*check, str(positions)]) == 0
    assert capsys.readouterr().out.split("\n")[5:10] == whole.split("\n")[5:10], "the rest follows from the crank"
