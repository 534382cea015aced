"""Table 4 of the paper on two measured Furuta pendulums: `python results/furuta.py` writes furuta.md and furuta.png.

Each recording is fitted by itself and its estimates judged on the others. Needs the measured data: SPOOKID_DATA must
point to them. Takes some minutes on two processors; a run that is cut off goes on where it was from results/furuta/.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spookid import Problem, Solution, load, load_problem
from spookid.crossvalidation import CrossValidation, crossvalidate
from spookid.datasets import furuta_qube
from spookid.settings import digest
from spookid.solution import Estimate
from spookid.workers import processes

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
QUBE = ("swingup_500hz_1", "swingup_250hz_2", "chirp_pos_1", "chirp_neg_1")
ODRIVE = ("pulses_torque_units", "sine_4V", "step_2V", "step_5V")


def qube(name: str) -> Problem:
    """One recording of the Qube; the chirps have the swing-ups' mechanism."""
    problem = load_problem(f"{PROBLEMS / 'furuta_swingup.py'}::{QUBE[0]}")
    recording = furuta_qube(name, until="balancing" if name.startswith("swingup") else None)
    return problem.with_(name=name, recordings=[recording])


def odrive(name: str) -> Problem:
    """One recording of the ODrive."""
    return load_problem(f"{PROBLEMS / 'furuta_odrive.py'}::{name}")


NOTES = {
    "Quanser Qube": "The cable's spring and the friction, which share what damps the arm, differ most between\n"
    "swing-ups and chirps; inertias and motor gain do not. K / b_1 is the arm's steady speed for a volt.",
    "ODrive": "In gimbal mode back-EMF and motor torque nearly cancel: the arm follows the voltage like a speed\n"
    "command with the slope K / b_1 (the data's README reads 3.88 rad/s per volt from steady speeds), and the torques\n"
    "themselves, with the arm's inertia, hardly show. The pulses, sent as torques, do not fit this model (see their\n"
    "cost): shifting their command by -10 to 30 ms, or another start, changes nothing.",
}
DEVICES = {"Quanser Qube": (qube, QUBE), "ODrive": (odrive, ODRIVE)}


def judged(device: str) -> CrossValidation:
    """In a worker: all fits of a device and their cross-validation."""
    declared, names = DEVICES[device]
    alone = [declared(name) for name in names]
    together = alone[0].with_(recordings=[problem.recordings[0] for problem in alone])
    return crossvalidate(together, solved, device)


def solved(problem: Problem, near: Solution | None, purpose: str) -> Solution:
    """A fit, kept under what it follows from."""
    folder = HERE / "furuta" / digest(problem)[:16]
    if folder.is_dir():
        return load(folder)
    solution = problem.solve(warm_start=near)
    solution.save(folder)
    sys.stderr.write(f"{problem.name}, {purpose}: {solution.status.value} after {solution.iterations} iterations\n")
    return solution


def everything() -> Solution:
    """In a worker: one swing-up with all parameters of the paper's table."""
    return solved(load_problem(PROBLEMS / "furuta_full.py"), None, "all parameters")


def table(model: CrossValidation) -> str:
    """Markdown: the paper's Table 4."""
    names = model.recordings
    lines = ["| | " + " | ".join(names) + " | mean | spread |", "|" + "---|" * (len(names) + 3)]
    own = [model.own(name) for name in names]
    others = [model.others(name) for name in names]
    facts = [
        ("cost", [score.cost for score in own]),
        ("CV", [float(np.mean([s.cost for s in group])) for group in others]),
    ]
    lines += [f"| {title} | " + " | ".join(f"{v:.3g}" for v in vs) + f" | {np.mean(vs):.3g} | |" for title, vs in facts]
    for p in model.agreement.parameters:
        cells = [word(v, e) for v, e in zip(p.estimates, p.std_errs, strict=True)]
        spread = f"{p.spread:.1%}" if np.isfinite(p.spread) else "-"
        lines.append(f"| {p.name} [{p.unit}] | " + " | ".join(cells) + f" | {np.mean(p.estimates):.4g} | {spread} |")
    estimates = {p.name: np.array(p.estimates) for p in model.agreement.parameters}
    speed = estimates["K"] / estimates["b_1"]
    cells = [f"{value:.4g}" for value in speed]
    lines.append(
        "| K / b_1 [rad/(V s)] | " + " | ".join(cells) + f" | {speed.mean():.4g} | {speed.std() / speed.mean():.1%} |"
    )
    lines.append("| fits | " + " | ".join(score.status.value for score in own) + " | | |")
    return "\n".join(lines)


def word(value: float, error: float) -> str:
    """An estimate with its standard error, if that is known."""
    return f"{value:.4g} ± {error:.1g}" if np.isfinite(error) else f"{value:.4g}"


def known(estimates: Sequence[Estimate]) -> str:
    """Markdown: what one swing-up tells of all parameters."""
    lines = ["| parameter | unit | estimate | |", "|---|---|---|---|"]
    for e in estimates:
        told = "at its bound" if e.at_bound else "unknown" if not abs(e.estimate) > 2 * e.std_err else ""
        lines.append(f"| {e.name} | {e.unit} | {word(e.estimate, e.std_err)} | {told} |")
    return "\n".join(lines)


def picture(models: Sequence[CrossValidation]) -> Figure:
    """Estimates over their mean, by recording, of the parameters that all recordings should share."""
    figure = Figure(figsize=(13, 4.5), layout="constrained", dpi=130)
    axes = figure.subplots(1, len(models))
    for axis, model in zip(axes, models, strict=True):
        shown = [p for p in model.agreement.parameters if p.name not in ("theta_0", "c_2", "b_2")]
        for i, name in enumerate(model.recordings):
            ratios = [p.estimates[i] / np.mean(p.estimates) for p in shown]
            axis.plot(ratios, np.arange(len(shown)) + 0.12 * (i - 1.5), "o", ms=6, label=name)
        axis.set_yticks(range(len(shown)), [p.name for p in shown])
        axis.invert_yaxis()
        axis.axvline(1, color="0.5", lw=0.8)
        axis.grid(alpha=0.3)
        axis.set_title(model.name, fontsize=10)
        axis.set_xlabel("estimate / mean of the recordings")
        axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    return figure


def main() -> None:
    """Fit, judge, write."""
    with processes(2) as pool:
        jobs = [pool.submit(judged, device) for device in DEVICES]
        full = pool.submit(everything)
        models = [job.result() for job in jobs]
        solution = full.result()
    sys.stderr.write(f"{solution.status.value}\n")
    text = [
        "# Measured Furuta pendulums",
        "As Table 4 of the paper: each recording fitted by itself; with the parameters fixed the states of the others\n"
        "are estimated (CV). Costs are squared residuals over the number of steps. `python results/furuta.py` makes\n"
        "this page.",
        "![estimates](furuta.png)",
    ]
    for model in models:
        text += [
            f"## {model.name}",
            f"h = {1e3 * model.step:g} ms, state weight {model.state_weight:.0e}, {model.stepper}. "
            f"{model.agreement.report}",
            table(model),
            NOTES[model.name],
        ]
    text += [
        "## What one swing-up tells of all parameters",
        f"`problems/furuta_full.py`, swingup_500hz_1, {solution.status.value} after {solution.iterations} iterations. "
        "Unknown: the standard error is more than half of the estimate.",
        known([e for e in solution.parameters.values() if not e.fixed]),
    ]
    (HERE / "furuta.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    picture(models).savefig(HERE / "furuta.png")


if __name__ == "__main__":
    main()
