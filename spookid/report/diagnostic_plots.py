"""Figures that tell what a model lacks: process noise against time, influence of blocks of the recordings on the
estimates, and residuals against time, rate and value of their signal.

A sensor that is off shifts all, one that lags tilts them over the rate, dry friction makes a step where the rate
changes its sign, and a force that depends on the place bends them over the signal.

The waterfall plot of where several starts ended: their costs in order.
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
from spookid.report.conclusion import starts_sentence
from spookid.report.pictures import BLUE, COLOURS, DARK, GREY, PALE
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory, misfit
from spookid.results.values import Disturbance
from spookid.results.wording import is_seen
from spookid.tables.table import HALF_WIDTH, labelled

MOST_ROWS, _MOST_COLUMNS = 6, 4
"""Signals or coordinates that are drawn below one another, and recordings beside one another."""


def pictured(solution: Solution) -> list[tuple[str, str, str]]:
    """Picture, title and caption for each of the first recordings where the process noise was estimated."""
    every = [one for one in solution.disturbance if np.isfinite(one.std_err).any()]
    found = []
    for one in every[:2]:
        count, more = len(one.labels), len(every) - 2
        words = [f"the first {MOST_ROWS} of {count} coordinates"] if count > MOST_ROWS else []
        words += [f"{more} more recordings are in trajectory.npz"] if more > 0 else []
        caption = (
            f"Estimated process noise of {one.name}: unmodelled force or torque along each coordinate, averaged over a "
            "step, with its 95 % interval. If it repeats with the motion, a load is missing in the model."
        )
        caption += f" Shown: {'; '.join(words)}." if words else ""
        found.append((pictures.embedded(disturbance_figure(one)), f"Process noise, {one.name}", caption))
    return found


def disturbance_figure(one: Disturbance) -> Figure:
    """A panel for each coordinate, at most the first six."""
    result, panels = pictures.over_time(one.labels[:MOST_ROWS], 0.8, 1.5)
    for i, panel in enumerate(panels):
        _panel(panel, one, i)
    result.align_ylabels(panels)
    band = Patch(color=BLUE, alpha=0.25, linewidth=0, label=f"± {HALF_WIDTH:.2f} standard errors")
    pictures.legend(result, [pictures.entry("mean over a step", BLUE, linestyle="-", linewidth=1.0), band])
    return result


def _panel(panel: Axes, one: Disturbance, column: int) -> None:
    value, half = one.value[:, column], HALF_WIDTH * one.std_err[:, column]
    factor, unit = plots.scale(np.concatenate([value - half, value + half]), one.units[column])
    upper, lower = (plots.thinned(one.t, (value + sign * half) / factor) for sign in (1, -1))
    panel.axhline(0.0, color=GREY, linewidth=0.8)
    outline = np.concatenate([upper[0], lower[0][::-1]]), np.concatenate([upper[1], lower[1][::-1]])
    panel.fill(*outline, color=BLUE, alpha=0.25, linewidth=0)
    panel.plot(*plots.thinned(one.t, value / factor), "-", color=BLUE, linewidth=0.8)
    panel.set_ylabel(f"[{unit}]", fontsize=9, parse_math=False)
    panel.yaxis.set_major_locator(MaxNLocator(4, symmetric=True))


def influence_figure(solution: Solution) -> Figure:
    """How many standard errors each estimate would move without each block of the recordings, as colours: a row a
    parameter, those that move most, and a panel each of the first recordings."""
    knowledge, influence = solution.sensitivities, solution.influence
    errors = knowledge.standard_errors
    known = [i for i, error in enumerate(errors) if math.isfinite(error) and error > 0]
    blocks = influence.stretches[:_MOST_COLUMNS] if any(map(len, influence.stretches)) else ()
    moved = [max((_largest(s[:, i]) for s in blocks), default=0.0) / errors[i] for i in known]
    shown = [known[k] for k in pictures.foremost(moved)]
    size = 3.5 + 4.0 * max(len(blocks), 1), 1.6 + 0.45 * max(len(shown), 1)
    picture = Figure(figsize=size, layout="constrained")
    more = f" (the {len(shown)} of {len(known)} that change most)" if len(shown) < len(known) else ""
    pictures.title(picture, f"{solution.problem}: change of each estimate without a block of the samples{more}", 11)
    panels = picture.subplots(1, max(len(blocks), 1), squeeze=False, sharey=True)[0]
    if not (shown and blocks):
        panels[0].set_axis_off()
        why = "A joint fit leaves out no blocks" if shown else "No parameter has a standard error"
        pictures.apart(panels[0], f"{why}.")
        return picture
    most, rows = max(*moved, 0.1), np.arange(len(shown) + 1) - 0.5
    for panel, edges, changes, trajectory in zip(panels, influence.edges, blocks, solution.trajectories, strict=False):
        shares = np.ma.masked_invalid((changes[:, shown] / errors[shown]).T)
        mesh = panel.pcolormesh(edges, rows, shares, cmap="PuOr", vmin=-most, vmax=most, edgecolors="white")
        panel.set_facecolor(PALE)  # a block without which an estimate is not determined
        panel.set_title(trajectory.name, fontsize=10, loc="left", parse_math=False)
        panel.set_xlabel("time [s]")
    panels[0].set_yticks(range(len(shown)), [knowledge.names[i] for i in shown], parse_math=False)
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    picture.colorbar(mesh, ax=list(panels), label="standard errors")
    return picture


def _largest(values: Array, least: float = 0.0) -> float:
    """Largest magnitude of those that are known."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=least))


@dataclass(frozen=True, eq=False)
class _Points:
    """One signal's residuals in one recording, those that are missing left out, (n,) each."""

    residual: Array
    along: tuple[Array, ...]
    """Time since the start [s], rate of the signal, the signal."""


def residual_figure(solution: Solution) -> Figure | None:
    """A row a signal, at most the first six, with means over bins of all recordings; None if there is no residual."""
    trajectories = solution.trajectories
    signals = trajectories[0].signals[:MOST_ROWS] if trajectories else ()
    points = [[_points(t, i) for t in trajectories] for i in range(len(signals))]
    rows = [i for i, of_one in enumerate(points) if any(p.residual.size for p in of_one)]
    if not rows:
        return None
    result = Figure(figsize=(7.2, 0.6 + 1.9 * len(rows)), layout="constrained")
    panels = result.subplots(len(rows), 4, squeeze=False)
    for (*axes, last), i in zip(panels, rows, strict=True):
        for panel in axes[1:]:
            panel.sharey(axes[0])
            panel.tick_params(labelleft=False)
        _correlogram(last, [misfit(t, i) for t in trajectories])
        unit, (size, name) = trajectories[0].units[i], _size(solution, i, points[i])
        _row(axes, points[i], size)
        axes[0].set_ylabel(f"{signals[i]}\n{labelled('residual', name)}", fontsize=9, parse_math=False)
        per_second = (f"{unit}/s" if unit.isalpha() else f"({unit})/s") if unit else "1/s"
        axes[1].set_xlabel(labelled(f"rate of {signals[i]}", per_second), fontsize=8, parse_math=False)
        axes[2].set_xlabel(labelled(signals[i], unit), fontsize=8, parse_math=False)
    panels[-1, 0].set_xlabel("time [s]", fontsize=8)
    panels[-1, 3].set_xlabel("autocorrelation, lag [steps]", fontsize=8)
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
    return _Points(residual[known], tuple(one[known] for one in (trajectory.t - trajectory.t[0], rate, place)))


def _size(solution: Solution, column: int, points: Sequence[_Points]) -> tuple[float, str]:
    """What one of the vertical axis is: sigma where it is known, else the signal's unit with a prefix."""
    signal, unit = solution.trajectories[0].signals[column], solution.trajectories[0].units[column]
    found = [n.std for n in solution.noise if n.kind == "sensor" and signal in n.names and is_seen(n)]
    outlined = solution.mechanism.sensors if solution.mechanism else ()
    ratio = solution.sensitivities.noise.get(signal, 1.0)  # of the noise to the sigma that was given, with weights
    declared = [ratio * s.sigma for s in outlined if s.signal == signal and math.isfinite(s.sigma)]
    known = [sigma for sigma in (*found, *declared) if 0 < sigma < math.inf]
    return (known[0], "sigma") if known else plots.scale(np.concatenate([p.residual for p in points]), unit)


def _row(axes: Sequence[Axes], points: Sequence[_Points], size: float) -> None:
    """Residuals in light colours, one a recording, and in dark what they are on the average."""
    residual = np.concatenate([p.residual for p in points]) / size
    dot = 2.6 if len(residual) > 400 else 4.5
    reach = 1.2 * float(np.quantile(np.abs(residual), 0.995))  # an outlier would press all others together
    for j, panel in enumerate(axes):
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


def _correlogram(panel: Axes, several: Sequence[Array]) -> None:
    """Autocorrelation over all recordings, and the band in which white noise stays 95 % of the time."""
    most = min(40, max(min(len(values) for values in several) - 2, 1))
    lags = np.arange(1, most + 1)
    values = [correlation(several, int(lag)) for lag in lags]
    count = sum(np.count_nonzero(np.isfinite(values)) for values in several)
    if count:
        half = HALF_WIDTH / np.sqrt(count)
        panel.axhspan(-half, half, color=GREY, alpha=0.25, linewidth=0)
    panel.vlines(lags, 0.0, values, color=BLUE, linewidth=1.4)
    panel.axhline(0.0, color=GREY, linewidth=0.8)
    panel.set_ylim(-1.05, 1.05)
    pictures.plain(panel, 7, grid=False)


def correlation(several: Sequence[Array], lag: int) -> float:
    """Autocorrelation of series at a lag, missing samples left out; NaN if there is nothing to correlate."""
    pairs = [values[lag:] * values[:-lag] for values in several if len(values) > lag]
    products = np.concatenate([np.zeros(0), *(p[np.isfinite(p)] for p in pairs)])
    squares = np.concatenate([values[np.isfinite(values)] ** 2 for values in several])
    if not products.size or not np.any(squares):
        return float("nan")
    return float(np.mean(products) / np.mean(squares))


def binned(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Means of y over bins with as many samples each, along x: mean of x, mean of y, and its standard error if the
    samples are independent."""
    count = max(int(np.log2(max(len(y), 1))) + 1, 1)  # Sturges' rule
    bins = np.array_split(np.argsort(x, kind="stable"), count)
    spread = [np.std(y[b]) / math.sqrt(len(b)) for b in bins]
    return np.array([np.mean(x[b]) for b in bins]), np.array([np.mean(y[b]) for b in bins]), np.array(spread)


def _legend(trajectories: Sequence[Trajectory]) -> list[Line2D | Patch]:
    several = trajectories if 1 < len(trajectories) <= len(COLOURS) else ()
    dots = [pictures.entry(f" {t.name}", COLOURS[i], ".", markersize=7, alpha=0.6) for i, t in enumerate(several)]
    mean = pictures.entry("mean over a bin", DARK, linestyle="-", linewidth=1.3)
    return [*dots, mean, Patch(color=DARK, alpha=0.25, linewidth=0, label="its 95 % interval for white noise")]


def starts_figure(result: Solution) -> Figure:
    """Costs above the best one in order, minima in colours; starts that did not converge are hollow."""
    figure, (panel,) = pictures.panels(1, 1, (6.5, 3.2), f"Starts of {result.problem}: {starts_sentence(result)}")
    likely = all(math.isfinite(x) for one in result.basins if one.outcome == "converged" for x in one.log_likelihoods)
    ends = [
        (-2 * x if likely else cost, COLOURS[i % len(COLOURS)] if one.outcome == "converged" else "none")
        for i, one in enumerate(result.basins)
        for cost, x in zip(one.costs, one.log_likelihoods, strict=True)
    ]
    known = sorted(end for end in ends if math.isfinite(end[0]))
    heights = np.array([end[0] for end in known]) - (known[0][0] if known else 0.0)
    alike = 1.0 if likely else max(1e-3 * abs(known[0][0]) if known else 0.0, 1e-12)
    faces = [colour for _, colour in known]
    panel.scatter(np.arange(1, len(known) + 1), heights, s=25, facecolors=faces, edgecolors=GREY)
    panel.set_yscale("symlog", linthresh=alike)
    panel.set_ylim(-0.3 * alike, 3 * max(alike, float(np.max(heights, initial=0.0))))
    pictures.round_ticks(panel.xaxis, 9)
    panel.set_xlabel("starts, the best first; hollow: not converged", fontsize=9)
    panel.set_ylabel("−2 log-likelihood above the best" if likely else "cost above the best", fontsize=9)
    pictures.plain(panel, 8)
    return figure
