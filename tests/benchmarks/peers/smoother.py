"""A pendulum's parameters while samples arrive, by spookid and by GTSAM, for ``arm.py``.

Both smooth over a window of 0.5 s, keep the parameters beside it, and are given the noise. GTSAM's factors are written
in Python, with their derivatives; its smoother is C++.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gtsam
import numpy as np
from gtsam.symbol_shorthand import P, X
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    gravity,
)

H, WINDOW, SIGMA, FIRST = 0.01, 0.5, 1e-3, 200
M, L, G = 0.5, 0.2, 9.81
TRUTH = {"J": 0.02, "b": 0.01}
PUSH = 2e-3
"""Process noise that both are given, N m/√Hz."""
COLUMNS = ("way", "CPU of an update [ms]", "error of a", "error of b / J₀", "99 % below [ms]")


def coefficients(J: float, b: float) -> np.ndarray:
    """(a, d) of θ¨ = −a sin θ − d θ̇."""
    return np.array([M * G * L, b]) / (J + M * L**2)


def measured(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and angles with noise; a small random torque drives the pendulum."""
    t, rng = H * np.arange(count), np.random.default_rng(0)
    a, d = coefficients(**TRUTH)
    push = PUSH / np.sqrt(H) * rng.normal(size=count) / (TRUTH["J"] + M * L**2)

    def rates(when: float, x: np.ndarray) -> tuple[float, float]:
        return x[1], -a * np.sin(x[0]) - d * x[1] + push[min(int(when / H + 1e-9), count - 1)]

    swing = solve_ivp(rates, (0, t[-1]), (1.5, 0.0), t_eval=t, rtol=1e-8, max_step=H)
    return t, swing.y[0] + SIGMA * rng.normal(size=count)


def spookid(t: np.ndarray, theta: np.ndarray) -> tuple[Callable[[int], Any], Callable[[], np.ndarray]]:
    J, b = (Parameter(name, 2 * TRUTH[name], lower=1e-6) for name in "Jb")
    rod = Body("rod", mass=M, inertia=(1e-4, 0.01, J))
    axle, pivot = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-L, 0, 0), x=(0, 0, 1), y=(1, 0, 0))
    hinge = Hinge("hinge", axle, pivot, viscous=b, disturbance=PUSH)
    problem = Problem(
        "swing",
        Model([rod], [hinge], gravity=gravity(G)),
        recordings=[Recording(t[:FIRST], {"theta": theta[:FIRST]}, "first")],
        observations=[HingeAngle(hinge, "theta", sigma=SIGMA)],
        step=H,
    )
    smoother = FixedLagSmoother(problem, seconds=WINDOW, start=problem.solve())

    def found() -> np.ndarray:
        values = smoother.estimate.values
        return coefficients(values["J"], values["b"])

    return lambda k: smoother.update(t[k], {"theta": theta[k]}), found


def _step(this: Any, values: Any, jacobians: Any) -> np.ndarray:
    """Midpoint rule between two states (angle, rate)."""
    x, y, p = (values.atVector(key) for key in list(this.keys()))
    q, v = (x + y) / 2
    if jacobians is not None:
        A = H / 2 * np.array([[0, 1], [-p[0] * np.cos(q), -p[1]]])
        jacobians[0], jacobians[1] = -np.eye(2) - A, np.eye(2) - A
        jacobians[2] = H * np.array([[0, 0], [np.sin(q), v]])
    return np.asarray(y - x - H * np.array([v, -p[0] * np.sin(q) - p[1] * v]))


def _encoder(angle: np.ndarray, this: Any, values: Any, jacobians: Any) -> np.ndarray:
    if jacobians is not None:
        jacobians[0] = np.array([[1.0, 0.0]])
    return np.asarray(values.atVector(this.keys()[0])[:1] - angle)


def by_gtsam(t: np.ndarray, theta: np.ndarray) -> tuple[Callable[[int], Any], Callable[[], np.ndarray]]:
    smoother = gtsam.IncrementalFixedLagSmoother(WINDOW)
    pushed = PUSH * np.sqrt(H) / (TRUTH["J"] + M * L**2)
    motion = gtsam.noiseModel.Diagonal.Sigmas(np.array([1e-6, pushed]))
    sensor, wide = gtsam.noiseModel.Isotropic.Sigma(1, SIGMA), gtsam.noiseModel.Diagonal.Sigmas(np.array([20.0, 1.0]))
    guess, last = coefficients(*(2 * value for value in TRUTH.values())), np.zeros(2)

    def update(k: int) -> None:
        nonlocal last
        graph, new = gtsam.NonlinearFactorGraph(), gtsam.Values()
        graph.add(gtsam.CustomFactor(sensor, [X(k)], partial(_encoder, theta[k : k + 1])))
        if k == 0:
            new.insert(P(0), guess)
            graph.add(gtsam.PriorFactorVector(P(0), guess, wide))
            last = np.array([theta[0], 0.0])
            graph.add(gtsam.PriorFactorVector(X(0), last, gtsam.noiseModel.Isotropic.Sigma(2, 0.1)))
        else:
            graph.add(gtsam.CustomFactor(motion, [X(k - 1), X(k), P(0)], _step))
        new.insert(X(k), np.array([theta[k], last[1]]))
        smoother.update(graph, new, {X(k): t[k], P(0): t[k]})
        last = smoother.calculateEstimateVector(X(k))

    for k in range(FIRST):
        update(k)
    return update, lambda: np.asarray(smoother.calculateEstimateVector(P(0)))


def row(name: str, begin: Callable[..., Any], count: int) -> tuple[str, ...]:
    """What updates take, and where the parameters are at the end."""
    t, theta = measured(count)
    update, found = begin(t, theta)
    taken = []
    for k in range(FIRST, count):
        began = time.process_time()
        update(k)
        taken.append(1e3 * (time.process_time() - began))
    off = found() / coefficients(**TRUTH) - 1
    return name, f"{np.median(taken):.2f}", *(f"{100 * one:+.2f} %" for one in off), f"{np.quantile(taken, 0.99):.2f}"


def rows(count: int = 2000) -> list[tuple[str, ...]]:
    """Both, one after the other."""
    return [row("spookid", spookid, count), row("GTSAM", by_gtsam, count)]
