"""Solving the points of a sweep: in parallel, each kept in a file once it is solved, so that a sweep can continue.

What a sweep leaves behind: a small file for every point, so that it can continue, and the whole at the end.

``points/*.json`` are written one by one as points are solved. ``sweep.json``, ``sweep.csv``, ``sweep.txt`` and the
figures are written from them when all are there; until then ``sweep.json`` says that the sweep is not complete.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from spookid.argument_checks import checked
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.solving import solve_whole
from spookid.kernels.thread_pool import processors
from spookid.report import pictures
from spookid.report.conclusion import assumed
from spookid.report.study_page import Answer
from spookid.results import folders
from spookid.results.folders import SCHEMA, versions, with_nan
from spookid.studies.job import Job, Source, alone
from spookid.studies.sweep_points import (
    Axis,
    Sweep,
    SweepPoint,
    axes_of,
    axis,
    failed,
    from_neighbours,
    grid_points,
    solve_point,
    word,
)
from spookid.studies.variants import AxisValue, Chosen
from spookid.studies.worker_pool import Lost, WorkerPool
from spookid.tables.table import Table, counted, number, quantity, superscripts

Seen = Callable[[SweepPoint, bool], None]
"""Called with each point of a sweep as it is known, and whether it was known before."""

_SPEAKS_OF = {
    "step": ("Stepper",),
    "stepper": ("Stepper",),
    "friction": ("Friction",),
    "state_weight": ("Estimator", "Noise"),
    "estimator": ("Estimator",),
}
"""Assumptions that a setting changes."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a sweep, ready to run."""

    source: Source
    axes: tuple[Axis, ...]

    def sweep(self, points: tuple[SweepPoint, ...]) -> Sweep:
        """Sweep with the points that are solved so far."""
        problem, variant = self.source.problem, self.source.variant
        first = next(iter(grid_points(self.axes)))
        changed, _, _ = variant.at(first, problem).posed(problem)
        swept = {key for one in self.axes for key in _SPEAKS_OF.get(one.name, ())}
        words = variant.chosen.assumed(changed) if variant.chosen else assumed(changed)
        told = {key: "differs from point to point" if key in swept else text for key, text in words.items()}
        return Sweep(problem.name, self.axes, points, variant, versions(), told)

    def settled(self) -> Plan:
        """Return the same plan in which all points use the estimator and outliers of a fit without the axes."""
        posed, backend, options = self.source.posed
        if not posed.estimates_noise or {"state_weight", "estimator"} & {one.name for one in self.axes}:
            return self
        chosen = Chosen.by(solve_whole(posed, backend, options))
        return replace(self, source=replace(self.source, variant=replace(self.source.variant, chosen=chosen)))


def plan(source: Source, axes: tuple[Axis, ...]) -> Plan:
    """Make a plan after a check of its points with the problem.

    Raises:
        ProblemError: for the first that it does not, or a problem that has nothing to fit.
    """
    problem = source.problem
    if not (problem.recordings and problem.observations):
        raise ProblemError(f"{problem.what} has no recordings or observations to fit; give both")
    for values in grid_points(axes):
        source.variant.at(values, problem).posed(problem)
    return Plan(source, axes)


def run_sweep(plan: Plan, store: Store | None, jobs: int | None, executor: Executor | None, seen: Seen) -> Sweep:
    """Solve all points of a plan that the store does not contain.

    Args:
        jobs: worker processes; None: as many as there are processors.
        executor: works instead of them.
        seen: called with each point as it is known.

    Raises:
        ProblemError: for no jobs, or a problem that cannot be sent to workers.
    """
    source = plan.source
    if executor is not None and source.path is None:
        raise ProblemError(f"{source.problem.what} cannot be sent to an executor; give the path of a problem file")
    if jobs is not None and jobs < 1:
        raise ProblemError(f"the number of jobs is {jobs}; give a whole number of at least 1")
    everything = grid_points(plan.axes)
    known = {i: point for i, values in enumerate(everything) if store and (point := store.get(values))}
    for point in known.values():
        seen(point, True)
    workers = 1 if source.path is None else min(jobs or processors(), max(len(everything) - len(known), 1))
    pool = WorkerPool(workers, executor)
    for group in from_neighbours(plan.axes):
        missing = {i: _estimates(None if near is None else known[near]) for i, near in group.items() if i not in known}
        tasks = {i: (source, everything[i], near) for i, near in missing.items()}
        with closing(pool.answers(_work, tasks)) as answers:  # workers end at once if this does
            for i, found in answers:
                died = "a worker process died; was memory short?"
                point = failed(everything[i], died) if isinstance(found, Lost) else found
                if store is not None:
                    store.put(point)
                known[i] = point
                seen(point, False)
    return plan.sweep(tuple(known[i] for i in range(len(everything))))


def _estimates(point: SweepPoint | None) -> dict[str, float] | None:
    """Those of a neighbour, if it has any to begin from."""
    if point is None or not point.converged:
        return None
    return {name: e.estimate for name, e in point.parameters.items() if not e.fixed}


def _work(source: Source, values: Mapping[str, AxisValue], near: Mapping[str, float] | None) -> SweepPoint:
    with alone:
        return solve_point(source.problem, source.variant, values, near)


# --- points that are kept ---


@dataclass(frozen=True)
class Store:
    """Folder with solved points, for one problem, variant and set of package versions."""

    folder: Path
    identity: str
    """Digest of all that the points depend on beside their own values."""

    def get(self, values: Mapping[str, AxisValue]) -> SweepPoint | None:
        """Return the stored point, or None if it is not stored."""
        try:
            tree = msgspec.json.decode(self._path(values).read_bytes())
            return _point_of(tree, values) if tree["identity"] == self.identity else None
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return None  # a file that is missing or damaged is a point to solve again

    def put(self, point: SweepPoint) -> None:
        """Store a point, unless it failed; a later run solves failed points again."""
        if point.status is not None:
            tree = {"schema": SCHEMA, "identity": self.identity, **point_tree(point)}
            folders.write(self._path(point.values), tree)

    def _path(self, values: Mapping[str, AxisValue]) -> Path:
        words = ",".join(f"{name}={word(value)}" for name, value in values.items())
        legible = re.sub(r"[^\w=,.+-]", "_", words)[:100]
        short = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]
        return self.folder / f"{legible}-{short}.json"


def point_tree(point: SweepPoint) -> dict[str, Any]:
    """Convert a point to the content of its file."""
    tree = asdict(point)
    return {**tree, "cost": {"total": point.cost.total, **tree["cost"]}}


def _point_of(tree: dict[str, Any], values: Mapping[str, AxisValue]) -> SweepPoint:
    """From `point_tree`; the values are as they were, not as JSON knows them."""
    ends = {"lower": -math.inf, "upper": math.inf}
    for node in tree["parameters"].values():
        node |= {name: end for name, end in ends.items() if node[name] is None}
    return msgspec.convert(with_nan({**tree, "values": values}), SweepPoint)


MARKER = "sweep.json"


@checked
def sweep(
    problem: Problem | str | os.PathLike[str],
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
            a Problem cannot be sent to them, so the points of one are solved one after another in this process.
        over: values by the name of a setting (``step``, ``state_weight``, ``friction_width``, ``cutoff``, ``stepper``,
            ``friction``, ``backend``, ``max_iterations`` ...) or of a parameter, which is held at them.
        folder: folder for the points, tables and figures; an interrupted sweep continues there. None keeps nothing.
        jobs: worker processes; by default as many as there are processors.
        executor: any executor of ``concurrent.futures`` instead of worker processes, such as one of a cluster.
            Its workers must find the problem file at the same path.
        seen: a function of each finished point, and whether it had been finished before.
        initial, fixed: initial values and parameters to hold at all points, as in ``Problem``.
        settings: settings at all points, texts and numbers as in ``over``.

    Raises:
        ProblemError: for an unknown axis, a value that the problem refuses, or a folder with other content.
    """
    source = Source.of(problem, initial, fixed)
    source = replace(source, variant=source.variant.at(settings, source.problem))
    return run(plan(source, axes_of(over)), folder, jobs=jobs, executor=executor, seen=seen)


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``sweep`` when run from the command line."""
    axes = axes_of([axis(text) for text in job.arguments.over])
    planned, total = plan(job.sent, axes), math.prod(len(one.values) for one in axes)

    def work() -> Answer:
        with job.counting(total, f"points of {job.label} are in {job.out}") as count:

            def seen(point: SweepPoint, before: bool) -> None:
                count(before, point.status is not None)

            found = run(planned, job.folder, jobs=job.arguments.jobs, executor=job.executor, seen=seen)
        complaints = []
        for first in found.unsettled[:1]:
            reason = f": {first.message}" if first.status is None else ""
            complaints.append(
                f"{len(found.unsettled)} of {len(found.points)} points of {job.label} are not converged, the first at "
                f"{first.place} ({first.outcome}{reason}); {job.folder / 'sweep.csv'} has all"
            )
        return Answer(found.problem, found.text(job.columns), "", complaints=complaints)

    return work


def run(
    plan: Plan,
    folder: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    seen: Seen | None = None,
) -> Sweep:
    """Run a plan, and write its result folder; arguments and errors as for `sweep`."""
    told = seen or (lambda point, before: None)
    if folder is None:
        return run_sweep(plan.settled(), None, jobs, executor, told)
    place, plan = folders.check_continued(folder, MARKER), plan.settled()
    folders.write(place / MARKER, answer(plan.sweep(()), complete=False).marker)
    result = run_sweep(plan, Store(place / "points", plan.source.identity()), jobs, executor, told)
    found = answer(result)
    folders.write_all({place / name: content for name, content in {**found.files, MARKER: found.marker}.items()})
    return result


def answer(sweep: Sweep, complete: bool = True) -> Answer:
    """Result of the study, with ``sweep.csv``, ``sweep.txt``, and figures if all points are solved."""
    from spookid.studies import sweep_plot  # Matplotlib takes a while to load

    figures = sweep_plot.figures(sweep) if complete else []
    names = ["sweep.png"] if len(figures) == 1 else [f"sweep-{i + 1}.png" for i in range(len(figures))]
    files: dict[str, folders.Content] = {n: partial(pictures.save, f) for n, f in zip(names, figures, strict=True)}
    if complete:
        files |= {"sweep.csv": sweep.csv(), "sweep.txt": sweep.text(120)}
    facts = {
        "complete": complete,
        "axes": sweep.axes,
        "settings": sweep.variant.settings,
        "initial": sweep.variant.initial,
        "fixed": sweep.variant.fixed,
        "points": [point_tree(point) for point in sweep.points],
        folders.FILES: [MARKER, *files, "points"],
    }
    unsettled = [f"{point.place}: {point.outcome}. {point.message}" for point in sweep.unsettled]
    conclusion, notices = _conclusion(sweep, complete), [*unsettled, *sweep.doubted]
    blocks = [block for block in sweep.blocks() if isinstance(block, Table)]
    return Answer(sweep.problem, "", conclusion, blocks, facts, sweep.assumptions, notices, files)


def _conclusion(sweep: Sweep, complete: bool) -> str:
    """How many points converged, and which estimate moves most."""
    if not complete:
        return "The sweep is not complete; the same command does the rest."
    count, settled = len(sweep.points), [point for point in sweep.points if point.converged]
    begin = f"{'All' if len(settled) == count else f'{len(settled)} of'} {counted(count, 'point')} converged"
    moves = []  # by how many standard errors each estimate moves, the least one and the largest one
    for name in sweep.estimated:
        found = [point.parameters[name] for point in settled if name in point.parameters]
        std_errs = [e.std_err for e in found if 0 < e.std_err < math.inf]
        low, high = (end((e.estimate for e in found), default=math.nan) for end in (min, max))
        moves += [((high - low) / median(std_errs), low, high, name)] if std_errs else []
    if len(settled) < 2 or not moves:
        return f"{begin}."
    errors, low, high, name = max(moves)
    unit = superscripts(sweep.estimated[name])
    ends = f"between {number(low)} and {quantity(high, unit, 4)}"
    return f"{begin}; the estimate that moves most is {name}, {ends}, by {number(errors, 2)} of its standard errors."
