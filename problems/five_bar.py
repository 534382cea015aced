"""Five-bar linkage on a table, two motors: the mass at its tool and the friction of both from the motors' angles.

It has two degrees of freedom. The data are synthetic, made by `python problems/data/make_planar.py`. The true values
are m_tool 0.3 kg, b_1 0.02 and b_2 0.03 N m s; the noise is 0.5 mrad.
"""

from pathlib import Path

from spookid import HingeAngle, Parameter, Problem, Recording, planar

m_tool = Parameter("m_tool", 0.1, lower=0, unit="kg", note="lumped at the point that both arms hold")
b_1 = Parameter("b_1", 0.005, lower=0, unit="N m s", note="viscous friction of the first motor")
b_2 = Parameter("b_2", 0.005, lower=0, unit="N m s", note="viscous friction of the second motor")

A, E = planar.Ground("A", (-0.1, 0)), planar.Ground("E", (0.1, 0))
left, right = planar.Point("left", (-0.25, 0.2)), planar.Point("right", (0.25, 0.2))
tool = planar.Point("tool", (0, 0.45), mass=m_tool)

upper_1 = planar.Link("upper_1", A, left, mass=0.3)
upper_2 = planar.Link("upper_2", E, right, mass=0.3)
lower_1 = planar.Link("lower_1", left, tool, mass=0.2)
lower_2 = planar.Link("lower_2", right, tool, mass=0.2)

mechanism = planar.Mechanism(
    [upper_1, lower_1, upper_2, lower_2],
    [planar.AbsoluteAngle("theta_1", upper_1), planar.AbsoluteAngle("theta_2", upper_2)],
    [
        planar.Torque(upper_1, "torque_1"),
        planar.Torque(upper_2, "torque_2"),
        planar.PinFriction(A, upper_1, viscous=b_1),
        planar.PinFriction(E, upper_2, viscous=b_2),
    ],
    gravity=0,
)

problem = Problem(
    "five_bar",
    model=mechanism.model,
    recordings=[Recording.from_csv(Path(__file__).parent / "data" / "five_bar.csv", time="t")],
    observations=[
        HingeAngle(mechanism.rigid.hinge(A), signal="angle_1"),
        HingeAngle(mechanism.rigid.hinge(E), signal="angle_2"),
    ],
    step=0.005,
)

if __name__ == "__main__":
    print(problem.solve().summary())
