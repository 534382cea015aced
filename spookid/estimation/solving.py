"""Solve a declared problem: which fits it takes, and which of them is the answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import check_stepper
from spookid.assembly.declaration import BACKENDS, Declaration
from spookid.data.recording import RecordingFiles
from spookid.errors import ProblemError, shown
from spookid.estimation import continuation, extrapolation
from spookid.estimation.delays import around_impacts, asked_from, free_delays, settled
from spookid.estimation.estimator_choice import choose_estimator, starting_from
from spookid.estimation.fit import Fit, joined
from spookid.estimation.fitting import Start, counting_from, fit
from spookid.estimation.friction_start import with_better_friction
from spookid.estimation.gaps import solved_across_gaps
from spookid.estimation.noise_start import with_explained_motion
from spookid.estimation.outliers import solved_without_outliers
from spookid.estimation.physical import base_quantities, joint_quantities, negative_notices, physical_quantities
from spookid.estimation.robust_start import without_outliers
from spookid.records import dataclass
from spookid.results.lazy import Clock, Lazy
from spookid.results.notices import ranked
from spookid.results.result import Result
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt, RecursiveLevenbergMarquardt
from spookid.solvers.status import Callback, Status

SOLVERS: Mapping[str, type[LevenbergMarquardt] | type[Ipopt]] = {
    kind.name: kind for kind in (LevenbergMarquardt, RecursiveLevenbergMarquardt, Ipopt)
}


@checked
def solve(
    problem: Declaration,
    backend: str = "lm",
    options: Mapping[str, Any] = MappingProxyType({}),
    callback: Callback | None = None,
    warm_start: Result | None = None,
    hold: bool = False,
) -> Result:
    """Estimate states and parameters of ``problem``; see ``Problem.solve``.

    Friction that sticks is reached in stages (``continuation``). Together they count as one solve, and as iterations
    of it.

    Args:
        hold: True to keep the noise of ``warm_start`` as it is.
    """
    began = time.perf_counter()
    if isinstance(problem.recordings, RecordingFiles):  # as one piece
        problem = problem.with_(recordings=tuple(problem.recordings))

    def solved(part: Declaration, near: Result | None, held: bool, before: Result | None, leads: bool) -> Result:
        counted = callback if before is None else counting_from(callback, before.iterations)
        found = _solved(part, backend, options, counted, near, held or hold, leads)
        return found if before is None else asked_from(problem, found.changed(**joined(before, found)))

    def across(part: Declaration, near: Result | None, before: Result | None, leads: bool) -> Result:
        if before is not None:
            return solved(part, near, False, before, leads)
        return solved_across_gaps(part, near, partial(solved, leads=leads))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # solvers look at numbers themselves, and tell
        result = solved_without_outliers(problem, warm_start, across)
    other = time.perf_counter() - began - result.timing.total
    clock = next(iter(result.clocks), Clock())
    return result.changed(times=replace(result.times, other=max(other, 0.0)), **of_bodies(problem, result, clock))


def solve_whole(problem: Declaration, backend: str, options: Mapping[str, Any]) -> Result:
    """As ``solve``, from the guesses.

    Raises:
        KeyboardInterrupt: if it is interrupted.
    """
    result = solve(problem, backend, options)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def of_bodies(problem: Declaration, result: Result, clock: Clock) -> dict[str, Lazy[Any]]:
    """What estimates mean for bodies and joints, and a notice if combinations are not those of any motion."""
    base = Lazy(lambda: base_quantities(problem, result), clock)
    found: dict[str, Lazy[Any]] = {
        "physical": Lazy(lambda: physical_quantities(problem, result), clock),
        "joints": Lazy(lambda: joint_quantities(problem, result), clock),
        "base_parameters": Lazy(lambda: base.get()[0], clock),
    }
    closed = problem.model.has_loops or problem.model.ties

    def notices() -> tuple[str, ...]:
        told = base.get_or(({}, ""))[1] if closed else ""
        return ranked([*result.notices, *negative_notices(problem, result), *filter(None, [told])])

    found["notices"] = Lazy(notices, clock)
    return found


def _solved(
    problem: Declaration,
    backend: str,
    options: Mapping[str, Any],
    callback: Callback | None,
    warm_start: Result | None,
    hold: bool,
    leads: bool = False,
) -> Result:
    """A solve; if it only leads on, without what follows from a fit: other estimators, and what the step adds."""
    if warm_start is not None and not isinstance(warm_start, Result):
        raise ProblemError(f"{problem.place}: warm_start is {shown(warm_start)}; give a Solution")
    solver = _solver(problem, backend, options)
    _check_law(problem, backend)
    plain = without_outliers(problem)
    if plain is not problem:
        if warm_start is None and not hold:
            return _with_losses(problem, plain, backend, options, callback)
        hold = True
    problem, warm_start = starting_from(problem, warm_start)
    roughly = not isinstance(solver, Ipopt) and problem.corrects and not free_delays(problem)
    start = Start(warm_start, problem.given, hold=hold, roughly=roughly)
    if continuation.is_staged(problem, backend):
        check_stepper(problem)
        return _staged(problem, solver, callback, start)
    first = settled(problem, solver, callback, start)
    if warm_start is None and not hold:
        first = with_explained_motion(first, partial(_led, first, solver, callback))
    first = with_better_friction(first, partial(_onwards, first, solver, callback))
    if leads:
        return first.told()
    decision = choose_estimator(first.assembly.problem, first, partial(_again, first.result, solver, callback))
    answer = decision.told(_corrected(_Again(decision.problem, solver, callback, hold=hold), decision.fit))
    return asked_from(problem, answer) if free_delays(problem) else answer


def _staged(
    problem: Declaration, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Start
) -> Result:
    """By way of other fits, the first of which find delays if there are any."""
    names, around, known, counted = free_delays(problem), problem, start.solution, callback
    if names:
        known = settled(problem.with_(friction="smooth"), LevenbergMarquardt(), callback, start).told()
        around = problem.with_(initial={**problem.initial, **{name: known.values[name] for name in names}})
        counted = counting_from(callback, known.iterations)
    first, _ = continuation.by_continuation(around, solver, counted, known)
    if names and known is not None:
        first = first.with_(**joined(known, first.result))
    return asked_from(problem, _corrected(_Again(around, solver, callback, staged=True), first))


def _with_losses(
    problem: Declaration, plain: Declaration, backend: str, options: Mapping[str, Any], callback: Callback | None
) -> Result:
    """From the plain fit on, with the noise that it has found: a scale first, then estimates by it, as MM-estimators do
    (Yohai, Annals of Statistics 15, 1987). Together they have several maxima, for the Laplace approximation does not
    compare samples that follow the noise with those that leave it alone."""
    before = _solved(plain, backend, options, callback, None, False)
    if before.status is Status.INTERRUPTED:
        return before
    # The guesses of the user have had their turn.
    own = {name: value for name, value in problem.initial.items() if name in problem.fixed}
    counted = counting_from(callback, before.iterations)
    later = _solved(problem.with_(initial=own), backend, options, counted, before, True)
    return asked_from(problem, later.changed(noise=before.noise, **joined(before, later)))


def _onwards(first: Fit, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Result) -> Fit:
    """The first fit once more, from another start, with the history and the times of both."""
    later = fit(first.assembly.problem, solver, counting_from(callback, start.iterations), Start(start))
    return later.with_(**joined(start, later.result))


def _led(first: Fit, solver: LevenbergMarquardt | Ipopt, callback: Callback | None) -> Fit:
    """A fit from where one at held noise ends, with the history and the times of all three."""
    before = first.result
    lead = fit(first.assembly.problem, solver, counting_from(callback, before.iterations), Start(guessed=True))
    lead = lead.with_(**joined(before, lead.result))
    if lead.outcome.status is not Status.CONVERGED:
        return lead
    return _onwards(lead, solver, callback, lead.result.changed(noise=()))


def _again(found: Result, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, problem: Declaration) -> Fit:
    """A fit that goes on from another one, with the history and the times of both."""
    counted = counting_from(callback, found.iterations)
    later = around_impacts(fit(problem, solver, counted, Start(found)), solver, counted)
    return later.with_(**joined(found, later.result))


@dataclass(frozen=True)
class _Again:
    """How a problem that has been fitted is fitted again, to see what its step adds."""

    problem: Declaration
    solver: LevenbergMarquardt | Ipopt
    callback: Callback | None
    staged: bool = False
    hold: bool = False
    """See ``solve``."""

    def finer(self, first: Fit) -> tuple[Fit, Result | None]:
        """With steps half as long; and the fit whose noise it has."""
        fine, counted = extrapolation.finer(self.problem), counting_from(self.callback, first.result.iterations)
        if self.staged:
            around = fine.with_(initial=first.values)
            return continuation.by_continuation(around, self.solver, counted, first.told())
        made = fit(fine, self.solver, counted, Start(first.result, hold=self.hold))
        return made, made.result

    def coarser(self, first: Fit, fine: Fit, noise: Result | None) -> Fit:
        """With the noise of the finer one."""
        pins, found = extrapolation.pinned(fine), first.result
        if self.staged:
            start = Start(first.told(), noise=noise, sharpness=continuation.SHARPNESS[-1], held=pins)
        else:
            # What is held belongs to the other estimates of that fit.
            estimates = fine.result.parameters if pins else found.parameters
            near = found.changed(noise=extrapolation.noise_of(fine, found), parameters=estimates)
            start = Start(near, hold=True, held=pins, assembly=first.assembly)
        return fit(self.problem, self.solver, None, start)


def _corrected(again: _Again, first: Fit) -> Result:
    """With estimates of continuous time, where they are asked for and can be had."""
    problem, found = again.problem, first.result
    if not problem.corrects or found.status is not Status.CONVERGED:
        return first.told()
    try:
        fine, noise = again.finer(first)
        coarse = again.coarser(first, fine, noise) if fine.result.status is Status.CONVERGED else fine
        interrupted = Status.INTERRUPTED in (fine.result.status, coarse.result.status)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        return found.changed(status=Status.INTERRUPTED, detail="before the step was taken from the estimates")
    if not fine.result.status is coarse.result.status is Status.CONVERGED:
        if first.found is not None and first.found.rough:
            first = _again(found, again.solver, again.callback, problem)
        told = first.told()
        missed = first.later(lambda: ranked([*told.notices, extrapolation.missed(problem.step)]))
        return told.changed(notices=missed)
    answer = extrapolation.extrapolated(coarse, fine)
    all_three = answer.changed(times=answer.times + coarse.result.times, clocks=(fine.clock, coarse.clock))
    return all_three.changed(**joined(found, all_three))


def _check_law(problem: Declaration, backend: str) -> None:
    """Refuse inequalities, and a form of dry friction, to a solver that does not know them."""
    unequal = next((residual for residual in problem.residuals if residual.kind == "inequality"), None)
    if unequal is not None and backend != "ipopt":
        raise ProblemError(
            f"{unequal.place}: Residual {unequal.name!r} is an inequality, which backend {backend!r} cannot hold; use "
            "backend 'ipopt'"
        )
    own = (backend == "ipopt", problem.friction)
    other = {(False, "mpcc"): ("exact", "ipopt"), (True, "exact"): ("mpcc", "lm")}.get(own)
    if other is not None:
        raise ProblemError(
            f"{problem.place}: friction {problem.friction!r} is not for backend {backend!r}; use friction "
            f"{other[0]!r} or backend {other[1]!r}"
        )


def _solver(problem: Declaration, backend: str, options: Mapping[str, Any]) -> LevenbergMarquardt | Ipopt:
    if backend not in BACKENDS:
        raise ProblemError(f"{problem.place}: backend {backend!r} is not known; choose from {', '.join(BACKENDS)}")
    kind = SOLVERS[backend]
    known = {f.name for f in fields(kind)}
    for name in options:
        if name not in known:
            raise ProblemError(
                f"{problem.place}: {name!r} is no option of backend {backend!r}; it has {', '.join(sorted(known))}"
            )
    return kind(**options)
