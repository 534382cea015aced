"""Profiles: how the likelihood falls when one parameter is held beside its estimate and all else is fitted again.

D = (−2 log L(value) + 2 log L_max)/s² is the likelihood-ratio statistic, chi-square with one degree of freedom: the
values with D below 3.84 are a 95 % interval that needs no linearization (Bates and Watts, Nonlinear Regression
Analysis, section 6.1). ζ = ±√D is a straight line over the value where linearization holds. The refits have the
estimator, the samples and the step of the solution, and estimate the noise again.

s² is the squared standard error over that of white noise, as for a likelihood that is not that of the data (Kent,
Biometrika 69, 1982): 1, unless the errors are the scatter over blocks of the recordings. With a given weight κ
there is no likelihood, and D = (C(value) − C_min)/s² with the cost C. There s² is the squared standard error over what
it were if the weights were the noise: the impulse residuals and each sensor have noise of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.priors import attainable
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.extrapolation import finer
from spookid.parameter import Parameter
from spookid.results.result import Estimate, Solution
from spookid.solvers.status import Status
from spookid.studies.variants import Chosen, Fit, estimator_line, fitting, is_hard, raised
from spookid.tables.table import HALF_WIDTH, Block, Listed, Table, Tabular, labelled, number

_FAR, _RISE, _TOO_FAR = 2.5, 0.6, 4.0
"""ζ at which a side ends, its rise that is sought from point to point, and ζ from which a first point is taken back."""
_MOST_POINTS = 15
"""On one side."""


@dataclass(frozen=True)
class ProfilePoint(Listed):
    """One fit of a likelihood profile, with the parameter fixed at a value."""

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
    """Points in the order of the values, with the estimate."""
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""

    def __repr__(self) -> str:
        ends = interval_words(self.interval)
        return f"<Profile of {self.name!r} of {self.problem!r}: {ends} around {self.estimate:.6g}>"

    @property
    def linear(self) -> tuple[float, float]:
        """Linearized 95 % interval; NaN without a standard error."""
        return self.estimate - HALF_WIDTH * self.std_err, self.estimate + HALF_WIDTH * self.std_err

    @property
    def interval(self) -> tuple[float, float]:
        """Likelihood-ratio 95 % interval; ends are bounds if these are reached first, infinite if none was found."""
        return self._end(-1), self._end(1)

    @property
    def converged(self) -> bool:
        """True if all fits did."""
        return all(point.status is Status.CONVERGED for point in self.points)

    @property
    def ratio(self) -> float:
        """Width of the likelihood-ratio interval divided by the width of the linearized interval."""
        low, high = self.interval
        return (high - low) / (2 * HALF_WIDTH * self.std_err) if self.std_err > 0 else math.nan

    @property
    def holds(self) -> bool:
        """True if the linearized interval is accurate: fits converged, and both agree within 10 % of their width."""
        low, high = self.interval
        centered = abs(high + low - 2 * self.estimate) < 0.1 * (high - low) < math.inf
        return self.converged and centered and abs(self.ratio - 1) < 0.1

    @property
    def verdict(self) -> str:
        """Conclusion about the interval, in a sentence."""
        if not self.converged:
            return "No verdict: a fit did not converge."
        center, how, end = self._center, "has a lower cost", "minimum"
        best = min(self.points, key=lambda p: p.cost)
        beaten = best.cost < center.cost * (1 - 1e-6)
        if self.likely:
            best, how, end = max(self.points, key=lambda p: p.log_likelihood), "is more likely", "maximum"
            beaten = best.log_likelihood > center.log_likelihood + 0.01  # solvers stop at less
        if beaten:
            again = f"solve again from there (--set {self.name}={number(best.value)})"
            return f"A fit with another value of {self.name} {how}: the estimate is not at the {end}; {again}."
        if sides := [side for side, end in zip(("below", "above"), self.interval, strict=True) if math.isinf(end)]:
            return f"The data give no bound on {self.name} {' or '.join(sides)}."
        if not math.isfinite(self.std_err):
            return f"The data give bounds on parameter {self.name}, although it has no standard error."
        if self.holds:
            return "The linearized interval is accurate: both intervals agree within 10 % of their width."
        wide = f"{self.ratio:.2g} times as wide as the linearized interval"
        if abs(self.ratio - 1) < 0.1:
            wide = "as wide as the linearized interval, but not centred on the estimate"
        return f"The likelihood-ratio interval is {wide}; use the likelihood-ratio interval."

    @property
    def row(self) -> tuple[str, str, str]:
        """Row of the table of both intervals, for this parameter."""
        return labelled(self.name, self.unit), interval_words(self.linear), interval_words(self.interval)

    def blocks(self) -> Sequence[Block]:
        """Title, both intervals, a row for each fit, and the verdict."""
        head = (self.row[0], "ζ", "log-likelihood" if self.likely else "cost", "status", *self.points[0].others)
        rows = []
        for p in self.points:
            size = f"{p.log_likelihood:.2f}" if self.likely else number(p.cost, 6)
            others = (number(x, 5) for x in p.others.values())
            rows.append((number(p.value, 6), f"{p.zeta + 0.0:.2f}", size, p.status.value, *others))
        intervals = Table(("parameter", "linearized 95 %", "likelihood ratio 95 %"), [self.row])
        title = [f"Profile of {self.name} of {self.problem}", *estimator_line(self.assumptions)]
        return [*title, intervals, Table(head, rows), self.verdict]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each fit."""
        facts = ("zeta", "cost", "log_likelihood")
        return [
            {self.name: p.value, **{name: getattr(p, name) for name in facts}, "status": p.status.value, **p.others}
            for p in self.points
        ]

    @property
    def likely(self) -> bool:
        """True if ζ is computed from the likelihood, False if from the cost."""
        return math.isfinite(self._center.log_likelihood)

    @property
    def _center(self) -> ProfilePoint:
        return next(point for point in self.points if point.value == self.estimate)

    def _end(self, side: int) -> float:
        """Where ζ crosses its critical value, on a straight line between points."""
        way = [p for p in self.points if side * (p.value - self.estimate) >= 0][::side]
        for inner, outer in pairwise(way):
            if abs(outer.zeta) >= HALF_WIDTH:
                share = (HALF_WIDTH - abs(inner.zeta)) / (abs(outer.zeta) - abs(inner.zeta))
                return inner.value + share * (outer.value - inner.value)
        bound = self.upper if side > 0 else self.lower
        return bound if way[-1].value == bound else side * math.inf


def expected_fits() -> int:
    """Expected number of fits for a profile, if the likelihood is that of a normal distribution."""
    return 2 * math.ceil(_FAR / _RISE)


def interval_words(ends: tuple[float, float]) -> str:
    """Format an interval as ``[low, high]``, or as a dash if it is unknown."""
    return "-" if any(map(math.isnan, ends)) else f"[{', '.join(number(end, digits(ends)) for end in ends)}]"


def digits(ends: tuple[float, float]) -> int:
    """Significant digits that show an interval: five, or more for one that is narrow."""
    size, width = max(map(abs, ends)), ends[1] - ends[0]
    return max(5, math.ceil(math.log10(size / width)) + 2) if 0 < width < math.inf else 5


@checked
def profile(
    problem: Problem,
    name: str,
    fit: Fit | None = None,
    solution: Solution | None = None,
    sides: Sequence[ProfilePoint] = (),
) -> Profile:
    """Compute the likelihood profile of the parameter ``name``: fits with this parameter fixed at values on both sides
    of the estimate.

    The fits have the estimator and the samples that the solution has chosen.

    Args:
        fit: solves a problem with the parameter fixed, warm-started from the neighbour's solution; by default
            ``spookid.estimation.solving.solve`` with its own solver.
        solution: a solution of ``problem``; default: it is solved first.
        sides: points of both sides if they are found already.

    Raises:
        ProblemError: for a parameter that is unknown or fixed, or noise estimated without a likelihood.
    """
    walk = _begun(problem, name, fit or fitting(), solution)
    for way in () if sides else (-1, 1):
        walk.go(way)
    known = walk.solution[name]
    points = tuple(sorted((*walk.points, *sides), key=lambda point: point.value))
    assumptions = Chosen.by(walk.solution).assumed(problem)
    return Profile(problem.name, name, known.unit, known.estimate, known.std_err, *walk.ends, points, assumptions)


def side(problem: Problem, name: str, fit: Fit, solution: Solution, way: int) -> tuple[ProfilePoint, ...]:
    """Compute one side of a likelihood profile, below (−1) or above (1) the estimate, as ``profile`` does."""
    walk = _begun(problem, name, fit, solution)
    walk.go(way)
    return tuple(walk.points[1:])


def _begun(problem: Problem, name: str, fit: Fit, solution: Solution | None) -> _Walk:
    """A walk that stands at the estimate."""
    free = {parameter.name: parameter for parameter in problem.free}
    if name not in free:
        reason = "is fixed" if name in problem.guess else "is unknown"
        raise ProblemError(
            f"{problem.what}: parameter {name!r} {reason}; its free parameters are {', '.join(free) or 'none'}"
        )
    refuse_contacts(problem, "a profile")
    solution = fit(problem) if solution is None else solution
    if solution.estimates_noise and not math.isfinite(solution.log_likelihood):
        raise ProblemError(
            f"{problem.what}: a profile needs the likelihood, which this fit does not have; "
            "take smooth friction and backend lm, or give a state_weight"
        )
    problem = Chosen.by(solution).posed(problem)
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
    fit: Fit
    shift: float
    """What is added to a value of the profile where it is held: the likelihood is that of a fit with a step."""
    ends: tuple[float, float]
    """What bounds and constraints leave the parameter."""
    points: list[ProfilePoint] = field(default_factory=list)
    center: Solution = field(init=False)
    """With the parameter held at its estimate."""

    def __post_init__(self) -> None:
        self.center = self._held(self.known.estimate, self.solution) if is_hard(self.solution) else self.solution
        self.points.append(self._point(self.known.estimate, self.center, 1))

    @property
    def known(self) -> Estimate:
        """Where the walk begins."""
        return self.solution[self.parameter.name]

    @cached_property
    def scale(self) -> float:
        """Residual variance s² for the parameter; at a bound or without an error, the mean s² of others."""
        known, factors = self.solution.sensitivities, raised(self.solution)
        if math.isfinite(self.center.log_likelihood):
            squares = {name: factor**2 for name, factor in factors.items()}
        else:
            pairs = zip(known.names, known.dispersion.tolist(), strict=True)
            squares = {name: s * factors.get(name, 1.0) ** 2 for name, s in pairs if math.isfinite(s)}
        if squares:
            return squares.get(self.parameter.name, float(np.mean(list(squares.values()))))
        if math.isfinite(self.center.log_likelihood):
            return 1.0
        size = self.solution.size
        return self.solution.cost.total / max(size.residuals - size.states - size.parameters, 1)

    def go(self, side: int) -> None:
        """Add fits from the estimate towards one side until ζ is large enough or a bound is reached."""
        bound, known = self.ends[side > 0], self.known
        step = _RISE * known.std_err if known.std_err > 0 and math.isfinite(known.std_err) else 0.0
        step = step or 0.1 * (abs(known.estimate) or abs(self.problem.guess[known.name]) or 1.0)
        here, value, zeta = self.solution, known.estimate, 0.0
        for _ in range(_MOST_POINTS):
            if value == bound or zeta >= _FAR:
                return
            there = min(value + step, bound) if side > 0 else max(value - step, bound)
            solution = self._held(there, here)
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            point = self._point(there, solution, side)
            rise = abs(point.zeta) - zeta
            if zeta == 0 and rise > _TOO_FAR:
                step *= _RISE / rise
                continue
            self.points.append(point)
            here, value, zeta = solution, there, abs(point.zeta)
            step *= float(np.clip(_RISE / max(rise, 1e-9), 0.5, 3.0))

    def _held(self, value: float, near: Solution) -> Solution:
        name = self.parameter.name
        start = {p.name: float(np.clip(near.values[p.name], p.lower, p.upper)) for p in self.problem.free}
        initial = {**self.problem.initial, **start, name: value + self.shift}
        held = self.problem.with_(initial=initial, fixed={*self.problem.fixed, name})
        return self.fit(held, near, f"{name} = {number(value)}")

    def _point(self, value: float, solution: Solution, side: int) -> ProfilePoint:
        if math.isfinite(self.center.log_likelihood):
            rise = 2 * (self.center.log_likelihood - solution.log_likelihood)
            if is_hard(self.solution) and not all(n.given for n in self.center.noise):
                # Squares at the noise of the centre: many errors of white noise away it has grown with them.
                count = self.center.size.residuals - self.center.size.states
                rise = count * math.expm1(rise / count)
        else:
            rise = solution.cost.total - self.center.cost.total
        zeta = side * math.sqrt(max(rise / self.scale, 0.0)) if self.scale > 0 and math.isfinite(rise) else math.nan
        others = {p.name: solution.values[p.name] for p in self.problem.free if p.name != self.parameter.name}
        return ProfilePoint(value, solution.cost.total, zeta, solution.status, others, solution.log_likelihood)
