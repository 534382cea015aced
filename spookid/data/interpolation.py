"""Polynomials through what a sensor shows at equidistant steps: their values in between, and what they leave out.

At a place τ, in steps from one of n, the polynomial of least degree through all of them is Newton's sum of forward
differences. Of a sinusoid of angular frequency ω it leaves out |Σ_j w_j(τ) e^{iωh(j − τ)} − 1| with Lagrange's weights
w_j, about (ωh)^n times a number that falls with n: at the middle 1/16 of three, 3/128 of four, 5/1024 of six. Of its
derivatives the weights are those of the polynomial's, and each takes one power of ωh. Of a motion it leaves out the sum
over the spectrum of what the sensor shows, as far as that stands above noise.

The longest step that a motion allows, from the spectra of its positions.

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
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples


def polynomial(differences: list[ca.SX], first: int, place: ca.SX) -> ca.SX:
    """Polynomial correction of linear interpolation near one of n steps, at a time in steps from this step."""
    leading, row = [], list(differences)
    while row:
        leading.append(row[0])
        row = [after - before for before, after in pairwise(row)]
    s, value = place + first, ca.SX(0)
    for k in reversed(range(len(leading))):
        value = (s - k) / (k + 1) * (leading[k] + value)
    return value - sum(differences[:first], ca.SX(0))


def slopes(states: int, order: int) -> FloatArray:
    """Differentiation matrix of the polynomial through n steps of length 1, (n, n)."""
    nodes = np.arange(states, dtype=np.float64)
    return _weights(nodes, nodes, order)


def spectrum(t: FloatArray, values: FloatArray, cutoff: float) -> tuple[FloatArray, FloatArray]:
    """Angular frequencies [rad/s] and mean squares of detrended values, where these exceed the noise."""
    if len(t) < 8:  # too few for a spectrum
        return np.zeros(0), np.zeros(0)
    interval = float(np.median(np.diff(t)))
    return moving_part(detrended(uniform(t, values, interval)), interval, cutoff)


def left_out(omega: FloatArray, power: FloatArray, step: float, states: int, order: int, *, places: int = 16) -> float:
    """Mean square interpolation error of polynomials through neighbouring states, at times between two steps, in
    squared units of the sensor."""
    turned, nodes, first = omega * step, np.arange(states, dtype=np.float64), (states - 1) // 2
    place = (np.arange(places) + 0.5) / places - (0.5 if states % 2 else 0.0) + first
    lines = states == 2
    weights = _weights(nodes, place, 0 if lines else order)
    known: NDArray[Any]
    if lines:  # differences over the steps on both sides, by their shares of what they stand for
        known = np.sinc(turned / np.pi) if order == 1 else np.sinc(turned / 2 / np.pi) ** order
    else:
        known = (1j * turned) ** -float(order)
    total = np.zeros(len(turned))
    for own, at in zip(weights, place, strict=True):
        total += np.abs(known * (np.exp(1j * np.outer(turned, nodes - at)) @ own) - 1) ** 2
    return float(power @ total) / places


def _weights(nodes: FloatArray, places: FloatArray, order: int) -> FloatArray:
    """Of the values at n nodes in a derivative of the polynomial through them at m places, (m, n)."""
    centre = nodes.mean()
    powers = np.arange(len(nodes))
    factor = np.prod([np.maximum(powers - i, 0) for i in range(order)], axis=0)
    derivatives = factor * (places[:, None] - centre) ** np.maximum(powers - order, 0)
    return np.asarray(derivatives @ np.linalg.inv((nodes[:, None] - centre) ** powers))


SHARE = 0.005  # of a motion's efforts that the step may be off by
_MOST = 0.99  # of the power of the rates
_ABOVE = 20.0  # times its mean, which the power of white noise at a frequency exceeds once in e²⁰
_ENOUGH = 16  # frequencies of a half octave whose mean tells that of noise
_FIRST = 2.0  # periods in the recording of the slowest motion that is told from a drift


def longest_step(recording: Recording, signal: str, *, angle: bool, scale: float, cutoff: float) -> float:
    """Longest step with an interpolation error of ``SHARE``, in whole sample intervals [s]; NaN if constant."""
    t, values = finite_samples(recording, signal)
    if len(t) < 4:
        return math.nan
    interval = float(np.median(np.diff(t)))
    position = uniform(t, np.unwrap(values / scale) if angle else values / scale, interval)
    shapes = [detrended(position), *([np.sin(position), np.cos(position)] if angle else [])]
    parts = [moving_part(one, interval, cutoff) for one in shapes]
    error, rates = (sum(float(np.sum(omega**n * power)) for omega, power in parts) for n in (6, 2))
    if not rates > 0:
        return math.nan
    intervals = max(math.floor(math.sqrt(12 * SHARE / math.sqrt(error / rates)) / interval), 1)
    return float(f"{intervals * interval:.6g}")


def uniform(t: FloatArray, values: FloatArray, interval: float) -> FloatArray:
    """Resample at equal intervals [s] by linear interpolation of samples at times t."""
    return np.interp(np.arange(t[0], t[-1] + interval / 2, interval), t, values)


def detrended(values: FloatArray) -> FloatArray:
    """Subtract the straight line through the first and the last value."""
    return np.asarray(values - np.linspace(values[0], values[-1], len(values)))


def moving_part(values: FloatArray, interval: float, cutoff: float) -> tuple[FloatArray, FloatArray]:
    """Spectrum of a motion without noise: angular frequencies [rad/s] and mean squares; empty without motion."""
    window = np.hanning(len(values))
    power = 2 * np.abs(np.fft.rfft((values - values.mean()) * window)) ** 2 / (len(values) * (window @ window))
    frequency = np.fft.rfftfreq(len(values), interval)
    kept = (frequency > 0) & (frequency <= cutoff)
    omega, power = 2 * np.pi * frequency[kept], power[kept]
    rates = omega**2 * power
    if not rates.sum() > 2 * np.finfo(float).eps * np.mean(values**2) / (window @ window) * len(values):
        return np.zeros(0), np.zeros(0)
    shared = np.cumsum(_outstanding(power) * rates)
    meets_noise = len(rates) - 1
    if len(rates) >= _FIRST:  # enough to tell: the last frequency of the half octave with the least density
        edges, densities = _half_octaves(rates)
        meets_noise = int(edges[int(np.argmin(densities)) + 1]) - 1
    last = max(int(np.searchsorted(shared, _MOST * shared[-1])), meets_noise)
    return np.asarray(omega[: last + 1]), np.asarray(power[: last + 1])


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
