"""Standard errors with the process-noise intensity integrated out, if the data barely determine it.

If the data barely determine the intensity s of the process noise, a single value, zero above all, gives standard errors
that are too small. The covariance is therefore that of the mixture over the posterior of s, with the parameters
integrated out (Laplace), and a prior between flat in s and flat in log s. Intervals then have their nominal coverage
with and without process noise (results/truth.md).

    p(log s) ∝ s^0.7 L(θ_s, s) det S_s^{-1/2},    Cov θ = Σ_s p(s) [S_s⁻¹ + δ_s δ_sᵀ],    δ_s = −S_s⁻¹ score_s.

For each value, the residuals are linearized at the best states of the most likely value, and one linear step is taken.
"""

from __future__ import annotations

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
"""Between values of log s, and how many there are to a side at the most."""
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


def doubt(search: Search) -> Array:
    """Covariance of the parameters, (n_p, n_p), due to uncertain noise standard deviations; zero for parameters at a
    bound, across active constraints and in directions without information."""
    now = search.best.point.parameters
    whole, uncertain = np.zeros((len(now), len(now))), np.flatnonzero(uncertain_sizes(search)).tolist()
    if not uncertain:
        return whole
    magnitudes = np.maximum(search.problem.magnitudes, np.abs(now))
    along = magnitudes[:, None] * search.problem.free_directions(now).basis(magnitudes)
    best = _value(search.best, 0.0, along)
    # A derivative that is infinite leaves nothing to weigh values by.
    for i in uncertain if np.isfinite(best.depth) else ():
        whole += _mixed(_values(search, i, along)) - best.covariance
    return whole


def _values(search: Search, i: int, along: Array) -> list[_Value]:
    """Values of one size, ascending, over all that is likely; all that is smaller than the first is as likely.

    They are spread about where the information in log s is one, which it passes with s⁴: where a search along a flat
    likelihood has ended is chance.
    """
    best, log, (logs, information) = search.best, float(search.best.logs[i]), search.best.informed
    away = float(logs[i]) - log - float(np.log(max(information[i, i], TINY))) / 4
    found = [(_at(search, i, along, log + away) if information[i, i] < 1 else None) or _value(best, log, along)]
    for _ in range(_MOST):
        if (value := _at(search, i, along, found[0].log - _STEP)) is None:
            break
        found.insert(0, value)
        if _flat(found[:2]) or value.depth - min(v.depth for v in found) > _UNLIKELY:
            break
    for _ in range(_MOST):
        if _is_end(found) or (value := _at(search, i, along, found[-1].log + _STEP)) is None:
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


def _is_end(values: list[_Value]) -> bool:
    """True if the last of some values is unlikely, and adds little to the variances."""
    if _risen(values) < _UNLIKELY:
        return False
    with_it, without = (np.diag(_mixed(some)) for some in (values, values[:-1]))
    return bool(np.all(np.abs(with_it - without) <= _NEGLIGIBLE * without))


def _mixed(values: list[_Value]) -> Array:
    """Covariance of the parameters over the values, (n_p, n_p)."""
    weights, shifts = _weights(values), np.array([value.shift for value in values])
    apart = shifts - weights @ shifts
    within = sum((w * v.covariance for w, v in zip(weights, values, strict=True)), np.zeros(1))
    return np.asarray(within + (weights * apart.T) @ apart)


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


def _weights(values: list[_Value]) -> Array:
    """Probabilities of the values, by the trapezoidal rule in log s, without an end: the first stands for all smaller
    ones, whose sum is that of a geometric series."""
    logs, depths = np.array([v.log for v in values]), np.array([v.depth for v in values])
    density = np.exp(_PRIOR * (logs - logs.max()) - (depths - depths.min()))
    density[0] /= 1 - np.exp(-_PRIOR * _STEP)
    return np.asarray(density / density.sum())
