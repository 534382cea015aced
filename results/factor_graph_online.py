"""Estimates while data come in: against batch fits, their errors over twins, and what an update takes.

python results/factor_graph_online.py 1000000    many updates in one run (an hour or less); prints as it goes
"""

from __future__ import annotations

import gc
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np
from factor_graph_reference import Array
from scipy.stats import chi2

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording
from spookid import gravity as downward
from spookid.tables.table import uncertain

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from online_twins import (
    BEGIN,
    FOURBAR,
    IN_STEPS,
    PUSH,
    ROD,
    SIGMA,
    begun,
    followed,
    fourbar,
    measured,
    off,
    rod,
    rows,
    swing,
    turning,
)

STEP = 0.005
FURUTA = {"J_arm": 0.003, "J_rod": 0.004, "b_1": 1e-3, "b_2": 1e-4, "K": 0.05}


def furuta() -> Problem:
    """Two hinges, both with disturbances; five parameters."""
    arm = Body("A", mass=0.238, inertia=(1e-4, 0.003, Parameter("J_arm", 0.004, lower=1e-5)))
    J = Parameter("J_rod", 0.005, lower=1e-5)
    other = Body("B", mass=0.428, inertia=(1e-4, J, J))
    up, side = {"x": (0, 0, 1), "y": (1, 0, 0)}, {"x": (0, 1, 0), "y": (1, 0, 0)}
    pushed = {"compliance": 0, "disturbance": PUSH}
    b_1, b_2 = Parameter("b_1", 2e-3, lower=0), Parameter("b_2", 2e-4, lower=0)
    shoulder = Hinge("shoulder", GROUND.frame(**up), arm.frame(at=(-0.128, 0, 0), **up), viscous=b_1, **pushed)
    held = arm.frame(at=(0.12, 0, 0), x=(1, 0, 0), y=(0, 0, -1))
    elbow = Hinge("elbow", held, other.frame(at=(-0.092, 0, 0), **side), viscous=b_2, **pushed)
    motors = [Motor(shoulder, signal="u", gain=Parameter("K", 0.04))]
    sensors = [HingeAngle(shoulder, "theta1", sigma=SIGMA), HingeAngle(elbow, "theta2", sigma=SIGMA)]
    model = Model([arm, other], [shoulder, elbow], motors, gravity=downward(9.82))
    return Problem("furuta", model, observations=sensors, step=STEP, **IN_STEPS)


def furuta_run(duration: float) -> Recording:
    """Of the Furuta pendulum, with its true states."""
    t = np.arange(0, duration + 1e-9, STEP)
    drive = Recording(t, {"u": 3 * np.sin(2 * np.pi * (0.4 + 0.05 * t) * t)})
    noise = {"shoulder": PUSH, "elbow": PUSH, "theta1": SIGMA, "theta2": SIGMA}
    return furuta().simulate(FURUTA, duration, {"elbow": 1.0}, inputs=drive, noise=noise, seed=0, substeps=1)


def against_batch() -> list[str]:
    """Rows of the page's table: parameters of pendulum and four-bar, online and by a fit of all data."""
    written = []
    for name, truth, problem, run in (
        ("pendulum", ROD, rod(), swing()),
        ("four-bar", FOURBAR, fourbar(), turning()),
    ):
        whole = problem.with_(recordings=[measured(run)]).solve()
        online = followed(begun(problem, run, seconds=0.2), measured(run).between(BEGIN, 99.0))
        for parameter, ratio in zip(online.values, off(online, whole), strict=True):
            own = whole[parameter]
            written.append(
                f"| {name} | {parameter} | {truth[parameter]:g} | {own.estimate:.6g} ± {own.std_err:.2g} | "
                f"{online[parameter]:.6g} ± {online.std_errs[parameter]:.2g} | {ratio:+.4f} |"
            )
            print(written[-1], flush=True)
            name = ""
    return written


def consistency(draws: int) -> list[str]:
    """Mean NEES of pendulum twins after 3 s, of parameters and of the newest state; rows of the page's table."""
    squares = []
    for seed in range(draws):
        run = swing(seed)
        found = followed(begun(rod(), run, seconds=0.2), measured(run).between(BEGIN, 99.0))
        x, z = run.q[-1, 0, [0, 2]]
        turned = found.positions["pin"] + math.atan2(x, -z)
        state = np.array([math.remainder(turned, 2 * math.pi), found.rates["pin"] - run.v[-1, 0, 4]])
        wrong = np.array([value - ROD[name] for name, value in found.values.items()])
        pairs = (wrong, found.covariance), (state, found.state_covariance)
        squares.append([error @ np.linalg.solve(covariance, error) for error, covariance in pairs])
    means = np.mean(squares, axis=0)
    return [
        nees_row(f"pendulum, {what}", mean, freedom, draws)
        for what, mean, freedom in zip(("4 parameters", "angle and rate"), means, (4, 2), strict=True)
    ]


def nees_row(what: str, mean: float, freedom: int, draws: int) -> str:
    """Of the page's table, with the interval that holds 99 of a hundred means if the errors are true."""
    low, high = chi2.ppf([0.005, 0.995], draws * freedom) / draws
    row = f"| {what} | {draws} | {mean:.2f} | {freedom} | {low:.2f} to {high:.2f} |"
    print(row, flush=True)
    return row


def updates() -> list[str]:
    """CPU time of updates, from the sample to the estimate with its covariance; rows of the page's table."""
    written = []
    cases = [
        ("pendulum, 4 parameters", rod(), swing(0, 8.0), 100, 2.0),
        ("Furuta pendulum, 5 parameters", furuta(), furuta_run(8.0), 50, 3.0),
    ]
    for name, problem, run, window, asked in cases:
        smoother = begun(problem, run, window=window)
        spent, iterations = [], []
        for t, values in rows(measured(run).between(BEGIN, 99.0)):
            before = time.process_time()
            iterations.append(smoother.update(t, values).iterations)
            spent.append(time.process_time() - before)
        written.append(row_of_times(name, window, 1e3 * np.array(spent), np.array(iterations), asked))
    return written


def row_of_times(name: str, window: int, spent: Array, iterations: Array, asked: float) -> str:
    """Of the page's table, from milliseconds."""
    low, middle, high = np.percentile(spent, (5, 50, 95))
    steps = f"{np.mean(iterations):.1f}, {iterations.max()}"
    row = f"| {name} | {window} | {middle:.2f} | {low:.2f} | {high:.2f} | {steps} | {asked:g} |"
    print(row, flush=True)
    return row


def many(count: int, window: int = 20) -> None:
    """Print time, memory and estimates of an endless pendulum, ten times over the run."""
    rng, arm = np.random.default_rng(1), 0.15
    smoother = begun(rod(), swing().between(0, BEGIN), window=window)
    θ, ω, u = smoother.estimate.positions["pin"], smoother.estimate.rates["pin"], 0.0
    spent, last = np.full(count, np.nan), round(BEGIN / STEP)
    θ, ω = smoother.estimate.positions["pin"], smoother.estimate.rates["pin"]
    shown = max(count // 10, 1)
    inertia = ROD["J"] + 0.3 * arm**2
    for k in range(count):
        t = (last + k) * STEP
        if k:
            push = PUSH * rng.standard_normal() / math.sqrt(STEP)
            for _ in range(5):
                friction = ROD["b"] * ω + ROD["c"] * math.tanh(ω / 0.05)
                ω += STEP / 5 * (ROD["K"] * u + push - friction - 0.3 * 9.81 * arm * math.sin(θ)) / inertia
                θ += STEP / 5 * ω
        u = 3 * math.sin(2.6 * t) * math.sin(0.31 * t) + 2 * math.copysign(1, math.sin(5.1 * t))
        sample = {"theta": θ + SIGMA * rng.standard_normal(), "u": u}
        before = time.process_time()
        smoother.update(t, sample)
        spent[k] = time.process_time() - before
        if (k + 1) % shown == 0:
            gc.collect()
            estimate = smoother.estimate
            values = ", ".join(f"{n} {uncertain(v, estimate.std_errs[n])}" for n, v in estimate.values.items())
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            took = 1e3 * np.median(spent[k + 1 - shown : k + 1])
            print(f"| {k + 1:,} | {took:.2f} | {memory:.1f} | {len(gc.get_objects()):,} | {values} |", flush=True)


if __name__ == "__main__":
    many(int(sys.argv[1]))
