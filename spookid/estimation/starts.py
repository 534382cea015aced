"""Fits around delays that are parameters, and around times of impacts.

Samples and inputs are laid out around the delays with which a fit begins: a sample belongs to the step in which what it
shows took place then, and an input is a line through its value and slope there. Forces of an impact are those of the
time at which it is known to be. Fits are carried on, each around the delays and times of the one before, until these
stand still; then none of that is left in the answer.

Another way to the maximum of the likelihood, where a fit has put noise in the place of the mechanics.

The likelihood has worse maxima far from the best one: inertias out of all proportion, whose motion disturbances make,
or a sensor whose errors count as motion. A search for the noise may end there from guesses that are off by a decade, as
each step makes room for more noise. At noise that is small and held, the same guesses lead to the motion; the search
goes on from there, and the larger likelihood stands.

Another start for ``ContinuousFriction``, where the motion of a fit speaks for other values of it.

The velocities of the law enter it as curves: from guesses that are off by a factor of two a fit may take what friction
does near rest for disturbance, its stiction at zero, where nothing tells the velocities any more. By then the motion is
known. With it and all other parameters held, what disturbs the steps is a function of the few parameters of the law, of
which least squares from a grid of velocities find the least; a fit goes on from there, and the larger likelihood
stands. (That is regression of the dynamics on smoothed motion, as of Atkeson, An and Hollerbach, IJRR 5, 1986.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import casadi as ca
import numpy as np

from spookid.assembly.impact_estimates import retimed
from spookid.assembly.problem import Problem
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.misspecification import speeds
from spookid.estimation.unexplained import followed_findings, unexplained_findings
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.contacts import Impact
from spookid.mechanics.friction_loads import ContinuousFriction
from spookid.records import dataclass
from spookid.solvers.status import Status
from spookid.transcription.factor import Group

_STILL = 1e-3
"""Share of a step by which a delay may move at the end: an input is then off by 1e-6 of its change in a step."""
_MET = 0.01
"""Share of a step by which an impact may move at the end: the pose at which it acts is then off by as little."""
_ROUNDS = 12


def free_delays(problem: Problem) -> list[str]:
    """Names of the delays that are estimated."""
    return [p.name for p in problem.free if p.name in problem.delays]


def with_delays_at_rest(work: Work, found: Fit) -> Fit:
    """The last of fits, each around the delays of the one before, until they stand still.

    Where they do not come to rest, since samples change their step and the likelihood with it, the best one stands.
    """
    names, before, best = free_delays(found.assembly.problem), math.inf, found
    for _ in range(_ROUNDS if names else 0):
        values, around = {name: found.values[name] for name in names}, found.assembly.problem
        moved = max(abs(values[name] - around.guess[name]) for name in names) / around.step
        if moved <= _STILL or found.outcome.status is not Status.CONVERGED:
            return found
        if moved > before:
            return best
        before = max(moved, _STILL)
        around = around.with_(initial={**around.initial, **values})
        later = work.run(around, Start(found.result), found)
        if later.outcome.status in (Status.DIVERGED, Status.STALLED):
            # With next to no disturbance the motion that was found may lead to no other; the guess may.
            later = work.run(around, Start(), found)
        found = later
        best = max(best, found, key=lambda one: one.rank)
    return found


def with_impacts_at_rest(work: Work, found: Fit) -> Fit:
    """A fit carried on around the times of impacts that it has found; itself without impacts."""
    hits = any(isinstance(contact, Impact) for contact in found.assembly.problem.model.holding.contacts)
    before = math.inf
    for _ in range(_ROUNDS if hits else 0):
        assembly, moved = retimed(found.assembly, found.point)
        if moved <= _MET or found.outcome.status is not Status.CONVERGED or moved > before / 2:
            break  # times that do not come to rest are told by ``schedule_findings``
        before = moved
        found = work.run(assembly.problem, Start(found.result, assembly=assembly), found)
    return found


def with_explained_motion(work: Work, first: Fit) -> Fit:
    """The fit, or one that leaves less to noise if that is more likely."""
    if first.likelihood is None or first.outcome.status is not Status.CONVERGED or not _in_doubt(first):
        return first
    problem = first.assembly.problem
    lead = later = work.run(problem, Start(guessed=True), first)
    if lead.outcome.status is Status.CONVERGED:
        later = work.run(problem, Start(lead.result.changed(noise=())), lead)
    if later.outcome.status is Status.INTERRUPTED:
        return first.with_(status=Status.INTERRUPTED, detail="before another way to the maximum was tried")
    return later if later.rank > first.rank else first


def _in_doubt(fit: Fit) -> bool:
    """True if a sensor has lost its noise, or disturbances exceed all that acts."""
    assert fit.likelihood is not None
    return bool(
        followed_findings(fit.likelihood.noise, fit.motion) or unexplained_findings(fit.assembly, fit.point, fit.motion)
    )


_SPEEDS = (0.03, 0.1, 0.3, 1.0)
"""Velocities of the grid, in shares of the typical rate of the joint."""
_LESS = 2.0
"""By how much the squares of what disturbs the motion, over its noise, must fall for other values to be worth a fit: a
unit of the log-likelihood of that motion."""
_ON_GRID, _EVALUATIONS = 4, 20
"""Steps of the least squares at a point of the grid, where all but the velocities move, and from the best one."""


def with_better_friction(work: Work, first: Fit) -> Fit:
    """The fit, or one from other values of continuous friction if that is more likely."""
    model = first.assembly.problem.model
    laws = [(joint, load) for joint in model.joints for load in joint.loads if isinstance(load, ContinuousFriction)]
    if not laws or first.likelihood is None or first.outcome.status is Status.INTERRUPTED:
        return first
    known, values = speeds(first.assembly.problem, first.motion, first.values), dict(first.values)
    for joint, law in laws:
        labels = [freedom.label for freedom in model.freedoms[model.freedoms_of(joint)]]
        typical = max((known[label].rate for label in labels if label in known), default=0.0)
        values.update(_regressed(first, law, typical, values))
    if values == first.values:
        return first
    started = {name: e.changed(estimate=values[name]) for name, e in first.result.parameters.items()}
    start = Start(first.result.changed(parameters=started, noise=()))  # noise that was found stands in for the law
    later = work.run(first.assembly.problem, start, first)
    return later if later.rank > first.rank else first


def _regressed(first: Fit, law: ContinuousFriction, typical: float, values: Mapping[str, float]) -> dict[str, float]:
    """Values of the law's parameters with which less disturbs the motion; none if there are no such."""
    problem, transcription = first.assembly.problem, first.assembly.transcription
    whole = ca.vertcat(*law.expressions(1))
    own = [p for p in problem.free if ca.depends_on(whole, p)]
    curved = np.array([any(ca.is_equal(velocity, p) for velocity in law.velocities) for p in own], dtype=bool)
    if not curved.any() or not typical > 0:
        return {}
    disturbing = _Disturbing(
        first,
        np.array([values[name] for name in transcription.names]),
        [transcription.names.index(p.name) for p in own],
    )
    lower, upper, guess = np.array([(p.lower, p.upper, problem.guess[p.name]) for p in own]).T
    grid = []
    for shares in product(_SPEEDS, repeat=int(np.sum(curved))):
        start = guess.copy()
        start[curved] = typical * np.array(shares)
        start = np.clip(start, lower, upper)
        grid.append(_least(disturbing, start, lower, upper, ~curved, _ON_GRID))
    best = _least(disturbing, min(grid, key=disturbing.squares), lower, upper, np.ones(len(own), bool), _EVALUATIONS)
    if not disturbing.squares(disturbing.at[disturbing.places]) - disturbing.squares(best) > _LESS:
        return {}
    return dict(zip((p.name for p in own), best.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class _Disturbing:
    """What disturbs the motion of a fit, over the noise that it found, as a function of a few parameters."""

    fit: Fit
    at: Array
    """All free parameters, (n_p,)."""
    places: list[int]
    """Of those few."""

    def __call__(self, values: Array) -> Array:
        parameters = self.at.copy()
        parameters[self.places] = values
        problem = self.fit.assembly.transcription
        chains = problem.residuals(replace(self.fit.point, parameters=parameters))
        pairs = (pair for rows in chains for pair in zip(problem.factors, rows, strict=True))
        return np.concatenate([rows.ravel() for factor, rows in pairs if factor.group is Group.STATE])

    def squares(self, values: Array) -> float:
        """Their sum; infinite where it is not known."""
        found = float(np.sum(self(values) ** 2))
        return found if np.isfinite(found) else np.inf


def _least(disturbing: _Disturbing, start: Array, lower: Array, upper: Array, moving: Mask, most: int) -> Array:
    """Values in their bounds at which squares are least, found from a start by moving some of them."""
    if not moving.any() or not np.isfinite(disturbing.squares(start)):
        return start

    def whole(part: Array) -> Array:
        values = start.copy()
        values[moving] = part
        return values

    from scipy.optimize import least_squares  # slow to load, and few ask for it

    bounds = lower[moving], upper[moving]
    sizes = np.where(start[moving] != 0, np.abs(start[moving]), 1.0)
    found = least_squares(
        lambda part: disturbing(whole(part)), start[moving], bounds=bounds, x_scale=sizes, max_nfev=most
    )
    return whole(found.x)
