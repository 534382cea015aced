"""Polynomials through what a sensor shows at equidistant steps: their values in between, and what they leave out.

At a place τ, in steps from one of n, the polynomial of least degree through all of them is Newton's sum of forward
differences. Of a sinusoid of angular frequency ω it leaves out |Σ_j w_j(τ) e^{iωh(j − τ)} − 1| with Lagrange's weights
w_j, about (ωh)^n times a number that falls with n: at the middle 1/16 of three, 3/128 of four, 5/1024 of six. Of its
derivatives the weights are those of the polynomial's, and each takes one power of ωh. Of a motion it leaves out the sum
over the spectrum of what the sensor shows, as far as that stands above noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.bandwidth import detrended, moving_part, uniform

_PLACES = 16
"""Between two steps, at which what is left out is looked at."""
_LEAST = 8
"""Samples of a spectrum."""
_DIFFERENCES: dict[int, Callable[[FloatArray], FloatArray]] = {
    0: np.ones_like,
    1: lambda x: np.asarray(np.sinc(x / np.pi)),
    2: lambda x: np.asarray(np.sinc(x / 2 / np.pi) ** 2),
}
"""By order, the share that differences over the steps on both sides have of what they stand for."""


def polynomial(differences: list[ca.SX], first: int, place: ca.SX) -> ca.SX:
    """What is to be added to the value at one of n steps, at a place in steps from there.

    Args:
        differences: of the values at neighbouring steps, n − 1.
        first: number of the step from which the place is counted.
    """
    leading, row = [], list(differences)
    while row:
        leading.append(row[0])
        row = [after - before for before, after in pairwise(row)]
    s, value = place + first, ca.SX(0)
    for k in reversed(range(len(leading))):
        value = (s - k) / (k + 1) * (leading[k] + value)
    return value - sum(differences[:first], ca.SX(0))


def slopes(states: int, order: int) -> FloatArray:
    """Of a derivative of the polynomial at each of the steps, the weights of the values at all of them, (n, n), for
    steps of length 1."""
    nodes = np.arange(states, dtype=np.float64)
    return _weights(nodes, nodes, order)


def spectrum(t: FloatArray, values: FloatArray, cutoff: float) -> tuple[FloatArray, FloatArray]:
    """Of what a sensor has shown, less a line: angular frequencies [rad/s] and the mean squares there, as far as these
    stand above noise; empty for what does not change.

    Args:
        t: times of the values [s], increasing.
        values: without jumps.
        cutoff: above which there is no motion [Hz].
    """
    if len(t) < _LEAST:
        return np.zeros(0), np.zeros(0)
    interval = float(np.median(np.diff(t)))
    return moving_part(detrended(uniform(t, values, interval)), interval, cutoff)


def left_out(omega: FloatArray, power: FloatArray, step: float, states: int, order: int) -> float:
    """Mean square of what polynomials through the positions at so many neighbouring states miss between the steps of
    what a sensor shows, in its unit squared.

    Args:
        omega, power: as of ``spectrum``.
        step: h [s].
        states: n; of an odd number the middle one is the nearest. With two, rates and accelerations are differences
            over steps on both sides, and lie on a line in between.
        order: how many time derivatives of positions the sensor shows.
    """
    return float(power @ _missed(omega * step, states, order))


def _missed(turned: FloatArray, states: int, order: int) -> FloatArray:
    """Mean square over the places between two steps of what is left out of sinusoids that turn so far in a step."""
    nodes, first = np.arange(states, dtype=np.float64), (states - 1) // 2
    place = (np.arange(_PLACES) + 0.5) / _PLACES - (0.5 if states % 2 else 0.0) + first
    lines = states == 2
    weights = _weights(nodes, place, 0 if lines else order)
    known = _DIFFERENCES[order](turned) if lines else (1j * turned) ** -float(order)
    total = np.zeros(len(turned))
    for own, at in zip(weights, place, strict=True):
        total += np.abs(known * (np.exp(1j * np.outer(turned, nodes - at)) @ own) - 1) ** 2
    return total / _PLACES


def _weights(nodes: FloatArray, places: FloatArray, order: int) -> FloatArray:
    """Of the values at n nodes in a derivative of the polynomial through them at m places, (m, n)."""
    centre = nodes.mean()
    powers = np.arange(len(nodes))
    factor = np.prod([np.maximum(powers - i, 0) for i in range(order)], axis=0)
    derivatives = factor * (places[:, None] - centre) ** np.maximum(powers - order, 0)
    return np.asarray(derivatives @ np.linalg.inv((nodes[:, None] - centre) ** powers))
