"""Inputs of a mechanism along a grid: held or linear between their own samples, and as late as they act."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, finite_samples, slack
from spookid.errors import ProblemError
from spookid.kernels.kernel import CHUNK
from spookid.kernels.precision import AT_STEP
from spookid.mechanics.loads import Input
from spookid.parameter import is_constant, number
from spookid.records import dataclass

_REACH, _PARTS, _KAISER = 25, 16, 8.0
"""Samples on either side of which an interpolated value is made, its points in an interval, and the window's shape: 80
dB at 0.45 and 0.55 of the sampling rate, and lines between points that are off by 0.4 % at the former."""
_NODES = 12 * np.linspace(0, 1, 64) ** 2
"""Time constants after a sample at which a lagged signal has points: the last is 6e-6 of a jump from its end."""
_UNEVEN = 1e-2
"""Share of an interval by which others may differ."""


@dataclass(frozen=True, eq=False)
class Acting:
    """Values of all inputs on a grid of N steps, (rows, n_u)."""

    held: FloatArray  # at each step, (N, n_u)
    mean: FloatArray  # over each step, (N − 1, n_u)
    late: FloatArray  # over each step with a weight that rises from 0 at its start to 1 at its end, (N − 1, n_u)


def acting(
    recording: Recording | None, inputs: Sequence[Input], grid: Grid, values: Mapping[str, float]
) -> tuple[Acting, Acting]:
    """Inputs along a grid with their derivatives with respect to delays, then to lags [1/s] that contain a Parameter;
    zeros without a recording."""
    if recording is None or not inputs:
        count = len(inputs) + sum(not is_constant(one.lag) for one in inputs)
        none = Acting(np.zeros((grid.count, count)), *(np.zeros((grid.count - 1, count)),) * 2)
        return Acting(*(part[:, : len(inputs)] for part in (none.held, none.mean, none.late))), none
    return acting_between(samples_of(recording, inputs, grid), inputs, grid, values, slack(recording, grid.step))


def samples_of(recording: Recording, inputs: Sequence[Input], grid: Grid) -> list[tuple[FloatArray, FloatArray]]:
    """Times and values of the samples of each input, from the last sample at or before the first step."""
    samples = []
    for one in inputs:
        t, known = finite_samples(recording, one.signal)
        if one.signal in recording.before:
            stamp, value = recording.before[one.signal]
            t, known = np.append(stamp, t), np.append(value, known)
        samples.append((t, known))
        if t[0] > grid.start + slack(recording, grid.step):
            raise ProblemError(
                f"recording {recording.name!r}: input {one.signal!r} has no value at or before the first time step at "
                f"{grid.start:.12g} s; its first value is at {t[0]:.12g} s; add a value at the first step, or start "
                "the recording at the first value"
            )
    return samples


def acting_between(
    samples: Sequence[tuple[FloatArray, FloatArray]],
    inputs: Sequence[Input],
    grid: Grid,
    values: Mapping[str, float],
    near: float,
) -> tuple[Acting, Acting]:
    """Inputs along a grid from given samples of each input; the first sample must not be after the first step."""
    every, of_lags = [], []
    for one, (t, known) in zip(inputs, samples, strict=True):
        delay, lag, free = number(one.delay, values), number(one.lag, values), not is_constant(one.lag)
        t, known = band_limited(t, known, one.signal) if one.hold == "band" else (t, known)
        if lag > 0 or free:
            t, known, by_lag = lagged(t, known, max(lag, AT_STEP * grid.step), one.hold != "previous")
            if free:
                by_lag *= one.power * known ** (one.power - 1)
                of_lags.append(_acting(t, by_lag, True, True, grid, delay, near)[:3])
        known = known**one.power
        linear = one.hold != "previous" or lag > 0 or free
        moves = linear or delay != 0 or not is_constant(one.delay)
        every.append(_acting(t, known, linear, moves, grid, delay, near))
    held, mean, late, *slopes = (np.column_stack(part) for part in zip(*every, strict=True))
    columns = zip(*of_lags, strict=True) if of_lags else ((),) * 3
    return Acting(held, mean, late), Acting(*(np.column_stack([a, *b]) for a, b in zip(slopes, columns, strict=True)))


def acting_within(
    recording: Recording | None, inputs: Sequence[Input], grid: Grid
) -> Callable[[int, int], tuple[FloatArray, FloatArray]]:
    """Mean inputs and their derivatives by delays in equal parts of a step, by indices of step and part."""

    @lru_cache(maxsize=16)  # more than there are divisions
    def near(first: int, parts: int) -> Acting:
        count = min(CHUNK, grid.count - 1 - first) * parts
        fine = Grid(grid.start + first * grid.step, grid.step / parts, count + 1)
        return acting(recording, inputs, fine, {})[0]

    def within(k: int, parts: int) -> tuple[FloatArray, FloatArray]:
        now, first = near(k - k % CHUNK, parts), k % CHUNK * parts
        return now.mean[first : first + parts], now.late[first : first + parts]

    return within


def commanded(recording: Recording | None, inputs: Sequence[Input], grid: Grid) -> FloatArray:
    """Latest value of each input at each step, by the input's own timestamps, (N, n_u); zeros without a recording."""
    return acting(recording, [Input(one.signal) for one in inputs], grid, {})[0].held


def at_values(inputs: Sequence[Input], values: Mapping[str, float]) -> tuple[Input, ...]:
    """Return the same inputs with numbers instead of Parameters in delays and lags."""
    return tuple(
        replace(one, delay=ca.SX(number(one.delay, values)), lag=ca.SX(number(one.lag, values))) for one in inputs
    )


def band_limited(t: FloatArray, known: FloatArray, signal: str) -> tuple[FloatArray, FloatArray]:
    """Resample a signal without frequencies above 0.45 of the sampling rate, by sinc interpolation with a Kaiser window
    (Oppenheim and Schafer, Discrete-Time Signal Processing, 7.5).

    Raises:
        ProblemError: for samples that are not evenly spaced, or too few.
    """
    steps = np.diff(t)
    if len(t) <= _REACH or np.ptp(steps) > _UNEVEN * np.mean(steps):
        raise ProblemError(
            f"hold 'band' of input {signal!r} needs more than {_REACH} samples at equal intervals; the input has "
            f"{len(t)} samples, {np.min(steps, initial=np.inf):.4g} to {np.max(steps, initial=0.0):.4g} s apart; "
            "resample the input, or use hold 'linear'"
        )
    # Beyond its ends it is continued as its mirror image at the first and last sample.
    before, after = 2 * known[0] - known[_REACH:0:-1], 2 * known[-1] - known[-2 : -_REACH - 2 : -1]
    whole, taps = np.concatenate([before, known, after]), np.arange(-_REACH, _REACH + 1)
    fine = np.empty((len(t), _PARTS))
    for part in range(_PARTS):
        at = taps - part / _PARTS
        weights = np.sinc(at) * np.i0(_KAISER * np.sqrt(np.maximum(1 - (at / (_REACH + 1)) ** 2, 0)))
        fine[:, part] = np.correlate(whole, weights / weights.sum(), "valid")
    times = t[:, None] + np.append(steps, steps[-1])[:, None] * np.arange(_PARTS) / _PARTS
    last = (len(t) - 1) * _PARTS + 1
    return times.ravel()[:last], fine.ravel()[:last]


def lagged(t: FloatArray, known: FloatArray, lag: float, linear: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Samples of the lagged input y, T ẏ = u − y, for a signal u that is constant or linear between samples, and ∂y/∂T.

    Between points y is linear to a thousandth of a jump. At the first sample it is u.

    Args:
        lag: T, positive [s].
    """
    steps = np.diff(t)
    rate = np.diff(known) / steps if linear else np.zeros(len(steps))
    begin, fades = known[:-1] - lag * rate, np.exp(-steps / lag)
    y, slope = np.empty(len(t)), np.zeros(len(t))
    y[0] = known[0]
    for i, fade in enumerate(fades):
        y[i + 1] = begin[i] + rate[i] * steps[i] + (y[i] - begin[i]) * fade
        slope[i + 1] = (slope[i] + rate[i] + (y[i] - begin[i]) * steps[i] / lag**2) * fade - rate[i]
    after, fade = lag * _NODES, np.exp(-_NODES)
    inside, above, rate = after < steps[:, None], (y[:-1] - begin)[:, None], rate[:, None]
    fine = begin[:, None] + rate * after + above * fade
    slopes = (slope[:-1, None] + rate + above * _NODES / lag) * fade - rate
    times = (t[:-1, None] + after)[inside]
    return np.append(times, t[-1]), np.append(fine[inside], y[-1]), np.append(slopes[inside], slope[-1])


def _acting(
    t: FloatArray, known: FloatArray, linear: bool, moves: bool, grid: Grid, delay: float, near: float
) -> tuple[FloatArray, ...]:
    """One input, held or on straight lines between its points: at each step, mean over it, mean with a rising weight;
    and the slopes of all three with the delay.

    Args:
        moves: True if it may change between its samples' own times.
    """
    times, h = grid.times(), grid.step
    t = t + delay
    nearest = np.rint((t - grid.start) / h) - grid.first
    step = times[np.clip(nearest, 0, grid.count - 1).astype(np.intp)]
    t = np.where(np.abs(step - t) <= near, step, t)  # what is at a step is there exactly
    edges = np.union1d(times, t[(t > times[0]) & (t < times[-1])])
    if linear:
        values = np.interp(edges, t, known)
        left, right = values[:-1], values[1:]
    else:  # before its first sample has come, it is that
        left = right = known[np.maximum(np.searchsorted(t, edges[:-1], side="right") - 1, 0)]
    starts = np.searchsorted(edges, times[:-1])
    begun = np.repeat(times[:-1], np.diff(np.append(starts, len(edges) - 1)))
    lasting, change = np.diff(edges), right - left
    rises = ((edges[1:] + edges[:-1]) / 2 - begun) / h
    parts = (left + change / 2) * lasting / h
    mean = np.add.reduceat(parts, starts)
    late = np.add.reduceat(parts * rises + change * (lasting / h) ** 2 / 12, starts)
    ends = np.append(starts[1:], len(edges) - 1) - 1
    # Where it jumps at a step it is between: sooner and later differ, and neither is the slope.
    jumps = np.append((right[ends[:-1]] + left[starts[1:]]) / 2, right[ends[-1:]])
    slope = (np.append(left[:1], jumps[:-1]) - jumps) / h, (mean - jumps) / h
    # The last value at or before each step; where it moves between samples or is late, what acts from there on.
    held = np.append(mean, mean[-1:]) if moves else known[np.searchsorted(t, times, side="right") - 1]
    return held, mean, late, np.append(slope[0], slope[0][-1:]), *slope
