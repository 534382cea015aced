"""What a sweep finds: a short answer at every point of a grid of settings and parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.results.result import Cost, Estimate, Solution
from spookid.solvers.status import Callback, Status
from spookid.studies.variants import UNITS, Axis, AxisValue, Variant
from spookid.tables.table import Block, Listed, Table, Tabular, as_text, labelled, number, side_by_side, uncertain

_MOST = 6
"""Doubts that are told."""
_UNKNOWN = Cost(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class SweepPoint(Listed):
    """One solve of a sweep."""

    values: Mapping[str, AxisValue]
    """Of the axes, by their names."""
    status: Status | None
    """None if there is no solution, because an error kept the solve from its end."""
    message: str
    """How the solve ended; the error if there is no solution."""
    iterations: int
    cost: Cost
    parameters: Mapping[str, Estimate]
    seconds: float
    """Wall time of the whole solve [s]."""
    log_likelihood: float = math.nan
    """NaN with a given state weight."""
    notices: tuple[str, ...] = ()
    """Those of the solution that put it in doubt."""

    @property
    def converged(self) -> bool:
        """True if it can be relied on."""
        return self.status is Status.CONVERGED

    @property
    def outcome(self) -> str:
        """The status in a word."""
        return "failed" if self.status is None else self.status.value


@dataclass(frozen=True, repr=False)
class Sweep(Tabular):
    """A problem solved at every point of a grid."""

    problem: str
    axes: tuple[Axis, ...]
    points: tuple[SweepPoint, ...]
    """One for every combination of the axes' values, the last axis changing fastest."""
    variant: Variant
    """What was changed at all points alike."""
    versions: Mapping[str, str]
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words, of what is no axis."""

    def __repr__(self) -> str:
        return f"<{_title(self)}>"

    @property
    def estimated(self) -> dict[str, str]:
        """Units of the parameters that are estimated at one point at least, by name."""
        estimates = [estimate for point in self.points for estimate in point.parameters.values()]
        return {estimate.name: estimate.unit for estimate in estimates if not estimate.fixed}

    @property
    def likely(self) -> bool:
        """True if every point that was solved has a likelihood."""
        solved = [point for point in self.points if point.status is not None]
        return bool(solved) and all(math.isfinite(point.log_likelihood) for point in solved)

    def unit(self, name: str) -> str:
        """Unit of an axis; empty if it has none."""
        estimates = (point.parameters[name] for point in self.points if name in point.parameters)
        return UNITS.get(name, "") or next((estimate.unit for estimate in estimates), "")

    @property
    def unsettled(self) -> tuple[SweepPoint, ...]:
        """Points that failed or did not converge."""
        return tuple(point for point in self.points if not point.converged)

    def __str__(self) -> str:
        return sweep_table(self, 100)

    def blocks(self) -> Sequence[Block]:
        """Title, one table, and what failed."""
        return _blocks(self, 10**6)

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each point: values of the axes, outcome, cost, estimates and their standard errors."""
        return [self._record(point) for point in self.points]

    def _record(self, point: SweepPoint) -> dict[str, Any]:
        found = {name: point.parameters.get(name) for name in self.estimated}
        estimates = {name: e.estimate if e else math.nan for name, e in found.items()}
        errors = {f"{name}_std_err": e.std_err if e else math.nan for name, e in found.items()}
        facts = {"status": point.outcome, "iterations": point.iterations, "cost": point.cost.total}
        return {**point.values, **facts, "log_likelihood": point.log_likelihood, **estimates, **errors}


def solve_point(
    problem: Problem, variant: Variant, values: Mapping[str, AxisValue], near: Mapping[str, float] | None = None
) -> SweepPoint:
    """Solve a variant of ``problem`` at a point of the grid; whatever goes wrong is in the answer.

    Args:
        near: estimates of a neighbour to begin from; if that does not converge, the variant's own guesses do.

    Raises:
        KeyboardInterrupt: if the solve was interrupted.
    """
    began = time.perf_counter()
    found = None
    if near:
        found, _ = solved_at(problem, replace(variant, initial={**variant.initial, **near}), values)
    if found is None or not (found.converged or found.status is Status.INTERRUPTED):
        found, _ = solved_at(problem, variant, values)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # no answer that a sweep could keep
    return replace(found, seconds=time.perf_counter() - began)


def solved_at(
    problem: Problem, variant: Variant, values: Mapping[str, AxisValue], callback: Callback | None = None
) -> tuple[SweepPoint, Solution | None]:
    """The answer at a point and the solution, if there is one; both may be interrupted."""
    try:
        changed, backend, options = variant.at(values, problem).posed(problem)
        s = solve(changed, backend, options, callback)
    except ProblemError as error:
        return failed(values, str(error)), None
    except Exception as error:  # one point must not cost the others
        return failed(values, f"{type(error).__name__}: {error}"), None
    known = {name: e.changed(step_error=math.nan) for name, e in s.parameters.items()}  # no table asks for it
    doubts = tuple(finding.text for finding in s.findings if finding.doubts)
    return SweepPoint(values, s.status, s.message, s.iterations, s.cost, known, math.nan, s.log_likelihood, doubts), s


def failed(values: Mapping[str, AxisValue], message: str) -> SweepPoint:
    """A point without a solution."""
    return SweepPoint(values, None, " ".join(message.split()), 0, _UNKNOWN, {}, math.nan)


# --- as text ---


def sweep_table(sweep: Sweep, width: int) -> str:
    """Axes, outcome, iterations, cost, likelihood and estimates of every point, in as many blocks as ``width`` asks."""
    blocks = _blocks(sweep, width)
    return as_text(block.text(indent="  ") if isinstance(block, Table) else block for block in blocks)


def _blocks(sweep: Sweep, width: int) -> list[Block]:
    points = sweep.points
    axes = [
        [labelled(one.name, sweep.unit(one.name)), *(word(p.values[one.name]) for p in points)] for one in sweep.axes
    ]
    facts = [
        ["iterations", *(str(p.iterations) if p.status else "-" for p in points)],
        ["cost", *(_known(p.cost.total) for p in points)],
    ]
    if any(math.isfinite(p.log_likelihood) for p in points):
        facts.append(["log-likelihood", *(_known(p.log_likelihood, ".1f") for p in points)])
    if sweep.unsettled:
        facts.insert(0, ["status", *(p.outcome for p in points)])
    for name, unit in sweep.estimated.items():
        facts.append([labelled(name, unit), *(_estimate(p.parameters.get(name)) for p in points)])
    failures = [f"  {coordinates_of(point)}: {point.message}" for point in points if point.status is None]
    said = ["\n".join(["Failed", *failures])] if failures else []
    doubts = [f"  {line}" for line in doubted(sweep)]
    said += ["\n".join(["In doubt", *doubts])] if doubts else []
    return [_title(sweep), *side_by_side(axes, facts, width), *said]


def doubted(sweep: Sweep) -> list[str]:
    """What puts answers in doubt, of the first few points and their number."""
    doubts = [f"{coordinates_of(point)}: {notice}" for point in sweep.points for notice in point.notices]
    more = [f"... and {len(doubts) - _MOST} more"] if len(doubts) > _MOST else []
    return [*doubts[:_MOST], *more]


def comma_separated(sweep: Sweep) -> str:
    """A line for every point, numbers in full, empty where one is not known."""
    names = list(sweep.estimated)
    costs = ["cost", "cost_state", "cost_observation", "cost_prior", "log_likelihood"]
    head = [one.name for one in sweep.axes] + ["status", "iterations", *costs]
    rows = []
    for point in sweep.points:
        cost, found = point.cost, [point.parameters.get(name) for name in names]
        numbers = [cost.total, cost.state, cost.observation, cost.prior, point.log_likelihood]
        numbers += [value for e in found for value in ((e.estimate, e.std_err) if e else (math.nan, math.nan))]
        cells = [repr(value) if math.isfinite(value) else "" for value in numbers]
        values = [value if isinstance(value, str) else repr(value) for value in point.values.values()]
        rows.append([*values, point.outcome, str(point.iterations) if point.status else "", *cells])
    return Table(head + [title for name in names for title in (name, f"{name}_std_err")], rows).csv()


def word(value: AxisValue, digits: int = 6) -> str:
    """A value of an axis in words."""
    return value if isinstance(value, str) else number(value, digits)


def coordinates_of(point: SweepPoint) -> str:
    """Where in the grid a point is, in words."""
    return ", ".join(f"{name} = {word(value)}" for name, value in point.values.items())


def _title(sweep: Sweep) -> str:
    sizes = " x ".join(f"{len(one.values)} of {one.name}" for one in sweep.axes)
    bad = f", {len(sweep.unsettled)} of them not converged" if sweep.unsettled else ""
    return f"Sweep of {sweep.problem}: {sizes}, {len(sweep.points)} points{bad}"


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    mark = " (held)" if estimate.fixed else " (bound)" if estimate.at_bound else ""
    return uncertain(estimate.estimate, estimate.std_err) + mark


def _known(value: float, layout: str = "") -> str:
    return (format(value, layout) if layout else number(value)) if math.isfinite(value) else "-"
