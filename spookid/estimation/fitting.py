"""Fits at noise that is known: found by another fit, or guessed.

One solve of a declared problem, from its guesses or from another result.

How much time a fit takes, from one iteration of it.

What an iteration costs depends on the mechanism, on the recordings, on the solver and on the machine. It is therefore
measured: the fit begins, and ends after its first iteration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from spookid.assembly.assembly import Assembly, assemble, unknowns
from spookid.assembly.constants import at_gains
from spookid.assembly.declaration import Declaration
from spookid.assembly.impact_estimates import around
from spookid.assembly.priors import feasible
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.likelihood_fit import (
    SHARE,
    STATES,
    Likelihood,
    Revise,
    Searched,
    least,
    maximize_likelihood,
    names_of_places,
    numbers_of,
    rated,
    with_sizes,
)
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.result import Noise, Solution, Times
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import solved
from spookid.solvers.status import Callback, Iteration, Outcome, Status
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.marginal import starting_logs
from spookid.statistics.search import Search
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point

_LEADING = 3e-4
"""The same for fits that only lead on, where who touches is to be told by what the law makes of a motion."""


_STRAIGHT = 1e12
"""Factor of the normaliser's weight c with which its square is a straight line."""


def fit_at_known_noise(
    assembly: Assembly,
    start: Point,
    known: Sequence[Noise],
    solver: LevenbergMarquardt | Ipopt,
    callback: Callback | None,
) -> Searched:
    """States and parameters by any solver, with noise that another fit has found and its normaliser.

    The normaliser's weight c is the last of the constants.
    """
    by_name = numbers_of(known, assembly.problem.step, assembly.noise)
    constants = assembly.transcription.constants.copy()
    for size in assembly.noise:
        # A size that several joints shared may have been told apart.
        for name, place in zip(names_of_places(size), size.places, strict=True):
            constants[place] = by_name[size.kind, name] or least(size)
    numbered = assembly.transcription.with_numbers(constants)
    outcome = _without(solved(solver, numbered, start, callback), float(constants[-1]))
    constants[-1] *= _STRAIGHT  # no information lies in the normaliser's square
    numbered = numbered.with_numbers(constants)
    return Searched(with_sizes(assembly, numbered, assembly.noise), outcome, Likelihood(float, math.nan, tuple(known)))


def at_noise(assembly: Assembly, known: Sequence[Noise]) -> tuple[Assembly, Point]:
    """The assembly with the numbers of noise that is known, and its best states there; parameters stay as they are.

    Raises:
        NotPositiveDefiniteError: if the states are not determined.
    """
    by_name = numbers_of(known, assembly.problem.step, assembly.noise)
    of_each = [single for size in assembly.noise for single in size.singles]
    sizes = tuple(replace(size, given=by_name[size.kind, size.names[0]]) for size in of_each)
    search = Search(assembly.transcription, sizes, STATES, 0, lambda _: None)
    signals = [[e.samples[i].values for e in assembly.sampled] for i in range(len(assembly.problem.channels))]
    outcome = search.run(assembly.start, starting_logs(sizes, search.problem, assembly.start, signals, SHARE))
    if outcome.status is Status.DIVERGED:
        raise NotPositiveDefiniteError(outcome.detail)
    numbered = search.problem.with_numbers(search.numbers(search.logs))
    return with_sizes(assembly, numbered, assembly.noise), search.best.point


def fit_at_guessed_noise(
    assembly: Assembly, start: Point, solver: LevenbergMarquardt | Ipopt, callback: Callback | None
) -> Searched:
    """The same with noise as a search for it would begin: a fit that only leads on."""
    places = [size.places for size in assembly.noise]
    constants = assembly.transcription.constants.copy()
    signals = [[e.samples[i].values for e in assembly.sampled] for i in range(len(assembly.problem.channels))]
    logs = starting_logs(rated(assembly), assembly.transcription, start, signals, _LEADING)
    for own, log in zip(places, logs, strict=True):
        constants[list(own)] = math.exp(log)
    numbered = assembly.transcription.with_numbers(constants)
    outcome, h, found = solved(solver, numbered, start, callback), assembly.problem.step, list[Noise]()
    for size, log in zip(assembly.noise, logs, strict=True):
        value, moving = math.exp(log), size.kind == "disturbance"
        std = value / h if moving else value / size.averaging
        density = value / math.sqrt(h) if moving else math.nan
        found.append(Noise(size.kind, size.names, std, size.unit, density, math.nan, given=size.given is not None))
    return Searched(with_sizes(assembly, numbered, assembly.noise), outcome, Likelihood(float, math.nan, tuple(found)))


def _without(outcome: Outcome, weight: float) -> Outcome:
    """The outcome with the normaliser's constant c taken from the cost."""

    def less(iteration: Iteration) -> Iteration:
        prior = iteration.costs[Group.PRIOR] - weight
        return replace(iteration, costs={**iteration.costs, Group.PRIOR: prior})

    return replace(outcome, history=tuple(map(less, outcome.history)))


_MET = 1e-6
"""Hard residuals of the user's own hold if they are no larger, in their own units."""
_CLOSED = 1e-4
"""Rigid joints do if they are no wider open, in m or rad: those that close are so to rounding."""


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
    """Share of the friction widths; see ``continuation``."""
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
    """True to end near the maximum of the likelihood, where others go on from; see ``finished``."""
    leads: bool = False
    """True for a fit whose errors others tell."""
    like: Assembly | None = None
    """Of a problem with the same step, of which all is taken that is the same; see ``assemble``."""
    revised: Revise | None = None
    """Gives the problem with other samples, once the motion is known well enough to tell which are wrong."""


_GUESSES = Start()


def fit(
    problem: Declaration, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Start = _GUESSES
) -> Fit:
    """One solve."""
    began, known = time.perf_counter(), start.solution
    asked = _asked(known)
    before = start.assembly or start.like
    made = 0.0 if before is None else before.transcription.kernels.seconds
    normaliser = None if start.noise is None else _normaliser(problem, start.noise)
    assembly = start.assembly or assemble(problem, normaliser, start.sharpness, start.turns, start.like)
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
    return Fit(found.assembly, _if_met(found.assembly, found.outcome), solver.name, times, found.likelihood)


def _at_its_gains(problem: Declaration, found: Searched) -> Searched:
    noise = tuple(at_gains(problem, found.likelihood.noise, _values(problem, found.outcome)))
    return found._replace(likelihood=replace(found.likelihood, noise=noise))


def finished(near: Fit) -> Fit:
    """The end of a fit that has ended near a maximum, from where it is; the fit itself if it has come to its end."""
    if near.likelihood is None or near.likelihood.carry is None:
        return near
    found, told = _at_its_gains(near.assembly.problem, near.likelihood.carry()), near.result
    made = Fit(found.assembly, _if_met(found.assembly, found.outcome), near.backend, near.times, found.likelihood)
    done = told.iterations - len(near.outcome.history) + 1  # of fits before
    later = (replace(step, iteration=step.iteration + done) for step in made.result.history[1:])
    longer = max(found.outcome.timing.solve - near.outcome.timing.solve, 0.0)
    times = replace(told.times, solve=told.times.solve + longer)
    return made.with_(**{**near.over, "history": (*told.history[: done + 1], *later), "times": times})


def with_likelihood(first: Fit, second: Fit, hold: bool) -> Fit:
    """What the likelihood says where another solver has ended, at the noise of the first fit."""
    if second.outcome.status is not Status.CONVERGED:
        return second
    problem = first.assembly.problem
    known = at_gains(problem, first.result.noise, first.values, back=True)
    inner = LevenbergMarquardt(max_iterations=0)
    found = maximize_likelihood(first.assembly, second.point, known, inner, None, hold)
    there = replace(found.likelihood, noise=first.result.noise)
    return Fit(found.assembly, second.outcome, second.backend, second.times, there).with_(**second.over)


def _values(problem: Declaration, outcome: Outcome) -> dict[str, float]:
    """Of all parameters, by name."""
    return problem.guess | dict(zip((p.name for p in problem.free), outcome.point.parameters.tolist(), strict=True))


def _if_met(assembly: Assembly, outcome: Outcome) -> Outcome:
    """The outcome, which has not converged if rigid joints, or a hard residual of the user's, do not hold there.

    Rows that others seem to imply are left out of a solve, and so would be what contradicts them; and states for a
    likelihood are those that are nearest where joints cannot close.
    """
    problem = assembly.transcription
    asked = [f for f in problem.factors if f in problem.local or (f.group is Group.RESIDUAL and f.hard)]
    if outcome.status is not Status.CONVERGED or not asked:
        return outcome
    for values in problem.residuals(outcome.point):
        for factor, rows in zip(problem.factors, values, strict=True):
            off = float(np.max(np.abs(rows), initial=0.0)) if factor in asked else 0.0
            if not off <= (_MET if factor.group is Group.RESIDUAL else _CLOSED):
                detail = f"the hard {factor.name!r} is off by {off:.2g}: joints, or other rows, contradict it"
                return replace(outcome, status=Status.STALLED, detail=detail)
    return outcome


def _asked(known: Solution | None) -> float:
    """Seconds that have been spent on what a result is asked for, which are that result's."""
    return known.timing.analysis if known else 0.0


def _normaliser(problem: Declaration, known: Solution) -> Array:
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
    if model.rows < model.configuration.tangent or ReducedProblem(assembly.transcription, start).tangent:
        return
    raise ProblemError(
        f"{problem.what}: the joints {', '.join(joint.name for joint in model.joints)} are "
        "rigid in this stepper and leave nothing that could move; take one away, or use Spook(), whose joints give way"
    )


def warm(
    assembly: Assembly, solution: Solution, own: Mapping[str, float], touching: tuple[Array | None, ...] = ()
) -> Point:
    """States and estimates of a solution where it has them, but for the guesses ``own``."""
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
    given = [_onto(*one, times) for one, (_, times, _) in zip(given, wanted, strict=False)]
    if len(given) != len(wanted):
        raise ProblemError(
            f"{problem.place}: warm_start has {len(given)} recordings and this problem {len(wanted)}; give a solution "
            "of the same recordings"
        )
    states = [np.hstack([q.reshape(len(q), -1), v.reshape(len(v), -1)]) for _, _, q, v in given]
    settings, known = (assembly.widths, assembly.sharpness, assembly.touch), touching or (None,) * len(states)
    all_three = zip(assembly.sampled, states, known, strict=True)
    return Point(
        tuple(unknowns(assembly.problem, e, *settings, x, own) for e, x, own in all_three), assembly.start.parameters
    )


def _onto(name: str, t: Array, q: Array, v: Array, times: Array) -> tuple[str, Array, Array, Array]:
    """States of a recording at other times, by cubic polynomials through those of four neighbouring steps."""
    points = min(len(t), 4)
    at = np.interp(times, t, np.arange(len(t)))
    low = np.clip(at.astype(int) - (points - 1) // 2, 0, len(t) - points)
    others, poses, rates = at - low, np.zeros((len(at), *q.shape[1:])), np.zeros((len(at), *v.shape[1:]))
    first = q[low, :, 3:]
    for i in range(points):
        share = np.prod([(others - j) / (i - j) for j in range(points) if j != i], axis=0)[:, None, None]
        pose = q[low + i].copy()
        pose[:, :, 3:] *= np.where(np.sum(first * pose[:, :, 3:], axis=2, keepdims=True) < 0, -1.0, 1.0)
        poses += share * pose
        rates += share * v[low + i]
    poses[:, :, 3:] /= np.linalg.norm(poses[:, :, 3:], axis=2, keepdims=True)
    return name, times, poses, rates


_BEGINNINGS = 5
"""Fits of one iteration that a whole fit takes as long as, with its refinement and its tables, once its functions are
made: with the other count, what keeps forecasts of 14 problems of this repository within 0.49 and 1.99 of the truth."""
_ASSEMBLIES = 8
"""Assemblies that what is built once takes as long as: the equations at h and h/2, those of residual tests."""


def seconds(assembly: Assembly, building: float) -> float:
    """Processor time of a whole fit [s].

    Args:
        building: processor time that the assembly took [s].

    Raises:
        ProblemError: if the fit is refused.
    """
    began, solver = time.process_time(), LevenbergMarquardt(max_iterations=1)
    times = fit(assembly.problem, solver, None, Start(assembly=assembly)).times
    spent = time.process_time() - began
    once = spent * times.compile / times.total  # both are wall times: other work lengthens them alike
    return _ASSEMBLIES * building + once + _BEGINNINGS * (spent - once)
