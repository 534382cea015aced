"""Continuation from smooth friction to friction that sticks; it also provides noise estimates to solvers without them.

The noisy data barely determine which joint sticks when, but a smooth fit does. A fit with sticking therefore begins
with smooth friction, which also estimates the noise. Further fits reduce the width of the friction law, each from the
result of the previous one, until the remaining creep is a hundred-thousandth of the joint's speed and the sticking
phases are clear (Allgower and Georg, Numerical Continuation Methods, 1990). Starting with a narrow smooth law would
stall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spookid.assembly.contact_start import touching
from spookid.assembly.problem import Problem
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.outliers import revision
from spookid.estimation.work import Solver, Work, holds_pairs
from spookid.records import dataclass
from spookid.results.findings import Finding, ranked
from spookid.results.result import Solution
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Status

ROUNDINGS = (1.0, 0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4)
"""Of the law of contacts, one fit after another; the last is a tenth of what rates give way under an impulse. Around
sharper corners steps creep: with 1e-5 every fourth fit of a cube's toss lowers its cost by 1e-8 a step, without end."""
SHARPNESS = (3e-2, 1e-3)
"""Shares of the friction widths, one fit after another."""
_NEAR = 1e-6
"""Share of the cost by which a step lowers it that ends a fit of a rounded law, whose kinks steps pass slowly: of n
residuals, estimates are then within √(1e-6 n) standard errors."""
_WORSE = 0.01
"""Share of the smooth fit's cost by which one of friction that sticks is above it if it is worse."""
_SAME = 1e-4
"""Share of it by which it may be above it in the same minimum."""
_GROWN = 2.0
"""Factor by which noise, or a cost, that has grown since a fit without convergence is none of the same minimum."""
_SOFT = 100.0
"""Weight of preliminary fits for deterministic dynamics."""


@dataclass(frozen=True)
class _Lead:
    """A fit that leads to another one."""

    problem: Problem
    solver: Solver
    rounding: float = 0.0


def is_staged(problem: Problem, solver: Solver) -> bool:
    """True if a problem is solved by a sequence of fits of easier problems."""
    if touches(problem) or sticks(problem):
        return True
    if problem.estimates_noise:
        return any(residual.is_inequality for residual in problem.residuals)
    return holds_pairs(solver) and problem.stepper.leader != problem.stepper


def touches(problem: Problem) -> bool:
    """True if the model has contacts with a contact law."""
    return bool(problem.model.contacts)


def sticks(problem: Problem) -> bool:
    """True if joints have sticking friction, without contacts."""
    return not problem.rubs_smoothly and any(j.rubs for j in problem.model.joints) and not touches(problem)


def go(
    work: Work,
    problem: Problem,
    solver: Solver,
    sharpness: float = 1.0,
    turns: bool = True,
    guessed: bool = False,
    rounding: float = 0.0,
) -> bool:
    """Run one fit from the last one, with an initial noise if it is to be ``guessed``; False if the fit is interrupted,
    or finds no usable noise."""
    own = {} if work.fit else problem.given
    start = Start(work.found, own, work.noise, sharpness, rounding, turns)
    start = replace(start, touching=work.touching, guessed=guessed, leads=True)
    if work.noise is None and sharpness == 1.0:
        start = replace(start, revised=revision(work))
    if not holds_pairs(solver):  # it only leads on
        problem = problem.with_(residuals=[r for r in problem.residuals if not r.is_inequality])
    if isinstance(solver, Ipopt):
        told = work.found is not None and not work.found.rubs_smoothly
        solver = replace(solver, told=solver.told or told or sharpness < 1)
        if sticks(problem):  # multipliers bend the rows: without them IPOPT goes to and fro, or its restoration fails
            solver = replace(solver, hessian="exact")
    made = work.fit = work.run(problem, start, work.fit, solver)
    work.touching = tuple(touching(problem, unknowns) for unknowns in made.point.states)
    work.found = made.told()
    if problem.estimates_noise and work.noise is None and not guessed:
        work.noise = work.found
        if work.found.normaliser is None:
            return False
    return not work.stopped


def begin(work: Work) -> None:
    """Run the first fits, with smooth friction and a stepper that converges more easily; estimated noise is for the
    final stepper. A given solution with smooth friction and the same noise replaces these fits."""
    if _is_begun(work):
        return
    smooth = smoothed(work.problem)
    first = smooth if smooth.estimates_noise else smooth.with_(stepper=smooth.stepper.leader)
    if go(work, first, _own(work)) and first.stepper != smooth.stepper:
        go(work, smooth, _own(work))


def _is_begun(work: Work) -> bool:
    """True if the solution to begin with has converged, and found the noise if that is estimated."""
    estimated, near = work.problem.estimates_noise, work.near
    work.found, done = near, near is not None and near.status is Status.CONVERGED
    done = done and (not estimated or (near is not None and near.normaliser is not None))
    work.noise = near if estimated and done else None
    return done


def smoothed(problem: Problem) -> Problem:
    """Problem with smooth friction; with process noise if dynamics are to be deterministic and joints stick."""
    return _rubbing(_soft(problem)) if sticks(problem) else problem


def _rubbing(problem: Problem) -> Problem:
    """With smooth friction instead of one that sticks."""
    width = None if problem.sticks_exactly else problem.friction_width
    return problem.with_(friction="smooth", friction_width=width)


def _soft(problem: Problem) -> Problem:
    """With process noise instead of deterministic dynamics; itself if it has some."""
    if problem.is_hard:
        return problem.with_(estimator="noise")
    return problem if np.isfinite(problem.weight) else problem.with_(state_weight=_SOFT)


def _own(work: Work, newton: bool = True, most: int = 15) -> LevenbergMarquardt:
    """The solver of fits on the way, which without exact Hessians have so many iterations at the most."""
    leader = work.leader
    most = leader.max_iterations if newton else min(leader.max_iterations, most)
    return LevenbergMarquardt(max_iterations=most, newton=newton, threads=leader.threads)


def held_by_pairs(work: Work) -> None:
    """Fit by a solver that supports inequalities, starting from a fit by one that does not."""
    if work.noise is None or work.noise.normaliser is not None:
        go(work, work.problem, work.solver)
        _named(work)


def stick(work: Work) -> None:
    """Run fits with increasingly sharp friction, then with sticking friction. Deterministic dynamics have process noise
    until the last fit, because a joint that sticks at the wrong time spoils all later motion."""
    problem, known = work.problem, work.found
    if problem.estimates_noise and (work.noise is None or work.noise.normaliser is None):
        return
    if work.fit is None and known is not None and not known.rubs_smoothly:
        go(work, problem, work.solver, SHARPNESS[-1])
        return _named(work)
    if not problem.is_hard:
        return _stuck(work, problem)
    _stuck(work, _soft(problem))
    if not work.stopped:
        _stuck_as(work, problem, _made(work))
    return None


def _stuck(work: Work, problem: Problem) -> None:
    """Sticking friction of a problem by way of smooth friction."""
    soft = _soft(problem)
    sharpness = _sharpened(work, smoothed(problem))
    if sharpness is None:
        return None
    lead = work.found if soft is problem else None
    exact = problem.with_(friction="exact")
    stages: list[tuple[Problem, Solver, bool]] = [(exact, work.leader, True)]
    if soft is not problem:
        stages.insert(0, (_soft(exact), _own(work), True))
    if problem.stepper.order > 1:
        # Friction as at the end of a step, whether the joint turned in it or not, has fewer minima.
        stages.insert(0, (*stages[0][:2], False))
    if problem.sticks_in_pairs:  # from the end of the exact law, whose fits take a tenth of the time
        stages.append((problem, work.solver, True))
    for stage, solver, turns in stages:
        if not go(work, stage, solver, sharpness, turns):
            return _named(work)
    _named(work)
    if lead is not None:
        _compared(work, problem, lead, sharpness)
    return None


def stick_finer(work: Work, problem: Problem, first: Fit) -> None:
    """Same fit with half the time step, starting from the fit with the whole step."""
    for stage in [_soft(problem), problem] if problem.is_hard else [problem]:
        _stuck_as(work, stage, first)
        if work.stopped:
            return
        first = _made(work) if _made(work).result.status is Status.CONVERGED else first


def _stuck_as(work: Work, problem: Problem, first: Fit) -> None:
    """Sticking friction of a problem by way of another fit: its noise, then who sticks."""
    work.noise = None
    go(work, _rubbing(problem), _own(work))
    smooth = _made(work).result
    if smooth.status is Status.CONVERGED:
        work.found = first.told()
        go(work, problem, work.solver, SHARPNESS[-1])
        work.fit = _if_as_good(_made(work), smooth)
    _named(work)


def _named(work: Work) -> None:
    """The last fit as one of the problem."""
    if work.fit is None:
        return
    problem, noise = work.problem, work.noise
    if noise is not None and noise.status is not Status.CONVERGED:
        effect = f"The noise is estimated by a fit with smooth friction, which did not converge: {noise.detail}."
        work.fit = _with(work.fit, Finding("noise.not-converged", effect=effect, advice="Raise max_iterations."))
    named = {"backend": work.solver.name, "stepper": problem.stepper.name, "friction": problem.friction}
    work.fit = work.fit.with_(**named)


def touch(work: Work) -> None:
    """Run a fit with contact times from the data, then a fit with the contact law; complementarity pairs follow.

    Who touches is a choice for each step and contact. Where noise is estimated the first fit has little of it: much of
    it lets noisy samples choose, and takes the part of impacts. A given weight is lowered for the first fit, and joints
    that stick begin with smooth friction.
    """
    problem, done = work.problem, _is_begun(work)
    exact = problem.with_(friction="exact") if problem.sticks_in_pairs else problem
    easy = _unstuck(exact)
    first = [_Lead(p, _own(work)) for p in ([_softened(easy)] if easy is exact else [_softened(easy), easy])]
    if not _by_way_of(work, [] if done else first, exact):
        return
    if not done and _made(work).result.status is not Status.CONVERGED and not _by_other_ways(work, exact):
        return
    if not (problem.rubs_smoothly or problem.sticks_exactly):
        go(work, problem, work.solver, SHARPNESS[-1])
        _named(work)


def _by_other_ways(work: Work, exact: Problem, most: int = 500) -> bool:
    """The exact law by way of a rounded one, from the beginning, or of relaxed pairs in so many iterations, from the
    first fit or from the beginning. The fit is then the best of all, which has not converged if one that did not has
    less than half its cost. False if one is interrupted.

    A rounded law, with u r = t² instead of u r = 0, chooses rebounds alone. While t falls its minimum goes
    to one of the law itself (Kanzow, SIAM Journal on Matrix Analysis 17, 1996). The last t is negligible.
    """
    first, fits = (_made(work), work.found, work.touching, work.noise), [_made(work)]
    quick = replace(_own(work), decrease_tolerance=_NEAR)
    rounded = [_Lead(_unstuck(exact), quick, t) for t in ROUNDINGS]
    pairs = [_Lead(p.with_(friction="mpcc"), Ipopt(max_iterations=most)) for p in (exact, _softened(exact))]
    soft = not exact.estimates_noise and exact.weight > _SOFT
    ways = [(rounded, False), (pairs[:1], True), (pairs[::-1] if soft else pairs[:1], False)]
    for leads, later in ways:
        work.fit, work.found, work.touching, work.noise = first if later else (work.fit, None, (), None)
        begun = len(work.records)
        going = _by_way_of(work, leads, exact)
        whole = len(work.records) - begun > len(leads)
        fits.append(_made(work))
        enough = np.inf if exact.estimates_noise else _GROWN * min(one.result.cost.total for one in fits)
        near = [one for one in fits if not one.result.cost.total > enough]
        best = min(near, key=lambda one: (one.result.status is not Status.CONVERGED, one.result.cost.total))
        # Where a rounded law leads to its end, rebounds alone are left to choose, which pairs do not either.
        if not going or best.result.status is Status.CONVERGED or (whole and leads is rounded):
            break
    work.fit = _after_all(best, _made(work)) if going else _made(work)
    work.found = work.fit.told()
    return going


def _by_way_of(work: Work, leads: Sequence[_Lead], exact: Problem) -> bool:
    """Fit the exact law, rounded as in the last fit that leads to it; the first estimates the noise. False if one is
    interrupted."""
    going, led, sharp = True, None, 1.0 if exact.rubs_smoothly else SHARPNESS[-1]
    for i, lead in enumerate(leads):
        guessed = exact.estimates_noise and not i
        own = sharp if i and not lead.problem.rubs_smoothly else 1.0
        going = going and go(work, lead.problem, lead.solver, own, guessed=guessed, rounding=lead.rounding)
        led = led if i else work.found
        if not going or (lead.rounding and not i and led is not None and led.status is not Status.CONVERGED):
            break  # of the others, which are harder, none will lead on
    last = leads[-1] if leads and leads[-1].rounding else _Lead(exact, _own(work))
    going = going and go(work, exact, last.solver, sharp, rounding=last.rounding)
    _named(work)
    work.fit = _if_led(_made(work), led)
    return going


def _softened(exact: Problem) -> Problem:
    """With a given weight that is lowered for a first fit."""
    return exact if exact.estimates_noise else exact.with_(state_weight=min(exact.weight, _SOFT))


def _unstuck(exact: Problem) -> Problem:
    """With joints that do not stick; itself if they do not anyway."""
    rubs = exact.sticks_exactly and any(joint.rubs for joint in exact.model.joints)
    return exact.with_(friction="smooth") if rubs else exact


def _made(work: Work) -> Fit:
    assert work.fit is not None
    return work.fit


def _if_led(made: Fit, led: Solution | None) -> Fit:
    """An answer, which has not converged if noise takes the part of impacts: it has grown by such a factor since a fit
    that led to it, which did not settle who touches."""
    found = made.result
    if led is None or led.status is Status.CONVERGED or found.status is not Status.CONVERGED:
        return made
    before = {name: one.std for one in led.noise for name in one.names}
    if all(one.std <= _GROWN * before.get(name, np.inf) for one in found.noise for name in one.names):
        return made
    detail = "the contact times did not converge in the preliminary fits; use a smaller step"
    return made.with_(status=Status.STALLED, detail=detail)


def _if_as_good(made: Fit, smooth: Solution) -> Fit:
    """Answer that counts as not converged if the preceding smooth fit has less than half its cost: a joint that sticks
    throughout determines no drive parameter, so that any value is stationary."""
    if made.result.status is not Status.CONVERGED or _excess(made.result, smooth) <= _GROWN - 1:
        return made
    costs = f"the cost is {made.result.cost.total:.4g}, with smooth friction only {smooth.cost.total:.4g}"
    return made.with_(status=Status.STALLED, detail=f"{costs}; take a smaller step, or friction 'smooth'")


def _sharpened(work: Work, smooth: Problem) -> float | None:
    """The sharpness of the last fit that the one before led to: deterministic dynamics that stick for long leave none.
    None if a fit is interrupted."""
    reached = 1.0
    for sharpness in SHARPNESS:
        before = work.found
        if not go(work, smooth, _own(work, newton=False), sharpness):
            return None
        if before is not None and work.found is not None and _excess(work.found, before) > _WORSE:
            work.found = before
            break
        reached = sharpness
    return reached


def _compared(work: Work, problem: Problem, lead: Solution, sharpness: float) -> None:
    """Other ways while friction that sticks fits worse than the smooth one does, and the best of all: of exact friction
    a shorter one and one by way of pairs, of pairs one that the exact law does not lead."""
    best = _made(work)
    pairs: tuple[Problem, Solver] = problem.with_(friction="mpcc"), Ipopt(max_iterations=work.solver.max_iterations)
    exact: tuple[Problem, Solver] = problem, work.leader
    for stages in [[exact], [pairs, exact]] if problem.sticks_exactly else [[pairs]]:
        if best.result.status is Status.CONVERGED and _excess(best.result, lead) <= _SAME:
            break
        work.found = lead
        for stage, solver in stages:
            if not go(work, stage, solver, sharpness):
                detail = "while other ways than that of this fit were tried"
                work.fit = _after_all(best, _made(work)).with_(status=Status.INTERRUPTED, detail=detail)
                return
        _named(work)
        best = min(best, _made(work), key=lambda s: (s.result.status is not Status.CONVERGED, s.result.cost.total))
    work.fit = _if_as_good(_after_all(best, _made(work)), lead)
    cost, smooth = best.result.cost.total, lead.cost.total
    worse = best.result.status is not Status.CONVERGED or _excess(best.result, lead) > _WORSE
    if worse and cost > smooth and lead.status is Status.CONVERGED:
        effect = f"A fit with narrow smooth friction has a lower cost ({smooth:.4g}) than this fit ({cost:.4g})."
        cause = "Sticking friction has several local minima, which a coarse step resolves badly."
        advice, evidence = "Use a smaller step, or friction='smooth'.", {"cost": cost, "smooth_cost": smooth}
        work.fit = _with(work.fit, Finding("friction.smooth-better", (), evidence, effect, cause, advice))


def _after_all(best: Fit, last: Fit) -> Fit:
    """A fit with the times of all."""
    return best.with_(times=last.result.times, clocks=last.result.clocks)


def _excess(solution: Solution, smoothed: Solution) -> float:
    """By how much of the smooth fit's cost the other one is above it."""
    return (solution.cost.total - smoothed.cost.total) / abs(smoothed.cost.total)


def _with(made: Fit, finding: Finding) -> Fit:
    """A fit with a further finding."""
    return made.with_(findings=made.later(lambda: ranked([*made.result.findings, finding])))
