"""Figures of a sweep: cost, iterations and estimates over one axis, as lines or maps over two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from spookid.kernels.arrays import Array
from spookid.report import pictures
from spookid.report.pictures import COLOURS, GREY, PALE, RED
from spookid.studies.sweep_points import Axis, Sweep, SweepPoint, grid_points, word
from spookid.studies.variants import AxisValue
from spookid.tables.table import HALF_WIDTH, labelled, number

Value = Callable[[SweepPoint], float]
Quantity = tuple[str, Value]
"""What a panel shows: its heading, and the value at a point."""
Panels = Sequence[tuple[Axes, Quantity]]
Line = tuple[str, Sequence[SweepPoint], dict[str, Any]]
"""Label, points and style."""


def figures(sweep: Sweep) -> list[Figure]:
    """Draw one figure for each combination of values of the third and further axes."""
    first, further = sweep.axes[:2], sweep.axes[2:]
    result = []
    for values in grid_points(further):
        points = [point for point in sweep.points if values.items() <= point.values.items()]
        title = f"Sweep of {sweep.problem}" + "".join(f", {name} = {word(value)}" for name, value in values.items())
        shown = _quantities(sweep)
        figure, panels = pictures.panels(len(shown), 2 if len(shown) == 4 else 3, (3.6, 2.7), title)
        as_maps = len(first) == 2 and len(first[1].values) > len(COLOURS)
        (_maps if as_maps else _curves)(sweep, first, points, figure, list(zip(panels, shown, strict=False)))
        result.append(figure)
    return result


def _quantities(sweep: Sweep) -> list[Quantity]:
    """Cost or likelihood, iterations, and each parameter."""

    def estimate(name: str, point: SweepPoint) -> float:
        return point.parameters[name].estimate if name in point.parameters else math.nan

    measure: Quantity = ("cost", lambda p: p.cost.total)
    if sweep.likely:
        measure = ("log-likelihood", lambda p: p.log_likelihood)
    iterations: Quantity = ("iterations", lambda p: float(p.iterations) if p.status else math.nan)
    named: list[Quantity] = [(labelled(name, unit), partial(estimate, name)) for name, unit in sweep.estimated.items()]
    return [measure, iterations, *named]


# --- over one axis ---


def _curves(sweep: Sweep, axes: Sequence[Axis], points: Sequence[SweepPoint], figure: Figure, shown: Panels) -> None:
    """A line for each value of the second axis."""
    lines = _lines(axes, points)
    along = _Along(axes[0], sweep.unit(axes[0].name))
    for panel, (heading, value) in shown:
        panel.set_title(heading, fontsize=10, loc="left", parse_math=False)
        for _, members, style in lines:
            _line(panel, along, members, [value(p) for p in members], style)
    if not sweep.likely:
        _costs(shown[0][0], along, lines)
    for panel, _ in shown[1:]:
        panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y, 6)))
    for (panel, _), name in zip(shown[2:], sweep.estimated, strict=True):
        _errors(panel, along, lines, name)
    for panel, _ in shown:
        along.prepare(panel)
        x = along([point for point in points if point.status is None])
        if len(x):  # a cross at the foot of the panel where there is no solution
            panel.plot(x, np.full(len(x), 0.03), "x", color=RED, transform=panel.get_xaxis_transform(), clip_on=False)
    _legend(figure, lines, points)


def _lines(axes: Sequence[Axis], points: Sequence[SweepPoint]) -> list[Line]:
    """One blue line, or colours and markers that distinguish several."""
    groups: list[tuple[str, Sequence[SweepPoint]]] = [("", points)]
    for axis in axes[1:]:
        values = {f"{axis.name} = {word(value)}": value for value in axis.values}
        groups = [(label, [p for p in points if p.values[axis.name] == value]) for label, value in values.items()]
    looks = [{"color": c, "marker": m, "markersize": 4.5} for c, m in zip(COLOURS, "osD^vPX", strict=True)]
    return [(*group, look) for group, look in zip(groups, looks, strict=False)]


class _Along:
    """Where the values of an axis stand: on a linear or logarithmic scale, or side by side if they are no numbers."""

    def __init__(self, axis: Axis, unit: str) -> None:
        self._axis = axis
        self._label = labelled(axis.name, unit)
        self.is_numeric = axis.is_numeric

    def __call__(self, points: Sequence[SweepPoint]) -> Array:
        """Positions of points, (n,)."""
        return np.array([self.position(point.values[self._axis.name]) for point in points], dtype=np.float64)

    def position(self, value: AxisValue) -> float:
        if self.is_numeric and isinstance(value, float):
            return value
        return float(self._axis.values.index(value))

    def prepare(self, panel: Axes) -> None:
        panel.set_xlabel(self._label, fontsize=9, parse_math=False)
        if self._axis.is_logarithmic:
            panel.set_xscale("log")
            left, right = panel.get_xlim()
            if right > 1000 * left:  # marks between powers of ten take half of the time of drawing
                panel.xaxis.set_minor_locator(NullLocator())
        if not self.is_numeric:
            panel.set_xticks(range(len(self._axis.values)), [word(value) for value in self._axis.values])
            panel.set_xlim(-0.5, len(self._axis.values) - 0.5)
        elif len(self._axis.values) <= 4:  # few enough to name them all
            panel.set_xticks(list(self._axis.values), [word(value) for value in self._axis.values])
            panel.xaxis.set_minor_locator(NullLocator())


def _line(
    panel: Axes, along: _Along, points: Sequence[SweepPoint], values: Sequence[float], style: dict[str, Any]
) -> None:
    """Marks, and a line between numbers; what did not converge is hollow."""
    x, y = along(points), np.array(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    if along.is_numeric:  # nothing lies between words
        panel.plot(x[order], y[order], linewidth=1.1, **{**style, "marker": ""})
    if "marker" in style:
        sure = np.array([point.converged for point in points], dtype=bool)
        panel.plot(x[sure], y[sure], **style, linestyle="")
        panel.plot(x[~sure], y[~sure], **style, linestyle="", markerfacecolor="white")


def _costs(panel: Axes, along: _Along, lines: Sequence[Line]) -> None:
    """Parts of the total if there is one line only; a logarithmic axis if costs are far apart."""
    if len(lines) == 1:
        _, members, style = lines[0]
        handles = [pictures.entry("total", **style, linestyle="-" if along.is_numeric else "")]
        for part, dash, marker in (("state", "--", "^"), ("observation", ":", "v")):
            look = {"color": GREY, "linestyle": dash} if along.is_numeric else {"color": GREY, "marker": marker}
            _line(panel, along, members, [getattr(p.cost, part) for p in members], look)
            handles.append(pictures.entry(part, **look))
        panel.legend(handles=handles, fontsize=8, frameon=False)
    shown = [p.cost.total for _, members, _ in lines for p in members if p.cost.total > 0]
    if shown and max(shown) > 30 * min(shown):
        panel.set_yscale("log")


def _errors(panel: Axes, along: _Along, lines: Sequence[Line], name: str) -> None:
    for _, members, style in lines:
        known = [p for p in members if name in p.parameters and math.isfinite(p.parameters[name].std_err)]
        values = [p.parameters[name].estimate for p in known]
        errors = [HALF_WIDTH * p.parameters[name].std_err for p in known]
        panel.errorbar(along(known), values, errors, fmt="none", ecolor=style["color"], capsize=3, alpha=0.7)


def _legend(figure: Figure, lines: Sequence[Line], points: Sequence[SweepPoint]) -> None:
    entries = [pictures.entry(label, linestyle="-", **style) for label, _, style in lines if label]
    entries.append(pictures.entry("95 % interval", GREY, "|", markersize=11))
    if any(not point.converged and point.status for point in points):
        entries.append(pictures.entry("not converged", GREY, "o", markerfacecolor="white"))
    if any(point.status is None for point in points):
        entries.append(pictures.entry("failed", RED, "x"))
    pictures.legend(figure, entries, min(len(entries), max(int(figure.get_figwidth() / 1.9), 1)))


# --- over two axes ---


def _maps(sweep: Sweep, axes: Sequence[Axis], points: Sequence[SweepPoint], figure: Figure, shown: Panels) -> None:
    across, up = (labelled(one.name, sweep.unit(one.name)) for one in axes)
    for panel, (heading, value) in shown:
        panel.set_title(heading, fontsize=10, loc="left", parse_math=False)
        _map(figure, panel, axes, points, value)
        panel.set_xlabel(across, fontsize=9, parse_math=False)
        panel.set_ylabel(up, fontsize=9, parse_math=False)
    if any(not point.converged for point in points):
        pictures.legend(figure, [pictures.entry("not converged or failed", RED, "x")])


def _map(
    figure: Figure,
    panel: Axes,
    axes: Sequence[Axis],
    points: Sequence[SweepPoint],
    value: Callable[[SweepPoint], float],
) -> None:
    """The first axis to the right, the second upwards; a cell for each point, whatever its values' distances."""
    across, up = axes
    cells = np.full((len(up.values), len(across.values)), np.nan)
    for point in points:
        row, column = up.values.index(point.values[up.name]), across.values.index(point.values[across.name])
        cells[row, column] = value(point)
        if not point.converged:
            panel.plot(column, row, "x", color=RED, markersize=5)
    known = cells[np.isfinite(cells)]
    wide = known.size > 0 and known.min() > 0 and known.max() > 30 * known.min()
    colours = colormaps["viridis"].with_extremes(bad=PALE)
    norm = LogNorm() if wide else Normalize()
    image = panel.imshow(cells, origin="lower", aspect="auto", cmap=colours, norm=norm, interpolation="none")
    bar = figure.colorbar(image, ax=panel)
    bar.ax.tick_params(labelsize=8)
    if not wide:
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y, 6)))
    for one, ticks in ((across, panel.set_xticks), (up, panel.set_yticks)):
        shown = range(0, len(one.values), -(-len(one.values) // 8))
        ticks(list(shown), [word(one.values[i], 4) for i in shown])
    panel.tick_params(labelsize=8)
    panel.tick_params(axis="x", rotation=45)
