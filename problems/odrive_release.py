"""Pendulum of a Furuta rig released from upright, its arm at rest: friction laws from four windows of one release.

`problems/data/convert.py` converts the data ("furuta-odrive"). Mass and length are those of the parts list, which
predicts m g l/(J + m l²) = 87.39 1/s². The arm moves by only 14 mrad and is assumed fixed. The windows are
consecutive, from the first swing of 2.5 rad on. So `spookid crossvalidate problems/odrive_release.py` tests each law
at amplitudes that it was not fitted to.
"""

from dataclasses import replace

from data.convert import measured

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

J = Parameter("J", 2e-5, lower=1e-7, unit="kg m^2", note="about the centre of mass")
b = Parameter("b", 1e-5, lower=0, unit="N m s", note="viscous friction")
c = Parameter("c", 1e-5, lower=0, unit="N m", note="dry friction of constant torque")
d = Parameter("d", 1e-7, lower=0, unit="N m s^2", note="drag of the air")
delta = Parameter("delta", 1e-5, lower=0, unit="N m", note="dry friction at rest beyond c")
zeta = Parameter("zeta", 1.0, lower=1e-2, upper=1e2, unit="s^2", note="its decrease with speed")

MASS, LENGTH = 0.009801, 0.096608  # hinge to the centre of mass
FRICTION = {
    "viscous": dict(viscous=b),
    "dry": dict(viscous=b, coulomb=c),
    "stribeck": dict(viscous=b, coulomb=c, stribeck=(delta, zeta)),
    "drag": dict(viscous=b, coulomb=c, drag=d),
}
START, WINDOW = 2.5, 6.0  # [s]; before, the pendulum is near its unstable equilibrium and not predictable


def windows() -> list[Recording]:
    """Four consecutive parts of the recording, of equal length."""
    whole = measured("release_2024")
    starts = [START + i * WINDOW for i in range(4)]
    return [replace(whole.between(s, s + WINDOW), name=f"window {i + 1}") for i, s in enumerate(starts)]


RECORDINGS = windows()


def pendulum(law: str) -> Problem:
    """All windows with one friction law."""
    rod = Body("rod", mass=MASS, inertia=(1e-7, J, J))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        compliance=0,
        **FRICTION[law],
    )
    return Problem(
        f"odrive_release_{law}",
        model=Model(bodies=[rod], joints=[hinge], gravity=gravity(9.81)),
        recordings=RECORDINGS,
        observations=[HingeAngle(hinge, signal="alpha")],
        step=0.005,
    )


problems = {law: pendulum(law) for law in FRICTION}
