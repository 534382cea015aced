"""How many states a sample between the steps is predicted from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.noise import resolution
from spookid.data.channels import Channel
from spookid.data.interpolation import left_out
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
    steps = min((one.count for _, samples in channels for one in samples), default=0)
    fewest, *more = _STATES[order]
    possible = [fewest, *(n for n in more if n <= steps)]
    late = [one for one in channels if any(map(_between, one[1]))]
    least = [_excess(problem, *one, possible[-1], order) for one in late] if len(possible) > 1 else []
    for n in possible[:-1]:
        pairs = zip(late, least, strict=True)
        if all(_excess(problem, *one, n, order) - most <= 1 for one, most in pairs):
            return n
    return possible[-1]


def _excess(problem: Declaration, channel: Channel, recordings: Sequence[Samples], states: int, order: int) -> float:
    """Sum of the squares of what is missed, over the scatter of that of the noise."""
    # Positions at the steps are unknowns themselves, rates and accelerations there are not.
    counts = [_between(one) if order == 0 else len(one.at) for one in recordings]
    shown = [_unwrapped(channel, one) for one in recordings]
    sigma = channel.sigma or (1.0 if problem.dynamics != "estimated" else _noise(shown))
    missed = [
        left_out(one.stamps, values, one.step, states, order, problem.cutoff)
        for one, values in zip(recordings, shown, strict=True)
    ]
    total = float(np.dot(counts, np.square(missed)))
    return total / sigma**2 / math.sqrt(2 * sum(counts)) if sigma else 0.0


def _between(samples: Samples) -> int:
    """How many lie between the steps."""
    return int(np.count_nonzero(samples.at != np.rint(samples.at)))


def _unwrapped(channel: Channel, samples: Samples) -> Array:
    return samples.values if channel.period is None else np.unwrap(samples.values, period=channel.period)


def _noise(recordings: Sequence[Array]) -> float:
    """Standard deviation of what neighbouring samples do not share, at least that of their resolution."""
    return max(roughness(recordings), resolution(recordings) / math.sqrt(12))
