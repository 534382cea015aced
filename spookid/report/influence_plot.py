"""A figure of what each stretch of the recordings does to the estimates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from spookid.kernels.kernel import Array
from spookid.report import pictures
from spookid.report.pictures import BLUE, GREY, PALE, RED
from spookid.results.result import Result
from spookid.tables.numbers import number

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 4
_MUCH = 1.0
"""Changes of more standard errors than this are drawn in red."""


def figure(solution: Result) -> Figure:
    """How many standard errors each estimate would move without each stretch: a row a parameter, a column a recording.

    Parameters without a standard error are left out, and recordings after the first four; of many parameters those
    that move most are shown.
    """
    from matplotlib.figure import Figure

    from spookid.report.layout import GridLayout

    knowledge, influence = solution.sensitivities, solution.influence
    errors = knowledge.standard_errors
    known = [i for i, error in enumerate(errors) if math.isfinite(error) and error > 0]
    columns = min(len(influence.edges), _MOST_COLUMNS)
    stretches = influence.stretches[:columns]
    moved = [max((_largest(s[:, i]) for s in stretches), default=0.0) / errors[i] for i in known]
    shown = [known[k] for k in pictures.foremost(moved)]
    picture = Figure(figsize=(3.5 + 4.0 * max(columns, 1), 1.6 + 1.05 * max(len(shown), 1)))
    picture.set_layout_engine(GridLayout(0.08, 0.05))
    title = f"{solution.problem}: change of each estimate, in standard errors, if the samples of a stretch were missing"
    if len(shown) < len(known):
        title += f" (the {len(shown)} of {len(known)} that change most)"
    pictures.title(picture, title, 11)
    grid = picture.subplots(max(len(shown), 1), max(columns, 1), squeeze=False, sharex="col", sharey="row")
    if not shown:
        grid[0, 0].set_axis_off()
        pictures.apart(grid[0, 0], "No parameter has a standard error.")
        return picture
    for axes, i in zip(grid, shown, strict=True):
        changes = [s[:, i] / errors[i] for s in stretches]
        reach = 1.1 * max(_largest(c, 0.1) for c in changes)
        for panel, edges, change in zip(axes, influence.edges, changes, strict=False):
            _bars(panel, edges, change, reach)
    for j in range(columns):
        grid[0, j].set_title(solution.trajectories[j].name, fontsize=10, loc="left", parse_math=False)
        grid[-1, j].set_xlabel("time [s]")
    for axes, i in zip(grid[:, 0], shown, strict=True):
        axes.set_ylabel(knowledge.names[i], rotation=0, ha="right", va="center", parse_math=False)
    return picture


def _bars(axes: Axes, edges: Array, changes: Array, reach: float) -> None:
    """One bar a stretch, red if large; a stretch on which all hangs is shaded. The axis shows ``reach`` both ways."""
    colours = [RED if abs(change) > _MUCH else BLUE for change in changes]
    known = np.where(np.isfinite(changes), changes, 0.0)
    axes.bar(edges[:-1], known, np.diff(edges), align="edge", color=colours, edgecolor="white", linewidth=0.6)
    for k in np.flatnonzero(~np.isfinite(changes)):
        axes.axvspan(edges[k], edges[k + 1], color=PALE)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    pictures.plain(axes)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(-reach, reach)
    axes.set_yticks([-_nice(reach), 0, _nice(reach)])
    axes.yaxis.set_major_formatter(lambda value, _: number(value, 2))


def _largest(values: Array, least: float = 0.0) -> float:
    """Largest magnitude of those that are known."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=least))


def _nice(value: float) -> float:
    """Half of it or more, with one digit."""
    exponent = math.floor(math.log10(0.8 * value))
    return math.floor(0.8 * value / 10.0**exponent) * 10.0**exponent
