"""What disturbs the motion against time, with a band in which it is 95 % of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from spookid.report import pictures, plots, report_plot
from spookid.report.pictures import BLUE, GREY
from spookid.results.disturbance import Disturbance
from spookid.results.result import Result
from spookid.tables.numbers import HALF_WIDTH

WIDTH = 5.6
"""[in]"""
_MOST_ROWS, _MOST_RECORDINGS = 6, 2
"""Coordinates and recordings that are drawn."""


def pictured(solution: Result) -> list[dict[str, Any]]:
    """A picture for each of the first recordings, where a size of the disturbance was estimated, with what it leaves
    out."""
    every = [one for one in solution.disturbance if np.isfinite(one.std_err).any()]
    found = []
    for one in every[:_MOST_RECORDINGS]:
        count, more = len(one.labels), len(every) - _MOST_RECORDINGS
        words = [f"the first {_MOST_ROWS} of {count} coordinates"] if count > _MOST_ROWS else []
        words += [f"{more} more recordings are in trajectory.npz"] if more > 0 else []
        omitted = f" Shown: {'; '.join(words)}." if words else ""
        found.append({"name": one.name, "picture": report_plot.embedded(figure(one), "png"), "omitted": omitted})
    return found


def figure(one: Disturbance) -> Figure:
    """A panel for each coordinate, at most the first six."""
    labels = one.labels[:_MOST_ROWS]
    result = Figure(figsize=(WIDTH, 0.8 + 1.5 * len(labels)), layout="constrained")
    panels = result.subplots(len(labels), 1, squeeze=False, sharex=True)[:, 0]
    for i, (panel, label) in enumerate(zip(panels, labels, strict=True)):
        _panel(panel, one, i)
        panel.set_title(label, fontsize=10, loc="left", parse_math=False)
    panels[-1].set_xlabel("time [s]", fontsize=9)
    result.align_ylabels(panels)
    band = Patch(color=BLUE, alpha=0.25, linewidth=0, label=f"± {HALF_WIDTH:.2f} standard errors")
    pictures.legend(result, [pictures.entry("mean over a step", BLUE, linestyle="-", linewidth=1.0), band])
    return result


def _panel(panel: Axes, one: Disturbance, column: int) -> None:
    value, half = one.value[:, column], HALF_WIDTH * one.std_err[:, column]
    factor, unit = plots.scale(np.concatenate([value - half, value + half]), one.units[column])
    upper, lower = (plots.thinned(one.t, (value + sign * half) / factor) for sign in (1, -1))
    panel.axhline(0.0, color=GREY, linewidth=0.8)
    outline = np.concatenate([upper[0], lower[0][::-1]]), np.concatenate([upper[1], lower[1][::-1]])
    panel.fill(*outline, color=BLUE, alpha=0.25, linewidth=0)
    panel.plot(*plots.thinned(one.t, value / factor), "-", color=BLUE, linewidth=0.8)
    panel.set_ylabel(f"[{unit}]", fontsize=9, parse_math=False)
    panel.yaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    pictures.plain(panel, 8)
