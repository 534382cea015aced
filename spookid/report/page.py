"""One self-contained page in HTML about the results in a folder, made of its files alone."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from spookid.assembly.outlining import MOST_RECORDINGS
from spookid.errors import ProblemError
from spookid.files import unreadable
from spookid.registry import markers
from spookid.report import conclusion, export, interactive, motion, pictures, study_page, summary
from spookid.report.study_page import facts, shown
from spookid.results import folders
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.trajectory import rms
from spookid.results.values import Mechanism, Quantity, SensorOutline
from spookid.results.wording import verdict
from spookid.solvers.status import Status
from spookid.tables.table import Block, Table, deviation, number, quantity, superscripts
from spookid.version import __version__

_STRUCTURE = (
    "Dots: residuals against time, the rate of their signal and the signal itself. Black: "
    "their mean over bins, with its 95 % interval for white noise (grey). Residuals that are noise have a mean of zero "
    "throughout; an offset throughout is the sensor's; a slope against the rate is a delay; a step where the rate "
    "changes its sign, dry friction; a bend against the signal, a force that depends on the place. Bars: their "
    "autocorrelation; that of white noise stays in the grey band."
)
PAGE = "report.html"
"""Name of the page in its folder."""

Robots: TypeAlias = Callable[[Solution], Sequence[Block | Tree]]
"""What is said of the robot's file that a solution was made from; nothing of one that was not."""


def write(directory: str | os.PathLike[str], *, link: bool = False, robots: Robots | None = None) -> Path:
    """Write ``report.html`` into a result folder, or into a folder of several, and return its path.

    Args:
        link: True if the page is to load Plotly from the network instead of holding it.
    """
    folder = Path(directory)
    solutions: dict[str, Solution] = {}
    studies: list[Mapping[str, Any]] = []
    found = _results(folder)
    written = {key: datetime.fromtimestamp(path.stat().st_mtime, UTC) for key, path in found.items()}
    dates = {key: f"{date:%Y-%m-%d %H:%M} UTC" for key, date in written.items()}
    for key, marker in found.items():
        if marker.name == export.MARKER:
            solutions[key] = export.load(marker.parent)
        else:
            anchor = _anchor(key, len(studies), "study")
            studies.append(study_page.study(marker.parent, marker.name, key, anchor, dates[key]))
    files = {key: robots(solution) for key, solution in solutions.items()} if robots else {}
    folders.write(folder / PAGE, page(solutions, dates, studies, files, link=link))
    return folder / PAGE


def page(
    solutions: Mapping[str, Solution],
    dates: Mapping[str, str],
    studies: Sequence[Mapping[str, Any]] = (),
    robots: Mapping[str, Sequence[Block | Tree]] | None = None,
    *,
    link: bool = True,
) -> str:
    """Report page of solutions by key, with the dates of their folders, followed by studies; Plotly is loaded from the
    network (``link``) or included."""
    environment = Environment(
        loader=PackageLoader("spookid.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    solved: list[Tree] = [
        {
            "key": key,
            "anchor": _anchor(key, i),
            "name": solution.problem,
            "conclusion": verdict(solution),
            "good": solution.status is Status.CONVERGED,
            "message": solution.message,
            "assumptions": list(conclusion.assumptions(solution).items()),
            "notices": [],
            "sections": sections(solution, (robots or {}).get(key, ()), f"{key}, written {dates[key]}"),
        }
        for i, (key, solution) in enumerate(solutions.items())
    ]
    results = [*solved, *studies]
    return environment.get_template(PAGE).render(
        title=results[0]["name"] if len(results) == 1 else f"{len(results)} results",
        version=__version__,
        results=results,
        plotly=interactive.library(link) if solutions else None,
        overview=Table(("result", "conclusion"), [(str(one["key"]), str(one["conclusion"])) for one in results]),
    )


def _results(folder: Path) -> dict[str, Path]:
    """Markers of results by key: that of the folder itself, or those of the folders in it."""
    own = _marker(folder)
    if own is not None:
        return {folder.resolve().name: own}
    try:
        found = {path.name: marker for path in sorted(folder.iterdir()) if (marker := _marker(path)) is not None}
    except OSError as error:
        raise unreadable(folder, error, "give a folder that a command of spookid wrote") from None
    if not found:
        known = ", ".join(markers())
        raise ProblemError(f"{folder} holds none of {known}; give a folder that a command of spookid wrote")
    return found


def _marker(folder: Path) -> Path | None:
    """The file that tells what results a folder holds; None if it holds none."""
    known = (path for name in markers() if (path := folder / name).is_file())
    return next(known, None) or next(filter(study_page.tells_study, sorted(folder.glob("*.json"))), None)


def _anchor(key: str, place: int, kind: str = "") -> str:
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', key)}-{kind}{place}"


# --- sections: a solution in words, tables and pictures ---


def sections(solution: Solution, robot: Sequence[Block | Tree], where: str) -> list[Tree]:
    """All sections of the report about a solution, each with title and blocks."""
    tables = dict(conclusion.details(solution))
    every: dict[str, Iterable[Block | Tree]] = {
        "Warnings": _warnings(solution),
        "Motion": _motion(solution),
        "Fit": _fits(solution),
        "Parameters": _parameters(solution, tables),
        "Mechanism": _mechanism(solution),
        "Data": _data(solution),
        "The robot's file": robot,
        "Residuals": _residuals(solution, tables),
        "Correlations": _correlations(solution),
        "Identifiability": summary.weak_sentences(solution.sensitivities) or ["The data determine all directions."],
        "Convergence": _convergence(solution),
        "Provenance": [facts([("Folder", where), *conclusion.work(solution)])],
    }
    return [{"title": title, "blocks": found} for title, blocks in every.items() if (found := shown(blocks))]


def _warnings(solution: Solution) -> Iterator[Block | Tree]:
    for finding in solution.findings:
        parts = summary.parts_of(finding)
        yield {"heading": f"{finding.severity.upper()} {finding.code}"}
        yield parts.pop("", "")
        yield facts(list(parts.items()))


def _parameters(solution: Solution, tables: dict[str, list[Block]]) -> list[Block | Tree]:
    if not solution.parameters:
        return ["The problem has no parameters."]
    chosen = {title: blocks for title, blocks in tables.items() if title.startswith(("bodies", "base"))}
    table = summary.parameters(solution, every=True)
    grids = [*summary.bodies(solution.physical), *summary.joints(solution)]
    blocks: list[Block | Tree] = [*grids, *([summary.LEGEND] if grids else []), table]
    blocks += [*summary.noise_line(solution), *summary.widths_line(solution), summary.facts_words(solution)]
    for title, own in chosen.items():
        blocks += [{"heading": title[0].upper() + title[1:]}, *own]
    own = list(summary.constraints(solution))
    return [*blocks, *([{"heading": "Constraints between parameters"}, *own] if own else [])]


def _mechanism(solution: Solution) -> list[Block | Tree]:
    parts = solution.mechanism
    if parts is None:
        return ["This folder, written by an earlier version, does not contain the mechanism. Solve the problem again."]
    gravity = ", ".join(number(g) for g in parts.gravity)
    note = f"Coefficients at the estimated parameters, with their formulas. Gravity: ({gravity}) m/s²."
    return [*(table for table in _parts(parts) if table.rows), note]


def _parts(parts: Mechanism) -> list[Table]:
    bodies = [(b.name, _coefficients(b.quantities)) for b in parts.bodies]
    joints = [(h.name, f"{h.parent} and {h.child}", _coefficients(h.quantities)) for h in parts.hinges]
    ties = [(f"{c.name}, {c.kind}", " and ".join(c.ties), _coefficients(c.quantities)) for c in parts.constraints]
    motors = [(m.hinge, m.signal, _coefficients(m.quantities)) for m in parts.motors]
    return [
        Table(("body", "coefficients"), bodies),
        Table(("joint", "joins", "coefficients"), joints),
        Table(("constraint", "between", "coefficients"), ties),
        Table(("motor on", "input", "coefficients"), motors),
    ]


def _coefficients(quantities: Sequence[Quantity]) -> str:
    texts = []
    for q in quantities:
        value = quantity(q.value, superscripts(q.unit), 4)
        texts.append(f"{q.name} = {pictures.short(q.formula)} = {value}" if q.formula else f"{q.name} {value}")
    return "; ".join(texts)


def _motion(solution: Solution) -> list[Block | Tree]:
    scenes: list[Block | Tree] = [motion.scene(film) for film in motion.films(solution)]
    more = motion.omitted(solution) if scenes else ""
    return [*scenes, *([more] if more else [])]


def _data(solution: Solution) -> list[Block | Tree]:
    """A row for each recording, and one for each sensor."""
    rows = []
    for t in solution.trajectories:
        counts = zip(t.signals, t.samples.sum(axis=0), strict=True)
        samples = ", ".join(f"{signal} {count:,.0f}" for signal, count in counts)
        rows.append((t.name, quantity(float(t.t[-1] - t.t[0]), "s", 6), f"{len(t.t):,}", samples))
    sensors = (
        [(s.signal, s.title, _sigma(s, solution)) for s in solution.mechanism.sensors] if solution.mechanism else []
    )
    seen = [Table(("signal", "what it is", "standard deviation"), sensors)] if sensors else []
    return [Table(("recording", "duration", "steps", "samples"), rows), *seen]


def _sigma(sensor: SensorOutline, solution: Solution) -> str:
    """Its standard deviation as it was given, or as it was estimated."""
    if math.isfinite(sensor.sigma):
        return quantity(sensor.sigma, superscripts(sensor.unit))
    known = [n for n in solution.noise if n.kind == "sensor" and sensor.signal in n.names]
    return f"{deviation(known[0].std, superscripts(sensor.unit))}, estimated" if known else "estimated"


def _fits(solution: Solution) -> list[Block | Tree]:
    """A figure for each recording, and what is said if they are too many."""
    first = solution.trajectories[: pictures.MOST_PANELS]
    more = len(solution.trajectories) - len(first)
    blocks: list[Block | Tree] = []
    for t in first:
        blocks += [{"heading": t.name}, interactive.fit(t)]
    return [*blocks, *([f"{more} more recordings are in trajectory.npz."] if more else [])]


def _residuals(solution: Solution, tables: dict[str, list[Block]]) -> list[Block | Tree]:
    blocks: list[Block | Tree] = list(tables.get("residuals", []))
    if figures := interactive.residuals(solution):
        count, most = len(solution.trajectories[0].signals), pictures.MOST_PANELS
        more = f" The first {most} of {count} signals." if count > most else ""
        blocks += [{"grid": figures}, _STRUCTURE + more]
    blocks += [_impulses(solution), *_disturbances(solution)]
    for title in ("noise", "cost", "dry friction", "starts"):
        blocks += [{"heading": title[0].upper() + title[1:]}, *tables[title]] if title in tables else []
    return blocks


def _disturbances(solution: Solution) -> Iterator[Tree]:
    """Figures of the first recordings where the process noise was estimated."""
    every = [one for one in solution.disturbance if np.isfinite(one.std_err).any()]
    for one in every[:MOST_RECORDINGS]:
        count, more = len(one.labels), len(every) - MOST_RECORDINGS
        words = [f"the first {pictures.MOST_PANELS} of {count} coordinates"] if count > pictures.MOST_PANELS else []
        words += [f"{more} more recordings are in trajectory.npz"] if more > 0 else []
        caption = (
            "Unmodelled force or torque along each coordinate, averaged over a time step, in recording "
            f"{one.name}, with 95 % intervals. If this effort repeats with the motion, a load is missing in the model."
        )
        caption += f" Shown: {'; '.join(words)}." if words else ""
        yield {**interactive.disturbance(one, pictures.MOST_PANELS), "caption": caption}


def _impulses(solution: Solution) -> str:
    """How far the motion is from the mechanics, in a sentence."""
    if solution.holds_dynamics:
        return "Deterministic dynamics: the motion obeys the mechanics."
    lacking = np.concatenate([np.zeros(0), *(t.impulse_residual.ravel() for t in solution.trajectories)])
    known = np.abs(lacking[np.isfinite(lacking)])
    if not known.size:
        return "No impulse residuals are known."
    largest = number(float(np.max(known)), 3)
    return (
        f"Impulse residuals of the equations of motion per step: rms {number(rms(lacking), 3)}, largest {largest} N "
        "s or N m s."
    )


def _correlations(solution: Solution) -> list[Block | Tree]:
    """Pairs of parameters whose errors are correlated."""
    rows = [(one, other, f"{value:+.2f}") for one, other, value in summary.correlated(solution.sensitivities)]
    return [Table(("parameter", "parameter", "correlation"), rows)] if rows else ["No correlation is above 0.9."]


def _convergence(solution: Solution) -> list[Block | Tree]:
    noise = ", over the noise of that iteration" if solution.noise else ""
    words = f"Panels: cost{noise}; distance of each parameter from its final value, scaled to 1; damping of the solver."
    return [{**interactive.convergence(solution), "caption": words}]
