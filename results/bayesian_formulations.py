"""Figure 10 of `results/bayesian.md`: iterations with inverse and with forward dynamics, from the same start."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
from bayesian_parts import Outcome, Parts, table
from riccati_robots import MOTIONS, Estimation, prepared, robot, simulated

from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt, RecursiveLevenbergMarquardt

KINDS = ("inverse", "forward")
SOLVERS = {
    "riccati": RecursiveLevenbergMarquardt(),
    "riccati, newton=False": RecursiveLevenbergMarquardt(newton=False),
    "lm": LevenbergMarquardt(),
    "ipopt": Ipopt(),
}
_ALL = tuple(SOLVERS)
TRIED = {"double pendulum": _ALL, "UR5": _ALL[:3], "quadrotor": _ALL[:3], "Bolt": _ALL[:2], "B1": _ALL[:1]}
"""Few of the large ones, for what the others take."""


def formulations_table(parts: Parts) -> str:
    """Both, for five robots."""
    rows = []
    for name in MOTIONS:
        for kind in KINDS:
            found = {solver: outcomes for solver in SOLVERS if (outcomes := _outcome(parts, name, kind, solver))}
            cells = [_told(found.get(solver)) for solver in SOLVERS]
            last = next(iter(found.values()), None)
            ends = [f"{last[key]:.3g}" for key in ("trajectory", "inertial")] if last else ["", ""]
            rows.append([name if kind == "inverse" else "", kind, *cells, *ends])
    return table([["robot", "dynamics", *SOLVERS, "trajectory ℓ∞ [mrad, mm]", "inertial"], *rows])


def _outcome(parts: Parts, name: str, kind: Any, solver: str) -> Outcome | None:
    """Iterations, and errors of the motion and of inertias where it ends; None if it is not tried."""
    if solver not in TRIED[name]:
        return None

    def compute() -> Outcome:
        problem = prepared(robot(name), kind)
        outcome = SOLVERS[solver].solve(problem.transcription, problem.start)
        return {
            "converged": float(outcome.status.name == "CONVERGED"),
            "iterations": float(len(outcome.history) - 1),
            "cost": outcome.history[-1].total,
            **_errors(problem, outcome.point),
        }

    title = f"figure 10/{name}/{kind}/{solver}"
    return None if parts.only_known and title not in parts.known else parts.of(title, compute)


def _errors(problem: Estimation, point: Any) -> dict[str, float]:
    """Largest of coordinates [mrad, mm], and root mean square of the coordinates of inertias (0.2 at the start)."""
    one, motion = problem.robot, simulated(problem.robot)
    x, y = (ca.SX.sym(name, one.manifold.ambient) for name in "xy")
    apart = ca.Function("apart", [x, y], [one.manifold.difference(x, y)])
    found = point.states[0][:, : one.manifold.ambient]
    off = np.asarray(apart(found.T, motion.true.T))
    return {
        "trajectory": 1e3 * float(np.max(np.abs(off))),
        "inertial": float(np.sqrt(np.mean(((point.parameters - one.truth) / one.scale) ** 2))),
    }


def _told(one: Outcome | None) -> str:
    if one is None:
        return ""
    return f"{one['iterations']:.0f}" + ("" if one["converged"] else ", not converged")
