"""Solve a declared problem and put the answer together."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import casadi as ca
import numpy as np

import spookid
from spookid import extrapolation, inertias, notices, step_errors
from spookid.assembly import Assembly, assemble, check_stepper, unknowns
from spookid.errors import ProblemError, shown
from spookid.estimators import Fit, decided, fresh
from spookid.factor import Group
from spookid.influence import Influence
from spookid.joints import ROWS
from spookid.kernels import Array
from spookid.knowledge import Knowledge, at_bounds, contradictions, disagreement, learn, papers_weight
from spookid.outlining import mechanism
from spookid.parameter import Parameter
from spookid.problem import BACKENDS, Problem
from spookid.responses import influence
from spookid.solution import Cost, Estimate, Size, Solution, Step, Times, Trajectory
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import Callback, LevenbergMarquardt
from spookid.solvers.reduction import Reduction
from spookid.solvers.status import Iteration, Outcome, Status
from spookid.statistics import likelihood_fit as likelihood
from spookid.statistics.likelihood_fit import Found
from spookid.steppers.variational import Variational
from spookid.trajectories import complementarity, sticking, trajectories
from spookid.transcription import Point, Transcription
from spookid.uncertainty import Sensitivities

SOLVERS: Mapping[str, type[LevenbergMarquardt] | type[Ipopt]] = {"lm": LevenbergMarquardt, "ipopt": Ipopt}
_SOFT = 100.0
"""State weight of a first fit whose dynamics are to be hard."""
_VERSIONS = {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__}


def solve(
    problem: Problem,
    backend: str,
    options: Mapping[str, Any],
    callback: Callback | None,
    warm_start: Solution | None = None,
    hold: bool = False,
) -> Solution:
    """Estimate states and parameters of ``problem``; see ``Problem.solve``.

    Friction that sticks is approached in stages, each of which starts where the last has ended (``_stages``). Together
    they count as one solve, and as iterations of it.

    Args:
        hold: True to keep the noise of ``warm_start`` as it is.
    """
    if warm_start is not None and not isinstance(warm_start, Solution):
        raise ProblemError(f"{problem.place}: warm_start is {shown(warm_start)}; give a Solution")
    solver = _solver(problem, backend, options)
    _check_law(problem, backend)
    problem, warm_start = fresh(problem, warm_start)
    begun = warm_start is not None and (problem.dynamics != "estimated" or warm_start.normaliser is not None)
    if begun or not _staged(problem, backend):
        first = _fit(problem, backend, solver, callback, warm_start, problem.initial, hold)
        decision = decided(problem, first, partial(_again, first.solution, backend, solver, callback))
        return decision.told(_corrected(decision.problem, backend, solver, callback, decision.fit))
    check_stepper(problem)
    threads = solver.threads if isinstance(solver, LevenbergMarquardt) else 1
    before = LevenbergMarquardt(max_iterations=solver.max_iterations, threads=threads)
    found: Solution | None = None
    for stage in _stages(problem):
        found = _continued(stage, "lm", before, callback, found)
        if found.status is Status.INTERRUPTED:
            return replace(found, backend=backend, stepper=problem.stepper.name, friction=problem.friction)
    return _continued(problem, backend, solver, callback, found)


def _again(
    found: Solution, backend: str, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, problem: Problem
) -> Fit:
    """A fit that goes on from another one, with the history and the times of both."""
    fit = _fit(problem, backend, solver, _counting(callback, found.iterations), found, {})
    return replace(fit, solution=_joined(found, fit.solution))


def _corrected(
    problem: Problem,
    backend: str,
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
    fit: Fit,
) -> Solution:
    """With estimates of continuous time, where they are asked for and can be had."""
    found = fit.solution
    if not problem.corrects or backend != "lm" or found.status is not Status.CONVERGED:
        return fit.told()
    counting = _counting(callback, found.iterations)
    try:
        fine = _fit(extrapolation.finer(problem), backend, solver, counting, found, {})
        coarse = _fit(problem, backend, solver, None, fine.solution, {}, hold=True)
        interrupted = Status.INTERRUPTED in (fine.solution.status, coarse.solution.status)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        return replace(found, status=Status.INTERRUPTED, detail="before the step was taken from the estimates")
    if not fine.solution.status is coarse.solution.status is Status.CONVERGED:
        told = fit.told()
        return replace(told, notices=notices.ranked([*told.notices, extrapolation.missed(problem.step)]))
    answer = extrapolation.extrapolated(coarse.solution, fine.told(coarse.answers))
    return _joined(found, replace(answer, times=answer.times + coarse.solution.times))


def _staged(problem: Problem, backend: str) -> bool:
    """True if a problem is approached in stages: friction that sticks, and noise for who does not estimate it."""
    rubs = problem.friction != "smooth" and any(j.rubs for j in problem.model.joints)
    return rubs or (problem.dynamics == "estimated" and backend == "ipopt")


def _stages(problem: Problem) -> list[Problem]:
    """What is solved before a problem with friction that sticks.

    First friction is smoothed: noise in the data says little about who sticks when, the smooth motion much. Joints are
    rigid then: stiff ones, or multipliers that start from nothing, only make it harder; but noise that is estimated is
    that of the stepper. Where the dynamics are to be
    hard a motion that sticks at the wrong time is far off at all later ones, so with exact friction they are soft once.
    """
    soft = problem if np.isfinite(problem.weight) else problem.with_(state_weight=_SOFT)
    width = None if problem.friction == "exact" else problem.friction_width
    stepper = problem.stepper if problem.dynamics == "estimated" else Variational()
    smooth = soft.with_(friction="smooth", stepper=stepper, friction_width=width)
    return [smooth, soft] if soft is not problem and problem.friction == "exact" else [smooth]


def _continued(
    problem: Problem,
    backend: str,
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
    found: Solution | None,
) -> Solution:
    """The next stage after ``found``, if any, with the history and the times of both."""
    if found is None:
        return _fit(problem, backend, solver, callback, None, {}).told()
    counting = _counting(callback, found.iterations)
    return _joined(found, _fit(problem, backend, solver, counting, found, {}).told())


def _fit(
    problem: Problem,
    backend: str,
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
    warm_start: Solution | None,
    own: Mapping[str, float],
    hold: bool = False,
) -> Fit:
    """One solve, from a solution if there is one but for the guesses ``own``; with its noise if that is to ``hold``."""
    began = time.perf_counter()
    going_on = warm_start is not None and warm_start.normaliser is not None and _refined(problem, backend)
    assembly = assemble(problem, _normaliser(problem, warm_start) if going_on and warm_start else None)
    start = assembly.start if warm_start is None else _warm(assembly, warm_start, own)
    _check_freedom(assembly, start)
    solver.prepare(assembly.transcription, start)
    compiling = assembly.transcription.kernels.seconds
    build = time.perf_counter() - began - compiling
    if problem.dynamics != "estimated":
        outcome = solver.solve(assembly.transcription, start, callback)
        return _answer(assembly, outcome, Times.of(outcome.timing, build, compiling), backend)
    if going_on and warm_start is not None:
        found = likelihood.kept(assembly, start, warm_start.noise, solver, callback)
    else:
        assert isinstance(solver, LevenbergMarquardt)
        known = warm_start.noise if warm_start else ()
        found = likelihood.maximum(assembly, start, known, solver, callback, hold)
    times = Times.of(found.outcome.timing, build, compiling)
    return _answer(found.assembly, found.outcome, times, backend, found)


def _normaliser(problem: Problem, known: Solution) -> Array:
    """θ₀, v and c for ``assemble``: the normaliser around the estimates of a fit that has found the noise."""
    assert known.normaliser is not None
    names, values = known.sensitivities.names, known.values
    slopes = dict(zip(names, known.normaliser.tolist(), strict=True))
    free = [p.name for p in problem.free]
    at = [values[name] for name in free]
    return np.array([*at, *(slopes.get(name, 0.0) for name in free), float(known.size.residuals)])


def _refined(problem: Problem, backend: str) -> bool:
    """True if this form of friction or backend takes the noise that the smooth fit found."""
    return backend == "ipopt" or (problem.friction != "smooth" and any(j.rubs for j in problem.model.joints))


def _check_freedom(assembly: Assembly, start: Point) -> None:
    """Refuse a mechanism that cannot move."""
    problem, model = assembly.problem, assembly.problem.model
    if ROWS * len(model.joints) < model.configuration.tangent or Reduction(assembly.transcription, start).tangent:
        return
    raise ProblemError(
        f"{problem.place}: Problem {problem.name!r}: the joints {', '.join(joint.name for joint in model.joints)} are "
        "rigid in this stepper and leave nothing that could move; take one away, or use Spook(), whose joints give way"
    )


def _counting(callback: Callback | None, done: int) -> Callback | None:
    """A callback that goes on counting iterations."""
    return None if callback is None else lambda i: callback(replace(i, iteration=i.iteration + done))


def _joined(first: Solution, second: Solution) -> Solution:
    """The second of two solves with the history and the times of both."""
    later = (replace(step, iteration=step.iteration + first.iterations) for step in second.history[1:])
    return replace(second, history=(*first.history, *later), times=first.times + second.times)


def _warm(assembly: Assembly, solution: Solution, own: Mapping[str, float]) -> Point:
    """States and estimates of a solution where it has them, but for the guesses ``own``."""
    problem, known = assembly.problem, solution.values
    values = [
        float(np.clip(known[p.name], p.lower, p.upper))
        if p.name not in own and np.isfinite(known.get(p.name, np.nan))
        else problem.guess[p.name]
        for p in problem.free
    ]
    return replace(_states(assembly, solution), parameters=np.array(values))


def _states(assembly: Assembly, solution: Solution) -> Point:
    """The start with the states of a solution."""
    problem = assembly.problem
    given = [(trajectory.name, trajectory.t, trajectory.q, trajectory.v) for trajectory in solution.trajectories]
    wanted = [(e.recording.name, e.grid.times(), len(problem.model.bodies)) for e in assembly.evidence]
    if problem.corrects or problem.every > 1:
        given = [_onto(*one, times) for one, (_, times, _) in zip(given, wanted, strict=False)]
    for (name, t, q, _), (recording, times, bodies) in zip(given, wanted, strict=False):
        if name != recording or q.shape[:2] != (len(times), bodies) or not np.allclose(t, times, atol=problem.step / 2):
            raise ProblemError(
                f"{problem.place}: warm_start has no states of recording {recording!r} at the steps of this problem; "
                "give a solution of the same recordings, bodies and step"
            )
    if len(given) != len(wanted):
        raise ProblemError(
            f"{problem.place}: warm_start has {len(given)} recordings and this problem {len(wanted)}; give a solution "
            "of the same recordings"
        )
    states = [np.hstack([q.reshape(len(q), -1), v.reshape(len(v), -1)]) for _, _, q, v in given]
    pairs = zip(assembly.evidence, states, strict=True)
    return Point(tuple(unknowns(assembly.problem, e, assembly.widths, x) for e, x in pairs), assembly.start.parameters)


def _onto(name: str, t: Array, q: Array, v: Array, times: Array) -> tuple[str, Array, Array, Array]:
    """States of a recording at other times, between those that are known."""
    at = np.interp(times, t, np.arange(len(t)))
    low = np.minimum(at.astype(int), len(t) - 2)
    share = (at - low)[:, None, None]
    signs = np.where(np.sum(q[low, :, 3:] * q[low + 1, :, 3:], axis=2, keepdims=True) < 0, -1.0, 1.0)
    poses = (1 - share) * q[low] + share * q[low + 1]
    poses[:, :, 3:] = (1 - share) * q[low, :, 3:] + share * signs * q[low + 1, :, 3:]
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    return name, times, poses, (1 - share) * v[low] + share * v[low + 1]


def _check_law(problem: Problem, backend: str) -> None:
    """Refuse a form of dry friction to a solver that does not know it."""
    other = {("lm", "mpcc"): ("exact", "ipopt"), ("ipopt", "exact"): ("mpcc", "lm")}.get((backend, problem.friction))
    if other is not None:
        raise ProblemError(
            f"{problem.place}: friction {problem.friction!r} is not for backend {backend!r}; use friction "
            f"{other[0]!r} or backend {other[1]!r}"
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


def _answer(assembly: Assembly, outcome: Outcome, times: Times, backend: str, found: Found | None = None) -> Fit:
    """The solution, and what it was made of."""
    held = at_bounds(assembly.transcription, outcome.point)
    knowledge = learn(assembly, outcome.point, held, found.covariance if found else None)
    solution = _solution(assembly, outcome, knowledge, times, backend, found)
    return Fit(solution, assembly, outcome.point, knowledge, found)


def _solution(
    assembly: Assembly, outcome: Outcome, knowledge: Knowledge, times: Times, backend: str, found: Found | None
) -> Solution:
    problem, transcription = assembly.problem, assembly.transcription
    values = problem.guess | dict(zip(transcription.names, outcome.point.parameters.tolist(), strict=True))
    motion, kernels = trajectories(assembly, outcome.point), transcription.kernels.points
    leans = influence(assembly, outcome.point, knowledge, motion)
    told = _notices(assembly, outcome, knowledge, motion, values, leans)
    known = [_estimate(p, problem, values[p.name], knowledge.sensitivities, leans) for p in problem.parameters]
    return Solution(
        problem=problem.name,
        backend=backend,
        stepper=problem.stepper.name,
        friction=problem.friction,
        step=problem.step,
        state_weight=math.nan if problem.dynamics == "estimated" else problem.weight,
        dynamics=problem.dynamics,
        log_likelihood=math.nan if found is None else found.log_likelihood,
        noise=() if found is None else found.noise,
        status=outcome.status,
        detail=outcome.detail,
        cost=_cost(outcome.history[-1].costs),
        history=tuple(_step(iteration, transcription.names) for iteration in outcome.history),
        parameters={estimate.name: estimate for estimate in known},
        sensitivities=knowledge.sensitivities,
        influence=leans,
        complementarity_residual=complementarity(assembly, outcome.point),
        sticking=sticking(problem, motion),
        size=_size(transcription),
        times=times,
        versions={**_VERSIONS, "kernels": kernels.how},
        trajectories=motion,
        notices=told,
        mechanism=mechanism(problem, values),
        normaliser=None if found is None else found.normaliser,
    )


def _notices(
    assembly: Assembly,
    outcome: Outcome,
    knowledge: Knowledge,
    motion: tuple[Trajectory, ...],
    values: dict[str, float],
    leans: Influence,
) -> tuple[str, ...]:
    """What a user should know, by rank; of what follows from the estimates nothing unless the fit has converged."""
    problem, known = assembly.problem, knowledge.sensitivities
    kernels = assembly.transcription.kernels.points.notice
    remarks = [*papers_weight(problem), *assembly.notices, *_redundant(outcome), *filter(None, [kernels])]
    if outcome.status is not Status.CONVERGED:
        return notices.ranked([*knowledge.notices, *remarks])
    steps = []
    if not (problem.corrects or problem.every > 1):
        steps = step_errors.notices(assembly, outcome.point, known, leans.step_error)
    follows = [*contradictions(assembly, outcome.point, knowledge), *disagreement(assembly, known)]
    unphysical = inertias.notices(problem, values, known, motion)
    return notices.ranked([*knowledge.notices, *follows, *unphysical, *steps, *remarks])


def _step(iteration: Iteration, names: Sequence[str]) -> Step:
    parameters = dict(zip(names, iteration.parameters.tolist(), strict=True))
    return Step(iteration.iteration, _cost(iteration.costs), iteration.damping, iteration.step_norm, parameters)


def _cost(costs: Mapping[Group, float]) -> Cost:
    return Cost(state=costs[Group.STATE], observation=costs[Group.OBSERVATION], prior=costs[Group.PRIOR])


def _estimate(
    parameter: Parameter, problem: Problem, value: float, knowledge: Sensitivities, leans: Influence
) -> Estimate:
    fixed = parameter.name in problem.fixed
    i = None if fixed else knowledge.names.index(parameter.name)
    reason = "fixed by the user" if i is None else knowledge.reasons.get(parameter.name, "")
    return Estimate(
        name=parameter.name,
        estimate=value,
        std_err=float("nan") if i is None else float(knowledge.standard_errors[i]),
        reason=reason,
        initial=problem.guess[parameter.name],
        lower=parameter.lower,
        upper=parameter.upper,
        unit=parameter.unit,
        at_bound=i is not None and not parameter.lower < value < parameter.upper,
        fixed=fixed,
        step_error=math.nan if i is None or reason else float(leans.step_error[i]),
    )


def _size(transcription: Transcription) -> Size:
    steps = sum(chain.steps for chain in transcription.chains)
    return Size(
        recordings=len(transcription.chains),
        steps=steps,
        states=steps * transcription.manifold.tangent,
        parameters=len(transcription.names),
        residuals=transcription.rows,
        jacobian_nonzeros=transcription.nonzeros,
    )


def _redundant(outcome: Outcome) -> list[str]:
    words = f"{outcome.redundant} constraint rows of each step follow from the others, as in a closed loop."
    return [words] if outcome.redundant else []
