"""Sizes of noise: standard deviations that rows have in common, to estimate or to keep, and where a search begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.transcription.factor import Group, measured_noise
from spookid.transcription.transcription import Point, Transcription

NoiseKind = Literal["disturbance", "sensor"]


@dataclass(frozen=True)
class NoiseSize:
    """One standard deviation that some rows have in common."""

    kind: NoiseKind
    names: tuple[str, ...]
    """What it is the noise of: hinges and free bodies, or one signal."""
    unit: str
    """Of a sensor its signal's; of a disturbance that of the force, the torque, or the velocity."""
    places: tuple[int, ...]
    """Of its symbols among the constants."""
    given: float | None = None
    """Its value if it is not estimated: of a disturbance per √Hz."""
    floor: float = 0.0
    """It is not smaller: what a sensor resolves."""
    averaging: float = 1.0
    """Of a measured effort: the standard deviation of the means that drive the motion, as white noise, over that of a
    sample."""
    marginalized: bool = False
    """True if a fit has found it but hardly knows it, and errors are averaged over it."""

    @property
    def of_motion(self) -> bool:
        """True of the slip of contacts, a velocity, where other disturbances are forces."""
        return self.unit == "m/s"

    @property
    def keys(self) -> tuple[str, ...]:
        """Its names in ``Factor.noise``, where a signal may be called like a hinge."""
        return self.names if self.kind == "disturbance" else tuple(map(measured_noise, self.names))

    @property
    def singles(self) -> tuple[NoiseSize, ...]:
        """One size for each of its names."""
        each = len(self.places) // len(self.names)
        return tuple(
            replace(self, names=(name,), places=self.places[i * each : (i + 1) * each])
            for i, name in enumerate(self.names)
        )


def told_apart(sizes: Sequence[NoiseSize], which: Sequence[bool]) -> tuple[NoiseSize, ...]:
    """The sizes with one for each of their names where asked for."""
    return tuple(one for size, apart in zip(sizes, which, strict=True) for one in (size.singles if apart else (size,)))


def spread(values: Array, sizes: Sequence[NoiseSize], parts: Sequence[NoiseSize]) -> Array:
    """Values of sizes for parts of them."""
    by_name = {key: value for size, value in zip(sizes, values.tolist(), strict=True) for key in size.keys}
    return np.array([by_name[part.keys[0]] for part in parts])


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
