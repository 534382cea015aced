"""A sweep as a table: for people, and as rows for a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from spookid.report.wording import labelled, number, uncertain
from spookid.studies.axes import Choice
from spookid.studies.sweep_points import Point, Sweep

_MISSING = "-"
_DIGITS = 6

Column = list[str]


def table(sweep: Sweep, width: int) -> str:
    """Axes, outcome, iterations, cost, likelihood and estimates of every point, in as many blocks as ``width`` asks."""
    axes = [
        _aligned([labelled(one.name, sweep.unit(one.name)), *(word(p.values[one.name]) for p in sweep.points)])
        for one in sweep.axes
    ]
    facts: list[Column] = [
        ["iterations", *(str(p.iterations) if p.status else _MISSING for p in sweep.points)],
        ["cost", *(_known(p.cost.total) for p in sweep.points)],
    ]
    if any(math.isfinite(p.log_likelihood) for p in sweep.points):
        likelihoods = (f"{p.log_likelihood:.1f}" if math.isfinite(p.log_likelihood) else _MISSING for p in sweep.points)
        facts.append(["log-likelihood", *likelihoods])
    if sweep.unsettled:
        facts.insert(0, ["status", *(p.outcome for p in sweep.points)])
    facts += [_estimates(sweep, name, unit) for name, unit in sweep.estimated.items()]
    blocks = ["\n".join(_lines([*axes, *block])) for block in _blocks(axes, [_aligned(f) for f in facts], width)]
    return "\n\n".join([_title(sweep), *blocks, *_failures(sweep)])


def word(value: Choice, digits: int = _DIGITS) -> str:
    """A value of an axis in words."""
    return value if isinstance(value, str) else number(value, digits)


def place(point: Point) -> str:
    """Where in the grid a point is, in words."""
    return ", ".join(f"{name} = {word(value)}" for name, value in point.values.items())


def comma_separated(sweep: Sweep) -> str:
    """A line for every point, numbers in full, empty where one is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(sweep.estimated)
    errors = [f"{name}_std_err" for name in names]
    costs = ["cost", "cost_state", "cost_observation", "cost_prior", "log_likelihood"]
    writer.writerow([*(one.name for one in sweep.axes), "status", "iterations", *costs, *_mixed(names, errors)])
    for point in sweep.points:
        cost = point.cost
        numbers = [cost.total, cost.state, cost.observation, cost.prior, point.log_likelihood]
        for name in names:
            estimate = point.parameters.get(name)
            numbers += [estimate.estimate, estimate.std_err] if estimate else [math.nan, math.nan]
        iterations = point.iterations if point.status else ""
        cells = [repr(value) if math.isfinite(value) else "" for value in numbers]
        writer.writerow([*map(_cell, point.values.values()), point.outcome, iterations, *cells])
    return text.getvalue()


def _cell(value: Choice) -> str:
    return value if isinstance(value, str) else repr(value)


def _mixed(names: Sequence[str], errors: Sequence[str]) -> list[str]:
    return [title for pair in zip(names, errors, strict=True) for title in pair]


def _title(sweep: Sweep) -> str:
    sizes = " x ".join(f"{len(one.values)} of {one.name}" for one in sweep.axes)
    bad = f", {len(sweep.unsettled)} of them not converged" if sweep.unsettled else ""
    return f"Sweep of {sweep.problem}: {sizes}, {len(sweep.points)} points{bad}"


def _estimates(sweep: Sweep, name: str, unit: str) -> Column:
    cells = [labelled(name, unit)]
    for point in sweep.points:
        estimate = point.parameters.get(name)
        if estimate is None:
            cells.append(_MISSING)
        else:
            mark = " (held)" if estimate.fixed else " (bound)" if estimate.at_bound else ""
            cells.append(uncertain(estimate.estimate, estimate.std_err) + mark)
    return cells


def _known(value: float) -> str:
    return number(value) if math.isfinite(value) else _MISSING


def _failures(sweep: Sweep) -> list[str]:
    lines = [f"  {place(point)}: {point.message}" for point in sweep.points if point.status is None]
    return ["\n".join(["Failed", *lines])] if lines else []


def _aligned(cells: Column) -> Column:
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells]


def _blocks(axes: Sequence[Column], columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Columns in groups that fit beside the axes, one column at least in each."""
    room = width - sum(len(column[0]) + 2 for column in axes)
    blocks: list[list[Column]] = [[]]
    for column in columns:
        if blocks[-1] and sum(len(c[0]) + 2 for c in (*blocks[-1], column)) > room:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def _lines(columns: Sequence[Column]) -> list[str]:
    return ["  " + "  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
