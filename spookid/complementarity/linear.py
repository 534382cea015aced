"""The linear complementarity problem: a quick active-set iteration first, Lemke's method if it does not settle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.complementarity import lemke
from spookid.complementarity.status import ACCURATE, Mask, Status, residual, scaling
from spookid.kernels import Array

_QUICK = 12
"""Active sets that the quick try visits."""
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
    """A solution of w = M z + q, 0 ≤ z ⟂ w ≥ 0.

    Where there are several it is the one that the active sets reach from ``guess``, (n,), if they settle.
    """
    n = len(q)
    rows, columns = scaling(M)
    size = float(np.max(np.abs(rows * q), initial=0.0))
    if size == 0:
        return LinearSolution(Status.SOLVED, np.zeros(n), 0.0, pivots=False)
    scaled, right = rows[:, None] * M * columns, rows * q / size
    start = np.zeros(n) if guess is None else guess / columns / size
    active = _settled(scaled, right, start)
    if active is not None:
        z = columns * size * _on(scaled, right, active)
        error = residual(M, q, z)
        if error <= ACCURATE:
            return LinearSolution(Status.SOLVED, z, error, pivots=False)
    return _by_lemke(M, q, scaled, right, columns * size)


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
