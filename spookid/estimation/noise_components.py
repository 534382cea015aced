"""Noise of sensors with heavy tails or uncertain timestamps, as normal noise of adjusted samples.

With e a sample less what the estimated motion predicts, and ẏ the rate of that,

    e ~ t(ν) √v,    v = σ² + (ẏ τ)²,

where σ is the scale of white noise, τ the standard deviation of the timestamps and ν the degrees of freedom, infinite
for normal noise. Two steps alternate until the likelihood converges. First, all of σ, τ and ν that is not given
maximizes the marginal likelihood by Laplace at the motion that was found, with Fisher's information: of a sample with
leverage l it has the logarithms of the density and of (v/c)^(l/2). Second, a fit with normal noise takes samples for

    y + e (w/c − 1),    w = (ν + 1)/(ν + e²/v),    c = (ν + 1)/(ν + 3),

with variance v/c. They have the score of Student's distribution and its Fisher information c/v, so that standard errors
and tests of residuals hold as ever (modified residuals, Huber, Robust Statistics, 1981, section 7.8). Later stages keep
them, which is right to first order in how far these move the motion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from spookid.assembly.correlated import is_correlated
from spookid.assembly.problem import Problem
from spookid.data.channels import Channel
from spookid.data.losses import Loss, StudentT
from spookid.data.recording import Recording
from spookid.data.sampling import ADJUSTED, WEIGHT
from spookid.errors import ProblemError
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.work import Work
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.results.result import Noise, Solution
from spookid.solvers.status import Status
from spookid.statistics.search import SETTLED
from spookid.tables.table import uncertain

_SMALL = 1e-4
"""1/ν below which Student's distribution is the normal one but for terms of its square, and τ relative to what explains
all errors below which it is zero; the least size that is sought over that of all errors; a relative difference."""


class Errors(NamedTuple):
    """Residuals of one channel's samples in one recording, (n,) each."""

    places: Array  # among the recording's timestamps
    errors: Array  # measured less predicted, in the signal's unit
    left: Array  # one less the leverage
    rates: Array  # time derivative of the predicted signal
    rows: Array  # whitened residuals of the fit
    widths: Array  # standard deviations with which they are
    sigma: Array  # that of the sensor in the fit's likelihood


@dataclass(frozen=True, eq=False)
class Distribution:
    """Noise distribution of one channel."""

    scale: float  # σ, in the signal's unit
    jitter: float  # τ [s]
    tail: float  # 1/ν

    def variance(self, rates: Array) -> Array:
        """v."""
        return self.scale**2 + (rates * self.jitter) ** 2

    @property
    def information(self) -> float:
        """c."""
        return (1 + self.tail) / (1 + 3 * self.tail)

    def density(self, squares: Array, variance: Array) -> Array:
        """Logarithm of the probability density of residuals with these squares."""
        y, ratio = self.tail, squares / variance
        if y < _SMALL:
            shape = (-math.log(2 * math.pi) - ratio - y * (1 + 2 * ratio - ratio**2) / 2) / 2
        else:
            constant = special.gammaln((1 + 1 / y) / 2) - special.gammaln(0.5 / y) - math.log(math.pi / y) / 2
            shape = constant - (1 + 1 / y) / 2 * np.log1p(y * ratio)
        return np.asarray(shape - np.log(variance) / 2)

    @property
    def freedom(self) -> float:
        """Degrees of freedom ν, 0 for the normal distribution."""
        return 1 / self.tail if self.tail > _SMALL else 0.0

    def deviations(self, left: Array, rates: Array, free: Mask) -> Array:
        """Standard errors of σ, τ and ν by Fisher's information, (3,), NaN if given or zero, or if ν is infinite."""
        v, slopes = self.variance(rates), np.zeros((3, len(rates)))
        slopes[0], slopes[1] = 2 * self.scale / v, 2 * self.jitter * rates**2 / v  # of log v
        information = (slopes * left) @ slopes.T / (2 * (1 + 3 * self.tail))
        if nu := self.freedom:
            across, own = 1 / ((nu + 1) * (nu + 3)), (nu + 5) / (2 * nu * (nu + 1) * (nu + 3))
            information[2] = information[:, 2] = -across * (slopes @ left)
            a = np.array([nu / 2, (nu + 1) / 2])
            trigammas = (special.psi(a * (1 + _SMALL)) - special.psi(a * (1 - _SMALL))) / (2 * _SMALL * a)
            information[2, 2] = ((trigammas[0] - trigammas[1]) / 4 - own) * np.sum(left)
        free, errors = free & (np.diag(information) > 0), np.full(3, np.nan)
        errors[free] = np.sqrt(np.diag(np.linalg.pinv(information[np.ix_(free, free)])))
        return errors

    def gain(self, of: Errors) -> float:
        """Log-likelihood gain of a fit's residuals against normal noise with the equations' sigma."""
        normal = -(of.rows**2) / 2 - np.log(of.sigma) - math.log(2 * math.pi) / 2
        return float(np.sum(self.density(of.errors**2, self.information * of.widths**2) - normal))

    def adjusted(self, recording: Recording, signal: str, of: Errors, share: float) -> Recording:
        """Recording in which the samples of a signal are adjusted to normal noise, by a share of the change."""
        values, weights, variance = recording.signal(signal).copy(), np.ones(len(recording.t)), self.variance(of.rates)
        kept = (1 + self.tail) / (1 + self.tail * of.errors**2 / variance)
        values[of.places] += of.errors * (kept / self.information - 1)
        weights[of.places] = self.scale * np.sqrt(self.information / variance)
        found = {ADJUSTED.format(signal): values, WEIGHT.format(signal): weights}
        if ADJUSTED.format(signal) in recording.signals:
            found = {name: share * new + (1 - share) * recording.signal(name) for name, new in found.items()}
        return recording.with_signals(**found)


def check_components(problem: Problem, staged: bool) -> None:
    """Raise ProblemError for a problem in which a sensor cannot have such noise; ``staged``: by its contacts, friction
    or inequalities."""
    for channel in (c for c in problem.channels if c.is_adjusted):
        reasons = {
            "needs estimated noise; leave state_weight out": not problem.estimates_noise,
            "needs every sample at its own time; leave every out": problem.every is not None,
            "excludes correlation_time; leave one of them out": is_correlated(channel),
            "is not for quaternions; leave it out": channel.sensor.either_sign,
            "excludes contacts, inequalities and friction that sticks; leave it out": staged,
        }
        what = "jitter" if channel.sensor.jitter != 0 else "loss StudentT"
        for reason in (reason for reason, holds in reasons.items() if holds):
            raise ProblemError(f"{channel.sensor.place}: {channel.signal!r} has {what}; this {reason}")


def errors_of(fit: Fit, i: int) -> tuple[Errors, ...]:
    """Residuals of a channel, given by its number, in each recording."""
    assembly, states, found = fit.assembly, fit.likelihood.states if fit.likelihood else None, []
    channel, sigma, h = assembly.problem.channels[i], assembly.sigmas[i], assembly.problem.step
    residuals = assembly.transcription.residuals(fit.point)
    names = [factor.name for factor in assembly.transcription.factors]
    assert states is not None
    for chain, sampled in enumerate(assembly.sampled):
        own, recording = sampled.samples[i], sampled.recording
        rows, left = np.full((2, len(own.at)), np.nan)
        for one in (one for one in assembly.observed if i in one.channels):
            columns = [j for j, other in enumerate(one.rows) if other == i]
            every = one.reach is not None and one.whole[one.channels.index(i)]
            known = states.recordings[chain].spared(one.name)
            for of, values in ((rows, residuals[chain][names.index(one.name)]), (left, known)):
                seen, shown = own.along(one.reach, every, values[:, columns])
                of[seen] = shown
        states.recordings[chain].release()
        widths = sigma / (np.ones(len(rows)) if own.weights is None else own.weights)
        places = np.searchsorted(recording.t, own.stamps)
        errors = recording.signal(channel.signal)[places] - own.values - rows * widths
        predicted = fit.motion[chain].predicted[:, i]
        if channel.period is not None:
            predicted = np.unwrap(predicted, period=channel.period)
        rates = np.interp(own.at, np.arange(len(predicted)), np.gradient(predicted, h))
        parts, used = (places, errors, left, rates, rows, widths, sigma + 0 * rows), np.isfinite(rows) & (left > 0)
        found.append(Errors(*(part[used] for part in parts)))
    return tuple(found)


def most_likely(
    channel: Channel, errors: Sequence[Errors], floor: float, loss: Loss | None = None
) -> tuple[Distribution, Array, float]:
    """Most likely noise distribution for given parameters of it and σ at least at its lower limit, with standard errors
    of σ, τ and ν, (3,), and its log-likelihood; by default with the loss of the channel."""
    from scipy.optimize import minimize  # slow to load, and few ask for it

    squares, left, rates = np.hstack([(one.errors**2, one.left, one.rates) for one in errors])
    size = math.sqrt(float(np.sum(squares) / np.sum(left))) or 1.0
    units = np.array([size, size / (math.sqrt(float(np.mean(rates**2))) or 1.0), 1.0])
    loss = loss or channel.loss
    freedom = loss.freedom if isinstance(loss, StudentT) else math.inf
    known = channel.sigma, channel.sensor.jitter, None if freedom is None else 1 / freedom
    given = [None if one is None else float(one / unit) for one, unit in zip(known, units, strict=True)]

    def distribution(x: Array) -> Distribution:
        return Distribution(*(units * x).tolist())

    def cost(x: Array) -> float:
        one = distribution(x)
        v = one.variance(rates)
        states = (1 - left) @ np.log(v / one.information) / 2  # of the determinant of the information in the states
        return -float(np.sum(one.density(squares, v)) + states)

    most = 1 / _SMALL
    limits = ((max(floor / size, _SMALL), most), (0.0, most), (0.0, 1.0))
    bounds = [limit if one is None else (one, one) for one, limit in zip(given, limits, strict=True)]
    start = [begun if one is None else one for one, begun in zip(given, (0.6, 0.6, 0.3), strict=True)]
    ended = minimize(cost, start, method="L-BFGS-B", bounds=bounds, options={"ftol": SETTLED**3})
    free = np.array([one is None for one in given])
    found = distribution(np.where(free & (ended.x < _SMALL), 0.0, ended.x))
    return found, found.deviations(left, rates, free), -float(ended.fun)


def tails(fit: Fit, signal: str, far: Array) -> tuple[float, float]:
    """Degrees of freedom of Student's distribution of all samples, and its log-likelihood over that of normal noise.
    Normal noise has a share of outliers, by so much ``far`` from the motion and equally likely in all of the sensor's
    range. Both are of the motion without outliers, which is not the best one for Student's."""
    channels = [channel.signal for channel in fit.assembly.problem.channels]
    place = channels.index(signal)
    channel, ones = fit.assembly.problem.channels[place], np.ones(len(far))
    kept = errors_of(fit, place)
    left_out = Errors(0 * far, far, ones, 0 * far, far, ones, ones)  # they have no leverage
    shown = np.hstack([e.recording.signal(signal) for e in fit.assembly.sampled])
    reach = max(float(np.ptp(shown[np.isfinite(shown)])), float(np.max(np.abs(far))))
    floor = next(size.floor for size in fit.assembly.noise if size.kind == "sensor" and signal in size.names)
    normal = most_likely(channel, kept, floor, "linear")[2]
    heavy, _, likelihood = most_likely(channel, [*kept, left_out], floor, StudentT())
    count = sum(len(one.errors) for one in kept)
    share = len(far) / (count + len(far))
    return heavy.freedom, likelihood - normal - count * math.log1p(-share) - len(far) * math.log(share / reach)


def with_components(work: Work, first: Fit) -> Fit:
    """Fit with noise models for sensors whose samples are not normal with equal variances."""
    problem, fit, before = first.assembly.problem, first, math.nan
    own = [i for i, channel in enumerate(problem.channels) if channel.is_adjusted]
    floors = {size.names[0]: size.floor for size in first.assembly.noise if size.kind == "sensor"}
    found, more = dict[int, tuple[Distribution, Array, float]](), 0.0
    share = 1.0
    for _ in range(work.solver.max_iterations):
        if fit.outcome.status is not Status.CONVERGED or fit.likelihood is None:
            break
        errors = {i: errors_of(fit, i) for i in own}
        more = sum(found[i][0].gain(of) for i in found for of in errors[i])
        if abs(fit.result.log_likelihood + more - before) <= SETTLED:
            break
        if fit.result.log_likelihood + more < before:  # steps go to and fro
            share /= 2
        before = fit.result.log_likelihood + more
        found = {i: most_likely(problem.channels[i], errors[i], floors[problem.channels[i].signal]) for i in own}
        recordings = list(fit.assembly.problem.recordings)
        for i, (one, *_) in found.items():
            pairs = zip(recordings, errors[i], strict=True)
            recordings = [one.adjusted(recording, problem.channels[i].signal, of, share) for recording, of in pairs]
        fit = work.run(problem.with_(recordings=recordings, step=problem.step), Start(fit.result, hold=work.hold), fit)
    if found:
        work.problem, told = fit.assembly.problem, {problem.channels[i].signal: one for i, one in found.items()}
        work.remarks.append(partial(_with_components, told, more))
    return fit


def _with_components(
    found: Mapping[str, tuple[Distribution, Array, float]], more: float, solution: Solution
) -> Solution:
    def told(noise: Noise) -> Noise:
        one = found[noise.names[0]][0] if noise.kind == "sensor" and noise.names[0] in found else None
        return noise if one is None else replace(noise, std=one.scale, jitter=one.jitter, freedom=one.freedom)

    remarks = [_finding(signal, one, errors) for signal, (one, errors, _) in found.items()]
    known = solution.changed(noise=tuple(map(told, solution.noise)), log_likelihood=solution.log_likelihood + more)
    return known.with_findings(lambda: remarks)


def _finding(signal: str, one: Distribution, errors: Array) -> Finding:
    """What was found of a sensor."""
    words, evidence = [], {"jitter": one.jitter, "freedom": one.freedom}
    if one.jitter:
        words.append(f"Timestamps of {signal} have errors {uncertain(1000 * one.jitter, 1000 * errors[1])} ms (rms).")
    if one.freedom:
        freedom = uncertain(one.freedom, errors[2])
        words.append(f"The noise of {signal} has Student's t-distribution with {freedom} degrees of freedom.")
    text = " ".join(words) or f"The noise of {signal} is normal: no jitter and no heavy tails were found."
    return Finding("noise.distribution", (signal,), evidence, text)
