"""Continuation: to dry friction that sticks by way of smooth friction, and to noise for those who do not estimate it.

Noise in the data says little about who sticks when; the smooth motion much. So a fit of friction that sticks begins
with a smooth one, which finds the noise too, and follows it while the width of the law shrinks, each fit starting where
the last has ended, until what still creeps is a hundred-thousandth of the joint's speed. There it is plain who sticks.
(Allgower and Georg, Numerical Continuation Methods, 1990; a smooth law that is sharp at once stalls.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spookid.assembly.contact_start import touching
from spookid.assembly.problem import Problem
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.outliers import revision
from spookid.estimation.work import Solver, Work
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
"""State weight of fits that lead to hard dynamics."""
_SHARPENING = 15
"""Iterations of a fit on the way at the most: it only has to lead on."""


_GROWN = 2.0
"""Times by which noise is larger than it was if it takes the part of impacts."""
_PAIRS = 500
"""The same of relaxed pairs."""


def is_staged(problem: Problem, backend: str) -> bool:
    """True if a problem is solved by way of others."""
    if touches(problem) or sticks(problem):
        return True
    if problem.estimates_noise:
        return any(residual.kind == "inequality" for residual in problem.residuals)
    return backend == "ipopt" and problem.stepper.leader != problem.stepper


def touches(problem: Problem) -> bool:
    """True if contacts push by their law."""
    return not problem.rubs_smoothly and bool(problem.model.contacts)


def sticks(problem: Problem) -> bool:
    """True if joints stick, and are not led by contacts."""
    return not problem.rubs_smoothly and any(j.rubs for j in problem.model.joints) and not touches(problem)


def go(
    work: Work, problem: Problem, solver: Solver, sharpness: float = 1.0, turns: bool = True, guessed: bool = False
) -> bool:
    """One fit from the last one; False if it is interrupted, or finds no noise that others could keep.

    Args:
        guessed: True to take noise as a search for it would begin.
    """
    own = {} if work.fit else problem.given
    start = Start(work.found, own, work.noise, sharpness, turns, touching=work.touching, guessed=guessed, leads=True)
    if work.noise is None and sharpness == 1.0:
        start = replace(start, revised=revision(work))
    if isinstance(solver, LevenbergMarquardt):  # which holds no inequalities, and only leads on
        problem = problem.with_(residuals=[r for r in problem.residuals if r.kind != "inequality"])
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
    problem, near = work.problem, work.near
    work.found = near
    converged = near is not None and near.status is Status.CONVERGED
    if near is not None and converged and (not problem.estimates_noise or near.normaliser is not None):
        work.noise = near if problem.estimates_noise else None
        return
    smooth = smoothed(problem)
    first = smooth if smooth.estimates_noise else smooth.with_(stepper=smooth.stepper.leader)
    if go(work, first, _own(work, newton=True)) and first.stepper != smooth.stepper:
        go(work, smooth, _own(work, newton=True))


def smoothed(problem: Problem) -> Problem:
    """The problem with smooth friction; where what sticks is to be hard, with a weight that lets it err."""
    if not sticks(problem):
        return problem
    width = None if problem.sticks_exactly else problem.friction_width
    return _soft(problem).with_(friction="smooth", friction_width=width)


def _soft(problem: Problem) -> Problem:
    return problem if np.isfinite(problem.weight) else problem.with_(state_weight=_SOFT)


def _own(work: Work, newton: bool) -> LevenbergMarquardt:
    """The solver of fits on the way."""
    threads = work.solver.threads if isinstance(work.solver, LevenbergMarquardt) else 1
    most = work.solver.max_iterations
    return LevenbergMarquardt(max_iterations=most if newton else min(most, _SHARPENING), newton=newton, threads=threads)


def held_by_pairs(work: Work) -> None:
    """The fit of a solver that holds inequalities, from one without."""
    if work.noise is None or work.noise.normaliser is not None:
        go(work, work.problem, work.solver)
        _named(work)


def stick(work: Work) -> None:
    """Fits of ever sharper friction, then those of friction that sticks.

    Where the dynamics are to be hard a motion that sticks at the wrong time is far off at all later ones, so with exact
    friction they are soft until the last.
    """
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
        stages.insert(0, (soft, _own(work, newton=True), True))
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
    go(work, smoothed(problem), _own(work, newton=True))
    if work.fit is not None and work.fit.result.status is Status.CONVERGED:
        work.found = first.told()
        go(work, problem, work.solver, SHARPNESS[-1])
    _named(work)


def _named(work: Work) -> None:
    """The last fit as one of the problem."""
    if work.fit is None:
        return
    problem, noise = work.problem, work.noise
    named = {"backend": work.solver.name, "stepper": problem.stepper.name, "friction": problem.friction}
    rough = noise is not None and noise.status is not Status.CONVERGED
    effect = f"The noise is that of a smooth fit that did not converge: {noise.detail if noise else ''}."
    told = [Finding("noise.not-converged", effect=effect, advice="Raise max_iterations.")] if rough else []
    work.fit = _telling(work.fit, told).with_(**named)


def touch(work: Work) -> None:
    """A fit with who touches when as the data tell it, then one as the law does; pairs follow them.

    Who touches is a choice for each step and contact. Where noise is estimated the first fit has little of it: much of
    it lets noisy samples choose, and takes the part of impacts. A given weight is lowered for the first fit. If both
    lead nowhere, relaxed pairs may.
    """
    problem, near, estimated = work.problem, work.near, work.problem.estimates_noise
    done = near is not None and near.status is Status.CONVERGED and (not estimated or near.normaliser is not None)
    work.found, work.noise = near, near if estimated and done else None
    exact = problem.with_(friction="exact")
    soft = exact if estimated else exact.with_(state_weight=min(problem.weight, _SOFT))
    solver, led = _own(work, newton=True), None
    if not done:
        going = go(work, soft, solver, guessed=estimated)
        led = work.found
        if not going:
            return _named(work)
    going = go(work, exact, solver, SHARPNESS[-1])
    _named(work)
    if not going:
        return None
    work.fit = _if_led(_made(work), led)
    if _made(work).result.status is not Status.CONVERGED and not done and not _by_pairs(work, exact, solver):
        return None
    if not (problem.rubs_smoothly or problem.sticks_exactly):
        go(work, problem, work.solver, SHARPNESS[-1])
        _named(work)
    return None


def _made(work: Work) -> Fit:
    assert work.fit is not None
    return work.fit


def _if_led(made: Fit, led: Solution | None) -> Fit:
    """An answer, which has not converged if noise takes the part of impacts: it has grown since a fit that led to it,
    which did not settle who touches."""
    found = made.result
    if led is None or led.status is Status.CONVERGED or found.status is not Status.CONVERGED:
        return made
    before = {name: one.std for one in led.noise for name in one.names}
    if all(one.std <= _GROWN * before.get(name, np.inf) for one in found.noise for name in one.names):
        return made
    detail = "who touches when did not settle in the fits that lead to this one; take a smaller step"
    return made.with_(status=Status.STALLED, detail=detail)


def _by_pairs(work: Work, exact: Problem, solver: LevenbergMarquardt) -> bool:
    """Another way to the exact law, from the beginning: relaxed pairs first. The better of both; False if that is
    interrupted."""
    best, work.found, work.touching, work.noise = _made(work), None, (), None
    weight = {} if exact.estimates_noise else {"state_weight": min(exact.weight, _SOFT)}
    pairs, estimated = exact.with_(friction="mpcc", **weight), exact.estimates_noise
    going = go(work, pairs, Ipopt(max_iterations=_PAIRS), guessed=estimated)
    led = work.found
    if going and not estimated and exact.weight > _SOFT:
        going = go(work, exact.with_(friction="mpcc"), Ipopt(max_iterations=_PAIRS), SHARPNESS[-1])
    going = going and go(work, exact, solver, SHARPNESS[-1])
    _named(work)
    work.fit = _if_led(_made(work), led)
    if work.fit.result.status is not Status.CONVERGED:
        work.fit = _after_all(best, work.fit)
        work.found = work.fit.told()
    return going


def _sharpened(work: Work, smooth: Problem) -> float | None:
    """The sharpness of the last fit that the one before led to: hard dynamics that stick for long leave none. None if a
    fit is interrupted."""
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
        if not _is_worse(best.result, lead):
            break
        work.found = lead
        for stage, solver in stages:
            if not go(work, stage, solver, sharpness):
                detail = "while other ways than that of this fit were tried"
                work.fit = _after_all(best, _made(work)).with_(status=Status.INTERRUPTED, detail=detail)
                return
        _named(work)
        best = min(best, _made(work), key=lambda s: (s.result.status is not Status.CONVERGED, s.result.cost.total))
    told = _worse(best.result, lead) if _is_worse(best.result, lead) else []
    work.fit = _telling(_after_all(best, _made(work)), told)


def _after_all(best: Fit, last: Fit) -> Fit:
    """A fit with the times of all."""
    return best.with_(times=last.result.times, clocks=last.result.clocks)


def _is_worse(solution: Solution, smoothed: Solution) -> bool:
    return solution.status is not Status.CONVERGED or _excess(solution, smoothed) > _WORSE


def _excess(solution: Solution, smoothed: Solution) -> float:
    """By how much of the smooth fit's cost the other one is above it."""
    return (solution.cost.total - smoothed.cost.total) / abs(smoothed.cost.total)


def _worse(solution: Solution, smoothed: Solution) -> list[Finding]:
    """Where a better answer lies, if it does."""
    cost, smooth = solution.cost.total, smoothed.cost.total
    if cost <= smooth or smoothed.status is not Status.CONVERGED:
        return []
    effect = (
        f"Smooth friction fits better: the cost of a sharp smooth fit is {smooth:.4g}, that of this one {cost:.4g}."
    )
    cause = "What sticks has several minima, and a step resolves it less."
    advice, evidence = "Take a smaller step, or friction 'smooth'.", {"cost": cost, "smooth_cost": smooth}
    return [Finding("friction.smooth-better", (), evidence, effect, cause, advice)]


def _telling(made: Fit, told: list[Finding]) -> Fit:
    """A fit with further findings."""
    return made.with_(findings=made.later(lambda: ranked([*made.result.findings, *told]))) if told else made
