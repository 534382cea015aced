"""Tests of residuals: autocorrelation of each noise, and heavy tails, which outliers or a long time step cause.

Residuals of a fit are not white even if the noise is, because r̂ = P r with a projection P. The expected sum

    Σ_k r̂_k r̂_{k+l}

over the residuals of one noise is found from random draws of r. It is the gradient of the likelihood in the correlation
of that noise at lag l. Because the noise standard deviations were fitted, the part that the sums of squares of the
draws explain is subtracted; for a given standard deviation that differs from the residuals, the draws have that of the
residuals. An autocorrelated model error increases the sum. So does discretization error, which is proportional to h² in
the residuals and to h⁴ in the sum at a fixed lag in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.solvers.rows import Columns, LinearizedFactor
from spookid.statistics.condensing import Condensed
from spookid.statistics.reweighting import change_if_weighted
from spookid.tables.table import counted
from spookid.transcription.factor import Group, measured_noise

FALSE_ALARMS = 0.01
"""Probability of one or more on data that the model fits."""
_FAMILIES = 4
"""Tails, alternatives, recordings, whiteness: each may raise so large a part of the false alarms."""
SURE = 3.0
"""Smallest difference that a finding reports [standard errors]."""
OFF = 5.0
"""Standard deviations from which on a sample, a sensor, or a sum of squares is off, and no chance."""
MISSING = "missing or too much"
"""In words of an alternative: one of both is said, by the sign of its size."""
_GROWS = 4.0
"""Factor by which a step twice as long makes the fourth power of what it does not predict larger at the least; that of
h² grows by 256."""


@dataclass(frozen=True, eq=False)
class Misfit:
    """Model error that the residuals indicate."""

    words: str
    z: float
    """Standard errors."""
    change: Array
    """Of the parameters to first order if the model had it, (n_p,)."""
    rival: str = ""
    """Another cause that explains at least half of the same effect; empty if there is none."""
    unfollowed: float = 0.0
    """Variance that samples between steps have beside noise, over that of noise, where the step is too long."""
    narrower: Array | float = 1.0
    """Standard errors of the parameters if the model had it, over those without, to first order, (n_p,)."""


def said(words: str, unit: str, size: float) -> str:
    """Text with the size of the error, times in milliseconds and shares in percent, and its effects."""
    if MISSING in words:
        words, size = words.replace(MISSING, "missing" if size > 0 else "too much"), abs(size)
    scale, unit = {"s": (1000, "ms"), "%": (100, "%")}.get(unit, (1, unit))
    return words.replace("{}", f"{scale * size:.2g} {unit}".rstrip())


@dataclass(frozen=True, eq=False)
class Tails:
    """Of a sensor's residuals."""

    signal: str
    count: int
    """How many samples are far off."""
    z: float
    """Standard errors by which their fourth moment is not that of normal noise."""
    fourth: float
    """Mean fourth power of the residuals over the noise that was found."""
    between: bool
    """True if those that are far off lie farther from the steps than the others."""
    change: Array
    """Of the parameters without those that are far off, to first order, (n_p,)."""
    excess: float = 0.0
    """Variance beside that of most residuals, over it."""
    jitter: float = 0.0
    """Standard deviation of timestamps that explains how residuals grow with the rate of what is shown [s]."""
    growth: float = 0.0
    """Standard errors by which their squares do."""

    def are_heavy(self, sensors: int) -> bool:
        """True if this sensor's residuals have heavier tails than normal noise, among so many sensors."""
        return self.count > 0 and abs(self.z) > limit(sensors)

    def misfit(self, coarser: Tails | None) -> Misfit:
        """Outliers or discretization error: with twice the step (``coarser``), outliers stay the same. Without such a
        fit, the position of the samples between the steps decides."""
        by_step = self.between if coarser is None else coarser.fourth > _GROWS * self.fourth
        cause = "is the step too long?" if by_step else "outliers? Heavy tails (StudentT)?"
        how_many = f"{counted(self.count, 'sample')} of {self.signal} {'is' if self.count == 1 else 'are'}"
        words = f"{how_many} more than {OFF:g} times its noise off: {cause}"
        return Misfit(words, self.z, self.change, unfollowed=self.excess if by_step else 0.0)

    def of_jitter(self, sensors: int) -> list[Misfit]:
        """Timestamps that err, if those of this one among so many sensors do. The weights of samples move no estimate
        to first order."""
        if not self.growth > limit(sensors):
            return []
        words = f"residuals of {self.signal} grow with its rate of change: are the timestamps off by {{}} (jitter)?"
        return [Misfit(said(words, "s", self.jitter), self.growth, np.zeros_like(self.change))]


def limit(tests: int) -> float:
    """Critical value, in standard errors, for one of so many two-sided tests of a family."""
    return float(-special.ndtri(FALSE_ALARMS / _FAMILIES / 2 / max(tests, 1)))


def tails_of(
    condensed: Condensed, signal: str, places: Sequence[Mapping[str, Array]], rates: Sequence[Array] = ()
) -> Tails:
    """Heavy tails of a sensor's residuals, by their fourth moment: samples that are farther off than its noise.
    ``rates``: of what it shows at every step of each recording, on which their variance may depend (Koenker, Journal of
    Econometrics 17, 1981); none: that is not tested."""
    e, apart, step = _errors(condensed, places, key := measured_noise(signal))
    if not e.size:  # nothing that is estimated moves what it shows
        return Tails("", 0, 0.0, 0.0, False, np.zeros(len(condensed.inverse)))
    variance, fourth = float(np.mean(e**2)) or 1.0, float(np.mean(e**4))
    z = (fourth / variance**2 - 3) / np.sqrt(24 / len(e))
    width = float(np.median(np.abs(e))) / 0.6745 or 1.0
    far = np.abs(e) > OFF * width
    change = np.zeros(len(condensed.inverse))
    if np.any(far):
        pairs = zip(_each(condensed, condensed.T, key), _each(condensed, condensed.residuals, key), strict=True)
        pull = sum(T.T @ np.where(np.abs(r) > OFF * width, r, 0.0) for T, r in pairs)
        change = condensed.inverse @ np.ravel(pull)
    between = between_steps(apart[far], apart, step[far])
    tails = Tails(signal, int(np.sum(far)), z, fourth, between, change, variance / width**2 - 1)
    if not rates or fourth <= variance**2:
        return tails
    faster = np.concatenate(rates)[step] ** 2
    faster -= np.mean(faster)
    slope, square = float(faster @ e**2), float(faster @ faster) or np.inf
    growth = slope / np.sqrt(square * (fourth - variance**2))
    return replace(tails, jitter=float(np.sqrt(max(slope, 0.0) / square)), growth=float(growth))


def _errors(condensed: Condensed, places: Sequence[Mapping[str, Array]], key: str) -> tuple[Array, Array, Array]:
    """What is left of the samples with this noise, how far each is from the nearest step, in steps, and the number of
    the step that it belongs to, over all recordings, (n,)."""
    errors, apart, steps, first = [], [], [], 0
    known = places or ({},) * len(condensed.linearized.chains)
    for terms, parts, own in zip(condensed.linearized.chains, condensed.residuals, known, strict=True):
        for term, r in zip(terms, parts, strict=True):
            if term.factor.group is Group.OBSERVATION and key in term.factor.noise:
                here = (term.alive > 0) & np.array([name == key for name in term.factor.noise])
                errors.append(r[:, 0][here])
                apart.append(own.get(term.factor.name, np.zeros(here.shape))[here])
                steps.append(first + np.nonzero(here)[0])
        first += terms[0].steps
    return np.concatenate(errors), np.concatenate(apart), np.concatenate(steps)


def between_steps(far: Array, every: Array, steps: Array) -> bool:
    """True if outliers lie farther from the steps than other samples: then they are discretization error rather than
    outliers. Outliers at neighbouring steps count once.

    Args:
        far: distances from the steps of those that are far off, (k,).
        every: of all, (n,).
        steps: to which those that are far off belong, (k,).
    """
    if not far.size:
        return False
    apart = int(np.sum(np.diff(np.unique(steps)) > 1)) + 1
    return bool(float(np.mean(far) - np.mean(every)) * np.sqrt(apart) > limit(1) * float(np.std(every)) > 0)


_LAGS = (1, 4, 16)
"""Rows of one noise."""
_DRAWS, _ENOUGH, _STEPS = 100, 24, 200_000
"""Draws, at most and besides two for each noise at least, and steps that they cover together."""
_ROUNDS, _LIKE = 3, 4.0
"""Draws of other sizes, at the most, and standard deviations by which squares may be off those of draws."""


@dataclass(frozen=True)
class SerialCorrelation:
    """Autocorrelation of the residuals of one noise."""

    noise: str
    lag: int
    correlation: float
    expected: float
    """If it were white."""
    excess: float
    """Of the sum over what white noise would make it, in variances of the noise."""
    width: float
    """Standard deviation of the sum of white noise, in the same."""
    z: float
    """Both in standard errors of a normal distribution."""
    interpolated: bool = False
    """True of a sensor whose samples lie between the steps."""

    @property
    def likely(self) -> float:
        """Correlation ρ of the noise: excess/width², where the linearized score is zero, taken as ρ/√(1 − ρ²)."""
        return math.sin(math.atan(self.excess / self.width**2))

    @property
    def words(self) -> str:
        """Description of the correlation."""
        cause = "an unmodelled effect lasts for several samples"
        if self.interpolated:
            cause += ", or the step is too long for what is between: does it stay with half of it?"
        return (
            f"residuals of {self.noise.removeprefix('measurement of ')} are not white (lag-{self.lag} correlation "
            f"{self.correlation:.2f}, for white noise {self.expected:.2f}): {cause}"
        )


def serial_correlations(condensed: Condensed, coarse: bool = False) -> list[SerialCorrelation]:
    """Autocorrelations of all noises. ``coarse``: for steps twice as long, at the same times."""
    names = list(dict.fromkeys(n for terms in condensed.linearized.chains for s in terms for n in s.factor.noise))
    observing = [
        s.factor for terms in condensed.linearized.chains for s in terms if s.factor.group is Group.OBSERVATION
    ]
    sensors = {noise for factor in observing for noise in factor.noise}
    between = {noise for factor in observing if len(factor.variables) > 1 for noise in factor.noise}
    steps = sum(terms[0].steps for terms in condensed.linearized.chains)
    count = max(min(_DRAWS, _STEPS // steps), _ENOUGH + 2 * len(names))
    halved = tuple(max(lag // 2, 1) for lag in _LAGS)
    lags = {name: halved if coarse and name not in sensors else _LAGS for name in names}
    seen = np.array([_sums(condensed, condensed.residuals, name, lags[name]) for name in names])[:, :, 0]
    null, sizes = _null(condensed, lags, seen[:, 0], count)
    squares, measured = null[:, 0].T, seen[:, 0]
    found = []
    for i, name in enumerate(names):
        for j, lag in enumerate(lags[name], 1):
            if measured[i] and np.ptp(null[i, j]):
                excess, width, z = _of_white(null[i, j], seen[i, j], squares, measured)
                ratios = float(seen[i, j] / measured[i]), float(null[i, j].mean() / squares[:, i].mean())
                unit = sizes[i] ** 2
                found.append(SerialCorrelation(name, lag, *ratios, excess / unit, width / unit, z, name in between))
    return found


def beyond_step(fine: list[SerialCorrelation], coarse: list[SerialCorrelation]) -> list[SerialCorrelation]:
    """Autocorrelations of a finer fit, reduced by the part that the step causes. ``coarse``: of the fit with twice the
    step and the same noise, in the same order."""
    found = []
    for one, other in zip(fine, coarse, strict=True):
        left = (one.excess - other.excess / 16) / one.width
        kept = math.copysign(min(abs(one.z), abs(left)), one.z) if left * one.z > 0 else 0.0
        found.append(replace(one, z=kept))
    return found


def _null(condensed: Condensed, lags: Mapping[str, Sequence[int]], measured: Array, count: int) -> tuple[Array, Array]:
    """Sums of draws of white noise, (noises, 1 + lags, draws), and its sizes, (noises,): such that its squares are like
    those measured, (noises,), which is so at once where sizes have been fitted."""
    sizes, chains = np.ones(len(lags)), condensed.linearized.chains
    for _ in range(_ROUNDS):
        rng, by_name = np.random.default_rng(0), dict(zip(lags, sizes.tolist(), strict=True))
        draws = condensed.left([[white(s, count, rng, by_name) for s in terms] for terms in chains])
        null = np.array([_sums(condensed, draws, name, lags[name]) for name in lags])
        mean, scatter = null[:, 0].mean(axis=1), null[:, 0].std(axis=1)
        off = (np.abs(measured - mean) > _LIKE * scatter) & (mean > 0)
        if not np.any(off):
            break
        sizes[off] *= np.sqrt(measured[off] / mean[off])
    return null, sizes


def white(term: LinearizedFactor, draws: int, rng: np.random.Generator, sizes: Mapping[str, float]) -> Array:
    """Random noise for the equations with noise, (steps, draws, rows): white except for shared means, with other
    standard deviations than those of whitening, by name."""
    steps, left = term.residual.shape
    if term.factor.hard:
        return np.zeros((steps, draws, left))
    rows = left if term.complement is None else term.complement.shape[1]
    drawn = rng.standard_normal((steps, draws, rows))
    if overlap := term.factor.overlap:
        measured = [i for i in range(rows) if i not in term.factor.density]
        before = np.concatenate([rng.standard_normal((1, draws, len(measured))), drawn[:-1, :, measured]])
        share = (1 - math.sqrt(1 - 4 * overlap)) / 2  # a moving average: a + b = 1, a b = overlap
        drawn[:, :, measured] = (1 - share) * drawn[:, :, measured] + share * before
    if term.factor.noise:
        drawn *= np.array([sizes[name] for name in term.factor.noise])
    for sphere in map(list, term.factor.spheres):  # across what moves no row of it there is no noise either
        slopes = term.at(slice(None)).matrix[:, :-1, sphere]
        radial = np.linalg.eigh(np.matmul(slopes.transpose(0, 2, 1), slopes))[1][:, None, :, 0]
        own = drawn[:, :, sphere]
        drawn[:, :, sphere] = own - np.sum(own * radial, axis=2, keepdims=True) * radial
    if term.complement is not None:
        drawn = np.matmul(drawn, term.complement)
    return np.asarray(drawn * term.alive[:, None])


def expected_squares(term: LinearizedFactor) -> Array:
    """Mean squares of noise as assumed, in equations without a complement, (steps, rows)."""
    shares = np.ones(term.residual.shape[1])
    for sphere in term.factor.spheres:
        shares[list(sphere)] -= 1 / len(sphere)
    return np.asarray(term.alive * shares)


def _sums(condensed: Condensed, columns: list[Columns], name: str, lags: Sequence[int]) -> Array:
    """Of products of rows of a noise with themselves and with later ones, (1 + lags, m)."""
    total = np.zeros((1 + len(lags), columns[0][0].shape[1]))
    for r in _each(condensed, columns, name):
        total += np.array([np.sum(r[lag:] * r[: max(len(r) - lag, 0)], axis=0) for lag in (0, *lags)])
    return total


def _each(condensed: Condensed, columns: list[Columns], name: str) -> Iterator[Array]:
    """Rows of a noise at successive steps, samples that miss left out, (n, m), one of each recording and factor."""
    for term, part in condensed.rows(columns):
        for row in (i for i, other in enumerate(term.factor.noise) if other == name):
            yield term.whole(part)[term.known(row), :, row]


def narrower(condensed: Condensed, columns: Sequence[Columns], noises: Sequence[Sequence[str]]) -> Array:
    """Factor of the standard errors, to first order, with a column in the model, (n_p,): the variance of each noise
    that is estimated changes as the sum of its squares, and the logarithm of an error, with the inverse C of TᵀT, by
    (C TᵀT C)_pp/C_pp of that of the noise, T of its rows alone."""
    left = condensed.left(columns)
    along, pull = (float(condensed.inner(left, other).item()) for other in (left, condensed.residuals))
    size, logs = -pull / along if along > 0 else 0.0, np.zeros(len(condensed.inverse))
    for names in noises:
        shares, before, after = np.zeros(len(logs)), 0.0, 0.0
        for name in names:
            parts = (_each(condensed, part, name) for part in (condensed.T, condensed.residuals, left))
            for T, r, e in zip(*parts, strict=True):
                shares += np.sum((T @ condensed.inverse) ** 2, axis=0)
                before, after = before + float(np.sum(r**2)), after + float(np.sum((r + size * e) ** 2))
        if min(before, after) > 0:
            logs += shares * math.log(after / before) / 2
    variances = np.diag(condensed.inverse)
    return np.exp(logs / np.where(variances > 0, variances, np.inf))


def _of_white(null: Array, seen: float, squares: Array, measured: Array) -> tuple[float, float, float]:
    """By how much a sum is off, what sums of squares say of it taken off; its standard deviation; and standard errors
    of a normal distribution, with the errors of what is taken off: large if squares are unlike those of draws."""
    basis, here = np.column_stack([np.ones(len(null)), squares - squares.mean(axis=0)]), measured - squares.mean(axis=0)
    slopes, _, rank, _ = np.linalg.lstsq(basis, null, rcond=None)
    shares = np.linalg.lstsq(basis.T, np.append(1.0, here), rcond=None)[0]
    freedom = len(null) - int(rank)
    width = math.sqrt(float(np.sum((null - basis @ slopes) ** 2)) / freedom)
    excess = float(seen - slopes[0] - here @ slopes[1:])
    error = width * math.sqrt(1 + float(shares @ shares))
    return excess, width, float(np.sign(excess) * -special.ndtri(special.stdtr(freedom, -abs(excess) / error)))


def not_white(condensed: Condensed, correlations: Sequence[SerialCorrelation]) -> tuple[Misfit, ...]:
    """The worst, with what all noises do that are not white, each by its strongest lag. A correlation of one raises a
    sum by as many standard errors as it has of width: where these are too few to be reported, the sum says nothing."""
    worst: dict[str, SerialCorrelation] = {}
    for one in sorted(correlations, key=lambda test: -abs(test.z)):
        if min(abs(one.z), one.width) > limit(len(correlations)):
            worst.setdefault(one.noise, one)
    every = list(worst.values())
    weights = {one.noise: (one.lag, one.likely) for one in every}
    return tuple(Misfit(one.words, one.z, change_if_weighted(condensed, weights)) for one in every[:1])
