"""Factors of constraints and of motion: integration rules between steps, equations of motion, what changes little."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.graphs.factor import Coordinates, GraphFactor, OfVariable, Variables, Window, independent
from spookid.mechanics.system import System
from spookid.parameter import stacked


@dataclass(frozen=True, eq=False)
class _Constraint(GraphFactor):
    """The rows of Φ or of a derivative, and those that link independent coordinates with the others."""

    coordinates: Coordinates = "dependent"

    own: ClassVar[tuple[str, ...]]
    """Variables of the constraint; the last is linked."""
    linked: ClassVar[str]
    """Its independent part."""

    @property
    def variables(self) -> tuple[str, ...]:
        return self.own if self.coordinates == "dependent" else (*self.own, self.linked)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        count = variables.system.constraint(ca.SX.sym("q", variables.system.manifold.ambient)).numel()
        rows = tuple(f"constraint {i}" for i in range(count))
        return rows if self.coordinates == "dependent" else rows + variables.labels(self.linked)

    def error(self, at: Window) -> ca.SX:
        rows = self._constraint(at)
        return rows if self.coordinates == "dependent" else ca.vertcat(rows, self._link(at))

    @abstractmethod
    def _constraint(self, at: Window) -> ca.SX:
        """Φ or its derivative."""

    def _link(self, at: Window) -> ca.SX:
        whole = at.now[self.own[-1]]
        chosen = independent(at.system, whole) if self.own[-1] == "q" else whole[list(at.system.independent)]
        return chosen - at.now[self.linked]


@dataclass(frozen=True, eq=False)
class PositionConstraint(_Constraint):
    """Position constraints e = Φ(q) (24); with independent coordinates z, e = (Φ(q), q[independent] − z) (30).

    Args:
        coordinates: ``"independent"`` to link z with q.
        sigma: in the units of Φ and of z.
    """

    own: ClassVar[tuple[str, ...]] = ("q",)
    linked: ClassVar[str] = "z"

    def _constraint(self, at: Window) -> ca.SX:
        return at.system.constraint(at.now["q"])


@dataclass(frozen=True, eq=False)
class VelocityConstraint(_Constraint):
    """Velocity constraints e = Φ_q v (25); with independent coordinates z, e = (Φ_q v, v[independent] − dz) (31).

    Args:
        coordinates: ``"independent"`` to link dz with v.
        sigma: in the units of Φ and of z, per second.
    """

    own: ClassVar[tuple[str, ...]] = ("q", "v")
    linked: ClassVar[str] = "dz"

    def _constraint(self, at: Window) -> ca.SX:
        return at.system.constraint_rate(at.now["q"], at.now["v"])


@dataclass(frozen=True, eq=False)
class AccelerationConstraint(_Constraint):
    """Acceleration constraints e = Φ̇_q v + Φ_q a; with independent coordinates, a[independent] − ddz is appended (32).

    Args:
        coordinates: ``"independent"`` to link ddz with a.
        sigma: in the units of Φ and of z, per second squared.
    """

    own: ClassVar[tuple[str, ...]] = ("q", "v", "a")
    linked: ClassVar[str] = "ddz"

    def _constraint(self, at: Window) -> ca.SX:
        return at.system.constraint_acceleration(at.now["q"], at.now["v"], at.now["a"])


_RATES = {"q": "v", "v": "a", "z": "dz", "dz": "ddz"}  # of each variable that has one


@dataclass(frozen=True, eq=False)
class _Integration(OfVariable):
    """Of a variable and its rate."""

    rate: str
    reach = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if _RATES.get(self.variable) != self.rate:
            pairs = ", ".join(f"{rate} of {x}" for x, rate in _RATES.items())
            raise ProblemError(f"{self.what}: {self.rate} is no rate of {self.variable}; rates are {pairs}")

    @property
    def variables(self) -> tuple[str, ...]:
        return self.variable, self.rate


@dataclass(frozen=True, eq=False)
class Euler(_Integration):
    """Euler integration e = x_{k+1} ⊟ x_k − h ẋ_k, with an error of h²/2 times the second derivative (22).

    Args:
        variable: x, such as ``"q"``; a difference of orientations is the rotation vector from one to the other.
        rate: ẋ, such as ``"v"``.
        sigma: in the unit of x.
    """

    def error(self, at: Window) -> ca.SX:
        return at.changes(self.variable)[0] - at.step * at.now[self.rate]


@dataclass(frozen=True, eq=False)
class Trapezoid(_Integration):
    """Trapezoidal rule e = x_{k+1} ⊟ x_k − h (ẋ_k + ẋ_{k+1})/2, with an error of h³/12 times the third derivative (23).

    Args:
        variable: x, such as ``"q"``; a difference of orientations is the rotation vector from one to the other.
        rate: ẋ, such as ``"v"``.
        sigma: in the unit of x.
    """

    def error(self, at: Window) -> ca.SX:
        return at.changes(self.variable)[0] - at.step / 2 * (at.now[self.rate] + at.after[self.rate])


@dataclass(frozen=True, eq=False)
class SoftEquality(OfVariable):
    """Smoothness of a variable, e = x_{k+1} ⊟ x_k: it changes little between steps (f_eq of section 5.2).

    With a large sigma it determines what nothing else does, such as an effort that alternates from step to step, which
    a trapezoidal rule does not penalize. With order 2, e = (x_{k+2} ⊟ x_{k+1}) − (x_{k+1} ⊟ x_k), it does not penalize
    a steady change.

    Args:
        variable: x.
        order: 1, or 2.
        sigma: in the unit of x; not 0, which would hold it still.
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ProblemError(f"{self.what}: order is {shown(self.order)}; give 1 or 2")
        super().__post_init__()
        if not np.all(self.sigma):
            raise ProblemError(f"{self.what} has sigma 0, which holds {self.variable} still; give a positive one")

    @property
    def reach(self) -> int:  # type: ignore[override]
        return self.order

    def error(self, at: Window) -> ca.SX:
        changes = at.changes(self.variable)
        return changes[0] if self.order == 1 else changes[1] - changes[0]


def accelerations(system: System, q: ca.SX, v: ca.SX, force: ca.SX) -> ca.SX:
    """Accelerations a with M a + Φ_qᵀλ = Q and Φ_q a = c, (n,), by block elimination with Γ = Φ_q M⁻¹ Φ_qᵀ (6, 7)."""
    mass = system.mass(q)
    free = _solved(mass, force)
    rows = system.constraint(q).numel()
    if not rows:
        return free
    slope = system.constraint_jacobian(q)
    given = system.constraint_acceleration(q, v, ca.SX.zeros(system.manifold.tangent))
    spread = _solved(mass, slope.T)
    reactions = _solved(slope @ spread, slope @ free + given)
    return free - spread @ reactions


def _solved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Of a symmetric positive definite matrix, by LDLᵀ."""
    return ca.SX(ca.ldl_solve(ca.densify(right), *ca.ldl(ca.densify(matrix), False)))


@dataclass(frozen=True, eq=False)
class Dynamics(GraphFactor):
    """Forward dynamics e = a(q, v, u) − a: computed acceleration minus the variable a (26).

    Of independent coordinates only their rows, with ddz instead of a (27): they are those of M̄⁻¹ Q̄ (15).

    Args:
        coordinates: ``"independent"`` for ddz.
        sigma: in the unit of an acceleration: how well the equations of motion hold.
    """

    coordinates: Coordinates = "dependent"

    @property
    def variables(self) -> tuple[str, ...]:
        return "q", "v", self._accelerated

    @property
    def _accelerated(self) -> str:
        return "a" if self.coordinates == "dependent" else "ddz"

    def signals(self, system: System) -> tuple[str, ...]:
        return system.signals

    def labels(self, variables: Variables) -> tuple[str, ...]:
        return variables.labels(self._accelerated)

    def error(self, at: Window) -> ca.SX:
        found = accelerations(at.system, at.now["q"], at.now["v"], self._force(at))
        chosen = found if self.coordinates == "dependent" else found[list(at.system.independent)]
        return chosen - at.now[self._accelerated]

    def _force(self, at: Window) -> ca.SX:
        return at.system.force(at.now["q"], at.now["v"], self._inputs(at))

    def _inputs(self, at: Window) -> ca.SX:
        return stacked(at.given[signal] for signal in at.system.signals)


@dataclass(frozen=True, eq=False)
class InverseDynamics(Dynamics):
    """Inverse dynamics e = a(q, v, Q) − a with unknown efforts Q along ``system.actuation`` (28), (29).

    Args:
        coordinates: ``"independent"`` for ddz.
        inputs: True if the system's inputs act in addition to Q, from data; False if Q is the only drive.
        sigma: in the unit of an acceleration.
    """

    inputs: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        return *super().variables, "Q"

    def signals(self, system: System) -> tuple[str, ...]:
        return super().signals(system) if self.inputs else ()

    def _inputs(self, at: Window) -> ca.SX:
        return super()._inputs(at) if self.inputs else ca.SX.zeros(len(at.system.signals))

    def _force(self, at: Window) -> ca.SX:
        return super()._force(at) + at.system.actuation(at.now["q"]) @ at.now["Q"]
