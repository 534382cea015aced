"""Figures of the report that a reader can zoom and point at, as trees that Plotly's JavaScript draws.

Nothing of Plotly is needed to make them. A page holds its JavaScript, or loads it from the network.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report import plots
from spookid.report.pictures import BLACK, BLUE, COLOURS, GREEN, GREY, ORANGE, RED
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, misfit
from spookid.results.values import Disturbance
from spookid.tables.table import HALF_WIDTH, labelled

VERSION, _HASH = "4.1.1", "sha256-O24V1F27f8pb0glCkelh3cVHLNiHAJ5gCaVtq2aNch8="
"""Of the JavaScript that a page loads from the network."""
_AIR = 90
"""Above all panels for the legend, and below them for the axis of time [px]."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Panel with several curves, as traces of Plotly."""

    curves: Sequence[Tree]
    up: str
    """Label of the vertical axis."""
    along: str = "time [s]"
    """Label of the horizontal one, which only the lowest panel shows."""
    height: int = 180
    """[px]."""
    axis: Mapping[str, Any] | None = None
    """More of the vertical axis."""


def library(link: bool) -> Tree:
    """JavaScript of Plotly for a page; if it is not installed, or linked, its address."""
    if link or not installed():
        return {"address": f"https://cdn.plot.ly/plotly-{VERSION}.min.js", "integrity": _HASH}
    return {"code": files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")}


def installed() -> bool:
    """True if Plotly is installed, so that a page can contain it."""
    return find_spec("plotly") is not None


def typed(values: ArrayLike) -> Tree:
    """Numbers in the format that Plotly reads fastest; NaN is a gap."""
    content = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return {"dtype": "f4", "bdata": base64.b64encode(content).decode("ascii")}


def worded(text: str) -> str:
    """Text without the HTML that Plotly would interpret."""
    return html.escape(text, quote=False)


def curve(x: ArrayLike, y: ArrayLike, name: str, colour: str, **style: Any) -> Tree:
    """Line, or dots with ``mode="markers"``; points are thinned if there are too many to draw."""
    when, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    mode, missing = style.setdefault("mode", "lines"), ~np.isfinite(values)
    keep = plots.thinned(np.arange(len(values), dtype=np.float64), values)[0].astype(np.int64)
    if mode != "markers":  # the first missing point of each gap makes it
        keep = np.sort(np.concatenate([keep, np.flatnonzero(missing[1:] & ~missing[:-1]) + 1]))
    look = {"marker": {"color": colour, "size": 4}, "line": {"color": colour, "width": 1.3}}
    points = {"x": typed(when[keep]), "y": typed(np.where(missing, np.nan, values)[keep])}
    return {"type": "scatter", "name": worded(name), "legendgroup": name, **points, **look, **style}


def band(x: Array, low: Array, high: Array, name: str, colour: str, **style: Any) -> Tree:
    """The area between two curves."""
    (upper_x, upper), (lower_x, lower) = plots.thinned(x, high), plots.thinned(x, low)
    outline = np.concatenate([upper_x, lower_x[::-1]]), np.concatenate([upper, lower[::-1]])
    look = {"fill": "toself", "fillcolor": f"{colour}40", "line": {"width": 0}, "hoverinfo": "skip", "mode": "lines"}
    points = {"x": typed(outline[0]), "y": typed(outline[1])}
    return {"type": "scatter", "name": worded(name), "legendgroup": name, **points, **look, **style}


def figure(panels: Sequence[Panel], alt: str, caption: str = "", legend: bool = True) -> Tree:
    """Figure of panels with a common horizontal axis, as a block of the page."""
    height = sum(panel.height for panel in panels) + (2 * _AIR if legend else _AIR)
    room = float(height - (2 * _AIR if legend else _AIR))
    layout: Tree = {"showlegend": legend, "margin": {"t": _AIR if legend else 20, "b": 60 if legend else 50}}
    traces, top, named = list[Tree](), 1.0, set[str]()
    for i, panel in enumerate(panels):
        number = str(i + 1) if i else ""
        for one in panel.curves:
            group = one["legendgroup"]
            shown = {"showlegend": one.get("showlegend", True) and group not in named}
            traces.append({**one, **shown, "xaxis": f"x{number}", "yaxis": f"y{number}"})
            named.add(group)
        bottom, last = top - panel.height / room, i == len(panels) - 1
        across = {"title": {"text": worded(panel.along)}} if last else {"matches": f"x{len(panels)}"}
        layout[f"xaxis{number}"] = {"anchor": f"y{number}", "showticklabels": last, **across}
        domain = [max(bottom + 12 / room, 0.0) if not last else 0.0, top]
        up = {"title": {"text": worded(panel.up)}, "domain": domain, "anchor": f"x{number}"}
        layout[f"yaxis{number}"] = {**up, **(panel.axis or {})}
        top = bottom
    return {"figure": {"data": traces, "layout": layout}, "height": height, "alt": alt, "caption": caption}


def fit(trajectory: Trajectory) -> Tree:
    """Measured and estimated signals of a recording, each above its residual."""
    panels = []
    for i, (signal, unit) in enumerate(zip(trajectory.signals, trajectory.units, strict=True)):
        residual, (measured, estimated) = misfit(trajectory, i), plots.continuous(trajectory, i)
        factor, scaled = plots.scale(residual, unit)
        curves = [
            curve(trajectory.t, measured, "measured", ORANGE, mode="markers"),
            curve(trajectory.t, estimated, "estimated", BLUE),
        ]
        below = curve(trajectory.t, residual / factor, "residual", GREY, mode="markers")
        panels.append(Panel(curves, labelled(signal, unit)))
        panels.append(Panel([below], labelled("residual", scaled), height=90, axis={"nticks": 4}))
    return figure(panels, f"Measured and estimated signals of {trajectory.name}")


def compared(names: Sequence[str], t: Array, lines: Mapping[str, tuple[Array, str]], alt: str) -> Tree:
    """Several kinds of signals (N, n), each in one colour, with a panel for each column, about the measured signal.

    Args:
        names: of the columns, with their units.
    """
    panels = []
    for i, name in enumerate(names):
        wide = {"measured": {"line": {"color": lines["measured"][1], "width": 3}}}
        curves = [curve(t, v[:, i], kind, colour, **wide.get(kind, {})) for kind, (v, colour) in lines.items()]
        known = lines["measured"][0][:, i]
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        margin = 0.4 * (high - low) or 1.0
        panels.append(Panel(curves, name, axis={"range": [low - margin, high + margin]}))
    return figure(panels, alt, f"{alt}. Lines that leave the panel are off by more.")


def disturbance(one: Disturbance, most: int) -> Tree:
    """Process noise of each of the first coordinates with 95 % intervals, one panel each."""
    panels = []
    for i, label in enumerate(one.labels[:most]):
        half = HALF_WIDTH * one.std_err[:, i]
        low, high = one.value[:, i] - half, one.value[:, i] + half
        factor, unit = plots.scale(np.concatenate([low, high]), one.units[i])
        interval = band(one.t, low / factor, high / factor, f"± {HALF_WIDTH:.2f} standard errors", BLUE)
        mean = curve(one.t, one.value[:, i] / factor, "mean over a step", BLUE)
        panels.append(Panel([interval, mean], labelled(label, unit)))
    return figure(panels, f"Process noise, {one.name}")


def convergence(solution: Solution) -> Tree:
    """Cost, distance of each parameter from its final value, and damping for each iteration."""
    steps = solution.history
    k = np.array([step.iteration for step in steps], dtype=np.float64)
    costs = {"total": BLACK, "state": BLUE, "observation": RED, "prior": GREEN}
    every = {name: np.array([getattr(step.cost, name) for step in steps]) for name in costs}
    ways = {n: np.array([step.parameters[n] for step in steps]) for n in (steps[-1].parameters if steps else ())}
    with np.errstate(invalid="ignore"):
        ways = {n: np.abs(values - values[-1]) / (np.max(np.abs(values)) or 1.0) for n, values in ways.items()}
    look: dict[str, Any] = {"mode": "lines+markers"}
    rows = [
        [_positive(k, every[name], name, colour, **look) for name, colour in costs.items() if np.any(every[name])],
        [_positive(k, d, n, COLOURS[i % len(COLOURS)], **look) for i, (n, d) in enumerate(ways.items())],
        [_positive(k, np.array([step.damping for step in steps]), "damping", GREY, **look)],
    ]
    words = "cost", "distance of parameters", "damping"
    logarithmic = {"type": "log", "exponentformat": "power", "nticks": 5}
    heights = 180, 260, 100
    panels = [
        Panel([{**c, "showlegend": False} for c in curves], up, "iteration", height, logarithmic)
        for curves, up, height in zip(rows, words, heights, strict=True)
    ]
    return figure(panels, "Cost, parameters and damping against the iteration", legend=False)


def _positive(x: Array, y: Array, name: str, colour: str, **style: Any) -> Tree:
    """A curve for a logarithmic axis."""
    with np.errstate(invalid="ignore"):
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan)
    return curve(x, y, name, colour, **style)
