"""Furuta pendulum with a gimbal motor (ODrive), driven by pulses, sines and steps: inertias, friction and motor.

`problems/data/convert.py` converts the data ("furuta-odrive"). Masses and lengths are those of the parts list. The
back-EMF of the motor acts as viscous friction of the arm, which is therefore strong. The Coulomb friction of the
pendulum is that of its encoder and bearings.
"""

from data.convert import measured

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, gravity

J_arm = Parameter("J_arm", 4e-4, lower=1e-6, unit="kg m^2", note="arm about its axle, motor included")
J_rod = Parameter("J_rod", 2e-5, lower=1e-7, unit="kg m^2", note="pendulum about its centre of mass")
K = Parameter("K", 0.05, lower=0, unit="N m/V", note="motor gain")
b_1 = Parameter("b_1", 1e-2, lower=0, unit="N m s", note="viscous friction of the arm, back-EMF included")
b_2 = Parameter("b_2", 1e-5, lower=0, unit="N m s", note="viscous friction of the pendulum")
c_1 = Parameter("c_1", 1e-3, lower=0, unit="N m", note="Coulomb friction of the arm")
c_2 = Parameter("c_2", 1e-5, lower=0, unit="N m", note="Coulomb friction of the pendulum")

M_ARM, M_ROD, L_ARM, L_ROD = 0.040466, 0.009801, 0.093525, 0.096608  # the last: pin to the pendulum's centre of mass
SPANS = {  # [s], from just before the first command
    "pulses_torque_units": (4.5, 13.0),
    "sine_1V": (0.0, 4.3),
    "sine_4V": (0.0, 3.2),
    "step_2V": (2.5, 6.9),
    "step_5V": (0.3, 4.6),
}


def driven(name: str) -> Problem:
    """One recording. The arm's inertia is about its axle, where its centre of mass is declared."""
    arm = Body("arm", mass=M_ARM, inertia=(1e-6, 1e-4, J_arm))
    rod = Body("rod", mass=M_ROD, inertia=(1e-7, J_rod, J_rod))
    axle = Hinge(
        "axle",
        GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
        arm.frame(x=(0, 0, 1), y=(1, 0, 0)),
        viscous=b_1,
        coulomb=c_1,
        compliance=0,
    )
    pin = Hinge(
        "pin",
        arm.frame(at=(L_ARM, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-L_ROD, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b_2,
        coulomb=c_2,
        compliance=0,
    )
    return Problem(
        name,
        model=Model(
            bodies=[arm, rod], joints=[axle, pin], motors=[Motor(axle, signal="u", gain=K)], gravity=gravity(9.81)
        ),
        recordings=[part(measured(name), *SPANS[name])],
        observations=[HingeAngle(axle, signal="theta"), HingeAngle(pin, signal="alpha")],
        step=0.004,
    )


def part(recording: Recording, start: float, stop: float) -> Recording:
    """The recording between two times [s]."""
    return recording.between(start, stop)


problems = {name: driven(name) for name in SPANS}
