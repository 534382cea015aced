"""Data of the factors of the motion: inputs, when contacts hold, and what residuals of the user's own take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spookid.assembly import residual_factors
from spookid.assembly.declaration import Declaration
from spookid.assembly.late_inputs import late_inputs
from spookid.assembly.schedules import Strikes, contact_data
from spookid.data.inputs import Acting
from spookid.kernels.kernel import Array
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
