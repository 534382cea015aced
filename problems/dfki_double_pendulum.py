"""Double pendulum with two geared drives (DFKI, designs A.0 and C.1): inertia and friction of both joints.

`problems/data/convert.py` converts the data ("dfki-double-pendulum"): angles, and the torques that the drives report.
The torque comes from feedback control and overcomes dry friction. It is an input; its errors are process noise. A
regression of torques on motion has a bias of 25 to 60 % on the open-loop recordings. The motion of a double pendulum
identifies only four inertial quantities, and these are the parameters. Results: `results/bayesian_measured.md`.
"""

from data.convert import measured

from spookid import GROUND, Body, Hinge, JointPosition, Model, Motor, Parameter, Problem, gravity

LENGTHS = {"A0": 0.3, "C1": 0.2}  # m, of the first link
MASSES = (0.55, 0.6)  # kg, near the authors' values; any works
ROTOR = 36 * 6.07e-5  # kg m^2, at the output of the gear of 6:1
RECORDS = {"tracking": {"A0": "A0_11", "C1": "C1_154220"}, "open": {"A0": "A0_04", "C1": "C1_143601"}}
STEP = 0.01


def pendulum(length: float) -> Model:
    """Two links that hang down at angle 0, with angles between links. The motion identifies their moments of inertia
    about the joints: of the first link with the second's mass at its end, and with rotors."""
    m_1, m_2 = MASSES
    D = Parameter("D", m_1 * 0.2 + m_2 * length, lower=0, unit="kg m", note="m_1 r_1 + m_2 l_1")
    E = Parameter("E", 0.12, lower=0, unit="kg m", note="m_2 r_2")
    A = Parameter("A", 0.05 + m_2 * length**2, lower=0, unit="kg m^2", note="about joint 1, the rotor included")
    B = Parameter("B", 0.04, lower=0, unit="kg m^2", note="about joint 2, the rotor included")
    centers = (D - m_2 * length) / m_1, E / m_2
    moments = A - m_2 * length**2 - m_1 * centers[0] ** 2 - ROTOR, B - m_2 * centers[1] ** 2 - ROTOR
    bodies, joints, motors = [], [], []
    before = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1))
    for i, (mass, center, moment) in enumerate(zip(MASSES, centers, moments, strict=True), 1):
        link = Body(f"link_{i}", mass=mass, inertia=(1e-4, moment, moment))
        joint = Hinge(
            f"joint_{i}",
            before,
            link.frame(at=(-center, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
            viscous=Parameter(f"b_{i}", 0.01, lower=0, unit="N m s", note="viscous friction"),
            coulomb=Parameter(f"c_{i}", 0.1, lower=0, unit="N m", note="Coulomb friction"),
        )
        offset = Parameter(f"offset_{i}", 0.0, unit="N m", note="constant torque")
        motors.append(Motor(joint, f"tau{i}", shaft_inertia=ROTOR, offset=offset, hold="linear"))
        bodies.append(link)
        joints.append(joint)
        before = link.frame(at=(length - center, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    return Model(bodies, joints, motors, gravity=gravity(9.81))


def swinging(name: str, design: str, record: str) -> Problem:
    """One record of one design."""
    model = pendulum(LENGTHS[design])
    return Problem(
        f"dfki_{name}",
        model=model,
        recordings=[measured(f"dfki_{record}")],
        observations=[JointPosition(joint, signal=f"q{i}") for i, joint in enumerate(model.joints, 1)],
        step=STEP,
    )


problems = {
    f"{design}_{kind}": swinging(f"{design}_{kind}", design, records[design])
    for design in LENGTHS
    for kind, records in RECORDS.items()
}
