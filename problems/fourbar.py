"""Driven four-bar linkage, a closed loop of rigid hinges: inertias, friction and motor gain from two angles.

The data are synthetic, made by `python problems/data/make_fourbar.py`. The true values are I_crank 2e-4, I_coupler
2.5e-3 and I_rocker 4e-3 kg m^2, b 0.01 N m s, K 0.05 N m/V; the noise is 1 mrad. Four parallel hinges have redundant
constraints: three constraints of each step follow from the others, which `spookid solve --verbose` reports.
"""

from pathlib import Path

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording

DATA = Path(__file__).parent / "data" / "fourbar.csv"

I_crank = Parameter("I_crank", 5e-4, lower=1e-6, unit="kg m^2", note="crank about its centre of mass")
I_coupler = Parameter("I_coupler", 1e-3, lower=1e-6, unit="kg m^2", note="coupler about its centre of mass")
I_rocker = Parameter("I_rocker", 1e-3, lower=1e-6, unit="kg m^2", note="rocker about its centre of mass")
b = Parameter("b", 1e-3, lower=0, unit="N m s", note="viscous friction of the crank")
K = Parameter("K", 0.03, unit="N m/V", note="motor gain")

CRANK, COUPLER, ROCKER, BASE = 0.10, 0.25, 0.30, 0.30  # lengths of the links, distance of the two fixed axles

# Each link lies along its own x axis. Only the moment about the axles matters; the others are arbitrary. The masses are
# weighed: the motion alone barely distinguishes them from the inertias.
crank = Body("crank", mass=0.2, inertia=(1e-5, I_crank, I_crank))
coupler = Body("coupler", mass=0.4, inertia=(1e-5, I_coupler, I_coupler))
rocker = Body("rocker", mass=0.5, inertia=(1e-5, I_rocker, I_rocker))

axle = dict(x=(0, 0, 1), y=(1, 0, 0))  # every hinge rotates about z; its angle is that between the links

# The loop: ground, crank, coupler, rocker, ground. Angles here need not be consistent: the initial motion closes
# the loop at every step. Compliance is 0, because hinges are rigid in Variational().
drive = Hinge("drive", GROUND.frame(**axle), crank.frame(at=(-CRANK / 2, 0, 0), **axle), viscous=b, compliance=0)
knee = Hinge(
    "knee",
    crank.frame(at=(CRANK / 2, 0, 0), **axle),
    coupler.frame(at=(-COUPLER / 2, 0, 0), **axle),
    compliance=0,
)
wrist = Hinge(
    "wrist",
    coupler.frame(at=(COUPLER / 2, 0, 0), **axle),
    rocker.frame(at=(ROCKER / 2, 0, 0), **axle),
    compliance=0,
)
pivot = Hinge(
    "pivot",
    GROUND.frame(at=(BASE, 0, 0), **axle),
    rocker.frame(at=(-ROCKER / 2, 0, 0), **axle),
    compliance=0,
)

problem = Problem(
    "fourbar",
    model=Model(
        bodies=[crank, coupler, rocker],
        joints=[drive, knee, wrist, pivot],
        motors=[Motor(drive, signal="u", gain=K)],
        gravity=(0, -9.81, 0),  # the linkage stands upright: the world's y points up
    ),
    recordings=[Recording.from_csv(DATA, time="t")],
    observations=[HingeAngle(drive, signal="crank"), HingeAngle(pivot, signal="rocker")],
    step=0.004,  # the interval over which the motor's voltage is held
)

if __name__ == "__main__":
    print(problem.solve().summary())
