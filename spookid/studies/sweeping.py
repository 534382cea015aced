"""Solving the points of a sweep: in parallel, each kept in a file once it is solved, so that a sweep can go on.

What a sweep leaves behind: a small file for every point, so that it can go on, and the whole at the end.

``points/*.json`` are written one by one as points are solved. ``sweep.json``, ``sweep.csv``, ``sweep.txt`` and the
figures are written from them when all are there; until then ``sweep.json`` says that the sweep is not complete.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from spookid.argument_checks import checked
from spookid.assembly.loading import load_problem, whole_path
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.thread_pool import processors
from spookid.report import pictures
from spookid.report.conclusion import assumed
from spookid.report.study_page import Answer
from spookid.results import folders
from spookid.results.folders import SCHEMA, versions, with_nan
from spookid.studies.job import Job, digest
from spookid.studies.sweep_points import (
    Sweep,
    SweepPoint,
    comma_separated,
    coordinates_of,
    doubted,
    failed,
    solve_point,
    sweep_table,
    word,
)
from spookid.studies.variants import Axis, AxisValue, Variant, axes_of, axis, from_neighbours, grid_points
from spookid.studies.worker_pool import Lost, WorkerPool
from spookid.tables.table import counted, number, quantity, superscripts

Seen = Callable[[SweepPoint, bool], None]
"""Called with each point of a sweep as it is known, and whether it was known before."""

_SPEAKS_OF = {
    "step": ("Stepper",),
    "stepper": ("Stepper",),
    "friction": ("Friction",),
    "state_weight": ("Estimator", "Noise"),
}
"""Assumptions that a setting changes."""
_LONGEST = 100
"""Characters of a point's file name that tell its values."""
alone = threading.Lock()
"""Held by what works in a thread of a worker: CasADi's symbols do not bear several."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A sweep that can be run."""

    problem: Problem
    path: str | None
    """Where workers find it, ``PROBLEM.py::key`` with an absolute path; None if only this process has it."""
    axes: tuple[Axis, ...]
    variant: Variant
    """What is changed at all points."""
    digest: str
    """Of the problem."""

    def sweep(self, points: tuple[SweepPoint, ...]) -> Sweep:
        """What was planned, with the points that are known."""
        return Sweep(self.problem.name, self.axes, points, self.variant, versions(), self._assumptions)

    @property
    def _assumptions(self) -> dict[str, str]:
        """Of what is the same at all points."""
        first = next(iter(grid_points(self.axes)))
        changed, _, _ = self.variant.at(first, self.problem).posed(self.problem)
        swept = {key for one in self.axes for key in _SPEAKS_OF.get(one.name, ())}
        return {key: "differs from point to point" if key in swept else text for key, text in assumed(changed).items()}


def plan(problem: Problem, path: str | None, axes: tuple[Axis, ...], variant: Variant) -> Plan:
    """A plan whose points the problem accepts.

    Raises:
        ProblemError: for the first that it does not, or a problem that has nothing to fit.
    """
    if not (problem.recordings and problem.observations):
        raise ProblemError(f"{problem.what} has no recordings or observations to fit; give both")
    for values in grid_points(axes):
        variant.at(values, problem).posed(problem)
    return Plan(problem, path, axes, variant, digest(problem))


def run_sweep(plan: Plan, store: Store | None, jobs: int | None, executor: Executor | None, seen: Seen) -> Sweep:
    """Solve the points of a plan that the store does not hold.

    Args:
        jobs: worker processes; None: as many as there are processors.
        executor: works instead of them.
        seen: called with each point as it is known.

    Raises:
        ProblemError: for no jobs, or a problem that cannot be sent to workers.
    """
    if executor is not None and plan.path is None:
        raise ProblemError(f"{plan.problem.what} cannot be sent to an executor; give the path of a problem file")
    if jobs is not None and jobs < 1:
        raise ProblemError(f"jobs is {jobs}; give 1, 2, 3 ...")
    everything = grid_points(plan.axes)
    known = {i: point for i, values in enumerate(everything) if store and (point := store.get(values))}
    for point in known.values():
        seen(point, True)
    workers = 1 if plan.path is None else min(jobs or processors(), max(len(everything) - len(known), 1))
    pool = WorkerPool(workers, executor)
    work = partial(solve_point, plan.problem) if pool.alone else partial(_work, str(plan.path), plan.digest)
    for group in from_neighbours(plan.axes):
        missing = {i: _estimates(None if near is None else known[near]) for i, near in group.items() if i not in known}
        tasks = {i: (plan.variant, everything[i], near) for i, near in missing.items()}
        with closing(pool.answers(work, tasks)) as answers:  # workers end at once if this does
            for i, found in answers:
                died = "a worker process died, for want of memory perhaps"
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


# --- in the workers ---


def _work(path: str, expected: str, *task: Any) -> SweepPoint:
    """Solve a point in a worker."""
    with alone:
        return solve_point(problem_of(path, expected), *task)


@lru_cache(maxsize=1)
def problem_of(path: str, expected: str) -> Problem:
    """The problem of a file, if its digest is still what it was as the work began."""
    problem = load_problem(path)
    if digest(problem) != expected:
        raise ProblemError(f"{path} is not what it was when the work began; start it again")
    return problem


# --- points that are kept ---


@dataclass(frozen=True)
class Store:
    """The points in a folder that belong to one problem, its variant and these versions."""

    folder: Path
    identity: str
    """Digest of all that the points depend on beside their own values."""

    @classmethod
    def of(cls, folder: Path, plan: Plan) -> Store:
        """For the points of a plan."""
        everything = [plan.digest, repr(plan.variant), sorted(versions().items())]
        return cls(folder, hashlib.sha256(repr(everything).encode()).hexdigest())

    def get(self, values: Mapping[str, AxisValue]) -> SweepPoint | None:
        """The point if it was solved before, as it was."""
        try:
            tree = msgspec.json.decode(self._path(values).read_bytes())
            return _point_of(tree, values) if tree["identity"] == self.identity else None
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return None  # a file that is missing or damaged is a point to solve again

    def put(self, point: SweepPoint) -> None:
        """Keep a point, unless it failed: then a later run tries again."""
        if point.status is not None:
            tree = {"schema": SCHEMA, "identity": self.identity, **point_tree(point)}
            folders.write(self._path(point.values), tree)

    def _path(self, values: Mapping[str, AxisValue]) -> Path:
        words = ",".join(f"{name}={word(value)}" for name, value in values.items())
        legible = re.sub(r"[^\w=,.+-]", "_", words)[:_LONGEST]
        short = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]
        return self.folder / f"{legible}-{short}.json"


def point_tree(point: SweepPoint) -> dict[str, Any]:
    """A point as a file has it."""
    tree = asdict(point)
    return {**tree, "cost": {"total": point.cost.total, **tree["cost"]}}


def _point_of(tree: dict[str, Any], values: Mapping[str, AxisValue]) -> SweepPoint:
    """From `point_tree`; the values are as they were, not as JSON knows them."""
    ends = {"lower": -math.inf, "upper": math.inf}
    for node in tree["parameters"].values():
        node |= {name: end for name, end in ends.items() if node[name] is None}
    return msgspec.convert(with_nan({**tree, "values": values}), SweepPoint)


MARKER = "sweep.json"
_WIDTH = 120
"""Columns of ``sweep.txt``."""


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
    path = None if isinstance(problem, Problem) else whole_path(problem)
    loaded = problem if isinstance(problem, Problem) else load_problem(problem)
    variant = Variant(initial=dict(initial or {}), fixed=tuple(fixed)).at(settings, loaded)
    return run(plan(loaded, path, axes_of(over), variant), folder, jobs=jobs, executor=executor, seen=seen)


def begin(job: Job) -> Callable[[], Answer]:
    """The study ``sweep`` of a command."""
    axes = axes_of([axis(text) for text in job.arguments.over])
    planned, total = plan(job.declared, job.path, axes, job.variant), math.prod(len(one.values) for one in axes)

    def work() -> Answer:
        with job.counting(total, f"points of {job.label} are in {job.out}") as count:

            def seen(point: SweepPoint, before: bool) -> None:
                count(before, point.status is not None)

            found = run(planned, job.folder, jobs=job.arguments.jobs, executor=job.executor, seen=seen)
        return Answer(found.problem, sweep_table(found, job.columns), "", complaints=_complaints(found, job))

    return work


def _complaints(found: Sweep, job: Job) -> list[str]:
    if not found.unsettled:
        return []
    first = found.unsettled[0]
    reason = f": {first.message}" if first.status is None else ""
    return [
        f"{len(found.unsettled)} of {len(found.points)} points of {job.label} are not converged, the first at "
        f"{coordinates_of(first)} ({first.outcome}{reason}); {job.folder / 'sweep.csv'} has all"
    ]


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
        return run_sweep(plan, None, jobs, executor, told)
    place = folders.check_continued(folder, MARKER)
    folders.write(place / MARKER, answer(plan.sweep(()), complete=False).marker)
    result = run_sweep(plan, Store.of(place / "points", plan), jobs, executor, told)
    found = answer(result)
    for name, content in {**found.files, MARKER: found.marker}.items():
        folders.write(place / name, content)
    return result


def answer(sweep: Sweep, complete: bool = True) -> Answer:
    """With ``sweep.csv``, ``sweep.txt`` and figures, if it is complete."""
    from spookid.studies import sweep_plot  # Matplotlib takes a while to load

    figures = sweep_plot.figures(sweep) if complete else []
    names = ["sweep.png"] if len(figures) == 1 else [f"sweep-{i + 1}.png" for i in range(len(figures))]
    files: dict[str, folders.Content] = {n: partial(pictures.save, f) for n, f in zip(names, figures, strict=True)}
    if complete:
        files |= {"sweep.csv": comma_separated(sweep), "sweep.txt": sweep_table(sweep, _WIDTH)}
    facts = {
        "complete": complete,
        "axes": sweep.axes,
        "settings": sweep.variant.settings,
        "initial": sweep.variant.initial,
        "fixed": sweep.variant.fixed,
        "points": [point_tree(point) for point in sweep.points],
        folders.FILES: [MARKER, *files, "points"],
    }
    unsettled = [f"{coordinates_of(point)}: {point.outcome}. {point.message}" for point in sweep.unsettled]
    conclusion, notices = _conclusion(sweep, complete), [*unsettled, *doubted(sweep)]
    blocks = sweep.blocks()[1:2]
    return Answer(sweep.problem, "", conclusion, blocks, facts, sweep.assumptions, notices, files)


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
