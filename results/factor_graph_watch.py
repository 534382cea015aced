"""How soon a step in a parameter is told: ten plain standard errors of a fit of the two seconds after it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from spookid import FixedLagSmoother, Monitor, Recording

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from online_twins import BEGIN, PUSH, ROD, SIGMA, measured, rod, rows

ONSET, END, STEP, SIZE = 30.0, 34.0, 0.01, 10.0
PARAMETERS = {"b": "friction", "J": "payload (moment of inertia)"}


def changed(seed: int, **values: float) -> Recording:
    """A driven pendulum at 100 Hz, some of whose parameters are others from the onset on."""
    problem, t = rod().with_(step=STEP), np.arange(0, END + 1e-9, STEP)
    u = 3 * np.sin(2 * np.pi * 0.7 * t) * np.sin(1.3 * t) + 2 * np.sign(np.sin(5.1 * t))
    noise, last, state, parts = {"pin": PUSH, "theta": SIGMA}, round(ONSET / STEP), {"pin": 0.5}, []
    for number, (part, truth) in enumerate(((slice(0, last + 1), ROD), (slice(last, None), ROD | values))):
        drive = Recording(t[part] - t[part][0], {"u": u[part]})
        run = problem.simulate(truth, drive.t[-1], state, inputs=drive, noise=noise, seed=2 * seed + number, substeps=1)
        state = run.q[-1], run.v[-1]
        parts.append(run.signals["theta"][number:])
    return Recording(t, {"theta": np.concatenate(parts), "u": u})


def watching(draws: int) -> list[str]:
    """Rows of the page's table: how long after the onset steps are told, and how large."""
    written = []
    for name, words in PARAMETERS.items():
        delays, ratios, right = [], [], 0
        for seed in range(draws):
            problem = rod().with_(step=STEP)
            after = problem.with_(recordings=[measured(changed(seed)).between(ONSET, ONSET + BEGIN)])
            step = SIZE * after.solve()[name].std_err
            run = changed(seed, **{name: ROD[name] + step})
            first = problem.with_(recordings=[run.between(0, BEGIN)])
            monitor = Monitor(FixedLagSmoother(first, seconds=0.2, start=first.solve()))
            for t, values in rows(run.between(BEGIN, END)):
                monitor.update(t, values)
                if monitor.changes:
                    break
            if monitor.changes:
                found = monitor.changes[0]
                delays.append(t - ONSET)
                right += found.parameter == name
                ratios.append((found.change - step) / found.error)
        ratio = f"{np.sqrt(np.mean(np.square(ratios))):.1f}" if ratios else ""
        soon = f"{np.median(delays):.2f}, {np.max(delays):.2f}" if delays else ""
        share = f"{100 * step / ROD[name]:.0f} %"
        written.append(f"| {words} | {share} | {len(delays)} of {draws} | {right} | {soon} | {ratio} |")
        print(written[-1], flush=True)
    return written
