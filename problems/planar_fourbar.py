"""Planar four-bar linkage, a torque at its crank: two masses and friction from the angles of crank and rocker.

The linkage is that of the paper on factor graphs (Blanco-Claraco, Leanza, Reina), with a torque, and with friction in
the pin of its crank. The data are synthetic, made by `python problems/data/make_planar.py`. The true values are
m_coupler 2 kg, m_rocker 4 kg and b 0.8 N m s; the noise is 1 mrad.
"""

from pathlib import Path

from spookid import HingeAngle, Parameter, Problem, Recording, planar

m_coupler = Parameter("m_coupler", 1.0, lower=0.1, unit="kg")
m_rocker = Parameter("m_rocker", 2.0, lower=0.1, unit="kg")
b = Parameter("b", 0.1, lower=0, unit="N m s", note="viscous friction of the crank's pin")

# The initial positions of the points select the assembly branch, and the lengths of the links follow.
A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
P1, P2 = planar.Point("P1", (1, 0)), planar.Point("P2", (1, 2))

# Uniform bars, whose inertia is m L^2/12.
crank = planar.Link("crank", A, P1, mass=1.0)
coupler = planar.Link("coupler", P1, P2, mass=m_coupler)
rocker = planar.Link("rocker", D, P2, mass=m_rocker)

fourbar = planar.Mechanism(
    [crank, coupler, rocker],
    [planar.AbsoluteAngle("theta", crank)],  # the independent coordinate
    [planar.Torque(crank, "torque"), planar.PinFriction(A, crank, viscous=b)],
    gravity=9.8,
)

problem = Problem(
    "planar_fourbar",
    model=fourbar.model,
    recordings=[Recording.from_csv(Path(__file__).parent / "data" / "planar_fourbar.csv", time="t")],
    observations=[
        HingeAngle(fourbar.rigid.hinge(A), signal="crank"),
        HingeAngle(fourbar.rigid.hinge(D), signal="rocker"),
    ],
    step=0.01,
)

if __name__ == "__main__":
    print(problem.solve().summary())
