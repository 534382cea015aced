"""What an update of a ``FixedLagSmoother`` takes, samples and estimate included:
``python tests/benchmarks/online.py [--seconds S] [--processor]``.

Updates that estimate something anew count, each with all samples of its step. Times are also given as ratios to
LAPACK's banded Cholesky of 1000 steps of 24 unknowns, measured in the same run.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy loads its BLAS

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import numpy as np
from benchmarks.rows import Bench
from benchmarks.table import Row, text
from online_twins import BEGIN, measured, rod, rows, swing
from test_online_graphs import fourbar

from spookid import FixedLagSmoother, Problem, Recording, load_problem
from spookid.graphs import forward_dynamics

Updates = Iterator[tuple[float, dict[str, float]]]


def spent(smoother: FixedLagSmoother, updates: Updates, clock: Callable[[], float]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each step, and its Gauss–Newton steps."""
    times, iterations, waited = [], [], 0.0
    for t, values in updates:
        began = clock()
        estimate = smoother.update(t, values)
        waited += clock() - began
        if estimate.iterations:
            times.append(waited)
            iterations.append(estimate.iterations)
            waited = 0.0
    return np.array(times), np.array(iterations)


def followed(problem: Problem, recording: Recording, window: int, seconds: float) -> tuple[FixedLagSmoother, Updates]:
    """A smoother at the end of a batch fit, and what comes after it."""
    start = float(recording.t[0]) + BEGIN
    first = problem.with_(recordings=[recording.between(recording.t[0], start)])
    return FixedLagSmoother(first, window, start=first.solve()), rows(recording.between(start, start + seconds))


def four_bar_graph(seconds: float) -> tuple[FixedLagSmoother, Updates]:
    """A four-bar linkage that swings freely, as a factor graph over ten steps."""
    mechanism = fourbar()
    q = mechanism.assembled()
    smoother = FixedLagSmoother(forward_dynamics(mechanism, 1e-3, q), 10, start={"q": q})
    return smoother, ((1e-3 * k, {}) for k in range(round(1e3 * seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of data that each smoother follows")
    parser.add_argument("--processor", action="store_true", help="processor time, on a machine that is busy")
    given = parser.parse_args()
    clock = time.process_time if given.processor else time.perf_counter
    floor, found = Bench(1000, 1, clock).floor(), []
    release = load_problem(ROOT / "problems/furuta_release.py")
    for what, (smoother, updates), target in (
        ("pendulum, 4 parameters, window 100", followed(rod(), measured(swing(0, 6.0)), 100, given.seconds), 2.0),
        ("Furuta release, 12 parameters, window 50", followed(release, release.recordings[0], 50, given.seconds), 3.0),
        ("four-bar as a graph, window 10", four_bar_graph(given.seconds), 1.0),
    ):
        times, iterations = spent(smoother, updates, clock)
        value = float(np.median(times))
        note = f"{iterations.mean():.1f} iterations; 90 % within {1e3 * np.quantile(times, 0.9):.2f} ms"
        found.append(Row(what, 1e3 * value, "ms", value / floor, f"≤ {target:g} ms", note))
    print(f"floor: {1e3 * floor:.2f} ms")
    print(text(found))


if __name__ == "__main__":
    main()
