"""What is not known of the size of a disturbance, in the errors of the parameters.

Where the data hardly tell how large a disturbance is, one value of it, above all zero, promises errors that are too
small. So errors are those of the mixture over its size s, each value as likely as the data make it, with a prior that is
flat in s (Gelman, Bayesian Analysis 1, 2006) and the parameters integrated out (Laplace):

    p(s) ∝ L(θ_s, s) det S_s^{-1/2},    Cov θ = Σ_s p(s) [S_s⁻¹ + δ_s δ_sᵀ],    δ_s = −S_s⁻¹ score_s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spookid.kernels import Array
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.search import Search, Trial

VAGUE = 30.0
"""Information in the logarithm of a size below which errors are averaged over it: it is known to 18 % from there on."""
_STEP, _NEGLIGIBLE, _MOST = 0.7, 4.0, 16
"""Between values of log s, what −log L has risen by where they end, and how many there are to a side at the most."""
_RANK = 1e-10


@dataclass(frozen=True, eq=False)
class _Value:
    """One value of a size."""

    log: float
    depth: float
    """−log of its probability per unit of s, but for a constant."""
    covariance: Array
    shift: Array
    """δ_s."""


def vague(search: Search) -> NDArray[np.bool_]:
    """True for the sizes of disturbances that are not well known, (n_s,)."""
    free = [size.kind == "disturbance" and size.given is None for size in search.sizes]
    return np.asarray(np.array(free) & (np.diag(search.best.fisher) < VAGUE))


def covariance(search: Search) -> tuple[Array, Array]:
    """Of the parameters as the best noise has it, and with what is not known of its sizes, each (n_p, n_p); zero for
    parameters at a bound and in directions without information."""
    free = (search.problem.lower < search.best.point.parameters) & (search.best.point.parameters < search.problem.upper)
    best = _value(search.best, 0.0, free)
    whole = best.covariance.copy()
    for i in np.flatnonzero(vague(search)):
        values = _values(search, int(i), free)
        weights = _weights(values)
        shifts = np.array([value.shift for value in values])
        mean = weights @ shifts
        mixed = sum(w * v.covariance for w, v in zip(weights, values, strict=True))
        whole += mixed - best.covariance + (weights * (shifts - mean).T) @ (shifts - mean)
    return best.covariance, whole


def _values(search: Search, i: int, free: NDArray[np.bool_]) -> list[_Value]:
    """Values of one size, ascending, over all that is likely."""
    here = _value(search.best, float(search.best.logs[i]), free)
    found = [here]
    for value in _beyond(search, i, free, _STEP):
        found.append(value)
        if value.depth - min(v.depth for v in found) > _NEGLIGIBLE:
            break
    for value in _beyond(search, i, free, -_STEP):
        flat = abs(value.depth - found[0].depth) < _STEP / 10  # what is below is as likely, and counts as its end
        found.insert(0, value)
        if flat or value.depth - min(v.depth for v in found) > _NEGLIGIBLE:
            break
    return found


def _beyond(search: Search, i: int, free: NDArray[np.bool_], step: float) -> Iterator[_Value]:
    """Values of one size from the best on, in steps of its logarithm."""
    best = search.best
    for count in range(1, _MOST + 1):
        logs = best.logs.copy()
        logs[i] += count * step
        if step < 0 and logs[i] < search.floors[i]:
            return
        try:
            moved = best.states.moved(logs={name: count * step for name in search.sizes[i].keys})
            yield _value(search.trial(moved, logs), float(logs[i]), free)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError):
            return


def _value(trial: Trial, log: float, free: NDArray[np.bool_]) -> _Value:
    information = trial.marginal.information
    scale = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    scale = np.where(free & (np.diag(information) > 0), scale, np.inf)
    strengths, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = strengths > _RANK * strengths.max(initial=0.0)
    half = vectors[:, seen] / np.sqrt(strengths[seen]) / scale[:, None]
    inverse = half @ half.T
    shift = -inverse @ trial.marginal.score
    gain = float(shift @ trial.marginal.score) / 2
    return _Value(log, trial.value + gain + float(np.sum(np.log(strengths[seen]))) / 2 + _volume(scale), inverse, shift)


def _volume(scale: Array) -> float:
    return float(np.sum(np.log(scale[np.isfinite(scale)])))


def _weights(values: list[_Value]) -> Array:
    """Probabilities of the values, by the trapezoidal rule in log s; the first stands for all smaller ones, too."""
    logs, depths = np.array([v.log for v in values]), np.array([v.depth for v in values])
    widths = np.zeros(len(values))
    widths[:-1] += np.diff(logs) / 2
    widths[1:] += np.diff(logs) / 2
    widths[0] += 1.0  # ∫ s d(log s) from zero on is s
    density = np.exp(logs - logs.max() - (depths - depths.min())) * widths
    return np.asarray(density / density.sum())
