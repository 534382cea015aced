"""How many states a sample between the steps is predicted from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.noise import resolution
from spookid.data.channels import Channel
from spookid.data.interpolation import left_out, spectrum
from spookid.data.samples import Samples
from spookid.kernels.kernel import Array
from spookid.statistics.starting_sizes import roughness

_STATES = ((3, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 6))
"""By order, numbers of states that a polynomial may go through, or two for differences and lines: with every one more
of them the equations have a wider band."""


def states_between(problem: Declaration, channels: Sequence[tuple[Channel, Sequence[Samples]]], order: int) -> int:
    """The fewest that serve all of some sensors that see so many time derivatives of positions.

    What they miss and the most states do not must not show in the sum of the squares of the errors of a sensor's
    samples, which noise alone scatters by √(2 n).

    Args:
        channels: each with its samples in every recording.
    """
    late = [_Shown.of(problem, *one, order) for one in channels if any(map(_between, one[1]))]
    fewest, *more = _STATES[order]
    if not late:
        return fewest
    steps = min(one.count for _, samples in channels for one in samples)
    possible = [fewest, *(n for n in more if n <= steps)]
    least = [one.excess(possible[-1]) for one in late]
    for n in possible[:-1]:
        if all(one.excess(n) - most <= 1 for one, most in zip(late, least, strict=True)):
            return n
    return possible[-1]


@dataclass(frozen=True, eq=False)
class _Shown:
    """What a sensor has shown."""

    spectra: tuple[tuple[Array, Array], ...]
    """Of each recording."""
    counts: tuple[int, ...]
    """How many of its samples are not at an unknown."""
    step: float
    """h [s]."""
    sigma: float
    """Standard deviation of its noise; 0 for what does not change."""
    order: int

    @classmethod
    def of(cls, problem: Declaration, channel: Channel, recordings: Sequence[Samples], order: int) -> _Shown:
        """From its samples in every recording."""
        # Positions at the steps are unknowns themselves, rates and accelerations there are not.
        counts = tuple(_between(one) if order == 0 else len(one.at) for one in recordings)
        shown = [_unwrapped(channel, one) for one in recordings]
        sigma = channel.sigma or (1.0 if problem.dynamics != "estimated" else _noise(shown))
        pairs = zip(recordings, shown, strict=True)
        spectra = tuple(spectrum(one.stamps, values, problem.cutoff) for one, values in pairs)
        return cls(spectra, counts, problem.step, sigma, order)

    def excess(self, states: int) -> float:
        """Sum of the squares of what is missed, over the scatter of that of the noise."""
        if not self.sigma:
            return 0.0
        missed = [left_out(*one, self.step, states, self.order) for one in self.spectra]
        return float(np.dot(self.counts, missed)) / self.sigma**2 / math.sqrt(2 * sum(self.counts))


def _between(samples: Samples) -> int:
    """How many lie between the steps."""
    return int(np.count_nonzero(samples.at != np.rint(samples.at)))


def _unwrapped(channel: Channel, samples: Samples) -> Array:
    return samples.values if channel.period is None else np.unwrap(samples.values, period=channel.period)


def _noise(recordings: Sequence[Array]) -> float:
    """Standard deviation of what neighbouring samples do not share, at least that of their resolution."""
    return max(roughness(recordings), resolution(recordings) / math.sqrt(12))
