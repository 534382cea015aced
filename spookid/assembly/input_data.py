"""Data of the factors of the motion: inputs, when contacts hold, and what residuals of the user's own take.

Inputs whose delay is a parameter: in a step they are u + (d − d₀) ∂u/∂d around the delay d₀ where a fit begins.

A fit carried on from where another one has ended has no error from that line; ``estimation.delays`` sees to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly import residual_factors
from spookid.assembly.declaration import Declaration
from spookid.assembly.schedules import Strikes, contact_data
from spookid.data.inputs import Acting
from spookid.kernels.kernel import Array, contiguous
from spookid.mechanics.model import Model
from spookid.parameter import is_constant, number
from spookid.stepping.contact_rows import CONTACT_ROWS
from spookid.stepping.impulses import VELOCITY_ROWS
from spookid.transcription.factor import Factor, Group


def input_data(
    problem: Declaration,
    factors: Sequence[Factor],
    values: Mapping[str, float],
    now: Acting,
    slopes: Acting,
    held: Array | None = None,
    strikes: Strikes | None = None,
) -> dict[str, Array]:
    """Data of the factors that inputs stand in, by their names, (count, n_d).

    Args:
        values: of the parameters, by name.
        now, slopes: inputs along a grid, and how they change with their delays.
        held, strikes: contacts as in ``Evidence``; None: all hold, and none hits.
    """
    pair = [problem.scheme.inputs(one.held, one.mean, one.late) for one in (now, slopes)]
    contacts = np.zeros((len(pair[0]), 0))
    if (count := len(problem.model.holding.contacts)) and problem.scheme.switches:
        contacts = contact_data(np.ones((len(now.held) - 1, count)) if held is None else held, strikes)
    inputs = late_inputs(problem.model, values, *(np.hstack([one, contacts]) for one in pair))
    told = [f for f in factors if f.group is Group.STATE and (f.motion or f.data.numel())]
    data = {f.name: inputs[: f.count(len(now.held))] for f in told}
    if CONTACT_ROWS in data:
        data[CONTACT_ROWS] = contacts
    if VELOCITY_ROWS in data:
        data[VELOCITY_ROWS] = late_inputs(problem.model, values, now.mean, slopes.mean)
    own = [factor for factor in factors if factor.group is Group.RESIDUAL]
    for factor, residual in zip(own, problem.residuals, strict=True):
        data[factor.name] = residual_factors.residual_data(residual, factor, now.held)
    return data


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
