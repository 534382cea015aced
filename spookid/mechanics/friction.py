"""Torques and friction bounds of a hinge, as expressions of its angle and its slip rate. No time step is known here."""

from __future__ import annotations

import casadi as ca

from spookid.mechanics.joints import Hinge

_NEAR = 1e-3
"""Half the difference of two slips over the width below which its fourth power is rounding."""


def smooth_torque(hinge: Hinge, angle: ca.SX, slip: ca.SX) -> ca.SX:
    """Spring at ``angle`` [rad], viscous friction and drag at ``slip`` [rad/s]: −k (θ − θ₀) − b s − d s|s| [N m]."""
    spring = -hinge.stiffness * (angle - hinge.rest_angle)
    return spring - hinge.viscous * slip - hinge.drag * slip * ca.fabs(slip)


def coefficients(hinge: Hinge, slip_before: ca.SX) -> tuple[ca.SX, ca.SX]:
    """(μ, c) of the dry friction, the Stribeck term (4.1) included, from the slip rate of the step before."""
    if hinge.stribeck is None:
        return hinge.dry, hinge.coulomb
    delta, zeta = ca.vertsplit(hinge.stribeck)
    extra = delta * ca.exp(-zeta * slip_before**2)
    if ca.symvar(hinge.dry) or float(hinge.dry) != 0:
        return hinge.dry + extra, hinge.coulomb
    return hinge.dry, hinge.coulomb + extra


def smooth_absolute(impulse: ca.SX, width: ca.SX) -> ca.SX:
    """√(λ² + δ²): |λ| for δ → 0, never off by more than δ."""
    return ca.sqrt(impulse**2 + width**2)


def smooth_sign(slip: ca.SX, width: ca.SX) -> ca.SX:
    """tanh(s/δ): the sign of the slip for δ → 0; a creep of about δ stands in for sticking."""
    return ca.tanh(slip / width)


def mean_sign(begin: ca.SX, end: ca.SX, width: ca.SX) -> ca.SX:
    """Mean of tanh(s/δ) over slips from one to the other, δ (ln cosh(s₊/δ) − ln cosh(s/δ))/(s₊ − s): what a hinge feels
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
