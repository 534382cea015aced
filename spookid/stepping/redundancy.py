"""Redundant constraints: their impulses are undetermined and the smallest are taken; velocities must not be."""

from __future__ import annotations

from functools import cache

import numpy as np

from spookid.kernels.kernel import Array
from spookid.kernels.scipy_parts import lapack

_SINGULAR = 1e-11
"""Singular values below this share of the largest are zero."""
_LOOSE = 1e-6
"""Share of a velocity in an undetermined direction that is more than rounding."""
_dgelsy, _dgelsy_lwork = lapack.dgelsy, lapack.dgelsy_lwork


def has_redundant_rows(matrix: Array, velocities: int) -> bool:
    """True if impulses are undetermined in equations (n, n) whose first unknowns are the velocities.

    Raises:
        ArithmeticError: if a velocity is, as that of a body without inertia, or anything is not finite.
    """
    if not np.isfinite(matrix).all():
        raise ArithmeticError(float("nan"))
    _, values, right = np.linalg.svd(matrix)
    null = right[values < _SINGULAR * values[0]]
    if np.max(np.abs(null[:, :velocities]), initial=0.0) > _LOOSE:
        raise ArithmeticError(float("nan"))
    return len(null) > 0


def smallest(matrix: Array, right: Array) -> Array:
    """The smallest least-squares solution.

    Raises:
        ArithmeticError: if anything is not finite.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise ArithmeticError(float("nan"))
    n = len(right)
    pivots, work = np.zeros((n, 1), dtype=np.int32), _workspace(n)
    return np.asarray(_dgelsy(matrix, right[:, None], pivots, _SINGULAR, work)[1][:, 0])


@cache
def _workspace(n: int) -> int:
    return int(_dgelsy_lwork(n, n, 1, _SINGULAR)[0])
