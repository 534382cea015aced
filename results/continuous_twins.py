"""Mechanisms for `truth.py`, integrated without any part of spookid: Lagrange's equations, derived by hand.

The data are those of continuous time: DOP853 with a tolerance of 1e-12, so that no time step is in them. Inputs are
held between the samples of a drive, as a digital controller holds them, and the integration starts anew at each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

Array = np.ndarray
_COMPLEX = 1e-30
"""Imaginary step of a derivative, which is exact: nothing is subtracted."""
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Lagrangian:
    """M(q) q̈ + (∂M/∂q terms) + ∂V/∂q = τ − b q̇, for functions of q that take complex numbers."""

    mass: Callable[[Array], Array]
    potential: Callable[[Array], complex]
    viscous: Array

    def rates(self, x: Array, torque: Array) -> Array:
        """Time derivative of (q, q̇)."""
        q, v = np.split(x, 2)
        slopes = np.empty((len(q), len(q), len(q)))
        down = np.empty(len(q))
        for k, turn in enumerate(np.eye(len(q))):
            moved = q + 1j * _COMPLEX * turn
            slopes[k] = np.imag(self.mass(moved)) / _COMPLEX
            down[k] = np.imag(self.potential(moved)) / _COMPLEX
        inertial = np.einsum("kij,k,j->i", slopes, v, v) - 0.5 * np.einsum("kij,i,j->k", slopes, v, v)
        force = torque - self.viscous * v - inertial - down
        return np.concatenate([v, np.linalg.solve(np.real(self.mass(q.astype(complex))), force)])


def forced(
    law: Lagrangian, start: Array, t: Array, torque: Callable[[Array], Array] | None = None, held: float | None = None
) -> Array:
    """q at the times t, (N, n), from a start at rest.

    Args:
        torque: (n,) by time; none by default.
        held: for how long a torque is held; as long as the times are apart, or None where it is continuous.
    """
    x, n = np.concatenate([start, np.zeros_like(start)]), len(start)
    drive = torque or (lambda _: np.zeros(n))
    options = {"method": "DOP853", "rtol": _TOLERANCE, "atol": _TOLERANCE}
    if held is None:
        found = solve_ivp(lambda s, y: law.rates(y, drive(np.array(s))), (t[0], t[-1]), x, t_eval=t, **options)
        return found.y[:n].T
    states = [x]
    for began in t[:-1]:
        u = drive(np.array(began))
        states.append(solve_ivp(lambda _, y, u=u: law.rates(y, u), (0.0, held), states[-1], **options).y[:, -1])
    return np.array(states)[:, :n]


def dry_pendulum(J: float, b: float, c: float, t: Array) -> Array:
    """Angle of a pendulum released at 2 rad, with friction c sign(θ̇) and sticking where gravity is not above c.

    Each half swing is smooth; the next begins where an event of the integrator has found the rate to be zero.
    """
    m, length, g = 0.2, 0.15, 9.81
    inertia, pull = J + m * length**2, m * g * length

    def swings(_: float, x: Array) -> float:
        return float(x[1])

    swings.terminal = True
    angle, now, found = 2.0, t[0], np.full(len(t), np.nan)
    while now < t[-1] and abs(pull * np.sin(angle)) > c:
        way = -np.sign(np.sin(angle))
        swings.direction = -way
        law = lambda _, x, way=way: [x[1], (-pull * np.sin(x[0]) - b * x[1] - c * way) / inertia]  # noqa: E731
        half = solve_ivp(
            law, (now, t[-1]), [angle, 0.0], "DOP853", dense_output=True, events=swings, rtol=_TOLERANCE, atol=1e-13
        )
        inside = (t >= now) & (t <= half.t[-1])
        found[inside] = half.sol(t[inside])[0]
        now, angle = half.t[-1], half.y[0, -1]
    return np.where(np.isnan(found), angle, found)


def furuta(J_Azz: float, J_Byy: float, b_1: float, b_2: float) -> Lagrangian:
    """The Furuta pendulum of Table G.5: shoulder upright, elbow along the arm, rod hanging at angle zero."""
    m_A, r_A, m_B, r_B, reach, g = 0.238, 0.128, 0.428, 0.092, 0.248, 9.82
    J_Bxx, J_Bzz = 1e-3, 0.004

    def mass(q: Array) -> Array:
        s, c = np.sin(q[1]), np.cos(q[1])
        upright = J_Azz + m_A * r_A**2 + m_B * (reach**2 + (r_B * s) ** 2) + J_Bxx * c**2 + J_Bzz * s**2
        across = m_B * reach * r_B * c
        return np.array([[upright, across], [across, m_B * r_B**2 + J_Byy]])

    return Lagrangian(mass, lambda q: -m_B * g * r_B * np.cos(q[1]), np.array([b_1, b_2]))


CRANK, COUPLER, ROCKER = 0.10, 0.25, 0.30


def loop(crank: Array) -> tuple[Array, Array]:
    """Unit vectors (complex plane's two parts apart) of coupler and rocker by the crank's angle, (2,) each.

    The wrist is above the line from knee to pivot; square roots only, so that complex angles will do.
    """
    x, y = ROCKER - CRANK * np.cos(crank), -CRANK * np.sin(crank)
    square = x * x + y * y
    along = (square + COUPLER**2 - ROCKER**2) / 2 / square
    above = np.sqrt(COUPLER**2 / square - along**2)
    knee_wrist = np.array([along * x - above * y, along * y + above * x])
    return knee_wrist / COUPLER, (knee_wrist - np.array([x, y])) / ROCKER


def fourbar(I_crank: float, I_coupler: float, I_rocker: float, b: float) -> Lagrangian:
    """The four-bar in the crank's angle alone: A(φ) φ̈ + A'(φ) φ̇²/2 + V'(φ) = τ − b φ̇, no loop left to close."""
    m_1, m_2, m_3, g = 0.2, 0.4, 0.5, 9.81

    def mass(q: Array) -> Array:
        e_1 = np.array([np.cos(q[0]), np.sin(q[0])])
        e_2, e_3 = loop(q[0])
        # The loop's rates along the other rod's direction: CRANK e_1' + k_2 COUPLER e_2' = k_3 ROCKER e_3'.
        k_2 = -CRANK * _cross(e_3, e_1) / (COUPLER * _cross(e_3, e_2))
        k_3 = CRANK * _cross(e_2, e_1) / (ROCKER * _cross(e_2, e_3))
        middle = CRANK * _turned(e_1) + COUPLER / 2 * k_2 * _turned(e_2)
        crank, rocker = I_crank + m_1 * CRANK**2 / 4, I_rocker + m_3 * ROCKER**2 / 4
        return np.array([[crank + m_2 * (middle @ middle) + I_coupler * k_2**2 + rocker * k_3**2]])

    def potential(q: Array) -> complex:
        height = CRANK * np.sin(q[0])
        e_2, e_3 = loop(q[0])
        return g * (m_1 * height / 2 + m_2 * (height + COUPLER / 2 * e_2[1]) + m_3 * ROCKER / 2 * e_3[1])

    return Lagrangian(mass, potential, np.array([b]))


def _cross(a: Array, b: Array) -> complex:
    return a[0] * b[1] - a[1] * b[0]


def _turned(e: Array) -> Array:
    return np.array([-e[1], e[0]])


@dataclass(frozen=True)
class ArmSizes:
    """What is known of the arm: a column that yaws, two links that pitch, hanging at angle zero [m, kg, kg m²]."""

    ahead: float = 0.05
    """From the column's axis to that of the shoulder."""
    aside: float = 0.08
    """Of the links' plane from the column's axis, so that yaw and pitch are coupled in the mass matrix."""
    upper: float = 0.30
    upper_centre: float = 0.14
    fore_centre: float = 0.11
    masses: Sequence[float] = (2.0, 1.2, 0.7)
    upper_inertia: Sequence[float] = (2e-3, 1.2e-2)
    """About the link, and across it and the pitch axis."""
    fore_inertia: Sequence[float] = (5e-4, 4e-3)
    gravity: float = 9.81


def arm(sizes: ArmSizes, I_column: float, I_upper: float, I_fore: float, viscous: Sequence[float]) -> Lagrangian:
    """The three-joint arm, in yaw and the two angles of pitch, the second one relative to the first."""
    _, m_1, m_2 = sizes.masses

    def mass(q: Array) -> Array:
        (s_1, c_1), (s_2, c_2) = ((np.sin(a), np.cos(a)) for a in (q[1], q[1] + q[2]))
        elbow = sizes.ahead + sizes.upper * s_1
        zero = 0 * s_1
        # Velocity of each centre by (yaw, pitch, pitch): columns outward, around, up.
        one = [[-sizes.aside, sizes.upper_centre * c_1, zero], [sizes.ahead + sizes.upper_centre * s_1, zero, zero]]
        one += [[zero, sizes.upper_centre * s_1, zero]]
        out, up = sizes.fore_centre * c_2, sizes.fore_centre * s_2
        two = [[-sizes.aside, sizes.upper * c_1 + out, out], [elbow + sizes.fore_centre * s_2, zero, zero]]
        two += [[zero, sizes.upper * s_1 + up, up]]
        J_1, J_2 = np.array(one), np.array(two)
        M = m_1 * J_1.T @ J_1 + m_2 * J_2.T @ J_2
        M[0, 0] += I_column + sizes.upper_inertia[0] * c_1**2 + sizes.upper_inertia[1] * s_1**2
        M[0, 0] += sizes.fore_inertia[0] * c_2**2 + sizes.fore_inertia[1] * s_2**2
        M[1, 1] += I_upper
        M[1:, 1:] += I_fore
        return M

    def potential(q: Array) -> complex:
        upper, fore = -np.cos(q[1]), -np.cos(q[1] + q[2])
        height_1, height_2 = sizes.upper_centre * upper, sizes.upper * upper + sizes.fore_centre * fore
        return sizes.gravity * (m_1 * height_1 + m_2 * height_2)

    return Lagrangian(mass, potential, np.array(viscous))
