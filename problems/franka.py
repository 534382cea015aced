"""Arm Franka Emika Panda (Gaz et al. 2019), seven hinges with torque sensors: inertias, friction and offsets.

`problems/data/convert.py` converts the data ("franka-panda"). The kinematics are the public ones. The torque sensors
are on the link side, so that motor inertias are not identifiable. Friction beside published values:
`results/franka.md`.
"""

from math import cos, pi, sin

from data.convert import measured

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    JointPosition,
    JointTorque,
    LogCholesky,
    Model,
    Parameter,
    Problem,
    gravity,
)

# Modified Denavit-Hartenberg parameters of each joint: a [m] and alpha [rad] of the previous link, d [m].
KINEMATICS = (
    (0, 0, 0.333),
    (0, -pi / 2, 0),
    (0, pi / 2, 0.316),
    (0.0825, pi / 2, 0),
    (-0.0825, -pi / 2, 0.384),
    (0, pi / 2, 0),
    (0.088, pi / 2, 0),
)
MASSES = (3.0, 3.0, 3.0, 3.0, 3.0, 1.5, 1.0)  # kg, rough: the arm has about 18 kg
EXTENT = 0.1  # m, rough


def arm() -> Model:
    """The seven links."""
    joints, bodies, before = [], [], GROUND
    for i, ((a, alpha, d), mass) in enumerate(zip(KINEMATICS, MASSES, strict=True), 1):
        moment = 2 * mass * EXTENT**2
        rough = FullInertia(mass, (0, 0, 0), inertia=(moment, moment, moment))
        body = Body(f"link_{i}", inertia=LogCholesky(f"link_{i}", rough, within=0.5))
        axis = (0, -sin(alpha), cos(alpha))
        at = (a, axis[1] * d, axis[2] * d)
        joint = Hinge(
            f"joint_{i}",
            before.frame(at=at, x=axis, y=(1, 0, 0)),
            body.frame(x=(0, 0, 1), y=(1, 0, 0)),
            viscous=Parameter(f"F_v{i}", 0.1, unit="N m s", note="viscous friction"),
            coulomb=Parameter(f"F_c{i}", 0.2, lower=0, unit="N m", note="Coulomb friction"),
        )
        joints.append(joint)
        bodies.append(body)
        before = body
    return Model(bodies, joints, gravity=gravity(9.81))


def sensors(model: Model) -> list[JointPosition | JointTorque]:
    """An encoder and a torque sensor at each joint. The publication calls the sensor's offset a constant friction."""
    found: list[JointPosition | JointTorque] = []
    for i, joint in enumerate(model.joints, 1):
        offset = Parameter(f"F_o{i}", 0.0, unit="N m", note="constant torque")
        found += [JointPosition(joint, signal=f"q{i}"), JointTorque(joint, signal=f"tau{i}", offset=offset)]
    return found


problem = Problem(
    "franka_panda",
    model=(model := arm()),
    recordings=[measured("franka_panda")],
    observations=sensors(model),  # the step follows from the motion's bandwidth
)
