"""Table I of `results/bayesian.md`: fits with and without energy observations, over random starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from bayesian_parts import Outcome, Parts, table
from bayesian_twins import MOST, Twin, trajectory_error

from spookid import EnergyBalance, Solution, Status

WEIGHT = 1e4  # of impulses, far too small for this noise: what a fit with weights by hand may have
GIVEN = "noise given"
"""Of robots on their feet, whose few samples do not tell the noise of so many sensors."""
SETTINGS: Mapping[str, Mapping[str, float]] = {
    "noise estimated": {},
    f"weights given, κ = {WEIGHT:g}": {"state_weight": WEIGHT},
    GIVEN: {},
}
PAPER = {  # iterations, trajectory, inertial, friction, without → with
    "pendulum": ((20.4, 31.2), (0.41, 0.46), (0.022, 0.018), (0.031, 0.016)),
    "manipulator": ((7.3, 11.4), (2.58, 2.83), (0.56, 0.46), (0.75, 0.40)),
    "biped": ((15.6, 24.1), (5.88, 6.34), (1.86, 1.62), (2.18, 1.08)),
    "quadruped": ((9.2, 15.5), (4.76, 5.08), (1.47, 1.28), (1.82, 0.91)),
}


def energy_table(parts: Parts, twins: Sequence[Twin], starts: Mapping[str, Mapping[str, int]]) -> str:
    """With and without energy observations, each start with noise of its own."""
    rows = []
    for twin in twins:
        for title, settings in SETTINGS.items():
            names = [_name(twin, title, energy) for energy in (False, True)]
            count = parts.count(starts[twin.name].get(title, 0), *names)
            pairs = [
                [outcome(parts, twin, title, settings, seed, energy) for seed in range(count)]
                for energy in (False, True)
            ]
            rows += _compared(f"{twin.name}, {title}", pairs) if count else []
        rows += [_paper_row(twin.like)] if twin.like in PAPER else []
    heads = ["", "rows", "converged", "iterations", "trajectory ℓ∞ [mrad]", "inertial", "friction"]
    heads += ["friction, in σ", "ratio of friction"]
    return table([heads, *rows])


def outcome(parts: Parts, twin: Twin, title: str, settings: Mapping[str, float], seed: int, energy: bool) -> Outcome:
    """Of one fit."""

    def compute() -> Outcome:
        given = {"residuals": [EnergyBalance()]} if energy else {}
        problem = twin.started(seed).with_(**given, **settings)
        return described(twin, problem.solve(max_iterations=MOST))

    return parts.of(f"{_name(twin, title, energy)}/{seed}", compute)


def _name(twin: Twin, title: str, energy: bool) -> str:
    return f"table 1/{twin.name}/{title}/{'with' if energy else 'without'}"


def described(twin: Twin, solution: Solution) -> Outcome:
    """How it ended, errors of the motion [mrad], of inertias and of friction, and how many errors that is."""
    off = twin.errors(solution)
    return {
        "converged": float(solution.status is Status.CONVERGED),
        "iterations": float(solution.iterations),
        "trajectory": 1e3 * trajectory_error(twin, solution),
        "inertial": off["inertial"],
        "friction": off["friction"],
        "squares": _squares(twin, solution),
    }


def _squares(twin: Twin, solution: Solution) -> float:
    """Mean squared errors of base parameters of friction over their variances."""
    formulas, kinds = twin.base
    known = [solution(formula) for formula, kind in zip(formulas, kinds, strict=True) if kind == "friction"]
    apart = twin.apart([solution(formula).estimate for formula in formulas])[np.array(kinds) == "friction"]
    return float(np.mean([((pair[0] - pair[1]) / one.std_err) ** 2 for pair, one in zip(apart, known, strict=True)]))


def _compared(title: str, pairs: Sequence[Sequence[Outcome]]) -> list[list[str]]:
    """A row without energy and one with it."""
    means = [{key: float(np.mean([one[key] for one in part])) for key in part[0]} for part in pairs]
    rows: list[list[str]] = []
    for name, part, mean in zip(("without", "with energy"), pairs, means, strict=True):
        cells = [f"{sum(one['converged'] for one in part):.0f} of {len(part)}", f"{mean['iterations']:.1f}"]
        middle = {key: float(np.median([one[key] for one in part])) for key in ("inertial", "friction")}
        cells += [f"{mean['trajectory']:.2f}", f"{mean['inertial']:.4f} ({middle['inertial']:.4f})"]
        cells += [f"{mean['friction']:.4f} ({middle['friction']:.4f})", f"{np.sqrt(mean['squares']):.1f}"]
        told = f"{mean['friction'] / means[0]['friction']:.2f}" if rows else ""
        rows.append([title if not rows else "", name, *cells, told])
    return rows


def _paper_row(like: str) -> list[str]:
    before, after = PAPER[like][-1]
    cells = [*(" → ".join(f"{x:g}" for x in pair) for pair in PAPER[like]), ""]
    return [f"*paper, {like}*", "", "", *cells, f"{after / before:.2f}"]
