"""The period of an expression of angles, from what it jumps by where an angle turns over."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import casadi as ca
import numpy as np

from spookid.data.state import State
from spookid.kernels.arrays import Array
from spookid.mechanics.model import Model
from spookid.parameter import parameters_in

_DENOMINATOR = 1000
"""The largest of ratios between jumps that are taken for those of whole numbers."""
_EQUAL = 1e-9
"""Share of a jump that is rounding, or of a unit."""
_STATES = 3
"""At which jumps are looked at."""


def period_of(predicted: Callable[[State], ca.SX], model: Model, what: str) -> float | None:
    """That of a scalar which jumps by the same wherever an angle turns over, such as a sum of angles times numbers;
    None if it does not jump, or by what depends on the state or on Parameters, or if no number is a share of all jumps.

    Args:
        what: it is, for people.

    Raises:
        ProblemError: if it holds a symbol that is no Parameter.
    """
    state = State.symbols(model, joints=True)
    assert state.joints is not None
    displacements, value = state.joints[0], predicted(state)
    every = [(i, f.coordinate.period) for i, f in enumerate(model.freedoms) if f.coordinate.turns_over]
    turning = [(i, period) for i, period in every if period and ca.depends_on(value, displacements[i])]
    if not turning:
        return None
    others = [state.q, state.v, state.a, state.joints[1], *state.inputs.values(), state.step]
    others += parameters_in([value], what, ignore=[displacements, *others])
    function = ca.Function("value", [displacements, ca.veccat(*others)], [value])
    random, found = np.random.default_rng(0), []
    for _ in range(_STATES):
        at = random.uniform(-1, 1, displacements.numel()), random.uniform(0.5, 1.5, function.numel_in(1))
        found.append([_jump(function, *at, i, period) for i, period in turning])
    jumps = np.array(found)
    if not np.allclose(jumps, jumps[0], rtol=_EQUAL, atol=_EQUAL):
        return None
    return _common(np.abs(jumps[0][np.abs(jumps[0]) > _EQUAL]))


def _jump(function: ca.Function, displacements: Array, others: Array, place: int, period: float) -> float:
    """From one side of where a coordinate turns over to the other."""
    sides = np.tile(displacements, (2, 1))
    sides[:, place] = -period / 2, period / 2
    low, high = (float(function(side, others)) for side in sides)
    return high - low


def _common(jumps: Array) -> float | None:
    """The largest number of which all are multiples; None if there is none, or no jump."""
    if not (len(jumps) and np.all(np.isfinite(jumps))):
        return None
    ratios = [Fraction(jump / jumps[0]).limit_denominator(_DENOMINATOR) for jump in jumps.tolist()]
    if not np.allclose([float(ratio) for ratio in ratios], jumps / jumps[0], rtol=_EQUAL, atol=0.0):
        return None
    shared = math.lcm(*(ratio.denominator for ratio in ratios))
    return float(jumps[0]) * math.gcd(*(int(ratio * shared) for ratio in ratios)) / shared
