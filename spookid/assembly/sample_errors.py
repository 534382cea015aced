"""How far samples are from what the estimated motion makes of them, wherever they lie between the steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.observations import Observed
from spookid.data.channels import straight
from spookid.kernels.arrays import Array
from spookid.parameter import number
from spookid.transcription.transcription import Point


def sample_errors(
    assembly: Assembly, point: Point, residuals: Mapping[str, Array], chain: int
) -> tuple[Array, Array, Array]:
    """Along one recording how many samples of each signal count, the sum of the squares of their errors, and the
    largest error, from half a step before each step to half a step behind it, each (N, n_o).

    Args:
        residuals: of each factor by its name, (count, rows).
    """
    problem, N = assembly.problem, assembly.sampled[chain].grid.count
    counts, squares, largest = (np.zeros((N, len(problem.channels))) for _ in range(3))
    sigmas = assembly.sigmas
    for one in assembly.observed:
        missing = assembly.transcription.chains[chain].missing[one.name]
        rows = residuals[one.name]
        places = sample_places(assembly, one, chain)
        for column, i in enumerate(one.rows):
            channel = problem.channels[i]
            here = ~missing[:, column]
            k = np.clip(np.rint(places[here, column]), 0, N - 1).astype(np.intp)
            errors = np.abs(straight(rows[here, column], channel.loss)) * sigmas[i]
            np.add.at(counts[:, i], k, 1.0)
            np.add.at(squares[:, i], k, errors**2)
            np.maximum.at(largest[:, i], k, errors)
    return counts, squares, largest


def sample_places(assembly: Assembly, one: Observed, chain: int) -> Array:
    """Where what each row's sample shows took place, by the guesses of delays, in steps from the first state of a
    recording, (count, rows)."""
    factor = next(f for f in assembly.transcription.factors if f.name == one.name)
    problem, sampled, rows = assembly.problem, assembly.sampled[chain], len(one.rows)
    first = factor.reach // 2 if one.reach is None else one.reach.first
    states = first + np.arange(factor.count(sampled.grid.count), dtype=np.float64)[:, None]
    if one.reach is None:
        return np.repeat(states, rows, axis=1)
    values = problem.guess_on(sampled.recording.name)
    late = np.array([number(problem.channels[i].delay, values) for i in one.rows]) / problem.step
    return np.asarray(states + assembly.transcription.chains[chain].data[one.name][:, 2 * rows :] - late)
