"""Solve a declared problem: which fits it takes, and which of them is the answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import check_stepper
from spookid.assembly.problem import Problem
from spookid.data.recording import RecordingFiles
from spookid.errors import ProblemError, shown
from spookid.estimation import continuation
from spookid.estimation.explained import longest_interval
from spookid.estimation.friction_width import at_widths, estimates_widths, widths_of
from spookid.estimation.noise_components import check_components
from spookid.estimation.outliers import doubt_samples
from spookid.estimation.physical import base_quantities, joint_quantities, negative_findings, physical_quantities
from spookid.estimation.plan import STAGES, Plan, through
from spookid.estimation.plan import answered as ended
from spookid.estimation.questions import asking
from spookid.estimation.suspects import is_still, unsaturated
from spookid.estimation.work import Solver, Work, holds_pairs
from spookid.parameter import parameters_in
from spookid.results.findings import Finding, ranked
from spookid.results.lazy import Clock, Lazy
from spookid.results.result import Solution
from spookid.results.settings import BACKENDS
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt, RecursiveLevenbergMarquardt
from spookid.solvers.status import Callback, Status
from spookid.tables.table import number

SOLVERS: Mapping[str, type[LevenbergMarquardt] | type[Ipopt]] = {
    kind.name: kind for kind in (LevenbergMarquardt, RecursiveLevenbergMarquardt, Ipopt)
}
_MOST_STEPS = 100
"""Steps from a sample to the next, at the most: times in milliseconds make a thousand times as many as are meant."""


@checked
def solve(
    problem: Problem,
    backend: str = "lm",
    options: Mapping[str, Any] = MappingProxyType({}),
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    hold: bool = False,
) -> Solution:
    """Estimate states and parameters by the stages of a plan, as one solve; ``hold`` keeps the noise of the warm start.
    See ``Problem.solve``."""
    began = time.perf_counter()
    work = begun(problem, backend, options, callback, warm_start, hold)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # solvers look at numbers themselves, and tell
        result = ended(through(work, STAGES), problem)
    other = time.perf_counter() - began - result.timing.total
    clock = next(iter(result.clocks), Clock())
    history = tuple(  # without unknowns of a stage that are no parameters of the problem
        replace(step, parameters={name: step.parameters[name] for name in step.parameters if name in result.parameters})
        for step in result.history
    )
    times = replace(result.times, other=max(other, 0.0))
    return result.changed(times=times, history=history, **of_bodies(problem, result, clock))


def planned(problem: Problem, backend: str = "lm", options: Mapping[str, Any] = MappingProxyType({})) -> Plan:
    """Stages of a solve from the initial values; raises the errors of ``solve``."""
    return Plan.of(begun(problem, backend, options))


def begun(
    problem: Problem,
    backend: str,
    options: Mapping[str, Any],
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    hold: bool = False,
) -> Work:
    """Work of a new solve, without suspicious samples for the time being."""
    if isinstance(problem.recordings, RecordingFiles):  # as one piece
        problem = problem.with_(recordings=tuple(problem.recordings))
    if warm_start is not None and not isinstance(warm_start, Solution):
        raise ProblemError(f"{problem.place}: warm_start is {shown(warm_start)}; give a Solution")
    _check_clock(problem)
    solver = _solver(problem, backend, options)
    _check_law(problem, solver)
    _check_moves(problem)
    if continuation.is_staged(problem, solver):
        check_stepper(problem)
    check_components(problem, continuation.is_staged(problem, solver))
    problem, saturation = unsaturated(problem)
    if problem.dynamics == "weight":
        problem = problem.with_(stepper=problem.stepper.conditioned(problem.model, problem.step, problem.guess_on()))
    widths = estimates_widths(problem) and not continuation.is_staged(problem, solver)
    work = Work(
        at_widths(problem, widths_of(warm_start)), solver, callback, warm_start, hold, widths=widths and not hold
    )
    if widths and hold and warm_start is not None:
        kept = warm_start.friction_widths
        work.remarks.append(lambda answer: answer.changed(friction_widths=kept))
    if saturation:
        work.remarks.append(lambda answer: answer.with_findings(lambda: saturation))
    doubt_samples(work)
    return work


def answered(problem: Problem, result: Solution, backend: str, options: Mapping[str, Any], began: float) -> Solution:
    """Final result for the user: with the total time since ``began``, and questions if it is doubtful."""
    loading = time.perf_counter() - began - result.timing.total
    times = replace(result.times, other=result.times.other + max(loading, 0.0))

    again = partial(solve_whole, backend=backend, options=options)
    return asking(problem, result.changed(times=times), again)


def solve_whole(
    problem: Problem, backend: str, options: Mapping[str, Any], callback: Callback | None = None
) -> Solution:
    """Solve from the initial values, like ``solve``; raises KeyboardInterrupt if interrupted."""
    result = solve(problem, backend, options, callback)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def of_bodies(problem: Problem, result: Solution, clock: Clock) -> dict[str, Lazy[Any]]:
    """Physical quantities of bodies and joints, with a finding if combinations are valid for the recordings only."""
    base = Lazy(lambda: base_quantities(problem, result), clock)
    found: dict[str, Lazy[Any]] = {
        "physical": Lazy(lambda: physical_quantities(problem, result), clock),
        "joints": Lazy(lambda: joint_quantities(problem, result), clock),
        "base_parameters": Lazy(lambda: base.get()[0], clock),
    }
    closed = problem.model.has_loops or problem.model.ties

    def findings() -> tuple[Finding, ...]:
        limited = base.get_or(({}, []))[1] if closed else []
        return ranked([*result.findings, *negative_findings(problem, result), *limited])

    found["findings"] = Lazy(findings, clock)
    return found


def _check_clock(problem: Problem) -> None:
    """Refuse times in other units than seconds, with which a fit has too many steps to end."""
    for recording in problem.sample:
        interval = longest_interval(problem, recording)
        if interval > _MOST_STEPS * problem.step:
            raise ProblemError(
                f"{problem.place}: recording {recording.name!r} has a sample every {number(interval)} s, which are "
                f"{math.floor(interval / problem.step):,} steps of {number(problem.step)} s; give times in seconds, or "
                f"a step of {number(interval / _MOST_STEPS)} s or longer"
            )


def _check_law(problem: Problem, solver: Solver) -> None:
    """Refuse inequalities, and a form of dry friction, to a solver that does not know them."""
    paired, name = holds_pairs(solver), solver.name
    unequal = next((residual for residual in problem.residuals if residual.is_inequality), None)
    if unequal is not None and not paired:
        raise ProblemError(
            f"{unequal.place}: Residual {unequal.name!r} is an inequality, which backend {name!r} cannot hold; use "
            "backend 'ipopt'"
        )
    switches = problem.sticks_exactly or (problem.rubs_smoothly and bool(problem.model.contacts))
    if switches if paired else problem.sticks_in_pairs:
        law, other = ("mpcc", "lm") if paired else ("exact", "ipopt")
        raise ProblemError(
            f"{problem.place}: friction {problem.friction!r} is not for backend {name!r}; use friction {law!r} or "
            f"backend {other!r}"
        )


def _check_moves(problem: Problem) -> None:
    """Refuse to estimate what dry friction hides, which holds every joint at rest whatever the parameters are."""
    model, joints = problem.model, problem.model.freedoms
    of_model = {p.order for p in parameters_in(model.expressions(), "the model")}
    sought = [p.name for p in problem.free if p.prior is None and p.order in of_model]
    held = all(one.rubs for one in joints) and not any(body.free for body in model.bodies)
    known = problem.channels and problem.recordings
    if not (held and joints and sought and known) or problem.residuals or model.contacts:
        return
    shown = ((recording.signal(c.signal), c.period) for recording in problem.recordings for c in problem.channels)
    if all(is_still(*one) for one in shown):
        raise ProblemError(
            f"{problem.place}: no sensor shows a motion beyond its noise, and dry friction holds every joint at rest "
            f"whatever {', '.join(sought)} may be; record a motion"
        )


def _solver(problem: Problem, backend: str, options: Mapping[str, Any]) -> LevenbergMarquardt | Ipopt:
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
