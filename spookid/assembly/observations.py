"""What is observed as factors: samples at the steps, and between them; the data of a recording.

A sample between two steps is predicted from the states around it, to second order and beyond. Where velocities
are unknowns of a step (``windows.of_states``), what is shown at a share τ of the way from one state to the next is

    y + τ (y₊ − y) + ½ τ (τ − 1) h (ẏ₊ − ẏ),

and where they are differences it is the parabola through three states, of which a velocity that is an unknown tells the
first; both are wrong by a multiple of h³ of the third
derivative. Where that is more than a sensor's noise bears, it is the polynomial through up to six states
(``assembly.interpolation``). What shows velocities or accelerations lies on a line between those of two states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spookid.assembly.constants import resolution
from spookid.assembly.correlated import correlated_layout, innovation, is_correlated, previous
from spookid.assembly.initialization import SampledRecording
from spookid.assembly.input_data import input_data, windows, with_measured
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import at_switches, impact_data
from spookid.assembly.standing_start import PLACE, place_data
from spookid.data.channels import Channel, apart, order, whitened
from spookid.data.interpolation import left_out, polynomial, spectrum
from spookid.data.sampling import Reach, Samples, told_apart
from spookid.data.state import Motion, State
from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.mechanics.model import Model
from spookid.parameter import is_constant
from spookid.records import dataclass, kept
from spookid.statistics.marginal import roughness
from spookid.stepping.base import Scheme
from spookid.stepping.contact_rows import IMPACTS
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group, measured_noise
from spookid.transcription.transcription import Chain

_ORDERS = ("observation", "rate observation", "acceleration observation")
"""Names of factors by the time derivatives that they see."""
_BETWEEN = "{} between steps"
"""Names of those of samples between the steps."""
_CORRELATED = "correlated {}"
"""Names of those of samples whose noise is correlated."""


@dataclass(frozen=True)
class Observed:
    """Channels whose samples form the residuals of one factor."""

    name: str
    order: int
    """How many time derivatives of the configuration they see."""
    channels: tuple[int, ...]
    """Numbers among the problem's channels."""
    reach: Reach | None = None
    """Which states a prediction between the steps is made of; None at the steps."""
    slots: tuple[int, ...] = ()
    """Of each channel how many samples between the steps belong to one state at the most; empty at the steps."""
    whole: tuple[bool, ...] = ()
    """Of each channel whether those at the steps are among them."""
    intervals: tuple[float, ...] = ()
    """Of each channel the usual time between its samples, if their noise is correlated [s]; empty if it is white."""

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The channel of each row."""
        counts = self.slots or (1,) * len(self.channels)
        return tuple(channel for channel, n in zip(self.channels, counts, strict=True) for _ in range(n))


class _Declared(NamedTuple):
    """What factors of observations are built of, which fits of one model with other steps share."""

    scheme: Scheme[Any]
    model: Model
    channels: tuple[Channel, ...]


def layout(problem: Problem, samples: Sequence[Sequence[Samples]], spare: int = 0) -> tuple[Observed, ...]:
    """Groups of channels that form one observation factor each, for the samples of all recordings.

    Args:
        spare: for how many more samples of each channel there is to be room between two steps. A clock that jitters
            about the steps puts two there, where a channel with all samples at the steps has none: for these twice as
            many.
    """
    found = []
    of_channels = list(zip(*samples, strict=True))
    orders = [order(channel, problem.model) for channel in problem.channels]
    stepped = [
        is_constant(channel.delay) and told_apart(own)
        for channel, own in zip(problem.channels, of_channels, strict=True)
    ]
    for number, name in enumerate(_ORDERS):
        correlated = tuple(i for i, n in enumerate(orders) if n == number and is_correlated(problem.channels[i]))
        if correlated:
            parts = correlated_layout(problem, number, correlated, [of_channels[i] for i in correlated], spare)
            found.append(Observed(_CORRELATED.format(name), number, correlated, *parts))
        own = [i for i, n in enumerate(orders) if n == number and i not in correlated]
        if not own:
            continue
        reach = _reach(problem, number, [(problem.channels[i], of_channels[i]) for i in own])
        separate = {i: stepped[i] and not (number and reach.polynomial) for i in own}
        at_steps = tuple(i for i in own if separate[i])
        if at_steps:
            found.append(Observed(name, number, at_steps))
        most = {i: max((one.slots(reach, not separate[i]) for one in of_channels[i]), default=0) for i in own}
        slots = {i: max(n, spare) + spare for i, n in most.items()}
        late = tuple(i for i in own if slots[i])
        if late:
            sizes, whole = tuple(slots[i] for i in late), tuple(not separate[i] for i in late)
            found.append(Observed(_BETWEEN.format(name), number, late, reach, sizes, whole))
    return tuple(found)


def observation_factors(
    problem: Problem, settings: Settings, model: Model, observed: Sequence[Observed]
) -> list[Factor]:
    """One factor for each group of channels, for the problem's model or one that differs only in numbers."""
    declared = _Declared(problem.scheme, problem.model, problem.channels)
    return [kept(_observed, declared, settings, model, one) for one in observed]


def _observed(declared: _Declared, settings: Settings, model: Model, one: Observed) -> Factor:
    make = _between if one.reach else _at_steps
    return make(declared, settings, model, one)


def observation_data(one: Observed, factor: Factor, samples: Sequence[Samples]) -> tuple[Array, Mask]:
    """Data of a factor along one recording, and flags of equations without data, (count, rows)."""
    if one.reach:
        triples = [
            samples[i].between(one.reach, n, every)
            for i, n, every in zip(one.channels, one.slots, one.whole, strict=True)
        ]
        stamps, values, weights = (np.hstack(parts) for parts in zip(*triples, strict=True))
        correlated = zip(one.channels[: len(one.intervals)], one.slots, strict=False)
        pairs = [previous(samples[i], one.reach, n) for i, n in correlated]
        before = [np.hstack(parts) for parts in zip(*pairs, strict=True)]
        return contiguous(np.hstack([values, weights, stamps, *before])), weights == 0
    # A factor over several steps observes the middle one.
    first, steps = factor.reach // 2, samples[0].count
    both = [samples[i].stepped() for i in one.channels]
    columns, weights = (np.column_stack(own)[first : first + factor.count(steps)] for own in zip(*both, strict=True))
    missing = np.isnan(columns)
    return contiguous(np.hstack([np.where(missing, 0.0, columns), weights])), missing


def without_room(observed: Sequence[Observed], samples: Sequence[Samples]) -> list[int]:
    """Indices of the channels that have more samples than equations."""
    between = [one for one in observed if one.reach]
    room = {
        c: (one.reach, n, every)
        for one in between
        for c, n, every in zip(one.channels, one.slots, one.whole, strict=True)
    }
    found = []
    for i, own in enumerate(samples):
        reach, most, every = room.get(i, (Reach(1, 0, 0, 1), 0, False))
        if reach is not None and own.slots(reach, every) > most:
            found.append(i)
    return found


def _at_steps(problem: _Declared, settings: Settings, model: Model, one: Observed) -> Factor:
    """Predicted less measured at one step. Its data are the measured values, and the weight of each that there is, else
    0."""
    window = problem.scheme.window(model, settings, one.order)
    state, data = State.of(problem.model, window.motion), ca.SX.sym("y", 2 * len(one.rows))
    rows = [
        whitened(problem.channels[i], problem.channels[i].predicted(state), data[j], settings.sensors[i])
        for j, i in enumerate(one.rows)
    ]
    return _factor(problem, one, rows, dict(window.variables), data)


def _between(problem: _Declared, settings: Settings, model: Model, one: Observed) -> Factor:
    """Residuals between the steps; values and weights are followed by the timestamps, in steps."""
    reach = one.reach
    assert reach is not None
    n, states = len(one.rows), reach.states
    slopes = one.order == 0 and states == 2
    variables, motions = _moving(problem, settings, model, max(one.order, int(slopes)), reach)
    data, rows = ca.SX.sym("y", (5 if one.intervals else 3) * n), []
    usual = dict(zip(one.channels, one.intervals, strict=False))
    lines = {
        i: _Line(problem.channels[i], problem.model, motions, slopes, settings.step, reach.before) for i in one.channels
    }
    for row, i in enumerate(one.rows):
        channel, sigma = problem.channels[i], settings.sensors[i]
        place = data[2 * n + row] - channel.delay / settings.step
        now = lines[i].at(place), data[row]
        if i in usual:
            ago = data[4 * n + row]
            before = lines[i].at(place - ago), data[3 * n + row]
            rows.append(innovation(channel, now, before, ago * settings.step, usual[i], sigma))
        else:
            rows.append(whitened(channel, *now, sigma))
    return _factor(problem, one, rows, variables, data)


def _moving(
    problem: _Declared, settings: Settings, model: Model, order: int, reach: Reach
) -> tuple[dict[int, ca.SX], Sequence[Motion]]:
    """The unknowns, by offset, that the states of a prediction are made of, and how each moves."""
    scheme = problem.scheme
    if (around := scheme.around(model, settings, order)) is not None:
        return around
    of_polynomial = scheme.through(model, settings, order, reach.states) if order and reach.polynomial else None
    return of_polynomial or windows(scheme, settings, model, reach.states, order)


def _factor(
    problem: _Declared, one: Observed, whitened_rows: Sequence[ca.SX], variables: dict[int, ca.SX], data: ca.SX
) -> Factor:
    """(predicted − measured)/σ (Δy, equation 3.6), 0 where there is no sample."""
    n, sensors = len(one.rows), [problem.channels[i] for i in one.rows]
    rows = [data[n + j] * row for j, row in enumerate(whitened_rows)]
    labels = tuple(f"observation of {sensor.signal}" for sensor in sensors)
    noise = tuple(measured_noise(sensor.signal) for sensor in sensors)
    places = [
        (sensor.sensor, one.rows[:j].count(i)) for j, (i, sensor) in enumerate(zip(one.rows, sensors, strict=True))
    ]
    spheres = tuple(
        tuple(j for j, other in enumerate(places) if other == place)
        for place in dict.fromkeys(places)
        if place[0].either_sign
    )
    residual = ca.vertcat(*rows)
    return Factor(one.name, Group.OBSERVATION, residual, variables, data, labels, noise=noise, spheres=spheres)


def _reach(problem: Problem, order: int, channels: Sequence[tuple[Channel, Sequence[Samples]]]) -> Reach:
    """Which states a prediction between the steps is made of.

    Args:
        channels: those of this order, each with its samples in every recording.
    """
    scheme = problem.scheme
    if scheme.around(problem.model, Settings.of(problem.model), order) is not None:
        return Reach(1, 0, 1, 1)
    wide = kept(_width, scheme, problem.model, max(order, 1))
    if order == 0 and not wide:  # velocities are unknowns
        return Reach(1, 0, 0, 1)
    states = states_between(problem, channels, order)
    if states > 2 and (order == 0 or kept(_goes_through, scheme, problem.model, order, states)):
        first = (states - 1) // 2
        return Reach(states - 1, first, first, states - 1 - first)
    # The earlier of the two states is the middle one of its own window.
    return Reach(wide + 1, wide // 2, 0, 1)


def _width(scheme: Scheme[Any], model: Model, order: int) -> int:
    """Over how many steps a window reaches."""
    return max(scheme.window(model, Settings.of(model), order).variables)


def _goes_through(scheme: Scheme[Any], model: Model, order: int, states: int) -> bool:
    """True if there is a polynomial through so many states."""
    return scheme.through(model, Settings.of(model), order, states) is not None


class _Line:
    """What a channel shows between states at neighbouring steps.

    Args:
        motions: of two states or more.
        slopes: True to use the rates of what two states show.
        first: number of the state from which places are counted.
    """

    def __init__(
        self, channel: Channel, model: Model, motions: Sequence[Motion], slopes: bool, step: ca.SX, first: int
    ) -> None:
        state = State.symbols(model, joints=motions[0].joints is not None)
        value = channel.predicted(state)
        rate = ca.jtimes(value, state.q, ca.densify(model.configuration.basis(state.q) @ state.v))
        if state.joints is not None:
            rate += ca.jtimes(value, *state.joints)
        symbols = state.motion.parts
        there = [ca.substitute([value, rate], symbols, [ca.densify(e) for e in motion.parts]) for motion in motions]
        self._first = first
        self._centre = there[self._first][0]
        self._steps = [apart(channel, after[0], before[0]) for before, after in pairwise(there)]
        if len(self._steps) == 2:
            self._slope, self._curvature = (self._steps[0] + self._steps[1]) / 2, self._steps[1] - self._steps[0]
        else:
            self._curvature = step * (there[1][1] - there[0][1]) if slopes else ca.SX(0)
            self._slope = self._steps[0] - self._curvature / 2

    def at(self, place: ca.SX) -> ca.SX:
        """At a place in steps."""
        if len(self._steps) > 2:
            return self._centre + polynomial(self._steps, self._first, place)
        return self._centre + place * self._slope + place**2 / 2 * self._curvature


_STATES = ((3, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 6))
"""By order, numbers of states that a polynomial may go through, or two for differences and lines: with every one more
of them the equations have a wider band."""


def states_between(problem: Problem, channels: Sequence[tuple[Channel, Sequence[Samples]]], order: int) -> int:
    """Smallest number of states for interpolation that suits all given sensors and their time derivatives.

    What they miss and the most states do not must not show in the sum of the squares of the errors of a sensor's
    samples, which noise alone scatters by √(2 n).

    Args:
        channels: each with its samples in every recording.
    """
    late = [_excess(problem, *one, order) for one in channels if any(map(_many_between, one[1]))]
    fewest, *more = _STATES[order]
    if not late:
        return fewest
    steps = min(one.count for _, samples in channels for one in samples)
    possible = [fewest, *(n for n in more if n <= steps)]
    least = [excess(possible[-1]) for excess in late]
    for n in possible[:-1]:
        if all(excess(n) - most <= 1 for excess, most in zip(late, least, strict=True)):
            return n
    return possible[-1]


def _excess(problem: Problem, channel: Channel, recordings: Sequence[Samples], order: int) -> Callable[[int], float]:
    """For so many states the sum of the squares of what is missed of a sensor's samples, over the scatter of that of
    the noise."""
    # Positions at the steps are unknowns themselves, rates and accelerations there are not.
    counts = [_many_between(one) if order == 0 else len(one.at) for one in recordings]
    period, values = channel.period, [one.values for one in recordings]
    shown = [each if period is None else np.unwrap(each, period=period) for each in values]
    least = resolution(channel, shown) / math.sqrt(12)
    sigma = channel.sigma or (max(roughness(shown), least) if problem.estimates_noise else 1.0)
    spectra = [spectrum(one.stamps, each, problem.cutoff) for one, each in zip(recordings, shown, strict=True)]

    def excess(states: int) -> float:
        if not sigma:  # of what does not change
            return 0.0
        missed = [left_out(*one, problem.step, states, order) for one in spectra]
        return float(np.dot(counts, missed)) / sigma**2 / math.sqrt(2 * sum(counts))

    return excess


def _many_between(samples: Samples) -> int:
    """How many lie between the steps."""
    return int(np.count_nonzero(samples.at != np.rint(samples.at)))


def chain_of(
    problem: Problem, sampled: SampledRecording, factors: list[Factor], seen: Sequence[Observed], number: int
) -> Chain:
    """Chain of time steps for one recording with its data; ``number`` is the index of the recording."""
    values = problem.guess_on(sampled.recording.name)
    data = input_data(problem, factors, values, sampled.acting, sampled.slopes, sampled.held, sampled.strikes)
    own = [factor for factor in factors if factor.group is Group.RESIDUAL]
    for f, residual in zip(own, problem.residuals, strict=True):
        data[f.name] = with_measured(problem, residual, data[f.name], f, sampled)
    missing, named = dict[str, Mask](), {factor.name: factor for factor in factors}
    for one in seen:
        rows, absent = observation_data(one, named[one.name], sampled.samples)
        if sampled.held.size:
            contacts = sampled.held, sampled.strikes.struck
            jumps, n = at_switches(*contacts, named[one.name], one.order, one.reach is not None), len(one.rows)
            absent, rows[jumps, n : 2 * n] = absent | jumps[:, None], 0.0
        data[one.name], missing[one.name] = rows, absent
    leads = number == 0
    if IMPACTS in named:
        data[IMPACTS], missing[IMPACTS] = impact_data(problem.model, sampled.strikes, named[IMPACTS])
    if PLACE in named:
        data[PLACE] = place_data(problem.model, sampled.guess)
    for prior in (f for f in factors if f.group is Group.PRIOR):
        data[prior.name] = np.full((1, 1), float(leads))  # recordings share the parameters and their priors
        missing[prior.name] = np.full((1, len(prior.rows)), not leads)
    choice = problem.parameter_set.chosen(number)
    return Chain(sampled.recording.name, sampled.grid.count, data, missing, choice, sampled.grid.times())
