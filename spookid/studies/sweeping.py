"""Solving the points of a sweep: in parallel, each kept in a file once it is solved, so that a sweep can go on."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import load_declaration
from spookid.errors import ProblemError
from spookid.kernels.thread_pool import processors
from spookid.results import folders
from spookid.results.folders import SCHEMA, versions, with_nan
from spookid.studies.assumptions import assumed
from spookid.studies.axes import Axis, AxisValue, from_neighbours, grid_points
from spookid.studies.settings import Variant, digest
from spookid.studies.sweep_points import Sweep, SweepPoint, failed, solve_point, word
from spookid.studies.worker_pool import Lost, WorkerPool

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

    problem: Declaration
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


def plan(problem: Declaration, path: str | None, axes: tuple[Axis, ...], variant: Variant) -> Plan:
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
def problem_of(path: str, expected: str) -> Declaration:
    """The problem of a file, if its digest is still what it was as the work began."""
    problem = load_declaration(path)
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
