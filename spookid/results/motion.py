"""Signals as they were measured and as a model has them, and what is between."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from spookid.kernels.kernel import Array


class Motion(Protocol):
    """Signals of one recording, measured and as a model has them; N steps, n_o signals. A Trajectory is one."""

    @property
    def name(self) -> str: ...
    @property
    def signals(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def periods(self) -> tuple[float | None, ...]: ...
    @property
    def t(self) -> Array: ...
    @property
    def observed(self) -> Array: ...
    @property
    def predicted(self) -> Array: ...


def misfit(motion: Motion, column: int) -> Array:
    """Measured less modelled values of one signal, (N,), NaN where a sample is missing."""
    return motion.observed[:, column] - motion.predicted[:, column]


def rms(values: Array) -> float:
    """Root mean square of the finite ones; NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else math.nan
