"""What would help the data to see a parameter: where it stands in the mechanism decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import casadi as ca

from spookid.mechanics.model import Model
from spookid.parameter import Parameter

_REMEDY = "Fix {} at a value you trust, or give {} a prior"


def advise(model: Model, parameters: Sequence[Parameter], settled: bool = False) -> str:
    """What helps against a direction in which these parameters are hardly seen.

    Args:
        settled: True if priors tell them.
    """
    motions = "; ".join(dict.fromkeys(text for p in parameters for text in _motions(model, p)))
    if settled:
        return f"Priors tell it; a motion would that shows more: {motions}." if motions else "Priors tell it."
    names = ", ".join(p.name for p in parameters)
    remedy = _REMEDY.format(names, "it") if len(parameters) == 1 else _REMEDY.format(f"one of {names}", "one")
    motion = f", or record a motion that shows more: {motions}" if motions else ""
    return f"{remedy}{motion}."


def _motions(model: Model, parameter: Parameter) -> Iterable[str]:
    for motor in model.motors:
        if _stands_in(parameter, motor.expressions()):
            yield f"drive {motor.label} with a larger and more varied {motor.signal}"
    for joint in model.joints:
        if _stands_in(parameter, joint.expressions()):
            yield f"excite {joint.name} more, fast and slow"
    for load in model.loads:
        if _stands_in(parameter, load.expressions()):
            yield f"move what {load.title} acts on more, fast and slow"
    for body in model.bodies:
        if _stands_in(parameter, [body.inertia]):
            yield f"turn body {body.name} about other axes, if its joints let it"
        if _stands_in(parameter, [body.mass]):
            yield f"act on body {body.name} with a known force"
    if _stands_in(parameter, [model.gravity]):
        yield "start from other positions"


def _stands_in(parameter: Parameter, expressions: Iterable[ca.SX]) -> bool:
    return any(bool(ca.depends_on(ca.densify(ca.vec(e)), parameter)) for e in expressions if e.numel())
