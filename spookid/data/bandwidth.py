"""The longest step that a motion allows, from the spectra of its positions.

Along a sinusoid of angular frequency ω a step of second order, whose inputs are averaged over the interval around each
t_k, is off by (ωh)²/12 of what positions and rates take, and by nothing of what inertia takes. Over a whole motion that
is h²/12 √(∫ω⁴S dω / ∫S dω) of it, with S the spectral density of the rates. Angles turn gravity and inertias by their
sines and cosines, whose rates may be faster: S is the sum of all three.

Noise of positions, differentiated, rises with the frequency, and the rates of a motion fall: S counts up to where it is
least, and at least 99 % of that which stands out of the noise of positions, which is white. All is below the cutoff,
above which there is no motion by declaration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples

SHARE = 0.005
"""Of a motion's efforts that the step may be off by."""
_MOST = 0.99
"""Of the power of the rates."""
_ABOVE = 20.0
"""Times its mean, which the power of white noise at a frequency exceeds once in e²⁰."""
_ENOUGH = 16
"""Frequencies of a half octave whose mean tells that of noise."""
_FIRST = 2.0
"""Periods in the recording of the slowest motion that is told from a drift."""


def longest_step(recording: Recording, signal: str, *, angle: bool, scale: float, cutoff: float) -> float:
    """The step whose error is ``SHARE``, a whole number of sample intervals [s]; NaN for a position that stands still.

    Args:
        angle: True for angles, False for lengths.
        scale: units of the signal for one rad or m.
        cutoff: above which there is no motion [Hz].
    """
    t, values = finite_samples(recording, signal)
    if len(t) < 4:
        return math.nan
    interval = float(np.median(np.diff(t)))
    position = uniform(t, np.unwrap(values / scale) if angle else values / scale, interval)
    parts = [moving_part(one, interval, cutoff) for one in _shapes(position, angle)]
    error, rates = (sum(float(np.sum(omega**n * power)) for omega, power in parts) for n in (6, 2))
    if not rates > 0:
        return math.nan
    intervals = max(math.floor(math.sqrt(12 * SHARE / math.sqrt(error / rates)) / interval), 1)
    return float(f"{intervals * interval:.6g}")


def uniform(t: FloatArray, values: FloatArray, interval: float) -> FloatArray:
    """Samples at equal intervals [s], on lines between those at times t."""
    return np.interp(np.arange(t[0], t[-1] + interval / 2, interval), t, values)


def detrended(values: FloatArray) -> FloatArray:
    """Less the line from the first to the last."""
    return np.asarray(values - np.linspace(values[0], values[-1], len(values)))


def _shapes(position: FloatArray, angle: bool) -> Iterable[FloatArray]:
    """What changes with a position."""
    yield detrended(position)
    if angle:
        yield np.sin(position)
        yield np.cos(position)


def moving_part(values: FloatArray, interval: float, cutoff: float) -> tuple[FloatArray, FloatArray]:
    """Angular frequencies [rad/s] of a motion as far as it stands above noise, and the mean square of the values in
    each; empty if nothing changes.

    Args:
        values: at equal intervals [s], the first about as large as the last.
        cutoff: above which there is no motion [Hz].
    """
    window = np.hanning(len(values))
    power = 2 * np.abs(np.fft.rfft((values - values.mean()) * window)) ** 2 / (len(values) * (window @ window))
    frequency = np.fft.rfftfreq(len(values), interval)
    kept = (frequency > 0) & (frequency <= cutoff)
    omega, power = 2 * np.pi * frequency[kept], power[kept]
    rates = omega**2 * power
    if not rates.sum() > 2 * np.finfo(float).eps * np.mean(values**2) / (window @ window) * len(values):
        return np.zeros(0), np.zeros(0)
    shared = np.cumsum(_outstanding(power) * rates)
    last = max(int(np.searchsorted(shared, _MOST * shared[-1])), _meets_noise(rates))
    return np.asarray(omega[: last + 1]), np.asarray(power[: last + 1])


def _meets_noise(rates: FloatArray) -> int:
    """The last frequency of the half octave with the least density."""
    if len(rates) < _FIRST:  # too few to tell
        return len(rates) - 1
    edges, densities = _half_octaves(rates)
    return int(edges[int(np.argmin(densities)) + 1]) - 1


def _outstanding(power: FloatArray) -> FloatArray:
    """1 for each frequency whose power is no noise, 0 for others; 1 for all where that cannot be told."""
    if len(power) < _FIRST:
        return np.ones(len(power))
    edges, densities = _half_octaves(power)
    wide = np.diff(edges) >= _ENOUGH
    found = power > _ABOVE * np.min(densities[wide], initial=np.inf) if wide.any() else np.zeros(len(power), dtype=bool)
    return found.astype(float) if found.any() else np.ones(len(power))


def _half_octaves(power: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """The first frequency of each and the end of the last, (n + 1,), and their mean power, (n,)."""
    octaves = math.log2((len(power) + 1) / _FIRST)
    edges = np.unique(np.append(np.round(_FIRST * 2 ** np.arange(0, octaves, 0.5)).astype(int), len(power) + 1)) - 1
    return edges, np.add.reduceat(power, edges[:-1]) / np.diff(edges)
