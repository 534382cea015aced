"""Factors of the equations of motion: accelerations that follow from forces, and forces that are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from spookid.graphs.factor import Coordinates, GraphFactor, Window
from spookid.graphs.variables import Variables
from spookid.mechanics.system import System


def accelerations(system: System, q: ca.SX, v: ca.SX, force: ca.SX) -> ca.SX:
    """a of M a + Φ_qᵀλ = Q, Φ_q a = c, (n,), by block elimination with Γ = Φ_q M⁻¹ Φ_qᵀ (6, 7).

    Args:
        q, v: symbols, (ambient,) and (n,).
        force: Q, (n,).
    """
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
    factors = ca.ldl(ca.densify(matrix), False)
    found: ca.SX = ca.ldl_solve(ca.densify(right), *factors)
    return found


@dataclass(frozen=True, eq=False)
class Dynamics(GraphFactor):
    """e = a(q, v, u) − a, the acceleration that forces and inputs give less the one that there is (26).

    Of independent coordinates only their rows, with ddz in the place of a (27): they are those of M̄⁻¹ Q̄ (15).

    Args:
        coordinates: ``"independent"`` for ddz.
        sigma: in the unit of an acceleration: how well the equations of motion hold.
    """

    coordinates: Coordinates = "dependent"

    @property
    def variables(self) -> tuple[str, ...]:
        """Positions and rates, and the accelerations of either coordinates."""
        return "q", "v", self._accelerated

    @property
    def _accelerated(self) -> str:
        return "a" if self.coordinates == "dependent" else "ddz"

    def signals(self, system: System) -> tuple[str, ...]:
        """The inputs."""
        return system.signals

    def labels(self, variables: Variables) -> tuple[str, ...]:
        """One for each rate."""
        return variables.labels(self._accelerated)

    def error(self, at: Window) -> ca.SX:
        """(26) or (27)."""
        found = accelerations(at.system, at.now["q"], at.now["v"], self._force(at))
        chosen = found if self.coordinates == "dependent" else found[list(at.system.independent)]
        return chosen - at.now[self._accelerated]

    def _force(self, at: Window) -> ca.SX:
        return at.system.force(at.now["q"], at.now["v"], self._inputs(at))

    def _inputs(self, at: Window) -> ca.SX:
        return ca.vertcat(ca.SX(0, 1), *(at.given[signal] for signal in at.system.signals))


@dataclass(frozen=True, eq=False)
class InverseDynamics(Dynamics):
    """e = a(q, v, Q) − a with efforts Q that are unknown, along ``system.actuation`` (28), (29).

    Args:
        coordinates: ``"independent"`` for ddz.
        inputs: True if the system's inputs act beside Q, from data; False if Q is all that drives it.
        sigma: in the unit of an acceleration.
    """

    inputs: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of the dynamics, and the efforts."""
        return *super().variables, "Q"

    def signals(self, system: System) -> tuple[str, ...]:
        """The inputs, if they act."""
        return super().signals(system) if self.inputs else ()

    def _inputs(self, at: Window) -> ca.SX:
        return super()._inputs(at) if self.inputs else ca.SX.zeros(len(at.system.signals))

    def _force(self, at: Window) -> ca.SX:
        return super()._force(at) + at.system.actuation(at.now["q"]) @ at.now["Q"]
