"""Widths of smooth friction as unknowns: estimated with all parameters, then held, their uncertainty in all errors.

Smooth friction changes its sign over a width w of the slip rate. In a fit of its own, which begins where the last one
ended, the logarithm of the width of each coordinate with dry friction is one more parameter. All later fits hold the
widths that it finds. An error σ of a logarithm moves the other estimates by σ dθ/d log w, which is added to their
covariance.

A width makes up for a step that is too long for friction, and then is none of friction. So it is estimated at the
shortest step of the plan, whose noise and likelihood are reported: with half the step, where that is taken from the
estimates. Widths are known to a factor of five beforehand, as a prior of their logarithms, for the likelihood is flat
in those that are sharper than the data resolve, and the states converge slowly there. Where the standard error of a
logarithm from the data is more than one, a parabola in the width itself is less than 0.5 lower at zero than at its
maximum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.estimation.extrapolation import finer
from spookid.estimation.fit import Fit, with_added_variance
from spookid.estimation.fitting import Start
from spookid.estimation.identifiability import condensed_at
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array
from spookid.parameter import Parameter
from spookid.results.lazy import Clock
from spookid.results.result import Solution
from spookid.results.values import FrictionWidth
from spookid.solvers.status import Status
from spookid.statistics.weak_directions import Spectrum

_SPREAD = math.log(5)
"""Standard deviation of the logarithm of a width beforehand; estimates are no more than this sharper than expected."""


def estimates_widths(problem: Problem) -> bool:
    """True if the widths of smooth friction are estimated."""
    rubs = any(freedom.rubs for freedom in problem.model.freedoms)
    return problem.estimates_noise and problem.rubs_smoothly and problem.friction_width is None and rubs


def at_widths(problem: Problem, known: Mapping[str, float]) -> Problem:
    """Problem with known friction widths by coordinate label, if it estimates them."""
    labels = {freedom.label for freedom in problem.model.freedoms if freedom.rubs}
    widths = {label: width for label, width in known.items() if label in labels}
    return problem.with_(friction_width=widths) if widths and estimates_widths(problem) else problem


def widths_of(solution: Solution | None) -> dict[str, float]:
    """Friction widths in a solution, by coordinate label."""
    return {} if solution is None else {label: one.width for label, one in solution.friction_widths.items()}


def with_estimated_widths(work: Work, first: Fit) -> Fit:
    """Fit with the most likely widths of smooth friction."""
    problem = first.assembly.problem
    if first.likelihood is None or first.outcome.status is not Status.CONVERGED:
        return first
    pairs = zip(problem.model.freedoms, first.assembly.widths.tolist(), strict=True)
    begun = {freedom: width for freedom, width in pairs if freedom.rubs}
    logs = [Parameter(f"friction_width__{i}", 0.0, lower=-_SPREAD, prior=(0.0, _SPREAD)) for i in range(len(begun))]
    widths = {one.label: width * ca.exp(log) for (one, width), log in zip(begun.items(), logs, strict=True)}
    shortest = finer(problem) if problem.corrects else problem
    start = Start(first.result, leads=True, roughly=True)
    free = work.run(shortest.with_(friction_width=widths), start, first)
    if free.outcome.status is not Status.CONVERGED:
        return first.with_(times=free.result.times, clocks=free.result.clocks)
    found = {one.label: w * math.exp(free.values[log.name]) for (one, w), log in zip(begun.items(), logs, strict=True)}
    held = problem.with_(friction_width=found)
    near = free if problem.is_hard else first  # states of deterministic dynamics belong to the estimates at that width
    last = work.run(held, Start(near.result, roughly=first.likelihood.carry is not None), free)
    if last.outcome.status is Status.CONVERGED:
        work.problem, work.finer = held, free.result if problem.corrects else None
        work.remarks.append(partial(_with_widths, free, found, [p.name for p in logs], first.clock))
    return last


def _uncertain(free: Fit, names: Sequence[str], at: Mapping[str, float]) -> tuple[Array, Array]:
    """Standard errors of the logarithms of widths with these names, (n_w,), and what they add to the covariance of the
    other parameters, (n_p, n_p), at the answer: where a coordinate of an inertia has almost no effect, it moves far."""
    problem = free.assembly.transcription
    own = np.array([name in names for name in problem.names])
    estimates = np.array([free.values[name] if name in names else at[name] for name in problem.names])
    directions = problem.free_directions(np.where(own, 0.0, estimates))  # those at their bound, too
    condensed = condensed_at(problem, replace(free.point, parameters=estimates), directions)
    if condensed is None:
        return np.full(len(names), _SPREAD), np.zeros((np.sum(~own), np.sum(~own)))
    covariance, information = condensed.inverse[np.ix_(own, own)], condensed.information
    sizes, others = np.maximum(np.abs(estimates), problem.magnitudes), replace(directions, held=directions.held | own)
    moved = Spectrum.of(information, information, sizes, others).inverse[~own] @ information[:, own]
    return np.sqrt(np.diag(covariance)), moved @ covariance @ moved.T


def _with_widths(
    free: Fit, widths: Mapping[str, float], names: Sequence[str], clock: Clock, solution: Solution
) -> Solution:
    errors, added = clock.time(partial(_uncertain, free, names, solution.values))
    units = {one.label: f"{one.coordinate.unit}/s" for one in free.assembly.problem.model.freedoms}
    found = {}
    for (label, width), name, error in zip(widths.items(), names, errors.tolist(), strict=True):
        resolved = free.values[name] > -_SPREAD and 1 / error**2 - 1 / _SPREAD**2 > 1  # by the data alone
        found[label] = FrictionWidth(width, width * error, units[label], resolved)
    return with_added_variance(solution, lambda: added, clock).changed(friction_widths=found)
