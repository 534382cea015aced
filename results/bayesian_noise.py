"""Table II of `results/bayesian.md`: fits beside regressions that are tuned to the truth, under noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from bayesian_parts import Outcome, Parts, table
from bayesian_twins import MOST, Noise, Twin

from spookid import EnergyBalance, Problem, ProblemError

LEVELS = (0.0, 0.005, 0.01, 0.1)
CUTOFFS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # Hz
STEPS = (0.02, 0.05, 0.1)  # s
METHODS = ("ID, Savitzky–Golay", "energy", "spookid, 20 ms", "spookid, best step", "spookid, 20 ms, with energy")
PAPER = {0.0: (3.5, 6.5, 2.0), 0.005: (9.5, 8.0, 2.3), 0.01: (22.0, 12.5, 2.8), 0.1: (95.0, 38.0, 6.0)}


def noise_table(parts: Parts, twins: Sequence[Twin], seeds: Mapping[str, int]) -> str:
    """Means over seeds at each level."""
    rows = []
    for twin in twins:
        for level in LEVELS:
            name = f"table 2/{twin.name}/{level:g}"
            count = parts.count(seeds[twin.name], name)
            if not count:
                continue
            found = [parts.of(f"{name}/{seed}", partial(_levels, twin, level, seed)) for seed in range(count)]
            means = [np.mean([one.get(method, np.nan) for one in found]) for method in METHODS]
            cells = ["–" if np.isnan(value) else f"{100 * value:.2f} %" for value in means]
            rows.append(
                [twin.name, f"{level:g}", str(len(found)), *cells, " / ".join(f"{x:g} %" for x in PAPER[level])]
            )
    return table([["", "σ", "seeds", *METHODS, "paper: ID / energy / its method"], *rows])


def _levels(twin: Twin, level: float, seed: int) -> Outcome:
    """Errors of all five; none of energy rows without noise, which have no weight."""
    noise = Noise(level, level, 0.0)
    noisy = twin.measured(noise, seed)
    torques = {k: s for k, s in twin.measured(Noise(0, 0, 0), seed).signals.items() if k.startswith("u")}
    rng = np.random.default_rng(seed + 50)
    signals = {k: torques[k] + level * rng.normal(size=len(s)) if k in torques else s for k, s in noisy.signals.items()}
    recording = replace(noisy, signals=signals)
    start = {"recordings": [recording], "initial": twin.start(seed), "step_correction": False, "estimator": "noise"}
    problem = twin.problem.with_(**start)
    methods = ({"method": "inverse-dynamics", "filter": "savgol"}, {"method": "energy"})
    best = [min(_regressed(twin, problem, cutoff, method) for cutoff in CUTOFFS) for method in methods]
    ours = [_fit_error(twin, problem.with_(step=step)) for step in STEPS]
    found = dict(zip(METHODS, [*best, ours[0], min(ours)], strict=False))
    if level:
        found[METHODS[-1]] = _fit_error(twin, problem.with_(residuals=[EnergyBalance()]))
    return found


def _fit_error(twin: Twin, problem: Problem) -> float:
    return twin.errors(problem.solve(max_iterations=MOST))["all"]


def _regressed(twin: Twin, problem: Problem, cutoff: float, method: dict[str, str]) -> float:
    try:
        found = problem.regress(unknowns="declared", cutoff=cutoff, **method)
    except ProblemError:  # it has not converged, at this cutoff
        return float("inf")
    return twin.errors(dict(zip(found.names, found.estimates.tolist(), strict=True)))["all"]
