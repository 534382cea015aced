"""Least squares of rows that a first pass weighs, with errors that hold where these are correlated."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spookid.kernels.kernel import Array
from spookid.results.motion import rms
from spookid.statistics.regrouping import Grouping, regrouped
from spookid.studies.regression_rows import Rows

PASSES = 3
"""Of least squares, each weighted by what the one before leaves."""
_LAGS = 4
"""Rows, of half a period of the cutoff each, over which what is left is taken to be correlated."""
_SEEN = 1e-10
"""Share of the largest eigenvalue of the scaled information below which nothing is seen."""
_UNSEEN = 1e-4
"""A parameter has no error if so much of its squared length lies in directions that are not seen."""


def errors(rows: Sequence[Rows]) -> Array:
    """Root mean square of what is left of each row, (m,)."""
    left = np.concatenate([one.left for one in rows])
    return np.array([rms(column) for column in left.T])


def linear(rows: Sequence[Rows]) -> tuple[Grouping, Array, Array, list[Rows]]:
    """Which columns are independent, their coefficients, the spread of each row, and what is left with the slopes."""
    grouping = regrouped(np.vstack([one.slopes.reshape(-1, one.slopes.shape[2]) for one in rows]))
    chosen = [Rows(one.left, one.slopes[:, :, list(grouping.kept)]) for one in rows]
    left = list(chosen)
    weights, at = np.ones(rows[0].left.shape[1]), np.zeros(len(grouping.kept))
    for _ in range(PASSES):
        at = _solved(chosen, weights)
        left = [Rows(one.left + one.slopes @ at, one.slopes) for one in chosen]
        weights = spread(left)
    return grouping, at, weights, left


def _solved(rows: Sequence[Rows], weights: Array) -> Array:
    """Least squares of rows over weights, columns scaled to length one."""
    matrix = np.vstack([(one.slopes / weights[:, None]).reshape(-1, one.slopes.shape[2]) for one in rows])
    right = -np.concatenate([(one.left / weights).ravel() for one in rows])
    lengths = np.linalg.norm(matrix, axis=0)
    return np.asarray(np.linalg.lstsq(matrix / lengths, right, rcond=None)[0] / lengths)


def spread(rows: Sequence[Rows]) -> Array:
    """Of each row, with the degrees of freedom that unknowns have taken; a row that is explained exactly has next to
    none."""
    found, count = errors(rows), sum(one.left.size for one in rows)
    free = max(count - rows[0].slopes.shape[2], 1)
    found *= math.sqrt(count / free)
    return np.maximum(found, max(1e-12 * float(found.max()), 1e-300))


def covariance(rows: Sequence[Rows], weights: Array, known: Array | None = None) -> Array:
    """H⁻¹ (S + P) H⁻¹ with S of scores that are correlated over some rows, and P what is known beforehand."""
    n = rows[0].slopes.shape[2]
    prior = np.zeros((n, n)) if known is None else known
    information, scatter = prior.copy(), prior.copy()
    for one in rows:
        slopes, left = one.slopes / weights[:, None], one.left / weights
        information += np.einsum("kmi,kmj->ij", slopes, slopes)
        scores = np.einsum("kmi,km->ki", slopes, left)
        scatter += scores.T @ scores
        for lag in range(1, min(_LAGS, len(scores) - 1) + 1):
            product = (1 - lag / (_LAGS + 1)) * scores[lag:].T @ scores[:-lag]
            scatter += product + product.T
    return _sandwich(information, scatter)


def _sandwich(information: Array, scatter: Array) -> Array:
    """With NaN in the place of what is not seen."""
    scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    sizes, directions = np.linalg.eigh(information * np.outer(scale, scale))
    seen = sizes > _SEEN * sizes[-1]
    inverse = (directions[:, seen] / sizes[seen]) @ directions[:, seen].T * np.outer(scale, scale)
    covariance = np.asarray(inverse @ scatter @ inverse)
    hidden = np.sum(directions[:, ~seen] ** 2, axis=1) > _UNSEEN
    covariance[hidden, :] = covariance[:, hidden] = np.nan
    return covariance


def stacked(rows: Sequence[Rows], weights: Array, prior: Array, slopes: Array) -> Rows:
    """One below the other, weighted, those of priors last."""
    n = slopes.shape[1]
    left = [(one.left / weights).ravel() for one in rows]
    columns = [(one.slopes / weights[:, None]).reshape(-1, n) for one in rows]
    return Rows(np.concatenate([*left, prior]), np.vstack([*columns, slopes]))
