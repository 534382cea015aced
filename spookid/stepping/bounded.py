"""The law of bounded reactions, and its solution near the last reactions.

Each reaction u_i acts along a rate r_i, and everything that it changes is affine in u (m reactions, l loads):

    rates r = R u + r₀,      loads λ = Λ u + λ₀,      bounds L = max(0, K u + c + W|λ|), W ≥ 0.

    friction:    −L_i ≤ u_i ≤ L_i,   u_i = −L_i where r_i > 0,   u_i = L_i where r_i < 0;
    unilateral:  0 ≤ u_i ⟂ r_i ≥ 0,
    disc:        |u_D| ≤ L, u_D = −L r_D/|r_D| where r_D ≠ 0, for pairs D of friction with one bound.

That is u = clip(u − ρ r, lower, upper) for any ρ > 0, one piecewise-linear equation a reaction, and of a disc the point
of it nearest u_D − ρ r_D.

Newton's method with a line search finds reactions that obey the law, from the last ones, from none, or from those of
Lemke's method. The law has one solution if R + Rᵀ is positive definite and bounds change little with u; of several it
is one near the last reactions.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.scipy_parts import lapack
from spookid.records import dataclass
from spookid.stepping import lemke

DEPENDENT = 1e-11
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
    return bool(np.linalg.matrix_rank(R / own[:, None] / own, tol=DEPENDENT) < len(R))


_MOST_NEWTON = 30
_SMALLEST_SHARE = 1e-4
"""Of a Newton step."""
_SETTLED = 1e-11
"""Largest error in the reactions, as a share of the largest bound or reaction."""
_dgesv = lapack.dgesv


def solve(problem: Bounded, guess: Array) -> BoundedSolution:
    """The solution that the methods reach from ``guess``, (m,)."""
    newton = _Newton(problem)
    found = newton.solve(guess)
    if found.solved or not np.isfinite(problem.rates).all():
        return found
    for start in (np.zeros_like(guess), _lemke(problem)):
        if start is not None:
            other = newton.solve(start)
            if other.solved:
                return other
            found = min(found, other, key=lambda solution: solution.residual)
    return found


@dataclass(frozen=True, eq=False)
class _Point:
    """The law at one u."""

    u: Array
    error: Array
    """u − clip(u − ρ r, lower, upper), (m,)."""
    limit: Array
    """L, (m,)."""
    low: Mask
    """Mask of reactions at their lower bound."""
    high: Mask
    """Mask of reactions at their upper bound."""
    wanted: Array
    """u − ρ r, (m,)."""

    def norm(self) -> float:
        """Of the error."""
        return math.sqrt(self.error @ self.error)


class _Newton:
    """Newton's method with a line search on the piecewise-linear equation u = clip(u − ρ r, lower, upper)."""

    def __init__(self, problem: Bounded) -> None:
        self._p = problem
        own = own_response(problem.R)
        own[problem.discs] = own[problem.discs].max(axis=1, keepdims=True)
        self._slope, self._offset = problem.R / own[:, None], problem.rates / own
        self._pushes = bool(problem.unilateral.any())

    def solve(self, u: Array) -> BoundedSolution:
        """The solution that the method reaches from u."""
        here, worst, size = self._at(u), 0.0, 0.0
        for _ in range(_MOST_NEWTON):
            worst, size = float(np.abs(here.error).max()), self._size(here)
            if not worst > _SETTLED * size:
                break
            step = self._step(here)
            if step is None:
                break
            here = self._search(here, step)
        worst, size = float(np.abs(here.error).max()), self._size(here)
        return BoundedSolution(worst <= 10 * _SETTLED * size, here.u, worst)

    def _at(self, u: Array) -> _Point:
        wanted = u - self._slope @ u - self._offset
        limit = self._p.bound(u)
        if self._pushes:
            lower, upper = np.where(self._p.unilateral, 0.0, -limit), np.where(self._p.unilateral, np.inf, limit)
        else:
            lower, upper = -limit, limit
        error, low, high = u - np.minimum(np.maximum(wanted, lower), upper), wanted < lower, wanted > upper
        for pair in self._p.discs:
            length, bound = math.hypot(*wanted[pair]), limit[pair[0]]
            error[pair] = u[pair] - wanted[pair] * (min(1.0, bound / length) if length else 1.0)
            low[pair] = high[pair] = False
        return _Point(u, error, limit, low, high, wanted)

    def _size(self, here: _Point) -> float:
        """The largest bound or reaction: what an error is small against."""
        return float(max(here.limit.max(), np.abs(here.u).max()))

    def _step(self, here: _Point) -> Array | None:
        slope, held = self._slope, here.low | here.high
        if held.any():
            sign = 1.0 * here.low - here.high
            if self._pushes:
                sign[self._p.unilateral] = 0.0
            at_bound = _identity(len(sign)) + (sign * (here.limit > 0))[:, None] * self._p.widening(here.u)
            slope = np.where(held[:, None], at_bound, slope)
        for pair in self._p.discs:
            length, bound = math.hypot(*here.wanted[pair]), here.limit[pair[0]]
            if length > bound:  # the point of the disc moves across the way, and with its bound
                way = here.wanted[pair] / length
                across = bound / length * (np.eye(2) - np.outer(way, way))
                own, rows = _identity(len(slope))[pair], slope.copy()
                rows[pair] = own - across @ (own - self._slope[pair])
                rows[pair] -= np.outer(way, (bound > 0) * self._p.widening(here.u)[pair[0]])
                slope = rows
        if self._p.dependent:
            return np.asarray(np.linalg.lstsq(slope, -here.error, rcond=DEPENDENT)[0])
        step, info = _dgesv(slope, -here.error)[2:]
        return step if info == 0 and np.isfinite(step).all() else None

    def _search(self, here: _Point, step: Array) -> _Point:
        share, norm = 1.0, here.norm()
        while True:
            there = self._at(here.u + share * step)
            if there.norm() <= (1 - 1e-4 * share) * norm or share < _SMALLEST_SHARE:
                return there
            share /= 2


_identity = lru_cache(maxsize=16)(np.eye)


def _lemke(p: Bounded) -> Array | None:
    """A start from the linear complementarity problem of the same law; None if that has no solution either.

    Its unknowns are u of unilateral constraints; both directions of friction and the multiplier σ that limits them
    (2.24); and the positive part of each load, whose complement is the negative part.
    """
    pushes, rubs = np.flatnonzero(p.unilateral), np.flatnonzero(~p.unilateral)
    a, f, k = len(pushes), len(rubs), len(p.loads)
    expand = np.zeros((len(p.R), a + 3 * f + k))
    expand[pushes, np.arange(a)] = 1.0
    expand[rubs, a + np.arange(f)], expand[rubs, a + f + np.arange(f)] = 1.0, -1.0
    slope, load = p.R @ expand, p.loads @ expand
    both = np.hstack([np.zeros((f, a)), np.eye(f), np.eye(f), np.zeros((f, f + k))])
    sigma = np.hstack([np.zeros((f, a + 2 * f)), np.eye(f), np.zeros((f, k))])
    part = np.hstack([np.zeros((k, a + 3 * f)), np.eye(k)])
    limit = (p.K @ expand + p.W @ (2 * part - load))[rubs]
    M = np.vstack([slope[pushes], slope[rubs] + sigma, -slope[rubs] + sigma, limit - both, part - load])
    q = np.concatenate(
        [p.rates[pushes], p.rates[rubs], -p.rates[rubs], (p.constant - p.W @ p.loads_before)[rubs], -p.loads_before]
    )
    found = lemke.solve(M, q)
    return None if found is None else expand @ found
