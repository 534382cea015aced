"""Figures of the report that a reader can zoom and point at, as trees that Plotly's JavaScript draws.

Nothing of Plotly is needed to make them. A page holds its JavaScript, or loads it from the network.

Residuals are shown against time, rate and value of their signal, with their autocorrelation. A sensor that is off
shifts all, one that lags tilts them over the rate, dry friction makes a step where the rate changes its sign, and a
force that depends on the place bends them over the signal.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spookid.data.sampling import wrap
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report import plots
from spookid.report.pictures import BLACK, BLUE, COLOURS, DARK, GREEN, GREY, MOST_PANELS, ORANGE, RED
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, misfit
from spookid.results.values import Disturbance
from spookid.results.wording import is_seen
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


@dataclass(frozen=True, eq=False)
class _Points:
    """One signal's residuals in one recording, those that are missing left out, (n,) each."""

    recording: str
    residual: Array
    along: tuple[Array, ...]
    """Time since the start [s], rate of the signal, the signal."""


def residuals(solution: Solution) -> list[Tree]:
    """Four figures for each of the first signals with residuals, with means over bins of all recordings."""
    trajectories, found = solution.trajectories, list[Tree]()
    signals = trajectories[0].signals[:MOST_PANELS] if trajectories else ()
    for i, signal in enumerate(signals):
        points = [_points(t, i) for t in trajectories]
        if not any(p.residual.size for p in points):
            continue
        unit, (size, name) = trajectories[0].units[i], _size(solution, i, points)
        per_second = (f"{unit}/s" if unit.isalpha() else f"({unit})/s") if unit else "1/s"
        along = "time [s]", labelled(f"rate of {signal}", per_second), labelled(signal, unit)
        up = labelled(f"residual of {signal}", name)
        found += [_against(points, j, size, up, words) for j, words in enumerate(along)]
        found.append(_correlogram([misfit(t, i) for t in trajectories], signal))
    return found


def _points(trajectory: Trajectory, column: int) -> _Points:
    residual, (_, estimated) = misfit(trajectory, column), plots.continuous(trajectory, column)
    period = trajectory.periods[column]
    rate = np.gradient(estimated, trajectory.t)
    turns = period is not None and np.ptp(estimated) > period
    place = wrap(estimated, period) if turns and period is not None else estimated
    known = np.isfinite(residual) & np.isfinite(rate)
    along = tuple(one[known] for one in (trajectory.t - trajectory.t[0], rate, place))
    return _Points(trajectory.name, residual[known], along)


def _size(solution: Solution, column: int, points: Sequence[_Points]) -> tuple[float, str]:
    """What one of the vertical axis is: sigma where it is known, else the signal's unit with a prefix."""
    signal, unit = solution.trajectories[0].signals[column], solution.trajectories[0].units[column]
    found = [n.std for n in solution.noise if n.kind == "sensor" and signal in n.names and is_seen(n)]
    outlined = solution.mechanism.sensors if solution.mechanism else ()
    ratio = solution.sensitivities.noise.get(signal, 1.0)  # of the noise to the sigma that was given, with weights
    declared = [ratio * s.sigma for s in outlined if s.signal == signal and math.isfinite(s.sigma)]
    known = [sigma for sigma in (*found, *declared) if 0 < sigma < math.inf]
    return (known[0], "sigma") if known else plots.scale(np.concatenate([p.residual for p in points]), unit)


def _against(points: Sequence[_Points], j: int, size: float, up: str, along: str) -> Tree:
    """Residuals in light colours, one a recording, and in dark what they are on the average."""
    dots, residual = list[Tree](), np.concatenate([p.residual for p in points]) / size
    for i, p in enumerate(points):
        numbers, shown = plots.thinned(np.arange(len(p.residual), dtype=np.float64), p.residual / size)
        place, colour = p.along[j][numbers.astype(int)], COLOURS[i % len(COLOURS)]
        dots.append(curve(place, shown, p.recording, colour, mode="markers", opacity=0.4))
    centres, means, errors = binned(np.concatenate([p.along[j] for p in points]), residual)
    half, name = HALF_WIDTH * errors, "mean over a bin"
    lines = [band(centres, means - half, means + half, name, DARK), curve(centres, means, name, DARK)]
    reach = 1.2 * float(np.quantile(np.abs(residual), 0.995))  # an outlier would press all others together
    reach = max(reach, 1.2 * float(np.max(np.abs(means), initial=0.0))) or 1.0
    panel = Panel([*dots, *lines], up, along, 240, {"range": [-reach, reach]})
    return figure([panel], f"{up} against {along}", legend=False)


def _correlogram(several: Sequence[Array], signal: str) -> Tree:
    """Autocorrelation over all recordings, and the band in which white noise stays 95 % of the time."""
    most = min(40, max(min(len(values) for values in several) - 2, 1))
    lags = np.arange(1, most + 1, dtype=np.float64)
    values = np.array([correlation(several, int(lag)) for lag in lags])
    count = sum(np.count_nonzero(np.isfinite(values)) for values in several)
    half = np.full(most, HALF_WIDTH / math.sqrt(max(count, 1)))
    bars = curve(lags, values, "autocorrelation", BLUE, type="bar", width=0.3)
    found = [band(lags, -half, half, "white noise", GREY), bars]
    panel = Panel(found, f"autocorrelation of {signal}", "lag [steps]", 240, {"range": [-1.05, 1.05]})
    return figure([panel], f"Autocorrelation of the residuals of {signal}", legend=False)


def correlation(several: Sequence[Array], lag: int) -> float:
    """Autocorrelation of series at a lag, without missing samples; NaN if no pair of samples exists."""
    pairs = [values[lag:] * values[:-lag] for values in several if len(values) > lag]
    products = np.concatenate([np.zeros(0), *(p[np.isfinite(p)] for p in pairs)])
    squares = np.concatenate([values[np.isfinite(values)] ** 2 for values in several])
    if not products.size or not np.any(squares):
        return float("nan")
    return float(np.mean(products) / np.mean(squares))


def binned(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Means of y over bins along x with equal numbers of samples: mean of x, mean of y, and its standard error for
    independent samples."""
    count = max(int(np.log2(max(len(y), 1))) + 1, 1)  # Sturges' rule
    bins = np.array_split(np.argsort(x, kind="stable"), count)
    spread = [np.std(y[b]) / math.sqrt(len(b)) for b in bins]
    return np.array([np.mean(x[b]) for b in bins]), np.array([np.mean(y[b]) for b in bins]), np.array(spread)
