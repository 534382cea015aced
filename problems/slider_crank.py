"""Slider-crank driven by a torque: the slider's mass and its friction from the crank's angle and the slider's position.

The data are synthetic, made by `python problems/data/make_planar.py`. The true values are m_slider 0.5 kg, b 3 N s/m
and J 2e-3 kg m^2; the noise is 1 mrad and 0.1 mm.
"""

from pathlib import Path

from spookid import HingeAngle, JointPosition, Parameter, Problem, Recording, planar

m_slider = Parameter("m_slider", 0.3, lower=0.01, unit="kg")
b = Parameter("b", 1.0, lower=0, unit="N s/m", note="viscous friction of the slider")
J = Parameter("J", 1e-3, lower=1e-5, unit="kg m^2", note="crank about its centre of mass")

A, line = planar.Ground("A", (0, 0)), planar.Ground("line", (1, 0))
pin = planar.Point("pin", (0.06, 0.08))
slider = planar.Point("slider", (0.06 + (0.3**2 - 0.08**2) ** 0.5, 0), mass=m_slider)  # lumped at the end of the rod

crank = planar.Link("crank", A, pin, mass=0.4, center=(0.02, 0), inertia=J)  # with a counterweight: not a uniform bar
rod = planar.Link("rod", pin, slider, mass=0.2)

mechanism = planar.Mechanism(
    [crank, rod],
    [planar.AbsoluteAngle("theta", crank), planar.FixedSlider("guide", slider, A, line, viscous=b)],
    [planar.Torque(crank, "torque")],
    gravity=9.81,
)

problem = Problem(
    "slider_crank",
    model=mechanism.model,
    recordings=[Recording.from_csv(Path(__file__).parent / "data" / "slider_crank.csv", time="t")],
    observations=[
        HingeAngle(mechanism.rigid.hinge(A), signal="crank"),
        JointPosition(mechanism.rigid.slots["guide"], signal="slider"),
    ],
    step=0.005,
)

if __name__ == "__main__":
    print(problem.solve().summary())
