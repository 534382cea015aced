"""A measured pendulum, released to swing freely: its inertia and friction from one angle.

The recording ships with the project; `data/pendulum.md` has its source. Mass and length are those of the device's
bill of materials. A uniform rod would have an inertia of 1.6e-5 kg m^2. The residuals are not white, and the summary
says so: the clock of the recorder jitters. `pendulum_free_swing.py` has all three releases and further friction laws.
"""

from pathlib import Path

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

DATA = Path(__file__).parent / "data" / "pendulum.npz"

J = Parameter("J", 1e-5, lower=1e-7, unit="kg m^2", note="about the centre of mass")
b = Parameter("b", 1e-6, lower=0, unit="N m s", note="viscous friction")
c = Parameter("c", 1e-6, lower=0, unit="N m", note="dry friction of constant torque")

rod = Body("rod", mass=0.01225, inertia=(1e-7, J, J))
pin = Hinge(
    "pin",
    GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)),  # x is the axis, y is angle 0: down
    rod.frame(at=(-0.062, 0, 0), x=(0, 1, 0), y=(1, 0, 0)),
    viscous=b,
    coulomb=c,
)
problem = Problem(
    "pendulum",
    model=Model(bodies=[rod], joints=[pin], gravity=gravity(9.81)),
    recordings=[Recording.from_npz(DATA)],
    observations=[HingeAngle(pin, signal="theta")],
    step=0.005,
)

if __name__ == "__main__":
    print(problem.solve().summary())
