"""Legs of a quadruped (Unitree Go2) suspended in the air: friction and inertia of each joint, leg by leg.

`problems/data/convert.py` converts the data ("go2-legs-pd"): three angles per leg and their set points. Torques are
not measured. The drives act as springs and dampers with known gains. Masses are the vendor's, and rotors have most of
the inertia. `results/bayesian_measured.md` compares the legs, which should be identical.
"""

from data.convert import LEGS, measured

from spookid import GROUND, Body, FullInertia, Hinge, JointPosition, Model, Motor, Parameter, Problem, gravity

STIFFNESS, DAMPING = 20.0, 1.5  # N m/rad, N m s/rad, of the drives' controllers
PLACES = ((0.0, 0.0, 0.0), (0.0, 0.0955, 0.0), (0.0, 0.0, -0.213))  # m, of each joint in the frame of the previous one
STEP = 0.01


def links() -> list[Body]:
    """Hip, thigh and calf of a left leg, each in the frame of its joint. Radii of gyration are rough. Centres of mass
    have the vendor's values as priors of a centimetre, because constant torques hide the effect of gravity."""
    c_x, c_y, c_z, calf = (
        Parameter(name, guess, prior=(guess, 0.01), unit="m", note="centre of mass")
        for name, guess in (("thigh_x", 0.0), ("thigh_y", -0.02), ("thigh_z", -0.03), ("calf_z", -0.11))
    )
    return [
        Body("hip", inertia=FullInertia(0.678, (0, 0, 0), inertia=[0.678 * r**2 for r in (0.03, 0.035, 0.035)])),
        Body("thigh", inertia=FullInertia(1.152, (c_x, c_y, c_z), inertia=[1.152 * r**2 for r in (0.07, 0.07, 0.03)])),
        Body("calf", inertia=FullInertia(0.241, (0, 0, calf), inertia=[0.241 * r**2 for r in (0.08, 0.08, 0.01)])),
    ]


def leg(name: str) -> Problem:
    """One leg, as a left one."""
    bodies = links()
    joints, motors, before = [], [], GROUND
    for i, (body, at) in enumerate(zip(bodies, PLACES, strict=True), 1):
        axes = dict(x=(1, 0, 0), y=(0, 1, 0)) if i == 1 else dict(x=(0, 1, 0), y=(0, 0, 1))
        friction = Parameter(f"b_{body.name}", 0.1, lower=0, unit="N m s", note="viscous friction")
        joint = Hinge(
            f"{body.name}_joint",
            before.frame(at=at, **axes),
            body.frame(**axes),
            viscous=DAMPING + friction,
            coulomb=Parameter(f"c_{body.name}", 0.2, lower=0, unit="N m", note="Coulomb friction"),
            stiffness=STIFFNESS,
        )
        rotor = Parameter(f"I_{body.name}", 0.01, lower=0, unit="kg m^2", note="rotor, at the joint")
        offset = Parameter(f"offset_{body.name}", 0.0, unit="N m", note="constant torque, from the encoder's zero")
        motors.append(Motor(joint, f"{name}_{i}_d", gain=STIFFNESS, shaft_inertia=rotor, offset=offset))
        joints.append(joint)
        before = body
    return Problem(
        f"go2_{name}",
        model=Model(bodies, joints, motors, gravity=gravity(9.81)),
        recordings=[measured("go2_legs")],
        observations=[JointPosition(joint, signal=f"{name}_{i}") for i, joint in enumerate(joints, 1)],
        step=STEP,
    )


problems = {name: leg(name) for name in LEGS}
