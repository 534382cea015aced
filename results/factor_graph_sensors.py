"""A gyroscope on the four-bar's coupler and nothing else: the state, and a mass and friction in the same graph.

The twins move in the crank's angle by the trapezoidal rule with a random acceleration at each step, which is what the
graph takes them to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import casadi as ca
import numpy as np
from factor_graph_reference import Array, fourbar, functions
from matplotlib.figure import Figure
from scipy.stats import chi2

from spookid import FixedLagSmoother, Parameter
from spookid.graphs import (
    Dynamics,
    Graph,
    Observation,
    PositionConstraint,
    Prior,
    Trapezoid,
    VelocityConstraint,
    simulated,
)

STEP, STEPS, WINDOW = 5e-3, 401, 20
GYRO, PUSH = 0.01, 0.1
"""Noise of the sensor [rad/s] and of the acceleration at each step [rad/s²]."""
FIRST = 0.1, 0.2
"""Standard deviations of what is known of the first angle and rate [rad, rad/s]."""
TRUTH = {"m_coupler": 2.0, "b": 0.8}


@dataclass(frozen=True)
class Twins:
    """Several motions, (draws, N) each."""

    θ: Array
    ω: Array
    gyro: Array


def twins(draws: int, seed: int = 0) -> Twins:
    """Random motions and what the sensor shows of them."""
    rng = np.random.default_rng(seed)
    terms = functions()["terms"]

    def acceleration(θ: Array, ω: Array) -> Array:
        J, slope, weight = np.asarray(terms(θ[None]).full())
        return np.asarray((-slope / 2 * ω**2 - weight - TRUTH["b"] * ω) / J)

    θ, ω = np.zeros((draws, STEPS)), np.zeros((draws, STEPS))
    push = PUSH * rng.standard_normal((draws, STEPS))
    θ[:, 0], ω[:, 0] = (sigma * rng.standard_normal(draws) for sigma in FIRST)
    for k in range(STEPS - 1):
        before = acceleration(θ[:, k], ω[:, k]) + push[:, k]
        θ[:, k + 1], ω[:, k + 1] = θ[:, k] + STEP * ω[:, k], ω[:, k] + STEP * before
        for _ in range(30):
            after = acceleration(θ[:, k + 1], ω[:, k + 1]) + push[:, k + 1]
            ω[:, k + 1] = ω[:, k] + STEP / 2 * (before + after)
            θ[:, k + 1] = θ[:, k] + STEP / 2 * (ω[:, k] + ω[:, k + 1])
    points, slopes = (np.asarray(part.full()).T for part in functions()["points"](θ.reshape(1, -1)))
    shown = np.array(
        ca.Function("rate", [q := ca.SX.sym("q", 4), v := ca.SX.sym("v", 4)], [turning(q, v)])(
            points.T, (slopes * ω.reshape(-1, 1)).T
        )
    ).reshape(θ.shape)
    return Twins(θ, ω, shown + GYRO * rng.standard_normal(θ.shape))


def turning(q: ca.SX, v: ca.SX) -> ca.SX:
    """Angular velocity of the coupler, which is 2 m long [rad/s]."""
    return ((q[2] - q[0]) * (v[3] - v[1]) - (q[3] - q[1]) * (v[2] - v[0])) / 4


def graph(known: bool) -> Graph:
    """Of the mechanism that is known, or with a mass and friction to be found."""
    m = 2.0 if known else Parameter("m_coupler", 1.5, lower=0.1, unit="kg", prior=(1.5, 0.5))
    b = TRUTH["b"] if known else Parameter("b", 0.5, lower=0.0, unit="N m s", prior=(0.5, 0.3))
    return Graph(
        fourbar(coupler=m, friction=b),
        [
            Prior("z", (0.0,), sigma=FIRST[0]),
            Prior("dz", (0.0,), sigma=FIRST[1]),
            Trapezoid("z", "dz"),
            Trapezoid("dz", "ddz"),
            Dynamics("independent", sigma=PUSH),
            PositionConstraint("independent"),
            VelocityConstraint("independent"),
            Observation("gyro", turning, sigma=GYRO),
        ],
        step=STEP,
    )


def online(known: bool, runs: Twins, draw: int) -> tuple[Array, Array, Array]:
    """Estimates of angle and rate, their covariances and NEES of what is estimated at the end: (N, 2), (N, 2, 2), and
    of state and parameters (2,)."""
    own = graph(known)
    smoother = FixedLagSmoother(own, WINDOW, start={"q": own.system.assembled()})
    columns = [own.variables.columns(name).start for name in ("z", "dz")]
    states, spreads = np.zeros((STEPS, 2)), np.zeros((STEPS, 2, 2))
    for k in range(STEPS):
        found = smoother.update(STEP * k, {"gyro": runs.gyro[draw, k], "torque": 0.0})
        states[k] = found.variables["z"][0], found.variables["dz"][0]
        spreads[k] = found.state_covariance[np.ix_(columns, columns)]
    error = states[-1] - (runs.θ[draw, -1], runs.ω[draw, -1])
    nees = [error @ np.linalg.solve(spreads[-1], error)]
    if not known:
        off = np.array([found.values[name] - value for name, value in TRUTH.items()])
        nees.append(off @ np.linalg.solve(found.covariance, off))
    return states, spreads, np.array(nees)
