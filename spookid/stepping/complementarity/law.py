"""The law of impulses with bounds that depend on them: dry friction and unilateral constraints.

Each reaction u_i acts along a rate r_i, and everything that it changes is affine in u (m reactions, l loads):

    rates r = R u + r₀,      loads λ = Λ u + λ₀,      bounds L = max(0, K u + c + W|λ|), W ≥ 0.

    friction:    −L_i ≤ u_i ≤ L_i,   u_i = −L_i where r_i > 0,   u_i = L_i where r_i < 0;
    unilateral:  0 ≤ u_i ⟂ r_i ≥ 0,
    disc:        |u_D| ≤ L, u_D = −L r_D/|r_D| where r_D ≠ 0, for pairs D of friction with one bound.

That is u = clip(u − ρ r, lower, upper) for any ρ > 0, one piecewise-linear equation a reaction, and of a disc the point
of it nearest u_D − ρ r_D.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spookid.kernels.kernel import Array, Integers, Mask

_SINGULAR = 1e-11
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
    return bool(np.linalg.matrix_rank(R / own[:, None] / own, tol=_SINGULAR) < len(R))
