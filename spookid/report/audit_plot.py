"""What a time-step audit leaves behind: a folder with its numbers, its table and one figure."""

from __future__ import annotations

import json
import math
from os import PathLike
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

import spookid
from spookid.report import pictures
from spookid.report.wording import labelled, number
from spookid.results import folders
from spookid.studies.audit import Audit, Drift

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "audit.json"
"""The file that makes a folder one of an audit."""
SCHEMA = 1
"""Version of its layout."""

_FINE, _COARSE, _GREY = "#0072B2", "#D55E00", "#707070"  # of Okabe and Ito: colour-blind people tell them apart
_MOST_COLUMNS = 4
_LEAST = 0.01
"""Half the range of a vertical axis at least, as a share of the value."""


def check_target(directory: str | PathLike[str]) -> None:
    """Refuse a folder that `save` would refuse.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier audit.
    """
    folders.check_target(directory, MARKER)


def save(directory: str | PathLike[str], audit: Audit) -> None:
    """Write the folder, whole or not at all: ``audit.json``, ``audit.txt`` and ``audit.png``.

    Raises:
        ProblemError: as `check_target`, or if it cannot be written.
    """
    with folders.replacing(directory, MARKER) as folder:
        text = json.dumps(_document(audit), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / MARKER).write_text(text + "\n", encoding="utf-8")
        (folder / "audit.txt").write_text(audit.table() + "\n", encoding="utf-8")
        pictures.save(figure(audit), folder / "audit.png")


def _document(audit: Audit) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "problem": audit.problem,
        "steps": list(audit.steps),
        "statuses": [status.value for status in audit.statuses],
        "parameters": {drift.name: _entry(drift) for drift in audit.drifts},
        "verdict": audit.verdict,
        "versions": {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__},
    }


def _entry(drift: Drift) -> dict[str, Any]:
    return {
        "unit": drift.unit,
        "estimates": [_finite(estimate) for estimate in drift.estimates],
        "std_err": _finite(drift.std_err),
        "order": _finite(drift.order),
        "extrapolated": _finite(drift.extrapolated),
        "off": _finite(drift.off),
        "fine": drift.fine,
    }


def _finite(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None


# --- the figure ---


def figure(audit: Audit) -> Figure:
    """A panel a parameter: estimates against the step, the extrapolated value at 0, and what noise leaves open."""
    from matplotlib.figure import Figure

    count = max(len(audit.drifts), 1)
    columns = min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    result = Figure(figsize=(max(3.4 * columns, 6.0), 1.3 + 2.6 * rows), layout="constrained")
    result.suptitle(f"Time-step audit of {audit.problem}", fontsize=12, parse_math=False)
    panels = result.subplots(rows, columns, squeeze=False).ravel()
    for panel, drift in zip(panels, audit.drifts, strict=False):
        _draw(panel, audit.steps, drift)
    for panel in panels[len(audit.drifts) :]:
        panel.set_axis_off()
    if not audit.drifts:
        panels[0].text(0.5, 0.5, "No parameter is free.", ha="center", va="center")
    for panel in panels[max(len(audit.drifts) - columns, 0) : len(audit.drifts)]:
        panel.set_xlabel("step [s]", fontsize=9)
    _legend(result)
    return result


def _draw(panel: Axes, steps: tuple[float, ...], drift: Drift) -> None:
    colour = _FINE if drift.fine else _COARSE
    known = math.isfinite(drift.order)
    if known:
        way = np.linspace(0.0, steps[0], 100)
        panel.plot(way, drift.extrapolated + drift.off * (way / steps[0]) ** drift.order, ":", color=colour)
    if math.isfinite(drift.std_err):
        panel.errorbar(steps[-1], drift.estimates[-1], drift.std_err, fmt="none", ecolor=_GREY, capsize=4)
    panel.plot(steps, drift.estimates, "o", color=colour, markersize=5)
    panel.plot(0.0, drift.extrapolated, "D", color=colour, markersize=6, mfc="white", clip_on=False, zorder=3)
    panel.set_title(labelled(drift.name, drift.unit), fontsize=10, loc="left", parse_math=False)
    order = f"order {drift.order:g}" if known else "steady" if math.isfinite(drift.off) else "no order seen"
    panel.set_title(order, fontsize=8, loc="right", color=_GREY)
    panel.set_xlim(-0.06 * steps[0], 1.08 * steps[0])
    panel.set_xticks([0.0, *sorted(steps)], ["0", *(number(step) for step in sorted(steps))])
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.3)
    panel.margins(y=0.15)
    _widen(panel, drift)


def _widen(panel: Axes, drift: Drift) -> None:
    """Let the vertical axis span two per cent of the value at least: what moves less looks as flat as it is."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = panel.get_ylim()
    if math.isfinite(drift.estimates[-1]):
        middle, half = (low + high) / 2, max((high - low) / 2, _LEAST * abs(drift.estimates[-1]))
        panel.set_ylim(middle - half, middle + half)
    panel.yaxis.set_major_locator(MaxNLocator(4))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y, 6)))


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    def entry(colour: str, marker: str, label: str, **style: Any) -> Line2D:
        return Line2D([], [], color=colour, marker=marker, linestyle="", label=label, **style)

    handles = [
        entry(_FINE, "o", "estimate, step fine enough"),
        entry(_COARSE, "o", "estimate, the step shows"),
        entry(_GREY, "|", "standard error, of noise alone", markersize=12),
        entry("black", "D", "extrapolated to 0", markerfacecolor="white"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
