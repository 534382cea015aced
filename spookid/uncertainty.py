"""How well the data determine the parameters: covariance, standard errors, and the directions they cannot see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spookid.kernels import Array

WEAK = 1.0
"""A direction is weak if changing the parameters by all of their magnitude along it moves the residuals by less than
this many standard deviations: a relative standard error of more than 100 %."""

_SMALL_SHARE = 0.1
"""Components of a direction below this share of the largest are left out of its description."""

AT_BOUND = "held at its bound"
UNOBSERVED = "the data do not determine it"
NO_FREEDOM = "no degrees of freedom are left to estimate the noise"
NO_FACTOR = "the normal equations are singular at the solution"


@dataclass(frozen=True)
class WeakDirection:
    """A combination of parameters that the data hardly see."""

    singular_value: float
    """Standard deviations by which a change of the parameters' own magnitude along it would be seen."""
    direction: Mapping[str, float]
    """Relative changes of the parameters, the largest 1."""


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """Linearized uncertainty of the estimated parameters (3.26 to 3.32, by the Schur complement)."""

    names: tuple[str, ...]
    covariance: Array
    """(n_p, n_p); NaN in the rows of parameters without a standard error."""
    covariance_sandwich: Array
    """(n_p, n_p); NaN: not computed."""
    factor: Array
    """Upper triangular R with RᵀR = TᵀT, T as in (3.32) for whitened residuals, (n_p, n_p)."""
    reasons: Mapping[str, str]
    """Why a parameter has no standard error, by its name."""
    singular_values: Array
    """Spectrum of T with each column scaled by the parameter's magnitude and the noise, descending."""
    weak: tuple[WeakDirection, ...]

    @property
    def standard_errors(self) -> Array:
        """(n_p,), NaN where there is a reason."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self) -> Array:
        """(n_p, n_p)."""
        errors = self.standard_errors
        return self.covariance / np.outer(errors, errors)


def sensitivities(
    names: Sequence[str], information: Array, noise: float, magnitudes: Array, held: NDArray[np.bool_]
) -> Sensitivities:
    """Uncertainty from the Schur complement of the states in JᵀWJ.

    Args:
        names: of the parameters, (n_p).
        information: the Schur complement TᵀT, (n_p, n_p); NaN if it could not be had.
        noise: variance of a whitened residual: cost over degrees of freedom; NaN if there are none.
        magnitudes: scale of each parameter for the spectrum, (n_p,), positive.
        held: True for parameters at a bound; the errors of the others are conditional on them, (n_p,).
    """
    n = len(names)
    reasons = {name: AT_BOUND for name, is_held in zip(names, held, strict=True) if is_held}
    free = [i for i in range(n) if not held[i]]
    empty = np.full((n, n), np.nan)
    if not np.all(np.isfinite(information)) or not np.isfinite(noise):
        reason = NO_FREEDOM if np.all(np.isfinite(information)) else NO_FACTOR
        reasons |= {names[i]: reason for i in free}
        return Sensitivities(tuple(names), empty, empty.copy(), empty.copy(), reasons, np.full(len(free), np.nan), ())
    scaled = information[np.ix_(free, free)] * np.outer(magnitudes[free], magnitudes[free]) / max(noise, _TINY)
    values, vectors = np.linalg.eigh(scaled)
    singular = np.sqrt(np.clip(values, 0.0, None))
    seen = [names[i] for i in free]
    weak = tuple(_describe(s, v, seen) for s, v in zip(singular, vectors.T, strict=True) if s < WEAK)
    covariance, unseen = _covariance(singular, vectors, magnitudes[free])
    reasons |= {name: UNOBSERVED for name, hidden in zip(seen, unseen, strict=True) if hidden}
    full = empty.copy()
    full[np.ix_(free, free)] = covariance
    return Sensitivities(
        tuple(names), full, empty.copy(), _triangular(information), reasons, singular[::-1].copy(), weak
    )


_TINY = float(np.finfo(float).tiny)
_RANK = 1e-7
"""Singular values below this share of the largest are zero to round-off: information is a difference of large sums."""


def _covariance(singular: Array, vectors: Array, magnitudes: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Covariance, and which parameters lie in directions the data do not see; their rows are NaN."""
    if not len(singular):
        return np.zeros((0, 0)), np.zeros(0, dtype=bool)
    null = singular <= _RANK * singular.max()
    # A parameter with a hundredth of its length in such a direction has no finite error.
    unseen = np.sum(vectors[:, null] ** 2, axis=1) > 1e-4
    inverse = np.where(null, 0.0, 1.0 / np.where(null, 1.0, singular))
    half = vectors * inverse * magnitudes[:, None]
    covariance = half @ half.T
    covariance[unseen, :] = np.nan
    covariance[:, unseen] = np.nan
    return covariance, unseen


def _triangular(information: Array) -> Array:
    """R factor of T by an eigendecomposition, so that a singular Schur complement has one too."""
    values, vectors = np.linalg.eigh(information)
    return np.asarray(np.linalg.qr(np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T, mode="r"))


def _describe(singular: float, vector: Array, names: Sequence[str]) -> WeakDirection:
    largest = vector[np.argmax(np.abs(vector))]
    shares = vector / largest
    order = np.argsort(-np.abs(shares))
    return WeakDirection(float(singular), {names[i]: float(shares[i]) for i in order if abs(shares[i]) >= _SMALL_SHARE})
