"""A designed motion of a quadruped that stands on its feet, within the cones of its contacts, beside random ones.

`python results/excitation_standing.py` writes its page and figure; it needs pin and the package example-robot-data.
Four minutes of one core; `--twins 8` fits as many twins, half a minute each.
"""

import argparse
import sys
import time
from pathlib import Path

import casadi as ca
import numpy as np
from excitation import promised, twins
from robot_folder import folder

from spookid import (
    Accelerometer,
    FullInertia,
    Gyroscope,
    JointPosition,
    JointTorque,
    MotionLimits,
    Parameter,
    PointContact,
    Problem,
    robots,
)
from spookid.report.pictures import save
from spookid.studies.excitation_result import Excitation, draw
from spookid.studies.excitation_rows import PlannedEfforts
from spookid.studies.planned_coordinates import PlannedCoordinates, at_guesses
from spookid.tables.table import number

HERE = Path(__file__).parent

LEGS = ("FL", "FR", "RL", "RR")
GROUPS = ("trunk", "hip", "thigh", "calf")
NOISE = {"q": 2e-4, "tau": 0.2, "gyro": 2e-3, "acc": 2e-2}  # rad, N m, rad/s, m/s^2 of a sample
DURATION, HARMONICS = 4.0, 6  # s
WRENCH = 0.05  # N/rtHz and N m/rtHz, on the trunk from outside
FRICTION, LEAST = 0.5, 20.0  # of the cones, N
HOME = {f"{leg}_{joint}_joint": angle for leg in LEGS for joint, angle in (("thigh", 0.8), ("calf", -1.6))}


INTRO = """# A designed motion of a quadruped that stands

The robot is Unitree's B1 of example-robot-data, with 50 kg and four point feet that do not slip. The ten unknown
parameters are scale factors of the inertias of trunk, hips, thighs and calves, and viscous and Coulomb friction for
each kind of joint. The plan defines the motion of the trunk, and the legs follow. The joints must stay within the
positions and torques of the URDF file and 2 rad/s, and the trunk within ±0.15 m of its initial position. The force of
each foot must stay within a friction cone of 0.5 and above 20 N. The torques are measured with noise of 0.2 N m and the
angles with 0.2 mrad, and the trunk has an inertial measurement unit. The command `python
results/excitation_standing.py` writes this page.
"""


def urdf() -> Path:
    """The robot's file."""
    return folder() / "b1_description" / "urdf" / "b1.urdf"


def quadruped() -> Problem:
    """The problem, without recordings."""
    robot = robots.read(urdf(), free=True)
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
    sensors += [JointTorque(joint, f"tau_{name}") for name, joint in robot.joints.items()]
    return Problem("b1", model=robot.model(constraints=feet), recordings=[], observations=sensors)


def limits(problem: Problem) -> MotionLimits:
    """Those of the page, over the URDF's of positions and torques."""
    labels = [freedom.label for freedom in problem.model.freedoms]
    trunk = problem.model.bodies[0].name
    box = [(-0.15, 0.15), (-0.15, 0.15), (-0.15, 0.1)]
    cones = {f"{leg}_foot": (FRICTION, LEAST) for leg in LEGS}
    return MotionLimits(rate=dict.fromkeys(labels, 2.0), place={trunk: box}, cone=cones)


def sizes(problem: Problem) -> dict[str, float]:
    """Noise of all signals."""
    names = (*problem.model.signals, *(channel.signal for channel in problem.channels))
    return {name: NOISE[name.split("_")[0]] for name in names}


def design(problem: Problem, **how) -> Excitation:
    """A motion of the page."""
    wrench = {f"{problem.model.bodies[0].name} {what}": WRENCH for what in ("force", "torque")}
    given = dict(criterion="largest", noise=sizes(problem) | wrench, initial=HOME, harmonics=HARMONICS)
    return problem.excite(DURATION, limits(problem), **given, **how)


def by_pinocchio(problem: Problem, found: Excitation) -> tuple[float, float, float]:
    """How far feet move [m], and what is left of the forces and torques along the trunk [N] and of joints [N m] by
    Pinocchio at the torques and forces of feet that were planned, with rates from differences of positions."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(urdf()), pin.JointModelFreeFlyer())
    data, names, labels = model.createData(), list(model.names)[2:], list(found.labels)
    order = [labels.index(name) for name in names]
    q, t = poses(problem, found, order), found.trajectory.t
    values, h = problem.guess_on(), float(t[1] - t[0])
    widths = 0.01 * np.sqrt(np.mean(found.motion[1] ** 2, axis=0))  # of smooth friction, as a fit takes them
    moved, left, stood = 0.0, [], None
    for k in range(1, len(t) - 1):
        before, after = (pin.difference(model, q[k + i], q[k + i + 1]) / h for i in (-1, 0))
        rest = pin.rnea(model, data, q[k], (before + after) / 2, (after - before) / h)
        pin.computeJointJacobians(model, data, q[k])
        pin.updateFramePlacements(model, data)
        feet = [model.getFrameId(name) for name in found.forces]
        at = np.array([data.oMf[foot].translation for foot in feet])
        stood = at if stood is None else stood
        moved = max(moved, float(np.abs(at - stood).max()))
        for foot, force in zip(feet, found.forces.values(), strict=True):
            rest -= pin.getFrameJacobian(model, data, foot, pin.LOCAL_WORLD_ALIGNED)[:3].T @ force[k]
        for i, place in enumerate(order):
            kind, rate = labels[place].split("_")[1], found.motion[1][k, place]
            friction = values[f"F_v_{kind}"] * rate + values[f"F_c_{kind}"] * np.tanh(rate / widths[place])
            rest[6 + i] += friction - found.trajectory.signals[f"tau_{labels[place]}"][k]
        left.append(rest)
    largest = np.abs(np.array(left)).max(axis=0)
    return moved, float(largest[:6].max()), float(largest[6:].max())


def poses(problem: Problem, found: Excitation, order: list[int]) -> np.ndarray:
    """As Pinocchio has them, (N, 19)."""
    import pinocchio as pin

    coordinates = PlannedCoordinates(problem, np.zeros(len(found.labels)), HOME)
    told = PlannedEfforts(coordinates, np.ones(len(found.labels) + 6), np.ones(len(found.labels))).told(found.planned)
    state, bodies = ca.SX.sym("state", told.states.shape[1]), len(problem.model.bodies)
    trunk = problem.model.moving(problem.model.frames["base"], state[: 7 * bodies], state[7 * bodies :])
    parts = at_guesses(problem, [trunk.origin, trunk.axes], [state])
    place = ca.Function("place", [state], [ca.densify(part) for part in parts])
    q = []
    for one, joints in zip(told.states, told.joints[0], strict=True):
        at, axes = (np.array(part) for part in place(one))
        q.append(np.concatenate([at[:, 0], pin.Quaternion(axes).coeffs(), joints[order]]))
    return np.array(q)


def main() -> None:
    """Design, compare, check, fit, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--twins", type=int, default=0)
    count, problem, began = parser.parse_args().twins, quadruped(), time.process_time()
    found = design(problem, starts=1)
    seconds = time.process_time() - began
    others = np.exp(design(problem, starts=10, max_iterations=0, seed=100).random / 2)
    share = np.exp(found.found / 2) / np.median(others)
    moved, trunk, joints = by_pinocchio(problem, found)
    text = [
        INTRO,
        (
            f"The largest standard error for the designed motion is **{number(share, 2)}** times the median of "
            "ten random Fourier series within the same limits (computed as a norm of order 16, as in the "
            f"search). The design takes {seconds:.0f} s on one core.\n"
        ),
        (
            "As a check, Pinocchio computed the motion from the planned torques and forces, with rates from "
            f"position differences at 100 Hz. The feet move by {number(moved, 2)} m; the force residuals are "
            f"{number(trunk, 2)} N or N m at the trunk and {number(joints, 2)} N m at the joints.\n"
        ),
        *([promised(found, list(twins(problem, found, sizes(problem), count)))] if count else []),
        "![The designed motion](excitation_standing.png)\n",
        f"```\n{found}\n\n{found.expected.until('s_trunk', 0.001)}\n{found.expected.until('s_calf', 0.01)}\n```\n",
    ]
    print("\n".join(text))
    (HERE / "excitation_standing.md").write_text("\n".join(text), encoding="utf-8")
    save(draw(found), HERE / "excitation_standing.png")


if __name__ == "__main__":
    sys.exit(main())
