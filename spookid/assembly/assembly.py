"""From a declared problem to a transcription and a start: where mechanics, time, recordings and settings meet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import casadi as ca
import numpy as np

from spookid.assembly import initialization
from spookid.assembly.chain import chain_of
from spookid.assembly.charts import inertia_charts
from spookid.assembly.closure import check_closure, welded_notices
from spookid.assembly.contact_start import (
    begun,
    check_contacts,
    check_samples,
    contact_start,
    touch_speed,
    with_codes,
    with_first_rates,
)
from spookid.assembly.declaration import Declaration
from spookid.assembly.demand import check_fit, check_states
from spookid.assembly.initialization import Guess
from spookid.assembly.input_data import residual_factors, with_late_inputs
from spookid.assembly.keeping import kept
from spookid.assembly.noise import sizes
from spookid.assembly.observations import Observed, layout, observation_factors
from spookid.assembly.preparing import oriented
from spookid.assembly.priors import normaliser_factor, prior_factor, priors
from spookid.assembly.ranks import check_ranks, check_turns, given_inertias
from spookid.assembly.relations import feasible, parameter_constraints
from spookid.assembly.sampled_recording import SampledRecording
from spookid.assembly.schedules import check_schedules, idle_notices, schedule, strikes
from spookid.assembly.standing_start import Standing, place_factors, stands_free
from spookid.data.bandwidth import SHARE
from spookid.data.channels import Channel, Sensor, channels_of
from spookid.data.inputs import acting
from spookid.data.recording import Recording
from spookid.data.samples import Samples, samples
from spookid.data.sampling import Grid, grid, observed
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.kinematics import displacements, unwrapped
from spookid.mechanics.model import Model
from spookid.parameter import Parameter, number, stacked, substitute
from spookid.records import dataclass
from spookid.statistics.noise_sizes import NoiseSize
from spookid.stepping.base import Scheme
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant, Factor
from spookid.transcription.transcription import Chain, Point, Transcription

WIDTH_SHARE = 0.01
"""Default friction width of a coordinate as a share of the root mean square of its slip rate."""
_NEVER = 1e8
"""Widths that no slip rate comes near."""
WIDTH_AT_REST = 0.01
"""Default friction width where no motion is known [rad/s or m/s]."""
_ROUNDING = 1e-15
"""Share of a parameter's span, or of 1, below which a guess of either sign is what rounding left of zero."""
IMPULSE_SHARE = 1e-3
"""Width of |λ| in the load-dependent law as a share of the impulse of the mechanism's weight in one step."""


@dataclass(frozen=True, eq=False)
class Assembly:
    """A problem made ready for a solver."""

    problem: Declaration
    settings: Settings
    constants: tuple[Constant, ...]
    """Settings and fixed parameters, with their numbers."""
    sampled: tuple[SampledRecording, ...]
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
        """σ of each sensor, as far as it is known by now, (n_o,)."""
        values = {c.symbol.element_hash(): c.value for c in self.constants}
        return np.array([values[s.element_hash()] for s in ca.vertsplit(self.settings.sensors)])

    def numbers(self, point: Point, chain: int) -> tuple[Constant, ...]:
        """Every symbol of factors and mechanics with its number at a point, in one recording."""
        problem, values = self.problem, point.parameters.tolist()
        return (
            *self.constants,
            *(Constant(p, value) for p, value in zip(problem.free, values, strict=True)),
            *chosen_numbers(problem, self.values(point), chain),
        )

    def values(self, point: Point) -> dict[str, float]:
        """Number of every parameter at a point, by name."""
        return self.problem.guess | dict(zip(self.transcription.names, point.parameters.tolist(), strict=True))

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know about how the problem was set up, each once."""
        own = [*self.problem.stepper.notices(self.problem.model), *_uncorrected(self.problem)]
        own += step_chosen(self.problem)
        own += [*given_inertias(self.problem.model), *welded_notices(self.problem, self.sampled[0].guess.states)]
        own += idle_notices(self.problem.model, [(e.recording, e.held) for e in self.sampled])
        own += [note for recording in self.problem.recordings for note in recording.notes]
        return tuple(dict.fromkeys([*own, *(notice for e in self.sampled for notice in e.guess.notices)]))


def step_chosen(problem: Declaration) -> list[str]:
    """A notice that the step is the motion's, if it is."""
    if problem.step != problem.bandwidth_step:
        return []
    taken = ", taken from the estimates by a fit with half of it, whose samples and residuals are shown"
    return [
        f"The step of {problem.step:g} s is that of the motion's bandwidth: with it second-order errors are "
        f"{100 * SHARE:g} % of the efforts{taken if problem.corrects else ''}; step= sets another."
    ]


def _uncorrected(problem: Declaration) -> list[str]:
    """That estimates are not those of continuous time although they were asked for."""
    asked = problem.dynamics == "estimated" and problem.stepper.corrects and problem.step_correction
    told = (
        f"With {problem.uncorrected} estimates are those of steps of h = {problem.step:g} s; a smaller step tells what"
    )
    return [f"{told} they add."] if asked and problem.uncorrected else []


def assemble(
    problem: Declaration, normaliser: Array | None = None, sharpness: float = 1.0, turns: bool = True
) -> Assembly:
    """Build the transcription of ``problem`` and its initial point.

    Args:
        normaliser: numbers of ``priors.normaliser_factor``, (2 n_p + 1,), for a fit at noise that is known.
        sharpness: share of the friction widths that is taken; see ``continuation``.
        turns: False to have friction that sticks take no notice of a joint that turns within a step.

    Raises:
        ProblemError: if there is nothing to fit, or the stepper cannot do what is asked.
    """
    _check(problem)
    check_stepper(problem)
    check_states(problem)
    check_closure(problem)
    sampled = tuple(gather(problem, recording) for recording in problem.recordings)
    for e in sampled:
        poses = e.guess.states[:, : problem.model.configuration.ambient]
        check_ranks(problem.model, poses, e.grid.times(), problem.guess)
        if not problem.scheme.turns:
            check_turns(problem.model, poses, e.grid.times(), problem.guess_on(e.recording.name))
    settings = settings_of(problem)
    manifold = problem.scheme.manifold(problem.model)
    widths = slip_widths(problem, sampled) * (sharpness if problem.friction == "smooth" else 1.0)
    touch = touch_speed(problem, sampled)
    constants = numbers(problem, settings, widths, widths * (1.0 if turns else _NEVER), touch)
    seen = layout(problem, [e.samples for e in sampled])
    check_samples(problem, sampled, any(one.reach for one in seen))
    written, free = all_factors(problem, settings, seen), problem.free
    if normaliser is not None:
        factor, symbols = normaliser_factor(free, manifold)
        written.append(factor)
        constants += tuple(Constant(s, float(v)) for s, v in zip(ca.vertsplit(symbols), normaliser, strict=True))
    chains = [chain_of(problem, e, written, seen, i) for i, e in enumerate(sampled)]
    transcription = transcribed(problem, written, constants, chains)
    check_fit(problem, transcription)
    start = Point(
        tuple(unknowns(problem, e, widths, sharpness, touch, e.guess.states) for e in sampled),
        feasible(problem, transcription.constraints, contiguous([problem.guess[p.name] for p in free])),
    )
    start = with_codes(problem, sampled, start)
    if stands_free(problem.model):
        start = Standing(problem, settings, constants, written).found(transcription, start, sampled)
    noise = sizes(problem, settings, constants) if problem.dynamics == "estimated" else ()
    return Assembly(problem, settings, constants, sampled, transcription, start, widths, sharpness, touch, noise, seen)


def transcribed(
    problem: Declaration,
    written: Sequence[Factor],
    constants: Sequence[Constant],
    chains: Sequence[Chain],
) -> Transcription:
    """Factors and recordings with the bounds and magnitudes of the free parameters."""
    free = problem.free
    sizes = np.array([magnitude(p, problem.guess[p.name]) for p in free])
    return Transcription(
        problem.scheme.manifold(problem.model),
        written,
        stacked(free),
        constants,
        [p.name for p in free],
        np.array([p.lower for p in free]),
        np.array([p.upper for p in free]),
        sizes,
        chains,
        problem.parameter_set.choice,
        inertia_charts(problem),
        parameter_constraints(problem, sizes),
    )


def all_factors(problem: Declaration, settings: Settings, seen: Sequence[Observed]) -> list[Factor]:
    """Those of the motion and of what is observed, and what is known beforehand."""
    written, beliefs = factors(problem, problem.model, settings, seen), priors(problem)
    if beliefs:
        written.append(prior_factor(beliefs, problem.scheme.manifold(problem.model)))
    return written


def settings_of(problem: Declaration) -> Settings:
    """Symbols of the settings that stand in factors."""
    return kept(Settings.of, problem.model, len(problem.channels))


def factors(
    problem: Declaration, model: Model, settings: Settings, seen: Sequence[Observed] | None = None
) -> list[Factor]:
    """Those of the motion and of what is observed, for the problem's model or one that differs from it in numbers.

    Args:
        seen: which samples make the rows of which factor; None: those of the motion alone.
    """
    written = list(kept(_of_motion, problem.scheme, model, settings, bool(np.isinf(problem.weight))))
    if seen is not None:
        written += observation_factors(problem, settings, model, seen)
        written += residual_factors(problem, settings, model)
        written += place_factors(problem, settings)
    return [problem.parameter_set.written(factor) for factor in written]


def _of_motion(scheme: Scheme, model: Model, settings: Settings, hard: bool) -> list[Factor]:
    return with_late_inputs(model, scheme.factors(model, settings, hard))


def check_stepper(problem: Declaration) -> None:
    """Raise ProblemError for a model that the problem's stepper, in the form that the fit takes, cannot do."""
    problem.scheme.check_model(problem.model)
    check_schedules(problem.model, problem.scheme)


def _check(problem: Declaration) -> None:
    """Raise ProblemError for a problem that can only be simulated, or not even that."""
    what = problem.what
    for lacking in ("recordings", "observations"):
        if not getattr(problem, lacking):
            raise ProblemError(f"{what} needs recordings and observations to be solved; give it {lacking}=[...]")
    check_contacts(problem)


def gather(problem: Declaration, recording: Recording) -> SampledRecording:
    """Sample a recording at the problem's steps and guess the states there."""
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
    problem: Declaration,
    sampled: SampledRecording,
    widths: Array,
    sharpness: float,
    touch: float,
    states: Array,
    touching: Array | None = None,
) -> Array:
    """Unknowns of each step, (N, ambient), from states x = (q, v), (N, 13 n_b), and from what contacts do if known."""
    poses = states[:, : problem.model.configuration.ambient]
    moved = unwrapped(problem.model, displacements(problem.model, poses, problem.guess_on(sampled.recording.name)))
    rates = np.diff(moved, axis=0) / sampled.grid.step
    slips = np.vstack([rates, rates[-1:]]) / widths
    law, touched = problem.scheme.law, contact_start(problem, sampled, poses, touch, sharpness, touching)
    friction = np.hstack([touched, law.start(problem.model, slips, sharpness)])
    found = problem.scheme.start(problem.model, states, moved, friction, sampled.grid.step)
    return contiguous(found if touching is None else with_first_rates(problem, found, touching))


def slip_widths(problem: Declaration, sampled: tuple[SampledRecording, ...]) -> Array:
    """Friction width of each coordinate, (n_s,) [rad/s or m/s]; see ``Problem.friction_width``."""
    n = len(problem.model.freedoms)
    if problem.friction_width is not None and problem.friction != "exact":
        return np.full(n, problem.friction_width)
    if not sampled:
        return np.full(n, WIDTH_AT_REST)
    return width_along(np.vstack([np.diff(e.guess.displacements, axis=0) / e.grid.step for e in sampled]))


def width_along(rates: Array) -> Array:
    """Friction width of each coordinate by default, (n_s,), where they slip with rates (N, n_s)."""
    share = WIDTH_SHARE * np.sqrt(np.mean(rates**2, axis=0))
    return np.where(share > 0, share, WIDTH_AT_REST)


def numbers(
    problem: Declaration, settings: Settings, widths: Array, turning: Array | None = None, touch: float = WIDTH_AT_REST
) -> tuple[Constant, ...]:
    """Every symbol of the factors but the free parameters, with its number."""
    values = problem.guess_on()
    masses = sum(substitute(body.mass, values).item() for body in problem.model.bodies)
    weight = float(masses * np.linalg.norm(substitute(problem.model.gravity, values)))
    free = {p.name for p in problem.free}
    return (
        Constant(settings.step, problem.step),
        Constant(settings.weight, problem.weight),
        *(Constant(settings.slip_width[j], float(width)) for j, width in enumerate(widths)),
        *(
            Constant(settings.turn_width[j], float(width))
            for j, width in enumerate(widths if turning is None else turning)
        ),
        Constant(settings.impulse_width, IMPULSE_SHARE * problem.step * max(weight, 1e-6)),
        Constant(settings.touch_speed, touch),
        Constant(settings.touch_impulse, masses * touch),
        *(Constant(p, values[p.name]) for p in problem.parameters if p.name not in free),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.disturbance)),
        *(Constant(s, 1.0) for s in settings.torques.values()),
        *(Constant(s, 1.0) for s in ca.vertsplit(settings.slips)),
        *(
            Constant(settings.sensors[i], o.sigma or 1.0)
            for i, o in enumerate(problem.channels[: settings.sensors.numel()])
        ),
    )


def chosen_numbers(problem: Declaration, values: Mapping[str, float], recording: int) -> tuple[Constant, ...]:
    """Which recording it is, and its own parameters by the symbols that were declared."""
    known = problem.parameter_set
    choice = zip(ca.vertsplit(known.choice), known.chosen(recording).tolist(), strict=True)
    own = [Constant(p, values[known.name_on(p, known.recordings[recording])]) for p in known.own]
    return (*(Constant(symbol, value) for symbol, value in choice), *own)


def magnitude(parameter: Parameter, guess: float) -> float:
    """Typical size of a parameter: that of its guess, else the span of its bounds, else 1.

    A guess of either sign that is below the rounding of its bounds' span, or of 1, is a zero: it is no scale.
    """
    span = parameter.upper - parameter.lower
    otherwise = span if np.isfinite(span) else 1.0
    signed = parameter.lower < 0 < parameter.upper
    return otherwise if guess == 0 or (signed and abs(guess) < _ROUNDING * otherwise) else abs(guess)
