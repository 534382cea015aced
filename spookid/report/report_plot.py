"""Figures of the report: narrow, so that they can be read on a phone, and without what the page says in words."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spookid.report import pictures, plots, skeleton
from spookid.report.skeleton import FULL, PALE
from spookid.report.views import oblique
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.results.values import Mechanism

WIDTH = 5.6
"""Of every figure [in]; a phone shows it at two thirds of its size."""

_DPI = 180
_GHOSTS = 12
"""Earlier and later positions of a mechanism that are drawn pale."""


def embedded(figure: Figure, kind: str = "svg") -> str:
    """The figure as an address that holds all of it; "png" for many points."""
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    return f"data:{mime};base64,{base64.b64encode(pictures.encoded(figure, kind, _DPI)).decode('ascii')}"


def fit(solution: Solution, trajectory: Trajectory) -> Figure:
    """Measured and estimated signals of one recording, with residuals."""
    figure = plots.fit(solution.changed(trajectories=(trajectory,)))
    return _narrowed(figure, 0.6 + 2.4 * max(len(trajectory.signals), 1))


def convergence(solution: Solution) -> Figure:
    """Cost, parameters and damping against the iteration."""
    return _narrowed(plots.convergence(solution), 6.6)


def _narrowed(figure: Figure, height: float) -> Figure:
    figure.set_size_inches(WIDTH, height)
    figure.suptitle("")
    for legend in figure.legends:
        legend.remove()
    for panel in figure.axes:
        panel.set_title("", loc="left")
    return figure


def over_time(titles: Sequence[str], above: float, each: float) -> tuple[Figure, list[Axes]]:
    """Panels below one another with their titles."""
    figure = Figure(figsize=(WIDTH, above + each * len(titles)), layout="constrained")
    panels = list(figure.subplots(len(titles), 1, squeeze=False, sharex=True)[:, 0])
    for panel, text in zip(panels, titles, strict=True):
        panel.set_title(text, fontsize=9, loc="left", parse_math=False)
        pictures.plain(panel, 8)
    panels[-1].set_xlabel("time [s]", fontsize=9)
    return figure, panels


# --- the mechanism ---


def mechanism(parts: Mechanism, trajectory: Trajectory) -> Figure:
    """Bodies as lines from their centres of mass to their hinges, seen from the side and a little from above."""
    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    panel, view = figure.subplots(), oblique(parts)
    states = np.flatnonzero(np.isfinite(trajectory.q).all(axis=(1, 2)))
    moments = states[np.unique(np.linspace(0, len(states) - 1, _GHOSTS + 1).astype(int))] if len(states) else []
    for k in reversed(moments):
        skeleton.draw(panel, parts, trajectory.q[k], view, PALE if k != moments[0] else FULL)
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.margins(0.12)
    skeleton.scale(panel)
    return figure
