"""Figures of a sweep: cost, iterations and estimates over one axis, as lines or maps over two."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from spookid.kernels.kernel import Array
from spookid.report.sweep_table import word
from spookid.report.wording import labelled, number
from spookid.studies.axes import Axis, Choice, grid
from spookid.studies.sweep_points import Point, Sweep

_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#707070"  # of Okabe and Ito: colour-blind people tell them apart
_COLOURS = (_BLUE, _RED, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_HALF_WIDTH = 1.96
"""Of a 95 % interval of the normal distribution, in standard errors."""
_MOST_LINES = len(_COLOURS)
"""A second axis with more values makes maps."""
_MOST_COLUMNS = 3
_MOST_TICKS = 8
_WIDE = 1e3
"""Ratio of the ends of a logarithmic axis from which on powers of ten are marks enough."""

Lines = Sequence[tuple[str, Sequence[Point]]]
"""Label and points of each."""


def figures(sweep: Sweep) -> list[Figure]:
    """One for every combination of the values of the third and further axes."""
    first, further = sweep.axes[:2], sweep.axes[2:]
    result = []
    for values in grid(further):
        points = [point for point in sweep.points if values.items() <= point.values.items()]
        title = f"Sweep of {sweep.problem}" + "".join(f", {name} = {word(value)}" for name, value in values.items())
        as_maps = len(first) == 2 and len(first[1].values) > _MOST_LINES
        result.append((_maps if as_maps else _curves)(sweep, first, points, title))
    return result


# --- over one axis ---


def _curves(sweep: Sweep, axes: Sequence[Axis], points: Sequence[Point], title: str) -> Figure:
    """A panel for cost or likelihood, iterations, and each parameter; a line for each value of the second axis."""
    lines: Lines = [("", points)]
    if len(axes) == 2:
        name = axes[1].name
        lines = [
            (f"{name} = {word(value)}", [p for p in points if p.values[name] == value]) for value in axes[1].values
        ]
    along = _Along(axes[0], sweep.unit(axes[0].name))
    figure, panels = _panels(2 + len(sweep.estimated), title)
    if sweep.likely:
        _likelihoods(panels[0], along, lines)
    else:
        _costs(panels[0], along, lines)
    panels[1].set_title("iterations", fontsize=10, loc="left")
    for (_, members), style in zip(lines, _styles(lines), strict=True):
        _line(panels[1], along, members, [float(p.iterations) if p.status else math.nan for p in members], style)
    for panel, (name, unit) in zip(panels[2:], sweep.estimated.items(), strict=False):
        _estimates(panel, along, lines, name, unit)
    for panel in panels[1 : 2 + len(sweep.estimated)]:
        panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y, 6)))
    for panel in panels[: 2 + len(sweep.estimated)]:
        along.prepare(panel)
        _failures(panel, along, points)
    _legend(figure, lines, points)
    return figure


class _Along:
    """Where the values of an axis stand: on a linear or logarithmic scale, or side by side if they are no numbers."""

    def __init__(self, axis: Axis, unit: str) -> None:
        self._axis = axis
        self._label = labelled(axis.name, unit)
        self.is_numeric = axis.is_numeric

    def __call__(self, points: Sequence[Point]) -> Array:
        """Positions of points, (n,)."""
        return np.array([self.position(point.values[self._axis.name]) for point in points], dtype=np.float64)

    def position(self, value: Choice) -> float:
        if self.is_numeric and isinstance(value, float):
            return value
        return float(self._axis.values.index(value))

    def prepare(self, panel: Axes) -> None:
        panel.set_xlabel(self._label, fontsize=9, parse_math=False)
        if self._axis.is_logarithmic:
            panel.set_xscale("log")
            left, right = panel.get_xlim()
            if right > _WIDE * left:  # marks between powers of ten take half of the time of drawing
                panel.xaxis.set_minor_locator(NullLocator())
        if not self.is_numeric:
            panel.set_xticks(range(len(self._axis.values)), [word(value) for value in self._axis.values])
            panel.set_xlim(-0.5, len(self._axis.values) - 0.5)
        elif len(self._axis.values) <= 4:  # few enough to name them all
            panel.set_xticks(list(self._axis.values), [word(value) for value in self._axis.values])
            panel.xaxis.set_minor_locator(NullLocator())


def _styles(lines: Lines) -> list[dict[str, Any]]:
    """One blue line, or colours and markers that tell several apart."""
    return [
        {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "markersize": 4.5}
        for i in range(len(lines))
    ]


def _likelihoods(panel: Axes, along: _Along, lines: Lines) -> None:
    panel.set_title("log-likelihood", fontsize=10, loc="left")
    for (_, members), style in zip(lines, _styles(lines), strict=True):
        _line(panel, along, members, [p.log_likelihood for p in members], style)


def _costs(panel: Axes, along: _Along, lines: Lines) -> None:
    """The total, and if there is one line only its parts."""
    panel.set_title("cost", fontsize=10, loc="left")
    for (_, members), style in zip(lines, _styles(lines), strict=True):
        _line(panel, along, members, [p.cost.total for p in members], style)
    if len(lines) == 1:
        members = lines[0][1]
        parts = [
            ("state", [p.cost.state for p in members], "--", "^"),
            ("observation", [p.cost.observation for p in members], ":", "v"),
        ]
        total = _styles(lines)[0] | {"linestyle": "-" if along.is_numeric else ""}
        entries = [Line2D([], [], **total, label="total")]
        for label, values, dash, marker in parts:
            style = {"color": _GREY, "linestyle": dash} if along.is_numeric else {"color": _GREY, "marker": marker}
            _line(panel, along, members, values, style)
            entries.append(Line2D([], [], **{"linestyle": "", **style}, label=label))
        panel.legend(handles=entries, fontsize=8, frameon=False)
    shown = [p.cost.total for _, members in lines for p in members if p.cost.total > 0]
    if shown and max(shown) > 30 * min(shown):
        panel.set_yscale("log")


def _line(panel: Axes, along: _Along, points: Sequence[Point], values: Sequence[float], style: dict[str, Any]) -> None:
    """Marks, and a line between numbers; what did not converge is hollow."""
    x, y = along(points), np.array(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    if along.is_numeric:  # nothing lies between words
        panel.plot(x[order], y[order], linewidth=1.1, **{**style, "marker": ""})
    if "marker" in style:
        sure = np.array([point.converged for point in points], dtype=bool)
        panel.plot(x[sure], y[sure], **style, linestyle="")
        panel.plot(x[~sure], y[~sure], **style, linestyle="", markerfacecolor="white")


def _estimates(panel: Axes, along: _Along, lines: Lines, name: str, unit: str) -> None:
    panel.set_title(labelled(name, unit), fontsize=10, loc="left", parse_math=False)
    for (_, members), style in zip(lines, _styles(lines), strict=True):
        known = [p.parameters.get(name) for p in members]
        _line(panel, along, members, [e.estimate if e else math.nan for e in known], style)
        errors = np.array([_HALF_WIDTH * e.std_err if e else math.nan for e in known])
        values = np.array([e.estimate if e else math.nan for e in known])
        some = np.isfinite(errors)
        x = along(members)
        panel.errorbar(x[some], values[some], errors[some], fmt="none", ecolor=style["color"], capsize=3, alpha=0.7)


def _failures(panel: Axes, along: _Along, points: Sequence[Point]) -> None:
    """A cross at the foot of the panel where there is no solution."""
    x = along([point for point in points if point.status is None])
    if len(x):
        panel.plot(x, np.full(len(x), 0.03), "x", color=_RED, transform=panel.get_xaxis_transform(), clip_on=False)


def _legend(figure: Figure, lines: Lines, points: Sequence[Point]) -> None:
    entries = [
        Line2D([], [], **style, label=label) for (label, _), style in zip(lines, _styles(lines), strict=True) if label
    ]
    entries.append(Line2D([], [], color=_GREY, marker="|", markersize=11, linestyle="", label="95 % interval"))
    if any(not point.converged and point.status for point in points):
        entries.append(
            Line2D([], [], color=_GREY, marker="o", markerfacecolor="white", linestyle="", label="not converged")
        )
    if any(point.status is None for point in points):
        entries.append(Line2D([], [], color=_RED, marker="x", linestyle="", label="failed"))
    columns = min(len(entries), max(int(figure.get_figwidth() / 1.9), 1))
    figure.legend(handles=entries, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


# --- over two axes ---


def _maps(sweep: Sweep, axes: Sequence[Axis], points: Sequence[Point], title: str) -> Figure:
    """A map of cost or likelihood, iterations, and each parameter."""
    measure: tuple[str, Callable[[Point], float]] = ("cost", lambda p: p.cost.total)
    if sweep.likely:
        measure = ("log-likelihood", lambda p: p.log_likelihood)
    pictures: list[tuple[str, Callable[[Point], float]]] = [
        measure,
        ("iterations", lambda p: float(p.iterations) if p.status else math.nan),
    ]
    for name, unit in sweep.estimated.items():
        pictures.append((labelled(name, unit), partial(_estimate, name)))
    figure, panels = _panels(len(pictures), title)
    for panel, (heading, value) in zip(panels, pictures, strict=False):
        _map(figure, panel, axes, points, heading, value)
        panel.set_xlabel(labelled(axes[0].name, sweep.unit(axes[0].name)), fontsize=9, parse_math=False)
        panel.set_ylabel(labelled(axes[1].name, sweep.unit(axes[1].name)), fontsize=9, parse_math=False)
    entries = [Line2D([], [], color=_RED, marker="x", linestyle="", label="not converged or failed")]
    if any(not point.converged for point in points):
        figure.legend(handles=entries, loc="outside lower center", frameon=False, fontsize=8)
    return figure


def _estimate(name: str, point: Point) -> float:
    estimate = point.parameters.get(name)
    return estimate.estimate if estimate else math.nan


def _map(
    figure: Figure,
    panel: Axes,
    axes: Sequence[Axis],
    points: Sequence[Point],
    heading: str,
    value: Callable[[Point], float],
) -> None:
    """The first axis to the right, the second upwards; a cell for each point, whatever its values' distances."""
    across, up = axes
    cells = np.full((len(up.values), len(across.values)), np.nan)
    for point in points:
        row, column = up.values.index(point.values[up.name]), across.values.index(point.values[across.name])
        cells[row, column] = value(point)
        if not point.converged:
            panel.plot(column, row, "x", color=_RED, markersize=5)
    known = cells[np.isfinite(cells)]
    wide = known.size > 0 and known.min() > 0 and known.max() > 30 * known.min()
    colours = colormaps["viridis"].with_extremes(bad="#e4e4e4")
    image = panel.imshow(
        cells,
        origin="lower",
        aspect="auto",
        cmap=colours,
        norm=LogNorm() if wide else Normalize(),
        interpolation="none",
    )
    bar = figure.colorbar(image, ax=panel)
    bar.ax.tick_params(labelsize=8)
    if not wide:
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y, 6)))
    panel.set_title(heading, fontsize=10, loc="left", parse_math=False)
    for one, ticks in ((across, panel.set_xticks), (up, panel.set_yticks)):
        shown = range(0, len(one.values), -(-len(one.values) // _MOST_TICKS))
        ticks(list(shown), [word(one.values[i], 4) for i in shown])
    panel.tick_params(labelsize=8)
    panel.tick_params(axis="x", rotation=45)


# --- common ---


def _panels(count: int, title: str) -> tuple[Figure, list[Axes]]:
    columns = 2 if count == 4 else min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.6 * columns, 1.2 + 2.7 * rows), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(10 * figure.get_figwidth())), fontsize=12, parse_math=False)
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for panel in panels[count:]:
        panel.set_axis_off()
    for panel in panels[:count]:
        panel.tick_params(labelsize=8)
    return figure, panels
