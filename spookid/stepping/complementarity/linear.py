"""The linear complementarity problem: a quick active-set iteration first, Lemke's method if it does not settle.

Where there are several solutions and a guess is given, the last impulses for instance, problems of up to 10 rows take
the one nearest the guess among those of all active sets, in the norm √Σ (z_i/d_i)² with d the column factors of
``status.scaling``, so that units do not matter. Larger problems take the one that the quick iteration reaches from the
guess, which usually is nearby, or the end of Lemke's path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.kernels.kernel import Array
from spookid.stepping.complementarity import enumeration, lemke
from spookid.stepping.complementarity.status import ACCURATE, Mask, Status, residual, scaling

_QUICK = 12
"""Active sets that the quick try visits."""
_SAME = 1e-6
"""Share of a distance in which two solutions do not differ."""
_ROUNDING = 1e-13
"""Unknowns below this share of the largest, once scaled, are zero."""


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """What was found for w = M z + q, 0 ≤ z ⟂ w ≥ 0; only if ``status`` is SOLVED is it a solution."""

    status: Status
    z: Array
    """(n,), never negative."""
    residual: float
    """Largest error in any row as a share of its terms; see ``status.residual``."""
    pivots: bool
    """True if Lemke's method was needed."""


def solve(M: Array, q: Array, guess: Array | None = None) -> LinearSolution:
    """A solution of w = M z + q, 0 ≤ z ⟂ w ≥ 0; if ``guess``, (n,), is given and n ≤ 10, the one nearest to it."""
    n = len(q)
    rows, columns = scaling(M)
    size = float(np.max(np.abs(rows * q), initial=0.0))
    if size == 0:
        # Zero is the solution for q = 0, and the guess only a choice among its multiples.
        return LinearSolution(Status.SOLVED, np.zeros(n), 0.0, pivots=False)
    scaled, right = rows[:, None] * M * columns, rows * q / size
    found = _reached(M, q, scaled, right, columns * size, guess)
    if n > enumeration.MOST_ROWS or guess is None or enumeration.is_monotone(scaled):
        return found
    return _nearest(M, q, scaled, right, columns * size, guess, found)


def _nearest(
    M: Array, q: Array, scaled: Array, right: Array, unit: Array, guess: Array, found: LinearSolution
) -> LinearSolution:
    """``found``, or the solution that is nearer to ``guess``."""
    reach = np.linalg.norm((found.z - guess) / unit) if found.status is Status.SOLVED else np.inf
    z, active = enumeration.candidates(scaled, right)
    distances = np.linalg.norm(z - guess / unit, axis=1)
    for i in np.argsort(distances):
        if not distances[i] < (1 - _SAME) * reach:
            break
        other = unit * _on(scaled, right, active[i])
        error = residual(M, q, other)
        if error <= ACCURATE:
            return LinearSolution(Status.SOLVED, other, error, pivots=False)
    return found


def _reached(M: Array, q: Array, scaled: Array, right: Array, unit: Array, guess: Array | None) -> LinearSolution:
    """What the methods find from ``guess``."""
    active = _settled(scaled, right, np.zeros(len(q)) if guess is None else guess / unit)
    if active is not None:
        z = unit * _on(scaled, right, active)
        error = residual(M, q, z)
        if error <= ACCURATE:
            return LinearSolution(Status.SOLVED, z, error, pivots=False)
    return _by_lemke(M, q, scaled, right, unit)


def _by_lemke(M: Array, q: Array, scaled: Array, right: Array, unit: Array) -> LinearSolution:
    """The best end of the paths from a few covering vectors."""
    best = LinearSolution(Status.INACCURATE, np.zeros(len(q)), float("inf"), pivots=True)
    for tilt in (0.0, 0.5, -0.5):
        cover = 1 + tilt * np.linspace(0, 1, len(q))
        status, tableau, active = lemke.path(scaled, right, cover, 50 + 10 * len(q))
        for z in (unit * _on(scaled, right, active), unit * _rounded(tableau)):
            error = residual(M, q, z)
            if status is Status.SOLVED and error <= ACCURATE:
                return LinearSolution(Status.SOLVED, z, error, pivots=True)
            if error < best.residual:
                ending = Status.INACCURATE if status is Status.SOLVED else status
                best = LinearSolution(ending, z, error, pivots=True)
    return best


def _settled(M: Array, q: Array, z: Array) -> Mask | None:
    """The active set at which Newton's method on min(z, w) = 0 stays; None if it returns to an earlier one."""
    w = M @ z + q
    seen: set[bytes] = set()
    for _ in range(_QUICK):
        active = z > w
        if active.tobytes() in seen:
            return None
        seen.add(active.tobytes())
        try:
            z = np.zeros(len(q))
            z[active] = np.linalg.solve(M[np.ix_(active, active)], -q[active])
        except np.linalg.LinAlgError:
            return None
        w = M @ z + q
        w[active] = 0.0
        if np.array_equal(z > w, active):
            return active
    return None


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
