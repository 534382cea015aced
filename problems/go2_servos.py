"""Legs of a quadruped (Unitree Go2) suspended in the air, identified from commands and positions; gains are unknown.

Each joint has a `Servo`. Torques are not measured, so that all efforts, masses and inertias could be larger by one
factor: `spookid check problems/go2_servos.py::free` names this direction before a fit. The problems of the four legs
have the stiffness of the source's code, and its damping as a prior. `results/go2.md` compares the legs, which should
be alike.
"""

from data.convert import LEGS, measured

from spookid import (
    GROUND,
    Body,
    FullInertia,
    Hinge,
    JointPosition,
    Model,
    Parameter,
    Problem,
    Recording,
    Servo,
    gravity,
)

KP, KD = 20.0, 1.5  # N m/rad and N m s/rad: gains of the source's code
PLACES = ((0.0, 0.0, 0.0), (0.0, 0.0955, 0.0), (0.0, 0.0, -0.213))  # m, of each joint in the frame of the previous one
MASSES = {"hip": 0.678, "thigh": 1.152, "calf": 0.241}  # kg, initial values by the vendor's description
RADII = {"hip": (0.03, 0.035, 0.035), "thigh": (0.07, 0.07, 0.03), "calf": (0.08, 0.08, 0.01)}  # m, of gyration, rough
STEP = 0.01


def links() -> list[Body]:
    """Hip, thigh and calf of a left leg, each in the frame of its joint: moments of mass of thigh and calf are free."""
    thigh, calf = (Parameter(f"m_{name}", MASSES[name], lower=0.01, unit="kg") for name in ("thigh", "calf"))
    depth = Parameter("calf_z", -0.11, prior=(-0.11, 0.01), unit="m", note="centre of mass")
    masses, centres = (MASSES["hip"], thigh, calf), ((0, 0, 0), (0, -0.02, -0.03), (0, 0, depth))
    return [
        Body(name, inertia=FullInertia(mass, centre, inertia=[mass * r**2 for r in RADII[name]]))
        for name, mass, centre in zip(MASSES, masses, centres, strict=True)
    ]


def leg(name: str, published: bool = True) -> Problem:
    """One leg, as a left one, by the faster half of its record."""
    kp = KP if published else Parameter("kp", KP, lower=0, unit="N m/rad")
    kd = Parameter("kd", KD, lower=0, unit="N m s/rad", prior=(KD, 0.1) if published else None)
    delay = Parameter("delay", 0.005, lower=0, upper=0.05, unit="s", note="of commands")
    joints, servos, before = [], [], GROUND
    bodies = links()
    for i, (body, at) in enumerate(zip(bodies, PLACES, strict=True), 1):
        axes = dict(x=(1, 0, 0), y=(0, 1, 0)) if i == 1 else dict(x=(0, 1, 0), y=(0, 0, 1))
        joint = Hinge(
            f"{body.name}_joint",
            before.frame(at=at, **axes),
            body.frame(**axes),
            armature=Parameter(f"I_{body.name}", 0.01, lower=0, unit="kg m^2", note="rotor, at the joint"),
            coulomb=Parameter(f"c_{body.name}", 0.2, lower=0, unit="N m", note="Coulomb friction"),
        )
        bias = Parameter(f"bias_{body.name}", 0.0, unit="N m", note="constant torque, from the encoder's zero")
        servos.append(Servo(joint, f"{name}_{i}_d", kp=kp, kd=kd, bias=bias, delay=delay))
        joints.append(joint)
        before = body
    return Problem(
        f"go2_{name}" if published else "go2_free",
        model=Model(bodies, joints, servos, gravity=gravity(9.81)),
        recordings=[faster(measured("go2_legs"))],
        observations=[JointPosition(joint, signal=f"{name}_{i}") for i, joint in enumerate(joints, 1)],
        step=STEP,
    )


def faster(whole: Recording) -> Recording:
    """The second half, where the references are fast."""
    return whole.between(float(whole.t[0] + whole.t[-1]) / 2, float("inf"))


problems = {**{name: leg(name) for name in LEGS}, "free": leg("FL", published=False)}
