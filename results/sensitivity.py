"""Figures 4 to 7 and G.12 of the paper and its section 4.8: `python results/sensitivity.py [4 5 6 7 g12 time]`.

Writes figure_*.png and, where there is a sweep, figure_*.md, and time.md. Sweeps over the state weight, the step and
the compliance, on a twin and on a measured swing-up, with each stepper where it makes sense. Needs the measured data:
SPOOKID_DATA must point to them. Takes some minutes on two processors; a run that is cut off goes on where it was from
the folder results/sensitivity/.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from spookid import Problem, Solution, Variational, load_problem, sweep
from spookid.studies.sweep_points import Sweep, SweepPoint
from spookid.tables.table import labelled

HERE = Path(__file__).parent
PROBLEMS = HERE / "sensitivity_problems.py"
TRUTH = {"J_Azz": 0.003, "J_Byy": 0.004, "b_1": 1e-3, "b_2": 1e-4}
SHOWN = {"release": tuple(TRUTH), "swingup": ("J_arm", "J_rod", "K", "b_1")}
WEIGHTS = {
    "release": [10.0**n for n in (-2, 0, 1, 2, 3, 4, 6, 8)],
    "swingup": [10.0**n for n in (2, 4, 6, 8, 10)],
}
COMPLIANCES = [1e-6, 1e-5, 1e-4, 1e-3]
STEPS = [0.005, 0.01, 0.02, 0.04]
STEPPERS = {"spook": "#0072B2", "spook-lifted": "#D55E00", "variational": "#009E73"}
BOTH = {"stepper": ["spook", "variational"]}
JOINTS = {"stepper": ["spook", "spook-lifted"]}  # the variational step's are rigid
WEIGHT, COMPLIANCE, STEP = "state weight κ", "compliance ε [m/N]", "step h [s]"
SIMULATED = (1e2, 1e4, 1e6, 1e8)


def swept(name: str, key: str, over: dict[str, list[float] | list[str]], jobs: int = 2) -> Sweep:
    """One sweep, kept in a folder of its own until it is complete."""

    def seen(point: SweepPoint, before: bool) -> None:
        sys.stderr.write(f"{name}: {dict(point.values)} {point.outcome}{' (known)' if before else ''}\n")

    return sweep(f"{PROBLEMS}::{key}", over, folder=HERE / "sensitivity" / name, jobs=jobs, seen=seen)


def curves(sweep: Sweep, axis: str, stepper: str | None) -> list[SweepPoint]:
    """Points of one stepper that have a solution, along an axis."""
    chosen = [p for p in sweep.points if p.status is not None and p.values.get("stepper", stepper) == stepper]
    return sorted(chosen, key=lambda p: float(p.values[axis]))


def column(
    panels: list[Axes], sweep: Sweep, axis: str, label: str, names: tuple[str, ...], only: str = "spook"
) -> None:
    """Estimates above, mean squared errors below, against one axis."""
    for panel, name in zip(panels, names, strict=False):
        if sweep.problem == "release":  # first, so that the axis reaches there
            panel.axhline(TRUTH[name], color="0.5", lw=1.2, ls=":")
    steppers = sorted({str(p.values.get("stepper", only)) for p in sweep.points})
    for stepper in steppers:
        points = curves(sweep, axis, stepper) if len(steppers) > 1 else curves(sweep, axis, only)
        x = [float(p.values[axis]) for p in points]
        style = dict(marker="o", ms=4, lw=1.2, color=STEPPERS[stepper], label=stepper)
        for panel, name in zip(panels, names, strict=False):
            panel.plot(x, [p.parameters[name].estimate for p in points], **style)
            loose = [p for p in points if not p.converged]
            panel.plot(
                [float(p.values[axis]) for p in loose],
                [p.parameters[name].estimate for p in loose],
                "x",
                ms=9,
                color=STEPPERS[stepper],
            )
        panels[-1].plot(x, [p.cost.observation for p in points], **style)
        # `cost.state` is weighted; the paper plots the squared impulses themselves
        weights = [float(p.values.get("state_weight", np.nan)) for p in points]
        if np.isfinite(weights).all():
            panels[-1].plot(x, [p.cost.state / w for p, w in zip(points, weights, strict=True)], **style | {"ls": "--"})
        else:
            panels[-1].plot(x, [p.cost.state for p in points], **style | {"ls": "--"})
    for panel, name in zip(panels, names, strict=False):
        panel.set_ylabel(labelled(name, sweep.estimated.get(name, "")))
    panels[-1].set_ylabel("squared residuals\n(full: angles, dashed: impulses)", fontsize=8)
    panels[-1].set_yscale("log")
    panels[-1].set_xlabel(label)
    for panel in panels:
        panel.set_xscale("log")
        panel.grid(alpha=0.3)
        if axis == "step":
            panel.set_xticks(STEPS, [f"{step:g}" for step in STEPS])
            panel.xaxis.set_minor_locator(NullLocator())


def sheet(sweeps: list[tuple[Sweep, str, str]], names: tuple[str, ...], title: str) -> Figure:
    """A column a sweep."""
    rows = len(names) + 1
    figure = Figure(figsize=(5.5 * len(sweeps) + 1, 1.9 * rows), layout="constrained", dpi=120)
    axes = figure.subplots(rows, len(sweeps), sharex="col", squeeze=False)
    for panels, (one, axis, label) in zip(axes.T, sweeps, strict=True):
        column(list(panels), one, axis, label, names)
    handles = {
        label: handle for panel in axes[0] for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    handles["not converged"] = Line2D([], [], marker="x", ms=9, ls="", color="0.4")
    if names == SHOWN["release"]:
        handles["truth"] = Line2D([], [], ls=":", lw=1.2, color="0.5")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def simulations(problem: Problem, solutions: dict[float, Solution]) -> Figure:
    """Figure 5: simulations from the estimates (left), parameters and cost against iterations (right)."""
    figure = Figure(figsize=(13, 8), layout="constrained", dpi=120)
    axes = figure.subplots(3, 2)
    recording = problem.recordings[0]
    for row, signal in enumerate(("theta", "alpha", "u")):
        axes[row, 0].plot(recording.t, recording.signals[signal], color="0.6", lw=2.5, label="measured")
        axes[row, 0].set_ylabel(f"{signal} [{'V' if signal == 'u' else 'rad'}]")
        axes[row, 0].grid(alpha=0.3)
    for weight, solution in solutions.items():
        made = problem.with_(state_weight=weight).simulate(solution, substeps=1)
        for row, signal in enumerate(("theta", "alpha")):
            axes[row, 0].plot(made.t, made.signals[signal], lw=1, label=f"state weight {weight:.0e}")
        iterations = [entry.iteration for entry in solution.history]
        for row, name in enumerate(("J_arm", "J_rod")):
            axes[row, 1].plot(iterations, [entry.parameters[name] for entry in solution.history], marker=".", lw=1)
            axes[row, 1].set_ylabel(f"{name} [kg m²]")
        axes[2, 1].semilogy(iterations, [entry.cost.total for entry in solution.history], marker=".", lw=1)
    axes[0, 0].set_ylim(-3, 3)
    axes[1, 0].set_ylim(-7, 7)
    axes[2, 0].set_xlabel("time [s]")
    axes[2, 1].set_xlabel("iteration")
    axes[2, 1].set_ylabel("cost")
    for panel in axes[:, 1]:
        panel.grid(alpha=0.3)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def twin(problem: Problem) -> Figure:
    """Figure G.12: the synthetic observations."""
    figure = Figure(figsize=(9, 4), layout="constrained", dpi=120)
    axes = figure.subplots(2, 1, sharex=True)
    recording = problem.recordings[0]
    for panel, signal in zip(axes, ("theta1", "theta2"), strict=True):
        panel.plot(recording.t, recording.signals[signal], lw=0.8, color="#0072B2")
        panel.set_ylabel(f"{signal} [rad]")
        panel.grid(alpha=0.3)
    axes[1].set_xlabel("time [s]")
    return figure


def clock(sweep: Sweep) -> str:
    """Markdown: section 4.8."""
    lines = ["| stepper | status | iterations | whole solve [s] | relative to variational |", "|---|---|---|---|---|"]
    fastest = next(p.seconds for p in sweep.points if p.values["stepper"] == "variational")
    for p in sweep.points:
        lines.append(
            f"| {p.values['stepper']} | {p.outcome} | {p.iterations} | {p.seconds:.1f} | {p.seconds / fastest:.1f} |"
        )
    return "\n".join(lines)


def save(name: str, figure: Figure, sweeps: Sequence[Sweep] = ()) -> None:
    """A figure, and the numbers in it."""
    figure.savefig(HERE / f"figure_{name}.png")
    if sweeps:
        text = "\n\n".join(f"```\n{one}\n```" for one in sweeps)
        (HERE / f"figure_{name}.md").write_text(f"# Numbers of figure {name}\n\n{text}\n", encoding="utf-8")


def figure_4() -> None:
    """Measured swing-up against the state weight and the compliance."""
    weight = swept("swingup_weight", "swingup", {**BOTH, "state_weight": WEIGHTS["swingup"]})
    soft = swept("swingup_compliance", "swingup", {"epsilon": COMPLIANCES})
    columns = [(weight, "state_weight", WEIGHT), (soft, "epsilon", COMPLIANCE)]
    title = "Measured swing-up (h = 4 ms; compliance at κ = 1e6)"
    save("4", sheet(columns, SHOWN["swingup"], title), [weight, soft])


def figure_5() -> None:
    """Simulation from the estimates, convergence."""
    problem = load_problem(f"{PROBLEMS}::swingup").with_(stepper=Variational())
    save("5", simulations(problem, {w: problem.solve(state_weight=w) for w in SIMULATED}))


def figure_6() -> None:
    """Twin against the step and the compliance."""
    step = swept("release_step", "release", {**BOTH, "step": STEPS})
    soft = swept("release_compliance", "release", {**JOINTS, "epsilon": [1e-8, *COMPLIANCES]})
    title = "Synthetic data (κ = 100; compliance at h = 10 ms)"
    save("6", sheet([(step, "step", STEP), (soft, "epsilon", COMPLIANCE)], SHOWN["release"], title), [step, soft])


def figure_7() -> None:
    """Twin against the state weight."""
    weight = swept("release_weight", "release", {**BOTH, "state_weight": WEIGHTS["release"]})
    save("7", sheet([(weight, "state_weight", WEIGHT)], SHOWN["release"], "Synthetic data (h = 10 ms)"), [weight])


def figure_g12() -> None:
    """The twin."""
    save("g12", twin(load_problem(f"{PROBLEMS}::release")))


def time() -> None:
    """Of each stepper, one after another."""
    text = clock(swept("swingup_time", "swingup", {"stepper": list(STEPPERS)}, jobs=1))
    (HERE / "time.md").write_text(f"# Time of each stepper on a measured swing-up\n\n{text}\n", encoding="utf-8")


PARTS = {"g12": figure_g12, "7": figure_7, "5": figure_5, "4": figure_4, "6": figure_6, "time": time}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
