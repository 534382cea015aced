"""A Furuta pendulum (Quanser Qube) with the parameters of the paper's Table 4 and the cable: a swing-up and two chirps.

`problems/data/convert.py` converts the data ("furuta-qube-swingup"). The arm turns about one axis, so that its other
moments of inertia do not affect the motion: they have a value and are not estimated. The arm's centre of mass is not
published. J_Azz is therefore about the axle, where the centre of mass is declared. With it at half the arm's length
J_Azz would be negative. `problems/furuta_swingup.py` has a rod with one moment of inertia.
"""

from dataclasses import replace

from data.convert import CHIRPS, SWINGUPS, measured

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
    tilted_gravity,
)

J_Azz = Parameter("J_Azz", 1e-4, lower=1e-7, unit="kg m^2", note="arm about its axle, motor included")
J_Byy = Parameter("J_Byy", 3e-5, lower=1e-7, unit="kg m^2", note="pendulum about the pin's direction")
J_Bzz = Parameter("J_Bzz", 3e-5, lower=1e-7, unit="kg m^2", note="pendulum across, in the plane of both")
b_1 = Parameter("b_1", 2e-4, lower=0, unit="N m s", note="viscous friction of the arm, back-EMF included")
b_2 = Parameter("b_2", 1e-6, lower=0, unit="N m s", note="viscous friction of the pendulum")
c_1 = Parameter("c_1", 1e-4, lower=0, unit="N m", note="Coulomb friction of the arm")
c_2 = Parameter("c_2", 1e-6, lower=0, unit="N m", note="Coulomb friction of the pendulum")
K = Parameter("K", 0.005, lower=0, unit="N m/V", note="motor gain")
tilt_x = Parameter("tilt_x", 0.0, lower=-0.2, upper=0.2, unit="rad")
tilt_y = Parameter("tilt_y", 0.0, lower=-0.2, upper=0.2, unit="rad")
k = Parameter("k", 1e-3, lower=0, unit="N m", per="recording", note="encoder cable's stiffness")
theta_0 = Parameter("theta_0", 0.0, lower=-3, upper=3, unit="rad", per="recording", note="rest angle of the cable")

M_ARM, M_ROD, L_ARM, L_ROD = 0.095, 0.024, 0.085, 0.129

arm = Body("arm", mass=M_ARM, inertia=(1e-6, 1e-4, J_Azz))
rod = Body("rod", mass=M_ROD, inertia=(1e-7, J_Byy, J_Bzz))
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


def recorded(name: str) -> Recording:
    """One recording; an energy controller drives the arm in swing-ups."""
    return replace(measured(name), closed_loop=name in SWINGUPS)


def full(*names: str) -> Problem:
    """The fit of these recordings together."""
    return Problem(
        "furuta_full",
        model=Model(
            bodies=[arm, rod],
            joints=[axle, pin],
            motors=[Motor(axle, signal="u", gain=K)],
            gravity=tilted_gravity(9.81, tilt_x, tilt_y),
        ),
        recordings=[recorded(name) for name in names],
        observations=[HingeAngle(axle, signal="theta"), HingeAngle(pin, signal="alpha")],
        step=0.004,
    )


SCENARIOS = (SWINGUPS[0], *CHIRPS[::2])
"""A swing-up, and a chirp to either side."""
problem = full(SCENARIOS[0])
