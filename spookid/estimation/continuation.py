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
from spookid.results.findings import Finding, ranked
from spookid.results.result import Solution
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Status

SHARPNESS = (3e-2, 1e-3)
"""Shares of the friction widths, one fit after another."""
_WORSE = 0.01
"""Share of the smooth fit's cost by which one of friction that sticks is above it if it is worse."""
_SOFT = 100.0
"""Weight of preliminary fits for deterministic dynamics."""


def is_staged(problem: Problem, solver: Solver) -> bool:
    """True if a problem is solved by way of others."""
    if touches(problem) or sticks(problem):
        return True
    if problem.estimates_noise:
        return any(residual.is_inequality for residual in problem.residuals)
    return holds_pairs(solver) and problem.stepper.leader != problem.stepper


def touches(problem: Problem) -> bool:
    """True if contacts push by their law."""
    return bool(problem.model.contacts)


def sticks(problem: Problem) -> bool:
    """True if joints stick, and are not led by contacts."""
    return not problem.rubs_smoothly and any(j.rubs for j in problem.model.joints) and not touches(problem)


def go(
    work: Work, problem: Problem, solver: Solver, sharpness: float = 1.0, turns: bool = True, guessed: bool = False
) -> bool:
    """One fit from the last one, at noise as a search would begin if that is to be ``guessed``; False if it is
    interrupted, or finds no noise that others could keep."""
    own = {} if work.fit else problem.given
    start = Start(work.found, own, work.noise, sharpness, turns, touching=work.touching, guessed=guessed, leads=True)
    if work.noise is None and sharpness == 1.0:
        start = replace(start, revised=revision(work))
    if not holds_pairs(solver):  # it only leads on
        problem = problem.with_(residuals=[r for r in problem.residuals if not r.is_inequality])
    if isinstance(solver, Ipopt):
        told = work.found is not None and not work.found.rubs_smoothly
        solver = replace(solver, told=solver.told or told or sharpness < 1)
    made = work.fit = work.run(problem, start, work.fit, solver)
    work.touching = tuple(touching(problem, unknowns) for unknowns in made.point.states)
    work.found = made.told()
    if problem.estimates_noise and work.noise is None and not guessed:
        work.noise = work.found
        if work.found.normaliser is None:
            return False
    return not work.stopped


def begin(work: Work) -> None:
    """The first fits, smooth, and with a stepper that is easier to begin with; but noise that is estimated is that of
    the stepper. A solution to begin with that is a smooth one of the same noise takes their place."""
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
    """The problem with smooth friction; where what sticks is to be hard, with a weight that lets it err."""
    if not sticks(problem):
        return problem
    width = None if problem.sticks_exactly else problem.friction_width
    return _soft(problem).with_(friction="smooth", friction_width=width)


def _soft(problem: Problem) -> Problem:
    return problem if np.isfinite(problem.weight) else problem.with_(state_weight=_SOFT)


def _own(work: Work, newton: bool = True, most: int = 15) -> LevenbergMarquardt:
    """The solver of fits on the way, which without exact Hessians have so many iterations at the most."""
    leader = work.leader
    most = leader.max_iterations if newton else min(leader.max_iterations, most)
    return LevenbergMarquardt(max_iterations=most, newton=newton, threads=leader.threads)


def held_by_pairs(work: Work) -> None:
    """The fit of a solver that holds inequalities, from one without."""
    if work.noise is None or work.noise.normaliser is not None:
        go(work, work.problem, work.solver)
        _named(work)


def stick(work: Work) -> None:
    """Fits of ever sharper friction, then those of sticking friction; deterministic dynamics are weighted until the
    last, for a motion that sticks at the wrong time is far off at all later ones."""
    problem, known = work.problem, work.found
    if problem.estimates_noise and (work.noise is None or work.noise.normaliser is None):
        return
    if work.fit is None and known is not None and not known.rubs_smoothly:
        go(work, problem, work.solver, SHARPNESS[-1])
        return _named(work)
    soft = _soft(problem)
    sharpness = _sharpened(work, smoothed(problem))
    if sharpness is None:
        return None
    lead = work.found if soft is problem else None
    stages = [(problem, work.solver, True)]
    if soft is not problem and problem.sticks_exactly:
        stages.insert(0, (soft, _own(work), True))
    if problem.stepper.order > 1 and (soft is problem or len(stages) > 1):
        # Friction as at the end of a step, whether the joint turned in it or not, has fewer minima.
        stages.insert(0, (*stages[0][:2], False))
    for stage, solver, turns in stages:
        if not go(work, stage, solver, sharpness, turns):
            return _named(work)
    _named(work)
    if lead is not None:
        _compared(work, problem, lead, sharpness)
    return None


def stick_finer(work: Work, problem: Problem, first: Fit) -> None:
    """The same with half the step, from the fit of the whole one: its noise, then who sticks."""
    go(work, smoothed(problem), _own(work))
    if work.fit is not None and work.fit.result.status is Status.CONVERGED:
        work.found = first.told()
        go(work, problem, work.solver, SHARPNESS[-1])
    _named(work)


def _named(work: Work) -> None:
    """The last fit as one of the problem."""
    if work.fit is None:
        return
    problem, noise = work.problem, work.noise
    if noise is not None and noise.status is not Status.CONVERGED:
        effect = f"The noise is from a fit with smooth friction that did not converge: {noise.detail}."
        work.fit = _with(work.fit, Finding("noise.not-converged", effect=effect, advice="Raise max_iterations."))
    named = {"backend": work.solver.name, "stepper": problem.stepper.name, "friction": problem.friction}
    work.fit = work.fit.with_(**named)


def touch(work: Work, most: int = 500) -> None:
    """A fit with contact times from the data, then one with those of the contact law; pairs follow them.

    Who touches is a choice for each step and contact. Where noise is estimated the first fit has little of it: much of
    it lets noisy samples choose, and takes the part of impacts. A given weight is lowered for the first fit. If both
    lead nowhere, relaxed pairs may, from the beginning and in so many iterations.
    """
    problem, done = work.problem, _is_begun(work)
    exact = problem.with_(friction="exact") if problem.sticks_in_pairs else problem
    soft = exact if problem.estimates_noise else exact.with_(state_weight=min(problem.weight, _SOFT))
    if not _by_way_of(work, [] if done else [(soft, _own(work))], exact):
        return
    if not done and (best := _made(work)).result.status is not Status.CONVERGED:
        work.found, work.touching, work.noise = None, (), None
        leads = [soft] if problem.estimates_noise or exact.weight <= _SOFT else [soft, exact]
        pairs: list[tuple[Problem, Solver]] = [(p.with_(friction="mpcc"), Ipopt(max_iterations=most)) for p in leads]
        going = _by_way_of(work, pairs, exact)
        if _made(work).result.status is not Status.CONVERGED:
            work.fit = _after_all(best, _made(work))
            work.found = work.fit.told()
        if not going:
            return
    if not (problem.rubs_smoothly or problem.sticks_exactly):
        go(work, problem, work.solver, SHARPNESS[-1])
        _named(work)


def _by_way_of(work: Work, leads: Sequence[tuple[Problem, Solver]], exact: Problem) -> bool:
    """Fit the exact law after preliminary fits, of which the first estimates the noise; False if interrupted."""
    going, led, sharp = True, None, 1.0 if exact.rubs_smoothly else SHARPNESS[-1]
    for i, (problem, solver) in enumerate(leads):
        guessed = exact.estimates_noise and not i
        going = going and go(work, problem, solver, sharp if i else 1.0, guessed=guessed)
        led = led if i else work.found
    going = going and go(work, exact, _own(work), sharp)
    _named(work)
    work.fit = _if_led(_made(work), led)
    return going


def _made(work: Work) -> Fit:
    assert work.fit is not None
    return work.fit


def _if_led(made: Fit, led: Solution | None, grown: float = 2.0) -> Fit:
    """An answer, which has not converged if noise takes the part of impacts: it has grown by such a factor since a fit
    that led to it, which did not settle who touches."""
    found = made.result
    if led is None or led.status is Status.CONVERGED or found.status is not Status.CONVERGED:
        return made
    before = {name: one.std for one in led.noise for name in one.names}
    if all(one.std <= grown * before.get(name, np.inf) for one in found.noise for name in one.names):
        return made
    detail = "the contact times did not converge in the preliminary fits; take a smaller step"
    return made.with_(status=Status.STALLED, detail=detail)


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
    """Other ways while friction that sticks fits worse than the smooth one does, and the best of all: a shorter one,
    and to exact friction one by way of pairs."""
    best = _made(work)
    pairs = (problem.with_(friction="mpcc"), Ipopt(max_iterations=work.solver.max_iterations))
    others: list[list[tuple[Problem, Solver]]] = [[(problem, work.solver)], [pairs, (problem, work.solver)]]
    for stages in others if problem.sticks_exactly else others[:1]:
        if best.result.status is Status.CONVERGED and _excess(best.result, lead) <= _WORSE:
            break
        work.found = lead
        for stage, solver in stages:
            if not go(work, stage, solver, sharpness):
                detail = "while other ways than that of this fit were tried"
                work.fit = _after_all(best, _made(work)).with_(status=Status.INTERRUPTED, detail=detail)
                return
        _named(work)
        best = min(best, _made(work), key=lambda s: (s.result.status is not Status.CONVERGED, s.result.cost.total))
    work.fit = _after_all(best, _made(work))
    cost, smooth = best.result.cost.total, lead.cost.total
    worse = best.result.status is not Status.CONVERGED or _excess(best.result, lead) > _WORSE
    if worse and cost > smooth and lead.status is Status.CONVERGED:
        effect = f"A fit with narrow smooth friction has a lower cost ({smooth:.4g}) than this one ({cost:.4g})."
        cause = "What sticks has several minima, and a step resolves it less."
        advice, evidence = "Take a smaller step, or friction 'smooth'.", {"cost": cost, "smooth_cost": smooth}
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
