"""By how much inputs act later than their stamps say, and how well a motion tells it.

All inputs of a log share a clock, so that one lag τ is estimated for all rows of the balance of forces together, beside
the parameters: least squares, weighted by what each direction leaves as it is given, as at the null hypothesis. What a
model lacks is no white noise. The variance of τ therefore follows from sums of scores over blocks of time that tell
equally much (Ibragimov, Müller, Journal of Business and Economic Statistics 28, 2010), and the ratio of likelihoods is
corrected by it (Kent, Biometrika 69, 1982). Where what the model lacks lasts longer than a block, errors are too small.

Whether clocks and zeros of sensors explain a motion that forces do not.

A sensor that lags by a few milliseconds behind another makes the noise of a mechanism of springs or chains larger than
all that acts in it, and what is estimated then is no mechanics from which a lag could be told. So the problem is solved
once more, from its guesses, with a delay and an offset of each sensor among its Parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace

import casadi as ca
import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.channels import Channel, Sensor
from spookid.data.sampling import finite_samples
from spookid.estimation.explained import Efforts
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.parameter import Parameter, is_constant
from spookid.records import dataclass
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.solvers.status import Status
from spookid.tables.table import quantity

_BLOCKS = 16
_LEVEL = 1e-3
"""Of the test of no lag."""
_WEIGHINGS = 3
_SINGULAR = 1e-6
"""Share of the largest singular value below which parameters are not told apart."""


@dataclass(frozen=True)
class InputLag:
    """A lag for which the squares are least."""

    late: float
    """[s]; negative if inputs act sooner than their stamps say."""
    error: float
    """Its standard error [s]."""
    gain: float
    """By what the likelihood rises: twice its logarithm, corrected for what the model lacks."""
    blocks: int
    """From which that is known."""

    @property
    def is_clear(self) -> bool:
        """True if it is told from none both by its error and by the likelihood, which differ where inputs jump."""
        most = special.stdtrit(self.blocks - 1, 1 - _LEVEL / 2)
        return bool(min(abs(self.late) / self.error, math.sqrt(max(self.gain, 0.0))) > most)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows (N, m) around the parameters that leave least, weighted, without what parameters near these explain."""

    efforts: Efforts
    weights: Array
    """(m,)."""
    basis: Array
    """Orthonormal, of what parameters explain, (N m, rank)."""

    @classmethod
    def of(cls, efforts: Efforts, slopes: Array, weights: Array) -> _Rows:
        count, m, n = slopes.shape
        matrix = (slopes / weights[:, None]).reshape(count * m, n)
        sizes = np.linalg.norm(matrix, axis=0)
        directions, values, _ = np.linalg.svd(matrix / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
        return cls(efforts, weights, directions[:, values > _SINGULAR * np.max(values, initial=0.0)])

    def left(self, *lags: float) -> Array:
        """What is left with inputs that act later, (lags, N, m)."""
        balance, at = self.efforts.balance, self.efforts.nearest
        return self._without(np.array([balance.left(self.efforts.delayed(late), at) for late in lags]))

    def slope(self, late: float, apart: float) -> Array:
        """What is left of its slope with the lag."""
        balance, at = self.efforts.balance, self.efforts.nearest
        later, sooner = (balance.left(self.efforts.delayed(late + d), at) for d in (apart, -apart))
        return np.asarray(self._without((later - sooner)[None] / (2 * apart))[0])

    def _without(self, values: Array) -> Array:
        rows = (values / self.weights).reshape(len(values), -1)
        return np.asarray(rows - (rows @ self.basis) @ self.basis.T).reshape(values.shape)


def input_lag(efforts: Efforts) -> InputLag | None:
    """The lag of all inputs of a recording, up to a period of the cutoff; None if its motion tells none of half a step
    of the balance or more."""
    rows, step = _weighted(efforts), efforts.step
    most = math.floor(1 / efforts.balance.problem.cutoff / step + 1e-9)
    lags = step * np.arange(-most, most + 1)  # whole steps: what is interpolated is smaller, and would leave less
    candidates = rows.left(*lags)
    squares = np.sum(candidates**2, axis=(1, 2))
    least = int(np.argmin(squares))
    if least in (0, most, 2 * most):
        return None
    left, slope = candidates[least], rows.slope(lags[least], step)
    told = np.sum(slope**2, axis=1)
    if (whole := float(told.sum())) == 0:
        return None
    more = -float(np.sum(slope * left)) / whole
    begins = np.unique(np.searchsorted(np.cumsum(told), np.arange(_BLOCKS) * whole / _BLOCKS))
    scores = np.add.reduceat(np.sum(slope * (left + more * slope), axis=1), begins)
    if (variance := float(np.sum(scores**2)) * len(begins) / max(len(begins) - 1, 1)) == 0:
        return None
    gain = float(squares[most] - squares[least]) * whole / variance
    return InputLag(lags[least] + float(np.clip(more, -step, step)), math.sqrt(variance) / whole, gain, len(begins))


def _weighted(efforts: Efforts) -> _Rows:
    """Weights by what is left without a lag. Gains are held: with them all others might vanish together."""
    balance, at = efforts.balance, efforts.nearest
    slopes = balance.rows(efforts, at)[1]
    still = balance.rows(replace(efforts, samples=0 * efforts.samples), at)[1]
    slopes = slopes[:, :, np.all(slopes == still, axis=(0, 1))]
    parts = weights = efforts.parts(at)
    for _ in range(_WEIGHINGS):
        left = _Rows.of(efforts, slopes, weights).left(0.0)[0]
        weights = np.maximum(weights * np.sqrt(np.mean(left**2, axis=0)), _SINGULAR * parts)
    return _Rows.of(efforts, slopes, weights)


_UNEXPLAINED = "motion.unexplained"
_CLEAR = 3.0
"""Standard errors from which on a delay or an offset is told."""
_ROUGHLY = 0.3
"""Standard error, as a share of the estimate, above which a parameter counts as not identified."""
_LITTLE = 0.1
"""Share of the most standard errors below which it is not: a hundredth of the likelihood's gain."""


@dataclass(frozen=True)
class _Trial:
    """A Parameter that is added to an argument of a sensor."""

    channel: Channel
    argument: str
    """"delay" or "offset"."""
    parameter: Parameter

    def words(self, size: float) -> str:
        """Of what it is found to be."""
        if self.argument == "delay":
            late = "late" if size > 0 else "early"
            return f"{self.channel.signal} is {quantity(1e3 * abs(size), 'ms', 2)} {late}"
        return f"{self.channel.signal} is off by {quantity(size, self.channel.unit, 2)}"


def instrument_findings(
    problem: Problem, result: Solution, solve: Callable[[Problem], Solution]
) -> Iterator[Finding]:
    """Yield one that names sensors which lag or are off.

    The problem is solved again if the forces do not explain the motion, if no minimum was found, or if residuals are
    not noise and no parameter is identified. It follows if that solve explains the motion.

    Args:
        result: of the problem.
        solve: a problem from its guesses.
    """
    codes = {finding.code for finding in result.findings}
    doubted = _UNEXPLAINED in codes or ("residuals.autocorrelated" in codes and not _known(result))
    if result.status is Status.INTERRUPTED or (result.status is Status.CONVERGED and not doubted):
        return
    trials = list(_trials(problem))
    if not trials:
        return
    tried = [_tried(sensor, trials) for sensor in problem.observations]
    found = solve(problem.with_(observations=tried, step=problem.step, step_correction=False, friction="smooth"))
    if found.status is not Status.CONVERGED or any(finding.code == _UNEXPLAINED for finding in found.findings):
        return
    told = _clear(trials, found)
    if told:
        arguments = " and ".join(f"{name}=Parameter(...)" for name in dict.fromkeys(t.argument for t, _ in told))
        evidence = {trial.channel.signal: dict[str, float]() for trial, _ in told}
        for trial, size in told:
            evidence[trial.channel.signal][trial.argument] = size
        words = ", ".join(trial.words(size) for trial, size in told)
        effect = f"With a delay and an offset of each sensor the model explains the motion: {words}."
        cause = "Do these sensors share a clock, and is zero where the model has it?"
        advice = f"Give them {arguments}, or correct the recording."
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
        if np.min(shares) >= max(_CLEAR, _LITTLE * float(np.max(shares))):
            break
        left.remove(least)
        follow = covariance[:, least] / covariance[least, least]
        sizes, covariance = sizes - follow * sizes[least], covariance - np.outer(follow, covariance[least])
    return [(trials[i], float(sizes[i])) for i in left]


def _known(result: Solution) -> bool:
    """True if some free parameter is known to better than a share of its estimate."""
    free = [estimate for estimate in result.parameters.values() if not estimate.fixed]
    return any(estimate.std_err < _ROUGHLY * abs(estimate.estimate) for estimate in free)


def _trials(problem: Problem) -> Iterator[_Trial]:
    """One for each delay and offset that is a number. Priors as wide as the motion is slow and large keep in place what
    no data tell, such as the delay of all sensors together where nothing drives the mechanism."""
    late = 1 / (2 * math.pi * problem.cutoff)
    for i, channel in enumerate(problem.channels):
        if is_constant(channel.delay):
            yield _Trial(channel, "delay", Parameter(f"delay_{i}_", 0.0, prior=(0.0, late)))
        spread = max(float(np.std(finite_samples(r, channel.signal)[1])) for r in problem.sample)
        if is_constant(channel.offset) and spread > 0:
            yield _Trial(channel, "offset", Parameter(f"offset_{i}_", 0.0, prior=(0.0, spread)))


def _tried(sensor: Sensor, trials: list[_Trial]) -> Sensor:
    other = copy(sensor)
    for argument in ("delay", "offset"):
        own = {t.channel.index: t.parameter for t in trials if t.channel.sensor is sensor and t.argument == argument}
        each = sensor.each(argument)
        added = [value + own[i] if i in own else value for i, value in enumerate(each)]
        if own:
            object.__setattr__(other, argument, ca.vertcat(*added) if len(added) > 1 else added[0])
    return other
