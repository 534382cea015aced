"""Further starts of a fit: after changed delays or impact times, with small fixed noise, and with other friction laws.

Samples and inputs are assigned to steps by the delays at the start of a fit, and inputs are linear in the delay around
that value. Likewise, impact forces are assigned by the initial impact times. The fit is repeated until delays and times
no longer change, so that the result does not depend on these linearizations.

A search without process noise stalls if initial values explain the motion badly. It then starts from a fit with process
noise.

The likelihood has local maxima with absurd inertias and too large process noise, or with measurement noise that is
fitted as motion. A search for the noise may end there if initial values are wrong by a factor of ten. With small fixed
noise, a fit from the same initial values finds the motion.

If initial velocities of ``ContinuousFriction`` are wrong by a factor of two, a fit may attribute friction near rest to
process noise. The motion is then known: with fixed motion and other parameters, the process noise is a function of the
few friction parameters, and least squares from a grid of velocities finds them (regression on smoothed motion, Atkeson,
An and Hollerbach, IJRR 5, 1986).
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
from spookid.estimation.disturbances import followed_findings, left_to_noise, unexplained_findings
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.misspecification import speeds
from spookid.estimation.questions import questions
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.contacts import Impact
from spookid.mechanics.friction_loads import ContinuousFriction
from spookid.mechanics.joints import Joint
from spookid.results.findings import Finding
from spookid.solvers.status import Callback, Iteration, Status
from spookid.statistics.trial import SearchEndedError
from spookid.transcription.factor import Group


def free_delays(problem: Problem) -> list[str]:
    """Names of the delays that are estimated."""
    return [p.name for p in problem.free if p.name in problem.delays]


def with_delays_at_rest(work: Work, found: Fit, still: float = 1e-3) -> Fit:
    """Last of several fits, each linearized at the delays of the one before, until delays change by a small share of a
    step; the best one if they do not converge, because samples change their step."""
    names, before, best = free_delays(found.assembly.problem), math.inf, found
    while names:
        values, around = {name: found.values[name] for name in names}, found.assembly.problem
        moved = max(abs(values[name] - around.guess[name]) for name in names) / around.step
        if moved <= still or found.outcome.status is not Status.CONVERGED:
            return found
        if moved > before / 2:
            return best
        before = max(moved, 2 * still)
        around = around.with_(initial={**around.initial, **values})
        later = work.run(around, Start(found.result), found)
        if later.outcome.status in (Status.DIVERGED, Status.STALLED):
            # With next to no disturbance the motion that was found may lead to no other; the initial value may.
            later = work.run(around, Start(), found)
        found = later
        best = max(best, found, key=lambda one: one.rank)
    return found


def with_impacts_at_rest(work: Work, found: Fit, still: float = 0.01) -> Fit:
    """Fit repeated at the impact times that it has found, until they change by a small share of a step;
    ``schedule_findings`` report times that do not converge."""
    before = math.inf
    while any(isinstance(contact, Impact) for contact in found.assembly.problem.model.holding.contacts):
        assembly, moved = retimed(found.assembly, found.point)
        if moved <= still or found.outcome.status is not Status.CONVERGED or moved > before / 2:
            break
        before = moved
        found = work.run(assembly.problem, Start(found.result, assembly=assembly), found)
    return found


def with_noise_first(work: Work, first: Fit) -> Fit:
    """Fit, or if deterministic dynamics did not converge, another that starts from a fit with process noise. Noise
    bridges what wrong initial values leave unexplained."""
    if not work.problem.is_hard or first.outcome.status not in (Status.DIVERGED, Status.STALLED):
        return first
    noisy = work.run(work.problem.with_(estimator="noise"), Start(own=work.problem.given), first)
    if noisy.outcome.status is not Status.CONVERGED:
        return first.with_(status=noisy.outcome.status) if noisy.outcome.status is Status.INTERRUPTED else first
    later = work.run(work.problem, Start(noisy.result), noisy)
    return later if later.rank > first.rank else first


def with_explained_motion(work: Work, first: Fit) -> Fit:
    """Fit, or another fit with less process noise if it is more likely."""
    if first.likelihood is None or first.outcome.status is not Status.CONVERGED:
        return first
    if misread(work, first):
        return first
    lost = followed_findings(first.likelihood.noise, first.motion)  # the noise of a sensor
    work.doubted = bool(unexplained_findings(first.assembly, first.point, first.motion))
    if not (lost or work.doubted):
        return first
    problem = first.assembly.problem
    lead = later = work.run(problem, Start(guessed=True), first)
    if lead.outcome.status is Status.CONVERGED:
        later = work.run(problem, Start(lead.result.changed(noise=())), lead)
    if later.outcome.status is Status.INTERRUPTED:
        return first.with_(status=Status.INTERRUPTED, detail="before another way to the maximum was tried")
    return later if later.rank > first.rank else first


def misread(work: Work, first: Fit) -> bool:
    """True if the fit leaves the motion of a coordinate or of a sensor to noise, and the model explains far more of it
    in another unit or with another sign: no other start makes an answer of that."""
    named = left_to_noise(first.assembly, first.point, first.motion)
    if named and _wrong_unit(work.problem):
        work.misread = True
        if not unexplained_findings(first.assembly, first.point, first.motion):
            said = f"The fit explains the motion of {', '.join(named)} by noise. The data contradict the model."
            wrong = Finding("motion.unexplained", tuple(named), {}, said, cause="Is a unit or a sign wrong?")
            work.remarks.append(lambda answer: answer.with_findings(lambda: [wrong]))
    return work.misread


def _wrong_unit(problem: Problem) -> Finding | None:
    """The question that names a unit or a sign."""
    return next((one for one in questions(problem) if one.evidence.get("unit")), None)


def asking_on_the_way(work: Work) -> Callback | None:
    """Callback of a first fit, which ends a long fit if a question names a wrong unit or sign, and the present
    parameters explain the motion no better than the initial values."""
    told, problem = work.callback, work.problem

    def ask(iteration: Iteration) -> None:
        if told is not None:
            told(iteration)
        if iteration.iteration == _LONG and (wrong := _wrong_unit(problem)):
            found = dict(zip((p.name for p in problem.free), iteration.parameters.tolist(), strict=True))
            if questions(problem.with_(initial={**problem.initial, **found})):
                work.misread = True
                named = ", ".join(wrong.evidence.get("signals", wrong.subject))
                raise SearchEndedError(f"signal {named} has a wrong unit or sign; the summary gives the correction")

    return ask if work.begins and problem.estimates_noise else told


_LONG = 10
"""Iterations after which a fit takes longer than to ask what may be wrong."""


def continuous_laws(problem: Problem) -> list[tuple[Joint, ContinuousFriction]]:
    """Continuous friction laws, and the joints that have them."""
    return [
        (joint, load) for joint in problem.model.joints for load in joint.loads if isinstance(load, ContinuousFriction)
    ]


def with_better_friction(work: Work, first: Fit) -> Fit:
    """Fit, or another fit from other initial values of continuous friction if it is more likely."""
    model = first.assembly.problem.model
    laws = continuous_laws(first.assembly.problem)
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


def _regressed(
    first: Fit, law: ContinuousFriction, typical: float, values: Mapping[str, float], less: float = 2.0
) -> dict[str, float]:
    """Values of the law's parameters with which less disturbs the motion, by a unit of its log-likelihood; none if
    there are no such."""
    problem, transcription = first.assembly.problem, first.assembly.transcription
    whole = ca.vertcat(*law.expressions(1))
    own = [p for p in problem.free if ca.depends_on(whole, p)]
    curved = np.array([any(ca.is_equal(velocity, p) for velocity in law.velocities) for p in own], dtype=bool)
    if not curved.any() or not typical > 0:
        return {}
    at = np.array([values[name] for name in transcription.names])
    places = [transcription.names.index(p.name) for p in own]
    lower, upper, guess = np.array([(p.lower, p.upper, problem.guess[p.name]) for p in own]).T

    def disturbing(those: Array) -> Array:
        """Process noise divided by the noise standard deviations of the fit."""
        parameters = at.copy()
        parameters[places] = those
        chains = transcription.residuals(replace(first.point, parameters=parameters))
        pairs = (pair for rows in chains for pair in zip(transcription.factors, rows, strict=True))
        return np.concatenate([rows.ravel() for factor, rows in pairs if factor.group is Group.STATE])

    def squares(those: Array) -> float:
        found = float(np.sum(disturbing(those) ** 2))
        return found if np.isfinite(found) else np.inf

    def least(start: Array, moving: Mask, most: int) -> Array:
        """Parameters within bounds with least squares, found from a start by moving some of them."""
        if not moving.any() or not np.isfinite(squares(start)):
            return start

        def whole(part: Array) -> Array:
            moved = start.copy()
            moved[moving] = part
            return moved

        from scipy.optimize import least_squares  # slow to load, and few ask for it

        bounds, sizes = (lower[moving], upper[moving]), np.where(start[moving] != 0, np.abs(start[moving]), 1.0)
        found = least_squares(
            lambda p: disturbing(whole(p)), start[moving], bounds=bounds, x_scale=sizes, max_nfev=most
        )
        return whole(found.x)

    grid = []
    for shares in product((0.03, 0.1, 0.3, 1.0), repeat=int(np.sum(curved))):
        start = guess.copy()
        start[curved] = typical * np.array(shares)
        grid.append(least(np.clip(start, lower, upper), ~curved, 4))
    best = least(min(grid, key=squares), np.ones(len(own), bool), 20)
    if not squares(at[places]) - squares(best) > less:
        return {}
    return dict(zip((p.name for p in own), best.tolist(), strict=True))
