"""Residuals against time, rate and value of their signal: what a model lacks leaves a trace in one of them.

A sensor that is off shifts all, one that lags tilts them over the rate, dry friction makes a step where the rate
changes its sign, and a force that depends on the place bends them over the signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from spookid.data.sampling import wrap
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report import pictures, plots
from spookid.report.pictures import COLOURS, DARK, GREY
from spookid.results.motion import misfit
from spookid.results.result import Result, Trajectory
from spookid.results.wording import is_seen
from spookid.tables.numbers import HALF_WIDTH, labelled

WIDTH = 7.2
"""[in]"""
MOST_ROWS = 6
"""Signals that are drawn."""
_MOST_NAMES = 7
"""Recordings that are told apart."""
_MOST_BINS = 24
_LEAST_SAMPLES = 12
"""Of a bin."""
_SHOWN = 0.995
"""Share of the residuals that the vertical axis holds at least."""


@dataclass(frozen=True, eq=False)
class _Points:
    """One signal's residuals in one recording, those that are missing left out, (n,) each."""

    residual: Array
    along: tuple[Array, Array, Array]
    """Time since the start [s], rate of the signal, the signal."""


def figure(solution: Result) -> Figure | None:
    """A row a signal, at most the first six, with means over bins of all recordings; None if there is no residual."""
    trajectories = solution.trajectories
    signals = trajectories[0].signals[:MOST_ROWS] if trajectories else ()
    points = [[_points(t, i) for t in trajectories] for i in range(len(signals))]
    rows = [i for i, of_one in enumerate(points) if any(p.residual.size for p in of_one)]
    if not rows:
        return None
    result = Figure(figsize=(WIDTH, 0.6 + 1.9 * len(rows)), layout="constrained")
    panels = result.subplots(len(rows), 3, squeeze=False, sharey="row")
    for axes, i in zip(panels, rows, strict=True):
        unit, (size, name) = trajectories[0].units[i], _size(solution, i, points[i])
        _row(axes, points[i], size)
        axes[0].set_ylabel(f"{signals[i]}\n{labelled('residual', name)}", fontsize=9, parse_math=False)
        axes[1].set_xlabel(labelled(f"rate of {signals[i]}", _per_second(unit)), fontsize=8, parse_math=False)
        axes[2].set_xlabel(labelled(signals[i], unit), fontsize=8, parse_math=False)
    panels[-1, 0].set_xlabel("time [s]", fontsize=8)
    result.align_ylabels(panels[:, 0])
    pictures.legend(result, _legend(trajectories), 4)
    return result


def _points(trajectory: Trajectory, column: int) -> _Points:
    residual, (_, estimated) = misfit(trajectory, column), plots.continuous(trajectory, column)
    period = trajectory.periods[column]
    rate = np.gradient(estimated, trajectory.t)
    turns = period is not None and np.ptp(estimated) > period
    place = wrap(estimated, period) if turns and period is not None else estimated
    known = np.isfinite(residual) & np.isfinite(rate)
    along = (trajectory.t - trajectory.t[0], rate, place)
    return _Points(residual[known], (along[0][known], along[1][known], along[2][known]))


def _size(solution: Result, column: int, points: Sequence[_Points]) -> tuple[float, str]:
    """What one of the vertical axis is: sigma where it is known, else the signal's unit with a prefix."""
    signal, unit = solution.trajectories[0].signals[column], solution.trajectories[0].units[column]
    found = [n.std for n in solution.noise if n.kind == "sensor" and signal in n.names and is_seen(n)]
    outlined = solution.mechanism.sensors if solution.mechanism else ()
    ratio = solution.sensitivities.noise.get(signal, 1.0)  # of the noise to the sigma that was given, with weights
    declared = [ratio * s.sigma for s in outlined if s.signal == signal and math.isfinite(s.sigma)]
    known = [sigma for sigma in (*found, *declared) if 0 < sigma < math.inf]
    return (known[0], "sigma") if known else plots.scale(np.concatenate([p.residual for p in points]), unit)


def _per_second(unit: str) -> str:
    """The unit of a rate."""
    return (f"{unit}/s" if unit.isalpha() else f"({unit})/s") if unit else "1/s"


def _row(axes: Sequence[Axes], points: Sequence[_Points], size: float) -> None:
    """Residuals in light colours, one a recording, and in dark what they are on the average."""
    residual = np.concatenate([p.residual for p in points]) / size
    dot = 2.6 if len(residual) > 400 else 4.5
    reach = 1.2 * float(np.quantile(np.abs(residual), _SHOWN))
    for panel, j in zip(axes, range(3), strict=True):
        for i, p in enumerate(points):
            numbers, shown = plots.thinned(np.arange(len(p.residual), dtype=np.float64), p.residual / size)
            keep = numbers.astype(int)
            colour = COLOURS[i % len(COLOURS)]
            panel.plot(p.along[j][keep], shown, ".", color=colour, ms=dot, mew=0, alpha=0.4, rasterized=True)
        centres, means, errors = binned(np.concatenate([p.along[j] for p in points]), residual)
        panel.axhline(0.0, color=GREY, linewidth=0.8)
        half = HALF_WIDTH * errors
        panel.fill_between(centres, means - half, means + half, color=DARK, alpha=0.25, linewidth=0)
        panel.plot(centres, means, "-", color=DARK, linewidth=1.3)
        reach = max(reach, 1.2 * float(np.max(np.abs(means), initial=0.0)))
        pictures.plain(panel, 7, grid=False)
        panel.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].yaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    axes[0].set_ylim(-reach or -1.0, reach or 1.0)


def binned(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Means of y over bins with as many samples each, along x: mean of x, mean of y, and its standard error if the
    samples are independent."""
    count = int(np.clip(len(y) // _LEAST_SAMPLES, 1, _MOST_BINS))
    bins = np.array_split(np.argsort(x, kind="stable"), count)
    spread = [np.std(y[b]) / math.sqrt(len(b)) for b in bins]
    return np.array([np.mean(x[b]) for b in bins]), np.array([np.mean(y[b]) for b in bins]), np.array(spread)


def _legend(trajectories: Sequence[Trajectory]) -> list[Line2D | Patch]:
    several = trajectories if 1 < len(trajectories) <= _MOST_NAMES else ()
    dots = [pictures.entry(f" {t.name}", COLOURS[i], ".", markersize=7, alpha=0.6) for i, t in enumerate(several)]
    mean = pictures.entry("mean over a bin", DARK, linestyle="-", linewidth=1.3)
    return [*dots, mean, Patch(color=DARK, alpha=0.25, linewidth=0, label="its 95 % interval for white noise")]
