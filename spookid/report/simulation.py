"""What a simulation leaves behind: a folder with numbers, recordings that can be read back, and a figure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.report import pictures, study_page
from spookid.results import folders
from spookid.results.folders import marker_document
from spookid.studies.assumptions import how_it_moves
from spookid.studies.comparison import Comparison
from spookid.tables.table import Table, counted, labelled, number, quantity, superscripts

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.figure import Figure

MARKER = "simulation.json"
"""The file that makes a folder one of a simulation."""


def save(
    directory: folders.AnyPath,
    problem: Declaration,
    values: Mapping[str, float],
    source: str | None,
    comparisons: Sequence[Comparison],
) -> None:
    """Write the folder, whole or not at all.

    It holds ``simulation.json``, ``trajectory.npz``, ``simulation.png`` and one CSV file a recording, with the
    simulated signals and the inputs.

    Args:
        values: the parameters that were used, all of them.
        source: the result folder they came from, if any.
        comparisons: at least one.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier simulation, or cannot be written.
    """
    names, status = _file_names(comparisons), _status(comparisons)
    files = {name: c for name, c in zip(names, comparisons, strict=True) if c.recording() is not None}
    tree = marker_document(
        problem.name,
        status=status,
        **{"from": source},
        stepper=problem.stepper.name,
        friction=problem.friction,
        step=problem.step,
        duration=max(comparison.duration for comparison in comparisons),
        parameters=values,
        recordings=[_entry(c, name if name in files else None) for c, name in zip(comparisons, names, strict=True)],
        **_page(problem, values, comparisons),
    )
    folders.save(
        directory,
        {
            MARKER: tree,
            "trajectory.npz": partial(np.savez, **_arrays(comparisons)),
            **{name: partial(_write_csv, comparison) for name, comparison in files.items()},
            "simulation.png": pictures.drawn(figure, comparisons, f"{problem.name}, simulation {status}"),
        },
    )


def _page(problem: Declaration, values: Mapping[str, float], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What the report shows."""
    failures = [f"{c.name}: {c.failure}, after {number(c.duration)} s." for c in comparisons if c.failure]
    longest = f"{number(max(c.duration for c in comparisons), 6)} s"
    conclusion = f"The simulation of {counted(len(comparisons), 'motion')} of up to {longest} {_status(comparisons)}"
    taken = {"Estimator": "none: the parameters are given", **how_it_moves(problem), "Noise": "none"}
    units = {p.name: p.unit for p in problem.parameter_set.every}
    given = Table(
        ("parameter", "value"), [(n, quantity(v, superscripts(units.get(n, "")), 6)) for n, v in values.items()]
    )
    blocks = [_table(comparisons), *([given] if values else [])]
    return study_page.told(f"{conclusion}{_worst(comparisons)}.", taken, failures, blocks)


def _worst(comparisons: Sequence[Comparison]) -> str:
    """The largest differences from what was measured."""
    units = dict(zip(comparisons[0].signals, comparisons[0].units, strict=True))
    sizes = {signal: [c.rms[signal] for c in comparisons if math.isfinite(c.rms[signal])] for signal in units}
    told = [f"{signal} {quantity(max(found), units[signal])}" for signal, found in sizes.items() if found]
    return f"; its rms difference from what was measured is at most {', '.join(told)}" if told else ""


def _table(comparisons: Sequence[Comparison]) -> Table:
    """A row for each recording."""
    signals = zip(comparisons[0].signals, comparisons[0].units, strict=True)
    head = ("recording", "duration", "steps", *(f"rms of {labelled(*signal)}" for signal in signals), "status")
    rows = []
    for c in comparisons:
        sizes = [number(size, 3) if math.isfinite(size) else "-" for size in c.rms.values()]
        rows.append((c.name, quantity(c.duration, "s", 6), f"{len(c.t):,}", *sizes, _status([c])))
    return Table(head, rows)


def _entry(comparison: Comparison, file: str | None) -> dict[str, Any]:
    return {
        "name": comparison.name,
        "file": file,
        "status": _status([comparison]),
        "message": comparison.failure,
        "start": comparison.t[0],
        "duration": comparison.duration,
        "steps": len(comparison.t),
        "signals": comparison.signals,
        "rms": comparison.rms,
    }


def _status(comparisons: Sequence[Comparison]) -> str:
    return "failed" if any(comparison.failure for comparison in comparisons) else "completed"


def _arrays(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    names = {"t": "t", "q": "q", "v": "v", "observed": "observed", "predicted": "nearest"}
    return {f"{name}_{i}": getattr(c, field) for i, c in enumerate(comparisons) for name, field in names.items()}


def _write_csv(comparison: Comparison, path: Path) -> None:
    recording, time = comparison.recording(), "t"
    assert recording is not None
    while time in recording.signals:  # the time column gives way
        time = f"_{time}"
    recording.to_csv(path, time=time)


def _file_names(comparisons: Sequence[Comparison]) -> list[str]:
    """A file name for each recording, no two alike."""
    names: list[str] = []
    for comparison in comparisons:
        stem = re.sub(r"[^\w.-]+", "_", comparison.name).strip(".") or "recording"
        name, again = f"{stem}.csv", 2
        while name.lower() in (other.lower() for other in names):  # some file systems ignore the case
            name, again = f"{stem}_{again}.csv", again + 1
        names.append(name)
    return names


def figure(comparisons: Sequence[Comparison], title: str) -> Figure:
    """Signals over time beside what was measured: a column a recording."""
    from spookid.report import plots

    failed = {c.name: f"{c.name}, not solved after {number(float(c.t[-1]))} s" for c in comparisons if c.failure}
    motions = [replace(c, name=failed.get(c.name, c.name), predicted=c.nearest) for c in comparisons]
    measured = any(bool(np.any(np.isfinite(c.observed))) for c in comparisons)
    return plots.signals(motions, title, "simulated", measured)
