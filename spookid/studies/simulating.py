"""Simulate a declared problem: make twins, replay estimates."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.assembly import gather
from spookid.assembly.checks import check_turns
from spookid.assembly.constants import chosen_numbers, numbers, slip_widths
from spookid.assembly.problem import Problem
from spookid.assembly.schedules import check_schedules, schedule, schedule_signals
from spookid.assembly.trajectories import predict, stamped
from spookid.data.inputs import acting, acting_within, at_values, commanded
from spookid.data.recording import Recording
from spookid.data.sampling import Grid
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array, contiguous
from spookid.mechanics.contacts import Impact
from spookid.mechanics.loads import Input
from spookid.results.result import Solution
from spookid.stepping.base import TURNS
from spookid.stepping.exact import MOST, TOLERANCE, ExactStepper, Refined, Refinement
from spookid.stepping.impulses import Settings
from spookid.stepping.simulation import NewtonStepper, Progress, StepFailedError, march
from spookid.studies.simulation_start import (
    Initial,
    Noises,
    Parameters,
    noise_sizes,
    random_impulses,
    starting_state,
    step_grid,
    values_of,
)
from spookid.tables.table import LONG, minutes
from spookid.transcription.factor import Constant, measured_noise

_SEEN = 1.0
"""Time of processors after which the rest is foreseen [s]."""


@checked
def simulate(
    problem: Problem,
    parameters: Parameters = None,
    duration: float | None = None,
    initial: Initial = None,
    *,
    recording: int = 0,
    inputs: Recording | None = None,
    noise: Noises = None,
    seed: int = 0,
    substeps: int | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Simulate a mechanism forward in time; arguments, result and errors are those of ``Problem.simulate``.

    With ``Variational()`` and smooth friction each step is divided until the motion converges to 1e-6 m and rad
    (``stepping.exact``), into 256 parts at most. A RuntimeWarning reports that this is not enough, or that the
    simulation will take long. ``substeps=1`` steps with the problem's own step in maximal coordinates: to recover its
    parameters exactly, fit with ``Model(coordinates="maximal")`` and ``step_correction=False``.
    """
    if seed < 0:
        raise ProblemError(f"{problem.place}: seed is {shown(seed)}; give a whole number from 0 on")
    if initial is None and isinstance(parameters, Solution):
        initial = parameters
    values = problem.parameter_set.updated(problem.initial, values_of(problem, parameters))
    problem = problem.with_(initial=values, fixed=[p.name for p in problem.parameters])
    if not 0 <= recording < max(len(problem.recordings), 1):
        what = f"{problem.what} has no recording number {shown(recording)}"
        raise ProblemError(f"{what}; it has {len(problem.recordings)}, counted from 0 on")
    sampled = tuple(gather(problem, r) for r in problem.recordings)
    measured = sampled[recording] if sampled else None
    steps = step_grid(problem, duration, measured.grid if measured else None)
    source = inputs or (measured.recording if measured else None)
    u, widths = commanded(source, problem.model.inputs, steps), slip_widths(problem, sampled)
    start = measured.guess.states[0] if measured and initial is None else starting_state(problem, initial, recording)
    sizes, rng = noise_sizes(problem, noise), np.random.default_rng(seed)
    random = None if sizes is None else random_impulses(problem, sizes, steps.count - 1, rng)
    name, told = measured.recording.name if measured else problem.name, announced(problem.name, problem.step, progress)
    march = _March(problem, recording, Settings.of(problem.model), widths, start, source, u, steps, random, told)
    states = _motion(march, substeps)
    if TURNS in problem.stepper.refuses:
        check_turns(problem.model, states[:, : problem.model.configuration.ambient], steps.times(), march.values)
    return _recording(march, states, name, sizes or {}, rng)


def _motion(march: _March, substeps: int | None) -> Array:
    """States at the steps, (N, 13 n_b), with each step divided as asked."""
    problem = march.problem
    if substeps is not None and substeps < 1:
        raise ProblemError(f"{problem.place}: substeps is {shown(substeps)}; give a whole number from 1 on")
    try:
        if substeps is not None or not (problem.stepper.staggered and problem.rubs_smoothly):
            return march.divided(substeps or 1)
        refined = march.refined()
    except StepFailedError as error:
        raise StepFailedError(error.step, error.residual, error.states, error.why, march.place(error.step)) from None
    if refined.left > TOLERANCE:
        warnings.warn(
            f"simulation of {problem.name!r}: with {MOST} substeps per step, the error is still {refined.left:.1g} "
            "(m, rad, m/s or rad/s); take a smaller step or a wider friction_width",
            RuntimeWarning,
            stacklevel=4,
        )
    return refined.states


@dataclass(frozen=True, eq=False)
class _March:
    """The motion of a problem, each step in parts."""

    problem: Problem
    recording: int
    """Whose parameters it has."""
    settings: Settings
    widths: Array
    """Slip rates over which smooth friction turns, (n_s,)."""
    start: Array
    source: Recording | None
    """Of the motors' signals."""
    inputs: Array
    """These signals at the steps, (N, n_u)."""
    steps: Grid
    random: Array | None
    """Impulses at the beginning of each step, (N − 1, n)."""
    progress: Progress

    @cached_property
    def values(self) -> dict[str, float]:
        """Values of the declared Parameters in this recording."""
        recordings = self.problem.recordings
        return self.problem.guess_on(recordings[self.recording].name if recordings else None)

    @cached_property
    def held(self) -> Array:
        """Contact flags for a staggered step, (N − 1, n_c): 1 if the contact is closed from a step to the next."""
        model = self.problem.model
        if not self.problem.stepper.staggered:
            check_schedules(model, self.problem.stepper.name, self.problem.stepper.refuses)
            return np.zeros((self.steps.count - 1, 0))
        if hits := [one for one in model.holding.contacts if isinstance(one, Impact)]:
            raise ProblemError(
                f"{hits[0].what}: a simulation has no impacts by schedule; leave them out, and use Contact with "
                'friction="exact" for what a plane holds back'
            )
        return schedule(model, self.source, self.steps)

    @cached_property
    def _acting(self) -> tuple[Input, ...]:
        return at_values(self.problem.model.inputs, self.values)

    @cached_property
    def _parts(self) -> Callable[[int, int], tuple[Array, Array]]:
        return acting_within(self.source, self._acting, self.steps)

    def place(self, step: int) -> str:
        """Description of a step for messages: recording, if there are several, and time."""
        several = len(self.problem.recordings) > 1
        of = f" of recording {self.problem.recordings[self.recording].name!r}" if several else ""
        return f"{of} (t = {self.steps.times()[step]:.6g} s)"

    @property
    def _means(self) -> bool:
        """True if constraints take inputs, whose means over a substep a staggered step has behind its others."""
        return self.problem.stepper.staggered and self.problem.model.holding.takes_inputs

    def constants(self, substeps: int = 1) -> tuple[Constant, ...]:
        """Values of all symbols in a substep."""
        shared = numbers(self.problem.with_(step=self.problem.step / substeps), self.settings, self.widths)
        return (*shared, *chosen_numbers(self.problem, self.problem.guess, self.recording))

    def divided(self, substeps: int) -> Array:
        """States at all steps, (N, 13 n_b), computed with a given number of substeps per step.

        Raises:
            StepFailedError: with the states and the number of the step that failed.
        """
        problem = self.problem
        h = problem.step / substeps
        stepper = forward_stepper(problem, self.settings, self.constants(substeps), self.random is not None)
        try:
            marched = march(stepper, contiguous(self.start), self._inputs(substeps), self.progress)
        except StepFailedError as error:
            states = problem.stepper.recorded(problem.model, error.states, h)[::substeps]
            raise StepFailedError(1 + (error.step - 1) // substeps, error.residual, states, error.why) from None
        return problem.stepper.recorded(problem.model, marched, h)[::substeps]

    def _inputs(self, substeps: int) -> Array:
        """Inputs of all substeps, random impulses at the first of each step."""
        count = (self.steps.count - 1) * substeps
        fine = Grid(self.steps.start, self.steps.step / substeps, count + 1)
        now, _ = acting(self.source, self._acting, fine, {})
        inputs = self.problem.stepper.forward_inputs(now.held, now.mean, now.late)
        if self._means:
            inputs = np.hstack([inputs, now.mean])
        inputs = np.hstack([inputs, np.repeat(self.held, substeps, axis=0)])
        if self.random is None:
            return contiguous(inputs)
        random = np.zeros((count, self.random.shape[1]))
        random[::substeps] = self.random
        if self.problem.stepper.staggered:
            random[0] = 0.0  # no step ends where the motion starts, with a velocity that is given
        return contiguous(np.hstack([inputs, random]))

    def refined(self) -> Refined:
        """States at all steps, with more and more substeps until the states converge.

        Raises:
            StepFailedError: if a step has no solution.
        """
        stepper = forward_stepper(self.problem, self.settings, self.constants(), self.random is not None)
        assert isinstance(stepper, NewtonStepper)
        known: dict[int, Array] = {}

        def constants(substeps: int) -> Array:
            if substeps not in known:
                known[substeps] = contiguous([c.value for c in self.constants(substeps)])
            return known[substeps]

        refinement = Refinement(self.problem.model, stepper, constants, self._within)
        return refinement.march(contiguous(self.start), self.steps.count - 1, self.progress)

    def _within(self, k: int, substeps: int) -> Array:
        """Inputs of ``Refinement`` in step k: a kick that takes no time, substeps, and one more with what acts last."""
        mean, late = self._parts(k, substeps)
        ends = 2 * (mean - late)[:1], 2 * late[-1:]
        pushes = np.vstack([np.zeros_like(ends[0]), ends[0], late[:-1] + (mean - late)[1:], ends[1]])
        share = np.ones((len(pushes), 1))
        share[:2, 0] = 0.0, 0.5
        means = np.vstack([mean[:1], mean, mean[-1:]])[:, : mean.shape[1] * self._means]
        held = np.repeat(self.held[k : k + 1], len(pushes), axis=0)
        random = np.zeros((len(pushes), 0 if self.random is None else self.random.shape[1]))
        if self.random is not None and k > 0:
            random[0] = self.random[k]
        return contiguous(np.hstack([pushes, share, means, held, random]))


def forward_stepper(
    problem: Problem, settings: Settings, constants: tuple[Constant, ...], random: bool = False
) -> NewtonStepper | ExactStepper:
    """Return the function that advances the mechanism by one step, with smooth friction or with sticking friction.

    Raises:
        ProblemError: for constraints that only push with smooth friction.
    """
    if not problem.rubs_smoothly:
        return ExactStepper(problem.stepper.forward(problem.model, settings, random, exact=True), constants)
    if problem.model.is_unilateral:
        raise ProblemError(f'{problem.what} has limits or contacts, which need friction="exact"')
    return NewtonStepper(problem.stepper.forward(problem.model, settings, random), constants)


def _recording(
    march: _March, states: Array, name: str, sizes: Mapping[str, float], rng: np.random.Generator
) -> Recording:
    problem = march.problem
    shown = stamped(problem, predict(problem, states, march.constants()), march.values)
    bodies = len(problem.model.bodies)
    signals = {
        o.signal: shown[:, i] + sizes.get(measured_noise(o.signal), 0.0) * rng.standard_normal(len(shown))
        for i, o in enumerate(problem.channels)
    }
    signals |= {signal: march.inputs[:, i] for i, signal in enumerate(problem.model.signals)}
    signals = schedule_signals(problem.model, march.source, march.steps) | signals
    return Recording(
        t=march.steps.times(),
        signals=signals,
        name=name,
        q=states[:, : 7 * bodies].reshape(-1, bodies, 7),
        v=states[:, 7 * bodies :].reshape(-1, bodies, 6),
    )


def announced(label: str, step: float, progress: Progress | None) -> Progress:
    """Progress wrapper that first warns (RuntimeWarning) if a simulation takes long."""

    def along(steps: Iterable[int]) -> Iterator[int]:
        assert isinstance(steps, Sequence)
        began, clock, told = time.process_time(), time.perf_counter(), False
        for k in steps if progress is None else progress(steps):
            yield k
            # Asking for the time of processors may take longer than a step.
            if told or time.perf_counter() - clock < _SEEN or (spent := time.process_time() - began) < _SEEN:
                continue
            told, whole = True, spent * len(steps) / (k + 1)
            if whole > LONG:
                warnings.warn(
                    f"simulation of {label!r}: {len(steps):,} steps of {step:g} s will take about {minutes(whole)}; "
                    "to shorten it, take a larger step or a shorter duration, and check that times are in seconds",
                    RuntimeWarning,
                    stacklevel=2,
                )

    return along
