"""Poor initial values, gaps, missing samples and outliers on twins whose truth is known: `python
results/robustness.py`.

Writes robustness.md, row by row as it is measured: 200 starts of each mechanism and 20 twins of each row take an hour.
`--starts`, `--twins` and `--spoiled` count starts, twins with gaps and twins with outliers; `--kept rows.json` keeps
rows, and measures those again that are not in it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Parameter, Problem, Recording, Solution, load_problem
from spookid import gravity as down
from spookid.results.values import Basin

HERE = Path(__file__).parent
Truth = Mapping[str, float]
FURUTA = {"J_Azz": 3e-3, "J_Byy": 4e-3, "J_Bzz": 4e-3, "b_1": 1e-3, "b_2": 1e-4, "tilt_x": 0.01, "tilt_y": -0.02}
FIXED = ("J_Axx", "J_Ayy", "mu_1", "mu_2", "K")
FOURBAR = {"I_crank": 2e-4, "I_coupler": 2.5e-3, "I_rocker": 4e-3, "b": 0.01, "K": 0.05}
WITHIN = 4.0
"""Standard errors from the truth that an answer may be."""


# --- three mechanisms ---


@cache
def furuta() -> Problem:
    """The released Furuta pendulum, dry friction known to be none."""
    problem = load_problem(HERE.parent / "problems" / "furuta_release.py")
    return problem.with_(recordings=(), initial={"mu_1": 0.0, "mu_2": 0.0}, fixed=FIXED, step=0.005)


def release(duration: float, seed: int) -> Recording:
    """Of the Furuta pendulum near its upright position, 200 samples a second."""
    noise = {"theta1": 1e-3, "theta2": 1e-3, "shoulder": 1e-5, "elbow": 1e-5}
    still = Recording(t := np.arange(0, duration + 1e-9, 0.005), {"u": np.zeros(len(t))})
    start = {"elbow": np.pi - 0.05}
    run = furuta().simulate(FURUTA, duration, start, inputs=still, noise=noise, seed=seed)
    return Recording(run.t, run.signals)


@cache
def fourbar() -> Problem:
    """A driven linkage of a crank, a coupler and a rocker."""
    lengths, masses, names, guesses = (0.10, 0.25, 0.30), (0.2, 0.4, 0.5), ("crank", "coupler", "rocker"), (5, 10, 10)
    inertias = [Parameter(f"I_{name}", 1e-4 * guess, lower=1e-6) for name, guess in zip(names, guesses, strict=True)]
    links = [Body(n, mass=m, inertia=(1e-5, i, i)) for n, m, i in zip(names, masses, inertias, strict=True)]
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    starts = [link.frame(at=(-length / 2, 0, 0), **axle) for link, length in zip(links, lengths, strict=True)]
    ends = [link.frame(at=(length / 2, 0, 0), **axle) for link, length in zip(links, lengths, strict=True)]
    drive = Hinge("drive", GROUND.frame(**axle), starts[0], viscous=Parameter("b", 1e-3, lower=0))
    knee, wrist = Hinge("knee", ends[0], starts[1]), Hinge("wrist", ends[1], ends[2])
    pivot = Hinge("pivot", GROUND.frame(at=(0.3, 0, 0), **axle), starts[2])
    model = Model(links, [drive, knee, wrist, pivot], motors=[Motor(drive, "u", gain=Parameter("K", 0.03))],
                  gravity=(0, -9.81, 0))  # fmt: skip
    sensors = [HingeAngle(drive, "crank"), HingeAngle(pivot, "rocker")]
    return Problem("four-bar", model, observations=sensors, step=0.008)


def turning(duration: float, seed: int) -> Recording:
    """Of the linkage."""
    t = np.arange(0, duration + 1e-9, 0.008)
    drive = Recording(t, {"u": 4 * np.sin(2 * np.pi * (0.5 + 0.3 * t) * t) + 2})
    noise = {"crank": 1e-3, "rocker": 1e-3, "drive": 2e-4, "knee": 0.0, "wrist": 0.0, "pivot": 0.0}
    run = fourbar().simulate(FOURBAR, duration, {"drive": 1.0}, inputs=drive, noise=noise, seed=seed)
    return Recording(run.t, run.signals)


JOINTS = 6
ARM = {**{f"I_{i}": 0.02 / (i + 1) for i in range(JOINTS)}, **{f"b_{i}": 0.1 / (i + 1) for i in range(JOINTS)}}


@cache
def arm() -> Problem:
    """Six hinges with motors, in coordinates of joints: their links' inertias and friction."""
    links, joints, parent = [], [], GROUND
    for i in range(JOINTS):
        inertia = Parameter(f"I_{i}", 0.02, lower=1e-6)
        link = Body(f"link {i}", mass=3.0 / (i + 1), inertia=(inertia, inertia, inertia))
        axis = {"x": (0, 0, 1), "y": (1, 0, 0)} if i in (0, 3, 5) else {"x": (0, 1, 0), "y": (1, 0, 0)}
        base = GROUND.frame(**axis) if i == 0 else parent.frame(at=(0.1, 0, 0), **axis)
        friction = Parameter(f"b_{i}", 0.05, lower=0)
        joints.append(Hinge(f"hinge {i}", base, link.frame(at=(-0.1, 0, 0), **axis), viscous=friction))
        links.append(link)
        parent = link
    motors = [Motor(joint, f"u{i}", gain=1.0) for i, joint in enumerate(joints)]
    model = Model(links, joints, motors=motors, gravity=down(9.81), coordinates="joint")
    return Problem("arm", model, observations=[HingeAngle(j, f"q{i}") for i, j in enumerate(joints)], step=0.005)


def moving(duration: float, seed: int) -> Recording:
    """Of the arm."""
    t = np.arange(0, duration + 1e-9, 0.005)
    drive = {f"u{i}": 4 / (i + 1) * np.sin(2 * np.pi * (0.6 + 0.23 * i) * t + i) for i in range(JOINTS)}
    noise = {f"q{i}": 1e-4 for i in range(JOINTS)} | {f"hinge {i}": 1e-3 for i in range(JOINTS)}
    run = arm().simulate(ARM, duration, {}, inputs=Recording(t, drive), noise=noise, seed=seed)
    return Recording(run.t, run.signals)


# --- what is asked ---


def _near(solution: Solution, truth: Truth) -> bool:
    """True if it converged and all estimates are near the truth, by their own errors."""
    errors = [abs(solution[name].estimate - value) / solution[name].std_err for name, value in truth.items()]
    return solution.status.value == "converged" and all(e < WITHIN for e in errors if math.isfinite(e))


def warned(solution: Solution) -> bool:
    """True if it says itself that it is no answer."""
    return solution.status.value != "converged" or any(finding.doubts for finding in solution.findings)


def starts_row(name: str, problem: Problem, recording: Recording, truth: Truth, count: int) -> str:
    began = process_time()
    solution = problem.with_(recordings=[recording]).solve(starts=count)
    seconds = (process_time() - began) / (count + 1)
    best, others = solution.basins[0], solution.basins[1:]
    told = "; ".join(dict.fromkeys(f"{one.outcome}: {one.message}" for one in others)) or "-"
    ok = "yes" if _near(solution, truth) else "no"
    share = 100 * len(best.starts) / count
    return (
        f"| {name} | {count} | {len(best.starts)} ({share:.1f} %) | {_ends(others)} | {ok} | {seconds:.2f} | {told} |"
    )


def _ends(others: tuple[Basin, ...]) -> str:
    kinds: dict[str, int] = {}
    for one in others:
        kinds[one.outcome] = kinds.get(one.outcome, 0) + len(one.starts)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"


def holed(recording: Recording, begin: float, length: float) -> Recording:
    """Without samples of angles for some time."""
    away = (recording.t > begin) & (recording.t < begin + length)
    return _missing(recording, away)


def _missing(recording: Recording, away: np.ndarray) -> Recording:
    angles = {name: np.where(away, np.nan, recording.signals[name]) for name in ("theta1", "theta2")}
    return recording.with_signals(**angles)


def decades(seed: int) -> dict[str, float]:
    """Guesses within a decade of the truth, log-uniform; tilt as declared."""
    rng = np.random.default_rng(seed)
    return {name: value * 10 ** rng.uniform(-1, 1) for name, value in FURUTA.items() if not name.startswith("tilt")}


@dataclass
class Count:
    """Of twins."""

    right: int = 0
    told: int = 0
    silent: int = 0

    def add(self, solution: Solution) -> None:
        if _near(solution, FURUTA):
            self.right += 1
        elif warned(solution):
            self.told += 1
        else:
            self.silent += 1


def gap_row(length: float, twins: int) -> str:
    count = Count()
    for seed in range(twins):
        begin = np.random.default_rng([seed, 7]).uniform(0.5, 9.0 - length)
        problem = furuta().with_(initial={**furuta().initial, **decades(seed)})
        count.add(problem.with_(recordings=[holed(release(10.0, seed), begin, length)]).solve())
    return f"| {length:g} s of 10 s missing | {twins} | {count.right} | {count.told} | {count.silent} |"


def missing_row(twins: int) -> str:
    count = Count()
    for seed in range(twins):
        recording = release(10.0, seed)
        away = np.random.default_rng([seed, 8]).random(len(recording.t)) < 0.4
        problem = furuta().with_(initial={**furuta().initial, **decades(seed)})
        count.add(problem.with_(recordings=[_missing(recording, away)]).solve())
    return f"| 40 % missing | {twins} | {count.right} | {count.told} | {count.silent} |"


def outlier_row(twins: int) -> str:
    inside, total, named, wrong, made, bounds = 0, 0, 0, 0, 0, 0
    for seed in range(twins):
        recording, rng = release(5.0, seed), np.random.default_rng([seed, 9])
        spikes = {name: rng.random(len(recording.t)) < 0.01 for name in ("theta1", "theta2")}
        sizes = {name: rng.choice([-1.0, 1.0], len(recording.t)) for name in spikes}
        bad = {name: recording.signals[name] + sizes[name] * mask for name, mask in spikes.items()}
        solution = furuta().with_(recordings=[recording.with_signals(**bad)]).solve()
        true = {(name, t) for name, mask in spikes.items() for t in recording.t[mask].tolist()}
        found = {(one.signal, one.t) for one in solution.outliers}
        made, named, wrong = made + len(true), named + len(true & found), wrong + len(found - true)
        for name, value in FURUTA.items():
            estimate = solution[name]
            bounds += estimate.at_bound
            if math.isfinite(estimate.std_err):
                total += 1
                inside += abs(estimate.estimate - value) < 1.96 * estimate.std_err
    return f"| {twins} | {made} | {named} | {wrong} | {inside} of {total} ({100 * inside / total:.1f} %) | {bounds} |"


INTRO = """# Poor initial values, gaps, missing samples and outliers

This page tests fits with default settings on synthetic data with process noise and measurement noise. The command
`python results/robustness.py` writes this page.

## Starts

The initial values are drawn log-uniformly within a decade above and below the declared initial values
(`problem.solve(starts=...)`). The table shows how many fits ended at the best minimum, and how the others ended. It
also shows whether every parameter of the result is within 4 standard errors of the true value, and the CPU time per
start in seconds.

| mechanism | starts | at the best minimum | others | right | CPU s | messages |
|---|---|---|---|---|---|---|"""
GAPS = """
## Gaps and missing samples

The data are a Furuta pendulum released near its upright position, 10 s with 200 samples per second. The initial values
are within a decade of the true values, and both angles have a gap at a random time. "Right": the fit converged, and
every estimate is within 4 standard errors of the true value. "Warned": the fit is not right, and the result begins with
a warning. "Silent": the fit is not right, and there is no warning.

| | recordings | right | warned | silent |
|---|---|---|---|---|"""
OUTLIERS = """
## Outliers

The data are the same pendulum for 5 s, with the declared initial values; 1 % of the samples of each angle have errors
of ±1 rad. The table shows how many of these outliers, and how many other samples, were named. It also shows how often
95 % intervals contain the true value, and how many estimates are at a bound.

| recordings | outliers | of these named | others named | intervals with the true value | at a bound |
|---|---|---|---|---|---|"""


def rows(starts: int, twins: int, spoiled: int) -> dict[str, dict[str, Callable[[], str]]]:
    """What measures each row, by the head of its table."""
    mechanisms = (
        ("Furuta pendulum, 2.5 s", furuta, release, 2.5, FURUTA),
        ("six-joint arm, 1.5 s", arm, moving, 1.5, ARM),
        ("four-bar, 2.4 s", fourbar, turning, 2.4, FOURBAR),
    )
    begun = {
        name: lambda name=name, problem=problem, make=make, duration=duration, truth=truth: starts_row(
            name, problem(), make(duration, 0), truth, starts
        )
        for name, problem, make, duration, truth in mechanisms
    }
    gaps = {f"gap {length}": lambda length=length: gap_row(length, twins) for length in (0.5, 1.0, 2.0)}
    gaps["missing"] = lambda: missing_row(twins)
    return {INTRO: begun, GAPS: gaps, OUTLIERS: {"outliers": lambda: outlier_row(spoiled)}}


def main() -> None:
    """Measure what is not kept, and write the page with what is known after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--twins", type=int, default=20)
    parser.add_argument("--spoiled", type=int, default=100)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--only", default="", help="rows that begin so")
    asked = parser.parse_args()
    kept = json.loads(asked.kept.read_text()) if asked.kept and asked.kept.exists() else {}
    tables = rows(asked.starts, asked.twins, asked.spoiled)
    for head, name in [(head, name) for head, some in tables.items() for name in some]:
        if name not in kept and name.startswith(asked.only):
            kept[name] = tables[head][name]()
            print(kept[name], flush=True)
            if asked.kept:
                asked.kept.write_text(json.dumps(kept, indent=1))
        known = ([head, *(kept[name] for name in some if name in kept)] for head, some in tables.items())
        lines = [line for part in known if part[1:] for line in part]
        (HERE / "robustness.md").write_text("\n".join(lines).strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
