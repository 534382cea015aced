"""Furuta pendulum released near its upright position: inertias, friction, motor gain and tilt from two joint angles.

The data are synthetic, made by `python problems/data/make_furuta_release.py`. The true values are J_Azz 0.003, J_Byy
and J_Bzz 0.004 kg m^2, b_1 1e-3 and b_2 1e-4 N m s, without dry friction and tilt. The motor voltage is zero, so that
its gain is not identifiable. Dry friction is weakly identifiable.
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
    tilted_gravity,
)

DATA = Path(__file__).parent / "data" / "furuta_release.csv"

J_Axx = Parameter("J_Axx", 0.01, lower=1e-6, unit="kg m^2", note="arm along its length")
J_Ayy = Parameter("J_Ayy", 0.01, lower=1e-6, unit="kg m^2", note="arm across, horizontal")
J_Azz = Parameter("J_Azz", 0.01, lower=1e-6, unit="kg m^2", note="arm about the shoulder's axis")
J_Byy = Parameter("J_Byy", 0.01, lower=1e-6, unit="kg m^2", note="rod about the elbow's axis")
J_Bzz = Parameter("J_Bzz", 0.01, lower=1e-6, unit="kg m^2", note="rod across, in the plane of both")
b_1 = Parameter("b_1", 1e-4, lower=0, unit="N m s", note="viscous friction of the shoulder")
b_2 = Parameter("b_2", 1e-4, lower=0, unit="N m s", note="viscous friction of the elbow")
mu_1 = Parameter("mu_1", 1e-4, lower=0, unit="m", note="dry friction of the shoulder")
mu_2 = Parameter("mu_2", 1e-4, lower=0, unit="m", note="dry friction of the elbow")
K = Parameter("K", 0.1, unit="N m/V", note="motor gain")
tilt_x = Parameter("tilt_x", 0.0, lower=-0.2, upper=0.2, unit="rad")
tilt_y = Parameter("tilt_y", 0.0, lower=-0.2, upper=0.2, unit="rad")

L_1, L_A, L_2 = 0.128, 0.248, 0.092  # shoulder to the arm's centre of mass, shoulder to elbow, elbow to the rod's


soft = dict(compliance=1e-4, damping=0.02)  # of the hinges' constraints: epsilon [m/N and rad/(N m)], tau [s]

arm = Body("A", mass=0.238, inertia=(J_Axx, J_Ayy, J_Azz))
rod = Body("B", mass=0.428, inertia=(1e-4, J_Byy, J_Bzz))
shoulder = Hinge(
    "shoulder",
    GROUND.frame(x=(0, 0, 1), y=(1, 0, 0)),
    arm.frame(at=(-L_1, 0, 0), x=(0, 0, 1), y=(1, 0, 0)),
    viscous=b_1,
    dry=mu_1,
    **soft,
)
elbow = Hinge(  # the rod hangs down at angle 0
    "elbow",
    arm.frame(at=(L_A - L_1, 0, 0), x=(1, 0, 0), y=(0, 0, -1)),
    rod.frame(at=(-L_2, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
    viscous=b_2,
    dry=mu_2,
    **soft,
)

problem = Problem(
    "furuta_release",
    model=Model(
        bodies=[arm, rod],
        joints=[shoulder, elbow],
        motors=[Motor(shoulder, signal="u", gain=K, shaft_inertia=1e-4)],
        gravity=tilted_gravity(9.82, tilt_x, tilt_y),
    ),
    recordings=[Recording.from_csv(DATA, time="t")],
    observations=[HingeAngle(shoulder, signal="theta1"), HingeAngle(elbow, signal="theta2")],
    step=0.005,
    friction="smooth",
)

if __name__ == "__main__":
    print(problem.solve().summary())
