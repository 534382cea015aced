"""Tables 2 and 3 of the paper on three measured pendulums: `python results/releases.py` writes releases.md and .png.

Every friction law is fitted to each recording of a device by itself and judged on the others. Needs the measured data:
SPOOKID_DATA must point to them. Takes some minutes on two processors.
"""

import sys
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spookid import Problem, Variational, load_problem
from spookid.agreement import ParameterAgreement
from spookid.crossvalidation import CrossValidation, verdict
from spookid.workers import processes

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
LAWS = ("viscous", "dry", "stribeck", "drag")
COLOURS = dict(zip(LAWS, ("#D55E00", "#E69F00", "#0072B2", "#009E73"), strict=True))


@dataclass(frozen=True)
class Device:
    """One pendulum, its problem file and what its makers say."""

    name: str
    file: str
    mass: float
    """[kg]"""
    length: float
    """Hinge to the centre of mass [m]."""
    expected: float
    """m g l/(J + m l²) [1/s²]."""
    source: str
    """Of `expected`."""


DEVICES = (
    Device("pendulum-free-swing", "pendulum_free_swing", 0.01225, 0.062, 118.7, "a uniform rod, 3 g/(2 L)"),
    Device("multiarm-pendulum", "multiarm_single", 0.147585, 0.147755, 64.22, "its authors' fit"),
    Device("furuta-odrive", "odrive_release", 0.009801, 0.096608, 87.39, "its parts list"),
)


def declared(device: Device, law: str) -> Problem:
    """The law with all recordings of the device; the releases are declared one by one and are brought together."""
    path = PROBLEMS / f"{device.file}.py"
    if device.file != "pendulum_free_swing":
        return load_problem(f"{path}::{law}")
    apart = {f"{release}_{law}": load_problem(f"{path}::{release}_{law}") for release in ("01", "02", "03")}
    recordings = [problem.recordings[0] for problem in apart.values()]
    return apart[f"01_{law}"].with_(recordings=recordings, stepper=Variational())


def judged(device: Device, law: str) -> CrossValidation:
    """In a worker: fits and cross-validation of one law."""
    return declared(device, law).crossvalidate(name=law)


@dataclass(frozen=True, eq=False)
class Replay:
    """A law fitted to the first recording of a device and simulated from its start without correction."""

    t: np.ndarray
    """[s]"""
    measured: np.ndarray
    """[rad]"""
    error: np.ndarray
    """Simulated less measured [rad]."""

    @property
    def rms(self) -> float:
        """[mrad]"""
        return 1e3 * float(np.sqrt(np.nanmean(self.error**2)))


def replayed(device: Device, law: str) -> Replay:
    """In a worker."""
    problem = declared(device, law)
    problem = problem.with_(recordings=problem.recordings[:1])
    solution = problem.solve()
    motion = solution.trajectories[0]
    angle = problem.simulate(solution).signals[problem.observations[0].signal]
    return Replay(motion.t, motion.observed[:, 0], angle - motion.observed[:, 0])


def summary(device: Device, models: list[CrossValidation], replays: list[Replay]) -> str:
    """Markdown: the paper's Table 3 of one device, and its Table 2 for every law."""
    titles = (
        "law",
        "fits",
        "cost",
        "CV",
        "CV / cost",
        "replay of the first [mrad]",
        "m g l/(J + m l²)",
    )
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for model, replay in zip(models, replays, strict=True):
        a = frequencies(device, model)
        lines.append(
            f"| {model.name} | {'converged' if model.converged else 'not all converged'} | {model.cost:.3g} | "
            f"{model.score:.3g} | {model.score / model.cost:.2f} | {replay.rms:.2f} | "
            f"{np.mean(a):.2f} ({np.min(a):.2f} to {np.max(a):.2f}) |"
        )
    dry = next(model for model in models if model.name == "dry")
    a = float(np.mean(frequencies(device, dry)))
    text = [
        f"## {device.name}",
        f"h = {1e3 * models[0].step:g} ms, state weight {models[0].state_weight:.0e}, {models[0].stepper}, recordings: "
        f"{', '.join(models[0].recordings)}. **Verdict.** {verdict(models)} With dry friction m g l/(J + m l²) "
        f"is {a:.2f} 1/s², {100 * (a / device.expected - 1):+.2f} % from {device.expected} ({device.source}).",
        "\n".join(lines),
        *(f"### {m.name}\n\n{m.agreement.report}\n\n{estimates(m)}" for m in models),
    ]
    return "\n\n".join(text)


def frequencies(device: Device, model: CrossValidation) -> list[float]:
    """m g l/(J + m l²) [1/s²] of every recording."""
    inertia = next(p for p in model.agreement.parameters if p.name == "J")
    return [device.mass * 9.81 * device.length / (j + device.mass * device.length**2) for j in inertia.estimates]


def estimates(model: CrossValidation) -> str:
    """Markdown: the paper's Table 2."""
    lines = ["| | " + " | ".join(model.recordings) + " | mean | spread |", "|" + "---|" * (len(model.recordings) + 3)]
    costs = [model.own(name).cost for name in model.recordings]
    scores = [float(np.mean([s.cost for s in model.others(name)])) for name in model.recordings]
    for title, values in (("cost", costs), ("CV", scores)):
        lines.append(f"| {title} | " + " | ".join(f"{v:.3g}" for v in values) + f" | {np.mean(values):.3g} | |")
    for p in model.agreement.parameters:
        cells = [value if error != error else f"{value} ± {error:.1g}" for value, error in texts(p)]
        spread = f"{p.spread:.2%}" if p.spread == p.spread else "-"
        lines.append(f"| {p.name} [{p.unit}] | " + " | ".join(cells) + f" | {np.mean(p.estimates):.4g} | {spread} |")
    return "\n".join(lines)


def texts(parameter: ParameterAgreement) -> list[tuple[str, float]]:
    """Estimates in words, with their standard errors."""
    return [(f"{v:.4g}", e) for v, e in zip(parameter.estimates, parameter.std_errs, strict=True)]


def picture(replays: dict[tuple[str, str], Replay]) -> Figure:
    """Measured angle of the first recording of each device, and what open-loop simulations miss it by."""
    figure = Figure(figsize=(13, 6), layout="constrained", dpi=130)
    axes = figure.subplots(2, len(DEVICES), sharex="col")
    for column, device in zip(axes.T, DEVICES, strict=True):
        for law in LAWS:
            replay = replays[device.name, law]
            column[1].plot(replay.t, 1e3 * replay.error, lw=1, color=COLOURS[law], label=law)
        column[0].plot(replay.t, replay.measured, lw=1, color="0.3")
        column[0].set_title(device.name, fontsize=10)
        column[1].set_xlabel("time [s]")
        for axis in column:
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("measured angle [rad]")
    axes[1, 0].set_ylabel("simulated less measured [mrad]")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(LAWS), frameon=False)
    return figure


def main() -> None:
    """Fit, judge, write."""
    models, replays = {}, {}
    with processes(2) as pool:
        futures = {
            pool.submit(work, d, law): (d.name, law, work)
            for d in DEVICES
            for law in LAWS
            for work in (judged, replayed)
        }
        for future in as_completed(futures):
            device, law, work = futures[future]
            (models if work is judged else replays)[device, law] = future.result()
            sys.stderr.write(f"{device}, {law}: {work.__name__}\n")
    intro = (
        "# Friction laws of three measured pendulums\n\n"
        "As Tables 2 and 3 of the paper: every law is fitted to each recording by itself; with the parameters fixed\n"
        "the states of the others are estimated (CV). Costs are squared residuals over the number of steps.\n"
        "In the figure the first recording is simulated from its estimated start; laws that it cannot tell apart lie\n"
        "on each other.\n"
        "`python results/releases.py` makes this page.\n\n"
        "![replays](releases.png)\n\n"
    )
    parts = [summary(d, [models[d.name, law] for law in LAWS], [replays[d.name, law] for law in LAWS]) for d in DEVICES]
    (HERE / "releases.md").write_text(intro + "\n\n".join(parts) + "\n", encoding="utf-8")
    picture(replays).savefig(HERE / "releases.png")


if __name__ == "__main__":
    main()
