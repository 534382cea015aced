"""Polynomials through what a sensor shows at equidistant steps: their values in between, and what they leave out.

At a place τ, in steps from one of n, the polynomial of least degree through all of them is Newton's sum of forward
differences. Of a sinusoid of angular frequency ω it leaves out |Σ_j w_j(τ) e^{iωh(j − τ)} − 1| with Lagrange's weights
w_j, about (ωh)^n times a number that falls with n: at the middle 1/16 of three, 3/128 of four, 5/1024 of six. Of a
motion it leaves out the sum over the spectrum of what the sensor shows, as far as that stands above noise.
"""

from __future__ import annotations

from itertools import pairwise

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray
from spookid.data.bandwidth import detrended, moving_part, uniform

_PLACES = 16
"""Between two steps, at which what is left out is looked at."""
_LEAST = 8
"""Samples of a spectrum."""


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


def left_out(t: FloatArray, values: FloatArray, step: float, states: int, cutoff: float) -> float:
    """Root mean square of what polynomials through so many neighbouring states miss between the steps, in the unit of
    the values; 0 for what stands still.

    Args:
        t: times of the values [s], increasing.
        values: what a sensor has shown, without jumps.
        step: h [s].
        states: n; of an odd number the middle one is the nearest.
        cutoff: above which there is no motion [Hz].
    """
    if len(t) < _LEAST:
        return 0.0
    interval = float(np.median(np.diff(t)))
    omega, power = moving_part(detrended(uniform(t, values, interval)), interval, cutoff)
    return float(np.sqrt(power @ _missed(omega * step, states)))


def _missed(turned: FloatArray, states: int) -> FloatArray:
    """Mean square over the places between two steps of what is left out of sinusoids that turn so far in a step."""
    nodes = np.arange(states)
    first = (states - 1) // 2
    place = (np.arange(_PLACES) + 0.5) / _PLACES - (0.5 if states % 2 else 0.0) + first
    others = [np.delete(nodes, j) for j in nodes]
    weights = np.array(
        [np.prod((place[:, None] - rest) / (j - rest), axis=1) for j, rest in zip(nodes, others, strict=True)]
    )
    total = np.zeros(len(turned))
    for own, at in zip(weights.T, place, strict=True):
        total += np.abs(np.exp(1j * np.outer(turned, nodes - at)) @ own - 1) ** 2
    return total / _PLACES
