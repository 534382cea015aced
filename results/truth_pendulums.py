"""Pendulums for `truth.py`, by equations of motion that share nothing with spookid.

The mechanisms are those of `truth_twins.py` and `truth_faults.py`: a rod on a hinge, and the Furuta pendulum of
Table G.5. Torques of motors are held between the samples; white random torques act at all hinges.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
from truth_motion import Array, lagrange, run

STEP, SIGMA, WIDTH = 0.01, 1e-3, 0.05
"""Interval of the samples [s], noise of every sensor [rad], and width of dry friction [rad/s]."""
EXTRA, SLOW = 1.0, 1.5
"""Stribeck's extra over Coulomb's friction and its rate [rad/s]."""
_FINE = 10
_ROD, _LONG = 0.2, 0.15
"""Mass [kg] of a rod, and from its hinge to its centre of mass [m]."""
_ARM_MASS, _ARM, _REACH, _ROD_MASS, _ROD_LONG, _ROD_SPIN = 0.238, 0.128, 0.248, 0.428, 0.092, 1e-3
"""Of a Furuta pendulum: mass of the arm [kg], from its axle to its centre of mass and to the rod's plane [m]; mass of
the rod, from its hinge to its centre of mass, and inertia about its axis [kg m²]."""


@cache
def _rod(values: tuple[tuple[str, float], ...], stribeck: bool) -> ca.Function:
    p = dict(values)
    inertia = p["J"] + _ROD * _LONG**2
    friction = lambda v: _friction(v, p.get("b", 0), p.get("c", 0), stribeck)  # noqa: E731
    return lagrange(
        lambda _, v: inertia * v**2 / 2,
        lambda q: -_ROD * 9.81 * _LONG * ca.cos(q),
        lambda _, v, u, w: u * p.get("K", 0) + w - friction(v),
        1,
        1,
    )


@cache
def _furuta(values: tuple[tuple[str, float], ...], stribeck: bool) -> ca.Function:
    """Shoulder upright, elbow along the arm, the rod hanging at angle zero."""
    p = dict(values)
    J_B = p.get("J_Byy", p.get("J_B"))
    J_Bzz, J_A = p.get("J_Bzz", J_B), p.get("J_Azz", p.get("J_A"))
    tilt = ca.DM([p.get("tilt_x", 0), p.get("tilt_y", 0), 0])
    down = _turned(tilt) @ ca.DM([0, 0, -9.82])

    def kinetic(q: ca.SX, v: ca.SX) -> ca.SX:
        s, c = ca.sin(q[1]), ca.cos(q[1])
        upright = J_A + _ARM_MASS * _ARM**2 + _ROD_MASS * (_REACH**2 + (_ROD_LONG * s) ** 2)
        upright += _ROD_SPIN * c**2 + J_Bzz * s**2
        across = _ROD_MASS * _REACH * _ROD_LONG * c
        return (upright * v[0] ** 2 + (_ROD_MASS * _ROD_LONG**2 + J_B) * v[1] ** 2) / 2 + across * v[0] * v[1]

    def potential(q: ca.SX) -> ca.SX:
        along = ca.vertcat(ca.cos(q[0]), ca.sin(q[0]), 0)
        aside = ca.vertcat(-ca.sin(q[0]), ca.cos(q[0]), 0)
        rod = _REACH * along + _ROD_LONG * (ca.sin(q[1]) * aside - ca.cos(q[1]) * ca.DM([0, 0, 1]))
        return -ca.dot(down, _ARM_MASS * _ARM * along + _ROD_MASS * rod)

    def forces(_: ca.SX, v: ca.SX, u: ca.SX, w: ca.SX) -> ca.SX:
        one = _friction(v[0], p.get("b_1", 0), p.get("c_1", 0), False)
        two = _friction(v[1], p.get("b_2", 0), p.get("c_2", 0), stribeck)
        return w + ca.vertcat(p.get("K", 0) * u - one, -two - p.get("d_2", 0) * v[1] * ca.fabs(v[1]))

    return lagrange(kinetic, potential, forces, 2, 1)


def _friction(v: ca.SX, b: float, c: float, stribeck: bool) -> Any:
    extra = 1 + stribeck * EXTRA * ca.exp(-((v / SLOW) ** 2))
    return b * v + c * extra * ca.tanh(v / WIDTH)


def _turned(vector: ca.DM) -> ca.DM:
    """Rotation matrix of a rotation vector, by Rodrigues' formula."""
    angle = float(ca.norm_2(vector))
    K = ca.skew(vector / angle) if angle else ca.DM.zeros(3, 3)
    return ca.DM.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def swung(
    values: Mapping[str, float],
    start: Sequence[float],
    torque: Array,
    disturbance: float,
    rng: np.random.Generator,
    stribeck: bool = False,
) -> Array:
    """Measured angles of a rod (one initial angle) or of a Furuta pendulum (two), (samples, n), from rest.

    Args:
        values: of the parameters, by the names of the problem.
        start: initial angles.
        torque: input of the motor at all samples.
        disturbance: density of the random torque at every hinge [N m/√Hz].
        stribeck: whether the last hinge has Stribeck friction, too.
    """
    n, build = len(start), (_rod if len(start) == 1 else _furuta)
    rates, times = build(tuple(values.items()), stribeck), (len(torque), STEP, _FINE)
    still = (*start, *np.zeros(n))
    angles, *_ = run(rates, still, lambda k, _: torque[k : k + 1], [disturbance] * n, [SIGMA] * n, rng, times)
    return angles
