"""Generalized least squares of a linearized problem: estimates if noises were weighted as autocorrelated ones.

The weights of r_k = ρ r_{k−l} + white noise are those of I − A, A = κ(S + Sᵀ), with the shift S by the lag l and κ =
ρ/(1 + ρ²). With the projection P = J J⁺ on what states and parameters fit, fitted values change by y = P A (r̂ + y), and
the unknowns by J⁺A (r̂ + y), which is J⁺A r̂ to first order. As |A| ≤ 2|κ| < 1, conjugate gradients converge to y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.rows import LinearizedFactor
from spookid.statistics.condensing import Condensed

_EXACT = 0.01
"""Accuracy of changes [standard errors]."""


def change_if_weighted(condensed: Condensed, correlations: Mapping[str, tuple[int, float]]) -> Array:
    """Change of the parameters with these lags and correlations ρ of noises by their names, (n_p,)."""
    shares = {name: (lag, rho / (1 + rho**2)) for name, (lag, rho) in correlations.items()}
    terms = [term for own in condensed.linearized.chains for term in own]
    residuals = [term.whole(part) for term, part in condensed.rows(condensed.residuals)]
    starts = np.cumsum([0, *(part.size for part in residuals)])

    def fitted(flat: Array) -> tuple[Array, Array]:
        """J⁺A of a vector in the parameters, and P A of it."""
        parts = (flat[i:j].reshape(r.shape) for i, j, r in zip(starts, starts[1:], residuals, strict=False))
        wholes = [_neighbours(term, part, shares) for term, part in zip(terms, parts, strict=True)]
        own = (w if t.complement is None else w @ t.complement for t, w in zip(terms, wholes, strict=True))
        steps, left = condensed.moved([[next(own) for _ in chain] for chain in condensed.linearized.chains])
        kept = (w - term.whole(part) for w, (term, part) in zip(wholes, condensed.rows(left), strict=True))
        return steps[:, 0], np.concatenate([part.ravel() for part in kept])

    start = np.concatenate([part.ravel() for part in residuals])
    left = direction = fitted(start)[1]
    change, square = np.zeros_like(start), float(left @ left)
    slack = 1 - 2 * max((abs(kappa) for _, kappa in shares.values()), default=0.0)
    while math.sqrt(square) > _EXACT * slack:  # what is left moves no parameter by more
        image = direction - fitted(direction)[1]
        length = square / float(direction @ image)
        change, left = change + length * direction, left - length * image
        before, square = square, float(left @ left)
        direction = left + square / before * direction
    return fitted(start + change)[0]


def _neighbours(term: LinearizedFactor, part: Array, shares: Mapping[str, tuple[int, float]]) -> Array:
    """Sum of those a lag before and after each row with data, times the share of its noise."""
    found = np.zeros_like(part)
    for row, name in enumerate(term.factor.noise):
        lag, share = shares.get(name, (0, 0.0))
        if share:
            known = np.flatnonzero(term.known(row))
            later, earlier = known[lag:], known[: max(len(known) - lag, 0)]
            found[later, :, row] += share * part[earlier, :, row]
            found[earlier, :, row] += share * part[later, :, row]
    return found
