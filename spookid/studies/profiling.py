"""Profiles: how the likelihood falls when one parameter is held beside its estimate and all else is fitted again.

D = −2 log L(value) + 2 log L_max is the likelihood-ratio statistic, chi-square with one degree of freedom: the values
with D below 3.84 are a 95 % interval that needs no linearization (Bates and Watts, Nonlinear Regression Analysis,
section 6.1). ζ = ±√D is a straight line over the value where linearization holds. The noise is estimated again with
the parameter held.

With a given state weight there is no likelihood, and D = (C(value) − C_min)/s² with the cost C. s² is the squared
standard error over what it were if all weights said the noise, as for a likelihood that is not that of the data (Kent,
Biometrika 69, 1982): the impulse residuals and each sensor have noise of their own, so the cost over the degrees of
freedom is the variance of none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.priors import attainable
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.extrapolation import finer
from spookid.estimation.outliers import of_same_samples
from spookid.estimation.solving import solve
from spookid.parameter import Parameter
from spookid.report.conclusion import assumed
from spookid.results.result import Estimate, Solution
from spookid.solvers.status import Status
from spookid.tables.table import HALF_WIDTH, Block, Listed, Table, Tabular, labelled, number

CRITICAL = HALF_WIDTH
"""ζ at the ends of a 95 % interval."""
_FAR = 2.5
"""ζ at which a side ends."""
_RISE = 0.6
"""ζ is meant to rise by so much from point to point."""
_TOO_FAR = 4.0
"""A first point with a larger ζ is taken back."""
_MOST_POINTS = 15
"""On one side."""
_CHEAPER = 1e-6
"""Share by which a cost is lower than another that is not the least."""
_LIKELIER = 0.02
"""Difference of −2 log L from which on one fit is likelier than another; solvers stop at less."""
_SHARE = 0.1
"""First step of a parameter without a standard error, as a share of its value."""

ProfileFit = Callable[[Problem, Solution | None], Solution]
"""Solves a problem, from a solution near by if there is one."""


@dataclass(frozen=True)
class ProfilePoint(Listed):
    """The fit with the parameter held."""

    value: float
    cost: float
    zeta: float
    """±√D, negative below the estimate."""
    status: Status
    others: Mapping[str, float]
    """Estimates of the other free parameters."""
    log_likelihood: float = math.nan
    """NaN where there is none."""


@dataclass(frozen=True, repr=False)
class Profile(Tabular):
    """One parameter's profile."""

    problem: str
    name: str
    unit: str
    estimate: float
    std_err: float
    """Linearized; NaN if unknown."""
    lower: float
    upper: float
    """Bounds of the parameter."""
    points: tuple[ProfilePoint, ...]
    """In the order of the values, the estimate among them."""
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""

    def __repr__(self) -> str:
        ends = interval_words(self.interval)
        return f"<Profile of {self.name!r} of {self.problem!r}: {ends} around {self.estimate:.6g}>"

    @property
    def linear(self) -> tuple[float, float]:
        """The linearized 95 % interval; NaN if there is no standard error."""
        return self.estimate - CRITICAL * self.std_err, self.estimate + CRITICAL * self.std_err

    @property
    def interval(self) -> tuple[float, float]:
        """The likelihood-ratio 95 % interval: an end is the bound if that comes first, infinite if none was found."""
        return self._end(-1), self._end(1)

    @property
    def converged(self) -> bool:
        """True if all fits did."""
        return all(point.status is Status.CONVERGED for point in self.points)

    @property
    def holds(self) -> bool:
        """True if the fits converged and the linearized interval is within 10 % of its width the likelihood-ratio
        one."""
        low, high = self.interval
        if not (self.converged and math.isfinite(high - low) and self.std_err > 0):
            return False
        ratio = (high - low) / (2 * CRITICAL * self.std_err)
        return abs(ratio - 1) < 0.1 and abs(high + low - 2 * self.estimate) < 0.1 * (high - low)

    @property
    def verdict(self) -> str:
        """What the interval says, in a sentence."""
        if not self.converged:
            return "No verdict: a fit did not converge."
        if self.likely and max(p.log_likelihood for p in self.points) > self._center.log_likelihood + _LIKELIER / 2:
            return "A fit beside the estimate is likelier: the estimate is no maximum; solve again from there."
        if not self.likely and min(p.cost for p in self.points) < self._center.cost * (1 - _CHEAPER):
            return "A fit beside the estimate costs less: the estimate is no minimum; solve again from there."
        low, high = self.interval
        if math.isinf(low) or math.isinf(high):
            sides = [side for side, end in (("below", low), ("above", high)) if math.isinf(end)]
            return f"The data do not limit {self.name} {' or '.join(sides)}."
        if not math.isfinite(self.std_err):
            return f"The data limit {self.name} although it has no standard error."
        if self.holds:
            return "The linearized interval holds: both agree within 10 % of their width."
        ratio = (high - low) / (2 * CRITICAL * self.std_err)
        return f"The likelihood-ratio interval is {ratio:.2g} times as wide as the linearized one; trust the former."

    def blocks(self) -> Sequence[Block]:
        """Title, both intervals, a row for each fit, and the verdict."""
        measure = "log-likelihood" if self.likely else "cost"
        others = list(self.points[0].others)
        head = (labelled(self.name, self.unit), "ζ", measure, "status", *others)
        ends = ((labelled(self.name, self.unit), *(interval_words(ends) for ends in (self.linear, self.interval))),)
        intervals = Table(("parameter", "linearized 95 %", "likelihood ratio 95 %"), ends)
        return [f"Profile of {self.name} of {self.problem}", intervals, Table(head, self._rows()), self.verdict]

    def _rows(self) -> list[tuple[str, ...]]:
        sizes = [f"{p.log_likelihood:.2f}" if self.likely else number(p.cost, 6) for p in self.points]
        return [
            (
                number(p.value, 6),
                f"{p.zeta + 0.0:.2f}",
                size,
                p.status.value,
                *(number(x, 5) for x in p.others.values()),
            )
            for p, size in zip(self.points, sizes, strict=True)
        ]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each fit."""
        return [
            {
                self.name: p.value,
                "zeta": p.zeta,
                "cost": p.cost,
                "log_likelihood": p.log_likelihood,
                "status": p.status.value,
                **p.others,
            }
            for p in self.points
        ]

    @property
    def likely(self) -> bool:
        """True if ζ is that of a likelihood, False if it is that of the cost."""
        return math.isfinite(self._center.log_likelihood)

    @property
    def _center(self) -> ProfilePoint:
        return next(point for point in self.points if point.value == self.estimate)

    def _end(self, side: int) -> float:
        """Where ζ crosses its critical value, on a straight line between points."""
        way = [p for p in self.points if side * (p.value - self.estimate) >= 0][::side]
        for inner, outer in pairwise(way):
            if abs(outer.zeta) >= CRITICAL:
                share = (CRITICAL - abs(inner.zeta)) / (abs(outer.zeta) - abs(inner.zeta))
                return inner.value + share * (outer.value - inner.value)
        bound = self.upper if side > 0 else self.lower
        return bound if way[-1].value == bound else side * math.inf


def interval_words(ends: tuple[float, float]) -> str:
    """``[low, high]``, a dash if it is unknown."""
    return "-" if any(map(math.isnan, ends)) else f"[{number(ends[0], 5)}, {number(ends[1], 5)}]"


@checked
def profile(
    problem: Problem,
    name: str,
    fit: ProfileFit | None = None,
    solution: Solution | None = None,
    sides: Sequence[ProfilePoint] = (),
) -> Profile:
    """Refit ``problem`` with the parameter ``name`` held at values on both sides of its estimate in ``solution``.

    A likelihood compares fits whose noise is estimated; a solution with hard dynamics is solved again with it.

    Args:
        fit: solves a problem with the parameter fixed, warm-started from the neighbour's solution; by default
            ``spookid.estimation.solving.solve`` with its own solver.
        solution: of ``problem``, if there is one already; else it is solved first.
        sides: points of both sides if ``side`` has found them already.

    Raises:
        ProblemError: for a parameter that is unknown or fixed, or noise estimated without a likelihood.
    """
    walk = _begun(problem, name, fit or (lambda one, near: solve(one, warm_start=near)), solution)
    for way in () if sides else (-1, 1):
        walk.go(way)
    estimate = walk.solution[name]
    points = tuple(sorted((*walk.points, *sides), key=lambda point: point.value))
    return Profile(
        problem=problem.name,
        name=name,
        unit=estimate.unit,
        estimate=estimate.estimate,
        std_err=estimate.std_err,
        lower=walk.ends[0],
        upper=walk.ends[1],
        points=points,
        assumptions=assumed(problem.with_(estimator="noise")),
    )


def side(problem: Problem, name: str, fit: ProfileFit, solution: Solution, way: int) -> tuple[ProfilePoint, ...]:
    """Points of one side of a profile, below (−1) or above (1) the estimate; arguments and errors as of ``profile``."""
    walk = _begun(problem, name, fit, solution)
    walk.go(way)
    return tuple(walk.points[1:])


def _begun(problem: Problem, name: str, fit: ProfileFit, solution: Solution | None) -> _Walk:
    """A walk that stands at the estimate."""
    free = {parameter.name: parameter for parameter in problem.free}
    if name not in free:
        reason = "is fixed" if name in problem.guess else "is unknown"
        raise ProblemError(
            f"{problem.what}: parameter {name!r} {reason}; its free parameters are {', '.join(free) or 'none'}"
        )
    refuse_contacts(problem, "a profile")
    solution = fit(problem, None) if solution is None else solution
    if solution.estimates_noise and not math.isfinite(solution.log_likelihood):
        raise ProblemError(
            f"{problem.what}: a profile needs the likelihood, which this fit does not have; "
            "take smooth friction and backend lm, or give a state_weight"
        )
    problem = of_same_samples(problem.with_(estimator="noise"), solution)
    if solution.choice is not None and solution.choice.is_hard:
        solution = fit(problem, None)
    shift, ends = _shift(problem, solution[name]), _ends(problem, name, solution)
    return _Walk(finer(problem) if problem.corrects else problem, free[name], solution, fit, shift, ends)


def _ends(problem: Problem, name: str, found: Solution) -> tuple[float, float]:
    """The least and the largest value that bounds and constraints between parameters leave.

    Raises:
        ProblemError: if these are one.
    """
    bounds = found[name].lower, found[name].upper
    if not problem.constraints:
        return bounds
    low, high = (attainable(problem, found.values, name, bound) for bound in bounds)
    if low == high:
        raise ProblemError(f"{problem.what}: its constraints determine {name!r}; profile another parameter")
    return low, high


def _shift(problem: Problem, found: Estimate) -> float:
    """From the estimate of continuous time to that of steps of h/2, a quarter of what steps of h add."""
    corrected = problem.corrects and not found.at_bound and math.isfinite(found.step_error)
    return found.step_error / 4 if corrected else 0.0


@dataclass(eq=False)
class _Walk:
    problem: Problem
    parameter: Parameter
    solution: Solution
    fit: ProfileFit
    shift: float
    """What is added to a value of the profile where it is held: the likelihood is that of a fit with a step."""
    ends: tuple[float, float]
    """What bounds and constraints leave the parameter."""
    points: list[ProfilePoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.points.append(self._point(self.estimate, self.solution, 1))

    @property
    def estimate(self) -> float:
        """Where the walk begins."""
        return self.solution[self.parameter.name].estimate

    @property
    def noise(self) -> float:
        """s² of the parameter; without a standard error the mean of the others'; with none, cost over freedom."""
        sensitivities = self.solution.sensitivities
        known = dict(zip(sensitivities.names, sensitivities.dispersion.tolist(), strict=True))
        others = [value for value in known.values() if math.isfinite(value)]
        if others:
            own = known[self.parameter.name]
            return own if math.isfinite(own) else float(np.mean(others))
        size = self.solution.size
        return self.solution.cost.total / max(size.residuals - size.states - size.parameters, 1)

    def go(self, side: int) -> None:
        """Away from the estimate until ζ is large or a bound is met."""
        bound = self.ends[side > 0]
        here, value, zeta, step = self.solution, self.estimate, 0.0, self._first_step()
        for _ in range(_MOST_POINTS):
            if value == bound or zeta >= _FAR:
                return
            there = min(value + step, bound) if side > 0 else max(value - step, bound)
            solution = self._held(there, here)
            point = self._point(there, solution, side)
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            rise = abs(point.zeta) - zeta
            if zeta == 0 and rise > _TOO_FAR:
                step *= _RISE / rise
                continue
            self.points.append(point)
            here, value, zeta = solution, there, abs(point.zeta)
            step *= float(np.clip(_RISE / max(rise, 1e-9), 0.5, 3.0))

    def _first_step(self) -> float:
        known = self.solution[self.parameter.name]
        if math.isfinite(known.std_err) and known.std_err > 0:
            return _RISE * known.std_err
        return _SHARE * (abs(known.estimate) or abs(self.problem.guess[known.name]) or 1.0)

    def _held(self, value: float, near: Solution) -> Solution:
        name = self.parameter.name
        start = {p.name: float(np.clip(near.values[p.name], p.lower, p.upper)) for p in self.problem.free}
        held = self.problem.with_(
            initial={**self.problem.initial, **start, name: value + self.shift}, fixed={*self.problem.fixed, name}
        )
        return self.fit(held, near)

    def _point(self, value: float, solution: Solution, side: int) -> ProfilePoint:
        rise = self._rise(solution)
        others = {p.name: solution.values[p.name] for p in self.problem.free if p.name != self.parameter.name}
        zeta = side * math.sqrt(max(rise, 0.0)) if math.isfinite(rise) else math.nan
        return ProfilePoint(value, solution.cost.total, zeta, solution.status, others, solution.log_likelihood)

    def _rise(self, solution: Solution) -> float:
        """D."""
        if math.isfinite(self.solution.log_likelihood):
            return 2 * (self.solution.log_likelihood - solution.log_likelihood)
        return (solution.cost.total - self.solution.cost.total) / self.noise if self.noise > 0 else math.nan
