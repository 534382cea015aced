"""Continuation: to dry friction that sticks by way of smooth friction, and to noise for those who do not estimate it.

Noise in the data says little about who sticks when; the smooth motion much. So a fit of friction that sticks begins
with a smooth one, which finds the noise too, and follows it while the width of the law shrinks, each fit starting where
the last has ended, until what still creeps is a hundred-thousandth of the joint's speed. There it is plain who sticks.
(Allgower and Georg, Numerical Continuation Methods, 1990; a smooth law that is sharp at once stalls.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spookid.assembly.contact_start import touching
from spookid.assembly.declaration import Declaration
from spookid.estimation.fit import Fit, joined
from spookid.estimation.fitting import Start, counting_from, fit
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding, ranked
from spookid.results.result import Result
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Callback, Status

SHARPNESS = (1e-1, 1e-2, 1e-3)
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


@dataclass(eq=False)
class _Path:
    """The fits so far."""

    problem: Declaration
    solver: LevenbergMarquardt | Ipopt
    callback: Callback | None
    found: Result | None
    """Where the next fit starts."""
    noise: Result | None
    """Whose noise they keep."""
    touching: tuple[Array | None, ...] = ()
    """What contacts do in the last one."""
    done: Fit | None = None
    """The last fit, with the history and the times of all."""

    def go(
        self,
        problem: Declaration,
        solver: LevenbergMarquardt | Ipopt,
        sharpness: float = 1.0,
        turns: bool = True,
        guessed: bool = False,
    ) -> bool:
        """One fit from the last one; False if it is interrupted, or finds no noise that others could keep.

        Args:
            guessed: True to take noise as a search for it would begin.
        """
        own = {} if self.done else problem.given
        start = Start(self.found, own, self.noise, sharpness, turns, touching=self.touching, guessed=guessed)
        if isinstance(solver, LevenbergMarquardt):  # which holds no inequalities, and only leads on
            problem = problem.with_(residuals=[r for r in problem.residuals if r.kind != "inequality"])
        before = self.done.result.iterations if self.done else 0
        if isinstance(solver, Ipopt):
            told = self.found is not None and self.found.friction != "smooth"
            solver = replace(solver, told=solver.told or told or sharpness < 1)
        made = fit(problem, solver, counting_from(self.callback, before), start)
        self.touching = tuple(touching(problem, unknowns) for unknowns in made.point.states)
        self.found = made.told()
        self.done = made if self.done is None else made.with_(**joined(self.done.result, made.result))
        if problem.dynamics == "estimated" and self.noise is None and not guessed:
            self.noise = self.found
            if self.found.normaliser is None:
                return False
        return self.found.status is not Status.INTERRUPTED

    def smoothly(self, problem: Declaration, sharpness: float = 1.0) -> bool:
        """A smooth fit on the way: a sharp one only has to lead on."""
        most, sharp = self.solver.max_iterations, sharpness < 1
        return self.go(problem, self.own(min(most, _SHARPENING) if sharp else most, newton=not sharp), sharpness)

    def begin(self, problem: Declaration) -> bool:
        """The first fits, with a stepper that is easier to begin with; but noise that is estimated is that of the
        stepper."""
        first = problem if problem.dynamics == "estimated" else problem.with_(stepper=problem.stepper.leader)
        return self.smoothly(first) and (first.stepper == problem.stepper or self.smoothly(problem))

    def own(self, most: int, newton: bool = True) -> LevenbergMarquardt:
        """The solver of fits on the way."""
        threads = self.solver.threads if isinstance(self.solver, LevenbergMarquardt) else 1
        return LevenbergMarquardt(max_iterations=most, newton=newton, threads=threads)

    @property
    def answer(self) -> Fit:
        """The last fit as one of the problem."""
        assert self.done is not None
        problem, noise = self.problem, self.noise
        named = {"backend": self.solver.name, "stepper": problem.stepper.name, "friction": problem.friction}
        rough = noise is not None and noise.status is not Status.CONVERGED
        effect = f"The noise is that of a smooth fit that did not converge: {noise.detail if noise else ''}."
        told = [Finding("noise.not-converged", effect=effect, advice="Raise max_iterations.")] if rough else []
        return _telling(self.done, told).with_(**named)


def is_staged(problem: Declaration, backend: str) -> bool:
    """True if a problem is solved in stages."""
    if _touches(problem) or _sticks(problem):
        return True
    if problem.dynamics == "estimated":
        return any(residual.kind == "inequality" for residual in problem.residuals)
    return backend == "ipopt" and problem.stepper.leader != problem.stepper


def by_continuation(
    problem: Declaration, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, known: Result | None
) -> tuple[Fit, Result | None]:
    """The fit by all stages, or by those that a solution which is known leaves; and the one whose noise it keeps, if
    any."""
    estimated = problem.dynamics == "estimated"
    # What was left on the way, or has no noise that could be kept, is a start for the first fit only.
    done = known is not None and known.status is Status.CONVERGED and (not estimated or known.normaliser is not None)
    path = _Path(problem, solver, callback, known, known if estimated and done else None)
    if _touches(problem):
        _by_codes(path, done)
    elif _sticks(problem):
        _continued(path, done)
    elif done or path.begin(problem):
        path.go(problem, solver)
    return path.answer, path.noise


def _continued(path: _Path, done: bool) -> None:
    """Fits of ever sharper friction, then those of friction that sticks; from where they start if that is ``done``.

    Where the dynamics are to be hard a motion that sticks at the wrong time is far off at all later ones, so with exact
    friction they are soft until the last.
    """
    problem, known = path.problem, path.found
    soft = problem if np.isfinite(problem.weight) else problem.with_(state_weight=_SOFT)
    width = None if problem.friction == "exact" else problem.friction_width
    smooth = soft.with_(friction="smooth", friction_width=width)
    if not done and not path.begin(smooth):
        return
    if done and known is not None and known.friction != "smooth":
        path.go(problem, path.solver, SHARPNESS[-1])
        return
    sharpness = _sharpened(path, smooth)
    if sharpness is None:
        return
    smoothed = path.found if soft is problem else None
    stages = [(problem, path.solver, True)]
    if soft is not problem and problem.friction == "exact":
        stages.insert(0, (soft, path.own(path.solver.max_iterations), True))
    if problem.stepper.two_sided and (soft is problem or len(stages) > 1):
        # Friction as at the end of a step, whether the joint turned in it or not, has fewer minima.
        stages.insert(0, (*stages[0][:2], False))
    for stage, solver, turns in stages:
        if not path.go(stage, solver, sharpness, turns):
            return
    if smoothed is not None:
        _compared(path, smoothed, sharpness)


def _by_codes(path: _Path, done: bool) -> None:
    """A fit with who touches when as the data tell it, then one as the law does; pairs follow them.

    Who touches is a choice for each step and contact. Where noise is estimated the first fit has little of it: much of
    it lets noisy samples choose, and takes the part of impacts. A given weight is lowered for the first fit. If both
    lead nowhere, relaxed pairs may.
    """
    problem, estimated = path.problem, path.problem.dynamics == "estimated"
    exact = problem.with_(friction="exact")
    soft = exact if estimated else exact.with_(state_weight=min(problem.weight, _SOFT))
    solver, led = path.own(path.solver.max_iterations), None
    if not done:
        if not path.go(soft, solver, guessed=estimated):
            return
        led = path.found
    if not path.go(exact, solver, SHARPNESS[-1]):
        return
    path.done = _if_led(path.answer, led)
    if path.answer.result.status is not Status.CONVERGED and not done and not _by_pairs(path, exact, solver):
        return
    if problem.friction == "mpcc":
        path.go(problem, path.solver, SHARPNESS[-1])


def _if_led(made: Fit, led: Result | None) -> Fit:
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


def _by_pairs(path: _Path, exact: Declaration, solver: LevenbergMarquardt) -> bool:
    """Another way to the exact law, from the beginning: relaxed pairs first. The better of both; False if that is
    interrupted."""
    best, path.found, path.touching, path.noise = path.answer, None, (), None
    weight = {} if exact.dynamics == "estimated" else {"state_weight": min(exact.weight, _SOFT)}
    pairs, estimated = exact.with_(friction="mpcc", **weight), exact.dynamics == "estimated"
    going = path.go(pairs, Ipopt(max_iterations=_PAIRS), guessed=estimated)
    led = path.found
    if going and not estimated and exact.weight > _SOFT:
        going = path.go(exact.with_(friction="mpcc"), Ipopt(max_iterations=_PAIRS), SHARPNESS[-1])
    going = going and path.go(exact, solver, SHARPNESS[-1])
    path.done = _if_led(path.answer, led)
    if path.answer.result.status is not Status.CONVERGED:
        path.done = _after_all(best, path)
        path.found = path.done.told()
    return going


def _sharpened(path: _Path, smooth: Declaration) -> float | None:
    """The sharpness of the last fit that the one before led to: hard dynamics that stick for long leave none. None if a
    fit is interrupted."""
    reached = 1.0
    for sharpness in SHARPNESS:
        before = path.found
        if not path.smoothly(smooth, sharpness):
            return None
        assert before is not None
        assert path.found is not None
        if _excess(path.found, before) > _WORSE:
            path.found = before
            break
        reached = sharpness
    return reached


def _compared(path: _Path, smoothed: Result, sharpness: float) -> None:
    """Other ways while friction that sticks fits worse than the smooth one does, and the best of all: a shorter one,
    and to exact friction one by way of pairs."""
    best, problem = path.answer, path.problem
    pairs = (problem.with_(friction="mpcc"), Ipopt(max_iterations=path.solver.max_iterations))
    others = [[(problem, path.solver)], [pairs, (problem, path.solver)]]
    for stages in others if problem.friction == "exact" else others[:1]:
        if not _is_worse(best.result, smoothed):
            break
        path.found = smoothed
        for stage, solver in stages:
            if not path.go(stage, solver, sharpness):
                detail = "while other ways than that of this fit were tried"
                path.done = _after_all(best, path).with_(status=Status.INTERRUPTED, detail=detail)
                return
        best = min(best, path.answer, key=lambda s: (s.result.status is not Status.CONVERGED, s.result.cost.total))
    told = _worse(best.result, smoothed) if _is_worse(best.result, smoothed) else []
    path.done = _telling(_after_all(best, path), told)


def _after_all(best: Fit, path: _Path) -> Fit:
    """A fit with the times of all."""
    spent = path.answer.result
    return best.with_(times=spent.times, clocks=spent.clocks)


def _is_worse(solution: Result, smoothed: Result) -> bool:
    return solution.status is not Status.CONVERGED or _excess(solution, smoothed) > _WORSE


def _excess(solution: Result, smoothed: Result) -> float:
    """By how much of the smooth fit's cost the other one is above it."""
    return (solution.cost.total - smoothed.cost.total) / abs(smoothed.cost.total)


def _worse(solution: Result, smoothed: Result) -> list[Finding]:
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


def _touches(problem: Declaration) -> bool:
    return problem.friction != "smooth" and bool(problem.model.contacts)


def _sticks(problem: Declaration) -> bool:
    return problem.friction != "smooth" and any(j.rubs for j in problem.model.joints)


def _telling(made: Fit, told: list[Finding]) -> Fit:
    """A fit with further findings."""
    return made.with_(findings=made.later(lambda: ranked([*made.result.findings, *told]))) if told else made
