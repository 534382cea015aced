"""Figures of a Solution: the fit to the data, the way of the solver, the parameters with their uncertainty, what blocks
of the recordings change, and where several starts ended.

Figures are made with Matplotlib's objects, never through pyplot: nothing global is touched and no display is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from spookid.assembly.outlining import MOST_RECORDINGS
from spookid.kernels.arrays import Array
from spookid.report import pictures
from spookid.report.conclusion import starts_sentence
from spookid.report.pictures import BLACK, BLUE, COLOURS, GREEN, GREY, LIGHT, ORANGE, PALE, RED, apart, entry, plain
from spookid.results.result import Estimate, Solution
from spookid.results.trajectory import Motion, Trajectory, misfit, rms, rms_of_samples
from spookid.results.wording import remark
from spookid.tables.table import HALF_WIDTH, bounds, deviation, labelled, number, quantity, superscripts, uncertain

_MOST_POINTS = 3000
"""Points drawn of one curve; a longer one is thinned to the extremes of short intervals."""
_MOST_WAYS = 12
"""Parameters whose ways have a colour and a name; those of others are grey."""
_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False, "fontsize": 9}
_PREFIXES = {1.0: "", 1e-3: "m", 1e-6: "µ", 1e-9: "n"}
_TAKES_PREFIX = re.compile(r"(rad|m|s|A|V|W|N|J|Hz|Pa|T)(?![^ /·])")
"""Units that begin with a plain one: kg and mm have a prefix already, and that of m² would be squared."""


# --- the fit ---


def fit(solution: Solution) -> Figure:
    """Measured and estimated signals over time with their residuals."""
    return signals(solution.trajectories, _headline(solution), "estimated")


def signals(motions: Sequence[Motion], title: str, word: str, measured: bool = True) -> Figure:
    """Signals over time with their residuals: one column per recording, for at most the first four."""
    shown = motions[:MOST_RECORDINGS]
    names, units = (shown[0].signals, shown[0].units) if shown else ((), ())  # the same for all recordings
    rows, columns = max(len(names), 1), max(len(shown), 1)
    figure = _figure((9.5, 13.0, 15.5, 17.5)[columns - 1], 1.3 + (2.8 if measured else 2.1) * rows)
    more = f" (first {len(shown)} of {len(motions)} recordings)" if len(motions) > len(shown) else ""
    pictures.title(figure, f"{title}{more}", 11)
    # Three rows a signal: the fit, its residual, and air before the next.
    heights = ([3, 1 if measured else 0.01, 0.4] * rows)[:-1]
    grid = figure.add_gridspec(3 * rows - 1, columns, height_ratios=heights)
    scales = [scale(np.concatenate([misfit(m, i) for m in shown]), unit) for i, unit in enumerate(units)]
    for place, motion in enumerate(shown):
        panels = [[figure.add_subplot(grid[3 * i + j, place]) for j in range(1 + measured)] for i in range(len(names))]
        column = [panel for pair in panels for panel in pair]
        for i, (pair, size) in enumerate(zip(panels, scales, strict=True)):
            _signal(pair, motion, i, size)
            if place == 0:  # names and units hold for the other columns too
                texts = labelled(names[i], units[i]), f"residual\n[{size[1]}]" if size[1] else "residual"
                for panel, text, letters in zip(pair, texts, (10, 9), strict=False):
                    panel.set_ylabel(text, fontsize=letters, parse_math=False)
        _column(column, motion)
        figure.align_ylabels(column)
    handles = [
        entry("measured", ORANGE, ".", markersize=8),
        entry(word, BLUE, linestyle="-", linewidth=1.4),
        entry(f"residual: measured less {word}", GREY, ".", markersize=5),
    ]
    pictures.legend(figure, handles if measured else handles[1:2], size=9)
    return figure


def _column(column: Sequence[Axes], motion: Motion) -> None:
    """One recording's panels, which share its time axis."""
    for axes in column:
        plain(axes)
        axes.sharex(column[0])
        axes.tick_params(labelbottom=axes is column[-1])
    if column:
        if len(motion.t) > 1:
            column[0].set_xlim(motion.t[0], motion.t[-1])
        column[0].set_title(motion.name, fontsize=10, loc="left", parse_math=False)
        column[-1].set_xlabel("time [s]")


def _signal(pair: Sequence[Axes], motion: Motion, i: int, scale: tuple[float, str]) -> None:
    """A signal and, in a panel on its own scale if there is one, its residual."""
    upper, *below = pair
    t, (measured, modelled) = motion.t, continuous(motion, i)
    residual, (factor, unit) = misfit(motion, i), scale
    dot = 2.6 if np.count_nonzero(np.isfinite(measured)) > 400 else 4.5
    upper.plot(*thinned(t, measured), ".", color=ORANGE, markersize=2 * dot, markeredgewidth=0)
    upper.plot(*thinned(t, modelled), "-", color=BLUE, linewidth=1.0)
    for lower in below:
        when, error = thinned(t, residual / factor)
        lower.axhline(0.0, color=GREY, linewidth=0.6)
        stems = np.stack([np.zeros_like(error), error, np.full_like(error, np.nan)], axis=1)
        lower.plot(np.repeat(when, 3), stems.ravel(), color=GREY, linewidth=0.6, alpha=0.35)
        lower.plot(when, error, ".", color=GREY, markersize=dot, markeredgewidth=0)
        lower.yaxis.set_major_locator(MaxNLocator(3, symmetric=True))
        lower.margins(y=0.2)
        size = rms(residual)
        if math.isfinite(size) and isinstance(motion, Trajectory):
            size = rms_of_samples([motion], i)
        text = f"rms {quantity(size / factor, unit)}" if math.isfinite(size) else "no residuals"
        lower.text(1.0, 1.02, text, transform=lower.transAxes, ha="right", va="bottom", fontsize=8, parse_math=False)


def continuous(trajectory: Motion, column: int) -> tuple[Array, Array]:
    """Measured and estimated signal without jumps of periodic signals, on the branch of the first sample."""
    measured, estimated = trajectory.observed[:, column], trajectory.predicted[:, column]
    period = trajectory.periods[column]
    if period is None or not np.all(np.isfinite(estimated)):
        return measured, estimated
    first = int(np.argmax(np.isfinite(measured)))
    unwrapped = np.unwrap(estimated, period=period)
    unwrapped += estimated[first] - unwrapped[first]
    return unwrapped + misfit(trajectory, column), unwrapped


def scale(values: Array, unit: str) -> tuple[float, str]:
    """Scale, a power of a thousand, and ``unit`` with its prefix, so that the largest value is between 0.5 and 500."""
    largest = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    prefixes = _PREFIXES if _TAKES_PREFIX.match(unit) else {}
    factor, prefix = next(((f, prefix) for f, prefix in prefixes.items() if largest >= 0.5 * f), (1.0, ""))
    return factor, prefix + superscripts(unit)


def thinned(t: Array, y: Array) -> tuple[Array, Array]:
    """Thinned points of a curve that look like all points: without missing ones, and at most ``_MOST_POINTS``."""
    finite = np.isfinite(y)
    t, y = t[finite], y[finite]
    if len(y) <= _MOST_POINTS:
        return t, y
    length = -(-2 * len(y) // _MOST_POINTS)
    stretches = np.minimum(np.arange(-(-len(y) // length))[:, None] * length + np.arange(length), len(y) - 1)
    extremes = [np.argmin(y[stretches], axis=1), np.argmax(y[stretches], axis=1)]
    keep = np.unique(np.take_along_axis(stretches, np.stack(extremes, axis=1), axis=1))
    return t[keep], y[keep]


# --- the way there ---


def convergence(solution: Solution) -> Figure:
    """Cost, parameters and damping for each iteration."""
    names = list(solution.history[-1].parameters) if solution.history else []
    figure = _figure(8.9 + 0.08 * max(map(len, map(pictures.short, names)), default=0), 9.0)
    pictures.title(figure, _headline(solution), 11)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 4, 1.4]})
    k = np.array([step.iteration for step in solution.history])
    marker = "." if len(k) <= 50 else ""
    _costs(top, k, solution, marker)
    _ways(middle, k, {name: np.array([s.parameters[name] for s in solution.history]) for name in names}, marker)
    damping = np.array([step.damping for step in solution.history])
    plain(bottom)
    bottom.set_ylabel("damping")
    if _logarithmic(bottom, [damping]):
        bottom.plot(k, _positive(damping), marker=marker, color=GREY, linewidth=1.4)
    bottom.set_xlabel("iteration")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bottom.set_xlim(-0.3, max(float(k[-1]) if len(k) else 0.0, 1.0) + 0.3)
    figure.align_ylabels([top, middle, bottom])
    return figure


def _costs(axes: Axes, k: Array, solution: Solution, marker: str) -> None:
    costs = [step.cost for step in solution.history]
    curves = {
        "total": ([c.total for c in costs], BLACK, 2.2),
        "state": ([c.state for c in costs], BLUE, 1.4),
        "observation": ([c.observation for c in costs], RED, 1.4),
    }
    if any(c.prior for c in costs):
        curves["prior"] = ([c.prior for c in costs], GREEN, 1.4)
    plain(axes)
    axes.set_ylabel("cost, noise as found by then" if solution.estimates_noise else "cost")
    if _logarithmic(axes, [np.array(values) for values, _, _ in curves.values()]):
        for name, (values, colour, width) in curves.items():
            axes.plot(k, _positive(np.array(values)), marker=marker, color=colour, linewidth=width, label=name)
        axes.legend(**_BESIDE)


def _ways(axes: Axes, k: Array, ways: Mapping[str, Array], marker: str) -> None:
    """How far each parameter is from where it came to rest."""
    plain(axes)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    with np.errstate(invalid="ignore"):  # not relative to the final value: many end at zero
        distances = {n: (values - values[-1]) / (np.max(np.abs(values)) or 1.0) for n, values in ways.items()}
    farthest = pictures.foremost([float(np.max(np.abs(d))) for d in distances.values()], _MOST_WAYS)
    shown = [name for i, name in enumerate(distances) if i in farthest]
    others = [distance for name, distance in distances.items() if name not in shown]
    for i, name in enumerate(shown):
        # Matplotlib leaves labels that begin with _ out of the legend.
        label = f" {pictures.short(name)}" if name.startswith("_") else pictures.short(name)
        axes.plot(k, distances[name], **pictures.line(i), marker=marker, linewidth=1.4, label=label)
    for i, distance in enumerate(others):
        label = "" if i else f"{len(others)} that go less far"
        axes.plot(k, distance, color=LIGHT, linewidth=0.7, zorder=1, label=label)
    axes.set_yscale("symlog", linthresh=1e-3, linscale=0.6)
    axes.yaxis.set_major_formatter(FuncFormatter(_power_of_ten))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("parameter less its final value,\nrelative to its largest")
    if ways:
        axes.legend(**_BESIDE)


def _logarithmic(axes: Axes, curves: Sequence[Array]) -> bool:
    """Make the axis logarithmic if there is anything to show on it, else say that there is not."""
    if not any(np.any(np.isfinite(_positive(values))) for values in curves):
        apart(axes, "no positive finite value")
        axes.yaxis.set_major_locator(NullLocator())
        return False
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(_power_of_ten))
    axes.yaxis.set_minor_locator(NullLocator())
    return True


def _power_of_ten(value: float, _: int) -> str:
    """A tick of a logarithmic axis; Matplotlib sets it as a formula, which takes longer than the rest of the axis."""
    if value == 0:
        return "0"
    return ("−" if value < 0 else "") + superscripts(f"10^{round(math.log10(abs(value)))}")


def _positive(values: Array) -> Array:
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


# --- the parameters ---


def parameters(solution: Solution) -> Figure:
    """Each parameter on its own scale: estimate with 95 % interval, initial value and bounds. Of many, those farthest
    from their initial value in standard errors are shown."""
    every = list(solution.parameters.values())
    # By how many standard errors each is off its initial value; without one less than by any.
    moved = [abs(e.estimate - e.initial) / e.std_err if e.std_err > 0 else -1.0 for e in every]
    estimates = [every[i] for i in pictures.foremost(moved)]
    rows = max(len(estimates), 1)
    figure = _figure(10.0, 1.0 + 0.55 * rows)
    many = f": the {len(estimates)} of {len(every)} parameters farthest from their initial values, in standard errors"
    pictures.title(figure, solution.problem + (many if len(estimates) < len(every) else ""), 11)
    axes = figure.subplots()  # one for all rows: panels of their own would take four times as long
    plain(axes, 10)
    axes.set(xlim=(-0.03, 1.03), ylim=(0.5 - rows, 0.5), xticks=[])
    axes.set_yticks(-np.arange(len(estimates)), [one.name for one in estimates], parse_math=False)
    if not estimates:
        pictures.apart(axes, "The problem has no parameters.")
    for i, estimate in enumerate(estimates):
        _row(axes, -i, estimate)
    handles = [
        entry("estimate, 95 % interval", BLUE, "o", "-", markersize=6, linewidth=5, alpha=0.7),
        entry("without standard error", RED, "s", markersize=6),
        entry("fixed", GREY, "s", markersize=6),
        entry("initial value", BLACK, "|", markersize=12, markeredgewidth=1.6),
        entry("bound", RED, "|", markersize=12),
    ]
    pictures.legend(figure, handles, size=9)
    return figure


def _row(axes: Axes, y: float, estimate: Estimate) -> None:
    """One row, as wide as the axes, with its numbers to the right."""
    known = math.isfinite(estimate.std_err)
    reach = HALF_WIDTH * estimate.std_err if known else 0.0
    ends = [estimate.estimate - reach, estimate.estimate + reach]
    finite = [value for value in (*ends, estimate.initial) if math.isfinite(value)] or [0.0]
    low, width = min(finite), max(finite) - min(finite)

    def at(*values: float) -> Array:
        return (np.array(values) - low) / width if width > 0 else np.full(len(values), 0.5)

    walls = at(*(edge for edge in (estimate.lower, estimate.upper) if low <= edge <= low + width))
    axes.plot(walls, np.full(len(walls), y), "|", color=RED, markersize=14)
    axes.plot(at(estimate.initial), [y], "|", color=BLACK, markersize=16, markeredgewidth=1.6)
    if known:
        axes.plot(at(*ends), [y, y], color=BLUE, linewidth=5, alpha=0.45)
    marker, colour = ("o", BLUE) if known else ("s", GREY if estimate.fixed else RED)
    axes.plot(at(estimate.estimate), [y], marker=marker, color=colour, markersize=6)
    limits, special = bounds(estimate.lower, estimate.upper), remark(estimate)
    facts = [f"initial {number(estimate.initial, 6)}", f"bounds {limits}" if limits else "", special]
    value = f"{uncertain(estimate.estimate, estimate.std_err)} {superscripts(estimate.unit)}".rstrip()
    for text, size, colour, above in ((value, 10, BLACK, 6), (", ".join(filter(None, facts)), 8, GREY, -7)):
        style: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (1.0, y), (10, above), va="center", fontsize=size, color=colour, parse_math=False, **style)


# --- common ---


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=pictures.DPI, layout="constrained")


def _headline(solution: Solution) -> str:
    """The problem, and how large the residuals of few signals are."""
    motions = solution.trajectories
    signals = list(zip(motions[0].signals, motions[0].units, strict=True)) if motions else []
    sizes = [f"{name} {deviation(rms_of_samples(motions, i), unit)}" for i, (name, unit) in enumerate(signals)]
    words = f": residuals {', '.join(sizes)} rms" if 0 < len(sizes) <= MOST_RECORDINGS else ""
    return solution.problem + words


def influence_figure(solution: Solution) -> Figure:
    """Influence of each block of the recordings on each estimate, in standard errors, as a coloured grid: parameters
    that change most in rows, one panel for each of the first recordings."""
    knowledge, influence = solution.sensitivities, solution.influence
    errors = knowledge.standard_errors
    known = [i for i, error in enumerate(errors) if math.isfinite(error) and error > 0]
    blocks = influence.stretches[:MOST_RECORDINGS] if any(map(len, influence.stretches)) else ()
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


def starts_figure(result: Solution) -> Figure:
    """Sorted costs of all starts above the best; colours show minima, hollow marks starts that did not converge."""
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
