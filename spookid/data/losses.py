"""Robust losses: residuals of sensors whose samples are wrong now and then, as rows of a plain sum of squares.

With r a residual over its standard deviation, a row sign(r) √ρ(r²) has the square ρ(r²), ρ as in
``scipy.optimize.least_squares`` with ``f_scale=1``. So solvers and statistics see least squares as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import casadi as ca
import numpy as np

from spookid.data.arrays import FloatArray

Loss = Literal["auto", "linear", "huber", "cauchy"]
LOSSES: tuple[Loss, ...] = ("linear", "huber", "cauchy")
BENT: tuple[Loss, ...] = ("huber", "cauchy")
"""Those with which samples far off count less."""

_NEAR = 0.1
"""r² below which ln(1 + r²)/r² is taken from its integral."""
_NODES = 5
"""Of Gauss's rule for it: its error is below 1e-16 there."""


def robust(row: ca.SX, loss: Loss) -> ca.SX:
    """sign(r) √ρ(r²), smooth at r = 0; r is a scalar."""
    return _ROOTS[loss](row)


def straight(rows: FloatArray, loss: Loss) -> FloatArray:
    """The residuals r whose rows sign(r) √ρ(r²) these are."""
    if loss not in BENT:
        return rows
    squares = rows**2
    if loss == "huber":
        return np.asarray(np.where(squares <= 1, rows, np.sign(rows) * (squares + 1) / 2))
    return np.asarray(np.sign(rows) * np.sqrt(np.expm1(squares)))


def _huber(row: ca.SX) -> ca.SX:
    """ρ(z) = z up to 1, then 2 √z − 1."""
    size = ca.fabs(row)
    return ca.if_else(size <= 1, row, ca.sign(row) * ca.sqrt(2 * ca.fmax(size, 1) - 1))


def _cauchy(row: ca.SX) -> ca.SX:
    """ρ(z) = ln(1 + z) as r √(ρ/z), which has no root of zero."""
    z = row**2
    near = z < _NEAR
    small, large = ca.if_else(near, z, 0), ca.if_else(near, 1, z)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    integral = sum(w / 2 / (1 + small * (1 + x) / 2) for x, w in zip(nodes.tolist(), weights.tolist(), strict=True))
    return row * ca.sqrt(ca.if_else(near, integral, ca.log1p(large) / large))


_ROOTS: dict[Loss, Callable[[ca.SX], ca.SX]] = {
    "auto": lambda row: row,
    "linear": lambda row: row,
    "huber": _huber,
    "cauchy": _cauchy,
}
