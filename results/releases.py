"""Friction laws of three measured pendulums, as Tables 2 and 3 of the paper: `python results/releases.py`.

Writes releases.md. Every law is fitted to each recording of a device by itself and judged on the others, and fitted to
all of them together for its likelihood. Needs the measured data: SPOOKID_DATA must point to them. Takes a minute.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from spookid import Problem, load_problem
from spookid.studies.crossvalidation import CrossValidation, crossvalidate, leading, verdict
from spookid.tables.table import labelled, uncertain

HERE = Path(__file__).parent
PROBLEMS = HERE.parent / "problems"
LAWS = ("viscous", "dry", "stribeck", "drag")
INTRO = """# Friction laws of three measured pendulums

This page repeats Tables 2 and 3 of the paper, with estimated noise. Each friction law is fitted to each recording
separately (lower tables), and to all recordings together. The number k counts the parameters, including noise levels;
AIC = −2 log L + 2k. CV is the mean −2 log L of the recordings that were not fitted, with states and noise estimated
again. The tables also show m g l/(J + m l²) of each recording, with its standard error. The command `python
results/releases.py` writes this page."""


@dataclass(frozen=True)
class Device:
    """One pendulum, its problem file and what its makers say."""

    name: str
    file: str
    mass: float
    """[kg]"""
    length: float
    """Hinge to the centre of mass [m]."""
    source: str
    """What is known of m g l/(J + m l²) [1/s²]."""


DEVICES = (
    Device("pendulum-free-swing", "pendulum_free_swing", 0.01225, 0.062, "119.6 to 120.3 by the fits of its README"),
    Device("multiarm-pendulum", "multiarm_single", 0.147585, 0.147755, "64.22 by its authors' fit, viscous friction"),
    Device("furuta-odrive", "odrive_release", 0.009801, 0.096608, "87.39 by its parts list"),
)


def declared(device: Device, law: str) -> Problem:
    """The law with all recordings of the device; the releases are declared one by one and are brought together."""
    path = PROBLEMS / f"{device.file}.py"
    if device.file != "pendulum_free_swing":
        return load_problem(f"{path}::{law}").with_(estimator="noise")
    apart = {f"{release}_{law}": load_problem(f"{path}::{release}_{law}") for release in ("01", "02", "03")}
    together = [problem.recordings[0] for problem in apart.values()]
    return apart[f"01_{law}"].with_(recordings=together, estimator="noise")


def summary(device: Device, models: list[CrossValidation]) -> str:
    """Markdown: the paper's Table 3 of one device, and its Table 2 for every law."""
    names = models[0].recordings
    compared = [["law", "log L", "k", "AIC", "CV", "fits that converged"]]
    for m in models:
        sizes = [f"{m.log_likelihood:.1f}", str(m.count), f"{m.aic:.1f}", f"{m.score:.1f}"]
        compared.append([m.name, *sizes, f"{m.fits - m.failures} of {m.fits}"])
    text = [
        f"## {device.name}",
        f"h = {1e3 * models[0].step:g} ms. {verdict(models)}",
        table(compared),
        f"m g l/(J + m l²) [1/s²], known: {device.source}.",
        table([["law", *names], *([m.name, *frequencies(device, m)] for m in models)]),
    ]
    for m in models:
        rows = [["parameter", *names]]
        for p in m.agreement.parameters:
            rows.append([labelled(p.name, p.unit), *map(uncertain, p.estimates, p.std_errs)])
        text += [f"### {m.name}", m.agreement.report, table(rows)]
    return "\n\n".join(text)


def frequencies(device: Device, model: CrossValidation) -> list[str]:
    """m g l/(J + m l²) [1/s²] of every recording, with its standard error."""
    inertia = next(p for p in model.agreement.parameters if p.name == "J")
    torque, arm = device.mass * 9.81 * device.length, device.mass * device.length**2
    pairs = zip(inertia.estimates, inertia.std_errs, strict=True)
    return [f"{torque / (J + arm):.2f} ± {torque * error / (J + arm) ** 2:.2f}" for J, error in pairs]


def table(rows: list[list[str]]) -> str:
    """Markdown: the first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def main() -> None:
    """Fit, judge, write. All laws of a device have one estimator and leave out the same outliers, or their criteria do
    not compare."""
    parts = [INTRO]
    for device in DEVICES:
        problems, models = {law: declared(device, law) for law in LAWS}, []
        leader = leading([problem.solve() for problem in problems.values()])
        for law, problem in problems.items():
            models.append(crossvalidate(problem, name=law, leader=leader))
            told = f"AIC {models[-1].aic:.1f}" if math.isfinite(models[-1].aic) else "no likelihood"
            sys.stderr.write(f"{device.name}, {law}: {told}\n")
        parts.append(summary(device, models))
    (HERE / "releases.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
