"""Electro-mechanical positioning system (EMPS, Janot, Gautier, Brunot 2019): a carriage on a screw, in closed loop.

`problems/data/convert.py` converts the data ("emps"). The position of the load and the drive's signal, whose gain is
known, identify mass, friction and the drive's offset. The problem `by_direction` has friction that differs by
direction. Such friction cannot be distinguished from an offset of the force, so that it has no offset. Results and
published values: `results/emps.md`.
"""

from data.convert import measured

from spookid import (
    GROUND,
    Asymmetric,
    Body,
    Effort,
    JointPosition,
    Model,
    Motor,
    Parameter,
    Prismatic,
    Problem,
    gravity,
)

GAIN = 35.1507  # N/V, of drive and screw together
STEP = 0.005

M = Parameter("M", 50.0, lower=1.0, upper=1e4, unit="kg", note="carriage, screw and rotor, along the slide")
F_v = Parameter("F_v", 100.0, lower=0, unit="N s/m", note="viscous friction")
F_c = Parameter("F_c", 10.0, lower=0, unit="N", note="Coulomb friction")
offset = Parameter("offset", 0.0, unit="N", note="constant force against the drive")
F_v_forward = Parameter("F_v_forward", 100.0, lower=0, unit="N s/m", note="viscous friction, forwards")
F_v_backward = Parameter("F_v_backward", 100.0, lower=0, unit="N s/m", note="viscous friction, backwards")
F_c_forward = Parameter("F_c_forward", 10.0, lower=0, unit="N", note="Coulomb friction, forwards")
F_c_backward = Parameter("F_c_backward", 10.0, lower=0, unit="N", note="Coulomb friction, backwards")


FRICTION = {
    "symmetric": dict(viscous=F_v, coulomb=F_c, loads=[Effort(-offset)]),
    "by_direction": dict(viscous=Asymmetric(F_v_forward, F_v_backward), coulomb=Asymmetric(F_c_forward, F_c_backward)),
}


def positioning(law: str) -> Problem:
    """The whole record with one friction law."""
    carriage = Body("carriage", mass=M, inertia=(1, 1, 1))
    along = dict(x=(1, 0, 0), y=(0, 1, 0))
    slide = Prismatic("slide", GROUND.frame(**along), carriage.frame(**along), compliance=0, **FRICTION[law])
    return Problem(
        f"emps_{law}",
        model=Model([carriage], [slide], motors=[Motor(slide, signal="vir", gain=GAIN)], gravity=gravity(9.81)),
        recordings=[measured("emps")],
        observations=[JointPosition(slide, signal="qm")],
        step=STEP,
    )


problems = {law: positioning(law) for law in FRICTION}
