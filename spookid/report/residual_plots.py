"""Residuals against time, rate and value of their signal, and their autocorrelation, as figures of the report.

A sensor that is off shifts all, one that lags tilts them over the rate, dry friction makes a step where the rate
changes its sign, and a force that depends on the place bends them over the signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid.data.sampling import wrap
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report import plots
from spookid.report.interactive import Panel, band, curve, figure
from spookid.report.pictures import BLUE, COLOURS, DARK, GREY, MOST_PANELS
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, misfit
from spookid.results.wording import is_seen
from spookid.tables.table import HALF_WIDTH, labelled


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
