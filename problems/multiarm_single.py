"""Free swing of the single pendulum of the multi-arm rig (Kaheman et al. 2022): friction laws from five windows.

`problems/data/convert.py` converts the data ("multiarm-pendulum"). The windows are consecutive, from 1.6 rad down to
a few tenths. So `spookid crossvalidate problems/multiarm_single.py` tests each law at amplitudes that it was not
fitted to. Mass and length are the authors' estimates. With them fixed, J determines the frequency of small swings.
"""

from dataclasses import replace

from data.convert import measured

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

J = Parameter("J", 1e-4, lower=1e-6, unit="kg m^2", note="about the centre of mass")
b = Parameter("b", 1e-4, lower=0, unit="N m s", note="viscous friction")
c = Parameter("c", 1e-4, lower=0, unit="N m", note="dry friction of constant torque")
d = Parameter("d", 1e-6, lower=0, unit="N m s^2", note="drag of the air")
delta = Parameter("delta", 1e-4, lower=0, unit="N m", note="dry friction at rest beyond c")
zeta = Parameter("zeta", 1.0, lower=1e-2, upper=1e2, unit="s^2", note="its decrease with speed")

MASS, LENGTH = 0.147585, 0.147755  # hinge to the centre of mass
FRICTION = {
    "viscous": dict(viscous=b),
    "dry": dict(viscous=b, coulomb=c),
    "stribeck": dict(viscous=b, coulomb=c, stribeck=(delta, zeta)),
    "drag": dict(viscous=b, coulomb=c, drag=d),
}
WINDOW = 8.0  # [s], some ten swings


def windows() -> list[Recording]:
    """Five consecutive parts of the recording, of equal length."""
    whole = measured("multiarm_single")
    return [replace(whole.between(i * WINDOW, (i + 1) * WINDOW), name=f"window {i + 1}") for i in range(5)]


RECORDINGS = windows()


def pendulum(law: str) -> Problem:
    """All windows with one friction law."""
    rod = Body("rod", mass=MASS, inertia=(1e-5, J, J))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        compliance=0,
        **FRICTION[law],
    )
    return Problem(
        f"multiarm_single_{law}",
        model=Model(bodies=[rod], joints=[hinge], gravity=gravity(9.81)),
        recordings=RECORDINGS,
        observations=[HingeAngle(hinge, signal="theta")],
        step=0.01,
    )


problems = {law: pendulum(law) for law in FRICTION}
