"""Sweeps: a problem solved over a grid of settings and parameters, in parallel, and continued where it was left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np

from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import load_problem
from spookid.errors import ProblemError
from spookid.kernels.threads import processors
from spookid.report import sweep_folder
from spookid.studies.axes import Axis, Choice, axes_of, grid
from spookid.studies.settings import Variant, digest
from spookid.studies.sweep_points import Point, Sweep, failed, solve_point
from spookid.studies.workers import processes
from spookid.version import __version__

Over = Mapping[str, Iterable[Choice]] | Sequence[Axis]
Seen = Callable[[Point, bool], None]
"""Called with each point of a sweep as it is known, and whether it was known before."""

_alone = threading.Lock()


def sweep(
    problem: Declaration | str | os.PathLike[str],
    over: Over,
    *,
    folder: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    seen: Seen | None = None,
    initial: Mapping[str, float] | None = None,
    fixed: Iterable[str] = (),
    **settings: Choice,
) -> Sweep:
    """Solve a problem at every point of a grid.

    Args:
        problem: the path of a problem file, ``PROBLEM.py`` or ``PROBLEM.py::key``. Worker processes load it themselves;
            a Problem cannot be sent to them, so the points of one are solved one after another in this process.
        over: values by the name of a setting (``step``, ``state_weight``, ``friction_width``, ``cutoff``, ``stepper``,
            ``friction``, ``backend``, ``max_iterations`` ...) or of a parameter, which is held at them.
        folder: where to keep every point as it is solved, and the tables and figures at the end; a sweep that was
            begun there goes on. None keeps nothing.
        jobs: worker processes; by default as many as there are processors. They are started afresh, so a script that
            calls this needs its ``if __name__ == "__main__":``.
        executor: any executor of ``concurrent.futures`` in the place of worker processes, such as one of a cluster.
            Its workers must find the problem file at the same path.
        seen: called with each point as it is known.
        initial, fixed: guesses and parameters to hold at all points, as in ``Problem``.
        settings: settings at all points, texts and numbers as in ``over``.

    Raises:
        ProblemError: for an axis that is none, a value that the problem refuses, or a folder of something else.
    """
    path = None if isinstance(problem, Declaration) else _absolute(problem)
    loaded = problem if isinstance(problem, Declaration) else load_problem(problem)
    variant = Variant(initial=dict(initial or {}), fixed=tuple(fixed)).at(settings, loaded)
    return run(plan(loaded, path, axes_of(over), variant), folder, jobs=jobs, executor=executor, seen=seen)


@dataclass(frozen=True, eq=False)
class Plan:
    """A sweep that can be run."""

    problem: Declaration
    path: str | None
    """Where workers find it, ``PROBLEM.py::key`` with an absolute path; None if only this process has it."""
    axes: tuple[Axis, ...]
    variant: Variant
    """What is changed at all points."""
    digest: str
    """Of the problem."""


def plan(problem: Declaration, path: str | None, axes: tuple[Axis, ...], variant: Variant) -> Plan:
    """A plan whose points the problem accepts.

    Raises:
        ProblemError: for the first that it does not, or a problem that has nothing to fit.
    """
    if not (problem.recordings and problem.observations):
        raise ProblemError(f"{problem.place}: Problem {problem.name!r} has no recordings or observations to fit")
    for values in grid(axes):
        variant.at(values, problem).posed(problem)
    return Plan(problem, path, axes, variant, digest(problem))


def run(
    plan: Plan,
    folder: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    seen: Seen | None = None,
) -> Sweep:
    """Solve the points of a plan that its folder does not hold; arguments and errors as of `sweep`."""
    if executor is not None and plan.path is None:
        raise ProblemError(
            f"{plan.problem.place}: Problem {plan.problem.name!r} cannot be sent to an executor; give the path of a "
            "problem file"
        )
    if jobs is not None and jobs < 1:
        raise ProblemError(f"jobs is {jobs}; give 1, 2, 3 ...")
    versions = {"spookid": __version__, "casadi": ca.__version__, "numpy": np.__version__}
    store = None
    if folder is not None:
        store = sweep_folder.opened(folder, plan.problem.name, plan.axes, plan.variant, versions, plan.digest)
    points = _points(plan, store, jobs, executor, seen or (lambda point, before: None))
    result = Sweep(plan.problem.name, plan.axes, points, plan.variant, versions)
    if store is not None:
        sweep_folder.save(store.folder, result)
    return result


def _points(
    plan: Plan, store: sweep_folder.Store | None, jobs: int | None, executor: Executor | None, seen: Seen
) -> tuple[Point, ...]:
    """All points, in the order of the grid."""
    everything = grid(plan.axes)
    known = {i: point for i, values in enumerate(everything) if store and (point := store.get(values))}
    for point in known.values():
        seen(point, True)
    missing = {i: values for i, values in enumerate(everything) if i not in known}
    with closing(_solved(plan, missing, jobs, executor)) as solved:  # workers end at once if this does
        for i, point in solved:
            if store is not None:
                store.put(point)
            known[i] = point
            seen(point, False)
    return tuple(known[i] for i in range(len(everything)))


def _solved(
    plan: Plan, missing: Mapping[int, Mapping[str, Choice]], jobs: int | None, executor: Executor | None
) -> Generator[tuple[int, Point], None, None]:
    """Numbers and points, as they come."""
    workers = min(jobs or processors(), len(missing))
    if plan.path is None or (executor is None and workers <= 1):
        for i, values in missing.items():
            yield i, solve_point(plan.problem, plan.variant, values)
        return
    own: AbstractContextManager[Executor] = processes(workers) if executor is None else nullcontext(executor)
    with own as pool:
        futures = {
            pool.submit(_work, _Task(plan.path, plan.digest, plan.variant, values)): i for i, values in missing.items()
        }
        try:
            sweep_folder.warm_up()
            for future in as_completed(futures):
                i = futures[future]
                yield i, _answer(future, missing[i])
        finally:
            for future in futures:
                future.cancel()


def _answer(future: Future[Point], values: Mapping[str, Choice]) -> Point:
    try:
        return future.result()
    except ProblemError:
        raise  # the file cannot be loaded any more
    except BrokenExecutor:
        return failed(values, "a worker process died, for want of memory perhaps")
    except Exception as error:  # a cluster loses workers, and tells so in its own types
        return failed(values, f"{type(error).__name__}: {error}")


# --- in the workers ---


@dataclass(frozen=True)
class _Task:
    path: str
    digest: str
    """Of the problem as the sweep began."""
    variant: Variant
    values: Mapping[str, Choice]


def _work(task: _Task) -> Point:
    """Solve a point in a worker."""
    with _alone:  # CasADi's symbols do not bear threads, which some executors use
        return solve_point(_problem(task.path, task.digest), task.variant, task.values)


@lru_cache(maxsize=1)
def _problem(path: str, expected: str) -> Declaration:
    problem = load_problem(path)
    if digest(problem) != expected:
        raise ProblemError(f"{path} is not what it was when the sweep began; start the sweep again")
    return problem


def _absolute(path: str | os.PathLike[str]) -> str:
    name, pick, key = os.fspath(path).partition("::")
    return os.path.abspath(name) + pick + key
