"""What is random in a simulation.

How long a simulation takes, told as soon as it can be foreseen.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TypeAlias

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.results.result import Result
from spookid.stepping.simulation import Progress
from spookid.tables.table import minutes
from spookid.transcription.factor import measured_noise

Noises: TypeAlias = Result | Mapping[str, float] | None
"""What is random: a Result, for the noise it found; or sizes by name, disturbances of joints [N m/√Hz or N/√Hz] and
standard deviations of signals, of both where a signal is called like a joint. None: nothing is."""


def noise_sizes(problem: Declaration, noise: Noises) -> dict[str, float] | None:
    """Sizes of noise by the names of coordinates, and of signals by ``measured_noise``; None if nothing is random."""
    if noise is None:
        return None
    known = {freedom.label for freedom in problem.model.freedoms} | {o.signal for o in problem.channels}
    if not isinstance(noise, Result) and (stray := next((name for name in noise if name not in known), None)):
        raise ProblemError(f"{problem.place}: noise names {stray!r}; there are {', '.join(sorted(known))}")
    sizes = given_sizes(problem, noise)
    return {name if kind == "disturbance" else measured_noise(name): size for (kind, name), size in sizes.items()}


def given_sizes(problem: Declaration, noise: Noises) -> dict[tuple[str, str], float]:
    """Sizes of noise by kind and name, whatever the problem has; those that are given by name are of both kinds."""
    if isinstance(noise, Result):
        return {(n.kind, m): n.density if n.kind == "disturbance" else n.std for n in noise.noise for m in n.names}
    for name, size in (noise or {}).items():
        if not (isinstance(size, Real) and math.isfinite(size) and size >= 0):
            raise ProblemError(
                f"{problem.place}: noise of {name!r} is {shown(size)}; give a number that is not negative"
            )
    return {(kind, name): float(size) for name, size in (noise or {}).items() for kind in ("disturbance", "sensor")}


def random_impulses(problem: Declaration, sizes: Mapping[str, float], steps: int, rng: np.random.Generator) -> Array:
    """Random impulses of each step, (N − 1, n_s + 6 n_free) [N m s, N s]."""
    names = disturbance_names(problem.model)
    deviations = np.sqrt(problem.step) * np.array([sizes.get(name, 0.0) for name in names])
    return np.asarray(deviations * rng.standard_normal((steps, len(names))))


_SEEN = 1.0
"""Time of processors after which the rest is foreseen [s], which others on the machine do not change."""
_LONG = 10.0
"""A simulation that takes longer is told about [s]."""


def announced(label: str, step: float, progress: Progress | None) -> Progress:
    """A progress that tells, by a RuntimeWarning, of steps [s] that are going to take long."""

    def along(steps: Iterable[int]) -> Iterator[int]:
        assert isinstance(steps, Sequence)
        began, clock, told = time.process_time(), time.perf_counter(), False
        for k in steps if progress is None else progress(steps):
            yield k
            # Asking for the time of processors may take longer than a step.
            if told or time.perf_counter() - clock < _SEEN or (spent := time.process_time() - began) < _SEEN:
                continue
            told, whole = True, spent * len(steps) / (k + 1)
            if whole > _LONG:
                warnings.warn(
                    f"simulation of {label!r}: {len(steps):,} steps of {step:g} s are going to take some "
                    f"{minutes(whole)}; if that is not meant, take a larger step or less time, and see that times are "
                    "in seconds",
                    RuntimeWarning,
                    stacklevel=2,
                )

    return along
