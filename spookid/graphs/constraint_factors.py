"""Factors of the mechanism's constraints, in dependent coordinates alone or with the independent ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca

from spookid.graphs.factor import Coordinates, GraphFactor, Variables, Window, independent


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
        """Its own, and the independent ones if it links them."""
        return self.own if self.coordinates == "dependent" else (*self.own, self.linked)

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """Constraints by number, then links by name."""
        count = variables.system.constraint(ca.SX.sym("q", variables.system.manifold.ambient)).numel()
        rows = tuple(f"constraint {i}" for i in range(count))
        return rows if self.coordinates == "dependent" else rows + variables.labels(self.linked)

    def error(self, at: Window) -> ca.SX:
        """Both."""
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
    """e = Φ(q) (24); of independent coordinates e = (Φ(q), q[independent] − z) (30).

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
    """e = Φ_q v (25); of independent coordinates e = (Φ_q v, v[independent] − dz) (31).

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
    """e = Φ̇_q v + Φ_q a; of independent coordinates with a[independent] − ddz below it (32).

    Args:
        coordinates: ``"independent"`` to link ddz with a.
        sigma: in the units of Φ and of z, per second squared.
    """

    own: ClassVar[tuple[str, ...]] = ("q", "v", "a")
    linked: ClassVar[str] = "ddz"

    def _constraint(self, at: Window) -> ca.SX:
        return at.system.constraint_acceleration(at.now["q"], at.now["v"], at.now["a"])
