"""What a sweep leaves behind: a small file for every point, so that it can go on, and the whole at the end.

``points/*.json`` are written one by one as points are solved. ``sweep.json``, ``sweep.csv``, ``sweep.txt`` and the
figures are written from them when all are there; until then ``sweep.json`` says that the sweep is not complete.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from spookid.argument_checks import checked
from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import load_declaration, whole_path
from spookid.report import pictures, study_page
from spookid.results import folders
from spookid.results.folders import marker_document
from spookid.studies import sweeping
from spookid.studies.axes import Axis, AxisValue, axes_of
from spookid.studies.settings import Variant
from spookid.studies.sweep_points import Sweep, SweepPoint, comma_separated, coordinates_of, doubted, sweep_table
from spookid.studies.sweeping import Plan, Seen, Store
from spookid.tables.table import counted, number, quantity, superscripts

MARKER = "sweep.json"
"""The file that makes a folder one of a sweep."""
_WIDTH = 120
"""Columns of ``sweep.txt``."""


@checked
def sweep(
    problem: Declaration | str | os.PathLike[str],
    over: Mapping[str, Iterable[AxisValue]] | Sequence[Axis],
    *,
    folder: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    seen: Seen | None = None,
    initial: Mapping[str, float] | None = None,
    fixed: Iterable[str] = (),
    **settings: AxisValue,
) -> Sweep:
    """Solve a problem at every point of a grid.

    Args:
        problem: the path of a problem file, ``PROBLEM.py`` or ``PROBLEM.py::key``. Worker processes load it themselves;
            a Declaration cannot be sent to them, so the points of one are solved one after another in this process.
        over: values by the name of a setting (``step``, ``state_weight``, ``friction_width``, ``cutoff``, ``stepper``,
            ``friction``, ``backend``, ``max_iterations`` ...) or of a parameter, which is held at them.
        folder: where to keep every point as it is solved, and the tables and figures at the end; a sweep that was
            begun there goes on. None keeps nothing.
        jobs: worker processes; by default as many as there are processors.
        executor: any executor of ``concurrent.futures`` in the place of worker processes, such as one of a cluster.
            Its workers must find the problem file at the same path.
        seen: called with each point as it is known, and whether it was known before.
        initial, fixed: guesses and parameters to hold at all points, as in ``Problem``.
        settings: settings at all points, texts and numbers as in ``over``.

    Raises:
        ProblemError: for an axis that is none, a value that the problem refuses, or a folder of something else.
    """
    path = None if isinstance(problem, Declaration) else whole_path(problem)
    loaded = problem if isinstance(problem, Declaration) else load_declaration(problem)
    variant = Variant(initial=dict(initial or {}), fixed=tuple(fixed)).at(settings, loaded)
    return run(sweeping.plan(loaded, path, axes_of(over), variant), folder, jobs=jobs, executor=executor, seen=seen)


def run(
    plan: Plan,
    folder: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    seen: Seen | None = None,
) -> Sweep:
    """Run a plan, and write its folder; arguments and errors as of `sweep`."""
    told = seen or (lambda point, before: None)
    if folder is None:
        return sweeping.run_sweep(plan, None, jobs, executor, told)
    place = folders.check_continued(folder, MARKER)
    folders.write(place / MARKER, _document(plan.sweep(()), complete=False))
    result = sweeping.run_sweep(plan, Store.of(place / "points", plan), jobs, executor, told)
    save(place, result)
    return result


def save(place: Path, sweep: Sweep) -> None:
    """Write the result of a sweep into its folder: numbers, tables and figures.

    Raises:
        ProblemError: if it cannot be written.
    """
    from spookid.report import sweep_plot  # Matplotlib takes a while to load

    figures = sweep_plot.figures(sweep)
    for i, figure in enumerate(figures):
        suffix = f"-{i + 1}" if len(figures) > 1 else ""
        folders.write(place / f"sweep{suffix}.png", partial(pictures.save, figure))
    folders.write(place / "sweep.csv", comma_separated(sweep))
    folders.write(place / "sweep.txt", sweep_table(sweep, _WIDTH))
    folders.write(place / MARKER, _document(sweep, complete=True))


def _document(sweep: Sweep, complete: bool) -> dict[str, Any]:
    return marker_document(
        sweep.problem,
        complete=complete,
        axes=sweep.axes,
        settings=sweep.variant.settings,
        initial=sweep.variant.initial,
        fixed=sweep.variant.fixed,
        points=[sweeping.point_tree(point) for point in sweep.points],
        **study_page.told(_conclusion(sweep, complete), sweep.assumptions, _notices(sweep), sweep.blocks()[1:2]),
    )


def _conclusion(sweep: Sweep, complete: bool) -> str:
    """How many points converged, and which estimate moves most."""
    if not complete:
        return "The sweep is not complete; the same command does the rest."
    count, settled = len(sweep.points), [point for point in sweep.points if point.converged]
    begin = f"{'All' if len(settled) == count else f'{len(settled)} of'} {counted(count, 'point')} converged"
    moves = {name: _move(name, settled) for name in sweep.estimated}
    known = {name: move for name, move in moves.items() if math.isfinite(move[0])}
    if len(settled) < 2 or not known:
        return f"{begin}."
    name, (errors, low, high) = max(known.items(), key=lambda item: item[1][0])
    unit = superscripts(sweep.estimated[name])
    ends = f"between {number(low)} and {quantity(high, unit, 4)}"
    return f"{begin}; the estimate that moves most is {name}, {ends}, by {number(errors, 2)} of its standard errors."


def _move(name: str, points: Sequence[SweepPoint]) -> tuple[float, float, float]:
    """By how many standard errors an estimate moves, the least one and the largest one."""
    found = [point.parameters[name] for point in points if name in point.parameters]
    errors = [e.std_err for e in found if e.std_err > 0 and math.isfinite(e.std_err)]
    if not errors:
        return math.nan, math.nan, math.nan
    low, high = min(e.estimate for e in found), max(e.estimate for e in found)
    return (high - low) / median(errors), low, high


def _notices(sweep: Sweep) -> list[str]:
    """Points that are no answer, and what puts others in doubt."""
    unsettled = [f"{coordinates_of(point)}: {point.outcome}. {point.message}" for point in sweep.unsettled]
    return [*unsettled, *doubted(sweep)]
