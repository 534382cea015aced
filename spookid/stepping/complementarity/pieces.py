"""The law of bounded reactions: every solution of it, piece by piece, and which one is taken where there are several.

A piece is a mode for each reaction and a sign for each load that a slipping one feels; on it the law is linear. The
solution taken is the one nearest the last reactions, in the norm √Σ R_ii (u_i − u_i,last)², which is the energy that
each difference by itself gives the mechanism, and does not depend on units.

The law has one solution if R + Rᵀ is positive definite and bounds change little enough. In units in which R_ii = 1,
reactions between given bounds change by at most ‖R‖/σ times the change of those bounds, with σ the smallest eigenvalue
of (R + Rᵀ)/2: where r stays 0, σ|du|² ≤ duᵀ R du = Σ du_i (R du)_i over the rest, which is at its bounds. Bounds change
by at most G|du| with G = |K| + W|Λ|; so if ‖R‖ ‖G‖ < σ, two solutions are one.

Laws of up to ``MOST_PIECES`` pieces are enumerated: those of 10 rows as in (2.24), counting one row for each push,
three for each friction and one for each load, have fewer; two hinges with five loads each have 4225. Beyond that, and
where R is singular, so that reactions are not determined one by one, the solution taken is the one that Newton's method
reaches from the last reactions: usually the one nearby.

The law of impulses with bounds that depend on them: dry friction and unilateral constraints.

Each reaction u_i acts along a rate r_i, and everything that it changes is affine in u (m reactions, l loads):

    rates r = R u + r₀,      loads λ = Λ u + λ₀,      bounds L = max(0, K u + c + W|λ|), W ≥ 0.

    friction:    −L_i ≤ u_i ≤ L_i,   u_i = −L_i where r_i > 0,   u_i = L_i where r_i < 0;
    unilateral:  0 ≤ u_i ⟂ r_i ≥ 0,
    disc:        |u_D| ≤ L, u_D = −L r_D/|r_D| where r_D ≠ 0, for pairs D of friction with one bound.

That is u = clip(u − ρ r, lower, upper) for any ρ > 0, one piecewise-linear equation a reaction, and of a disc the point
of it nearest u_D − ρ r_D.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache
from itertools import product

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.records import dataclass

_DEPENDENT = 1e-11
"""Singular values below this share of the largest are zero."""
_LOCKED = 1e-9
"""Share of the largest R_ii that stands in for smaller ones: a reaction that cannot move its own rate."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """The arrays of the problem."""

    R: Array
    """(m, m), positive diagonal: what a reaction does to its own rate."""
    rates: Array
    """r₀, (m,)."""
    loads: Array
    """Λ, (l, m)."""
    loads_before: Array
    """λ₀, (l,)."""
    K: Array
    """(m, m)."""
    constant: Array
    """c, (m,)."""
    W: Array
    """(m, l)."""
    unilateral: Mask
    """Mask of the reactions that only push, (m,)."""
    discs: Integers = field(default_factory=lambda: np.zeros((0, 2), dtype=np.intp))
    """Pairs of reactions whose bound is that of both together, (d, 2)."""
    dependent: bool = False
    """True if R is singular, as when more joints rub than can move: the reactions then change as little as they can."""

    def bound(self, u: Array) -> Array:
        """L(u), (m,)."""
        return np.maximum(self.K @ u + self.constant + self.W @ np.abs(self.loads @ u + self.loads_before), 0.0)

    def widening(self, u: Array) -> Array:
        """∂L/∂u where L > 0, (m, m)."""
        load = self.loads @ u + self.loads_before
        return self.K + (self.W * np.where(load < 0, -1.0, 1.0)) @ self.loads


@dataclass(frozen=True, eq=False)
class BoundedSolution:
    """What was found; only if it is ``solved`` is it a solution."""

    solved: bool
    u: Array
    """(m,)."""
    residual: float
    """Largest error of u = clip(u − ρ r, lower, upper), ρ = 1/R_ii, in the unit of u."""


NOTHING = BoundedSolution(True, np.zeros(0), 0.0)
"""The solution of a problem without reactions."""


def own_response(R: Array) -> Array:
    """What each reaction does to its own rate, R_ii, (m,); never 0."""
    own = np.abs(R.diagonal())
    return np.asarray(np.maximum(own, _LOCKED * own.max() or 1.0))


def is_dependent(R: Array) -> bool:
    """True if R, scaled by its diagonal, is singular."""
    own = np.sqrt(np.maximum(np.abs(R.diagonal()), np.finfo(float).tiny))
    return bool(np.linalg.matrix_rank(R / own[:, None] / own, tol=_DEPENDENT) < len(R))


STICKING = 0
"""Mode of friction inside its bounds, at rate 0, and of a unilateral constraint that pushes."""
FORWARD = 1
"""Mode of friction that slips at a positive rate, at its lower bound −L."""
BACKWARD = -1
"""Mode of friction that slips at a negative rate, at its upper bound L."""
OPEN = 2
"""Mode of a unilateral constraint without reaction."""

MOST_PIECES = 5000
_ACCURATE = 1e-9
"""Largest error of a solution, as a share of the largest bound or reaction."""
_SINGULAR = 1e-12
"""Determinants below this share of the product of the rows' lengths are zero."""


def distance(problem: Bounded, u: Array, last: Array) -> float:
    """√Σ R_ii (u_i − u_i,last)²."""
    return float(np.sqrt(own_response(problem.R) @ (u - last) ** 2))


def is_unique(p: Bounded) -> bool:
    """True if the law is known to have one solution; see above."""
    own = np.sqrt(own_response(p.R))
    widening = (np.abs(p.K) + p.W @ np.abs(p.loads)) * own[:, None]
    if not widening.any():
        return _is_monotone(p.R)
    scaled, widening = p.R / np.outer(own, own), (widening / own).ravel()
    even = scaled + scaled.T
    # Gershgorin's bound is exact for two reactions; eigenvalues are needed for more, and seldom.
    response, growth, bound = scaled.ravel(), widening @ widening, 2 * scaled.diagonal() - np.abs(even).sum(axis=1) / 2
    limit = math.sqrt((response @ response) * growth)
    return bool(bound.min() > limit or (len(own) > 2 and np.linalg.eigvalsh(even)[0] / 2 > limit))


def nearest(p: Bounded, last: Array) -> Array | None:
    """The solution nearest ``last``, (m,); None if the law has too many pieces, or no solution on any of them."""
    felt = tuple(tuple(np.flatnonzero(row).tolist()) for row in p.W)
    table = _table(tuple(p.unilateral.tolist()), felt, len(p.loads))
    if table is None:
        return None
    modes, signs = table
    u = _solved(*_systems(p, modes, signs))
    u = u[_errors(p, u) <= _ACCURATE * np.max(np.abs(u), axis=1, initial=0.0)]
    return u[np.argmin(((u - last) ** 2) @ own_response(p.R))] if len(u) else None


def _is_monotone(R: Array) -> bool:
    """True if the symmetric part of R is positive definite: with given bounds the law then has one solution."""
    try:
        np.linalg.cholesky(R + R.T)
    except np.linalg.LinAlgError:
        return False
    return True


def _solved(matrices: Array, right: Array) -> Array:
    """Solutions (k, n) of k systems, (k, n, n) and (k, n); NaN where a matrix is singular."""
    lengths = np.prod(np.sqrt(np.sum(matrices**2, axis=2)), axis=1)
    regular = np.abs(np.linalg.det(matrices)) > _SINGULAR * lengths
    found = np.full(right.shape, np.nan)
    found[regular] = np.linalg.solve(matrices[regular], right[regular, :, None])[:, :, 0]
    return found


def _systems(p: Bounded, modes: Array, signs: Array) -> tuple[Array, Array]:
    """The equations of each piece: r_i = 0 where it sticks, u_i = 0 where open, u_i = ∓L_i where it slips."""
    slip = np.where(modes == FORWARD, 1.0, np.where(modes == BACKWARD, -1.0, 0.0))[:, :, None]
    weights = signs[:, None, :] * p.W
    slope = p.K + weights @ p.loads
    constant = p.constant + weights @ p.loads_before
    own, sticks = own_response(p.R), modes == STICKING
    matrices = np.where(sticks[:, :, None], p.R / own[:, None], np.eye(len(p.R)) + slip * slope)
    return matrices, np.where(sticks, -p.rates / own, -slip[:, :, 0] * constant)


def _errors(p: Bounded, u: Array) -> Array:
    """Largest |u − clip(u − r/R_ii, lower, upper)| of each row of ``u``, (k,)."""
    wanted = u - (u @ p.R.T + p.rates) / own_response(p.R)
    limit = np.maximum(u @ p.K.T + p.constant + np.abs(u @ p.loads.T + p.loads_before) @ p.W.T, 0.0)
    lower, upper = np.where(p.unilateral, 0.0, -limit), np.where(p.unilateral, np.inf, limit)
    return np.asarray(np.max(np.abs(u - np.clip(wanted, lower, upper)), axis=1))


@lru_cache(maxsize=16)
def _table(unilateral: tuple[bool, ...], felt: tuple[tuple[int, ...], ...], loads: int) -> tuple[Array, Array] | None:
    """Modes (k, m) and signs of loads (k, l) of every piece; None if there are too many.

    Args:
        felt: which loads widen the bound of each reaction.
    """
    choices = [(STICKING, OPEN) if pushes else (STICKING, FORWARD, BACKWARD) for pushes in unilateral]
    if np.prod([float(len(c)) for c in choices]) > MOST_PIECES:
        return None
    modes: list[tuple[int, ...]] = []
    signs: list[tuple[float, ...]] = []
    for choice in product(*choices):
        matter = {load for mode, row in zip(choice, felt, strict=True) if mode in (FORWARD, BACKWARD) for load in row}
        if len(modes) + 2.0 ** len(matter) > MOST_PIECES:
            return None
        for pattern in product(*((-1.0, 1.0) if load in matter else (1.0,) for load in range(loads))):
            modes.append(choice)
            signs.append(pattern)
    return np.array(modes, dtype=float), np.array(signs).reshape(len(modes), loads)
