"""What a simulation leaves behind: a folder with numbers, recordings that can be read back, and a figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.kernels.kernel import Array
from spookid.problem import Problem
from spookid.report import pictures
from spookid.report.pictures import GREY, RED, SKY
from spookid.results import folders
from spookid.results.documents import document
from spookid.results.wording import labelled, quantity, superscripts
from spookid.studies.comparison import Comparison

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "simulation.json"
"""The file that makes a folder one of a simulation."""
_WIDTHS = (9.0, 7.0, 5.5, 4.6)
"""Of a column with one to four recordings [in]."""


def save(
    directory: folders.Path_,
    problem: Problem,
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
    tree = document(
        problem.name,
        status=status,
        **{"from": source},
        stepper=problem.stepper.name,
        friction=problem.friction,
        step=problem.step,
        duration=max(comparison.duration for comparison in comparisons),
        parameters=values,
        recordings=[_entry(c, name if name in files else None) for c, name in zip(comparisons, names, strict=True)],
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


# --- the figure ---


def figure(comparisons: Sequence[Comparison], title: str) -> Figure:
    """Signals over time: a row a signal, a column a recording, at most the first four of them."""
    from matplotlib.figure import Figure

    shown = comparisons[: len(_WIDTHS)]
    rows, columns = len(shown[0].signals), len(shown)
    result = Figure(figsize=(_WIDTHS[columns - 1] * columns, 1.0 + 2.6 * rows), layout="constrained")
    more = f" (first {columns} of {len(comparisons)} recordings)" if len(comparisons) > columns else ""
    result.suptitle(f"{title}{more}", fontsize=12, parse_math=False)
    panels = result.subplots(rows, columns, squeeze=False, sharex="col")
    for column, comparison in zip(panels.T, shown, strict=True):
        column[0].set_title(comparison.name, fontsize=10, pad=20, parse_math=False)  # above the legend
        column[-1].set_xlabel("time [s]")
        for row, panel in enumerate(column):
            _draw(panel, comparison, row)
    for row, signal in enumerate(shown[0].signals):
        panels[row, 0].set_ylabel(labelled(signal, shown[0].units[row]), parse_math=False)
    return result


def _draw(panel: Axes, comparison: Comparison, i: int) -> None:
    simulated, label = comparison.predicted[:, i], "simulated"
    measured = _continuous(comparison.observed[:, i], simulated, comparison.periods[i])
    rms = comparison.rms[comparison.signals[i]]
    if np.isfinite(rms):
        # Points, because a line would bridge what is missing.
        panel.plot(comparison.t, measured, ".", color=SKY, markersize=4, label="measured")
        label = f"simulated, rms difference {quantity(rms, superscripts(comparison.units[i]))}"
    panel.plot(comparison.t, simulated, "-", color=RED, linewidth=1.2, label=label)
    if comparison.failure:
        panel.axvline(comparison.t[-1], color=GREY, linestyle=":", label="not solved further")
    panel.grid(alpha=0.3)
    panel.margins(x=0.01)
    # Above the panel, where it hides nothing.
    panel.legend(fontsize=8, ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0)


def _continuous(measured: Array, simulated: Array, period: float | None) -> Array:
    """A periodic signal without jumps, by whole periods as near to the simulated one as it is at its first sample."""
    finite = np.flatnonzero(np.isfinite(measured))
    result = measured.copy()
    if finite.size and period is not None:
        unwrapped = np.unwrap(measured[finite], period=period)
        result[finite] = unwrapped + period * np.round((simulated[finite[0]] - unwrapped[0]) / period)
    return result
