"""One fit of a problem, from its initial values or another solution, with estimated, known or preliminary noise.

The module also forecasts the time of a whole fit, from one that ends after its first iteration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from spookid.assembly.assembly import Assembly, assemble, unknowns
from spookid.assembly.constants import at_gains
from spookid.assembly.impact_estimates import around
from spookid.assembly.priors import feasible
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import with_ratios
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.likelihood_fit import (
    SHARE,
    STATES,
    Likelihood,
    Revise,
    first_logs,
    in_units,
    least,
    maximize_likelihood,
    numbers_of,
    rated,
    with_sizes,
)
from spookid.kernels.arrays import Array
from spookid.kernels.precision import MET
from spookid.mechanics.manifold import Manifold
from spookid.records import dataclass
from spookid.results.result import Noise, Solution, Times
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import solved
from spookid.solvers.status import Callback, Iteration, Outcome, Status
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.search import Search
from spookid.transcription.factor import Group
from spookid.transcription.faults import fault
from spookid.transcription.transcription import Point

_STRAIGHT = 1e12
"""Factor of the normaliser's weight c with which its square is a straight line."""
_NONE = float(np.finfo(float).eps ** 0.25)
"""Process noise of a coordinate over the largest one, below which it is as good as none. With less its squared
inverse would cost IPOPT's Hessian more than half of the digits, for rows that are all but hard."""


def fit_at_known_noise(
    assembly: Assembly,
    start: Point,
    known: Sequence[Noise],
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
) -> Likelihood:
    """Fit states and parameters by any solver, with noise from another fit and the normalizer of this noise, whose
    weight c is the last constant."""
    constants = _constants(assembly, known)
    moving = [place for size in assembly.noise if size.kind == "disturbance" for place in size.places]
    if isinstance(solver, Ipopt) and moving:
        constants[moving] = np.maximum(constants[moving], _NONE * np.max(constants[moving]))
    numbered = assembly.transcription.with_numbers(constants)
    outcome = _without(solved(solver, numbered, start, callback), float(constants[-1]))
    constants[-1] *= _STRAIGHT  # no information lies in the normaliser's square
    numbered = numbered.with_numbers(constants)
    return Likelihood(with_sizes(assembly, numbered, assembly.noise), outcome, tuple(known))


def _constants(assembly: Assembly, known: Sequence[Noise]) -> Array:
    """Numbers of the constants with noise that is known."""
    by_name = numbers_of(known, assembly.problem.step, assembly.noise)
    constants = assembly.transcription.constants.copy()
    for size in assembly.noise:
        # A size that several joints shared may have been told apart.
        for name, place in size.symbols:
            constants[place] = by_name[size.kind, name] or least(size)
    return constants


def posed(problem: Problem, known: Solution | None, noise: Solution | None) -> tuple[Assembly, Point]:
    """Transcription and start for a fit from a solution, with the noise and normalizer of a solution; None: from the
    initial values, or with given noise."""
    assembly = assemble(problem, None if noise is None else _normaliser(problem, noise))
    point = assembly.start if known is None else warm(assembly, known, {})
    if noise is not None:
        kept = at_gains(problem, noise.noise, noise.values, back=True)
        numbered = assembly.transcription.with_numbers(_constants(assembly, kept))
        assembly = with_sizes(assembly, numbered, assembly.noise)
    return assembly, point


def at_noise(assembly: Assembly, known: Sequence[Noise]) -> tuple[Assembly, Point]:
    """Assembly with known noise, and the best states for it; raises NotPositiveDefiniteError if they are not
    determined."""
    by_name = numbers_of(known, assembly.problem.step, assembly.noise)
    of_each = [single for size in assembly.noise for single in size.singles]
    sizes = tuple(replace(size, given=by_name[size.kind, size.names[0]]) for size in of_each)
    search = Search(assembly.transcription, sizes, STATES, 0, lambda _: None)
    outcome = search.run(assembly.start, first_logs(assembly, sizes, assembly.start))
    if outcome.status is Status.DIVERGED:
        raise NotPositiveDefiniteError(outcome.detail)
    numbered = search.problem.with_numbers(search.numbers(search.logs))
    return with_sizes(assembly, numbered, assembly.noise), search.best.point


def fit_at_guessed_noise(
    assembly: Assembly,
    start: Point,
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
    share: float = 0.03 * SHARE,
) -> Likelihood:
    """Same fit with the initial noise of a noise search, but smaller: only a preliminary fit."""
    constants, found = assembly.transcription.constants.copy(), list[Noise]()
    for size, log in zip(assembly.noise, first_logs(assembly, rated(assembly), start, share), strict=True):
        constants[list(size.places)] = value = math.exp(log)
        numbers = in_units(size, value, assembly.problem.step)
        found.append(Noise(size.kind, size.names, *numbers, math.nan, given=size.given is not None))
    numbered = assembly.transcription.with_numbers(constants)
    outcome = solved(solver, numbered, start, callback)
    return Likelihood(with_sizes(assembly, numbered, assembly.noise), outcome, tuple(found))


def _without(outcome: Outcome, weight: float) -> Outcome:
    """The outcome with the normaliser's constant c taken from the cost."""

    def less(iteration: Iteration) -> Iteration:
        prior = iteration.costs[Group.PRIOR] - weight
        return replace(iteration, costs={**iteration.costs, Group.PRIOR: prior})

    return replace(outcome, history=tuple(map(less, outcome.history)))


@dataclass(frozen=True)
class Start:
    """Start of a solve: initial values, and quantities that stay fixed."""

    solution: Solution | None = None
    """Solution whose states and estimates are the start; None: the initial values."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Initial values by the name of the parameter that go before those estimates."""
    noise: Solution | None = None
    """Whose noise, and whose normaliser of the likelihood, are kept; None: the noise is estimated."""
    sharpness: float = 1.0
    """Share of the friction widths; see ``continuation``."""
    rounding: float = 0.0
    """Of the law of contacts; see ``continuation.touch``."""
    turns: bool = True
    """See ``assemble``."""
    hold: bool = False
    """True to keep the noise of ``solution`` where it is estimated otherwise."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Numbers of free parameters that stay what they are, by name."""
    assembly: Assembly | None = None
    """Of the same problem, to be used again; None: there is none."""
    touching: tuple[Array | None, ...] = ()
    """What contacts do on each recording of ``solution``, see ``contact_start.touching``; empty: it is found out."""
    guessed: bool = False
    """True for a fit that only leads on, at noise as a search for it would begin."""
    roughly: bool = False
    """True to end near the maximum of the likelihood, from where other fits continue; see ``finished``."""
    leads: bool = False
    """True for a preliminary fit, whose standard errors are not needed."""
    like: Assembly | None = None
    """Of a problem with the same step, of which all is taken that is the same; see ``assemble``."""
    revised: Revise | None = None
    """Function that gives the problem without outliers, once the motion is known well enough to recognize them."""


_GUESSES = Start()


def fit(
    problem: Problem, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Start = _GUESSES
) -> Fit:
    """One solve."""
    began, known = time.perf_counter(), start.solution
    asked = _asked(known)
    before = start.assembly or start.like
    made = 0.0 if before is None else before.transcription.kernels.seconds
    normaliser = None if start.noise is None else _normaliser(problem, start.noise)
    assembly = start.assembly or assemble(problem, normaliser, start.sharpness, start.turns, start.like, start.rounding)
    point = assembly.start if known is None else warm(assembly, known, start.own, start.touching)
    if known is not None and start.assembly is None:
        assembly = around(assembly, point, [one.multipliers for one in known.trajectories])
    if start.held:
        assembly, point = _holding(assembly, point, start.held)
    _check_freedom(assembly, point)
    searches = problem.estimates_noise and start.noise is None and not start.guessed
    kernels = assembly.transcription.kernels
    kernels.prepare(contractions=searches)
    shared = before is not None and kernels is before.transcription.kernels
    compiling = kernels.seconds - (made if shared else 0.0)
    build = time.perf_counter() - began - compiling - (_asked(known) - asked)
    if not problem.estimates_noise:
        outcome = solved(solver, assembly.transcription, point, callback)
        times = Times.of(outcome.timing, build, compiling)
        return Fit(assembly, _if_met(assembly, outcome), solver.name, times, None)
    began = time.perf_counter()
    if start.guessed:
        found = fit_at_guessed_noise(assembly, point, solver, callback)
    elif start.noise is not None:
        kept = at_gains(problem, start.noise.noise, start.noise.values, back=True)
        found = fit_at_known_noise(assembly, point, kept, solver, callback)
    else:
        assert isinstance(solver, LevenbergMarquardt)
        known_noise = at_gains(problem, known.noise, known.values, back=True) if known else ()
        asked_for = start.hold, start.roughly, start.revised, start.leads
        found = maximize_likelihood(assembly, point, known_noise, solver, callback, *asked_for)
    found = _at_its_gains(problem, found)
    times = Times.of(found.outcome.timing, build, compiling)
    times = replace(times, analysis=time.perf_counter() - began - times.solve)
    return Fit(found.assembly, _if_met(found.assembly, found.outcome), solver.name, times, found)


def _at_its_gains(problem: Problem, found: Likelihood) -> Likelihood:
    parameters = found.outcome.point.parameters.tolist()
    values = problem.guess | dict(zip((p.name for p in problem.free), parameters, strict=True))
    return replace(found, noise=tuple(at_gains(problem, found.noise, values)))


def finished(near: Fit) -> Fit:
    """Continuation of a fit that ended near a maximum; the fit itself if it is already complete."""
    if near.likelihood is None or near.likelihood.carry is None:
        return near
    found, told = _at_its_gains(near.assembly.problem, near.likelihood.carry()), near.result
    made = Fit(found.assembly, _if_met(found.assembly, found.outcome), near.backend, near.times, found)
    done = told.iterations - len(near.outcome.history) + 1  # of fits before
    later = (replace(step, iteration=step.iteration + done) for step in made.result.history[1:])
    longer = max(found.outcome.timing.solve - near.outcome.timing.solve, 0.0)
    times = replace(told.times, solve=told.times.solve + longer)
    return made.with_(**{**near.over, "history": (*told.history[: done + 1], *later), "times": times})


def with_likelihood(first: Fit, second: Fit, hold: bool) -> Fit:
    """Likelihood at the result of another solver, with the noise of the first fit."""
    if second.outcome.status is not Status.CONVERGED:
        return second
    problem = first.assembly.problem
    known = at_gains(problem, first.result.noise, first.values, back=True)
    inner = LevenbergMarquardt(max_iterations=0)
    found = maximize_likelihood(first.assembly, second.point, known, inner, None, hold)
    there = replace(found, noise=first.result.noise)
    return Fit(found.assembly, second.outcome, second.backend, second.times, there).with_(**second.over)


def _if_met(assembly: Assembly, outcome: Outcome, closed: float = 1e-4) -> Outcome:
    """The outcome, which has not converged if rigid joints are open, in m or rad, or hard residuals not met, in their
    own units: rows that others seem to imply are left out of a solve, and so would be what contradicts them."""
    problem = assembly.transcription
    asked = [f for f in problem.factors if f in problem.local or (f.group is Group.RESIDUAL and f.hard)]
    if outcome.status is not Status.CONVERGED or not asked:
        return outcome
    for values in problem.residuals(outcome.point):
        for factor, rows in zip(problem.factors, values, strict=True):
            off = float(np.max(np.abs(rows), initial=0.0)) if factor in asked else 0.0
            if not off <= (MET if factor.group is Group.RESIDUAL else closed):
                detail = (
                    f"the equality constraint {factor.name!r} is violated by {off:.2g}: joints or other constraints "
                    "contradict it"
                )
                return replace(outcome, status=Status.STALLED, detail=detail)
    return outcome


def _asked(known: Solution | None) -> float:
    """Seconds that have been spent on what a result is asked for, which are that result's."""
    return known.timing.analysis if known else 0.0


def _normaliser(problem: Problem, known: Solution) -> Array:
    """θ₀, v and c for ``assemble``: the normaliser around the estimates of a fit that has found the noise."""
    assert known.normaliser is not None
    names, values = [e.name for e in known.parameters.values() if not e.fixed], known.values
    slopes = dict(zip(names, known.normaliser.tolist(), strict=True))
    free = [p.name for p in problem.free]
    at = [values[name] for name in free]
    return np.array([*at, *(slopes.get(name, 0.0) for name in free), float(known.size.residuals)])


def _check_freedom(assembly: Assembly, start: Point) -> None:
    """Refuse a mechanism that cannot move."""
    problem, model = assembly.problem, assembly.problem.model
    if not model.ties and model.rows < model.configuration.tangent:
        return
    if found := fault(assembly.transcription, start, derivatives=False):
        raise ProblemError(
            f"{problem.what}: a residual is not finite for the initial motion: {found}; correct the joints, or the "
            "signals from which the initial motion is computed"
        )
    moves = assembly.transcription.manifold.tangent > 0
    reduced = ReducedProblem(assembly.transcription, start) if moves else None
    if reduced is not None and reduced.flat is not None:
        names = ", ".join(repr(tie.name) for tie in model.ties)
        if reduced.flat > MET:
            wrong, remedy = f"joints contradict constraints {names} by {reduced.flat:.2g} m or rad", "correct them"
        else:
            wrong, remedy = f"joints already satisfy constraints {names}", "remove these constraints"
        raise ProblemError(f"{problem.what}: the {wrong}; {remedy}")
    if model.rows < model.configuration.tangent or (reduced is not None and reduced.tangent):
        return
    raise ProblemError(
        f"{problem.what}: the joints {', '.join(joint.name for joint in model.joints)} are "
        "rigid in this stepper and leave nothing that could move; take one away, or use Spook(), whose joints give way"
    )


def warm(
    assembly: Assembly, solution: Solution, own: Mapping[str, float], touching: tuple[Array | None, ...] = ()
) -> Point:
    """States and estimates of a solution, except for the initial values ``own``."""
    problem, known = assembly.problem, solution.values
    values = [
        float(np.clip(known[p.name], p.lower, p.upper))
        if p.name not in own and np.isfinite(known.get(p.name, np.nan))
        else problem.guess[p.name]
        for p in problem.free
    ]
    start = feasible(problem, assembly.transcription.constraints, np.array(values))
    return replace(_states(assembly, solution, touching), parameters=start)


def _holding(assembly: Assembly, start: Point, held: Mapping[str, float]) -> tuple[Assembly, Point]:
    """A problem whose bounds leave some parameters no room, and its start: its kernels are those without."""
    names, values = assembly.transcription.names, start.parameters.copy()
    places = [names.index(name) for name in held]
    values[places] = list(held.values())
    transcription = assembly.transcription.held_at(values, places)
    return replace(assembly, transcription=transcription), replace(start, parameters=values)


def _states(assembly: Assembly, solution: Solution, touching: tuple[Array | None, ...]) -> Point:
    """The start with the states of a solution."""
    problem = assembly.problem
    given = [(trajectory.name, trajectory.t, trajectory.q, trajectory.v) for trajectory in solution.trajectories]
    wanted = [(e.recording.name, e.grid.times(), len(problem.model.bodies)) for e in assembly.sampled]
    for (name, t, q, _), (recording, times, bodies) in zip(given, wanted, strict=False):
        margin = max(solution.step, problem.step)
        if name != recording or q.shape[1] != bodies or max(t[0] - times[0], times[-1] - t[-1]) > margin:
            raise ProblemError(
                f"{problem.place}: warm_start has no states of recording {recording!r} for all of its time; give a "
                "solution of the same recordings and bodies"
            )
    given = [_onto(problem.model.configuration, *one, times) for one, (_, times, _) in zip(given, wanted, strict=False)]
    if len(given) != len(wanted):
        raise ProblemError(
            f"{problem.place}: warm_start has {len(given)} recordings and this problem {len(wanted)}; give a solution "
            "of the same recordings"
        )
    states = [np.hstack([q.reshape(len(q), -1), v.reshape(len(v), -1)]) for _, _, q, v in given]
    settings, known = (assembly.widths, assembly.sharpness, assembly.touch), touching or (None,) * len(states)
    ratios = [None if solution.rubs_smoothly else trajectory.ratios for trajectory in solution.trajectories]
    all_three = zip(assembly.sampled, states, known, strict=True)
    found = [unknowns(problem, e, *settings, x, own) for e, x, own in all_three]
    return Point(tuple(map(with_ratios, [problem] * len(found), found, ratios)), assembly.start.parameters)


def _onto(space: Manifold, name: str, t: Array, q: Array, v: Array, times: Array) -> tuple[str, Array, Array, Array]:
    """States of a recording at other times."""
    poses = _between(t, space.continuous(q.reshape(len(q), -1)).reshape(q.shape), times)
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    return name, times, poses, _between(t, v, times)


def _between(t: Array, values: Array, times: Array) -> Array:
    """Values (N, ...) at other times, by cubic polynomials through those of four neighbouring steps."""
    points = min(len(t), 4)
    at = np.interp(times, t, np.arange(len(t)))
    low = np.clip(at.astype(int) - (points - 1) // 2, 0, len(t) - points)
    found, others = np.zeros((len(at), *values.shape[1:])), (at - low).reshape(-1, *[1] * (values.ndim - 1))
    for i in range(points):
        found += np.prod([(others - j) / (i - j) for j in range(points) if j != i], axis=0) * values[low + i]
    return found


def seconds(assembly: Assembly, building: float, beginnings: int = 5, assemblies: int = 8) -> float:
    """Processor time of a whole fit [s], from the time ``building`` of its assembly: a fixed number of iterations and
    assemblies, accurate to a factor of two for 14 problems."""
    began, solver = time.process_time(), LevenbergMarquardt(max_iterations=1)
    times = fit(assembly.problem, solver, None, Start(assembly=assembly)).times
    spent = time.process_time() - began
    once = spent * times.compile / times.total  # both are wall times: other work lengthens them alike
    return assemblies * building + once + beginnings * (spent - once)
