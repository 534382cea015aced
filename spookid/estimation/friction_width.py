"""Widths of smooth friction as unknowns: estimated with all parameters, then held, their uncertainty in all errors.

Smooth friction changes its sign over a width w of the slip rate. In a fit of its own, which begins where the last one
ended, the width of each coordinate with dry friction is one more parameter of the likelihood. All later fits hold the
widths that it finds. An error σ of a width moves the other estimates by σ dθ/dw, which is added to their covariance.

Below what the data resolve, the likelihood is flat, and fits take many times as long. A width is positive, so that it
is taken to be the mean of a normal distribution around the maximum that is cut off at zero. Where the maximum is nearer
to zero than its standard error, a width of zero has a likelihood less than 0.5 below it: "sharper than the data
resolve".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from spookid.assembly.constants import WIDTH_SHARE
from spookid.assembly.problem import Problem
from spookid.estimation.fit import Fit, with_added_variance
from spookid.estimation.fitting import Start
from spookid.estimation.identifiability import condensed_at
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.parameter import Parameter
from spookid.results.result import Solution
from spookid.results.values import FrictionWidth
from spookid.solvers.status import Status

_SHARPEST = 0.1
"""Share of the width to begin with that the estimate does not fall below."""


def estimates_widths(problem: Problem) -> bool:
    """True if the widths of its friction are to be estimated."""
    rubs = any(freedom.rubs for freedom in problem.model.freedoms)
    return problem.estimates_noise and problem.rubs_smoothly and problem.friction_width is None and rubs


def at_widths(problem: Problem, known: Mapping[str, float]) -> Problem:
    """The problem with widths that are known by label of the coordinate, if it is to estimate them."""
    labels = {freedom.label for freedom in problem.model.freedoms if freedom.rubs}
    widths = {label: width for label, width in known.items() if label in labels}
    return problem.with_(friction_width=widths) if widths and estimates_widths(problem) else problem


def widths_of(solution: Solution | None) -> dict[str, float]:
    """Those that a solution has found, by label of the coordinate."""
    return {} if solution is None else {label: one.width for label, one in solution.friction_widths.items()}


def with_estimated_widths(work: Work, first: Fit) -> Fit:
    """The fit with the widths of friction that are most likely."""
    problem = first.assembly.problem
    if first.likelihood is None or first.outcome.status is not Status.CONVERGED:
        return first
    unknown = {
        freedom.label: _unknown(i, float(width), f"{freedom.coordinate.unit}/s")
        for i, (freedom, width) in enumerate(zip(problem.model.freedoms, first.assembly.widths, strict=True))
        if freedom.rubs
    }
    free = work.run(problem.with_(friction_width=unknown), Start(first.result, leads=True), first)
    if free.outcome.status is not Status.CONVERGED:
        return first.with_(times=free.result.times, clocks=free.result.clocks)
    gain = free.result.log_likelihood - first.result.log_likelihood
    found = first.clock.time(partial(_found, free, unknown, gain))
    held = problem.with_(friction_width={label: one.width for label, one in found.items()})
    if gain > 0:
        last = work.run(held, Start(free.result, roughly=first.likelihood.carry is not None), free)
    else:  # where it begins no width is more likely than another
        last = first.with_(times=free.result.times, clocks=free.result.clocks)
    if last.outcome.status is Status.CONVERGED:
        work.problem = held
        work.remarks.append(partial(_with_widths, found, partial(_added, free, last, unknown, found), first))
    return last


def _unknown(place: int, begun: float, unit: str) -> Parameter:
    """The width of a coordinate, from where its estimate begins to where friction is viscous."""
    limits = _SHARPEST * begun, begun / WIDTH_SHARE
    return Parameter(f"friction_width__{place}", begun, lower=limits[0], upper=limits[1], unit=unit)


def _found(free: Fit, unknown: Mapping[str, Parameter], gain: float) -> dict[str, FrictionWidth]:
    """The widths of a fit that is more likely by a gain than one with those where it began, by coordinate."""
    names, found = free.assembly.transcription.names, dict[str, FrictionWidth]()
    # A jackknife says little of what few passages through rest tell.
    variances = np.zeros(len(names)) if free.condensed is None else np.diag(free.condensed.inverse)
    for label, p in unknown.items():
        best, error = float(free.values[p.name]), math.sqrt(variances[names.index(p.name)]) or math.inf
        if not gain > 0:
            told = error < p.guess
            found[label] = FrictionWidth(p.guess, error if told else p.guess, p.unit, told)
            continue
        if math.isinf(error):  # at a bound the likelihood falls off from there to where the estimate began
            error = abs(p.guess - best) / math.sqrt(2 * gain) or p.guess
        # Mean and variance of a normal distribution cut off at zero.
        capped = min(error, max(p.guess, best))
        x = best / capped
        ratio = float(math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) / special.ndtr(x))
        std_err = capped * math.sqrt(max(1 - x * ratio - ratio**2, 0.0))
        found[label] = FrictionWidth(best + capped * ratio, std_err, p.unit, resolved=error <= best)
    return found


def _added(free: Fit, last: Fit, unknown: Mapping[str, Parameter], found: Mapping[str, FrictionWidth]) -> Array:
    """What errors of the widths add to the covariance of the parameters of the last fit, (n_p, n_p)."""
    problem, values = free.assembly.transcription, {**free.values, **last.values}
    values |= {p.name: found[label].width for label, p in unknown.items()}
    names, own = list(problem.names), [p.name for p in last.assembly.problem.free]
    point = replace(last.point, parameters=np.array([values[name] for name in names]))
    condensed = condensed_at(problem, point, problem.free_directions(point.parameters))
    added = np.zeros((len(own), len(own)))
    if condensed is None:
        return added
    places = [names.index(name) for name in own]
    for label, p in unknown.items():
        i = names.index(p.name)
        variance = condensed.inverse[i, i]
        slopes = condensed.inverse[places, i] / variance if variance > 0 else np.zeros(len(own))
        added += np.outer(slopes, slopes) * found[label].std_err ** 2
    return added


def _with_widths(
    found: Mapping[str, FrictionWidth], added: Callable[[], Array], first: Fit, solution: Solution
) -> Solution:
    return with_added_variance(solution, added, first.clock).changed(friction_widths=found)
