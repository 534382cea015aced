"""Figures of the report: narrow, so that they can be read on a phone, and without what the page says in words."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spookid.kernels.arrays import Array
from spookid.report import pictures, plots, skeleton
from spookid.report.pictures import BLUE, GREY
from spookid.report.skeleton import FULL, PALE
from spookid.report.views import oblique
from spookid.results.motion import misfit
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.results.values import Mechanism
from spookid.tables.table import HALF_WIDTH

WIDTH = 5.6
"""Of every figure [in]; a phone shows it at two thirds of its size."""

_DPI = 180
_MOST_LAGS = 40
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


# --- residuals ---


def residuals(trajectories: Sequence[Trajectory]) -> Figure:
    """Each signal's residuals: their distribution beside a normal one, and their correlation with later ones."""
    signals = trajectories[0].signals
    figure = Figure(figsize=(WIDTH, 0.2 + 2.2 * len(signals)), layout="constrained")
    panels = figure.subplots(len(signals), 2, squeeze=False)
    for i, signal in enumerate(signals):
        several = [misfit(trajectory, i) for trajectory in trajectories]
        _histogram(panels[i, 0], np.concatenate(several))
        _correlogram(panels[i, 1], several)
        panels[i, 0].set_title(signal, fontsize=10, loc="left", parse_math=False)
        for panel in panels[i]:
            pictures.plain(panel, 8, grid=False)
    panels[-1, 0].set_xlabel("residual / its rms", fontsize=9)
    panels[-1, 1].set_xlabel("lag [steps]", fontsize=9)
    return figure


def _histogram(panel: Axes, values: Array) -> None:
    known = values[np.isfinite(values)]
    size = float(np.sqrt(np.mean(known**2))) if known.size else 0.0
    if not size > 0:
        pictures.apart(panel, "no residuals")
        return
    scaled = known / size
    reach = float(np.clip(np.max(np.abs(scaled)), 3.0, 6.0))
    panel.hist(np.clip(scaled, -reach, reach), bins=31, range=(-reach, reach), density=True, color=BLUE, alpha=0.6)
    x = np.linspace(-reach, reach, 200)
    panel.plot(x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), color="black", linewidth=1.0)
    panel.set_yticks([])


def _correlogram(panel: Axes, several: Sequence[Array]) -> None:
    """Autocorrelation over all recordings, and the band in which white noise stays 95 % of the time."""
    most = min(_MOST_LAGS, max(min(len(values) for values in several) - 2, 1))
    lags = np.arange(1, most + 1)
    values = [correlation(several, int(lag)) for lag in lags]
    count = sum(np.count_nonzero(np.isfinite(values)) for values in several)
    if count:
        half = HALF_WIDTH / np.sqrt(count)
        panel.axhspan(-half, half, color=GREY, alpha=0.25, linewidth=0)
    panel.vlines(lags, 0.0, values, color=BLUE, linewidth=1.4)
    panel.axhline(0.0, color=GREY, linewidth=0.8)
    panel.set_ylim(-1.05, 1.05)


def correlation(several: Sequence[Array], lag: int) -> float:
    """Autocorrelation of series at a lag, missing samples left out; NaN if there is nothing to correlate."""
    pairs = [values[lag:] * values[:-lag] for values in several if len(values) > lag]
    products = np.concatenate([np.zeros(0), *(p[np.isfinite(p)] for p in pairs)])
    squares = np.concatenate([values[np.isfinite(values)] ** 2 for values in several])
    if not products.size or not np.any(squares):
        return float("nan")
    return float(np.mean(products) / np.mean(squares))


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
