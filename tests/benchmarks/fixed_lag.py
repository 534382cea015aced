"""What an update of the fixed-lag smoother takes: ``python tests/benchmarks/fixed_lag.py [--updates N]``.

Times are also given as ratios to LAPACK's banded Cholesky of 1000 steps of 24 unknowns, measured in the same run.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import casadi as ca
import numpy as np
from benchmarks.rows import Bench
from benchmarks.table import Row, text
from fixed_lag_problems import factor, transcription

from spookid.solvers.fixed_lag import FixedLag
from spookid.transcription.transcription import Transcription

Array = np.ndarray
STEP, WARM = 0.01, 300


@dataclass
class Stream:
    """A mechanism that is followed."""

    what: str
    problem: Transcription
    truth: Array
    start: Array
    window: int
    sample: Callable[[int], dict[str, Array]]
    """Data of the rows that a step completes, by the name of their factor."""
    target: float
    """Seconds of an update."""
    volumes: bool = False

    def times(self, updates: int) -> tuple[Array, Array, FixedLag]:
        """Seconds and Gauss–Newton steps of each update."""
        lag = FixedLag(self.problem, self.window, parameters=self.truth, volumes=self.volumes)
        reaches = {f.name: f.reach for f in self.problem.factors}
        spent, steps = np.zeros(updates), np.zeros(updates)
        for k in range(updates):
            data = self.sample(k)
            began = time.perf_counter()
            warm = k < min(WARM, updates // 2) and "observation" in data  # as from a fit of the first seconds
            lag.append(data["observation"] if warm else self.start if k == 0 else None)
            for name, numbers in data.items():
                if k >= reaches[name]:
                    lag.set_data(name, k - reaches[name], numbers)
            steps[k] = 0 if warm else lag.solve()
            spent[k] = time.perf_counter() - began
        return spent, steps, lag


def chain(what: str, links: int, parameters: int, window: int, target: float, volumes: bool = False) -> Stream:
    """Pendulums that are coupled and driven, by positions at three steps; all parameters are known to the smoother
    beforehand, and estimated on."""
    rng, truth = np.random.default_rng(0), np.ones(parameters)
    x, theta, u = [ca.SX.sym(f"x{i}", links) for i in range(3)], ca.SX.sym("theta", parameters), ca.SX.sym("u")
    v, a = (x[2] - x[0]) / (2 * STEP), (x[2] - 2 * x[1] + x[0]) / STEP**2
    terms = [a, v, ca.sin(x[1]), v**3, -u * ca.SX.ones(links), x[1], ca.sin(2 * x[1]), ca.cos(x[1]) - 1]
    terms += [ca.sin(k * x[1] + v) for k in range(1, parameters)]
    torque = sum((theta[i] * terms[i] for i in range(min(parameters, 5))), ca.SX.zeros(links))
    torque += sum(((theta[i] - 1) * terms[i] for i in range(5, parameters)), ca.SX.zeros(links))
    if parameters < 5:
        torque += terms[4]
    y = ca.SX.sym("y", links)
    motion = factor("motion", torque / 0.1, x, u, density=tuple(range(links)))
    problem = transcription([motion, factor("observation", (x[0] - y) / 1e-5, x[:1], y)], theta, 1000)
    known = ca.Function("f", [*x, u], [ca.substitute(torque, theta, ca.DM(truth))])
    states = [np.full(links, 0.5), np.full(links, 0.5)]

    def sample(k: int) -> dict[str, Array]:
        drive = np.array([4 * np.sin(0.02 * k) + 3 * np.sin(0.05 * k)])
        if k >= 2:
            states.append(states[-1])
            for _ in range(6):  # Newton by the slope of the acceleration, which dominates
                rest = known(*states[-3:], drive).full().ravel() - 0.1 * sample.noise[k % 1000]
                states[-1] = states[-1] - rest * STEP**2 / (1 + STEP / 2)
            del states[0]
        seen = states[min(k, 1)] if k < 2 else states[-1]
        return {"motion": drive, "observation": seen + 1e-5 * rng.normal(size=links)}

    sample.noise = rng.normal(size=(1000, links))
    return Stream(what, problem, truth, np.full(links, 0.5), window, sample, target, volumes)


def four_bar() -> Stream:
    """A falling four-bar in dependent coordinates, positions, rates and accelerations by the trapezoidal rule: 12
    unknowns and 18 rows a step."""
    h, x = 1e-3, [ca.SX.sym(f"x{i}", 12) for i in range(2)]
    (q, v, a), (q1, v1, a1) = (ca.vertsplit(state, 4) for state in x)
    closed = ca.vertcat(ca.sumsqr(q[:2]) - 1, ca.sumsqr(q[:2] - q[2:]) - 4, (q[2] - 3) ** 2 + q[3] ** 2 - 6.25)
    slope, masses, weight = ca.jacobian(closed, q), np.diag([1, 1.5, 0.7, 2.0]), ca.DM([0, -9.81, 0, -9.81])
    force = ca.solve(slope @ masses @ slope.T, slope @ weight + ca.jtimes(slope @ v, q, v))
    fall = weight - masses @ slope.T @ force
    rows = [
        factor("positions", (q1 - q - h / 2 * (v + v1)) / 1e-6, x),
        factor("rates", (v1 - v - h / 2 * (a + a1)) / 1e-5, x),
        factor("closed", closed / 1e-6, x[:1]),
        factor("tangent", slope @ v / 1e-5, x[:1]),
        factor("dynamics", (a - fall) / 1e-4, x[:1]),
    ]
    joint = _meeting(np.array([1.0, 0.0]), 2.0, np.array([3.0, 0.0]), 2.5)
    problem = transcription(rows, ca.SX(0, 1), 1000)
    start = np.concatenate([[1, 0], joint, np.zeros(8)])
    start[8:] = ca.Function("a", [q, v], [fall])(start[:4], start[4:8]).full().ravel()
    return Stream("four-bar, dependent, window 10", problem, np.zeros(0), start, 10, lambda _: {}, 1e-3)


def _meeting(a: Array, r: float, b: Array, s: float) -> Array:
    """Where circles about a and b meet, the upper point."""
    d = np.linalg.norm(b - a)
    along = (r**2 - s**2 + d**2) / (2 * d)
    e = (b - a) / d
    return a + along * e + np.sqrt(r**2 - along**2) * np.array([-e[1], e[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=2000, help="of each stream")
    given = parser.parse_args()
    floor = Bench(1000, 1, time.perf_counter).floor()
    rows = []
    for stream in (
        four_bar(),
        chain("1 unknown, 4 parameters, window 100", 1, 4, 100, 2e-3),
        chain("the same with volumes", 1, 4, 100, 2e-3, volumes=True),
        chain("2 unknowns, 4 parameters, window 50", 2, 4, 50, 3e-3),
        chain("2 unknowns, 13 parameters, window 50", 2, 13, 50, 3e-3),
        chain("the same with volumes", 2, 13, 50, 3e-3, volumes=True),
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        spent, steps, _ = stream.times(given.updates + WARM)
        spent, steps = spent[WARM:], steps[WARM:]
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        tenth = max(len(spent) // 10, 1)
        early, late = np.median(spent[tenth : 2 * tenth]), np.median(spent[-tenth:])
        note = f"{steps[tenth:].mean():.1f} steps; last tenth {late / early:.2f} of second; {grown / 1024:.0f} MB more"
        value = float(np.median(spent[tenth:]))
        rows.append(Row(stream.what, 1e3 * value, "ms", value / floor, f"≤ {1e3 * stream.target:g} ms", note))
    print(f"floor: {1e3 * floor:.2f} ms")
    print(text(rows))


if __name__ == "__main__":
    main()
