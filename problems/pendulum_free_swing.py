"""Three measured releases of a small rod pendulum: inertia and friction by four laws, from its angle.

`problems/data/convert.py` converts the data ("pendulum-free-swing"). Encoder counts and a jittering clock look like
random torques, so that fits with estimated process noise have wide standard errors. No random torque acts, and the
fits use deterministic dynamics with block-jackknife errors.
"""

from data.convert import measured

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, gravity

J = Parameter("J", 1e-5, lower=1e-7, unit="kg m^2", note="about the centre of mass")
b = Parameter("b", 1e-6, lower=0, unit="N m s", note="viscous friction")
c = Parameter("c", 1e-6, lower=0, unit="N m", note="dry friction of constant torque")
d = Parameter("d", 1e-8, lower=0, unit="N m s^2", note="drag of the air")
delta = Parameter("delta", 1e-6, lower=0, unit="N m", note="dry friction at rest beyond c")
zeta = Parameter("zeta", 1.0, lower=1e-2, upper=1e2, unit="s^2", note="its decrease with speed")

MASS, LENGTH = 0.01225, 0.062  # hinge to the centre of mass
FRICTION = {
    "viscous": dict(viscous=b),
    "dry": dict(viscous=b, coulomb=c),
    "stribeck": dict(viscous=b, coulomb=c, stribeck=(delta, zeta)),
    "drag": dict(viscous=b, coulomb=c, drag=d),
}


def pendulum(release: str, friction: str) -> Problem:
    """One release with one friction law."""
    rod = Body("rod", mass=MASS, inertia=(1e-7, J, J))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),
        rod.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
        compliance=1e-4,
        damping=0.02,
        **FRICTION[friction],
    )
    return Problem(
        f"pendulum_{release}_{friction}",
        model=Model(bodies=[rod], joints=[hinge], gravity=gravity(9.81)),
        recordings=[measured(f"pendulum_free_swing_{release}")],
        observations=[HingeAngle(hinge, signal="theta")],
        step=0.005,
        friction="smooth",
    )


RELEASES = ("01", "02", "03")
problems = {f"{release}_{friction}": pendulum(release, friction) for release in RELEASES for friction in FRICTION}
