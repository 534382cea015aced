"""Motions for `truth.py`, by Lagrange's equations and Runge–Kutta steps that share nothing with spookid."""

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np
from scipy.signal import lfilter

Array = np.ndarray


def lagrange(
    kinetic: Callable[..., Any],
    potential: Callable[..., Any],
    forces: Callable[..., Any],
    n: int,
    inputs: int,
    kicks: int | None = None,
) -> ca.Function:
    """Time derivative of (q, q̇) by inputs and random forces, from T(q, q̇), V(q) and Q(q, q̇, u, w)."""
    q, v, u, w = (ca.SX.sym(s, size) for s, size in zip("qvuw", (n, n, inputs, kicks or n), strict=True))
    T = kinetic(q, v)
    p = ca.gradient(T, v)
    rest = ca.gradient(T, q) - ca.gradient(potential(q), q) - ca.jacobian(p, q) @ v + forces(q, v, u, w)
    return ca.Function("rates", [ca.vertcat(q, v), u, w], [ca.vertcat(v, ca.solve(ca.jacobian(p, v), rest))])


def run(
    rates: ca.Function,
    start: Sequence[float],
    control: Callable[[int, Array], Array],
    density: Sequence[float],
    sigma: Sequence[float],
    rng: np.random.Generator,
    times: tuple[int, float, int],
    hidden: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Measured coordinates, inputs and states at all samples.

    Args:
        control: inputs, held until the next sample, by its number and the measured coordinates.
        density: of the random forces [N m/√Hz].
        sigma: of the noise of the first coordinates.
        times: number of samples, interval [s], and fine steps of each.
        hidden: inputs that are not recorded, (samples, inputs).
    """
    count, dt, fine = times
    x, u, w = (ca.SX.sym(s, rates.size1_in(i)) for i, s in enumerate("xuw"))
    h, a = dt / fine, rates(x, u, w)
    b = rates(x + h / 2 * a, u, w)
    c = rates(x + h / 2 * b, u, w)
    step = ca.Function("step", [x, u, w], [x + h / 6 * (a + 2 * b + 2 * c + rates(x + h * c, u, w))])
    steps, n, m = step.mapaccum(fine), len(sigma), rates.size1_in(1)
    state, kicks = np.array(start, dtype=float), rng.normal(size=(count, len(density), fine))
    kicks *= np.array(density)[:, None] / np.sqrt(h)
    shown, inputs, states = np.empty((count, n)), np.empty((count, m)), np.empty((count, len(start)))
    for k in range(count):
        states[k], shown[k] = state, state[:n] + np.array(sigma) * rng.normal(size=n)
        inputs[k] = control(k, shown[k])
        acts = inputs[k] if hidden is None else inputs[k] + hidden[k]
        state = steps(state, np.tile(acts, (fine, 1)).T, kicks[k]).full()[:, -1]
    return shown, inputs, states


def tones(rng: np.random.Generator, t: Array, frequencies: Sequence[float], size: float) -> Array:
    """Sines of random phases, with this root mean square."""
    f, phases = np.array(frequencies)[:, None], rng.uniform(0, 2 * np.pi, (len(frequencies), 1))
    return np.asarray(size * np.sin(2 * np.pi * f * t + phases).sum(axis=0) / np.sqrt(len(f) / 2))


def lasting_noise(rng: np.random.Generator, count: int, sizes: Sequence[float], kept: float) -> Array:
    """Noise of which this share lasts from sample to sample, (count, sizes)."""
    white = np.sqrt(1 - kept**2) * rng.normal(size=(count, len(sizes)))
    first = kept * rng.normal(size=(1, len(sizes)))
    return np.asarray(lfilter([1], [1, -kept], white, axis=0, zi=first)[0] * np.array(sizes))
