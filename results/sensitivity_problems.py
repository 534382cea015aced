"""The two problems of results/sensitivity.py: a twin's release with four parameters, and a measured swing-up.

State weight, stepper and sigma are the paper's, and samples are those at the steps alone, as it downsamples them
(`every=1`): its evaluation is repeated, no noise is estimated. With samples between the steps, too, a weight κ would
mean less beside the ten times as many samples.

As in section 4.7 of the paper the release has four unknowns; `epsilon`, the compliance of all hinges, is there to be
swept and is otherwise held. The swing-up needs the measured data: SPOOKID_DATA must point to them.
"""

from pathlib import Path

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    Recording,
    Spook,
    gravity,
    load_problem,
)

PROBLEMS = Path(__file__).parent.parent / "problems"
TWIN = PROBLEMS / "data" / "furuta_release.csv"
epsilon = Parameter("epsilon", 1e-4, lower=0, unit="m/N", note="compliance of the hinges, also in rad/(N m)")
soft = dict(compliance=epsilon, damping=0.02)


def release() -> Problem:
    """The twin of problems/data/make_furuta_release.py."""
    J_Azz = Parameter("J_Azz", 0.01, lower=1e-6, unit="kg m^2")
    J_Byy = Parameter("J_Byy", 0.01, lower=1e-6, unit="kg m^2")
    b_1 = Parameter("b_1", 1e-4, lower=0, unit="N m s")
    b_2 = Parameter("b_2", 1e-4, lower=0, unit="N m s")
    arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, J_Azz))
    rod = Body("B", mass=0.428, inertia=(1e-4, J_Byy, 0.004))
    shoulder = Hinge(
        "shoulder",
        GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
        arm.frame(at=(-0.128, 0, 0), x=(0, 0, 1), y=(1, 0, 0)),
        viscous=b_1,
        **soft,
    )
    elbow = Hinge(
        "elbow",
        arm.frame(at=(0.12, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-0.092, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b_2,
        **soft,
    )
    return Problem(
        "release",
        model=Model(
            bodies=[arm, rod],
            joints=[shoulder, elbow],
            motors=[Motor(shoulder, signal="u", gain=0.1, shaft_inertia=1e-4)],
            gravity=gravity(9.82),
        ),
        recordings=[Recording.from_csv(TWIN, time="t")],
        observations=[HingeAngle(shoulder, signal="theta1", sigma=1.0), HingeAngle(elbow, signal="theta2", sigma=1.0)],
        step=0.01,
        state_weight=100.0,
        stepper=Spook(),
        every=1,
        fixed=["epsilon"],
    )


def swingup() -> Problem:
    """The first swing-up of the Qube, as in problems/furuta_swingup.py."""
    J_arm = Parameter("J_arm", 2e-4, lower=1e-6, unit="kg m^2")
    J_rod = Parameter("J_rod", 3e-5, lower=1e-7, unit="kg m^2")
    K = Parameter("K", 0.005, lower=0, unit="N m/V")
    b_1 = Parameter("b_1", 2e-4, lower=0, unit="N m s")
    b_2 = Parameter("b_2", 1e-6, lower=0, unit="N m s")
    c_1 = Parameter("c_1", 1e-4, lower=0, unit="N m")
    k = Parameter("k", 1e-3, lower=0, unit="N m")
    theta_0 = Parameter("theta_0", 0.0, lower=-3, upper=3, unit="rad")
    arm = Body("arm", mass=0.095, inertia=(1e-6, 1e-4, J_arm))
    rod = Body("rod", mass=0.024, inertia=(1e-7, J_rod, J_rod))
    axle = Hinge(
        "axle",
        GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
        arm.frame(x=(0, 0, 1), y=(1, 0, 0)),
        viscous=b_1,
        coulomb=c_1,
        stiffness=k,
        rest_angle=theta_0,
        **soft,
    )
    pin = Hinge(
        "pin",
        arm.frame(at=(0.085, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-0.0645, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b_2,
        **soft,
    )
    return Problem(
        "swingup",
        model=Model(
            bodies=[arm, rod], joints=[axle, pin], motors=[Motor(axle, signal="u", gain=K)], gravity=gravity(9.81)
        ),
        recordings=load_problem(f"{PROBLEMS / 'furuta_swingup.py'}::swingup_500hz_1").recordings,
        observations=[HingeAngle(axle, signal="theta", sigma=1.0), HingeAngle(pin, signal="alpha", sigma=1.0)],
        step=0.004,
        state_weight=1e6,
        stepper=Spook(),
        every=1,
        fixed=["epsilon"],
    )


problems = {"release": release(), "swingup": swingup()}
