"""The four-bar of the paper on factor graphs in its crank angle alone, by another way than the package's.

Where two circles meet gives P2 for a crank angle; Lagrange's equation with the reduced inertia J(θ) is
J θ'' + J'/2 θ'² + V' = τ. Derivatives are those of CasADi, integration is SciPy's DOP853.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from spookid import Parameter, planar

Array = NDArray[np.float64]
GRAVITY = 9.8
SHEET = {
    "θ": (-3.748470894, -0.022607800, -3.701260844, -0.090504054, -3.604897278),
    "ω": (-0.343315693, 0.661410138, -1.042428991, 1.327613934, -1.789596942),
}
"""At 1 to 5 s from rest at θ = 0 [rad, rad/s], by two integrators that agree to 4e-11."""


def fourbar(
    *, angle: bool = True, coupler: float | Parameter = 2.0, friction: float | Parameter = 0.0
) -> planar.Mechanism:
    """In natural coordinates.

    Args:
        angle: True to have the crank's angle as a coordinate, which is the independent one; and a torque at the crank.
        coupler: its mass [kg].
        friction: viscous, in the crank's pin [N m s]; only with the angle.
    """
    A, D = planar.Ground("A", (0, 0)), planar.Ground("D", (4, 0))
    P1, P2 = planar.Point("P1", (1, 0)), planar.Point("P2", (1, 2))
    crank = planar.Link("crank", A, P1, 1.0)
    links = [crank, planar.Link("coupler", P1, P2, coupler), planar.Link("rocker", D, P2, 4.0)]
    if not angle:
        return planar.Mechanism(links, gravity=GRAVITY)
    loads = [planar.Torque(crank, "torque"), planar.PinFriction(A, crank, viscous=friction)]
    return planar.Mechanism(links, [planar.AbsoluteAngle("theta", crank)], loads, gravity=GRAVITY)


@cache
def functions(side: int = 1) -> dict[str, ca.Function]:
    """``points``: (x, y of P1, of P2) and their slopes in θ; ``terms``: J, J' and V'; P2 on one ``side`` of the line
    from P1 to D, 1 or −1."""
    θ = ca.SX.sym("θ")
    P1 = ca.vertcat(ca.cos(θ), ca.sin(θ))
    away = ca.vertcat(4, 0) - P1
    distance = ca.norm_2(away)
    along = (4 - 13 + distance**2) / (2 * distance)  # of the coupler of 2 m, on the line from P1 to D
    across = ca.sqrt(4 - along**2)
    P2 = P1 + (along * away + side * across * ca.vertcat(-away[1], away[0])) / distance
    points = ca.vertcat(P1, P2)
    slopes = ca.jacobian(points, θ)
    one, two = slopes[:2], slopes[2:]
    # A uniform bar between points that move with u and w has the inertia m (u² + u·w + w²)/3.
    J = ca.sumsqr(one) / 3 + 2 * (ca.sumsqr(one) + ca.dot(one, two) + ca.sumsqr(two)) / 3 + 4 * ca.sumsqr(two) / 3
    V = GRAVITY * (P1[1] / 2 + (P1[1] + P2[1]) + 2 * P2[1])
    terms = [J, ca.gradient(J, θ), ca.gradient(V, θ)]
    return {
        "points": ca.Function("points", [θ], [points, slopes]),
        "terms": ca.Function("terms", [θ], [ca.vertcat(*terms)]),
    }


def torque(θ: Array, ω: Array, α: Array, friction: float = 0.0) -> Array:
    """That a motion of the crank takes, (N,) [N m]."""
    J, slope, weight = np.asarray(functions()["terms"](θ[None]).full())
    return np.asarray(J * α + slope / 2 * ω**2 + weight + friction * ω)


def moved(
    t: Array,
    drive: Callable[[float], float] = lambda t: 0.0,
    start: tuple[float, float] = (0.0, 0.0),
    friction: float = 0.0,
    side: int = 1,
) -> tuple[Array, Array]:
    """θ and ω at times t, each (N,), from ``start`` at the first of them."""
    terms = functions(side)["terms"]

    def flow(time: float, y: Array) -> Array:
        J, slope, weight = terms(y[0]).full()[:, 0]
        return np.array([y[1], (drive(time) - slope / 2 * y[1] ** 2 - weight - friction * y[1]) / J])

    found = solve_ivp(flow, (t[0], t[-1]), start, "DOP853", t_eval=t, rtol=1e-13, atol=1e-13)
    if not found.success:
        raise RuntimeError(found.message)
    return found.y[0], found.y[1]


def pictured(θ: Array, ω: Array, side: int = 1) -> tuple[Array, Array]:
    """Coordinates and rates of P1 and P2, each (N, 4)."""
    q, slopes = (np.asarray(part.full()).T for part in functions(side)["points"](θ[None]))
    return q, slopes * ω[:, None]
