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

Each reaction u_i acts along a rate r_i, and everything that it changes is affine in u (m reactions, l loads):

    rates r = R u + r₀,      loads λ = Λ u + λ₀,      bounds L = max(0, K u + c + W|λ|), W ≥ 0.

    friction:    −L_i ≤ u_i ≤ L_i,   u_i = −L_i where r_i > 0,   u_i = L_i where r_i < 0;
    unilateral:  0 ≤ u_i ⟂ r_i ≥ 0,
    disc:        |u_D| ≤ L, u_D = −L r_D/|r_D| where r_D ≠ 0, for pairs D of friction with one bound.

That is u = clip(u − ρ r, lower, upper) for any ρ > 0, one piecewise-linear equation a reaction, and of a disc the point
of it nearest u_D − ρ r_D.

Newton's method with a line search finds reactions that obey the law, and Lemke's method if it does not settle.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache
from itertools import product

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


STICKING = 0
"""Mode of friction inside its bounds, at rate 0, and of a unilateral constraint that pushes."""
FORWARD = 1
"""Mode of friction that slips at a positive rate, at its lower bound −L."""
BACKWARD = -1
"""Mode of friction that slips at a negative rate, at its upper bound L."""
OPEN = 2
"""Mode of a unilateral constraint without reaction."""

MOST_PIECES = 5000
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
    u = u[_errors(p, u) <= lemke.ACCURATE * np.max(np.abs(u), axis=1, initial=0.0)]
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


_MOST_NEWTON = 30
_SMALLEST_SHARE = 1e-4
"""Of a Newton step."""
_SETTLED = 1e-11
"""Largest error in the reactions, as a share of the largest bound or reaction."""
_SAME = 1e-6
"""Share of a distance in which two solutions do not differ."""
_dgesv = lapack.dgesv


def solve(problem: Bounded, guess: Array) -> BoundedSolution:
    """The solution nearest ``guess``, (m,), as far as the pieces are not too many."""
    found = follow(problem, guess)
    if len(problem.discs) or (found.solved and (found.u is guess or problem.dependent or is_unique(problem))):
        return found
    near = nearest(problem, guess)
    if near is None:
        return found
    other = _Newton(problem).solve(near)
    if not other.solved:
        return found
    nearer = distance(problem, other.u, guess) < (1 - _SAME) * distance(problem, found.u, guess)
    return other if nearer or not found.solved else found


def follow(problem: Bounded, guess: Array) -> BoundedSolution:
    """The solution that the methods reach from ``guess``, (m,), which is near the one that is sought."""
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
