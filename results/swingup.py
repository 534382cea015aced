"""Five measured swing-ups side by side, as Table 4: `python results/swingup.py` writes swingup.md and swingup.png.

Needs the measured data: SPOOKID_DATA must point to them.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spookid import Problem, Solution, load_problem
from spookid.agreement import agreement

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems" / "furuta_swingup.py"
M_ROD, L_ROD = 0.024, 0.129
EXPECTED = 1.245e-4  # pendulum about its hinge [kg m^2], from the regression in the data's README
WINDOW = 1.0  # of the open-loop simulations [s]
NAMES = ("swingup_500hz_1", "swingup_500hz_2", "swingup_500hz_3", "swingup_250hz_1", "swingup_250hz_2")


def hinge_inertia(solution: Solution) -> float:
    """Pendulum about its hinge [kg m^2]."""
    return solution["J_rod"].estimate + M_ROD * (L_ROD / 2) ** 2


def rms(solution: Solution) -> np.ndarray:
    """Residual of each observed angle [rad]."""
    motion = solution.trajectories[0]
    return np.sqrt(np.nanmean((motion.predicted - motion.observed) ** 2, axis=0))


def open_loop(problem: Problem, solution: Solution) -> np.ndarray:
    """Simulated less measured angles [rad] over all windows, each from its estimated state on; shape (samples, 2).

    Windows follow one another; the last one ends with the recording.
    """
    motion, recording = solution.trajectories[0], problem.recordings[0]
    length = round(WINDOW / problem.step)
    starts = [*range(0, len(motion.t) - length, length), len(motion.t) - length]
    errors = []
    for start in starts:
        span = recording.between(motion.t[start], motion.t[start + length - 1] + problem.step)
        part = problem.with_(recordings=[span])
        made = part.simulate(solution.values, WINDOW, (motion.q[start], motion.v[start]))
        here = slice(start, start + length)
        angles = np.column_stack([made.signals["theta"], made.signals["alpha"]])[:length]
        errors.append(np.angle(np.exp(1j * (angles - motion.observed[here]))))
    return np.concatenate(errors)


def statement(solutions: dict[str, Solution], windows: dict[str, np.ndarray]) -> str:
    """What the five recordings show, in sentences."""
    deviations = [hinge_inertia(s) / EXPECTED - 1 for s in solutions.values()]
    compared = agreement(list(solutions.values()))
    spreads = {p.name: p.spread for p in compared.parameters if p.name in ("J_arm", "J_rod", "K")}
    worst = {name: float(np.sqrt(np.nanmean(e[:, 1] ** 2))) for name, e in windows.items()}
    low, high = min(worst.values()), max(worst.values())
    return (
        f"- The pendulum's inertia about its hinge is {100 * min(deviations):+.2f} % to {100 * max(deviations):+.2f} % "
        f"from {EXPECTED} kg m².\n"
        f"- Largest deviation from the mean: {', '.join(f'{n} {100 * v:.2g} %' for n, v in spreads.items())}.\n"
        f"- Simulated open loop over windows of {WINDOW:g} s from their estimated first states, the pendulum's angle "
        f"is off by {low:.3f} to {high:.3f} rad rms.\n"
        f"- {compared.report}\n"
        "- theta_0 is where the cable is at rest, presumably counted from where the arm was when the device was\n"
        "  switched on; the recordings at 500 Hz are of one day, those at 250 Hz of another.\n\n"
    )


def table(solutions: dict[str, Solution], windows: dict[str, np.ndarray]) -> str:
    """Markdown: a row a parameter, a column a recording, the spread at the end."""
    lines = [
        "| parameter | unit | " + " | ".join(solutions) + " | mean | spread |",
        "|---" * (len(solutions) + 4) + "|",
    ]
    for p in agreement(list(solutions.values())).parameters:
        pairs = zip(p.estimates, p.std_errs, strict=True)
        cells = [f"{value:.4g} ± {error:.1g}".replace(" ± nan", " (bound)") for value, error in pairs]
        lines.append(row(p.name, p.unit, cells, list(p.estimates)))
    inertias = [hinge_inertia(s) for s in solutions.values()]
    lines.append(row("J_rod about its hinge", "kg m^2", [f"{j:.4g}" for j in inertias], inertias))
    for i, signal in enumerate(("theta", "alpha")):
        values = [rms(s)[i] * 1e3 for s in solutions.values()]
        lines.append(row(f"rms residual of {signal}", "mrad", [f"{v:.2f}" for v in values], values))
        values = [float(np.sqrt(np.nanmean(e[:, i] ** 2))) for e in windows.values()]
        lines.append(row(f"open loop, 1 s, rms of {signal}", "rad", [f"{v:.3f}" for v in values], values))
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
    fits, errors = {}, {}
    for name in NAMES:
        problem = load_problem(f"{PROBLEMS}::{name}")
        fits[name] = problem.solve()
        errors[name] = open_loop(problem, fits[name])
        sys.stderr.write(f"{name}: {fits[name].status.value} after {fits[name].iterations} iterations\n")
    intro = (
        "# Measured swing-ups of a Furuta pendulum\n\n"
        "Five recordings of `furuta-qube-swingup`, each up to where balancing starts, each fitted by itself\n"
        "(`problems/furuta_swingup.py`, h = 4 ms, state weight 1e8). Spread: largest deviation from the mean.\n\n"
    )
    (HERE / "swingup.md").write_text(
        intro + statement(fits, errors) + table(fits, errors) + "\n\n![fits](swingup.png)\n", encoding="utf-8"
    )
    picture(fits).savefig(HERE / "swingup.png")
