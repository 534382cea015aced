"""Linear regression with a normal prior on some unknowns, and standard errors from a jackknife over blocks of time.

The equations of n channels at N instants, each divided by the gain of its channel, are

    e(δ, φ) = r + J δ + Y φ exp(−κ δ),

with unknowns δ ~ N(d, L Lᵀ) that have a prior, and φ without a prior. δ is small, and enters linearly. The effect of φ
may be large, and is divided by the gain, whose logarithm depends on δ by κ: if all prior quantities may be scaled
together with the gains, J δ = 0 for that direction, and φ alone determines the scale.

Only products of columns, summed over blocks of time, are needed. They are combined for each iterate, weight and block,
so that a fit takes one pass over the data. Residuals are correlated in time: each channel is weighted by its variance
and its effective number of independent samples. Standard errors come from the jackknife over blocks that are long
compared with the correlation time, with Student's factor for the number of blocks.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.precision import NEWTON, NO_INFORMATION
from spookid.records import dataclass
from spookid.statistics.variances import student
from spookid.statistics.weak_directions import RESOLVED

_FINEST = 96
"""Blocks that products are summed over; fewer are sums of these."""
FEWEST = 8
"""Blocks with which the jackknife says something."""
_MOST = 24
"""Most blocks: with more, each is shorter, and correlations over its length are missed."""
_LASTING = 3.0
"""Correlation times that a block lasts at least."""
_ROUNDS = 2
"""In which weights follow the correlation of residuals."""
_FARTHEST = 0.3
"""Change of a gain's logarithm in one iteration, over which rows are straight."""
_SETTLED = 1e-9
_LEAST = 1e-3
"""Deviations of the noise by which a unit of an unknown moves all rows together, if they see it at all."""


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal prior of n_p parameters, for changes δ from the point of linearization."""

    mean: Array
    """d, (n_p,)."""
    root: Array
    """L, (n_p, k)."""

    @property
    def covariance(self) -> Array:
        """L Lᵀ, (n_p, n_p)."""
        return self.root @ self.root.T


@dataclass(frozen=True, eq=False)
class Rows:
    """N instants of n channels."""

    t: Array
    """[s], (N,)."""
    residuals: Array
    """r, (N, n)."""
    slopes: Array
    """J, (N, n, n_p)."""
    columns: Array
    """Y, (N, n, p)."""
    gains: Array
    """κ, (n, n_p)."""
    counted: Array
    """1 where a row counts, 0 where it does not, (N, n)."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Result of a regression: estimates of the free φ (p_f) and of δ."""

    estimates: Array
    """φ, (p,), those that were given too."""
    covariance: Array
    """Covariance of φ, (p, p): 0 for given values, NaN for unidentifiable ones."""
    of_belief: Array
    """The part of it that what is known from the prior leaves open, (p, p)."""
    found: Normal
    """δ afterwards."""
    z_scores: Array
    """δ − d over the standard deviation it has if all that was said of rows and δ is true, (n_p,)."""
    sizes: Array
    """Root mean square of e, (n,)."""
    blocks: int
    """How many errors are from."""


def regress(rows: Rows, belief: Normal, given: Array, expected: Array) -> Regression:
    """Fit a regression with prior. ``given``: known φ, NaN for free ones, (p,); ``expected``: initial sizes of e for
    the weights, NaN for those of r, (n,)."""
    return _Fit(rows, belief, given).result(expected)


class _Fit:
    """Products of the columns (r + J d, J L, Y) of each channel in each block, and the unknowns (z, φ_free)."""

    def __init__(self, rows: Rows, belief: Normal, given: Array) -> None:
        self._rows, self._belief = rows, belief
        self._free = np.flatnonzero(np.isnan(given))
        self._phi = np.where(np.isnan(given), 0.0, given)
        basis, self._count = belief.root, belief.root.shape[1]
        self._z = np.zeros(self._count)
        self._alike = np.ones(rows.residuals.shape[1])
        self._gain = rows.gains @ basis, rows.gains @ belief.mean
        first = rows.residuals + rows.slopes @ belief.mean
        self._columns = np.concatenate([first[:, :, None], rows.slopes @ basis, rows.columns], axis=2)
        self._columns *= rows.counted[:, :, None]
        self._edges = np.linspace(0, len(rows.t), min(_FINEST, len(rows.t)) + 1).astype(int)
        parts = [self._columns[a:b].transpose(1, 0, 2) for a, b in pairwise(self._edges)]
        self._products = np.array([part.transpose(0, 2, 1) @ part for part in parts])

    @property
    def _scales(self) -> Array:
        """exp(κ δ), (n,)."""
        slope, start = self._gain
        return np.asarray(np.exp(start + slope @ self._z))

    def _combined(self) -> tuple[Array, Array]:
        """e and its slopes in the unknowns as combinations of the columns: (n, q), (n, q, K)."""
        scales, phi, count = self._scales, self._phi, self._count
        n, p = len(scales), len(phi)
        value, slopes = np.zeros((n, 1 + count + p)), np.zeros((n, 1 + count + p, count + len(self._free)))
        for j, scale in enumerate(scales):
            value[j] = np.concatenate([[1.0], self._z, phi / scale])
            slopes[j, 1 : 1 + count, :count] = np.eye(count)
            slopes[j, 1 + count :, :count] = np.outer(-phi / scale, self._gain[0][j])
            slopes[j, 1 + count + self._free, count + np.arange(len(self._free))] = 1 / scale
        return value, slopes

    def _equations(self, products: Array, variances: Array) -> tuple[Array, Array]:
        """Gradient and information of rows, (..., K), (..., K, K)."""
        value, slopes = self._combined()
        weighted = products / variances[:, None, None]
        across = slopes.transpose(0, 2, 1)
        right = across @ (weighted @ value[:, :, None])
        return np.sum(right[..., 0], axis=-2), np.sum(across @ weighted @ slopes, axis=-3)

    @cached_property
    def _prior(self) -> Array:
        return np.append(np.ones(self._count), np.zeros(len(self._free)))

    def _variances(self, products: Array) -> Array:
        value, _ = self._combined()
        counted = np.maximum(self._rows.counted.sum(axis=0), 1.0)
        found = np.sum(value * (products @ value[:, :, None])[:, :, 0], axis=1) / counted
        return np.asarray(np.maximum(found, np.finfo(float).eps * np.max(found, initial=1e-300)))

    def result(self, expected: Array) -> Regression:
        """Iterate, first as if all samples were independent, then compute standard errors."""
        whole = self._products.sum(axis=0)
        known = np.where(expected > 0, expected, np.nan) ** 2  # what φ does is no noise
        variances = self._converged(whole, np.fmin(self._variances(whole), known))
        for _ in range(_ROUNDS):
            self._alike = np.array([correlation_time(one) for one in self._residuals().T])
            variances = self._converged(whole, self._alike * variances)
        return self._told(self._alike * variances)

    def _converged(self, whole: Array, variances: Array) -> Array:
        """Gauss–Newton, each step halved until it descends, weights after each; the variances of e."""
        found = variances
        for _ in range(NEWTON):
            right, information = self._equations(whole, variances)
            right = right + self._prior * np.append(self._z, np.zeros(len(self._free)))
            information = information + np.diag(self._prior)
            step = self._descended(whole, variances, -_inverse(information)[0] @ right)
            before, found = variances, self._variances(whole)
            variances = self._alike * found
            if np.max(np.abs(variances / before - 1)) < _SETTLED**0.5 and step @ information @ step < _SETTLED:
                break
        return found

    def _descended(self, products: Array, variances: Array, step: Array) -> Array:
        """Take as much of a step as lessens the cost; that part."""
        z, phi, cost = self._z, self._phi, self._cost(products, variances)
        farthest = np.max(np.abs(self._gain[0] @ step[: self._count]), initial=0.0)
        step = step * min(1.0, _FARTHEST / farthest) if farthest > 0 else step
        before = np.append(z, phi[self._free])
        while np.any(before + step != before):
            self._z, self._phi = z + step[: self._count], phi.copy()
            self._phi[self._free] += step[self._count :]
            if self._cost(products, variances) <= cost:
                return step
            step = step / 2
        self._z, self._phi = z, phi
        return np.zeros_like(step)

    def _cost(self, products: Array, variances: Array) -> float:
        value, _ = self._combined()
        squares = np.sum(value * (products @ value[:, :, None])[:, :, 0], axis=1)
        return float(np.sum(squares / variances) + self._z @ self._z)

    def _told(self, variances: Array) -> Regression:
        merged = self._merged()
        right, parts = self._equations(merged, variances)
        information = parts.sum(axis=0)
        prior = np.diag(self._prior)
        inverse, unseen = _inverse(information + prior)
        blocks = len(merged)
        changes = np.array([_inverse(information + prior - own)[0] @ g for g, own in zip(right, parts, strict=True)])
        wide = student(blocks - 1) ** 2 if blocks > 1 else np.nan
        of_rows = wide * (blocks - 1) / blocks * changes.T @ changes
        of_belief = inverse @ prior @ inverse
        basis, count, p = self._belief.root, self._count, len(self._phi)
        errors, own = np.zeros((2, p, p))
        place = np.ix_(self._free, self._free)
        errors[place], own[place] = (of_rows + of_belief)[count:, count:], of_belief[count:, count:]
        for i in self._free[unseen[count:]]:
            errors[i], errors[:, i], own[i], own[:, i] = np.nan, np.nan, np.nan, np.nan
        moved = basis @ (inverse @ information @ prior @ information @ inverse + of_rows)[:count, :count] @ basis.T
        shift = basis @ self._z
        widths = np.sqrt(np.maximum(np.diag(moved), 0.0))
        z_scores = np.divide(shift, widths, out=np.zeros_like(shift), where=widths > 0)
        return Regression(
            self._phi.copy(),
            errors,
            own,
            self._found(of_belief + _wider(inverse @ information @ inverse, of_rows, information)),
            z_scores,
            np.sqrt(variances / self._alike),
            blocks,
        )

    def _found(self, covariance: Array) -> Normal:
        """δ afterwards."""
        values, vectors = np.linalg.eigh(covariance[: self._count, : self._count])
        root = self._belief.root @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return Normal(self._belief.mean + self._belief.root @ self._z, root)

    def _merged(self) -> Array:
        """Products of as many blocks as are long against the correlation of residuals."""
        t = self._rows.t
        lasting = np.max(self._alike) * (t[-1] - t[0]) / (len(t) - 1)
        most = int(np.clip((t[-1] - t[0]) / (_LASTING * lasting), 2, _MOST))
        count = min(len(self._products), most)
        starts = np.linspace(0, len(self._products), count + 1).astype(int)[:-1]
        return np.asarray(np.add.reduceat(self._products, starts, axis=0))

    def _residuals(self) -> Array:
        """e, (N, n)."""
        return np.asarray(np.sum(self._columns * self._combined()[0], axis=2))


def _wider(plain: Array, jackknife: Array, information: Array) -> Array:
    """The covariance for white residuals, as much wider as the jackknife has it in the mean of all directions: its own
    matrix has the rank of its blocks. As ``Seen.joint``."""
    told = float(np.sum(plain * information))
    factor = float(np.sum(jackknife * information)) / told if told > 0 else 1.0
    return np.asarray(max(factor, 1.0) * plain) if np.isfinite(factor) else plain


def correlation_time(values: Array) -> float:
    """Number of samples that count as one: 1 + 2 Σ ρ_k while the correlation ρ_k is positive."""
    centred = values - values.mean()
    size = 2 ** int(np.ceil(np.log2(2 * len(values))))
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: len(values)]
    if not correlation[0] > 0:
        return 1.0
    correlation = correlation / correlation[0]
    below = np.flatnonzero(correlation <= 0)
    return float(1 + 2 * correlation[1 : int(below[0]) if below.size else None].sum())


def _inverse(information: Array) -> tuple[Array, Array]:
    """Inverse in the directions that are seen, 0 in others, (K, K), and which unknowns are unseen, (K,)."""
    diagonal = np.sqrt(np.maximum(np.diag(information), 0.0))
    scales = np.where(diagonal > _LEAST, diagonal, np.inf)
    values, vectors = np.linalg.eigh(information / np.outer(scales, scales))
    seen = values > NO_INFORMATION * values[-1]
    half = vectors[:, seen] / np.sqrt(values[seen]) / scales[:, None]  # no change of what is not identifiable
    return half @ half.T, np.sum(vectors[:, ~seen] ** 2, axis=1) > RESOLVED
