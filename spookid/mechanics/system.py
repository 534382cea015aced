"""Equations of motion in chosen coordinates, dependent or not: what one-step functions of any mechanism are made of.

    M(q) a + Φ_qᵀ λ = Q(q, v, u),    Φ(q) = 0,    q̇ = v,    v̇ = a

v and a are in the tangent space of q, so that coordinates may be unit quaternions too (Blanco-Claraco, Leanza and
Reina, *A general framework for modeling and dynamic simulation of multibody systems using factor graphs*, (1)–(5)).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.mechanics.manifold import Manifold, jacobian
from spookid.parameter import Parameter


class System(ABC):
    """Base class of mechanisms in coordinates q with n velocities v and m constraint equations."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, one per velocity, (n,)."""

    @property
    @abstractmethod
    def manifold(self) -> Manifold:
        """Manifold of q, whose tangent space contains velocities and accelerations."""

    @property
    @abstractmethod
    def signals(self) -> tuple[str, ...]:
        """Names of the inputs u, (n_u,)."""

    @property
    @abstractmethod
    def independent(self) -> tuple[int, ...]:
        """Indices of the independent velocities, one per degree of freedom; with constraints, q has no quaternions."""

    @property
    @abstractmethod
    def actuated(self) -> tuple[str, ...]:
        """Names of the efforts that inverse dynamics computes, (n_a,)."""

    @abstractmethod
    def mass(self, q: ca.SX) -> ca.SX:
        """Mass matrix M, symmetric and positive definite, (n, n)."""

    @abstractmethod
    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Generalized force Q of loads, inputs, weight and velocity products, (n,); without M a and reactions."""

    @abstractmethod
    def constraint(self, q: ca.SX) -> ca.SX:
        """Φ, (m,)."""

    @abstractmethod
    def actuation(self, q: ca.SX) -> ca.SX:
        """Generalized force Q per unit of each effort in ``actuated``, as columns of (n, n_a)."""

    @abstractmethod
    def expressions(self) -> list[ca.SX]:
        """All expressions that may contain a Parameter."""

    def constraint_jacobian(self, q: ca.SX) -> ca.SX:
        """Constraint Jacobian Φ_q, (m, n), in the tangent space of the symbol q."""
        return jacobian(self.constraint(q), q, self.manifold)

    def constraint_rate(self, q: ca.SX, v: ca.SX) -> ca.SX:
        """Constraint velocity Φ_q v, (m,), with the symbol q (2)."""
        return ca.jtimes(self.constraint(q), q, self._flow(q, v))

    def constraint_acceleration(self, q: ca.SX, v: ca.SX, a: ca.SX) -> ca.SX:
        """Constraint acceleration Φ_q a + Φ̇_q v, (m,), with the symbols q and v (3)."""
        rate = self.constraint_rate(q, v)
        return ca.jtimes(rate, q, self._flow(q, v)) + ca.jtimes(rate, v, ca.densify(a))

    def _flow(self, q: ca.SX, v: ca.SX) -> ca.SX:
        return ca.densify(self.manifold.basis(q) @ v)


MOST_STEPS = 100_000_000  # no memory holds more
FEW_DIGITS = 1e-3  # share by which coordinates may be off their constraints, as numbers of few digits are


def seconds(step: object, what: str) -> float:
    """h [s]."""
    if not (isinstance(step, Real) and 0 < float(step) < math.inf):
        raise ProblemError(f"{what}: step is {shown(step)}; give a positive number of seconds")
    return float(step)


def counted_steps(steps: object, least: int, what: str) -> int:
    """N."""
    if not (isinstance(steps, Integral) and MOST_STEPS >= int(steps) >= least):
        raise ProblemError(f"{what}: steps is {shown(steps)}; give {least} or more, and {MOST_STEPS:,} at the most")
    return int(steps)


def floats(values: Any, what: str, wanted: str) -> Array:
    """An array."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ProblemError(f"{what} is {shown(values)}; give {wanted}") from None


def vector(values: Any, size: int, what: str, *, or_one: bool = False) -> Array:
    """Finite numbers, (size,)."""
    found = floats(values, what, f"numbers, ({size},)")
    if or_one and found.ndim == 0:
        found = np.full(size, found)
    if found.shape != (size,):
        raise ProblemError(f"{what} has the shape {found.shape}; give ({size},)")
    if not np.all(np.isfinite(found)):
        raise ProblemError(f"{what} holds a value that is not finite; give finite numbers, ({size},)")
    return found


def point(values: Any, space: Manifold, what: str) -> Array:
    """Coordinates of a point, (ambient,)."""
    found = vector(values, space.ambient, what)
    with np.errstate(invalid="ignore"):
        turned = space.normed(found)
    if not np.max(np.abs(turned - found), initial=0.0) <= FEW_DIGITS:
        raise ProblemError(f"{what} holds an orientation that is no unit quaternion; divide it by its length")
    return turned


def parameter_values(parameters: Sequence[Parameter], values: Mapping[str, Any], what: str) -> Array:
    """Return one number per Parameter, (n_p,): from ``values``, or the initial value if ``values`` has none."""
    found = [values.get(p.name, p.guess) for p in parameters]
    for p, value in zip(parameters, found, strict=True):
        if not (isinstance(value, Real) and math.isfinite(value) and p.lower <= float(value) <= p.upper):
            raise ProblemError(
                f"{what} of {p.name} is {shown(value)}; give a finite number in [{p.lower:g}, {p.upper:g}]"
            )
    return np.array(found, dtype=float)
