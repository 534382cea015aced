"""A figure of what each stretch of the recordings does to the estimates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from spookid.kernels.arrays import Array
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
    """How many standard errors each estimate would move without each stretch: a row a parameter, a panel a recording.

    Parameters without a standard error are left out, and recordings after the first four; of many parameters those
    that move most are shown. All rows have one scale, and the largest change of each stands beside it.
    """
    from matplotlib.figure import Figure

    from spookid.report.layout import GridLayout

    knowledge, influence = solution.sensitivities, solution.influence
    errors = knowledge.standard_errors
    known = [i for i, error in enumerate(errors) if math.isfinite(error) and error > 0]
    stretches = influence.stretches[:_MOST_COLUMNS] if any(map(len, influence.stretches)) else ()
    columns = len(stretches)
    moved = [max((_largest(s[:, i]) for s in stretches), default=0.0) / errors[i] for i in known]
    shown = [known[k] for k in pictures.foremost(moved)]
    picture = Figure(figsize=(3.5 + 4.0 * max(columns, 1), 1.6 + 0.7 * max(len(shown), 1)))
    picture.set_layout_engine(GridLayout(0.08, 0.05))
    title = f"{solution.problem}: change of each estimate, in standard errors, if the samples of a stretch were missing"
    if len(shown) < len(known):
        title += f" (the {len(shown)} of {len(known)} that change most)"
    pictures.title(picture, title, 11)
    panels = picture.subplots(1, max(columns, 1), squeeze=False, sharey=True)[0]
    if not (shown and columns):
        panels[0].set_axis_off()
        why = "A joint fit leaves out no stretches" if shown else "No parameter has a standard error"
        pictures.apart(panels[0], f"{why}.")
        return picture
    scale = 2.1 * max(*moved, 0.1)
    for panel, edges, changes, trajectory in zip(
        panels, influence.edges, stretches, solution.trajectories, strict=False
    ):
        _rows(panel, edges, changes[:, shown] / errors[shown], scale)
        panel.set_title(trajectory.name, fontsize=10, loc="left", parse_math=False)
        panel.set_xlabel("time [s]")
    panels[0].set_yticks(-np.arange(len(shown)), [knowledge.names[i] for i in shown], parse_math=False)
    panels[0].set_ylim(0.5 - len(shown), 0.5)
    return picture


def _rows(axes: Axes, edges: Array, changes: Array, scale: float) -> None:
    """One row a parameter, one apart and ``scale`` standard errors high, and one bar a stretch, red if large; a stretch
    on which all hangs is shaded.

    Args:
        changes: (stretches, rows).
    """
    from matplotlib.collections import PolyCollection

    rows = changes.shape[1]
    known = np.isfinite(changes)
    half = np.where(known, 0.0, 0.45)
    low, high = np.where(known, [[0.0]], -half), np.where(known, changes / scale, half)
    left, right = (np.broadcast_to(one[:, None], changes.shape) for one in (edges[:-1], edges[1:]))
    middle = -np.arange(rows)
    corners = [(left, low), (left, high), (right, high), (right, low)]
    bars = np.stack([np.stack([x, middle + y], axis=2) for x, y in corners], axis=2).reshape(-1, 4, 2)
    colours = np.where(known, np.where(np.abs(changes) > _MUCH, RED, BLUE), PALE).ravel().tolist()
    axes.add_collection(PolyCollection(list(bars), facecolors=colours, edgecolors="white", linewidths=0.6))
    axes.hlines(middle, edges[0], edges[-1], color=GREY, linewidth=0.8)
    pictures.plain(axes)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0, labelsize=10)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(edges[0], edges[-1])
    for row, change in enumerate(changes.T):
        axes.annotate(
            number(_largest(change), 2),
            (1.0, middle[row]),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=GREY,
        )


def _largest(values: Array, least: float = 0.0) -> float:
    """Largest magnitude of those that are known."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=least))
