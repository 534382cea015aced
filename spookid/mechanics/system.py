"""Equations of motion in chosen coordinates, dependent or not: what one-step functions of any mechanism are made of.

    M(q) a + Φ_qᵀ λ = Q(q, v, u),    Φ(q) = 0,    q̇ = v,    v̇ = a

v and a are in the tangent space of q, so that coordinates may be unit quaternions too (Blanco-Claraco, Leanza and
Reina, *A general framework for modeling and dynamic simulation of multibody systems using factor graphs*, (1)–(5)).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import casadi as ca

from spookid.mechanics.manifold import Manifold, jacobian


class System(ABC):
    """A mechanism in coordinates q with n rates v, m constraint rows and so many degrees of freedom as remain."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Of the coordinates, one for each rate, (n,)."""

    @property
    @abstractmethod
    def manifold(self) -> Manifold:
        """The space of q; rates and accelerations are in its tangent."""

    @property
    @abstractmethod
    def signals(self) -> tuple[str, ...]:
        """Names of the inputs u, (n_u,)."""

    @property
    @abstractmethod
    def independent(self) -> tuple[int, ...]:
        """Which rates are independent, as many as there are degrees of freedom; of flat coordinates, if there are
        constraints."""

    @property
    @abstractmethod
    def actuated(self) -> tuple[str, ...]:
        """Names of the efforts that inverse dynamics may ask for, (n_a,)."""

    @abstractmethod
    def mass(self, q: ca.SX) -> ca.SX:
        """M, symmetric and positive definite, (n, n)."""

    @abstractmethod
    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Q: loads, inputs, weight, and velocity products: all but M a and reactions, (n,)."""

    @abstractmethod
    def constraint(self, q: ca.SX) -> ca.SX:
        """Φ, (m,)."""

    @abstractmethod
    def actuation(self, q: ca.SX) -> ca.SX:
        """What a unit of each effort of ``actuated`` adds to Q, columns of (n, n_a)."""

    @abstractmethod
    def expressions(self) -> list[ca.SX]:
        """All that may hold a Parameter."""

    def constraint_jacobian(self, q: ca.SX) -> ca.SX:
        """Φ_q, (m, n), in the tangent space of q, which is a symbol."""
        return jacobian(self.constraint(q), q, self.manifold)

    def constraint_rate(self, q: ca.SX, v: ca.SX) -> ca.SX:
        """Φ_q v, (m,); q is a symbol (2)."""
        return ca.jtimes(self.constraint(q), q, self._flow(q, v))

    def constraint_acceleration(self, q: ca.SX, v: ca.SX, a: ca.SX) -> ca.SX:
        """Φ_q a + Φ̇_q v, (m,); q and v are symbols (3)."""
        rate = self.constraint_rate(q, v)
        return ca.jtimes(rate, q, self._flow(q, v)) + ca.jtimes(rate, v, ca.densify(a))

    def _flow(self, q: ca.SX, v: ca.SX) -> ca.SX:
        return ca.densify(self.manifold.basis(q) @ v)
