"""One recording's chain of steps: the data of its factors, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.assembly.input_data import input_data, with_measured
from spookid.assembly.observations import Observed, observation_data
from spookid.assembly.problem import Problem
from spookid.assembly.sampled_recording import SampledRecording
from spookid.assembly.schedules import at_switches, impact_data
from spookid.assembly.standing_start import PLACE, place_data
from spookid.kernels.arrays import Mask
from spookid.stepping.contact_rows import IMPACTS
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Chain


def chain_of(
    problem: Problem, sampled: SampledRecording, factors: list[Factor], seen: Sequence[Observed], number: int
) -> Chain:
    """One recording's chain of steps with its data; ``number`` is its place among the recordings."""
    values = problem.guess_on(sampled.recording.name)
    data = input_data(problem, factors, values, sampled.acting, sampled.slopes, sampled.held, sampled.strikes)
    own = [factor for factor in factors if factor.group is Group.RESIDUAL]
    for f, residual in zip(own, problem.residuals, strict=True):
        data[f.name] = with_measured(problem, residual, data[f.name], f, sampled)
    missing, named = dict[str, Mask](), {factor.name: factor for factor in factors}
    for one in seen:
        rows, absent = observation_data(one, named[one.name], sampled.samples)
        if sampled.held.size:
            contacts = sampled.held, sampled.strikes.struck
            jumps, n = at_switches(*contacts, named[one.name], one.order, one.reach is not None), len(one.rows)
            absent, rows[jumps, n : 2 * n] = absent | jumps[:, None], 0.0
        data[one.name], missing[one.name] = rows, absent
    leads = number == 0
    if IMPACTS in named:
        data[IMPACTS], missing[IMPACTS] = impact_data(problem.model, sampled.strikes, named[IMPACTS])
    if PLACE in named:
        data[PLACE] = place_data(problem.model, sampled.guess)
    for prior in (f for f in factors if f.group is Group.PRIOR):
        data[prior.name] = np.full((1, 1), float(leads))  # recordings share the parameters and their priors
        missing[prior.name] = np.full((1, len(prior.rows)), not leads)
    choice = problem.parameter_set.chosen(number)
    return Chain(sampled.recording.name, sampled.grid.count, data, missing, choice, sampled.grid.times())
