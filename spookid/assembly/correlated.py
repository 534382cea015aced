"""Sensors whose noise is correlated in time: a first-order Gauss–Markov process as rows of innovations.

The noise of neighbouring samples, Δt apart, is n = a n₋ + e with a = exp(−Δt/τ) and τ the correlation time. The rows of
such a sensor are e/σ_e, white as all others, and see the sample before as well:

    e = (y − ŷ) − a (y₋ − ŷ₋),    σ_e² = σ² (1 − a²),

with σ the standard deviation of n. The unknown is σ_e at the usual interval between samples, so that its normaliser
depends on no Parameter and τ may be one. A sample without one before it has σ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.channels import Channel, apart
from spookid.data.losses import robust
from spookid.data.sampling import Reach, Samples
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.parameter import is_constant, is_zero
from spookid.stepping.impulses import Settings

_FARTHEST = 6
"""Steps between samples, at most: with every one more of them the equations have a wider band."""
_USUAL = 0.95
"""Share of the intervals between samples that the rows have to reach over."""


def is_correlated(channel: Channel) -> bool:
    """True if the noise of neighbouring samples is correlated."""
    return not is_zero(channel.correlation_time)


def interval(samples: Sequence[Samples]) -> float:
    """Typical time between samples of a channel in all recordings [s]."""
    apart = np.concatenate([np.diff(one.stamps) for one in samples])
    return float(np.median(apart)) if len(apart) else math.inf


def correlated_layout(
    problem: Problem, order: int, own: Sequence[int], samples: Sequence[Sequence[Samples]], spare: int
) -> tuple[Reach, tuple[int, ...], tuple[bool, ...], tuple[float, ...]]:
    """Values of ``reach``, ``slots``, ``whole`` and ``intervals`` of ``Observed`` for some channels.

    Raises:
        ProblemError: if the stepper, or the distance of samples, lets their noise not be correlated.
    """
    channels = [problem.channels[i] for i in own]
    for channel in channels:
        check_correlation(channel)
        if problem.scheme.around(problem.model, Settings.of(problem.model), order) is not None:
            raise ProblemError(
                f"{channel.sensor.place}: {channel.signal!r} has correlation_time, which stepper "
                f"{problem.stepper.name!r} cannot take for this model; take Variational(), or leave it out"
            )
    reach = reach_back(channels, samples)
    slots = tuple(max(2 * spare, *(one.slots(reach, True) for one in of_channel)) for of_channel in samples)
    return reach, slots, (True,) * len(slots), tuple(interval(of_channel) for of_channel in samples)


def reach_back(channels: Sequence[Channel], samples: Sequence[Sequence[Samples]]) -> Reach:
    """States that are needed to predict a sample and the preceding sample.

    Raises:
        ProblemError: if there are too many steps between them.
    """
    before = 1
    for channel, own in zip(channels, samples, strict=True):
        gaps = np.concatenate([np.diff(one.at) for one in own])
        usual = float(np.quantile(gaps, _USUAL)) - 1e-6 if len(gaps) else 1.0
        if usual > _FARTHEST:
            raise ProblemError(
                f"{channel.sensor.place}: {channel.signal!r} has correlation_time, and its samples are {usual:.3g} "
                f"steps apart; take a step that is longer by {math.ceil(usual / _FARTHEST)}, or leave it out"
            )
        before = max(before, 2 if usual > 0.5 else 1, math.ceil(usual))
    return Reach(before + 1, before, before, 1)


def previous(samples: Samples, reach: Reach, slots: int) -> tuple[Array, Array]:
    """Preceding value of each sample, in the order of ``Samples.between``, and the number of steps since then, 0 if it
    is out of reach, each (N − reach, slots)."""
    seen, cells, where = samples.placed(reach, True)
    values, gaps = np.zeros((2, max(samples.count - reach.steps, 0), slots))
    before = np.maximum(seen - 1, 0)
    known = (seen > 0) & (samples.at[before] - cells >= -reach.before)
    values[where] = np.where(known, samples.values[before], 0.0)
    gaps[where] = np.where(known, samples.at[seen] - samples.at[before], 0.0)
    return values, gaps


def innovation(
    channel: Channel, now: tuple[ca.SX, ca.SX], before: tuple[ca.SX, ca.SX], ago: ca.SX, usual: float, sigma: ca.SX
) -> ca.SX:
    """Normalized innovation of a sample, whose square is its part of the cost.

    Args:
        now, before: what is predicted and what was measured.
        ago: time between them [s], 0 if there is no sample before.
        usual: that of most samples [s].
        sigma: σ_e at the usual time, or σ if the sensor's is given.
    """
    tau = channel.correlation_time
    kept = ca.if_else(ago > 0, ca.exp(-ago / tau), 0)
    error = apart(channel, *now) - kept * apart(channel, *before)
    whole = sigma if channel.sigma is not None else sigma / ca.sqrt(1 - ca.exp(-2 * usual / tau))
    row, loss = error / (whole * ca.sqrt(1 - kept**2)), robust(channel.loss)
    return row if loss is None else loss.row(row)


def check_correlation(channel: Channel) -> None:
    """Raise ProblemError for a correlation time that is not positive, or unknown while sigma is given."""
    tau, what = channel.correlation_time, f"{channel.sensor.place}: {channel.signal!r} has correlation_time"
    if is_constant(tau) and not 0 <= float(tau) < math.inf:
        raise ProblemError(f"{what} {float(tau):g}; give a positive time [s], a Parameter, or 0 for white noise")
    if not is_constant(tau) and channel.sigma is not None:
        raise ProblemError(f"{what} to be estimated and a given sigma; leave sigma out, or give the time as a number")
