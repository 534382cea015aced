"""Unit quaternions e = (s, x, y, z), scalar first, that rotate body-frame vectors into the world.

Angular velocities and rotation vectors live in the body frame, so that increments are right multiplications. All
functions take and return CasADi expressions and have exact derivatives everywhere, at zero rotation too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache, wraps

import casadi as ca

SERIES_BELOW = math.sqrt(sys.float_info.epsilon)
"""Squared angle below which sin and cos are replaced by their series; the terms left out are below rounding."""

Expression = Callable[..., ca.SX]


def _of(*sizes: int | tuple[int, int]) -> Callable[[Expression], Expression]:
    """Writes a function of arguments of these sizes once; CasADi repeats it twenty times as fast as Python would."""

    def of(function: Expression) -> Expression:
        shapes = [(size, 1) if isinstance(size, int) else size for size in sizes]

        @cache
        def written() -> ca.Function:
            symbols = [ca.SX.sym(f"x{i}", *shape) for i, shape in enumerate(shapes)]
            return ca.Function(function.__name__, symbols, [function(*symbols)])

        @wraps(function)
        def call(*arguments: ca.SX) -> ca.SX:
            given = [a.shape if isinstance(a, ca.SX) else ca.SX(a).shape for a in arguments]
            if given != shapes:  # CasADi would repeat or turn them
                raise ValueError(f"{function.__name__} takes arguments of shapes {shapes}")
            return written()(*arguments)

        return call

    return of


@_of(4, 4)
def multiply(a: ca.SX, b: ca.SX) -> ca.SX:
    """Quaternion product a ⋆ b, each (4,)."""
    s, u, t, w = a[0], a[1:4], b[0], b[1:4]
    return ca.vertcat(s * t - ca.dot(u, w), s * w + t * u + ca.cross(u, w))


def conjugate(e: ca.SX) -> ca.SX:
    """Conjugate quaternion e* (4,), the inverse of a unit quaternion."""
    return ca.vertcat(e[0], -e[1:4])


@_of(4)
def matrix(e: ca.SX) -> ca.SX:
    """Rotation matrix (3, 3), body to world; its columns are the body's axes in the world."""
    s, x, y, z = ca.vertsplit(e)
    return ca.blockcat(
        [
            [s * s + x * x - y * y - z * z, 2 * (x * y - s * z), 2 * (x * z + s * y)],
            [2 * (x * y + s * z), s * s - x * x + y * y - z * z, 2 * (y * z - s * x)],
            [2 * (x * z - s * y), 2 * (y * z + s * x), s * s - x * x - y * y + z * z],
        ]
    )


@_of(4)
def unit_matrix(e: ca.SX) -> ca.SX:
    """Rotation matrix of a symbolic unit quaternion; constant entries of single-axis rotations are kept."""
    whole, square = matrix(e), e * e
    whole[0, 0] = 1 - 2 * (square[2] + square[3])
    whole[1, 1] = 1 - 2 * (square[1] + square[3])
    whole[2, 2] = 1 - 2 * (square[1] + square[2])
    return whole


@_of((3, 3))
def from_matrix(R: ca.SX) -> ca.SX:
    """Quaternion (4,) of a rotation matrix (3, 3); the formula divides by the largest component (Shepperd, Journal of
    Guidance and Control 1, 1978)."""
    m = [[R[i, j] for j in range(3)] for i in range(3)]
    squares = [
        1 + m[0][0] + m[1][1] + m[2][2],
        1 + m[0][0] - m[1][1] - m[2][2],
        1 - m[0][0] + m[1][1] - m[2][2],
        1 - m[0][0] - m[1][1] + m[2][2],
    ]
    skew = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]]
    sums = [m[0][1] + m[1][0], m[0][2] + m[2][0], m[1][2] + m[2][1]]
    ways = [
        (squares[0], *skew),
        (skew[0], squares[1], sums[0], sums[1]),
        (skew[1], sums[0], squares[2], sums[2]),
        (skew[2], sums[1], sums[2], squares[3]),
    ]
    result = ca.vertcat(*ways[0]) / (2 * ca.sqrt(ca.fmax(squares[0], 1e-300)))
    largest = squares[0]
    for square, way in zip(squares[1:], ways[1:], strict=True):
        larger = square > largest
        result = ca.if_else(larger, ca.vertcat(*way) / (2 * ca.sqrt(ca.fmax(square, 1e-300))), result)
        largest = ca.fmax(largest, square)
    return result


@_of(3)
def exponential(psi: ca.SX) -> ca.SX:
    """Quaternion exponential exp(ψ) = (cos |ψ|/2, ψ/|ψ| sin |ψ|/2), computed by a series near ψ = 0 (2.13)."""
    square = ca.dot(psi, psi)
    near = square < SERIES_BELOW
    # The branch not taken must stay finite: CasADi evaluates both.
    angle = ca.sqrt(ca.if_else(near, 1, square))
    cosine = ca.if_else(near, 1 - square / 8, ca.cos(angle / 2))
    sinc = ca.if_else(near, 0.5 - square / 48, ca.sin(angle / 2) / angle)
    return ca.vertcat(cosine, sinc * psi)


@_of(4, 3)
def plus(e: ca.SX, psi: ca.SX) -> ca.SX:
    """Rotation update e ⊞ ψ = e ⋆ exp(ψ)."""
    return multiply(e, exponential(psi))


@_of(3)
def cayley(psi: ca.SX) -> ca.SX:
    """Cayley map (1, ψ/2)/√(1 + |ψ|²/4), (3,) to (4,): equal to exp(ψ) to second order, and smooth."""
    half = psi / 2
    return ca.vertcat(1, half) / ca.sqrt(1 + ca.dot(half, half))


@_of(3)
def cayley_tangent(psi: ca.SX) -> ca.SX:
    """Tangent matrix T (3, 3) of the Cayley map: cayley(ψ + dψ) = cayley(ψ) ⋆ exp(T dψ) to first order, T = (1 −
    [ψ/2]×)/(1 + |ψ|²/4)."""
    half = psi / 2
    return (ca.SX.eye(3) - ca.skew(half)) / (1 + ca.dot(half, half))


@_of(4, 4)
def minus(e1: ca.SX, e0: ca.SX) -> ca.SX:
    """Rotation difference e₁ ⊟ e₀ ≈ 2 s v of e₀* ⋆ e₁ (equation 3.24): smooth, exact to third order, independent of the
    sign of the quaternions."""
    difference = multiply(conjugate(e0), e1)
    return 2 * difference[0] * difference[1:4]


@_of(4)
def logarithm(e: ca.SX) -> ca.SX:
    """Rotation vector log(e) of a quaternion by the smaller angle, (4,) to (3,); a series is used near the identity.

    It is blind to the quaternion's sign; its derivative ends at half a turn.
    """
    s, v = e[0], e[1:4]
    square = ca.dot(v, v)
    near = square < SERIES_BELOW
    sine = ca.sqrt(ca.if_else(near, 1, square))
    ratio = ca.if_else(near, 2 + square / 3, 2 * ca.atan2(sine, ca.fabs(s)) / sine)
    return ca.if_else(s < 0, -ratio, ratio) * v


@_of(4, 4)
def difference(e1: ca.SX, e0: ca.SX) -> ca.SX:
    """Exact rotation difference e₁ ⊟ e₀ = log(e₀* ⋆ e₁)."""
    return logarithm(multiply(conjugate(e0), e1))


@_of(4)
def tangent(e: ca.SX) -> ca.SX:
    """Tangent matrix ∂(e ⊞ ψ)/∂ψ at ψ = 0, (4, 3): the map ψ̇ ↦ e ⋆ (0, ψ̇/2) (equation D.12)."""
    s, x, y, z = ca.vertsplit(e)
    return 0.5 * ca.blockcat([[-x, -y, -z], [s, -z, y], [z, s, -x], [-y, x, s]])


def wrapped(angle: ca.SX) -> ca.SX:
    """Wrap an angle to [−π, π] by whole turns. This is faster than an arc tangent of sine and cosine, and keeps the
    derivatives of the angle."""
    turn = 2 * math.pi
    return angle - turn * ca.sign(angle) * ca.ceil(ca.fabs(angle) / turn - 0.5)
