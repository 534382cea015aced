"""Five measured swing-ups of a Furuta pendulum (Quanser Qube), up to the start of balancing.

`problems/data/convert.py` converts the data ("furuta-qube-swingup"). Masses and lengths are the manufacturer's. The
inertias, the motor, friction and the spring of the encoder's cable are estimated. The back-EMF of the motor acts as
viscous friction of the arm.
"""

from dataclasses import replace

from data.convert import SWINGUPS, measured

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, gravity

J_arm = Parameter("J_arm", 2e-4, lower=1e-6, unit="kg m^2", note="arm about its axle, motor included")
J_rod = Parameter("J_rod", 3e-5, lower=1e-7, unit="kg m^2", note="pendulum about its centre of mass")
K = Parameter("K", 0.005, lower=0, unit="N m/V", note="motor gain")
b_1 = Parameter("b_1", 2e-4, lower=0, unit="N m s", note="viscous friction of the arm, back-EMF included")
b_2 = Parameter("b_2", 1e-6, lower=0, unit="N m s", note="viscous friction of the pendulum")
c_1 = Parameter("c_1", 1e-4, lower=0, unit="N m", note="Coulomb friction of the arm")
c_2 = Parameter("c_2", 1e-6, lower=0, unit="N m", note="Coulomb friction of the pendulum")
k = Parameter("k", 1e-3, lower=0, unit="N m", note="encoder cable's stiffness")
theta_0 = Parameter("theta_0", 0.0, lower=-3, upper=3, unit="rad", note="rest angle of the cable")

M_ARM, M_ROD, L_ARM, L_ROD = 0.095, 0.024, 0.085, 0.129


def swingup(name: str) -> Problem:
    """One recording. The arm's inertia is about its axle, where its centre of mass is declared."""
    arm = Body("arm", mass=M_ARM, inertia=(1e-6, 1e-4, J_arm))
    rod = Body("rod", mass=M_ROD, inertia=(1e-7, J_rod, J_rod))
    axle = Hinge(
        "axle",
        GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
        arm.frame(x=(0, 0, 1), y=(1, 0, 0)),
        viscous=b_1,
        coulomb=c_1,
        stiffness=k,
        rest_angle=theta_0,
        compliance=0,
    )
    pin = Hinge(
        "pin",
        arm.frame(at=(L_ARM, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
        rod.frame(at=(-L_ROD / 2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        viscous=b_2,
        coulomb=c_2,
        compliance=0,
    )
    return Problem(
        name,
        model=Model(
            bodies=[arm, rod],
            joints=[axle, pin],
            motors=[Motor(axle, signal="u", gain=K)],
            gravity=gravity(9.81),
        ),
        recordings=[replace(measured(name), closed_loop=True)],  # an energy controller drives it
        observations=[HingeAngle(axle, signal="theta"), HingeAngle(pin, signal="alpha")],
        step=0.004,
        friction="smooth",
    )


problems = {name: swingup(name) for name in SWINGUPS}
