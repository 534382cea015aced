"""The folder of a simulation: numbers, recordings that can be read back, and a figure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

import spookid
from spookid.assembly.declaration import Declaration
from spookid.report import pictures
from spookid.results import folders
from spookid.studies.comparison import Comparison

MARKER = "simulation.json"
"""The file that makes a folder one of a simulation."""
SCHEMA = 1
"""Version of its layout."""


def check_target(directory: str | PathLike[str]) -> None:
    """Refuse a folder that `save` would refuse.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier simulation.
    """
    folders.check_target(directory, MARKER)


def save(
    directory: str | PathLike[str],
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
        ProblemError: as `check_target`, or if it cannot be written.
    """
    from spookid.report import simulation_plot  # Matplotlib takes a while to load

    files = _file_names(comparisons)
    with folders.replacing(directory, MARKER) as folder:
        tree = _document(problem, values, source, comparisons, files)
        text = json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / MARKER).write_text(text + "\n", encoding="utf-8")
        np.savez(folder / "trajectory.npz", **_arrays(comparisons))
        for comparison, name in zip(comparisons, files, strict=True):
            _write_csv(comparison, folder / name)
        status = _status(comparisons)
        figure = simulation_plot.figure(comparisons, f"{problem.name}, simulation {status}")
        pictures.save(figure, folder / "simulation.png")


def _document(
    problem: Declaration,
    values: Mapping[str, float],
    source: str | None,
    comparisons: Sequence[Comparison],
    files: Sequence[str],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "problem": problem.name,
        "status": _status(comparisons),
        "from": source,
        "stepper": problem.stepper.name,
        "friction": problem.friction,
        "step": problem.step,
        "duration": max(comparison.duration for comparison in comparisons),
        "parameters": dict(values),
        "recordings": [_entry(c, file) for c, file in zip(comparisons, files, strict=True)],
        "versions": {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__},
    }


def _entry(comparison: Comparison, file: str) -> dict[str, Any]:
    return {
        "name": comparison.name,
        "file": file if comparison.recording() is not None else None,
        "status": _status([comparison]),
        "message": comparison.failure,
        "start": float(comparison.t[0]),
        "duration": comparison.duration,
        "steps": len(comparison.t),
        "signals": list(comparison.signals),
        "rms": {signal: rms if math.isfinite(rms) else None for signal, rms in comparison.rms.items()},
    }


def _status(comparisons: Sequence[Comparison]) -> str:
    return "failed" if any(comparison.failure for comparison in comparisons) else "completed"


def _arrays(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for i, c in enumerate(comparisons):
        parts = {"t": c.t, "q": c.q, "v": c.v, "observed": c.observed, "predicted": c.nearest}
        arrays |= {f"{name}_{i}": array for name, array in parts.items()}
    return arrays


def _write_csv(comparison: Comparison, path: Path) -> None:
    recording = comparison.recording()
    if recording is not None:
        time = "t"
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
