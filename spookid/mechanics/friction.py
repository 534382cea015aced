"""Smooth stand-ins for the sign of a slip rate and the size of an impulse."""

from __future__ import annotations

import casadi as ca

_NEAR = 1e-3
"""Half the difference of two slips over the width below which its fourth power is rounding."""


def smooth_absolute(impulse: ca.SX, width: ca.SX) -> ca.SX:
    """√(λ² + δ²): |λ| for δ → 0, never off by more than δ."""
    return ca.sqrt(impulse**2 + width**2)


def smooth_sign(slip: ca.SX, width: ca.SX) -> ca.SX:
    """tanh(s/δ): the sign of the slip for δ → 0; a creep of about δ stands in for sticking."""
    return ca.tanh(slip / width)


def mean_sign(begin: ca.SX, end: ca.SX, width: ca.SX) -> ca.SX:
    """Mean of tanh(s/δ) over slips from one to the other, δ (ln cosh(s₊/δ) − ln cosh(s/δ))/(s₊ − s): what a joint feels
    that turns within a step, however sharp the law is (a discrete gradient; Gonzalez, J. Nonlinear Sci. 6, 1996)."""
    a, b = begin / width, end / width
    sign = ca.tanh((a + b) / 2)
    half = (b - a) / 2
    near = ca.fabs(half) < _NEAR  # where the difference has too few digits, the first terms of its series do
    rise = _log_cosh(b) - _log_cosh(a)
    return ca.if_else(near, sign * (1 - half**2 / 3 * (1 - sign**2)), rise / ca.if_else(near, 1.0, 2 * half))


def _log_cosh(x: ca.SX) -> ca.SX:
    """ln 2cosh x without overflow."""
    return ca.fabs(x) + ca.log1p(ca.exp(-2 * ca.fabs(x)))
