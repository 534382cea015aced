"""Estimates of the five measured swing-ups side by side: `python results/swingup.py` writes swingup.md and swingup.png.

Needs the measured data: SPOOKID_DATA must point to them.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spookid import Solution, load_problem

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems" / "furuta_swingup.py"
M_ROD, L_ROD = 0.024, 0.129
NAMES = ("swingup_500hz_1", "swingup_500hz_2", "swingup_500hz_3", "swingup_250hz_1", "swingup_250hz_2")


def hinge_inertia(solution: Solution) -> float:
    """Pendulum about its hinge [kg m^2]."""
    return solution["J_rod"].estimate + M_ROD * (L_ROD / 2) ** 2


def rms(solution: Solution) -> np.ndarray:
    """Residual of each observed angle [rad]."""
    motion = solution.trajectories[0]
    return np.sqrt(np.nanmean((motion.predicted - motion.observed) ** 2, axis=0))


def table(solutions: dict[str, Solution]) -> str:
    """Markdown: a row a parameter, a column a recording, the spread at the end."""
    first = next(iter(solutions.values()))
    lines = [
        "| parameter | unit | " + " | ".join(solutions) + " | mean | spread |",
        "|---" * (len(solutions) + 4) + "|",
    ]
    for name, parameter in first.parameters.items():
        estimates = [s[name] for s in solutions.values()]
        cells = [f"{e.estimate:.4g} ± {e.std_err:.1g}".replace(" ± nan", " (bound)") for e in estimates]
        lines.append(row(name, parameter.unit, cells, [e.estimate for e in estimates]))
    inertias = [hinge_inertia(s) for s in solutions.values()]
    lines.append(row("J_rod about its hinge", "kg m^2", [f"{j:.4g}" for j in inertias], inertias))
    for i, signal in enumerate(("theta", "alpha")):
        values = [rms(s)[i] * 1e3 for s in solutions.values()]
        lines.append(row(f"rms residual of {signal}", "mrad", [f"{v:.2f}" for v in values], values))
    iterations = [s.iterations for s in solutions.values()]
    lines.append(row("iterations", "", [f"{s.iterations} ({s.status.value})" for s in solutions.values()], iterations))
    return "\n".join(lines)


def row(name: str, unit: str, cells: list[str], values: list[float]) -> str:
    """One line, with the mean and the largest deviation from it."""
    mean = float(np.mean(values))
    spread = f"{np.max(np.abs(np.array(values) - mean)) / abs(mean):.1%}" if mean else "-"
    return f"| {name} | {unit} | " + " | ".join(cells) + f" | {mean:.4g} | {spread} |"


def picture(solutions: dict[str, Solution]) -> Figure:
    """Measured and estimated angles of the five recordings."""
    figure = Figure(figsize=(13, 6), layout="constrained", dpi=130)
    axes = figure.subplots(2, len(solutions), sharex="col", sharey="row")
    for column, (name, solution) in zip(axes.T, solutions.items(), strict=True):
        motion = solution.trajectories[0]
        for axis, i, label in zip(column, (0, 1), ("arm $\\theta$ [rad]", "pendulum $\\alpha$ [rad]"), strict=True):
            axis.plot(motion.t, motion.observed[:, i], ".", ms=3, color="0.6", label="measured")
            axis.plot(motion.t, motion.predicted[:, i], lw=1, color="#0072B2", label="estimated")
            axis.grid(alpha=0.3)
            if name == NAMES[0]:
                axis.set_ylabel(label)
        column[0].set_title(name, fontsize=10)
        column[1].set_xlabel("time [s]")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    fits = {}
    for name in NAMES:
        fits[name] = load_problem(f"{PROBLEMS}::{name}").solve()
        sys.stderr.write(f"{name}: {fits[name].status.value} after {fits[name].iterations} iterations\n")
    intro = (
        "# Measured swing-ups of a Furuta pendulum\n\n"
        "Five recordings of `furuta-qube-swingup`, each up to where balancing starts, each fitted by itself\n"
        "(`problems/furuta_swingup.py`, h = 4 ms, state weight 1e6). Spread: largest deviation from the mean.\n\n"
    )
    (HERE / "swingup.md").write_text(intro + table(fits) + "\n\n![fits](swingup.png)\n", encoding="utf-8")
    picture(fits).savefig(HERE / "swingup.png")
