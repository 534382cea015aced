"""A quadruped that stands on its feet, for `excitation.py`: what is not known of it, and its motion within cones."""

import os
from pathlib import Path

from spookid import (
    Accelerometer,
    FullInertia,
    Gyroscope,
    JointPosition,
    MotionLimits,
    Motor,
    Parameter,
    PointContact,
    Problem,
    robots,
)

LEGS = ("FL", "FR", "RL", "RR")
GROUPS = ("trunk", "hip", "thigh", "calf")
NOISE = {"q": 2e-4, "tau": 0.2, "gyro": 2e-3, "acc": 2e-2}  # rad, N m, rad/s, m/s^2 of a sample
WRENCH = 0.05  # N/rtHz and N m/rtHz, on the trunk from outside
FRICTION, LEAST = 0.5, 20.0  # of the cones, N
HOME = {f"{leg}_{joint}_joint": angle for leg in LEGS for joint, angle in (("thigh", 0.8), ("calf", -1.6))}


def quadruped() -> Problem:
    """The problem, without recordings."""
    robot = robots.read(Path(os.environ["SPOOKID_ROBOTS"]) / "b1_description/urdf/b1.urdf", free=True)
    trunk = next(iter(robot.bodies))
    scales = {name: Parameter(f"s_{name}", 1.0, lower=0.1) for name in GROUPS}
    inertias = {
        name: FullInertia.from_pi(scales[next((g for g in GROUPS if g in name), "trunk")] * body.distribution.pi)
        for name, body in robot.bodies.items()
    }
    friction = {
        joint: {
            "viscous": Parameter(f"F_v_{joint.split('_')[1]}", 0.5, lower=0, unit="N m s"),
            "coulomb": Parameter(f"F_c_{joint.split('_')[1]}", 1.0, lower=0, unit="N m"),
        }
        for joint in list(robot.joints)[:3]
    }
    kinds = {joint.split("_")[1]: laws for joint, laws in friction.items()}
    robot = robot.with_(inertias=inertias, joints={name: kinds[name.split("_")[1]] for name in robot.joints})
    unit = robot.frame(trunk)
    sensors = [
        Gyroscope(unit, ("gyro_x", "gyro_y", "gyro_z"), sigma=NOISE["gyro"]),
        Accelerometer(unit, ("acc_x", "acc_y", "acc_z"), sigma=NOISE["acc"]),
        *(JointPosition(joint, f"q_{name}", sigma=NOISE["q"]) for name, joint in robot.joints.items()),
    ]
    feet = [PointContact(f"{leg}_foot", robot.frame(f"{leg}_foot")) for leg in LEGS]
    motors = [Motor(joint, f"tau_{name}", measured=True) for name, joint in robot.joints.items()]
    return Problem("b1", model=robot.model(constraints=feet, motors=motors), recordings=[], observations=sensors)


def limits(problem: Problem) -> MotionLimits:
    """Those of the page, over the URDF's of positions and torques."""
    labels = [freedom.label for freedom in problem.model.freedoms]
    trunk = problem.model.bodies[0].name
    box = [(-0.15, 0.15), (-0.15, 0.15), (-0.15, 0.1)]
    cones = {f"{leg}_foot": (FRICTION, LEAST) for leg in LEGS}
    return MotionLimits(rate=dict.fromkeys(labels, 2.0), place={trunk: box}, cone=cones)


def sizes(problem: Problem) -> dict[str, float]:
    """Noise of all signals, and of what acts on the trunk."""
    of_signals = {name: NOISE[name.split("_")[0]] for name in (*problem.model.signals, *_seen(problem))}
    return of_signals | {
        f"{trunk.name} {what}": WRENCH for trunk in problem.model.bodies[:1] for what in ("force", "torque")
    }


def _seen(problem: Problem) -> list[str]:
    return [channel.signal for channel in problem.channels]
