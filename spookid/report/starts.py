"""Where several starts ended: a table and the waterfall plot of their costs in order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from spookid.report import pictures
from spookid.report.pictures import COLOURS, GREY
from spookid.results.result import Result
from spookid.tables.table import Table, number

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.figure import Figure

_SHOWN = 5
"""Minima with an entry of their own in the legend, and starts that a row names."""


def sentence(result: Result) -> str:
    """How many starts ended where."""
    settled = [one for one in result.basins if one.outcome == "converged"]
    total, converged = (sum(len(one.starts) for one in some) for some in (result.basins, settled))
    if not settled:
        return f"None of {total} starts converged."
    others = f", the others at {len(settled) - 1} worse minim{'a' if settled[2:] else 'um'}" if settled[1:] else ""
    return f"{converged} of {total} starts converged, {len(settled[0].starts)} of them at the best minimum{others}."


def table(result: Result) -> Table:
    """A row for each minimum, and for each start that did not converge."""
    rows = []
    for one in result.basins:
        likely = one.log_likelihoods[0]
        shown = ", ".join(map(str, one.starts[:_SHOWN])) + (" ..." if len(one.starts) > _SHOWN else "")
        cost = number(one.costs[0], 6) if math.isfinite(one.costs[0]) else "-"
        rows.append((str(len(one.starts)), shown, one.outcome, cost, f"{likely:.1f}" if math.isfinite(likely) else "-"))
    return Table(("starts", "which", "end", "cost", "log-likelihood"), rows, left=(1, 2))


def figure(result: Result) -> Figure:
    """Costs above the best one in order, minima in colours; starts that did not converge are hollow."""
    figure, (panel,) = pictures.panels(1, 1, (6.5, 3.2), f"Starts of {result.problem}: {sentence(result)}")
    likely = all(math.isfinite(x) for one in result.basins if one.outcome == "converged" for x in one.log_likelihoods)
    ends = [
        (-2 * x if likely else cost, i, one.outcome)
        for i, one in enumerate(result.basins)
        for cost, x in zip(one.costs, one.log_likelihoods, strict=True)
    ]
    known = sorted(end for end in ends if math.isfinite(end[0]))
    heights = np.array([end[0] for end in known])
    least = float(np.min(heights)) if len(known) else 0.0
    for place, (height, i, outcome) in enumerate(known):
        colour = COLOURS[i] if outcome == "converged" and i < len(COLOURS) else GREY
        face = colour if outcome == "converged" else "none"
        panel.plot([place + 1], [height - least], "o", color=colour, markerfacecolor=face, markersize=5)
    alike = 1.0 if likely else max(1e-3 * abs(least), 1e-12)
    panel.set_yscale("symlog", linthresh=alike)
    panel.set_ylim(-0.3 * alike, 3 * max(alike, float(np.max(heights, initial=least)) - least))
    pictures.round_ticks(panel.xaxis, 9)
    panel.set_xlabel("starts, the best first", fontsize=9)
    panel.set_ylabel("−2 log-likelihood above the best" if likely else "cost above the best", fontsize=9)
    settled = [(i, one) for i, one in enumerate(result.basins) if one.outcome == "converged"][:_SHOWN]
    labels = [pictures.entry(f"minimum {i + 1}: {len(one.starts)}", COLOURS[i], "o") for i, one in settled]
    if len(settled) < len(result.basins):
        labels.append(pictures.entry("not converged, or further minima", GREY, "o", markerfacecolor="none"))
    pictures.legend(figure, labels)
    pictures.plain(panel, 8)
    return figure
