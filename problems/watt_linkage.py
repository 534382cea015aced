"""Watt's linkage, released on a spring: spring, damper and load from a marker in the middle of its coupler.

The middle of the coupler moves nearly along a straight line. The data are synthetic, made by `python
problems/data/make_planar.py`. The true values are k 400 N/m, c 2 N s/m and m 3 kg; the noise is 0.1 mm.
"""

from pathlib import Path

from spookid import Parameter, PointPosition, Problem, Recording, planar

k = Parameter("k", 300.0, lower=0, unit="N/m", note="spring between the ceiling and the coupler's upper end")
c = Parameter("c", 1.0, lower=0, unit="N s/m", note="damper parallel to it")
m = Parameter("m", 2.0, lower=0.1, unit="kg", note="coupler, with its load")

A, D = planar.Ground("A", (-0.5, 0.1)), planar.Ground("D", (0.5, -0.1))
ceiling = planar.Ground("ceiling", (0, 0.5))
upper, lower = planar.Point("upper", (0, 0.1)), planar.Point("lower", (0, -0.1))

arm_1 = planar.Link("arm_1", A, upper, mass=0.5)
coupler = planar.Link("coupler", upper, lower, mass=m)
arm_2 = planar.Link("arm_2", D, lower, mass=0.5)

watt = planar.Mechanism(
    [arm_1, coupler, arm_2],
    [planar.AbsoluteAngle("theta", arm_1)],
    [planar.Spring(ceiling, upper, stiffness=k, rest=0.25, damping=c)],
    gravity=9.81,
)

problem = Problem(
    "watt_linkage",
    model=watt.model,
    recordings=[Recording.from_csv(Path(__file__).parent / "data" / "watt_linkage.csv", time="t")],
    # The plane of the mechanism is the y-z plane of the world. The body's origin is its centre of mass, the middle.
    observations=[PointPosition(watt.rigid.body(coupler).frame(), "yz", ("across", "height"))],
    step=0.01,
)

if __name__ == "__main__":
    print(problem.solve().summary())
