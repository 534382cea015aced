"""Impulses with bounds that depend on them: dry friction and unilateral constraints, once all else is eliminated.

Each reaction u_i acts along a rate r_i, and everything that it changes is affine in u (m reactions, l loads):

    rates r = R u + r₀,      loads λ = Λ u + λ₀,      bounds L = max(0, K u + c + W|λ|), W ≥ 0.

    friction:    −L_i ≤ u_i ≤ L_i,   u_i = −L_i where r_i > 0,   u_i = L_i where r_i < 0;
    unilateral:  0 ≤ u_i ⟂ r_i ≥ 0.

That is u = clip(u − ρ r, lower, upper) for any ρ > 0, one piecewise-linear equation a reaction. Newton's method with a
line search solves it, and Lemke's method if that does not settle. Where the load makes several solutions possible,
Newton's start decides: from the reaction of the step before it reaches the solution nearby.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from spookid.complementarity import linear
from spookid.complementarity.status import Mask, Status
from spookid.kernels import Array

_MOST_NEWTON = 30
_SMALLEST_SHARE = 1e-4
"""Of a Newton step."""
_ACCURATE = 1e-11
"""Largest error in the reactions, as a share of the largest bound or reaction."""
_LOCKED = 1e-9
"""Share of the largest R_ii that stands in for smaller ones: a reaction that cannot move its own rate."""
_SINGULAR = 1e-11
"""Singular values below this share of the largest are zero."""
_dgesv = get_lapack_funcs("gesv", dtype=np.float64)


STICKING = 0
"""Mode of friction inside its bounds, at rate 0, and of a unilateral constraint that pushes."""
FORWARD = 1
"""Mode of friction that slips at a positive rate, at its lower bound −L."""
BACKWARD = -1
"""Mode of friction that slips at a negative rate, at its upper bound L."""
OPEN = 2
"""Mode of a unilateral constraint without reaction."""


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
    """What was found; only if ``status`` is SOLVED is it a solution."""

    status: Status
    u: Array
    """(m,)."""
    residual: float
    """Largest error of u = clip(u − ρ r, lower, upper), ρ = 1/R_ii, in the unit of u."""
    modes: NDArray[np.int_]
    """STICKING, FORWARD, BACKWARD or OPEN for each reaction, (m,); at an edge that of sticking."""


NOTHING = BoundedSolution(Status.SOLVED, np.zeros(0), 0.0, np.zeros(0, dtype=int))
"""The solution of a problem without reactions."""


def is_dependent(R: Array) -> bool:
    """True if R, scaled by its diagonal, is singular."""
    own = np.sqrt(np.maximum(np.abs(R.diagonal()), np.finfo(float).tiny))
    return bool(np.linalg.matrix_rank(R / own[:, None] / own, tol=_SINGULAR) < len(R))


def solve(problem: Bounded, guess: Array) -> BoundedSolution:
    """Reactions near ``guess``, (m,)."""
    newton = _Newton(problem)
    found = newton.solve(guess)
    if found.status is Status.SOLVED or not np.isfinite(problem.rates).all():
        return found
    for start in (np.zeros_like(guess), _lemke(problem)):
        if start is not None:
            other = newton.solve(start)
            if other.status is Status.SOLVED:
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

    def norm(self) -> float:
        """Of the error."""
        return math.sqrt(self.error @ self.error)


class _Newton:
    """Newton's method with a line search on the piecewise-linear equation u = clip(u − ρ r, lower, upper)."""

    def __init__(self, problem: Bounded) -> None:
        self._p = problem
        own = np.abs(problem.R.diagonal())
        own = np.maximum(own, _LOCKED * own.max() or 1.0)
        self._slope, self._offset = problem.R / own[:, None], problem.rates / own
        self._pushes = bool(problem.unilateral.any())

    def solve(self, u: Array) -> BoundedSolution:
        """The solution that the method reaches from u."""
        here, worst, size = self._at(u), 0.0, 0.0
        for _ in range(_MOST_NEWTON):
            worst, size = float(np.abs(here.error).max()), self._size(here)
            if not worst > _ACCURATE * size:
                break
            step = self._step(here)
            if step is None:
                break
            here = self._search(here, step)
        worst, size = float(np.abs(here.error).max()), self._size(here)
        status = Status.SOLVED if worst <= 10 * _ACCURATE * size else Status.INACCURATE
        at_lower = np.where(self._p.unilateral, OPEN, FORWARD) if self._pushes else FORWARD
        modes = np.where(here.low, at_lower, np.where(here.high, BACKWARD, STICKING))
        return BoundedSolution(status, here.u, worst, modes)

    def _at(self, u: Array) -> _Point:
        wanted = u - self._slope @ u - self._offset
        limit = self._p.bound(u)
        if self._pushes:
            lower, upper = np.where(self._p.unilateral, 0.0, -limit), np.where(self._p.unilateral, np.inf, limit)
        else:
            lower, upper = -limit, limit
        return _Point(u, u - np.minimum(np.maximum(wanted, lower), upper), limit, wanted < lower, wanted > upper)

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
        if self._p.dependent:
            return np.asarray(np.linalg.lstsq(slope, -here.error, rcond=_SINGULAR)[0])
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
        [
            p.rates[pushes],
            p.rates[rubs],
            -p.rates[rubs],
            (p.constant - p.W @ p.loads_before)[rubs],
            -p.loads_before,
        ]
    )
    found = linear.solve(M, q)
    return expand @ found.z if found.status is Status.SOLVED else None
