"""Estimates against continuous time: `python results/truth_continuous.py [--seeds N] [--out FILE]`.

The data come from an independent integrator (`continuous_twins.py`), sampled every 10 ms for 10 s. Without noise every
parameter is to be within 0.1 % (inertias; 0.3 % with dry friction) or 1 % (friction, gains); with noise of 1 mrad the
intervals of 95 % are to contain the true value in 90 to 99 %. Tables go to the terminal as they are found, and to FILE.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from continuous_cases import CASES, Case, arm, fourbar

from spookid import Solution

FAINT = 1e-6
"""Noise of the sensors that is as good as none [rad]: at exactly zero there is none to estimate."""
INERTIA, INERTIA_DRY, OTHER = 0.1, 0.3, 1.0
"""Largest error of a parameter without noise [%]."""


def exactness(cases: Sequence[Case]) -> Iterator[str]:
    """Lines on the errors of each parameter without noise, at steps of h, h/2, h/4 and corrected."""
    yield f"## Without noise ({FAINT:g} rad): error of each parameter [%]"
    yield ""
    yield (
        "Fits without correction use steps of 10, 5 and 2.5 ms, each with different noise; the corrected "
        "fit uses `step_correction=True`."
    )
    yield ""
    yield "| mechanism | parameter | 10 ms | 5 ms | 2.5 ms | corrected | standard error | to be within | status |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        problem = case.posed(0, FAINT)
        plain = [problem.with_(step=problem.step / n, every=n, step_correction=False).solve() for n in (1, 2, 4)]
        found = problem.with_(step_correction=True).solve()
        for name, value in case.truth.items():
            errors = [_percent(fit, name, value) for fit in (*plain, found)]
            limit = _limit(case, name)
            verdict = "" if abs(errors[-1]) <= limit else " (**missed**)"
            cells = [f"{e:+.4f}" for e in errors] + [f"{100 * found[name].std_err / value:.3f}"]
            cells += [f"{limit:g}{verdict}", _status(found, plain[0])]
            yield "| " + " | ".join([case.name, name, *cells]) + " |"
    yield ""


def inputs() -> Iterator[str]:
    """Lines on what a motor's input that is no command held between its samples makes of the estimates."""
    yield "## An input that is not held between its samples: errors without noise [%]"
    yield ""
    yield "The motor torques are smooth tones, of which the recording has samples. spookid keeps each sample constant"
    yield "until the next, so that the torque is late by half a sampling interval; a smaller step does not remove this"
    yield "delay."
    yield ""
    yield "| mechanism | samples every | corrected estimates | warnings |"
    yield "|---|---|---|---|"
    for make in (fourbar, arm):
        case = make(held=False)
        for every in (10, 1):
            found = case.posed(0, FAINT, finer=10 // every).with_(step_correction=True).solve()
            errors = ", ".join(f"{n} {_percent(found, n, v):+.3f}" for n, v in case.truth.items())
            told = "a delay" if any("a delay?" in notice for notice in found.notices) else "nothing"
            yield f"| {case.name} | {every} ms | {errors} | {told} |"
    yield ""


def coverage(cases: Sequence[Case], seeds: int) -> Iterator[str]:
    """Lines on intervals of 95 % that contain the true value, and on the time that the correction takes."""
    yield f"## With noise of 1 mrad: {seeds} draws of each mechanism"
    yield ""
    yield "The table shows the fraction of 95 % intervals that contain the true value, for all parameters"
    yield "with a standard"
    yield "error. It also shows the root mean square of error divided by standard error, for all and for each, and the"
    yield "draws that did not converge or were not corrected. The next columns show the same without"
    yield "correction, then the"
    yield "median times of the solver's loops and of their ratio for each draw."
    yield ""
    head = ["mechanism", "contain the true value", "error / standard error", "of each parameter", "failed"]
    head += ["without correction", "corrected [ms]", "without [ms]", "ratio"]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for case in cases:
        yield _covered(case, seeds)
    yield ""


def _covered(case: Case, seeds: int) -> str:
    """A row of the table."""
    corrected, plain, times, failed = [], [], [], 0
    for seed in range(seeds):
        problem = case.posed(seed)
        fits = [problem.with_(step_correction=wanted).solve() for wanted in (True, False)]
        failed += _status(*fits) != "converged"
        for found, fit in zip((corrected, plain), fits, strict=True):
            found.append([(fit[n].estimate - v) / fit[n].std_err for n, v in case.truth.items()])
        times.append([1000 * fit.times.solve for fit in fits])
    z, before, spent = np.array(corrected), np.array(plain), np.array(times)
    known = z[np.isfinite(z)]
    each = ", ".join(f"{name} {_rms(z[:, i]):.2f}" for i, name in enumerate(case.truth))
    held = [f"{100 * np.mean(np.abs(known) < 1.96):.1f} %", f"{_rms(known):.2f}", each, str(failed)]
    held += [f"{100 * np.mean(np.abs(before[np.isfinite(before)]) < 1.96):.1f} % ({_rms(before):.2f})"]
    held += [f"{m:.0f}" for m in np.median(spent, axis=0)] + [f"{np.median(spent[:, 0] / spent[:, 1]):.2f}"]
    return "| " + " | ".join([case.name, *held]) + " |"


def _rms(z: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(z**2)))


def _percent(found: Solution, name: str, value: float) -> float:
    return 100 * (found[name].estimate / value - 1)


def _limit(case: Case, name: str) -> float:
    if name[0] not in "IJ":
        return OTHER
    return INERTIA_DRY if "dry" in case.name else INERTIA


def _status(found: Solution, plain: Solution) -> str:
    """The solver's word, or that the step was not taken from the estimates, which are then those of the plain fit."""
    same = all(e.estimate == plain[name].estimate for name, e in found.parameters.items())
    return "not corrected" if same else found.status.value


def parts(seeds: int) -> Iterator[str]:
    """Lines of all tables."""
    cases = [make() for make in CASES]
    yield from exactness(cases)
    yield from inputs()
    yield from coverage(cases, seeds)


def main() -> None:
    """Print the tables as they are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--only", choices=("exact", "inputs", "coverage"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cases = [make() for make in CASES]
    parts = {"exact": lambda: exactness(cases), "inputs": inputs, "coverage": lambda: coverage(cases, given.seeds)}
    began, lines = time.perf_counter(), []
    for name, part in parts.items():
        if given.only in (None, name):
            for line in part():
                print(line, flush=True)
                lines.append(line)
    print(f"{time.perf_counter() - began:.0f} s")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
