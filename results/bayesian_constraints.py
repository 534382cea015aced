"""Figure 11 of `results/bayesian.md`: errors of inertias with and without what is known of them among themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from bayesian_floating import FloatingTwin
from bayesian_parts import Outcome, Parts, table
from bayesian_twins import MOST, NOISE, WITHIN, Array, trajectory_error

from spookid import Solution, Status
from spookid.parameter import substitute

CASES = ("without", "total mass", "mirrored, too")


def constraints_table(parts: Parts, twins: Sequence[FloatingTwin], seeds: Mapping[str, int]) -> str:
    """Without constraints, with the total mass, and with left and right alike."""
    rows = []
    for twin in twins:
        counts = {case: parts.count(seeds[twin.name], f"figure 11/{twin.name}/{case}") for case in CASES}
        known = {case: count for case, count in counts.items() if count}
        count = min(known.values(), default=0)
        for case in known:
            found = [_outcome(parts, twin, case, seed) for seed in range(count)]
            mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            cells = [f"{sum(one['converged'] for one in found):.0f} of {len(found)}", f"{mean['iterations']:.1f}"]
            cells += [f"{mean['trajectory']:.2f}", f"{mean['base']:.4f}", f"{mean['all']:.3f}"]
            rows.append([twin.name if case == CASES[0] else "", case, *cells])
    heads = ["", "constraints", "converged", "iterations", "trajectory ℓ∞ [mrad]", "base parameters", "all of π"]
    return table([heads, *rows])


def _outcome(parts: Parts, twin: FloatingTwin, case: str, seed: int) -> Outcome:
    """Of a fit that starts at what is believed, each seed of its own."""

    def compute() -> Outcome:
        rng = np.random.default_rng(2000 + seed)
        names = [*twin.robot.bodies, *twin.labels]
        shares = dict(zip(names, (1 + WITHIN) ** rng.uniform(-1, 1, len(names)), strict=True))
        problem = twin.believed(shares)
        known = twin.constraints(problem)[: {"without": 0, "total mass": 1}.get(case)]
        given = {"recordings": [twin.measured(NOISE, seed)], "step_correction": False, "estimator": "noise"}
        solution = problem.with_(**given, constraints=known).solve(max_iterations=MOST)
        return {
            "converged": float(solution.status is Status.CONVERGED),
            "iterations": float(solution.iterations),
            "trajectory": 1e3 * trajectory_error(twin, solution),
            "base": twin.errors(solution)["inertial"],
            "all": whole_error(twin, solution),
        }

    return parts.of(f"figure 11/{twin.name}/{case}/{seed}", compute)


def whole_error(twin: FloatingTwin, solution: Solution) -> float:
    """Relative ℓ2 error of π of all bodies, each in units of its own mass m and of the radius √(tr I/2m)."""
    off, size = 0.0, 0.0
    for body in twin.problem.model.bodies:
        found, true = (
            np.asarray(substitute(body.distribution.pi, values)).ravel() for values in (solution.values, twin.truth)
        )
        units = _units(true)
        off, size = off + float(np.sum(((found - true) / units) ** 2)), size + float(np.sum((true / units) ** 2))
    return float(np.sqrt(off / size))


def _units(pi: Array) -> Array:
    """Of π, (10,)."""
    m, h = pi[0], pi[1:4]
    radius = np.sqrt(max(np.sum(pi[4:7]) - 2 * h @ h / m, 0.0) / (2 * m))
    return np.asarray(m * radius ** np.repeat([0, 1, 2], [1, 3, 6]))
