"""Several starts: initial values drawn at random, a solve from each, and the minima where they end.

Each start is a point of a sweep over ``start``, so that they are solved in parallel, kept, and gone on with. The answer
is the best that converged; where workers have found it, it is solved once more in whole. (Its figure is the waterfall
plot of Raue et al., PLoS ONE 8, 2013.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from spookid.argument_checks import is_whole
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError, shown
from spookid.results.result import Solution
from spookid.results.values import Basin
from spookid.solvers.status import Callback, Status
from spookid.studies import sweeping
from spookid.studies.job import Source
from spookid.studies.sweep_points import Sweep, SweepPoint, axes_of, grid_points, solved_at
from spookid.studies.sweeping import Plan, Seen, Store
from spookid.studies.variants import START, Variant
from spookid.tables.table import number

_SAME = 0.5
"""Difference of log-likelihoods within which two answers are one, which noise changes by as much."""
_SHARE = 1e-3
"""The same of costs without a likelihood, as a share."""


def basins(sweep: Sweep) -> tuple[Basin, ...]:
    """Groups of starts that reached the same minimum, the best first; starts that did not converge are last."""
    groups: list[list[SweepPoint]] = []
    for point in sorted(sweep.points, key=_rank):
        alike = (group for group in groups if point.converged and _same(group[0], point))
        if (own := next(alike, None)) is not None:
            own.append(point)
        else:
            groups.append([point])
    return tuple(_basin(group, groups[0][0]) for group in groups)


def _rank(point: SweepPoint) -> tuple[bool, bool, float, float]:
    """The converged first, of these the more likely, or the less costly of those without a likelihood."""
    likely = point.log_likelihood
    cost = -likely if math.isfinite(likely) else point.cost.total
    known = math.isfinite(cost)
    return not point.converged, not known, cost if known else 0.0, float(point.values[START])


def _same(one: SweepPoint, other: SweepPoint) -> bool:
    """True if both are one minimum: as good, and estimates that are seen within their errors."""
    a, b = one.log_likelihood, other.log_likelihood
    if math.isfinite(a) and math.isfinite(b):
        if abs(a - b) > _SAME:
            return False
    elif abs(one.cost.total - other.cost.total) > _SHARE * abs(one.cost.total):
        return False
    for name, estimate in one.parameters.items():
        errors = [e for e in (estimate.std_err, other.parameters[name].std_err) if math.isfinite(e)]
        if errors and abs(estimate.estimate - other.parameters[name].estimate) > max(errors):
            return False
    return True


def _basin(points: Sequence[SweepPoint], best: SweepPoint) -> Basin:
    first = points[0]
    worse = [_worse(first, best)] if first is not best and first.converged else []
    return Basin(
        outcome=first.outcome,
        starts=tuple(int(point.values[START]) for point in points),
        costs=tuple(point.cost.total for point in points),
        log_likelihoods=tuple(point.log_likelihood for point in points),
        parameters={name: e.estimate for name, e in first.parameters.items() if not e.fixed},
        message=" ".join([first.message, *worse, *first.notices]),
    )


def _worse(point: SweepPoint, best: SweepPoint) -> str:
    """By how much a minimum is worse than the best one."""
    less = best.log_likelihood - point.log_likelihood
    if less <= _SAME:
        return "This optimum is as likely as the best, with other estimates: the data do not distinguish both."
    if math.isfinite(less):
        return f"This is a local optimum: its log-likelihood is {number(less, 3)} below the best optimum."
    times = point.cost.total / max(best.cost.total, 1e-300)
    return f"This is a local minimum: its cost is {number(times, 3)} times the cost of the best minimum."


def planned(source: Source, count: int, seed: int) -> Plan:
    """Make several starts of a problem, with random initial values.

    Raises:
        ProblemError: for fewer than two, an invalid seed, or initial values that cannot be drawn.
    """
    for what, value, least in (("starts", count, 2), ("seed", seed, 0)):
        if not is_whole(value) or value < least:
            place = source.problem.place
            raise ProblemError(f"{place}: {what} is {shown(value)}; give a whole number from {least} on")
    seeded = replace(source, variant=replace(source.variant, seed=seed))
    seeded.variant.at({START: 1.0}, source.problem)  # refused once, not start by start
    return sweeping.plan(seeded, axes_of({START: [float(i) for i in range(count)]}))


def searched(
    plan: Plan, folder: Path | None, jobs: int | None, executor: Executor | None, seen: Seen
) -> tuple[dict[str, float], tuple[Basin, ...]]:
    """Return the initial values of the best start, and the results of all starts.

    Args:
        folder: where starts are kept as they are solved; None keeps none.
        jobs, executor, seen: as of ``sweeping.run_sweep``.

    Raises:
        ProblemError: if no start has an answer, or as ``sweeping.run_sweep``.
    """
    source, store = plan.source, None if folder is None else Store(folder, plan.source.identity())
    found = basins(sweeping.run_sweep(plan, store, jobs, executor, seen))
    best = next((one for one in found if one.outcome != "failed"), None)
    if best is None:
        raise _none(source.problem, found[0].message)
    return dict(source.variant.at({START: float(best.starts[0])}, source.problem).initial), found


def from_starts(
    problem: Problem,
    count: int,
    seed: int,
    backend: str,
    options: Mapping[str, Any],
    callback: Callback | None,
    warm_start: object,
) -> Solution:
    """Solve several starts one after another in this process, and return the best solution with all results. After
    Ctrl-C, the best finished start is returned, marked as interrupted.

    Args:
        callback: called with every accepted iterate of each start.

    Raises:
        ProblemError: for a warm start beside them, if no start has an answer, or as ``planned``.
        Exception: what the callback raises.
        KeyboardInterrupt: if that came before there was any answer.
    """
    if warm_start is not None:
        raise ProblemError(f"{problem.place}: starts and warm_start are two beginnings; leave one out")
    plan = planned(Source(problem, None, Variant(settings={"backend": backend, **options})), count, seed)
    points: list[SweepPoint] = []
    best: tuple[SweepPoint, Solution] | None = None
    try:
        for values in grid_points(plan.axes):
            point, found = solved_at(problem, plan.source.variant, values, callback)
            if point.status is Status.INTERRUPTED:
                best = best or (None if found is None else (point, found))
                raise KeyboardInterrupt
            points.append(point)
            if found is not None and (best is None or _rank(point) < _rank(best[0])):
                best = point, found
    except KeyboardInterrupt:
        if best is None:
            raise
        cut = {"status": Status.INTERRUPTED, "detail": f"after {len(points)} of {count} starts"}
        return best[1].changed(**cut, basins=basins(plan.sweep(tuple(points))))
    if best is None:
        raise _none(problem, points[0].message)
    return best[1].changed(basins=basins(plan.sweep(tuple(points))))


def _none(problem: Problem, message: str) -> ProblemError:
    return ProblemError(f"{problem.place}: no start can be solved; the first says: {message}")
