"""Fits at noise that is known: found by another fit, or guessed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from spookid.assembly.assembly import Assembly
from spookid.estimation.likelihood_fit import (
    SHARE,
    STATES,
    Likelihood,
    Searched,
    least,
    names_of_places,
    numbers_of,
    rated,
    with_sizes,
)
from spookid.results.result import Noise
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.resuming import solved
from spookid.solvers.status import Callback, Iteration, Outcome, Status
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.noise_sizes import starting_logs
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
