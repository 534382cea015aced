"""Maximum-likelihood fits with estimated noise, from an assembled problem to the maximum and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.results.result import Noise
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.resuming import solved
from spookid.solvers.status import Callback, Outcome, Status, counting_from
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics import marginalization
from spookid.statistics.likelihood import States, size_information
from spookid.statistics.marginal import NoiseSize, starting_logs, told_apart
from spookid.statistics.marginalization import Doubt
from spookid.statistics.search import SETTLED, Search
from spookid.statistics.trial import SearchEndedError
from spookid.transcription.transcription import Point, Transcription

Revise = Callable[[Assembly, Point], Assembly | None]
"""Function that gives the assembly with other samples, if a motion requires them, or None."""

SHARE = 0.01
"""Initial process noise, relative to the residual impulses at the initial values."""
_ROUGH = 0.1
"""Predicted decrease of −log L below which common noise standard deviations may be separated."""
_HALVED = 16.0
"""Factor by which digits fall short with half the step: at the same density of the noise, the information of a row of
impulses in the states of neighbouring steps grows with h⁻³, and that of the samples of a step falls with h."""
STATES = LevenbergMarquardt(gradient_tolerance=1e-6, step_tolerance=1e-6, decrease_tolerance=1e-7, newton=False)
"""How well states are fitted for a likelihood; states and parameters to begin with less so."""


@dataclass(frozen=True, eq=False)
class Stiff:
    """Problem whose process noise is at its lower limit: dynamics are as stiff as rounding allows."""

    problem: Transcription
    sizes: Mapping[str, float]
    """Of the noise that was found over that of ``problem``, by the names in ``Factor.noise``."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Result of a fit with noise, and the likelihood there."""

    assembly: Assembly
    """With the numbers of the noise."""
    outcome: Outcome
    noise: tuple[Noise, ...] = ()
    find_doubt: Callable[[], Doubt | None] = type(None)
    """What uncertain noise does; None if it is taken from another fit."""
    log_likelihood: float = math.nan
    normaliser: Array | None = None
    """See ``Solution.normaliser``."""
    stiff: Stiff | None = None
    """None where noise is taken from another fit."""
    states: States | None = None
    """Linearized where they were found; None where noise is taken from another fit."""
    carry: Callable[[], Likelihood] | None = None
    """Carries a fit that ended near a maximum on to its end; None if that is where it ended."""

    @cached_property
    def doubt(self) -> Array | float:
        """Covariance of the parameters, (n_p, n_p), due to uncertain noise; zero if noise is taken from another fit."""
        found = self.find_doubt()
        return 0.0 if found is None else found.covariance


def maximize_likelihood(
    assembly: Assembly,
    start: Point,
    known: Sequence[Noise],
    solver: LevenbergMarquardt,
    callback: Callback | None,
    hold: bool = False,
    roughly: bool = False,
    revised: Revise | None = None,
    leads: bool = False,
) -> Likelihood:
    """The maximum of the likelihood from a start and the noise of another fit, whose sizes stay apart as they are: held
    with ``hold``, only near if others continue from here (``roughly``), with other samples once it is near
    (``revised``), and with errors only on request if the fit is preliminary (``leads``)."""
    problem, inner = assembly.transcription, solver.like(STATES)
    alike = _as_known(assembly.noise, known)
    if alike and hold:
        alike = tuple(replace(size, given=math.inf) for size in alike)
    hard, told = assembly.problem.is_hard, callback or (lambda _: None)
    if alike and hard:
        alike = tuple(_as_hard(size, known) for size in alike)
    spared = _HALVED if hard and assembly.problem.corrects else 1.0
    search = Search(problem, alike or assembly.noise, inner, solver.max_iterations, told, not alike, spared)
    logs = _logs(search.sizes, known, assembly.problem.step)
    if logs is None:
        start, logs = _begun(assembly, search, start)
    outcome = search.run(start, logs, _ROUGH)
    if outcome.status is Status.DIVERGED:
        return Likelihood(assembly, outcome)
    known_sizes = bool(alike)
    if revised is not None and outcome.status is Status.CONVERGED:
        outcome, search = _near(outcome, search, known_sizes)
        known_sizes, other = True, revised(assembly, search.best.point)
        if other is not None:
            assembly, (outcome, search) = other, _gone_on(outcome, search, other.transcription)
    return _ended(assembly, search, outcome, known_sizes, hold, roughly, leads)


def _near(outcome: Outcome, search: Search, known_sizes: bool) -> tuple[Outcome, Search]:
    """A search whose noise standard deviations are told apart, near its end."""
    if outcome.status is not Status.CONVERGED or _undisturbed(search):
        return outcome, search
    return _finished(outcome, search, search.sizes if known_sizes else _apart(search), True)


def _gone_on(before: Outcome, search: Search, problem: Transcription) -> tuple[Outcome, Search]:
    """A search carried on with other samples, with the history of both."""
    done = len(before.history) - 1
    told, most = counting_from(search.callback, done), max(search.max_iterations - done, 0)
    last = Search(problem, search.sizes, search.inner, most, told, search.splits, search.spared)
    outcome = last.run(search.best.point, search.logs, _ROUGH)
    if outcome.status is Status.DIVERGED:
        return before, search
    last.history[:] = [*before.history, *(replace(i, iteration=i.iteration + done) for i in outcome.history[1:])]
    last.callback = search.callback  # its history has all iterations now
    timing = replace(outcome.timing, solve=before.timing.solve + outcome.timing.solve)
    return replace(outcome, history=tuple(last.history), timing=timing), last


def _ended(
    assembly: Assembly,
    search: Search,
    outcome: Outcome,
    known_sizes: bool,
    hold: bool,
    roughly: bool,
    leads: bool = False,
) -> Likelihood:
    """What a search has found that is near a maximum: there, or at its end."""
    rough = roughly and outcome.status is Status.CONVERGED
    if rough:
        outcome, search = _near(outcome, search, known_sizes)
    elif outcome.status is Status.CONVERGED:
        outcome, search = _finished(outcome, search, search.sizes if known_sizes else _apart(search), False)
    found = found_by(assembly, search, outcome, hold, roughly or leads)
    carry = partial(_ended, assembly, search, outcome, True, hold, False) if rough else None
    return replace(found, carry=carry)


def found_by(
    assembly: Assembly, search: Search, outcome: Outcome, hold: bool = False, leads: bool = False
) -> Likelihood:
    """Result of a likelihood search; for preliminary fits (``leads``), standard errors are computed on request only."""
    numbered = search.problem.with_numbers(search.numbers(search.logs))
    noise, doubt = _noise(assembly, search), None
    value = float(-search.value - search.best.states.excess * math.log(2 * math.pi) / 2)
    find: Callable[[], Doubt | None] = type(None)
    if not (hold or outcome.status is Status.INTERRUPTED):
        find = cache(partial(marginalization.doubt, search))
    try:
        doubt = None if leads else find()
    except KeyboardInterrupt:
        outcome = replace(outcome, status=Status.INTERRUPTED, detail="before errors were averaged over noise")
        find = type(None)
    if doubt is not None:
        ratios = np.exp(doubt.logs - search.logs).tolist()
        noise = tuple(replace(one, likely=ratio) for one, ratio in zip(noise, ratios, strict=True))
    uncertain = marginalization.uncertain_sizes(search).tolist()
    sizes = tuple(replace(s, marginalized=is_so) for s, is_so in zip(search.sizes, uncertain, strict=True))
    whole, best = with_sizes(assembly, numbered, sizes), search.best
    states = best.states if isinstance(best.states, States) else None
    return Likelihood(whole, outcome, noise, find, value, best.marginal.counted, _stiff(search), states)


def _undisturbed(search: Search) -> bool:
    """True if all noise is that of measurements, efforts among them."""
    return not search.problem.has_density and all(size.kind == "sensor" for size in search.sizes)


def _begun(assembly: Assembly, search: Search, start: Point) -> tuple[Point, Array]:
    """Where a search begins, and the logarithms of sizes there: where every effort is measured, near the minimum of
    squares in states and parameters together, for no density of states drives the scale of forces."""
    problem = assembly.transcription
    logs = first_logs(assembly, rated(assembly), start)
    if problem.has_density:
        return start, logs
    together = replace(STATES, max_iterations=30, decrease_tolerance=1e-4)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is too long may lead anywhere
        outcome = solved(search.inner.like(together), problem.with_numbers(search.numbers(logs)), start, None)
    if outcome.status is Status.DIVERGED:
        return start, logs
    return outcome.point, first_logs(assembly, rated(assembly), outcome.point)


def first_logs(assembly: Assembly, sizes: Sequence[NoiseSize], start: Point, share: float = SHARE) -> Array:
    """Initial log-sigmas of a noise search; see ``starting_logs``."""
    signals = [[e.samples[i].values for e in assembly.sampled] for i in range(len(assembly.problem.channels))]
    return starting_logs(sizes, assembly.transcription, start, signals, share)


def _finished(outcome: Outcome, search: Search, sizes: tuple[NoiseSize, ...], roughly: bool) -> tuple[Outcome, Search]:
    """A search carried on to its end, or near it, with these sizes."""
    if sizes == search.sizes and _undisturbed(search):  # no floor of a disturbance is to be found anew
        last, again = search, search.carried_on()
    else:
        last, remake = search.apart(sizes), search.given_up()
        try:
            again = last.carried_on(_ROUGH if roughly else SETTLED, ground=True)
        except KeyboardInterrupt:
            remake()
            return replace(outcome, status=Status.INTERRUPTED, detail="before noise was separated"), search
        except (NotPositiveDefiniteError, SearchEndedError, np.linalg.LinAlgError):
            remake()
            return outcome, search
    return replace(again, timing=replace(again.timing, solve=outcome.timing.solve + again.timing.solve)), last


def _stiff(search: Search) -> Stiff:
    moving = [size.kind == "disturbance" for size in search.sizes]
    logs = np.where(moving, search.floors, search.logs)
    pairs = zip(search.sizes, np.exp(search.logs - logs).tolist(), strict=True)
    sizes = {key: ratio for size, ratio in pairs for key in size.keys}
    return Stiff(search.problem.with_numbers(search.numbers(logs)), sizes)


def rated(assembly: Assembly) -> tuple[NoiseSize, ...]:
    """Noise whose given values are those of its symbols: random impulses of a step."""
    root = math.sqrt(assembly.problem.step)
    return tuple(
        replace(s, given=s.given * root) if s.given is not None and s.kind == "disturbance" else s
        for s in assembly.noise
    )


def numbers_of(known: Sequence[Noise], step: float, sizes: Sequence[NoiseSize]) -> dict[tuple[str, str], float]:
    """Numbers of the noise symbols by kind and name: for process noise the random impulses of a step, for measured
    efforts their means."""
    found: dict[tuple[str, str], float] = {}
    averaging: dict[tuple[str, str], float] = {
        (size.kind, name): size.averaging for size in sizes for name in size.names
    }
    for one in known:
        for key in ((one.kind, name) for name in one.names):
            disturbs = one.kind == "disturbance"
            found[key] = one.density * math.sqrt(step) if disturbs else one.std * averaging.get(key, 1.0)
    return found


def begun_at(assembly: Assembly, known: Sequence[Noise]) -> tuple[tuple[NoiseSize, ...], Array] | None:
    """Noise groups as in another fit, with their log-sigmas; None if that fit does not have all of them."""
    sizes = _as_known(assembly.noise, known) or assembly.noise
    logs = _logs(sizes, known, assembly.problem.step)
    return None if logs is None else (sizes, logs)


def _logs(sizes: Sequence[NoiseSize], known: Sequence[Noise], step: float) -> Array | None:
    """Log-sigmas of another fit; None if it has not all of them."""
    by_name = numbers_of(known, step, sizes)
    values = [by_name.get((s.kind, s.names[0]), 0.0) or least(s) for s in sizes]
    return np.log(values) if all(value > 0 for value in values) else None


def least(size: NoiseSize) -> float:
    """Value that replaces a noise standard deviation of zero: the rounding limit for a contact without slip."""
    return size.floor if size.of_motion else 0.0


def _apart(search: Search, probes: int = 16) -> tuple[NoiseSize, ...]:
    """The sizes with those told apart that have other units or that the likelihood prefers apart, by Akaike's criterion
    and a gain of half gᵀF⁻¹g for the slopes g and the information F of single sizes."""
    which, best = [], search.best
    several = [
        name for size in search.sizes if size.kind == "disturbance" and len(size.names) > 1 for name in size.names
    ]
    fisher = size_information(best.states, several, probes) if several and isinstance(best.states, States) else {}
    for size, information in zip(search.sizes, np.diag(best.fisher), strict=True):
        gain = 0.0
        if information > 1 and size.kind == "disturbance" and len(size.names) > 1:
            g = np.array([best.marginal.slopes.get(name, 0.0) for name in size.names])
            F = np.array([[fisher.get((a, b), 0.0) for b in size.names] for a in size.names])
            gain = float(g @ np.linalg.pinv((F + F.T) / 2, rcond=1e-6) @ g) / 2
        which.append(gain > len(size.names) - 1 or len({unit for _, unit in size.units}) > 1)
    return told_apart(search.sizes, which)


def _as_hard(size: NoiseSize, known: Sequence[Noise]) -> NoiseSize:
    """A size of deterministic dynamics, held where another fit of them has found how hard digits let them be."""
    found = any(one.kind == size.kind and one.given and set(size.names) <= set(one.names) for one in known)
    return replace(size, given=math.inf) if size.kind == "disturbance" and size.given == 0 and found else size


def _as_known(sizes: Sequence[NoiseSize], known: Sequence[Noise]) -> tuple[NoiseSize, ...] | None:
    """The sizes, those apart that another fit told apart; None if it does not tell all."""
    of = {(n.kind, name): n.names for n in known for name in n.names}
    if not all((size.kind, name) in of for size in sizes for name in size.names):
        return None
    found: list[NoiseSize] = []
    for size in sizes:
        found += [size] if len({of[size.kind, name] for name in size.names}) == 1 else size.singles
    return tuple(found)


def in_units(size: NoiseSize, value: float, step: float) -> tuple[float, str, float]:
    """Standard deviation, unit and density of a noise, from the number of its symbol."""
    if size.kind == "disturbance":
        return value / step, size.unit, value / math.sqrt(step)
    return value / size.averaging, size.unit, math.nan


def _noise(assembly: Assembly, search: Search) -> tuple[Noise, ...]:
    """Sizes that a search has found; seen where the standard error of the logarithm is below one."""
    h, found, information = assembly.problem.step, [], np.diag(search.best.fisher)
    seen = np.array([s.given is None for s in search.sizes]) & (information > 1)
    errors = np.where(seen, 1 / np.sqrt(np.where(seen, information, 1.0)), np.nan)
    for i, (size, log, error) in enumerate(zip(search.sizes, search.logs, errors, strict=True)):
        value = float(np.exp(log))
        if size.of_motion and size.given == 0:  # as small as digits allow
            value = 0.0
        slope, freedom = float(search.best.slopes[i]), float(search.best.freedom[i])
        told = size.given is not None and 0 < size.given < math.inf and freedom > 0
        found.append(
            Noise(
                size.kind,
                size.names,
                *in_units(size, value, h),
                float(error),
                float(size.floor * math.sqrt(12)),
                size.given is not None,
                -slope / math.sqrt(2 * freedom) if told else 0.0,  # the variance of squares is 2 of each at the most
                internal=size.internal,
            )
        )
    return tuple(found)


def with_sizes(assembly: Assembly, problem: Transcription, sizes: tuple[NoiseSize, ...]) -> Assembly:
    return replace(assembly, transcription=problem, constants=problem.given, noise=sizes)
