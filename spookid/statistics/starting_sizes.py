"""Sizes of noise for a search to begin with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels.kernel import Array
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.statistics.noise_sizes import NoiseSize
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point, Transcription


def starting_logs(
    sizes: Sequence[NoiseSize], problem: Transcription, start: Point, signals: Sequence[Sequence[Array]], share: float
) -> Array:
    """η to begin with: of a sensor what fourth differences of its samples leave, of a disturbance a small share of the
    impulses that the initial guess lacks, as the likelihood has no use for far too much noise. Of a measured effort it
    is all that the guess lacks: the motion then begins as its own sensors have it.

    Args:
        signals: per sensor its samples in each recording, gaps as NaN.
        share: of the impulses, for disturbances.
    """
    projected = ReducedProblem(problem, start).project(start)
    residuals = problem.residuals(projected)
    logs, sensor = [], 0
    for size in sizes:
        if size.given:
            found = size.given
        elif size.kind == "sensor" and size.keys[0] not in _rows_of_states(problem):
            found = max(roughness(signals[sensor]), size.floor)
        else:
            squares = [
                np.mean(values[:, i] ** 2)
                for chain in residuals
                for factor, values in zip(problem.factors, chain, strict=True)
                for i, name in enumerate(factor.noise)
                if name in size.keys
            ]
            found = (1.0 if size.kind == "sensor" else share) * float(np.sqrt(np.mean(squares)))
            found = max(found, size.floor if size.kind == "disturbance" else 0.0)
        sensor += size.kind == "sensor" and size.keys[0] not in _rows_of_states(problem)
        logs.append(np.log(max(found, np.finfo(float).tiny)))
    return np.array(logs)


def _rows_of_states(problem: Transcription) -> set[str]:
    """Names of noise in the equations of motion."""
    return {name for factor in problem.factors if factor.group is Group.STATE for name in factor.noise}


def roughness(recordings: Sequence[Array]) -> float:
    """Standard deviation of white noise with the median of these fourth differences."""
    parts = [np.diff(values[np.isfinite(values)], 4) / np.sqrt(70) for values in recordings]
    together = np.abs(np.concatenate(parts)) if parts else np.zeros(0)
    return float(np.median(together)) / 0.6745 if len(together) else 0.0
