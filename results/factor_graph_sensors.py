"""A gyroscope on the four-bar's coupler and nothing else: the state, and a mass and friction in the same graph.

The twins move in the crank's angle by the trapezoidal rule with a random acceleration at each step, which is what the
graph takes them to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import casadi as ca
import numpy as np
from factor_graph_online import nees_row
from factor_graph_reference import Array, fourbar, functions
from matplotlib.figure import Figure

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

STEP, STEPS, WINDOWS = 5e-3, 401, {True: 20, False: 100}
"""The last one: steps in the window if mass and friction are known, and if they are not."""
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


@dataclass(frozen=True)
class Followed:
    """What a smoother tells of one twin."""

    states: Array
    """Angle and rate at each step, (N, 2)."""
    spreads: Array
    """Their standard errors (N, 2)."""
    squares: Array
    """NEES at the end: of angle and rate, and of the parameters if they are unknown."""
    parameters: str
    """Estimates with their errors at the end."""


def online(known: bool, runs: Twins, draw: int) -> Followed:
    """One twin, sample by sample."""
    own = graph(known)
    smoother = FixedLagSmoother(own, WINDOWS[known], start={"q": own.system.assembled()})
    columns = [own.variables.columns(name).start for name in ("z", "dz")]
    states, spreads = np.zeros((STEPS, 2)), np.zeros((STEPS, 2))
    for k in range(STEPS):
        found = smoother.update(STEP * k, {"gyro": runs.gyro[draw, k], "torque": 0.0})
        covariance = found.state_covariance[np.ix_(columns, columns)]
        states[k] = found.variables["z"][0], found.variables["dz"][0]
        spreads[k] = np.sqrt(np.diag(covariance))
    error = states[-1] - (runs.θ[draw, -1], runs.ω[draw, -1])
    squares = [error @ np.linalg.solve(covariance, error)]
    if not known:
        off = np.array([found.values[name] - value for name, value in TRUTH.items()])
        squares.append(off @ np.linalg.solve(found.covariance, off))
    parameters = ", ".join(f"{name} {value:.4f} ± {found.std_errs[name]:.4f}" for name, value in found.values.items())
    return Followed(states, spreads, np.array(squares), parameters)


def gyroscope(draws: int, path: Path) -> tuple[list[str], list[str]]:
    """Rows of the pages' tables of NEES and of errors, and a figure of the first twin."""
    runs = twins(draws)
    nees, told, shown = [], [], []
    for known in (True, False):
        several = [online(known, runs, draw) for draw in range(draws)]
        means = np.mean([one.squares for one in several], axis=0)
        what = "mass and friction known" if known else "mass and friction unknown"
        for label, mean in zip(("angle and rate", "2 parameters"), means, strict=False):
            nees.append(nees_row(f"four-bar, gyroscope, {what}: {label}", mean, 2, draws))
        true = np.array([runs.θ, runs.ω]).transpose(1, 2, 0)[:, STEPS // 2 :]
        errors = np.array([one.states for one in several])[:, STEPS // 2 :] - true
        rms = np.sqrt(np.mean(errors**2, axis=(0, 1)))
        told.append(
            f"| {what} | {WINDOWS[known]} | {1e3 * rms[0]:.2f} | {1e3 * rms[1]:.2f} | {several[0].parameters} |"
        )
        print(told[-1], flush=True)
        shown.append(several[0])
    _figure(runs, shown, path)
    return [*nees, batch(runs)], told


def batch(runs: Twins) -> str:
    """The row of NEES of the parameters by a solve of all steps at once: mean squares of their ratios, added up."""
    own, still, squares = graph(False), np.zeros(STEPS), []
    guess = simulated(own.system, STEP, STEPS, own.system.assembled(), data={"torque": still})
    for gyro in runs.gyro:
        found = own.solve(STEPS, {"gyro": gyro, "torque": still}, start=guess)
        ratios = [(found.parameters[name] - value) / found.standard_errors[name] for name, value in TRUTH.items()]
        squares.append(np.square(ratios))
    means = [f"{name} {mean:.2f}" for name, mean in zip(TRUTH, np.mean(squares, axis=0), strict=True)]
    return (
        f"| the same, all steps at once, squares of error / std_err | {len(squares)} | {', '.join(means)} | 1 each | |"
    )


def _figure(runs: Twins, shown: list[Followed], path: Path) -> None:
    t = STEP * np.arange(STEPS)
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    true = np.column_stack([runs.θ[0], runs.ω[0]])
    for i, (name, unit) in enumerate((("θ", "rad"), ("ω", "rad/s"))):
        panels[0, i].plot(t, shown[1].states[:, i], label="estimated, mass and friction unknown")
        panels[0, i].plot(t[::10], true[::10, i], "k.", ms=3, label="true")
        panels[0, i].set_ylabel(f"{name} [{unit}]")
        for j, (one, what) in enumerate(zip(shown, ("known", "unknown"), strict=True)):
            panels[1, i].plot(t, one.states[:, i] - true[:, i], color=f"C{1 - j}", lw=0.9, label=what)
            for sign in (2, -2):
                panels[1, i].plot(t, sign * one.spreads[:, i], color=f"C{1 - j}", lw=0.9, ls=":")
        panels[1, i].set(ylabel=f"error of {name} [{unit}]; dotted: ± 2 std", xlabel="t [s]")
    panels[1, 0].set_ylim(-0.06, 0.06)
    panels[1, 1].set_ylim(-0.15, 0.15)
    panels[0, 0].legend(fontsize="small")
    panels[1, 0].legend(fontsize="small", title="mass and friction", title_fontsize="small")
    figure.savefig(path, dpi=100)
