"""Whether what is random is white: residuals of one noise against those of the same some rows later.

Residuals at the best states are not white themselves, r̂ = P r with P a projection. That of white r the sum

    Σ_k r̂_k r̂_{k+l}

over the rows of one noise makes is found from draws: it is the slope of the likelihood in the correlation of that noise
at lag l. Sizes of the noises have been fitted too, so that what the sums of squares of the draws say of it is taken
off. Where the model lacks something that lasts, the sum is larger.
"""

from __future__ import annotations

import math

import numpy as np

from spookid.kernels.kernel import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass
from spookid.statistics.condensing import Condensed
from spookid.statistics.linearized import Columns, LinearizedFactor
from spookid.transcription.factor import Group

_LAGS = (1, 4, 16)
"""Rows of one noise."""
_DRAWS, _ENOUGH, _STEPS = 100, 24, 200_000
"""Draws, at most and besides two for each noise at least, and steps that they cover together."""
_LEAST = 50.0
"""Rows that must be left to a noise by the states: fewer say little of it, and are not nearly normal in sum."""


@dataclass(frozen=True)
class SerialCorrelation:
    """How residuals of one noise hang together."""

    noise: str
    lag: int
    correlation: float
    expected: float
    """If it were white."""
    z: float
    interpolated: bool = False
    """True of a sensor whose samples lie between the steps."""

    @property
    def words(self) -> str:
        """What is told of it."""
        cause = "something lasts that the model does not have"
        if self.interpolated:
            cause += ", or the step is too long for what is between: does it stay with half of it?"
        return (
            f"those of {self.noise.removeprefix('measurement of ')} are not white (lag-{self.lag} correlation "
            f"{self.correlation:.2f}, of white noise {self.expected:.2f}): {cause}"
        )


def serial_correlations(condensed: Condensed) -> list[SerialCorrelation]:
    """Of every noise that has rows enough."""
    names = list(dict.fromkeys(n for terms in condensed.linearized.chains for s in terms for n in s.factor.noise))
    between = {
        noise
        for terms in condensed.linearized.chains
        for s in terms
        if s.factor.group is Group.OBSERVATION and len(s.factor.variables) > 1
        for noise in s.factor.noise
    }
    steps, rng = sum(terms[0].steps for terms in condensed.linearized.chains), np.random.default_rng(0)
    count = max(min(_DRAWS, _STEPS // steps), _ENOUGH + 2 * len(names))
    draws = condensed.left([[_drawn(s, count, rng) for s in terms] for terms in condensed.linearized.chains])
    null = np.array([_sums(condensed, draws, name) for name in names])
    seen = np.array([_sums(condensed, condensed.residuals, name) for name in names])[:, :, 0]
    squares, measured = null[:, 0].T, seen[:, 0]
    found = []
    for i, name in enumerate(names):
        if squares[:, i].mean() < _LEAST:
            continue
        for j, lag in enumerate(_LAGS, 1):
            z = _score(null[i, j], seen[i, j], squares, measured)
            ratios = seen[i, j] / measured[i], null[i, j].mean() / squares[:, i].mean()
            found.append(SerialCorrelation(name, lag, float(ratios[0]), float(ratios[1]), z, name in between))
    return found


def _drawn(term: LinearizedFactor, draws: int, rng: np.random.Generator) -> Array:
    """Noise in the rows that are random, (steps, draws, rows): white, but for what neighbouring means share."""
    steps, rows = term.residual.shape
    if term.factor.hard:
        return np.zeros((steps, draws, rows))
    drawn = rng.standard_normal((steps, draws, rows))
    if overlap := term.factor.overlap:
        measured = [i for i in range(rows) if i not in term.factor.density]
        before = np.concatenate([rng.standard_normal((1, draws, len(measured))), drawn[:-1, :, measured]])
        share = (1 - math.sqrt(1 - 4 * overlap)) / 2  # a moving average: a + b = 1, a b = overlap
        drawn[:, :, measured] = (1 - share) * drawn[:, :, measured] + share * before
    return np.asarray(drawn * term.alive[:, None])


def _sums(condensed: Condensed, columns: list[Columns], name: str) -> Array:
    """Of products of rows of a noise with themselves and with later ones, samples that miss left out, (1 + lags, m)."""
    total = np.zeros((1 + len(_LAGS), columns[0][0].shape[1]))
    for term, part in condensed.rows(columns):
        whole = part if term.complement is None else part @ term.complement.transpose(0, 2, 1)
        for row in (i for i, other in enumerate(term.factor.noise) if other == name):
            there = slice(None) if term.complement is not None else term.alive[:, row] > 0
            r = whole[there, :, row]
            total += np.array([np.sum(r[lag:] * r[: max(len(r) - lag, 0)], axis=0) for lag in (0, *_LAGS)])
    return total


def _score(null: Array, seen: float, squares: Array, measured: Array) -> float:
    """Standard errors by which a sum is off, what sums of squares say of it taken off."""
    basis = np.column_stack([np.ones(len(null)), squares - squares.mean(axis=0)])
    slopes, _, rank, _ = np.linalg.lstsq(basis, null, rcond=None)
    freedom = len(null) - int(rank)
    width = np.sqrt(np.sum((null - basis @ slopes) ** 2) / freedom * (1 + 1 / len(null)))
    off = (seen - slopes[0] - (measured - squares.mean(axis=0)) @ slopes[1:]) / width
    return float(np.sign(off) * -special.ndtri(special.stdtr(freedom, -abs(off))))
