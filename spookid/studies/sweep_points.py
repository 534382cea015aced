"""Grids of settings and parameters, also as texts of the command line, and what a sweep finds at their points."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.results.result import Cost, Estimate, Solution
from spookid.solvers.status import Callback, Status
from spookid.studies.variants import START, AxisValue, Variant, estimator_line
from spookid.tables.table import Block, Listed, Table, Tabular, as_text, labelled, number, side_by_side, uncertain

_NAME = re.compile(r"[^\W\d]\w*(\[.+\])?")
"""Of a setting or a parameter, perhaps that of one recording."""
_RANGE = re.compile(r"(?P<first>[^:]*):(?P<last>[^:]*):(?P<count>\d+)(?P<log>log)?")
_MOST_POINTS = 100_000
_HOW = "give NAME=a:b:n for n values from a to b, NAME=a:b:nlog for evenly spaced logarithms, or NAME=a,b,c"
_UNITS = {"step": "s", "friction_width": "rad/s", "cutoff": "Hz"}
_UNKNOWN = Cost(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Axis:
    """One axis of the grid of a sweep: a parameter or setting, and its values."""

    name: str
    """Of a setting or of a parameter."""
    values: tuple[AxisValue, ...]
    """In the order given, all different."""

    @property
    def is_numeric(self) -> bool:
        """True if all values are finite numbers."""
        return all(isinstance(value, float) and math.isfinite(value) for value in self.values)

    @property
    def is_logarithmic(self) -> bool:
        """True if the values are closer to geometric than to even spacing."""
        if not self.is_numeric or len(self.values) < 3:
            return False
        values = np.sort(np.array(self.values, dtype=np.float64))
        if values[0] <= 0:
            return False
        uneven = (np.ptp(np.diff(x)) / np.ptp(x) for x in (np.log(values), values))
        return bool(next(uneven) < next(uneven))


def axis(text: str) -> Axis:
    """Parse an axis of the form ``NAME=a:b:n``, ``NAME=a:b:nlog`` or ``NAME=a,b,c``.

    Raises:
        ProblemError: if the text is none of these.
    """
    name, _, values = text.partition("=")
    if not (_NAME.fullmatch(name) and values):
        raise ProblemError(f"{text!r} is no axis; {_HOW}")
    match = _RANGE.fullmatch(values)
    if match is None:
        parts = [part.strip() for part in values.split(",")]
        if any(not part or ":" in part for part in parts):
            raise ProblemError(f"{text!r} is no axis; {_HOW}")
        found = [part if (value := _read(part)) is None else value for part in parts]
        if any(isinstance(value, float) and math.isnan(value) for value in found):
            raise ProblemError(f"{text!r} has a value that is no number; {_HOW}")
        return Axis(name, _distinct(text, found))
    ends, count = [_read(match[end]) for end in ("first", "last")], int(match["count"])
    for end, value in zip(("first", "last"), ends, strict=True):
        if value is None or not math.isfinite(value):
            raise ProblemError(f"{text!r}: {match[end]!r} is no finite number; {_HOW}")
    first, last = (float(value or 0.0) for value in ends)
    if not 2 <= count <= _MOST_POINTS:
        raise ProblemError(f"{text!r} has {count} values; give 2 to {_MOST_POINTS:,}")
    if match["log"] and not min(first, last) > 0:
        raise ProblemError(f"{text!r}: values with evenly spaced logarithms must be positive")
    spaced = (np.geomspace if match["log"] else np.linspace)(first, last, count)
    return Axis(name, _distinct(text, [float(f"{value:.12g}") for value in spaced]))  # without round-off


def axes_of(over: Mapping[str, Iterable[AxisValue]] | Sequence[Axis]) -> tuple[Axis, ...]:
    """Convert a mapping of names to values into axes; axes are returned unchanged.

    Raises:
        ProblemError: for no axis, an axis without values, one value twice on an axis, or two axes of one name.
    """
    if isinstance(over, Mapping):
        axes = tuple(
            Axis(name, _distinct(name, [_value(value, name) for value in values])) for name, values in over.items()
        )
    else:
        axes = tuple(over)
    if not axes:
        raise ProblemError(f"a sweep needs an axis; {_HOW}")
    names = [one.name for one in axes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ProblemError(f"{twice!r} is swept twice; put all its values into one axis")
    if math.prod(len(one.values) for one in axes) > _MOST_POINTS:
        raise ProblemError(f"the grid has more than {_MOST_POINTS:,} points; give fewer values per axis")
    return axes


def grid_points(axes: Sequence[Axis]) -> list[dict[str, AxisValue]]:
    """All combinations of the axes' values; values of the last axis change fastest."""
    names = [one.name for one in axes]
    return [dict(zip(names, values, strict=True)) for values in product(*(one.values for one in axes))]


def from_neighbours(axes: Sequence[Axis]) -> list[dict[int, int | None]]:
    """Order of all grid points in successive groups; each point is paired with a neighbour in an earlier group, whose
    solution is its initial value, or None.

    Along an axis of numbers the middle comes first, then the middles of both halves, and so on, so that groups grow.
    Points that differ in a text, or in the number of a random start, are no neighbours.
    """
    trees = [_halved(len(one.values)) if one.is_numeric and one.name != START else None for one in axes]
    sizes, groups = [len(one.values) for one in axes], dict[int, dict[int, int | None]]()
    for point, place in enumerate(product(*map(range, sizes))):
        depths = [0 if tree is None else tree[at][0] for tree, at in zip(trees, place, strict=True)]
        deepest, near = int(np.argmax(depths)), list(place)
        if (tree := trees[deepest]) is not None:
            near[deepest] = tree[place[deepest]][1]
        own = int(np.ravel_multi_index(near, sizes)) if any(depths) else None
        groups.setdefault(sum(depths), {})[point] = own
    return [groups[depth] for depth in sorted(groups)]


def _halved(count: int) -> list[tuple[int, int]]:
    """Depth of each place in a tree of halves, and the place above it."""
    found, parts = [(0, 0)] * count, [(0, count, 0, 0)]
    while parts:
        first, last, above, depth = parts.pop()
        if first < last:
            middle = (first + last) // 2
            found[middle] = depth, above
            parts += [(first, middle, middle, depth + 1), (middle + 1, last, middle, depth + 1)]
    return found


def _distinct(what: str, values: Sequence[AxisValue]) -> tuple[AxisValue, ...]:
    if not values:
        raise ProblemError(f"{what!r} has no values; {_HOW}")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ProblemError(f"{what!r} has the value {twice!r} twice; give each once")
    return tuple(values)


def _value(value: object, name: str) -> AxisValue:
    found = value if isinstance(value, str) else _read(value)
    if found is None:
        raise ProblemError(f"{name!r} has the value {value!r}; an axis takes numbers and texts")
    return found


def _read(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


# --- what is found ---


@dataclass(frozen=True)
class SweepPoint(Listed):
    """One solve of a sweep."""

    values: Mapping[str, AxisValue]
    """Values of the axes, by their names."""
    status: Status | None
    """None if there is no solution, because an error kept the solve from its end."""
    message: str
    """Message of the solve; the error if there is no solution."""
    iterations: int
    cost: Cost
    parameters: Mapping[str, Estimate]
    seconds: float
    """Wall time of the whole solve [s]."""
    log_likelihood: float = math.nan
    """NaN with a given `state_weight`."""
    notices: tuple[str, ...] = ()
    """Warnings of the solution that put it in doubt."""

    @property
    def converged(self) -> bool:
        """True if the solve at this point converged."""
        return self.status is Status.CONVERGED

    @property
    def outcome(self) -> str:
        """The status in a word."""
        return "failed" if self.status is None else self.status.value

    @property
    def place(self) -> str:
        """Coordinates of the grid point, as text."""
        return ", ".join(f"{name} = {word(value)}" for name, value in self.values.items())


@dataclass(frozen=True, repr=False)
class Sweep(Tabular):
    """Solutions of a problem at every point of a grid.

    >>> [axis.name for axis in sweep(problem, {"step": [0.01, 0.02]}, jobs=1).axes]
    ['step']
    """

    problem: str
    axes: tuple[Axis, ...]
    points: tuple[SweepPoint, ...]
    """One for every combination of the axes' values, the last axis changing fastest."""
    variant: Variant
    """Changes at all points."""
    versions: Mapping[str, str]
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words, of what is no axis."""

    def __repr__(self) -> str:
        return f"<{self._title}>"

    @property
    def _title(self) -> str:
        sizes = " x ".join(f"{len(one.values)} of {one.name}" for one in self.axes)
        bad = f", {len(self.unsettled)} of them not converged" if self.unsettled else ""
        return f"Sweep of {self.problem}: {sizes}, {len(self.points)} points{bad}"

    @property
    def estimated(self) -> dict[str, str]:
        """Dict from name to unit of the parameters that are estimated at one grid point at least."""
        estimates = [estimate for point in self.points for estimate in point.parameters.values()]
        return {estimate.name: estimate.unit for estimate in estimates if not estimate.fixed}

    @property
    def likely(self) -> bool:
        """True if every solved point has a likelihood."""
        solved = [point for point in self.points if point.status is not None]
        return bool(solved) and all(math.isfinite(point.log_likelihood) for point in solved)

    def unit(self, name: str) -> str:
        """Unit of the axis; empty if it has none."""
        estimates = (point.parameters[name] for point in self.points if name in point.parameters)
        return _UNITS.get(name, "") or next((estimate.unit for estimate in estimates), "")

    @property
    def unsettled(self) -> tuple[SweepPoint, ...]:
        """Points that failed or did not converge."""
        return tuple(point for point in self.points if not point.converged)

    @property
    def doubted(self) -> list[str]:
        """Warnings at the first few points with warnings, and the number of such points."""
        doubts = [f"{point.place}: {notice}" for point in self.points for notice in point.notices]
        return [*doubts[:6], *([f"... and {len(doubts) - 6} more"] if len(doubts) > 6 else [])]

    def __str__(self) -> str:
        return self.text(100)

    def text(self, width: int) -> str:
        """Table of all points: axes, status, iterations, cost, likelihood and estimates, split to fit ``width``."""
        blocks = self._blocks(width)
        return as_text(block.text(indent="  ") if isinstance(block, Table) else block for block in blocks)

    def blocks(self) -> Sequence[Block]:
        """Title, a table of all points, and the errors of failed points."""
        return self._blocks(10**6)

    def _blocks(self, width: int) -> list[Block]:
        points = self.points
        axes = [[labelled(a.name, self.unit(a.name)), *(word(p.values[a.name]) for p in points)] for a in self.axes]
        facts = [
            ["iterations", *(str(p.iterations) if p.status else "-" for p in points)],
            ["cost", *(number(p.cost.total) if math.isfinite(p.cost.total) else "-" for p in points)],
        ]
        likely = [f"{p.log_likelihood:.1f}" if math.isfinite(p.log_likelihood) else "-" for p in points]
        facts += [["log-likelihood", *likely]] if any(one != "-" for one in likely) else []
        if self.unsettled:
            facts.insert(0, ["status", *(p.outcome for p in points)])
        for name, unit in self.estimated.items():
            facts.append([labelled(name, unit), *(_estimate(p.parameters.get(name)) for p in points)])
        failures = [f"{point.place}: {point.message}" for point in points if point.status is None]
        said = {"Failed": failures, "In doubt": self.doubted}
        told = ["\n".join([head, *(f"  {line}" for line in lines)]) for head, lines in said.items() if lines]
        return [self._title, *estimator_line(self.assumptions), *side_by_side(axes, facts, width), *told]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each point: values of the axes, outcome, cost, estimates and their standard errors."""
        return [self._record(point) for point in self.points]

    def _record(self, point: SweepPoint) -> dict[str, Any]:
        found = {name: point.parameters.get(name) for name in self.estimated}
        estimates = {name: e.estimate if e else math.nan for name, e in found.items()}
        errors = {f"{name}_std_err": e.std_err if e else math.nan for name, e in found.items()}
        facts = {"status": point.outcome, "iterations": point.iterations, "cost": point.cost.total}
        return {**point.values, **facts, "log_likelihood": point.log_likelihood, **estimates, **errors}

    def csv(self) -> str:
        """CSV text with one line per point in full precision, empty fields for unknown values."""
        names = list(self.estimated)
        costs = ["cost", "cost_state", "cost_observation", "cost_prior", "log_likelihood"]
        head = [one.name for one in self.axes] + ["status", "iterations", *costs]
        rows = []
        for point in self.points:
            cost, found = point.cost, [point.parameters.get(name) for name in names]
            numbers = [cost.total, cost.state, cost.observation, cost.prior, point.log_likelihood]
            numbers += [value for e in found for value in ((e.estimate, e.std_err) if e else (math.nan, math.nan))]
            cells = [repr(value) if math.isfinite(value) else "" for value in numbers]
            values = [value if isinstance(value, str) else repr(value) for value in point.values.values()]
            rows.append([*values, point.outcome, str(point.iterations) if point.status else "", *cells])
        return Table(head + [title for name in names for title in (name, f"{name}_std_err")], rows).csv()


def word(value: AxisValue, digits: int = 6) -> str:
    """Format a value of an axis as text."""
    return value if isinstance(value, str) else number(value, digits)


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    mark = " (held)" if estimate.fixed else " (bound)" if estimate.at_bound else ""
    return uncertain(estimate.estimate, estimate.std_err) + mark


# --- how it is found ---


def solve_point(
    problem: Problem, variant: Variant, values: Mapping[str, AxisValue], near: Mapping[str, float] | None = None
) -> SweepPoint:
    """Solve a variant of ``problem`` at a grid point; errors are stored in the answer.

    Args:
        near: estimates of a neighbour to begin from; if that does not converge, from the variant's own initial values.

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
    """Return the answer at a grid point and the solution, if any; exceptions of the callback propagate."""
    try:
        changed, backend, options = variant.at(values, problem).posed(problem)
        s = solve(changed, backend, options, callback)
    except ProblemError as error:
        return failed(values, str(error)), None
    except Exception as error:  # one point must not cost the others
        if callback is not None:
            raise
        return failed(values, f"{type(error).__name__}: {error}"), None
    known = {name: e.changed(step_error=math.nan) for name, e in s.parameters.items()}  # no table asks for it
    doubts = tuple(finding.text for finding in s.findings if finding.doubts)
    return SweepPoint(values, s.status, s.message, s.iterations, s.cost, known, math.nan, s.log_likelihood, doubts), s


def failed(values: Mapping[str, AxisValue], message: str) -> SweepPoint:
    """A point without a solution."""
    return SweepPoint(values, None, " ".join(message.split()), 0, _UNKNOWN, {}, math.nan)
