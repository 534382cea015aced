"""Trials with other sensor settings, if a fit is doubtful: the problem is solved again with them.

If a given sigma is too small, the motion follows the sensor noise, and the large process noise hides the forces; if it
is too large, it hides information of the sensors. The gradient of the likelihood in sigma shows the error, and a fit
with estimated sigma finds the value. If that fit still has warnings, these name the cause.

If one sensor lags by a few milliseconds behind another, the process noise of a stiff mechanism exceeds all forces, and
the estimates are too wrong to show the lag. The problem is therefore solved again from its initial values, with a delay
and an offset of each sensor as Parameters.

Noise of sensors that is correlated in time is recognized by its likelihood against white noise. It is tried if white
process noise is rejected, with a correlation time of each sensor as one more unknown. Standard errors of the estimates
assume the estimated correlation times, because both are nearly independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import casadi as ca
import numpy as np

from spookid.assembly.correlated import interval, is_correlated
from spookid.assembly.declared import measured_channels
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel, Sensor, order
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.suspects import trial, varied
from spookid.estimation.work import Work
from spookid.kernels.scipy_parts import special
from spookid.parameter import Parameter, is_constant
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.solvers.status import Status
from spookid.statistics.whiteness import FALSE_ALARMS, OFF, SURE, limit
from spookid.tables.table import quantity

Solve = Callable[[Problem], Solution]
"""A problem from its initial values."""
_UNEXPLAINED = "motion.unexplained"
NOT_WHITE = {"residuals.autocorrelated", "residuals.no-effect"}


def given_noise_findings(problem: Problem, result: Solution, solve: Solve, factor: float = 1.25) -> Iterator[Finding]:
    """Warning about sensors whose given sigma is wrong by a large factor, if another sigma explains the data."""
    off = refuted(problem, result)
    if not off or result.status is Status.INTERRUPTED:
        return
    freed = [varied(sensor, sigma=None) if off & set(sensor.signals) else sensor for sensor in problem.observations]
    found = solve(trial(problem, freed))
    if found.status is not Status.CONVERGED or any(finding.doubts for finding in found.findings):
        return
    units = {channel.signal: channel.unit for channel in problem.channels}
    before, after = ({n.names[0]: n.std for n in one.noise if n.kind == "sensor"} for one in (result, found))
    others = {
        name: std
        for name, std in after.items()
        if name in off and std > 0 and abs(math.log(std / before[name])) > math.log(factor)
    }
    words = [f"{n} {quantity(std, units[n], 2)}, sigma={before[n]:g} was given" for n, std in others.items()]
    if others:
        evidence = {name: {"sigma": before[name], "estimate": std} for name, std in others.items()}
        said = "The given noise differs from the noise in the data, which the model explains with"
        advice = "Correct sigma, or remove it to estimate the noise."
        yield Finding("noise.given-refuted", tuple(others), evidence, f"{said} {'; '.join(words)}.", advice=advice)


def refuted(problem: Problem, result: Solution) -> set[str]:
    """Signals whose given sigma the likelihood's gradient rejects; quaternions are not tested, because their components
    are not independent."""
    bound = {channel.signal for channel in problem.channels if channel.sensor.either_sign}
    given = [one for one in result.noise if one.kind == "sensor" and one.given and one.names[0] not in bound]
    return {one.names[0] for one in given if abs(one.score) > limit(len(given))}


@dataclass(frozen=True)
class _Trial:
    """A Parameter that is added to an argument of a sensor."""

    channel: Channel
    argument: str
    """"delay" or "offset"."""
    parameter: Parameter

    def words(self, size: float) -> str:
        """Text of the delay or offset that was found."""
        if self.argument == "delay":
            late = "late" if size > 0 else "early"
            return f"{self.channel.signal} is {quantity(1e3 * abs(size), 'ms', 2)} {late}"
        return f"{self.channel.signal} is off by {quantity(size, self.channel.unit, 2)}"


def instrument_findings(problem: Problem, result: Solution, solve: Solve) -> Iterator[Finding]:
    """Warning about sensors with delays or offsets, if the model explains the motion with these; only if forces were
    not tested, no minimum was found, or residuals are not noise and no parameter is identified."""
    codes = {finding.code for finding in result.findings}
    doubted = _UNEXPLAINED in codes or (codes & NOT_WHITE and not is_known(result))
    if result.status is Status.INTERRUPTED or (result.status is Status.CONVERGED and not doubted):
        return
    trials = list(_trials(problem))
    if not trials or problem.model.contacts:  # these need samples at the steps, and a search for who touches takes long
        return
    found = solve(trial(problem, [_tried(sensor, trials) for sensor in problem.observations], friction="smooth"))
    if found.status is not Status.CONVERGED or any(finding.code == _UNEXPLAINED for finding in found.findings):
        return
    if told := _clear(trials, found):
        arguments = " and ".join(f"{name}=Parameter(...)" for name in dict.fromkeys(t.argument for t, _ in told))
        evidence = {one.channel.signal: dict[str, float]() for one, _ in told}
        for one, size in told:
            evidence[one.channel.signal][one.argument] = size
        words = ", ".join(one.words(size) for one, size in told)
        effect = f"The model fits the data if each sensor has a delay and an offset: {words}."
        cause = "Do these sensors share a clock, and do they have the model's zero position?"
        advice = f"Give these sensors the arguments {arguments}, or correct the recording."
        yield Finding("sensors.late-or-off", tuple(evidence), evidence, effect, cause, advice)


def _clear(trials: list[_Trial], found: Solution) -> list[tuple[_Trial, float]]:
    """Trials that are clearly not zero, and their sizes if all others are: the least clear is taken for zero again and
    again, for of two sensors that are apart in time either may lag. What explains little beside others is left out."""
    places = [list(found.parameters).index(trial.parameter.name) for trial in trials]
    sizes = np.array([found.parameters[trial.parameter.name].estimate for trial in trials])
    covariance = found.sensitivities.covariance[np.ix_(places, places)]
    left = [i for i in range(len(trials)) if covariance[i, i] > 0]
    while left:
        shares = np.abs(sizes[left]) / np.sqrt(covariance[left, left])
        least = left[int(np.argmin(shares))]
        if np.min(shares) >= max(SURE, 0.1 * float(np.max(shares))):
            break
        left.remove(least)
        follow = covariance[:, least] / covariance[least, least]
        sizes, covariance = sizes - follow * sizes[least], covariance - np.outer(follow, covariance[least])
    return [(trials[i], float(sizes[i])) for i in left]


def is_known(result: Solution) -> bool:
    """True if some free parameter is significantly different from zero."""
    return any(OFF * one.std_err < abs(one.estimate) for one in result.parameters.values() if not one.fixed)


def _trials(problem: Problem) -> Iterator[_Trial]:
    """One for each delay and offset that is a number. Priors as wide as the motion is slow and large keep in place what
    no data tell, such as the delay of all sensors together where nothing drives the mechanism."""
    late = 1 / (2 * math.pi * problem.cutoff)
    for i, channel in enumerate(measured_channels(problem)):
        if is_constant(channel.delay):
            yield _Trial(channel, "delay", Parameter(f"delay_{i}_", 0.0, prior=(0.0, late)))
        spread = max(float(np.std(finite_samples(r, channel.signal)[1])) for r in problem.sample)
        if is_constant(channel.offset) and spread > 0:
            yield _Trial(channel, "offset", Parameter(f"offset_{i}_", 0.0, prior=(0.0, spread)))


def _tried(sensor: Sensor, trials: list[_Trial]) -> Sensor:
    added = {}
    for argument in ("delay", "offset"):
        own = {t.channel.index: t.parameter for t in trials if t.channel.sensor is sensor and t.argument == argument}
        if own:
            values = [value + own[i] if i in own else value for i, value in enumerate(sensor.each(argument))]
            added[argument] = ca.vertcat(*values) if len(values) > 1 else values[0]
    return varied(sensor, **added)


_ONCE = math.log(20)
"""Sample intervals over the least correlation time that is sought: neighbours are correlated by 5 % then."""


@dataclass(frozen=True, eq=False)
class Correlated:
    """Correlation times of measurement noise that are more likely than white noise."""

    times: Mapping[str, float]
    """By signal [s]."""
    gain: float
    """Of the log-likelihood over white noise."""
    counted: tuple[str, ...] = ()
    """Signals of which rounding to counts is most of the noise."""

    @property
    def words(self) -> str:
        """What was found."""
        parts = [f"{signal} over {1000 * tau:.3g} ms" for signal, tau in self.times.items()]
        return f"noise of {', '.join(parts)}"

    @property
    def finding(self) -> Finding:
        """What a user should know."""
        evidence = {"correlation_times": dict(self.times), "log_likelihood": self.gain}
        several = "sensors" if len(self.times) > 1 else "the sensor"
        listed = ", ".join(f"signal {signal} over {1000 * tau:.3g} ms" for signal, tau in self.times.items())
        effect = f"The noise of {several} is autocorrelated: {listed} (log-likelihood {self.gain:+.0f})."
        least = min(self.times.values())
        advice = f"Give the sensor correlation_time={least:.2g}, or a Parameter to estimate this time."
        cause = "Rounding is autocorrelated if a signal moves by less than a count between samples"
        cause = f"{cause}, and is most of the noise of {', '.join(self.counted)}." if self.counted else ""
        return Finding("noise.correlated", tuple(self.times), evidence, effect, cause=cause, advice=advice)


def correlated_noise(work: Work, white: Fit) -> tuple[Correlated | None, Fit]:
    """Correlation times that make the data more likely than white noise, if any do, and the fit that was made to find
    them, or the fit with white noise."""
    problem, intervals = white.assembly.problem, dict(_candidates(white))
    if not intervals:
        return None, white
    sought = {
        sensor: Parameter(f"correlation_time_{i}", 3 * dt, lower=dt / _ONCE, unit="s")
        for i, (sensor, dt) in enumerate(intervals.items())
    }
    sensors = [varied(s, correlation_time=sought[s]) if s in sought else s for s in problem.observations]
    try:
        fit = work.run(trial(problem, sensors, estimator="noise"), Start(white.result), white)
    except ProblemError:  # the stepper, or the distance of samples, lets no noise be correlated
        return None, white
    gain = (fit.result.log_likelihood or math.nan) - (white.result.log_likelihood or math.nan)
    if fit.result.status is not Status.CONVERGED or not gain > float(special.chdtri(len(sought), FALSE_ALARMS)) / 2:
        return None, fit
    times = {}
    for sensor, dt in intervals.items():
        tau = fit.result[sought[sensor].name]
        if tau.estimate**2 > SURE * dt * tau.std_err:  # errors by which the correlation, exp(−Δt/τ), is not zero
            times.update(dict.fromkeys(sensor.signals, tau.estimate))
    rounded = {n.names[0] for n in white.result.noise if n.kind == "sensor" and n.resolution**2 / 12 > n.std**2 / 2}
    return (Correlated(times, gain, tuple(name for name in times if name in rounded)) if times else None), fit


def with_correlation(problem: Problem, times: Mapping[str, float]) -> Problem:
    """Problem with sensors whose noise has these correlation times, by signal [s]."""
    if not times:
        return problem
    sensors = [
        varied(s, correlation_time=times[s.signals[0]]) if s.signals[0] in times else s for s in problem.observations
    ]
    return problem.with_(observations=sensors, step=problem.step)


def _candidates(fit: Fit) -> Iterable[tuple[Sensor, float]]:
    """Sensors whose noise is estimated and taken for white, and the usual interval between their samples [s]."""
    problem, sampled = fit.assembly.problem, fit.assembly.sampled
    for i, channel in enumerate(problem.channels):
        plain = channel.index == 0 and channel.sigma is None and not (is_correlated(channel) or channel.is_adjusted)
        dt = interval([one.samples[i] for one in sampled])
        if plain and math.isfinite(dt) and order(channel, problem.model) < 2:
            yield channel.sensor, dt
