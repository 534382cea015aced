"""One solve of a declared problem, and its answer put together."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import casadi as ca
import numpy as np

import spookid
from spookid.assembly.assembly import Assembly, assemble, unknowns
from spookid.assembly.outlining import mechanism
from spookid.assembly.trajectories import complementarity, sticking, trajectories
from spookid.errors import ProblemError
from spookid.estimation import inertias, step_errors
from spookid.estimation import likelihood_fit as likelihood
from spookid.estimation.estimators import Fit
from spookid.estimation.knowledge import Knowledge, at_bounds, contradictions, disagreement, learn, papers_weight
from spookid.estimation.likelihood_fit import Found
from spookid.estimation.responses import influence
from spookid.kernels.kernel import Array
from spookid.parameter import Parameter
from spookid.problem import Problem
from spookid.results import notices
from spookid.results.solution import Cost, Estimate, Size, Solution, Step, Times, Trajectory
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import Callback, LevenbergMarquardt
from spookid.solvers.reduction import Reduction
from spookid.solvers.status import Iteration, Outcome, Status
from spookid.statistics.covariance import Sensitivities
from spookid.statistics.influence import Influence
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point, Transcription

_VERSIONS = {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__}


@dataclass(frozen=True)
class Start:
    """Where a solve begins, and what it keeps."""

    solution: Solution | None = None
    """Whose states and estimates are the start; None: the initial guess."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Guesses by the name of the parameter that go before those estimates."""
    noise: Solution | None = None
    """Whose noise, and whose normaliser of the likelihood, are kept; None: the noise is estimated."""
    sharpness: float = 1.0
    """Share of the friction widths; see ``approach``."""
    turns: bool = True
    """See ``assemble``."""
    hold: bool = False
    """True to keep the noise of ``solution`` where it is estimated otherwise."""


def fit(problem: Problem, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Start = Start()) -> Fit:
    """One solve."""
    began = time.perf_counter()
    known = start.solution
    normaliser = None if start.noise is None else _normaliser(problem, start.noise)
    assembly = assemble(problem, normaliser, start.sharpness, start.turns)
    point = assembly.start if known is None else _warm(assembly, known, start.own)
    _check_freedom(assembly, point)
    solver.prepare(assembly.transcription, point)
    compiling = assembly.transcription.kernels.seconds
    build = time.perf_counter() - began - compiling
    if problem.dynamics != "estimated":
        outcome = solver.solve(assembly.transcription, point, callback)
        return _answer(assembly, outcome, Times.of(outcome.timing, build, compiling), solver)
    if start.noise is not None:
        found = likelihood.kept(assembly, point, start.noise.noise, solver, callback)
    else:
        assert isinstance(solver, LevenbergMarquardt)
        found = likelihood.maximum(assembly, point, known.noise if known else (), solver, callback, start.hold)
    times = Times.of(found.outcome.timing, build, compiling)
    return _answer(found.assembly, found.outcome, times, solver, found)


def _normaliser(problem: Problem, known: Solution) -> Array:
    """θ₀, v and c for ``assemble``: the normaliser around the estimates of a fit that has found the noise."""
    assert known.normaliser is not None
    names, values = known.sensitivities.names, known.values
    slopes = dict(zip(names, known.normaliser.tolist(), strict=True))
    free = [p.name for p in problem.free]
    at = [values[name] for name in free]
    return np.array([*at, *(slopes.get(name, 0.0) for name in free), float(known.size.residuals)])


def _check_freedom(assembly: Assembly, start: Point) -> None:
    """Refuse a mechanism that cannot move."""
    problem, model = assembly.problem, assembly.problem.model
    if model.rows < model.configuration.tangent or Reduction(assembly.transcription, start).tangent:
        return
    raise ProblemError(
        f"{problem.place}: Problem {problem.name!r}: the joints {', '.join(joint.name for joint in model.joints)} are "
        "rigid in this stepper and leave nothing that could move; take one away, or use Spook(), whose joints give way"
    )


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
    if problem.corrects or problem.every > 1 or (solution.step == problem.step and _halved(solution, wanted)):
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
    return Point(
        tuple(unknowns(assembly.problem, e, assembly.widths, assembly.sharpness, x) for e, x in pairs),
        assembly.start.parameters,
    )


def _halved(solution: Solution, wanted: Sequence[tuple[str, Array, int]]) -> bool:
    """True if the solution's states are at half the steps, as where they have been corrected for the step."""
    pairs = zip(solution.trajectories, wanted, strict=False)
    return all(len(motion.t) == 2 * len(times) - 1 for motion, (_, times, _) in pairs)


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


def _answer(
    assembly: Assembly,
    outcome: Outcome,
    times: Times,
    solver: LevenbergMarquardt | Ipopt,
    found: Found | None = None,
) -> Fit:
    """The solution, and what it was made of."""
    held = at_bounds(assembly.transcription, outcome.point)
    knowledge = learn(assembly, outcome.point, held, found.covariance if found else None)
    solution = _solution(assembly, outcome, knowledge, times, solver, found)
    return Fit(solution, assembly, outcome.point, knowledge, found)


def _solution(
    assembly: Assembly,
    outcome: Outcome,
    knowledge: Knowledge,
    times: Times,
    solver: LevenbergMarquardt | Ipopt,
    found: Found | None,
) -> Solution:
    problem, transcription = assembly.problem, assembly.transcription
    values = problem.guess | dict(zip(transcription.names, outcome.point.parameters.tolist(), strict=True))
    motion, kernels = trajectories(assembly, outcome.point), transcription.kernels.points
    leans = influence(assembly, outcome.point, knowledge, motion)
    told = _notices(assembly, outcome, knowledge, motion, values, leans)
    known = [_estimate(p, problem, values[p.name], knowledge.sensitivities, leans) for p in problem.parameters]
    return Solution(
        problem=problem.name,
        backend=solver.name,
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
