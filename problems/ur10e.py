"""Arm UR10e (Mamedov, Mikhel 2020), six hinges driven through gears: inertias, motor inertias, gains and friction.

`problems/data/convert.py` converts the data ("ur10e"). The kinematics are the manufacturer's. `ur10e.urdf` beside the
data has rough masses and inertias, with a prior of 30 %; gains have a prior of 15 %. Positions are controlled, and
the motor currents are measured with noise. `results/ur10e.md` fits one trajectory and predicts the torques of the
other.
"""

from math import pi
from xml.etree import ElementTree

import numpy as np
from data.convert import SHARED, folder, measured

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    JointPosition,
    LogCholesky,
    Model,
    Motor,
    Parameter,
    Problem,
    gravity,
)

URDF = folder("SPOOKID_DATA", SHARED) / "ur10e" / "ur10e.urdf"
LINKS = ("shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3")
# Each joint in the frame of the previous link: its position [m], the rotation of its frame about y [rad], its axis.
PLACES = (
    ((0, 0, 0.181), 0.0, "z"),
    ((0, 0.176, 0), pi / 2, "y"),
    ((0, -0.137, 0.613), 0.0, "y"),
    ((0, 0, 0.571), pi / 2, "y"),
    ((0, 0.135, 0), 0.0, "z"),
    ((0, 0, 0.12), 0.0, "y"),
)
GAINS = (14.87, 13.26, 11.13, 10.62, 11.03, 11.47)  # N m/A, published


def turned(angle: float, vector: tuple[float, ...]) -> tuple[float, ...]:
    """A vector, rotated about y."""
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = vector
    return (c * x + s * z, y, c * z - s * x)


def rough(link: str) -> FullInertia:
    """The inertia of a link in the robot's description, in the frame of its joint."""
    inertial = ElementTree.parse(URDF).find(f"link[@name='{link}_link']/inertial")
    mass, origin, entries = (inertial.find(part).attrib for part in ("mass", "origin", "inertia"))
    roll, pitch, yaw = map(float, origin["rpy"].split())
    assert pitch == yaw == 0.0
    c, s = np.cos(roll), np.sin(roll)
    axes = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    center = [float(x) for x in origin["xyz"].split()]
    moments = np.diag([float(entries[name]) for name in ("ixx", "iyy", "izz")])
    return FullInertia(float(mass["value"]), center, inertia=axes @ moments @ axes.T)


def arm() -> Model:
    """The six links and their motors."""
    joints, motors, bodies, before = [], [], [], GROUND
    for i, (link, (at, angle, axis), gain) in enumerate(zip(LINKS, PLACES, GAINS, strict=True), 1):
        body = Body(link, inertia=LogCholesky(link, rough(link), within=0.3))
        x, y = ((0, 0, 1), (1, 0, 0)) if axis == "z" else ((0, 1, 0), (0, 0, 1))
        joint = Hinge(
            f"joint_{i}",
            before.frame(at=at, x=turned(angle, x), y=turned(angle, y)),
            body.frame(x=x, y=y),
            viscous=Parameter(f"F_v{i}", 10.0, lower=0, unit="N m s", note="viscous friction"),
            coulomb=Parameter(f"F_c{i}", 5.0, lower=0, unit="N m", note="Coulomb friction"),
        )
        motors.append(
            Motor(
                joint,
                f"i{i}",
                gain=Parameter(f"K_{i}", gain, lower=0, prior=(gain, 0.15 * gain), unit="N m/A", note="drive gain"),
                shaft_inertia=Parameter(f"J_m{i}", 1.0, lower=0, unit="kg m^2", note="motor, at the joint"),
                offset=Parameter(f"offset_{i}", 0.0, unit="N m", note="constant torque"),
                measured=True,
                hold="linear",
            )
        )
        joints.append(joint)
        bodies.append(body)
        before = body
    return Model(bodies, joints, motors, gravity=gravity(9.81))


ARM = arm()


def exciting(trajectory: str) -> Problem:
    """One trajectory without a payload; the step follows from its bandwidth."""
    return Problem(
        f"ur10e_{trajectory}",
        model=ARM,
        recordings=[measured(f"ur10e_{trajectory}")],
        observations=[JointPosition(joint, signal=f"q{i}") for i, joint in enumerate(ARM.joints, 1)],
    )


problems = {trajectory: exciting(trajectory) for trajectory in ("excitation_12harm_40s", "excitation_14harm_50s")}
