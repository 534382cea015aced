"""What a sweep finds: a short answer at every point of a grid of settings and parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.estimation.estimation import solve
from spookid.results.result import Cost, Estimate
from spookid.solvers.status import Status
from spookid.studies.axes import Axis, Choice
from spookid.studies.settings import UNITS, Variant

_UNKNOWN = Cost(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Point:
    """One solve of a sweep."""

    values: Mapping[str, Choice]
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

    @property
    def converged(self) -> bool:
        """True if it can be relied on."""
        return self.status is Status.CONVERGED

    @property
    def outcome(self) -> str:
        """The status in a word."""
        return "failed" if self.status is None else self.status.value


@dataclass(frozen=True)
class Sweep:
    """A problem solved at every point of a grid."""

    problem: str
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    """One for every combination of the axes' values, the last axis changing fastest."""
    variant: Variant
    """What was changed at all points alike."""
    versions: Mapping[str, str]

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
    def unsettled(self) -> tuple[Point, ...]:
        """Points that failed or did not converge."""
        return tuple(point for point in self.points if not point.converged)

    def __str__(self) -> str:
        from spookid.report.sweep_table import table  # rendering is apart from results

        return table(self, 100)


def solve_point(problem: Declaration, variant: Variant, values: Mapping[str, Choice]) -> Point:
    """Solve a variant of ``problem`` at a point of the grid; whatever goes wrong is in the answer."""
    began = time.perf_counter()
    try:
        changed, backend, options = variant.at(values, problem).posed(problem)
        solution = solve(changed, backend, options)
    except ProblemError as error:
        return failed(values, str(error), time.perf_counter() - began)
    except Exception as error:  # one point must not cost the others
        return failed(values, f"{type(error).__name__}: {error}", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Point(
        values,
        solution.status,
        solution.message,
        solution.iterations,
        solution.cost,
        {name: e.changed(step_error=math.nan) for name, e in solution.parameters.items()},  # no table asks for it
        seconds,
        solution.log_likelihood,
    )


def failed(values: Mapping[str, Choice], message: str, seconds: float = math.nan) -> Point:
    """A point without a solution."""
    return Point(values, None, " ".join(message.split()), 0, _UNKNOWN, {}, seconds)
