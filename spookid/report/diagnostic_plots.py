"""Influence of blocks of the recordings on the estimates, and where several starts ended: their costs in order."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from spookid.kernels.arrays import Array
from spookid.report import pictures
from spookid.report.conclusion import starts_sentence
from spookid.report.pictures import COLOURS, GREY, PALE
from spookid.results.result import Solution

_MOST_COLUMNS = 4
"""Recordings that are drawn beside one another."""


def influence_figure(solution: Solution) -> Figure:
    """Influence of each block of the recordings on each estimate, in standard errors, as a coloured grid: parameters
    that change most in rows, one panel for each of the first recordings."""
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
