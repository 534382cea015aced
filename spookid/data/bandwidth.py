"""The longest step that a motion allows, from the spectra of its positions.

Along a sinusoid of angular frequency ω a step of second order, whose inputs are averaged over the interval around each
t_k, is off by (ωh)²/12 of what positions and rates take, and by nothing of what inertia takes. Over a whole motion that
is h²/12 √(∫ω⁴S dω / ∫S dω) of it, with S the spectral density of the rates. Angles turn gravity and inertias by their
sines and cosines, whose rates may be faster: S is the sum of all three.

Noise of positions, differentiated, rises with the frequency, and the rates of a motion fall: S counts up to where it is
least, and at least 99 % of it. All is below the cutoff, above which there is no motion by declaration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples

SHARE = 0.005
"""Of a motion's efforts that the step may be off by."""
_MOST = 0.99
"""Of the power of the rates."""
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
    uniform = np.arange(t[0], t[-1] + interval / 2, interval)
    position = np.interp(uniform, t, np.unwrap(values / scale) if angle else values / scale)
    parts = np.array([_powers(one, interval, cutoff) for one in _shapes(position, angle)])
    error, rates = parts.sum(axis=0)
    if not rates > 0:
        return math.nan
    intervals = max(math.floor(math.sqrt(12 * SHARE / math.sqrt(error / rates)) / interval), 1)
    return float(f"{intervals * interval:.6g}")


def _shapes(position: FloatArray, angle: bool) -> Iterable[FloatArray]:
    """What changes with a position."""
    yield position - np.linspace(position[0], position[-1], len(position))
    if angle:
        yield np.sin(position)
        yield np.cos(position)


def _powers(values: FloatArray, interval: float, cutoff: float) -> tuple[float, float]:
    """∫ω⁴S and ∫S of the rates; zeros if nothing changes."""
    power = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(len(values)))) ** 2
    frequency = np.fft.rfftfreq(len(values), interval)
    kept = (frequency > 0) & (frequency <= cutoff)
    omega = 2 * np.pi * frequency[kept]
    rates = omega**2 * power[kept]
    if not rates.sum() > np.finfo(float).eps * len(values) * np.sum(values**2):
        return 0.0, 0.0
    shared = np.cumsum(rates) / rates.sum()
    enough = int(np.searchsorted(shared, _MOST))
    last = max(enough, _meets_noise(rates))
    omega, rates = omega[: last + 1], rates[: last + 1]
    return float(np.sum(omega**4 * rates)), float(np.sum(rates))


def _meets_noise(rates: FloatArray) -> int:
    """The last frequency of the half octave with the least density."""
    octaves = math.log2((len(rates) + 1) / _FIRST)
    edges = np.unique(np.append(np.round(_FIRST * 2 ** np.arange(0, octaves, 0.5)).astype(int), len(rates) + 1)) - 1
    densities = np.add.reduceat(rates, edges[:-1]) / np.diff(edges)
    return int(edges[int(np.argmin(densities)) + 1]) - 1
