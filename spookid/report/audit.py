"""What a time-step audit leaves behind: a folder with its numbers, its table and one figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from spookid.report import pictures, study_page
from spookid.report.pictures import BLUE, GREY, RED
from spookid.results import folders
from spookid.results.folders import marker_document
from spookid.solvers.status import Status
from spookid.studies.auditing import Audit, Drift
from spookid.tables.table import labelled, number

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "audit.json"
"""The file that makes a folder one of an audit."""
_ENTRY = ("unit", "estimates", "std_err", "order", "extrapolated", "solved", "off", "fine")
_LEAST = 0.01
"""Half the range of a vertical axis at least, as a share of the value."""


def save(directory: folders.AnyPath, audit: Audit) -> None:
    """Write the folder, whole or not at all: ``audit.json``, ``audit.txt`` and ``audit.png``.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier audit, or cannot be written.
    """
    tree = marker_document(
        audit.problem,
        steps=audit.steps,
        statuses=audit.statuses,
        parameters={drift.name: {key: getattr(drift, key) for key in _ENTRY} for drift in audit.drifts},
        verdict=audit.verdict,
        **study_page.told(audit.verdict, audit.assumptions, _notices(audit), audit.blocks()[1:2]),
    )
    folders.save(directory, {MARKER: tree, "audit.txt": audit.table(), "audit.png": pictures.drawn(figure, audit)})


def _notices(audit: Audit) -> list[str]:
    """Fits that did not converge."""
    ends = zip(audit.steps, audit.statuses, strict=True)
    return [f"The fit at step {h:g} s ended as {end.value}." for h, end in ends if end is not Status.CONVERGED]


def figure(audit: Audit) -> Figure:
    """A panel a parameter: estimates against the step, the extrapolated value at 0, and what noise leaves open."""
    count = len(audit.drifts)
    result, panels = pictures.panels(count, 4, (3.4, 2.6), f"Time-step audit of {audit.problem}")
    for panel, drift in zip(panels, audit.drifts, strict=False):
        _draw(panel, audit.steps, drift)
    if not count:
        pictures.apart(panels[0], "No parameter is free.")
    for panel in panels[max(count - 4, 0) : count]:
        panel.set_xlabel("step [s]", fontsize=9)
    handles = [
        pictures.entry("estimate, step fine enough", BLUE, "o"),
        pictures.entry("estimate, the step shows", RED, "o"),
        pictures.entry("standard error, of noise alone", GREY, "|", markersize=12),
        pictures.entry("extrapolated to 0", "black", "D", markerfacecolor="white"),
    ]
    pictures.legend(result, handles, 2)
    return result


def _draw(panel: Axes, steps: tuple[float, ...], drift: Drift) -> None:
    colour = BLUE if drift.fine else RED
    known = math.isfinite(drift.order)
    if known:
        way = np.linspace(0.0, steps[0], 100)
        panel.plot(
            way,
            drift.extrapolated + (drift.estimates[0] - drift.extrapolated) * (way / steps[0]) ** drift.order,
            ":",
            color=colour,
        )
    if math.isfinite(drift.std_err):
        panel.errorbar(steps[-1], drift.estimates[-1], drift.std_err, fmt="none", ecolor=GREY, capsize=4)
    panel.plot(steps, drift.estimates, "o", color=colour, markersize=5)
    panel.plot(0.0, drift.extrapolated, "D", color=colour, markersize=6, mfc="white", clip_on=False, zorder=3)
    panel.set_title(labelled(drift.name, drift.unit), fontsize=10, loc="left", parse_math=False)
    order = f"order {drift.order:g}" if known else "steady" if drift.steady else "no order seen"
    panel.set_title(order, fontsize=8, loc="right", color=GREY)
    panel.set_xlim(-0.06 * steps[0], 1.08 * steps[0])
    panel.set_xticks([0.0, *sorted(steps)], ["0", *(number(step) for step in sorted(steps))])
    panel.grid(alpha=0.3)
    panel.margins(y=0.15)
    low, high = panel.get_ylim()
    if math.isfinite(drift.estimates[-1]):  # what moves by less than two per cent looks as flat as it is
        middle, half = (low + high) / 2, max((high - low) / 2, _LEAST * abs(drift.estimates[-1]))
        panel.set_ylim(middle - half, middle + half)
    pictures.round_ticks(panel.yaxis, 4)
