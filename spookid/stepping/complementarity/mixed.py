"""The mixed linear complementarity problem (Marklund et al., Appendix A): equations eliminated, the rest solved.

    A x + C z + a = 0,      D x + B z + b = w,      0 ≤ z ⟂ w ≥ 0.

The equations are eliminated by LDLᵀ with 1x1 and 2x2 pivots (Bunch and Kaufman), as A is symmetric and, with rigid
joints, indefinite; an A that is not symmetric takes LU. What is left is (B − D A⁻¹ C) z + (b − D A⁻¹ a).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs, lstsq

from spookid.kernels.kernel import Array
from spookid.stepping.complementarity import linear
from spookid.stepping.complementarity.status import ACCURATE, Status, residual

_sysvx, _gesvx = get_lapack_funcs(("sysvx", "gesvx"), dtype=np.float64)
_SINGULAR = 1e-14
"""Reciprocal condition numbers below this leave the solution to least squares."""


@dataclass(frozen=True, eq=False)
class Mixed:
    """The problem's blocks, n equations and m complementarity rows."""

    A: Array
    """(n, n)."""
    C: Array
    """(n, m)."""
    D: Array
    """(m, n)."""
    B: Array
    """(m, m)."""
    a: Array
    """(n,)."""
    b: Array
    """(m,)."""


@dataclass(frozen=True, eq=False)
class MixedSolution:
    """What was found; only if ``status`` is SOLVED is it a solution."""

    status: Status
    x: Array
    """(n,)."""
    z: Array
    """(m,), never negative."""
    residual: float
    """Largest error in any row as a share of its terms."""


def solve(problem: Mixed, guess: Array | None = None) -> MixedSolution:
    """A solution of the problem, sought from ``guess`` of z, (m,)."""
    p = problem
    eliminated = equations(p.A, np.column_stack([p.C, p.a]))
    across, constant = eliminated[:, :-1], eliminated[:, -1]
    M, q = p.B - p.D @ across, p.b - p.D @ constant
    inner = linear.solve(M, q, guess)
    x = -constant - across @ inner.z
    x -= equations(p.A, (p.A @ x + p.C @ inner.z + p.a)[:, None])[:, 0]
    error = residual(
        np.block([[p.A, p.C], [p.D, p.B]]), np.concatenate([p.a, p.b]), np.concatenate([x, inner.z]), len(x)
    )
    status = inner.status
    if status is Status.SOLVED and not error <= ACCURATE:
        contradiction = residual(p.A, p.C @ inner.z + p.a, x, len(x)) > ACCURATE
        status = Status.SINGULAR if contradiction else Status.INACCURATE
    return MixedSolution(status, x, inner.z, error)


def equations(A: Array, right: Array) -> Array:
    """A⁻¹ right, (n, k), by LDLᵀ if A is symmetric; the smallest least-squares solution where A is singular."""
    if not len(A):
        return np.zeros(right.shape)
    scale = 1 / np.sqrt(np.maximum(np.max(np.abs(A), axis=1), np.finfo(float).tiny))
    even = scale[:, None] * A * scale
    target = scale[:, None] * right
    if np.array_equal(A, A.T):
        found, condition = _sysvx(even, target)[4:6]
    else:
        found, condition = _gesvx(even, target)[7:9]
    if not (condition > _SINGULAR and np.all(np.isfinite(found))):
        return np.asarray(lstsq(A, right, cond=1e-12)[0])
    return np.asarray(scale[:, None] * found)
