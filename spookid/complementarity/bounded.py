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

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from spookid.complementarity import linear
from spookid.complementarity.status import Status
from spookid.kernels import Array

_MOST_NEWTON = 30
_SMALLEST_SHARE = 1e-4
"""Of a Newton step."""
_ACCURATE = 1e-11
"""Largest error in the reactions, as a share of the largest bound or reaction."""


class Mode(IntEnum):
    """What a reaction does."""

    STICKING = 0
    """Friction inside its bounds, at rate 0; or a closed unilateral constraint."""
    FORWARD = 1
    """Slipping at a positive rate, friction at its lower bound −L."""
    BACKWARD = -1
    """Slipping at a negative rate, friction at its upper bound L."""
    OPEN = 2
    """A unilateral constraint without reaction."""


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
    unilateral: Array
    """Mask of the reactions that only push, (m,)."""

    def bound(self, u: Array) -> Array:
        """L(u), (m,)."""
        return np.maximum(self.K @ u + self.constant + self.W @ np.abs(self.loads @ u + self.loads_before), 0.0)


@dataclass(frozen=True, eq=False)
class BoundedSolution:
    """What was found; only if ``status`` is SOLVED is it a solution."""

    status: Status
    u: Array
    """(m,)."""
    residual: float
    """Largest error of u = clip(u − ρ r, lower, upper), ρ = 1/R_ii, in the unit of u."""
    modes: Array
    """A ``Mode`` for each reaction, (m,); at an edge that of sticking."""


NOTHING = BoundedSolution(Status.SOLVED, np.zeros(0), 0.0, np.zeros(0, dtype=int))
"""The solution of a problem without reactions."""


def solve(problem: Bounded, guess: Array) -> BoundedSolution:
    """Reactions near ``guess``, (m,)."""
    found = _newton(problem, guess)
    if found.status is Status.SOLVED or not np.isfinite(problem.rates).all():
        return found
    for start in (np.zeros_like(guess), _lemke(problem)):
        if start is not None:
            other = _newton(problem, start)
            if other.status is Status.SOLVED:
                return other
            found = min(found, other, key=lambda solution: solution.residual)
    return found


def _newton(p: Bounded, u: Array) -> BoundedSolution:
    """Newton's method with a line search on the piecewise-linear equation."""
    error, modes, limit = _error(p, u)
    for _ in range(_MOST_NEWTON):
        size = max(float(np.max(limit[~p.unilateral], initial=0.0)), float(np.max(np.abs(u), initial=0.0)))
        if not np.max(np.abs(error), initial=0.0) > _ACCURATE * size:
            break
        step = _step(p, u, error, modes)
        if step is None:
            break
        share, norm = 1.0, np.linalg.norm(error)
        while True:
            there = _error(p, u + share * step)
            if np.linalg.norm(there[0]) <= (1 - 1e-4 * share) * norm or share < _SMALLEST_SHARE:
                break
            share /= 2
        u, (error, modes, limit) = u + share * step, there
    worst = float(np.max(np.abs(error), initial=0.0))
    size = max(float(np.max(limit[~p.unilateral], initial=0.0)), float(np.max(np.abs(u), initial=0.0)))
    solved = bool(worst <= 10 * _ACCURATE * size)
    return BoundedSolution(Status.SOLVED if solved else Status.INACCURATE, u, worst, modes)


def _error(p: Bounded, u: Array) -> tuple[Array, Array, Array]:
    """u − clip(u − ρ r, lower, upper), the modes and the bounds L."""
    wanted = u - (p.R @ u + p.rates) / p.R.diagonal()
    limit = p.bound(u)
    lower, upper = np.where(p.unilateral, 0.0, -limit), np.where(p.unilateral, np.inf, limit)
    modes = np.where(wanted < lower, np.where(p.unilateral, Mode.OPEN, Mode.FORWARD), Mode.STICKING)
    modes = np.where(wanted > upper, Mode.BACKWARD, modes)
    return u - np.minimum(np.maximum(wanted, lower), upper), modes, limit


def _step(p: Bounded, u: Array, error: Array, modes: Array) -> Array | None:
    slope = p.R / p.R.diagonal()[:, None]
    sliding = (modes == Mode.FORWARD) | (modes == Mode.BACKWARD)
    if np.any(modes != Mode.STICKING):
        load = p.loads @ u + p.loads_before
        widening = p.K + (p.W * np.where(load < 0, -1.0, 1.0)) @ p.loads
        widening = np.where((p.bound(u) > 0)[:, None], widening, 0.0)
        at_bound = np.eye(len(u)) + modes[:, None] * sliding[:, None] * widening
        slope = np.where((modes == Mode.STICKING)[:, None], slope, at_bound)
    try:
        step = np.linalg.solve(slope, -error)
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) else None


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
