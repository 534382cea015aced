"""By how much inputs act later than their stamps say, and how well a motion tells it.

All inputs of a log share a clock, so that one lag τ is estimated for all rows of the balance of forces together, beside
the parameters: least squares, weighted by what each direction leaves as it is given, as at the null hypothesis. What a
model lacks is no white noise. The variance of τ therefore follows from sums of scores over blocks of time that tell
equally much (Ibragimov, Müller, Journal of Business and Economic Statistics 28, 2010), and the ratio of likelihoods is
corrected by it (Kent, Biometrika 69, 1982). Where what the model lacks lasts longer than a block, errors are too small.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from spookid.estimation.explained import Efforts
from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.records import dataclass

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
