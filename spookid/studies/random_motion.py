"""What is random in a simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TypeAlias

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError, shown
from spookid.kernels.kernel import Array
from spookid.mechanics.joint_coordinates import disturbance_names
from spookid.results.result import Result
from spookid.transcription.factor import measured_noise

Noises: TypeAlias = Result | Mapping[str, float] | None
"""What is random: a Result, for the noise it found; or sizes by name, disturbances of joints [N m/√Hz or N/√Hz] and
standard deviations of signals, of both where a signal is called like a joint. None: nothing is."""


def noise_sizes(problem: Declaration, noise: Noises) -> dict[str, float] | None:
    """Sizes of noise by the names of coordinates, and of signals by ``measured_noise``; None if nothing is random."""
    if noise is None:
        return None
    if isinstance(noise, Result):
        moving = {name: n.density for n in noise.noise if n.kind == "disturbance" for name in n.names}
        return moving | {measured_noise(name): n.std for n in noise.noise if n.kind == "sensor" for name in n.names}
    known = {freedom.label for freedom in problem.model.freedoms} | {o.signal for o in problem.channels}
    for name, size in noise.items():
        if name not in known:
            raise ProblemError(f"{problem.place}: noise names {name!r}; there are {', '.join(sorted(known))}")
        if not (isinstance(size, Real) and math.isfinite(size) and size >= 0):
            raise ProblemError(
                f"{problem.place}: noise of {name!r} is {shown(size)}; give a number that is not negative"
            )
    return {key: float(size) for name, size in noise.items() for key in (name, measured_noise(name))}


def random_impulses(problem: Declaration, sizes: Mapping[str, float], steps: int, rng: np.random.Generator) -> Array:
    """Random impulses of each step, (N − 1, n_s + 6 n_free) [N m s, N s]."""
    names = disturbance_names(problem.model)
    deviations = np.sqrt(problem.step) * np.array([sizes.get(name, 0.0) for name in names])
    return np.asarray(deviations * rng.standard_normal((steps, len(names))))
