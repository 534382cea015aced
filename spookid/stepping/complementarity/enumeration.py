"""Every solution of a small linear complementarity problem w = M z + q, 0 ≤ z ⟂ w ≥ 0, all active sets at once."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from spookid.kernels.kernel import Array
from spookid.stepping.complementarity.status import Mask

MOST_ROWS = 10
"""Of a problem whose active sets are enumerated: 1024 of them."""
_SINGULAR = 1e-12
"""Determinants below this share of the product of the rows' lengths are zero."""
_NEGATIVE = 1e-9
"""Share of a solution's largest entry that is no sign."""


def is_monotone(M: Array) -> bool:
    """True if the symmetric part of M is positive definite: the problem then has one solution for every q."""
    try:
        np.linalg.cholesky(M + M.T)
    except np.linalg.LinAlgError:
        return False
    return True


def solved(matrices: Array, right: Array) -> Array:
    """Solutions (k, n) of k systems, (k, n, n) and (k, n); NaN where a matrix is singular."""
    lengths = np.prod(np.sqrt(np.sum(matrices**2, axis=2)), axis=1)
    regular = np.abs(np.linalg.det(matrices)) > _SINGULAR * lengths
    found = np.full(right.shape, np.nan)
    found[regular] = np.linalg.solve(matrices[regular], right[regular, :, None])[:, :, 0]
    return found


def candidates(M: Array, q: Array) -> tuple[Array, Mask]:
    """Solutions z (k, n) that stand alone on their active sets, and those sets (k, n); rows and columns are scaled."""
    active = _active_sets(len(q))
    # Columns of M where w = 0, of −I where z = 0: the unknowns are z and w where they may differ from zero.
    both = solved(np.where(active[:, None, :], M, -np.eye(len(q))), np.broadcast_to(-q, active.shape))
    size = np.max(np.abs(both), axis=1, initial=0.0)
    holds = np.min(both, axis=1, initial=0.0) >= -_NEGATIVE * size
    return np.where(active[holds], np.maximum(both[holds], 0.0), 0.0), active[holds]


@lru_cache(maxsize=MOST_ROWS + 1)
def _active_sets(n: int) -> Mask:
    """(2ⁿ, n)."""
    return np.array(list(product((False, True), repeat=n)), dtype=bool)
