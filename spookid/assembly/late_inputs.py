"""Inputs whose delay is a parameter: in a step they are u + (d − d₀) ∂u/∂d around the delay d₀ where a fit begins.

A fit carried on from where another one has ended has no error from that line; ``estimation.delays`` sees to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array, contiguous
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, number
from spookid.transcription.factor import Factor


def with_late_inputs(model: Model, factors: Sequence[Factor]) -> list[Factor]:
    """Factors of the motion whose data are A and B of A + B d, in the place of inputs; the same if no delay moves."""
    places = _moving(model)
    if not places:
        return list(factors)
    return [_late(model, factor, places) if factor.data.numel() else factor for factor in factors]


def late_inputs(model: Model, values: Mapping[str, float], inputs: Array, slopes: Array) -> Array:
    """A of inputs (n, n_u), and behind them B of those whose delay moves.

    Args:
        values: of the parameters, by name.
        slopes: how inputs change with their delays, (n, n_u).
    """
    places = _moving(model)
    if not places:
        return contiguous(inputs)
    rates = slopes[:, places]
    now = np.array([number(model.inputs[i].delay, values) for i in places])
    start = np.array(inputs)
    start[:, places] -= rates * now
    return contiguous(np.hstack([start, rates]))


def _moving(model: Model) -> list[int]:
    """Inputs whose delay holds a Parameter."""
    return [i for i, one in enumerate(model.inputs) if not is_constant(one.delay)]


def _late(model: Model, factor: Factor, places: Sequence[int]) -> Factor:
    n = factor.data.numel()
    data = ca.SX.sym("u", n + len(places))
    acting = [data[i] for i in range(n)]
    for j, i in enumerate(places):
        acting[i] += data[n + j] * model.inputs[i].delay
    return replace(factor.substituted(factor.data, ca.vertcat(*acting)), data=data)
