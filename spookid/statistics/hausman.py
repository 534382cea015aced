"""Tests of whether the deterministic dynamics (output-error) estimator is valid, from a fit with estimated noise.

Deterministic dynamics attribute all residuals to the sensors. If process noise acts, its effect lasts longer than any
block of a recording, and block-jackknife errors are far too small. Process noise must therefore be rejected first:
simulations with the estimated process noise would leave much larger residuals than the output-error fit does. The
estimator is also invalid in closed loop, where the input depends on the process noise, and along unstable motions,
which any process noise changes.

Hausman test: do the estimators with estimated process noise and with deterministic dynamics agree?

The test (Hausman, Econometrica 46, 1978, 1251) takes the covariance of the difference from influence functions, as
V₁ − V₂ need not be positive definite. If δ_w is the change of the estimates without block w, the difference changes by
δ¹_w − δ²_w, and the jackknife gives its variance. Parameters are compared one by one (Bonferroni), because a few blocks
do not determine a covariance matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.kernels.precision import HALF_DIGITS, TINY
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.solvers.rows import Columns, LinearizedFactor
from spookid.statistics.condensing import Condensed
from spookid.statistics.variances import LEVEL
from spookid.statistics.whiteness import FALSE_ALARMS, expected_squares, white
from spookid.transcription.factor import Group

_LAGS = 5
"""Steps within which a closed loop responds to process noise."""
_ORDER = 20
"""Steps of its own past that a signal is whitened with."""
_BATCH = 9
"""Draws at a time."""

Drive = tuple[str, Sequence[Array]]
"""The noise of the rows that an input acts in, and the input at each step of each recording, (N,)."""


def denied(condensed: Condensed, sizes: Mapping[str, float]) -> bool:
    """True if residuals of deterministic dynamics are smaller than in all of 99 simulations of the noise.

    White process noise accumulates over a recording; encoder steps and clock jitter do not, although a single step
    looks the same.

    Args:
        condensed: with process noise so small that the dynamics are deterministic.
        sizes: of the noise that was found, over that of ``condensed``, by its name.
    """
    seen = _of_sensors(condensed, condensed.residuals)[0]
    return not any(np.any(_of_sensors(condensed, condensed.left(drawn)) <= seen) for drawn in _drawn(condensed, sizes))


def under_process_noise(condensed: Condensed, sizes: Mapping[str, float]) -> Array:
    """Covariance of the output-error estimates if process noise caused their residuals, without the part of white
    sensor noise, (n_p, n_p).

    How far process noise moves estimates, over the root of the squares that it leaves, does not depend on its size.
    So this is right if a random force acts, whatever fits with estimated noise say of its size, and too large if
    none does. The block jackknife does not see it, as such a force acts on the motion beyond a block.

    Args:
        condensed: of the fit with deterministic dynamics.
        sizes: as of ``denied``; only ratios of those of process noise matter.
    """
    process, sensors = dict(sizes), 0.0
    for term in (term for terms in condensed.linearized.chains for term in terms):
        if term.factor.group is Group.OBSERVATION:
            ratios = np.array([sizes[name] for name in term.factor.noise])
            sensors += float(np.sum(expected_squares(term) * ratios**2))
            process.update(dict.fromkeys(term.factor.noise, 0.0))
    excess = max(float(_of_sensors(condensed, condensed.residuals)[0]) - sensors, 0.0)
    pairs = [condensed.moved(drawn) for drawn in _drawn(condensed, process)]
    per_root = np.hstack([moves / np.sqrt(np.maximum(_of_sensors(condensed, left), TINY)) for moves, left in pairs])
    return np.asarray(excess * per_root @ per_root.T / per_root.shape[1])


def _drawn(condensed: Condensed, sizes: Mapping[str, float]) -> Iterator[list[Columns]]:
    """99 draws of noise in batches."""
    rng = np.random.default_rng(0)
    for _ in range(0, round(1 / FALSE_ALARMS) - 1, _BATCH):
        yield [[white(s, _BATCH, rng, sizes) for s in terms] for terms in condensed.linearized.chains]


def _of_sensors(condensed: Condensed, columns: Sequence[Columns]) -> Array:
    """Sums of squares in the rows of sensors, (m,)."""
    parts = (part for term, part in condensed.rows(columns) if term.factor.group is Group.OBSERVATION)
    return np.asarray(sum(np.einsum("kmr,kmr->m", part, part) for part in parts))


def feedback(inputs: Array, noise: Array) -> float:
    """Smallest p-value, times their number, of tests that inputs do not depend on the noise (no feedback).

    An F test of whether past residuals predict an input better than its own past does, all of them whitened first
    (Haugh, J. Am. Stat. Assoc. 71, 1976, 378): smooth signals correlate by chance. The motion itself cannot be tested,
    as it always depends on the input.

    Args:
        inputs: at each step, (N, n_u).
        noise: residuals at each step, NaN where there is none, (N, m).
    """
    noise = np.where(np.isfinite(noise), noise, 0.0)
    fresh = [_fresh(w) for w in noise.T if np.ptp(w) > 0]
    varied = [_fresh(u) for u in inputs.T if np.ptp(u) > 0]
    if not fresh or len(inputs) < 2 * _ORDER + _LAGS * (len(fresh) + 2):
        return 1.0
    past = np.column_stack([w[_LAGS - lag : len(w) - lag] for w in fresh for lag in range(1, _LAGS + 1)])
    more, freedom, probability = past.shape[1], len(past) - past.shape[1], 1.0
    for u in (u[_LAGS:] for u in varied):
        alone, left = float(np.sum(u**2)), float(np.sum(_left(u, past) ** 2))
        ratio = max(alone - left, 0.0) / more / max(left / freedom, TINY)
        probability = min(probability, len(varied) * float(special.fdtrc(more, freedom, ratio)))
    return probability


def without_echoes(condensed: Condensed, drives: Sequence[Drive]) -> list[Array]:
    """Residuals with noise at each step of every recording, (N, m), after removal of delayed and filtered effects of
    inputs over up to ``_ORDER`` steps.

    The smoothed motion answers to an input before it comes. An input that acts late would therefore seem to answer to
    the residuals; what its own past does to the smoothed residuals is projected out of them.

    Args:
        drives: of inputs.
    """
    chains = condensed.linearized.chains
    columns = [
        [np.concatenate([_past(t, drives, c), r], axis=1) for t, r in zip(terms, parts, strict=True)]
        for c, (terms, parts) in enumerate(zip(chains, condensed.residuals, strict=True))
    ]
    left = condensed.left(columns)
    gram = condensed.inner(left, left)
    coefficients = np.linalg.pinv(gram[:-1, :-1], rcond=HALF_DIGITS, hermitian=True) @ gram[:-1, -1:]
    weights = np.append(-coefficients, 1.0)
    return [
        _series(terms, [np.einsum("kmr,m->kr", part, weights) for part in parts])
        for terms, parts in zip(chains, left, strict=True)
    ]


def _past(term: LinearizedFactor, drives: Sequence[Drive], chain: int) -> Array:
    """Columns of delayed inputs in the rows of a factor, (count, inputs · (order + 1), rows)."""
    count, rows = len(term.residual), term.residual.shape[1]
    found = np.zeros((count, len(drives) * (_ORDER + 1), len(term.factor.noise) or rows))
    first = term.factor.reach // 2
    for i, (noise, inputs) in enumerate(drives):
        if term.factor.group is not Group.STATE or noise not in term.factor.noise:
            continue
        for lag in range(_ORDER + 1):
            late = np.concatenate([np.full(lag, inputs[chain][0]), inputs[chain]])[first : first + count]
            found[:, i * (_ORDER + 1) + lag, term.factor.noise.index(noise)] = late
    return found if term.complement is None else np.matmul(found, term.complement)


def _series(terms: Sequence[LinearizedFactor], parts: Sequence[Array]) -> Array:
    """Rows with noise at the steps that they belong to, NaN where there is none, (N, m)."""
    found = []
    for term, part in zip(terms, parts, strict=True):
        if term.factor.noise and not term.factor.first_only:
            whole = part if term.complement is None else np.einsum("krj,kj->kr", term.complement, part)
            series = np.full((term.steps, whole.shape[1]), np.nan)
            first = term.factor.reach // 2
            series[first : first + len(whole)] = whole
            found.append(series)
    return np.hstack(found)


def _fresh(values: Array) -> Array:
    """What the last steps of a signal do not tell of the next, (N − order,)."""
    count = len(values)
    past = [values[_ORDER - lag : count - lag] for lag in range(1, _ORDER + 1)]
    return _left(values[_ORDER:], np.column_stack([np.ones(count - _ORDER), *past]))


def _left(target: Array, columns: Array) -> Array:
    """What columns leave of a signal."""
    scaled = columns / np.maximum(np.linalg.norm(columns, axis=0), TINY)
    return np.asarray(target - scaled @ np.linalg.lstsq(scaled, target, rcond=1e-10)[0])


def unstable(condensed: Condensed) -> bool:
    """True if a deviation of a recording's motion grows by more than the number of its steps.

    So far a change of the rate leads a free body; along a stable motion it comes to less.
    """
    return any(_growth(terms) > np.log(terms[0].steps) for terms in condensed.linearized.chains)


def _growth(terms: Sequence[LinearizedFactor]) -> float:
    """Logarithm of the most that the linearized motion makes of a change of two neighbouring steps."""
    t = terms[0].tangent
    before, here, after = np.split(_equations(terms), 3, axis=2)
    onward = -np.linalg.pinv(after) @ np.concatenate([before, here], axis=2)
    change, scale, most = np.eye(2 * t), 0.0, 0.0
    for matrix in onward:
        change = np.vstack([change[t:], matrix @ change])
        size = float(np.abs(change).max())
        most = max(most, scale + np.log(max(size, TINY)))
        change, scale = change / max(size, TINY), scale + np.log(max(size, TINY))
    return most


def _equations(terms: Sequence[LinearizedFactor]) -> Array:
    """Jacobians of the rows that tell a step from the two before, in these three, (N − 2, rows, 3 t)."""
    t, count, parts = terms[0].tangent, terms[0].steps - 2, []
    inner = (term for term in terms if term.factor.group is Group.STATE and not term.factor.first_only)
    for term in (term for term in inner if max(term.source.offsets) <= 2):
        shift = 2 - max(term.source.offsets)
        states = term.at(slice(shift, shift + count)).matrix[:, : term.unknowns]
        whole = np.zeros((count, 3 * t, states.shape[2]))
        for i, offset in enumerate(term.source.offsets):
            place = (offset + shift) * t
            whole[:, place : place + t] = states[:, i * t : (i + 1) * t]
        parts.append(whole)
    return np.concatenate(parts, axis=2).transpose(0, 2, 1)


SHARPER = 1.5
"""Factor by which the errors of deterministic dynamics must be smaller, in the median."""


@dataclass(frozen=True, eq=False)
class EstimatorOutput:
    """Estimates and jackknife changes of one estimator, for the Hausman test."""

    estimates: Array
    """(n_p,)."""
    errors: Array
    """Standard errors that it shows, (n_p,); NaN where there is none."""
    changes: Array
    """Of the estimates without each block, as if there were no bounds, (W, n_p); NaN where unknown."""


@dataclass(frozen=True, eq=False)
class HausmanTest:
    """Hausman test of two estimators on the same blocks."""

    sigmas: Array
    """Differences, as those of a normal variable that are as improbable, (n_p,); NaN where it is not known."""
    differ: NDArray[np.bool_]
    """True where that is no accident, (n_p,)."""
    gain: float
    """Times that the second's errors are smaller, in the median; NaN if there are none."""

    @property
    def agree(self) -> bool:
        """True if no parameter with a standard error differs significantly."""
        return bool(np.all(np.isfinite(self.sigmas)) and not np.any(self.differ))

    @property
    def replaces(self) -> bool:
        """True if the second estimator's result may replace the first."""
        return self.agree and self.gain > SHARPER


def hausman_test(first: EstimatorOutput, second: EstimatorOutput) -> HausmanTest:
    """Test if two estimators estimate the same values; m blocks have m − 1 degrees of freedom."""
    changes = first.changes - second.changes
    count, known = len(changes), first.estimates.size
    away = np.abs(first.estimates - second.estimates)
    spread = np.sqrt((count - 1) / max(count, 1) * np.sum((changes - changes.mean(axis=0)) ** 2, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(away > 0, away / spread, 0 * spread)
        ratios = first.errors / second.errors
    sigmas = -special.ndtri(np.maximum(special.stdtr(max(count - 1, 1), -t), TINY))
    sigmas = np.where(np.isfinite(t) & (count > 1), np.maximum(sigmas, 0.0), np.nan)
    ratios = ratios[np.isfinite(ratios)]
    gain = float(np.median(ratios)) if ratios.size else float("nan")
    return HausmanTest(sigmas, sigmas > -special.ndtri(LEVEL / 2 / max(known, 1)), gain)
