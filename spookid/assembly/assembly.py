"""From a declared problem to a transcription and a start: where mechanics, time, recordings and settings meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import casadi as ca
import numpy as np

from spookid.assembly import initialization
from spookid.assembly.checks import check_closure, check_fit, check_ranks, check_states, check_turns, setup_findings
from spookid.assembly.constants import (
    at_widths,
    chosen_numbers,
    magnitude,
    numbers,
    sizes,
    slip_widths,
    width_keys,
    with_width_formulas,
)
from spookid.assembly.contact_start import (
    begun,
    check_contacts,
    check_samples,
    contact_start,
    touch_speed,
    with_codes,
    with_first_rates,
)
from spookid.assembly.declared import check_recording
from spookid.assembly.initialization import Guess, SampledRecording, oriented
from spookid.assembly.input_data import residual_factor, with_late_inputs
from spookid.assembly.observations import Observed, chain_of, layout, observation_factors, without_room
from spookid.assembly.priors import (
    NORMALISER,
    feasible,
    inertia_charts,
    normaliser_factor,
    parameter_constraints,
    prior_factor,
    priors,
)
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import check_schedules, schedule, strikes
from spookid.assembly.standing_start import place_factors, standing, stands_free
from spookid.data.channels import Channel, Sensor, channels_of
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, Samples, grid, observed, samples
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.kinematics import displacements, unwrapped
from spookid.mechanics.model import Model
from spookid.parameter import number, stacked
from spookid.records import dataclass, kept
from spookid.results.findings import Finding
from spookid.statistics.marginal import NoiseSize
from spookid.stepping.base import Dynamics, Scheme
from spookid.stepping.impulses import DryFriction, Settings
from spookid.transcription.factor import Constant, Factor
from spookid.transcription.transcription import Chain, Point, Transcription


@dataclass(frozen=True, eq=False)
class Assembly:
    """Problem prepared for a solver: factors, sampled recordings and initial values."""

    problem: Problem
    settings: Settings
    constants: tuple[Constant, ...]
    """Settings and fixed parameters, with their numbers."""
    sampled: tuple[SampledRecording, ...]
    written: tuple[Factor, ...]
    """Its equations."""
    transcription: Transcription
    start: Point
    widths: Array
    """Friction width of each coordinate, (n_s,) [rad/s or m/s]."""
    sharpness: float
    """Share of the width within which a joint sticks where a solve starts, in the forms that stick."""
    touch: float
    """Speed of contacts that counts [m/s]."""
    noise: tuple[NoiseSize, ...]
    """What is random, and how large; none if the weights are given."""
    observed: tuple[Observed, ...]
    """Which samples make the rows of which factor."""

    @property
    def sigmas(self) -> Array:
        """Noise standard deviation σ of each sensor at the current values, (n_o,)."""
        values = {c.symbol.element_hash(): c.value for c in self.constants}
        return np.array([values[s.element_hash()] for s in ca.vertsplit(self.settings.sensors)])

    def numbers(self, point: Point, chain: int) -> tuple[Constant, ...]:
        """Numerical value of every symbol in factors and mechanics at a point, for one recording."""
        problem, values = self.problem, point.parameters.tolist()
        return (
            *at_widths(self.constants, problem, self.settings, self.values(point)),
            *(Constant(p, value) for p, value in zip(problem.free, values, strict=True)),
            *chosen_numbers(problem, self.values(point), chain),
        )

    def values(self, point: Point) -> dict[str, float]:
        """Value of every parameter at a point, by name."""
        return self.problem.guess | dict(zip(self.transcription.names, point.parameters.tolist(), strict=True))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the set-up of the problem, sorted by rank."""
        return setup_findings(self.problem, self.sampled)


def assemble(
    problem: Problem,
    normaliser: Array | None = None,
    sharpness: float = 1.0,
    turns: bool = True,
    like: Assembly | None = None,
    rounding: float = 0.0,
) -> Assembly:
    """Build the transcription of ``problem`` and its initial point.

    Args:
        normaliser: numbers of ``priors.normaliser_factor``, (2 n_p + 1,), for a fit at noise that is known.
        sharpness: share of the friction widths that is taken; see ``continuation``.
        turns: False if friction that sticks ignores a joint that turns within a step: widths beyond all slip rates.
        like: an assembly of a problem with the same step. Samples, the initial motion, equations and kernels are
            taken from it where they are the same; None: everything is built.
        rounding: by how much the law of contacts is rounded; see ``continuation.touch``.

    Raises:
        ProblemError: if there is nothing to fit, or the stepper cannot do what is asked.
    """
    like = like if like is not None and _is_alike(problem, like.problem) else None
    if like is None:
        _check(problem)
        check_states(problem)
        check_closure(problem)
    if like is None or like.problem.friction != problem.friction:
        check_stepper(problem)
    if like is not None and _same_samples(problem, like.problem):
        sampled = like.sampled
    else:
        sampled = tuple(gather(problem, recording) for recording in problem.recordings)
        _check_motion(problem, sampled)
    settings = settings_of(problem)
    widths = slip_widths(problem, sampled) * (sharpness if problem.rubs_smoothly else 1.0)
    touch = touch_speed(problem, sampled)
    constants = numbers(problem, settings, widths, widths * (1.0 if turns else 1e8), touch, rounding)
    seen = _seen_like(like, sampled) or layout(problem, [e.samples for e in sampled])
    check_samples(problem, sampled, any(one.reach for one in seen))
    base = like if like is not None and _same_equations(problem, like, seen) else None
    written = all_factors(problem, settings, seen) if base is None else list(base.written)
    equations, before = tuple(written), None if base is None else base.transcription
    if normaliser is not None:
        factor, symbols = _with_normaliser(problem, before)
        written.append(factor)
        constants += tuple(Constant(s, float(v)) for s, v in zip(symbols, normaliser, strict=True))
    chains = [chain_of(problem, e, written, seen, i) for i, e in enumerate(sampled)]
    transcription = transcribed(problem, written, constants, chains, before)
    if like is None:
        check_fit(problem, transcription)
    start = Point(
        tuple(unknowns(problem, e, widths, sharpness, touch, e.guess.states) for e in sampled),
        feasible(problem, transcription.constraints, contiguous([problem.guess[p.name] for p in problem.free])),
    )
    start = with_codes(problem, sampled, start)
    if stands_free(problem.model):
        start = standing(problem, settings, constants, transcription, start, sampled)
    noise = sizes(problem, settings, constants) if problem.estimates_noise else ()
    made = problem, settings, constants, sampled, equations, transcription, start, widths, sharpness, touch, noise, seen
    return Assembly(*made)


def _is_alike(problem: Problem, other: Problem) -> bool:
    """True if samples and equations of both differ in the recordings and the form of friction at most."""
    kept = ("model", "residuals", "constraints", "stepper", "step", "cutoff", "every", "fixed", "state_weight")
    return all(_is_same(getattr(problem, name), getattr(other, name)) for name in kept) and (
        len(problem.observations) == len(other.observations)
        and all(a is b for a, b in zip(problem.observations, other.observations, strict=True))
        and [one.name for one in problem.recordings] == [one.name for one in other.recordings]
    )


def _is_same(a: object, b: object) -> bool:
    return a is b or (not isinstance(a, Model) and type(a) is type(b) and bool(a == b))


def _same_samples(problem: Problem, other: Problem) -> bool:
    """True if the samples of both belong to the same steps."""
    late = all(problem.guess[name] == other.guess[name] for name in problem.delays)
    return late and all(a is b for a, b in zip(problem.recordings, other.recordings, strict=True))


def _same_equations(problem: Problem, like: Assembly, seen: tuple[Observed, ...]) -> bool:
    """True if both have the same factors: friction in one form, and room for the same samples."""
    widths, before = (width_keys(one, like.settings) for one in (problem, like.problem))
    alike = widths == before and (not problem.parameter_set.own or problem is like.problem)
    return alike and seen is like.observed and problem.friction == like.problem.friction


def _seen_like(like: Assembly | None, sampled: Sequence[SampledRecording]) -> tuple[Observed, ...] | None:
    """The layout of samples of another assembly, if it has room for these."""
    if like is None or len(like.sampled) != len(sampled):
        return None
    fits = sampled is like.sampled or all(not without_room(like.observed, e.samples) for e in sampled)
    return like.observed if fits else None


def _with_normaliser(problem: Problem, like: Transcription | None) -> tuple[Factor, list[ca.SX]]:
    """The normaliser's factor and its symbols, those of another transcription that has it."""
    known = None if like is None else next((f for f in like.factors if f.name == NORMALISER), None)
    if known is not None and like is not None:
        count = 2 * len(problem.free) + 1
        return known, [constant.symbol for constant in like.given[-count:]]
    factor, symbols = normaliser_factor(problem.free, problem.scheme.manifold(problem.model))
    return factor, ca.vertsplit(symbols)


def _check_motion(problem: Problem, sampled: Sequence[SampledRecording]) -> None:
    """Refuse an initial value of the motion along which constraints, inertias or turns are none."""
    for e in sampled:
        poses = e.guess.states[:, : problem.model.configuration.ambient]
        check_ranks(problem.model, poses, e.grid.times(), problem.guess)
        if problem.scheme.coordinates == "maximal":
            check_turns(problem.model, poses, e.grid.times(), problem.guess_on(e.recording.name))


def transcribed(
    problem: Problem,
    written: Sequence[Factor],
    constants: Sequence[Constant],
    chains: Sequence[Chain],
    like: Transcription | None = None,
) -> Transcription:
    """Factors and recordings, with bounds and magnitudes of the free parameters; ``like`` if it has the same factors,
    so that no kernel is built twice."""
    free = problem.free
    sizes = np.array([magnitude(p, problem.guess[p.name]) for p in free])
    charts, constraints = inertia_charts(problem), parameter_constraints(problem, sizes)
    if like is not None and len(like.factors) == len(written) and all(map(is_, like.factors, written)):
        numbered = like.with_numbers(contiguous([constant.value for constant in constants]))
        return numbered.with_sizes(sizes, charts, constraints).with_chains(chains)
    bounds = np.array([p.lower for p in free]), np.array([p.upper for p in free])
    known = problem.scheme.manifold(problem.model), written, stacked(free), constants, [p.name for p in free]
    choice = problem.parameter_set.choice
    return Transcription(*known, *bounds, sizes, chains, choice, charts, constraints)


def all_factors(problem: Problem, settings: Settings, seen: Sequence[Observed]) -> list[Factor]:
    """Return the factors of the motion, of the observations and of the priors."""
    written, beliefs = factors(problem, problem.model, settings, seen), priors(problem)
    if beliefs:
        written.append(prior_factor(beliefs, problem.scheme.manifold(problem.model)))
    return written


def settings_of(problem: Problem) -> Settings:
    """Symbols of the settings that occur in factors."""
    return kept(Settings.of, problem.model, len(problem.channels))


def factors(problem: Problem, model: Model, settings: Settings, seen: Sequence[Observed] | None = None) -> list[Factor]:
    """Factors of motion and observations, for the problem's model or a model that differs only in numbers.

    Args:
        seen: which samples make the rows of which factor; None: those of the motion alone.
    """
    scheme = problem.scheme
    written = list(kept(_of_motion, scheme, scheme.law, scheme.dynamics, model, settings))
    if seen is not None:
        written += observation_factors(problem, settings, model, seen)
        written += (residual_factor(problem, settings, one, model) for one in problem.residuals)
        written += place_factors(problem, settings)
    written = with_width_formulas(written, problem, settings)
    return [problem.parameter_set.written(factor) for factor in written]


def _of_motion(
    scheme: Scheme[Any], law: DryFriction, dynamics: Dynamics, model: Model, settings: Settings
) -> list[Factor]:
    return with_late_inputs(model, scheme.factors(model, settings))


def check_stepper(problem: Problem) -> None:
    """Raise ProblemError for a model that the problem's stepper does not support in a fit."""
    problem.scheme.check_model(problem.model)
    check_schedules(problem.model, problem.stepper.name, problem.scheme.refuses)


def _check(problem: Problem) -> None:
    """Raise ProblemError for a problem that can only be simulated, or not even that."""
    what = problem.what
    for lacking in ("recordings", "observations"):
        if not getattr(problem, lacking):
            raise ProblemError(f"{what} needs recordings and observations to be solved; give it {lacking}=[...]")
    check_contacts(problem)


def gather(problem: Problem, recording: Recording) -> SampledRecording:
    """Sample a recording at the problem's time steps, and initialize the states at these steps."""
    steps, values = grid(recording, problem.step), problem.guess_on(recording.name)
    still = tuple((name, value) for name, value in values.items() if name not in problem.delays)
    cutoff = math.inf if problem.model.contacts else problem.cutoff  # impacts have no bandwidth
    guess = _guessed(problem.model, tuple(problem.observations), recording, steps, still, cutoff)
    recording = oriented(problem.model, problem.channels, recording, steps, guess.states, values)
    delays = [number(channel.delay, values) for channel in problem.channels]
    pairs = list(zip(problem.channels, delays, strict=True))
    measured = [_seen(recording, channel, steps, late, problem.every or 1) for channel, late in pairs]
    if problem.every is None:
        own = [samples(recording, channel.signal, steps, late) for channel, late in pairs]
    else:
        own = [Samples.at_steps(values, steps) for values in measured]
    now, slopes = acting(recording, problem.model.inputs, steps, values)
    held = schedule(problem.model, recording, steps)
    hits = strikes(problem.model, recording, steps, held)
    shown = np.column_stack([np.zeros((steps.count, 0)), *measured])
    if np.any(hits.struck):
        sharp = _guessed(problem.model, tuple(problem.observations), recording, steps, still, np.inf)
        guess, hits = begun(problem.model, guess, sharp, hits, steps, values)
    guess = initialization.with_integrals(problem.model, guess, now, values, steps.step)
    return SampledRecording(recording, steps, guess, shown, tuple(own), now, slopes, held, hits)


@lru_cache(maxsize=8)
def _guessed(
    model: Model,
    sensors: tuple[Sensor, ...],
    recording: Recording,
    steps: Grid,
    values: tuple[tuple[str, float], ...],
    cutoff: float,
) -> Guess:
    """Kept, for fits one after another begin with the same."""
    return initialization.guess(model, kept(channels_of, model, sensors), recording, steps, dict(values), cutoff)


def _seen(recording: Recording, channel: Channel, steps: Grid, delay: float, every: int) -> Array:
    """What a channel shows at every so many steps, sampled as if the others were not there, (N,)."""
    seen = Grid(steps.start + delay, every * steps.step, -(-steps.count // every))
    values = np.full(steps.count, np.nan)
    values[::every] = observed(recording, channel.signal, seen, period=channel.period)
    return values


def unknowns(
    problem: Problem,
    sampled: SampledRecording,
    widths: Array,
    sharpness: float,
    touch: float,
    states: Array,
    touching: Array | None = None,
) -> Array:
    """Unknowns of each step, (N, ambient), from states x = (q, v), (N, 13 n_b), and from contact forces if known."""
    poses = states[:, : problem.model.configuration.ambient]
    moved = unwrapped(problem.model, displacements(problem.model, poses, problem.guess_on(sampled.recording.name)))
    rates = np.diff(moved, axis=0) / sampled.grid.step
    slips = np.vstack([rates, rates[-1:]]) / widths
    law, touched = problem.scheme.law, contact_start(problem, sampled, poses, touch, sharpness, touching)
    friction = np.hstack([touched, law.start(problem.model, slips, sharpness)])
    if touched.shape[1]:  # unknowns of a step's end
        friction = np.vstack([np.zeros((1, friction.shape[1])), friction[:-1]])
    found = problem.scheme.start(problem.model, states, moved, friction, sampled.grid.step)
    return contiguous(found if touching is None else with_first_rates(problem, found, touching))


def joined(assembly: Assembly, recording: Recording, number: int) -> tuple[SampledRecording, Chain, Array]:
    """Another recording of an assembled problem: its samples, its chain, and its initial states, (N, ambient).

    Args:
        number: its place among all recordings.

    Raises:
        ProblemError: if it does not fit the problem, or has samples where those of the assembly have none.
    """
    problem = assembly.problem
    check_recording(problem, recording)
    sampled = gather(problem, recording)
    _check_room(assembly, sampled)
    chain = chain_of(problem, sampled, list(assembly.transcription.factors), assembly.observed, number)
    settings = assembly.widths, assembly.sharpness, assembly.touch
    return sampled, chain, unknowns(problem, sampled, *settings, sampled.guess.states)


def _check_room(assembly: Assembly, sampled: SampledRecording) -> None:
    """Refuse samples that no row was made for."""
    problem = assembly.problem
    for i in without_room(assembly.observed, sampled.samples):
        raise ProblemError(
            f"{problem.what}: {problem.channels[i].signal!r} of recording {sampled.recording.name!r} is sampled "
            "otherwise than in the first recordings; resample it, or name one that is sampled so among the first"
        )
