"""Noise of sensors that is correlated in time, recognized by its likelihood against white noise.

It is tried if white process noise is rejected, with a correlation time of each sensor as one more unknown. Standard
errors of the estimates assume the estimated correlation times, because both are nearly independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from spookid.assembly.correlated import interval, is_correlated
from spookid.assembly.problem import Problem
from spookid.data.channels import Sensor, order
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.suspects import trial, varied
from spookid.estimation.work import Work
from spookid.kernels.scipy_parts import special
from spookid.parameter import Parameter
from spookid.records import dataclass
from spookid.results.findings import SURE, Finding
from spookid.solvers.status import Status
from spookid.statistics.whiteness import FALSE_ALARMS

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
        cause = f"Rounding to counts is most of the noise of {', '.join(self.counted)}: it is correlated if a signal "
        cause = f"{cause}moves by less than a count between samples." if self.counted else ""
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
