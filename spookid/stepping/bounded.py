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

Lemke's method for the linear complementarity problem w = M z + q, 0 ≤ z ⟂ w ≥ 0 (Cottle, Pang and Stone, 4.4).

A dense tableau with full pivots. An artificial variable z₀ ≥ 0 makes w = M z + q + d z₀ feasible; complementary pivots
follow the path on which at most one pair is out of the basis until z₀ leaves it. Ties of the ratio test are broken
lexicographically, which excludes cycling, except that z₀ leaves first.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache

import numpy as np

from spookid.kernels.arrays import Array, Integers, Mask
from spookid.kernels.precision import NEWTON, TINY
from spookid.kernels.scipy_parts import lapack
from spookid.records import dataclass

DEPENDENT = 1e-11
"""Singular values below this share of the largest are zero."""
_LOCKED = 1e-9
"""Share of the largest R_ii that replaces smaller ones, of reactions that cannot move their own rate."""


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
    """True if R is singular, as with friction in more joints than can move: reactions then change least."""

    def bound(self, u: Array) -> Array:
        """L(u), (m,)."""
        return np.maximum(self.K @ u + self.constant + self.W @ np.abs(self.loads @ u + self.loads_before), 0.0)

    def widening(self, u: Array) -> Array:
        """Derivative ∂L/∂u of the bounds where L > 0, (m, m)."""
        load = self.loads @ u + self.loads_before
        return self.K + (self.W * np.where(load < 0, -1.0, 1.0)) @ self.loads


@dataclass(frozen=True, eq=False)
class BoundedSolution:
    """Result of a solver for bounded reactions; valid only if ``solved``."""

    solved: bool
    u: Array
    """(m,)."""
    residual: float
    """Largest error of u = clip(u − ρ r, lower, upper), ρ = 1/R_ii, in the unit of u."""


NOTHING = BoundedSolution(True, np.zeros(0), 0.0)
"""The solution of a problem without reactions."""


def own_response(R: Array) -> Array:
    """Diagonal R_ii: effect of each reaction on its own rate, (m,); never 0."""
    own = np.abs(R.diagonal())
    return np.asarray(np.maximum(own, _LOCKED * own.max() or 1.0))


def is_dependent(R: Array) -> bool:
    """True if the matrix R, scaled by its diagonal, is singular."""
    own = np.sqrt(np.maximum(np.abs(R.diagonal()), TINY))
    return bool(np.linalg.matrix_rank(R / own[:, None] / own, tol=DEPENDENT) < len(R))


_SMALLEST_SHARE = 1e-4
"""Of a Newton step."""
_SETTLED = 1e-11
"""Largest error in the reactions, as a share of the largest bound or reaction."""
_dgesv = lapack.dgesv


def solve(problem: Bounded, guess: Array) -> BoundedSolution:
    """Solve for the reactions, starting from ``guess``, (m,)."""
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
        """Solve for the reactions, starting from u."""
        here, worst, size = self._at(u), 0.0, 0.0
        for _ in range(NEWTON):
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
    found = complementary(M, q)
    return None if found is None else expand @ found


ACCURATE = 1e-9
"""Largest residual of what is called solved."""
_SWEEPS = 6
"""Of the scaling; each brings the largest entry of every row and column nearer to 1."""
_FLOOR = 1e-5
"""Share of the largest unknown that counts as a term of every row: what cancels to zero leaves its rounding."""
_ROUNDING = 1e-13
"""Unknowns below this share of the largest, once scaled, are zero."""


def complementary(M: Array, q: Array) -> Array | None:
    """Solution z, (n,), of the complementarity problem w = M z + q, 0 ≤ z ⟂ w ≥ 0; None if none exists or is found."""
    n = len(q)
    rows, columns = _scaling(M)
    size = float(np.max(np.abs(rows * q), initial=0.0))
    if size == 0:
        return np.zeros(n)
    scaled, right, unit = rows[:, None] * M * columns, rows * q / size, columns * size
    for tilt in (0.0, 0.5, -0.5):  # the path depends on the covering vector
        found = path(scaled, right, 1 + tilt * np.linspace(0, 1, n), 50 + 10 * n)
        if found is None:
            continue
        tableau, active = found
        for z in (unit * _on(scaled, right, active), unit * _rounded(tableau)):
            if residual(M, q, z) <= ACCURATE:
                return z
    return None


def _scaling(M: Array) -> tuple[Array, Array]:
    """Factors of rows and columns that bring their largest entries near 1 (Ruiz); zero rows and columns keep 1."""
    rows, columns = np.ones(len(M)), np.ones(len(M))
    size = np.abs(M)
    for _ in range(_SWEEPS):
        now = rows[:, None] * size * columns
        tall, wide = now.max(axis=1, initial=0.0), now.max(axis=0, initial=0.0)
        rows /= np.sqrt(np.where(tall > 0, tall, 1.0))
        columns /= np.sqrt(np.where(wide > 0, wide, 1.0))
    return rows, columns


def residual(M: Array, q: Array, z: Array) -> float:
    """Largest error of w = M z + q relative to the terms of the same row; independent of units.

    A row with z > 0 is wrong by |w|, one with z = 0 by max(0, −w). A row's terms are |M||z| + |q| and, once rows and
    columns are scaled, a small share of the largest z and q. It is infinite if a z is negative or not finite.
    """
    if not np.all(np.isfinite(z)) or np.any(z < 0):
        return float("inf")
    rows, columns = _scaling(M)
    scaled, q, z = rows[:, None] * M * columns, rows * q, z / columns
    w = scaled @ z + q
    largest = np.max(np.abs(z), initial=0.0) + np.max(np.abs(q), initial=0.0)
    terms = np.abs(scaled) @ np.abs(z) + np.abs(q) + _FLOOR * largest
    wrong = np.where(z > 0, np.abs(w), np.maximum(-w, 0.0))
    return float(np.max(wrong, initial=0.0)) if largest == 0 else float(np.max(wrong / terms, initial=0.0))


def _on(M: Array, q: Array, active: Mask) -> Array:
    """z with w = 0 on the active set and z = 0 off it, once refined."""
    z = np.zeros(len(q))
    try:
        part = np.linalg.inv(M[np.ix_(active, active)])
    except np.linalg.LinAlgError:
        return np.full(len(q), np.nan)
    z[active] = -part @ q[active]
    z[active] -= part @ (M[active] @ z + q[active])
    return _rounded(z)


def _rounded(z: Array) -> Array:
    """z without what rounding left of zeros."""
    size = np.max(np.abs(z), initial=0.0)
    return np.where((z < _ROUNDING * size) & (z > -ACCURATE * size), 0.0, z)


_TIE = 1e-12
"""Ratios closer than this share of the largest entry of the scaled right-hand side are tied."""
_PIVOT = 1e-10
"""Entries below this share of the largest in their column are no pivots."""


def path(M: Array, q: Array, cover: Array, most_pivots: int) -> tuple[Array, Mask] | None:
    """Follow the solution path from the covering vector ``cover`` > 0, (n,).

    Returns:
        z (n,) as the tableau has it and the mask of the z in the basis (n,); None if the path runs off to infinity or
        is not at its end after ``most_pivots``.
    """
    n = len(q)
    if np.min(q, initial=0.0) >= 0:
        return np.zeros(n), np.zeros(n, dtype=bool)
    # Columns: w, z, z₀, right-hand side. The first n hold the inverse of the basis, for lexicographic ties.
    table = np.hstack([np.eye(n), -M, -cover[:, None], q[:, None]])
    basis = np.arange(n)
    entering = 2 * n
    row = int(np.argmin(q / cover))
    for _ in range(most_pivots):
        leaving = int(basis[row])
        _pivot(table, basis, row, entering)
        if leaving == 2 * n:
            values = np.zeros(2 * n + 1)
            values[basis] = table[:, -1]
            return np.maximum(values[n : 2 * n], 0.0), np.isin(np.arange(n, 2 * n), basis)
        entering = leaving + n if leaving < n else leaving - n
        found = _leaving_row(table, basis, entering)
        if found is None:
            return None
        row = found
    return None


def _pivot(table: Array, basis: Integers, row: int, entering: int) -> None:
    table[row] /= table[row, entering]
    column = table[:, entering].copy()
    column[row] = 0.0
    table -= np.outer(column, table[row])
    basis[row] = entering


def _leaving_row(table: Array, basis: Integers, entering: int) -> int | None:
    """The row whose basic variable is first to reach zero; None if none does."""
    n = len(basis)
    column = table[:, entering]
    rows = np.flatnonzero(column > _PIVOT * max(1.0, float(np.max(np.abs(column)))))
    if not len(rows):
        return None
    ratios = table[rows, -1] / column[rows]
    tied = rows[ratios <= np.min(ratios) + _TIE]
    artificial = tied[basis[tied] == 2 * n]
    if len(artificial):
        return int(artificial[0])
    for k in range(n):
        if len(tied) == 1:
            break
        ratios = table[tied, k] / column[tied]
        tied = tied[ratios <= np.min(ratios) + _TIE]
    return int(tied[np.argmax(column[tied])])
