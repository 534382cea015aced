"""Errors of the parameters with the size of a disturbance integrated out, where the data do not tell it.

Where the data hardly tell how large a disturbance is, one value of it, above all zero, promises errors that are too
small. So errors are those of the mixture over its size s, each value as likely as the data make it, with the parameters
integrated out (Laplace) and a prior between those flat in s and in log s: it makes intervals cover where there is no
disturbance as well as where it is just not seen (results/truth.md).

    p(log s) ∝ s^0.7 L(θ_s, s) det S_s^{-1/2},    Cov θ = Σ_s p(s) [S_s⁻¹ + δ_s δ_sᵀ],    δ_s = −S_s⁻¹ score_s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.kernel import Array
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.condensing import inverse_root
from spookid.statistics.search import Search
from spookid.statistics.trial import Trial
from spookid.transcription.free_directions import FreeDirections

_WELL_KNOWN = 30.0
"""Information in the logarithm of a size below which errors are averaged over it: it is known to 18 % from there on."""
_STEP, _FLAT, _NEGLIGIBLE, _MOST = 0.7, 0.05, 4.0, 16
"""Between values of log s, twice as much where −log L differs less than this; what it has risen by where they end, and
how many there are to a side at the most."""
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
    """True for the sizes of disturbances that are not well known, (n_s,)."""
    free = [size.kind == "disturbance" and size.given is None for size in search.sizes]
    return np.asarray(np.array(free) & (np.diag(search.best.fisher) < _WELL_KNOWN))


def covariance(search: Search) -> tuple[Array, Array]:
    """Of the parameters as the best noise has it, and with what is not known of its sizes, each (n_p, n_p); zero for
    parameters at a bound, across constraints that hold and in directions without information."""
    free = search.problem.free_directions(search.best.point.parameters)
    best = _value(search.best, 0.0, free)
    whole = best.covariance.copy()
    for i in np.flatnonzero(uncertain_sizes(search)):
        values = _values(search, int(i), free)
        weights = _weights(values)
        shifts = np.array([value.shift for value in values])
        mean = weights @ shifts
        mixed = sum(w * v.covariance for w, v in zip(weights, values, strict=True))
        whole += mixed - best.covariance + (weights * (shifts - mean).T) @ (shifts - mean)
    return best.covariance, whole


def _values(search: Search, i: int, free: FreeDirections) -> list[_Value]:
    """Values of one size, ascending, over all that is likely."""
    found = [_value(search.best, float(search.best.logs[i]), free)]
    for sign in (1, -1):
        for _ in range(_MOST):
            ends = (found[-1], found[-2:-1]) if sign > 0 else (found[0], found[1:2])
            flat = len(found) > 1 and abs(ends[0].depth - ends[1][0].depth) < _FLAT if ends[1] else False
            if sign < 0 and flat:
                break  # all that is smaller is as likely, and counts as this end
            value = _at(search, i, free, ends[0].log + sign * _STEP * (2 if flat else 1))
            if value is None:
                break
            found.insert(len(found) if sign > 0 else 0, value)
            if value.depth - min(v.depth for v in found) > _NEGLIGIBLE:
                break
    return found


def _at(search: Search, i: int, free: FreeDirections, log: float) -> _Value | None:
    """One value of a size; None where there is none.

    No smaller ones are below its floor; larger ones may be, of noise that is kept from a fit with longer steps.
    """
    best, logs = search.best, search.best.logs.copy()
    if log < min(search.floors[i], best.logs[i]):
        return None
    moved = best.states.moved(logs={name: log - float(logs[i]) for name in search.sizes[i].keys})
    logs[i] = log
    try:
        trial = search.trial(moved, logs)
        if not np.isfinite(trial.value):
            return None
        return _value(trial, log, free) if log >= search.sharp(trial)[i] or log >= best.logs[i] else None
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return None


def _value(trial: Trial, log: float, free: FreeDirections) -> _Value:
    half, volume = inverse_root(trial.marginal.information, free)
    inverse = half @ half.T
    shift = -inverse @ trial.marginal.score
    gain = float(shift @ trial.marginal.score) / 2
    return _Value(log, trial.value + gain + volume, inverse, shift)


def _weights(values: list[_Value]) -> Array:
    """Probabilities of the values, by the trapezoidal rule in log s; the first stands for all smaller ones, too."""
    logs, depths = np.array([v.log for v in values]), np.array([v.depth for v in values])
    widths = np.zeros(len(values))
    widths[:-1] += np.diff(logs) / 2
    widths[1:] += np.diff(logs) / 2
    widths[0] += 1 / _PRIOR  # the integral of s^a over log s from zero on is s^a / a
    density = np.exp(_PRIOR * (logs - logs.max()) - (depths - depths.min())) * widths
    return np.asarray(density / density.sum())
