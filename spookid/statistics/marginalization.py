"""Standard errors with the process-noise intensity integrated out, and this intensity with parameters integrated out.

If the data barely determine the intensity s of the process noise, a single value, zero above all, gives standard errors
that are too small. The covariance is therefore that of the mixture over the posterior of s, with the parameters
integrated out (Laplace), and a prior between flat in s and flat in log s. Intervals then have their nominal coverage
with and without process noise (results/truth.md).

    p(log s) ∝ s^0.7 L(θ_s, s) det S_s^{-1/2},    Cov θ = Σ_s p(s) [S_s⁻¹ + δ_s δ_sᵀ],    δ_s = −S_s⁻¹ score_s.

For each value, the residuals are linearized at the best states of the most likely value, and one linear step is taken.

If the data determine s well, its posterior is normal in log s, and parameters absorb a part of the noise: the maximum
of L, where they are fitted, is below the maximum of p by half the slope of log det S_s over the information in log s
(the difference of maximum likelihood and restricted maximum likelihood). One further value gives this slope, and the
change of the covariance.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.kernels.precision import TINY
from spookid.records import dataclass
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.condensing import inverse_root
from spookid.statistics.search import Search
from spookid.statistics.trial import SearchEndedError, Trial

_WELL_KNOWN = 30.0
"""Information in the logarithm of a size below which errors are averaged over it: it is known to 18 % from there on."""
_STEP, _MOST = 0.7, 16
"""Between values of log s at the most, and how many there are to a side at the most."""
_RESOLVED = 2.0
"""Between values at the most, in standard errors of log s: the trapezoidal rule of a normal density is then right to
two percent."""
_FLAT = 0.05
"""Difference of −log L below which a value is as likely as its neighbour."""
_UNLIKELY, _NEGLIGIBLE = 4.0, 0.01
"""What −log L has risen by where values end, and what the last of them adds to the variances there, as a share."""
_PRIOR = 0.7
"""Power of s that its prior density in log s is."""


@dataclass(frozen=True, eq=False)
class _Value:
    """One value of a size."""

    log: float
    depth: float
    """−log L with the parameters integrated out, but for a constant."""
    covariance: Array
    shift: Array
    """δ_s."""


def uncertain_sizes(search: Search) -> NDArray[np.bool_]:
    """True for process noise whose standard deviation the data barely determine, (n_s,)."""
    free = [size.kind == "disturbance" and size.given is None for size in search.sizes]
    return np.asarray(np.array(free) & (np.diag(search.best.fisher) < _WELL_KNOWN))


@dataclass(frozen=True, eq=False)
class Doubt:
    """What uncertain noise standard deviations do to the estimates, and where they probably are."""

    covariance: Array
    """Covariance to be added to that of the parameters, (n_p, n_p)."""
    logs: Array
    """Logarithms of the root mean square of each size over its posterior, (n_s,)."""


def doubt(search: Search) -> Doubt:
    """Covariance of the parameters due to uncertain noise standard deviations, zero for parameters at a bound, across
    active constraints and in directions without information; and these standard deviations, with the parameters
    integrated out."""
    now, free = search.best.point.parameters, [s.kind == "disturbance" and s.given is None for s in search.sizes]
    whole, logs, uncertain = np.zeros((len(now), len(now))), search.logs.copy(), uncertain_sizes(search)
    magnitudes = np.maximum(search.problem.magnitudes, np.abs(now))
    along = magnitudes[:, None] * search.problem.free_directions(now).basis(magnitudes)
    best = _value(search.best, 0.0, along) if any(free) else None
    # A derivative that is infinite leaves nothing to weigh values by.
    for i in np.flatnonzero(free).tolist() if best is not None and np.isfinite(best.depth) else ():
        assert best is not None
        added, log = (_of_uncertain if uncertain[i] else _of_known)(search, i, along, best)
        whole, logs[i] = whole + added, log
    return Doubt(whole, logs)


def _of_uncertain(search: Search, i: int, along: Array, best: _Value) -> tuple[Array, float]:
    """Covariance that a size adds which the data barely determine, and the logarithm of its root mean square."""
    step = min(_STEP, _RESOLVED / math.sqrt(max(search.best.fisher[i, i], 1.0)))  # of log s, between values
    values = _values(search, i, along, step)
    return _mixed(values, step) - best.covariance, _log_of_mean_square(values, step) / 2


def _of_known(search: Search, i: int, along: Array, best: _Value) -> tuple[Array, float]:
    """The same of a size whose posterior is normal in log s: about a larger value than the most likely one, as the
    parameters have absorbed a part of the noise."""
    log, error = float(search.best.logs[i]), 1 / math.sqrt(search.best.fisher[i, i])
    if (value := _at(search, i, along, log + error)) is None:
        return np.zeros_like(best.covariance), log
    away = max((_PRIOR * error - (value.depth - best.depth) + 0.5), 0.0)  # in standard errors
    return away * (value.covariance - best.covariance), log + away * error + error**2


def _values(search: Search, i: int, along: Array, step: float) -> list[_Value]:
    """Values of one size, ascending, over all that is likely; all that is smaller than the first is as likely.

    They are spread about where the information in log s is one, which it passes with s⁴: where a search along a flat
    likelihood has ended is chance.
    """
    best, log, (logs, information) = search.best, float(search.best.logs[i]), search.best.informed
    away = float(logs[i]) - log - float(np.log(max(information[i, i], TINY))) / 4
    found = [(_at(search, i, along, log + away) if information[i, i] < 1 else None) or _value(best, log, along)]
    for _ in range(_MOST):
        if (value := _at(search, i, along, found[0].log - step)) is None:
            break
        found.insert(0, value)
        if _flat(found[:2]) or value.depth - min(v.depth for v in found) > _UNLIKELY:
            break
    for _ in range(_MOST):
        if _is_end(found, step) or (value := _at(search, i, along, found[-1].log + step)) is None:
            break
        if value.depth < found[-1].depth and _risen(found) > 1:  # the parameters' step is too long to be linear
            break
        found.append(value)
        if len(found) == 3 and _flat(found[:2]) and _flat(found[1:]):
            del found[0]
    return found


def _flat(two: list[_Value]) -> bool:
    """True if one is as likely as the other."""
    return abs(two[0].depth - two[1].depth) < _FLAT


def _risen(values: list[_Value]) -> float:
    """By how much −log L of the last of some values is above the least."""
    return values[-1].depth - min(v.depth for v in values)


def _is_end(values: list[_Value], step: float) -> bool:
    """True if the last of some values is unlikely, and adds little to the variances."""
    if _risen(values) < _UNLIKELY:
        return False
    with_it, without = (np.diag(_mixed(some, step)) for some in (values, values[:-1]))
    return bool(np.all(np.abs(with_it - without) <= _NEGLIGIBLE * without))


def _mixed(values: list[_Value], step: float) -> Array:
    """Covariance of the parameters over the values, (n_p, n_p)."""
    weights, shifts = _weights(values, step), np.array([value.shift for value in values])
    apart = shifts - weights @ shifts
    within = sum((w * v.covariance for w, v in zip(weights, values, strict=True)), np.zeros(1))
    return np.asarray(within + (weights * apart.T) @ apart)


def _log_of_mean_square(values: list[_Value], step: float) -> float:
    """Logarithm of the mean of s²."""
    logs = np.array([value.log for value in values])
    return float(2 * logs.max() + np.log(_weights(values, step) @ np.exp(2 * (logs - logs.max()))))


def _at(search: Search, i: int, along: Array, log: float) -> _Value | None:
    """One value of a size; None where there is none.

    No smaller ones are below its floor; larger ones may be, of noise that is kept from a fit with longer steps.
    """
    best, logs = search.best, search.best.logs.copy()
    if log < min(search.floors[i], best.logs[i]):
        return None
    logs[i] = log
    try:
        value = _value(trial := search.trial(best.point, logs, gap=np.inf), log, along)
        return value if np.isfinite(value.depth) and log >= min(search.sharp(trial)[i], best.logs[i]) else None
    except (NotPositiveDefiniteError, SearchEndedError, np.linalg.LinAlgError):
        return None


def _value(trial: Trial, log: float, along: Array) -> _Value:
    half = inverse_root(along.T @ trial.marginal.information @ along)
    inverse, volume = along @ half @ half.T @ along.T, -float(np.sum(np.log(np.linalg.svd(half, compute_uv=False))))
    shift = -inverse @ trial.marginal.score
    gain = float(shift @ trial.marginal.score) / 2
    return _Value(log, trial.value + gain + volume, inverse, shift)


def _weights(values: list[_Value], step: float) -> Array:
    """Probabilities of the values, by the trapezoidal rule in log s, without an end: the first stands for all smaller
    ones, whose sum is that of a geometric series."""
    logs, depths = np.array([v.log for v in values]), np.array([v.depth for v in values])
    density = np.exp(_PRIOR * (logs - logs.max()) - (depths - depths.min()))
    density[0] /= 1 - np.exp(-_PRIOR * step)
    return np.asarray(density / density.sum())
