"""Errors of what hangs on several parameters, of which the data may see no more than combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spookid.kernels.arrays import Array
from spookid.records import dataclass

UNOBSERVED = "the data do not determine it"
CONSTRAINED = "the constraints determine it"
RESOLVED = 1e-4
"""Share of a squared direction from which on what lies in unseen directions makes it unseen."""
LEADS = 0.5
"""Share of the variance from which on a number is mostly known from priors."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Covariances in the space of the parameters that the data see: 0 in all directions that they do not."""

    covariance: Array
    """(n_p, n_p)."""
    scatter: Array
    """That of the block jackknife, (n_p, n_p)."""
    hidden: Array
    """Unseen directions, of parameters over their magnitudes, times these magnitudes, (k, n_p)."""
    magnitudes: Array
    """Of the parameters, 0 of those that are held, (n_p,)."""
    priors: Array
    """What the uncertainty of priors adds to the covariance, (n_p, n_p)."""
    raised_from: float = np.inf
    """Ratio of the jackknife's standard error from which on it is taken."""

    def error(self, slope: Array) -> float:
        """Standard error of an expression with this slope in the parameters (n_p,); NaN if the data do not see it."""
        length = float(np.sum((self.magnitudes * slope) ** 2))
        if not np.all(np.isfinite(self.covariance)) or np.sum((self.hidden @ slope) ** 2) > RESOLVED * length:
            return float("nan")
        variance, scattered = (float(slope @ matrix @ slope) for matrix in (self.covariance, self.scatter))
        is_raised = scattered > self.raised_from**2 * variance
        return float(np.sqrt(max(scattered if is_raised else variance, 0.0)))

    @property
    def joint(self) -> Array:
        """Covariance of all parameters together, (n_p, n_p): what the data leave open is as much wider as the block
        jackknife finds it in the mean of all directions that the data tell, if it does.

        The jackknife's own matrix has the rank of its blocks, and errors that are raised one by one lose what is known
        of combinations; one factor, as of a number of independent samples, keeps these.
        """
        axes, sizes = _axes(self.covariance, np.where(self.magnitudes > 0, self.magnitudes, 1.0))
        over = (axes / sizes).T

        def total(matrix: Array) -> float:
            return float(np.einsum("ij,jk,ik->", over, matrix, over))

        told = len(over) - total(self.priors)
        if not (np.all(np.isfinite(self.scatter)) and told > RESOLVED):
            return self.covariance
        factor = (total(self.scatter) - total(self.priors)) / told
        return np.asarray(self.priors + max(factor, 1.0) * (self.covariance - self.priors))


def _axes(covariance: Array, magnitudes: Array) -> tuple[Array, Array]:
    """Principal axes u of parameters over their magnitudes and standard deviations d along them: with axes u/magnitude
    over d the covariance is the identity; directions without variance are left out."""
    variances, axes = np.linalg.eigh(covariance / np.outer(magnitudes, magnitudes))
    open_ones = variances > np.finfo(float).eps * len(magnitudes) * np.max(variances, initial=0.0)
    return axes[:, open_ones] / magnitudes[:, None], np.sqrt(variances[open_ones])


def root_of(covariance: Array, magnitudes: Array) -> Array:
    """L with L Lᵀ = covariance, (n_p, k), of as many columns as it has directions with a variance."""
    axes, sizes = _axes(covariance, magnitudes)
    return np.asarray(axes * (magnitudes**2)[:, None] * sizes)


def prior_share(slopes: Mapping[str, float], error: float, names: Sequence[str], seen: Seen | None) -> float:
    """Share of an expression's variance that is the uncertainty of priors, from 0 to 1: 1 if the data add nothing to
    them. NaN if it is not known.

    With P the covariance, and the information that of data and priors, P = P I_data P + P I_prior P. It is that of
    white noise also where the standard error was raised to the jackknife's: a larger error is no larger share of the
    data.

    Args:
        slopes: in the parameters on which it depends.
        error: the standard error; the share is unknown where it is NaN, and 0 where it is 0.
        names: of the parameters that were estimated.
    """
    if seen is None or not np.isfinite(error):
        return float("nan")
    slope = np.array([slopes.get(name, 0.0) for name in names])
    variance = float(slope @ seen.covariance @ slope)
    return float(min(slope @ seen.priors @ slope / variance, 1.0)) if error > 0 and variance > 0 else 0.0


def of_priors(seen: Seen, sizes: Array) -> Array:
    """Directions of parameters over their sizes that priors tell more of than data do, of length one, (k, n_p).

    With P = L Lᵀ the covariance, and what priors add to it P I_prior P, the eigenvectors u of Lᵀ I_prior L above a half
    are the directions L u.
    """
    if not (np.all(np.isfinite(seen.covariance)) and np.all(np.isfinite(seen.priors))):
        return np.zeros((0, len(sizes)))
    scale = np.outer(sizes, sizes)
    variances, axes = np.linalg.eigh(seen.covariance / scale)
    open_ones = variances > np.finfo(float).eps * len(sizes) * np.max(variances, initial=0.0)
    widths = np.sqrt(variances[open_ones])
    root = axes[:, open_ones]
    shares, found = np.linalg.eigh((root / widths).T @ (seen.priors / scale) @ (root / widths))
    directions = ((root * widths) @ found[:, shares > LEADS]).T
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def error_of(
    slopes: Mapping[str, float], names: Sequence[str], covariance: Array, reasons: Mapping[str, str], seen: Seen | None
) -> tuple[float, str]:
    """Standard error of an expression, and why it has none.

    Args:
        slopes: in those parameters on which it depends; others than ``names`` are certain.
        names: of the parameters that were estimated.
        covariance: NaN where there are reasons.
        seen: None: a parameter without an error leaves the expression without one.
    """
    slopes = {name: s for name, s in slopes.items() if reasons.get(name) != CONSTRAINED}
    slope = np.array([slopes.get(name, 0.0) for name in names])
    rows = np.flatnonzero(slope)
    without = {name: reasons[name] for name in slopes if slopes[name] and name in reasons}
    if not without:
        part = slope[rows]
        return float(np.sqrt(max(part @ covariance[np.ix_(rows, rows)] @ part, 0.0))) if rows.size else 0.0, ""
    error = float("nan") if seen is None or set(without.values()) != {UNOBSERVED} else seen.error(slope)
    if np.isfinite(error):
        return error, ""
    return error, next(iter(without.values()))
