"""Where a smoother begins: a problem with noise that is known, and its states and parameters on a first recording.

Noise of equations of motion that a smoother can tell from none.

A fit that sees no disturbance of a joint makes it as small as it likes. A smoother carries rows of all kinds together
from step to step, and where those of one are larger than those of another by the digits of a number, what these know is
lost in rounding, or seems to be more than it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spookid.assembly.assembly import Assembly, all_factors, assemble, check_stepper, settings_of, transcribed
from spookid.assembly.constants import numbers, sizes
from spookid.assembly.correlated import is_correlated
from spookid.assembly.observations import Observed, layout
from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError, shown
from spookid.estimation.extrapolation import finer, missed, pinned, step_added
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start, fit
from spookid.estimation.friction_width import at_widths, widths_of
from spookid.estimation.starts import free_delays
from spookid.estimation.suspects import without_outliers
from spookid.estimation.work import starting_from
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.results.result import Noise, Solution
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Status
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Constant, Group
from spookid.transcription.transcription import Chain, Point, Transcription

_ENDLESS = 10**9
"""Steps of a horizon without an end."""


@dataclass(frozen=True, eq=False)
class Initialization:
    """What a smoother begins with."""

    problem: Problem
    """As it is smoothed."""
    settings: Settings
    """Symbols of its settings."""
    transcription: Transcription
    """Of a recording without end, with the numbers of the noise."""
    observed: tuple[Observed, ...]
    """Which samples make the rows of which factor."""
    recording: Recording
    """The first samples."""
    start: float
    """Time of step 0 [s]."""
    states: Array
    """At the steps of the recording, (N, ambient)."""
    parameters: Array
    """(n_p,)."""
    step_errors: Array
    """What steps of h add to them, (n_p,); see ``OnlineEstimate.step_errors``."""
    findings: tuple[Finding, ...] = ()
    """On all estimates that follow."""


def smoothed(problem: Problem) -> Problem:
    """The problem in a form that a smoother supports; raises ProblemError if it cannot be smoothed."""
    what = problem.what
    if not problem.rubs_smoothly and any(joint.rubs for joint in problem.model.joints):
        raise ProblemError(f"{what} has friction {problem.friction!r}, which a smoother cannot hold; use 'smooth'")
    if problem.every is not None:
        raise ProblemError(f"{what} has every={problem.every}, but a smoother takes each sample; leave every out")
    for one in (c for c in problem.channels if is_correlated(c) or c.is_adjusted):
        name = "correlation_time" if is_correlated(one) else "jitter or StudentT"
        raise ProblemError(f"{one.sensor.place}: {one.signal!r} has {name}; a smoother takes white normal noise only")
    if problem.is_hard:
        raise ProblemError(f"{what} has estimator 'hard', whose errors need whole recordings; use 'noise'")
    if problem.constraints:
        raise ProblemError(
            f"{problem.constraints[0].place}: constraint {problem.constraints[0].name!r} relates parameters, which a "
            "smoother cannot hold; leave it out, or write one parameter by the others"
        )
    unequal = next((residual for residual in problem.residuals if residual.kind == "inequality"), None)
    if unequal is not None:
        raise ProblemError(
            f"{unequal.place}: Residual {unequal.name!r} is an inequality, which a smoother cannot hold; leave it out"
        )
    band = next((one.signal for one in problem.model.inputs if one.hold == "band"), None)
    if band is not None:
        raise ProblemError(
            f"{what}: input {band!r} has hold 'band', for which a smoother would need later samples; use 'linear'"
        )
    for contact in problem.model.holding.contacts:
        raise ProblemError(f"{contact.what}: a smoother has no contacts that hold; fit recordings with them")
    repeated = next((residual for residual in problem.residuals if residual.is_repeated), None)
    if repeated is not None:
        raise ProblemError(
            f"{repeated.place}: Residual {repeated.name!r} is made of data that other rows have too, of which a "
            "smoother would be too sure; leave it out"
        )
    check_stepper(problem)
    return problem.with_(friction="smooth", estimator="noise", step_correction=False)


def from_solution(problem: Problem, known: object, corrects: bool) -> Initialization:
    """Initialize a smoother with states, parameters and noise of a batch fit of the problem's recording.

    Args:
        problem: as it is smoothed.
        corrects: True to subtract the discretization error from the estimates. Noise is then that of steps of h, whose
            process noise contains this error.

    Raises:
        ProblemError: for a problem that has another number of recordings than one, or a solution that is none of it.
    """
    what = problem.what
    if not isinstance(known, Solution):
        raise ProblemError(f"{what}: start is {shown(known)}; give a Solution of the problem")
    if len(problem.recordings) != 1:
        raise ProblemError(
            f"{what} has {len(problem.recordings)} recordings, and a stream continues from one; give "
            "problem.with_(recordings=[...]) with that one, and its solution"
        )
    delays = {name: known.values[name] for name in free_delays(problem) if name in known.values}
    problem, warm = starting_from(
        at_widths(problem, widths_of(known)).with_(initial={**problem.initial, **delays}), known
    )
    of_noise = list[Finding]()
    if corrects and without_outliers(problem) is problem:
        warm, of_noise = _noise_of_steps(problem, known.values, warm)
    warm = warm and warm.changed(noise=_with_absorbed(warm.noise, known.noise))
    found = fit(problem, LevenbergMarquardt(), None, Start(warm, hold=True))
    if found.outcome.status in (Status.DIVERGED, Status.STALLED):
        raise ProblemError(f"{what}: no fit continues from start ({found.outcome.detail}); solve the problem again")
    assembly = found.assembly
    (sampled,), (states,) = assembly.sampled, found.point.states
    observed = _roomier(assembly)
    numbers = with_least_noise(assembly, found.point).tolist()
    given = [replace(c, value=v) for c, v in zip(assembly.transcription.given, numbers, strict=True)]
    endless = without_end(problem, assembly.settings, given, observed)
    start, parameters = sampled.grid.start, found.point.parameters
    step_errors, of_steps = _step_errors(found) if corrects else (np.zeros(len(parameters)), [])
    first = sampled.recording, start, states, parameters
    findings = (*_unfinished(found), *of_noise, *of_steps)
    return Initialization(problem, assembly.settings, endless, observed, *first, step_errors, findings)


def _unfinished(found: Fit) -> list[Finding]:
    """One if the fit of the first seconds has not converged."""
    if found.outcome.status is Status.CONVERGED:
        return []
    effect = (
        f"The initial fit did not converge ({found.outcome.detail}): its estimates and noise standard deviations, "
        "which the smoother uses, may be wrong."
    )
    return [Finding("start.not-converged", effect=effect, advice="Solve the problem again with more iterations.")]


def _noise_of_steps(
    problem: Problem, estimates: Mapping[str, float], warm: Solution | None
) -> tuple[Solution | None, list[Finding]]:
    """A fit with the noise that steps of h have at estimates of continuous time, and a finding if there is none.

    What the steps add looks like a disturbance then. If the parameters were free they would hide it for a while, and
    what is told of them later on would be far too sure.

    Args:
        warm: where it begins.
    """
    if warm is not None and all(noise.given for noise in warm.noise):
        return warm, []
    values = {p.name: estimates[p.name] for p in problem.free if np.isfinite(estimates.get(p.name, np.nan))}
    held = problem.with_(fixed={*problem.fixed, *values}, initial={**problem.initial, **values})
    start = None if warm is None else warm.changed(noise=())  # from a disturbance of next to nothing none is found
    found = fit(held, LevenbergMarquardt(), None, Start(start))
    if found.outcome.status is Status.CONVERGED:
        return found.result, []
    told = f"The effect of the step h = {problem.step:g} s on the noise levels is unknown ({found.outcome.detail})"
    effect = f"{told}: standard errors may be too small; a smaller step reduces this effect."
    return warm, [Finding("noise.step-unknown", (), {"step": problem.step}, effect)]


def _with_absorbed(noise: Sequence[Noise], known: Sequence[Noise]) -> tuple[Noise, ...]:
    """Process noise with the part of it that the parameters of a fit have absorbed.

    The noise of a few seconds is often at its maximum where parameters replace it, even at zero. A smoother keeps it
    for all data that follow, and would be far too sure.

    Args:
        noise: at the parameters of the fit.
        known: of the fit.
    """
    absorbed = {name: (one.likely**2 - 1) * one.density**2 for one in known for name in one.names}
    found = list[Noise]()
    for one in noise:
        more = float(np.mean([absorbed.get(name, 0.0) for name in one.names])) if one.density > 0 else 0.0
        ratio = math.sqrt(1 + more / one.density**2) if more > 0 else 1.0
        found.append(replace(one, std=one.std * ratio, density=one.density * ratio))
    return tuple(found)


def _step_errors(found: Fit) -> tuple[Array, list[Finding]]:
    """What steps of h add, from a fit with h/2 and the same noise, and a finding if it is not known."""
    problem = found.assembly.problem
    fine = fit(finer(problem), LevenbergMarquardt(), None, Start(found.result, hold=True, held=pinned(found)))
    if fine.outcome.status is not Status.CONVERGED:
        return np.zeros(len(found.point.parameters)), [missed(problem.step)]
    return step_added(found, fine), []


def from_guess(problem: Problem, recording: Recording, constants: Array | None = None) -> Initialization:
    """Initialize a smoother at the initial values. ``constants``: numbers of noise, friction widths and others; None:
    the declared noise."""
    problem = problem.with_(recordings=[recording])
    assembly = assemble(problem)
    values = assembly.transcription.constants.copy() if constants is None else constants
    for size in assembly.noise if constants is None else ():
        assert size.given is not None
        values[list(size.places)] = size.given * (np.sqrt(problem.step) if size.kind == "disturbance" else 1.0)
    given = [replace(c, value=v) for c, v in zip(assembly.constants, values.tolist(), strict=True)]
    (sampled,), (states,) = assembly.sampled, assembly.start.states
    observed = _roomier(assembly)
    endless = without_end(problem, assembly.settings, given, observed)
    first = sampled.recording, sampled.grid.start, states, assembly.start.parameters
    return Initialization(problem, assembly.settings, endless, observed, *first, np.zeros(len(problem.free)))


def check_noise(problem: Problem) -> None:
    """Raise ProblemError if some noise or friction width is neither declared nor known."""
    settings, none = settings_of(problem), np.zeros(len(problem.model.freedoms))
    noise = sizes(problem, settings, numbers(problem, settings, none)) if problem.estimates_noise else ()
    unknown = [name for size in noise if not size.given for name in size.names]
    what = problem.what
    if unknown:
        raise ProblemError(
            f"{what} does not declare the noise of {unknown[0]!r}; give the smoother start=, a solution of the first "
            "seconds, or declare sigma of each sensor and process noise of each joint"
        )
    if problem.friction_width is None and any(joint.rubs for joint in problem.model.joints):
        raise ProblemError(
            f"{what} has dry friction, whose width follows from a motion; give it a friction_width, or the smoother "
            "start=, a solution of the first seconds"
        )


def without_end(
    problem: Problem, settings: Settings, constants: Sequence[Constant], observed: Sequence[Observed]
) -> Transcription:
    """Return the transcription for a recording without an end, with given numbers."""
    name = problem.recordings[0].name if problem.recordings else "stream"
    chain = Chain(name, _ENDLESS, {}, {}, problem.parameter_set.chosen(0))
    return transcribed(problem, all_factors(problem, settings, observed), constants, [chain])


def _roomier(assembly: Assembly) -> tuple[Observed, ...]:
    """With room for more samples of each channel between two steps than the first have: clocks jitter, and drift."""
    return layout(assembly.problem, [sampled.samples for sampled in assembly.sampled], spare=1)


_MOST = 1e7
"""Slopes of equations of motion over those of sensors, at the most: half of the digits are left."""


def with_least_noise(assembly: Assembly, point: Point) -> Array:
    """Constants with enough process noise to keep the equations well-conditioned. ``point``: where derivatives are
    evaluated."""
    problem, numbers = assembly.transcription, assembly.transcription.constants.copy()
    largest: dict[str, float] = {}
    sensors = 0.0
    for factor in problem.factors:
        if factor.group is Group.PRIOR or factor.hard:
            continue
        slopes = np.abs(problem.linearize_factor(factor, point, 0).matrix[:, : -1 - len(problem.names), :])
        of_rows = np.max(slopes, axis=(0, 1), where=np.isfinite(slopes), initial=0.0).tolist()
        if factor.group is Group.OBSERVATION:
            sensors = max([sensors, *of_rows])
        for name, slope in zip(factor.noise, of_rows, strict=False):
            largest[name] = max(slope, largest.get(name, 0.0))
    for size in assembly.noise if sensors > 0 else ():
        if size.kind == "disturbance":
            excess = max((largest.get(name, 0.0) for name in size.keys), default=0.0) / (_MOST * sensors)
            numbers[list(size.places)] *= max(excess, 1.0)
    return numbers
