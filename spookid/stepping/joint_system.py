"""A model without closed loops as a system of equations of motion in the coordinates of its joints."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import casadi as ca

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, declared_at
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.mechanics.system import System
from spookid.parameter import is_zero
from spookid.records import dataclass
from spookid.stepping.impulses import Settings
from spookid.stepping.joint_space import instant

_INSTANT = 1e-6
"""Step over which an impulse is taken as a force [s]; it only scales."""


@dataclass(frozen=True, eq=False)
class JointSystem(System, metaclass=Checked):
    """Positions of the joints, then poses of free bodies: as many rates as degrees of freedom, and no constraints.

    Dry friction is the smooth one: tanh(s/w) of the rate s.

    Args:
        model: of bodies in a tree.
        friction_width: w of every coordinate [rad/s or m/s].

    Raises:
        ProblemError: if joints or constraints close loops, or hold velocities.
    """

    model: Model
    friction_width: float = 1e-2
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        if self.model.has_loops or self.model.holding.on_velocities:
            raise ProblemError(
                f"{self.place}: JointSystem is of a model with closed loops or constraints, which have no independent "
                "joint coordinates; leave them out, or describe the mechanism with spookid.planar"
            )
        loaded = next((joint for joint in self.model.joints if _follows_load(joint)), None)
        if loaded is not None:
            raise ProblemError(
                f"{loaded.place}: {loaded.kind} {loaded.name!r} has load_friction, whose force is no function of "
                "position and rate; give JointSystem a joint with coulomb"
            )

    @cached_property
    def joints(self) -> JointCoordinates:
        """The coordinates."""
        return JointCoordinates(self.model)

    @property
    def names(self) -> tuple[str, ...]:
        """Coordinates of the tree's joints, then directions of free bodies."""
        return self.joints.names

    @property
    def manifold(self) -> Manifold:
        """That of the joint coordinates."""
        return self.joints.manifold

    @property
    def signals(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.model.signals

    @property
    def independent(self) -> tuple[int, ...]:
        """All rates."""
        return tuple(range(self.manifold.tangent))

    @property
    def actuated(self) -> tuple[str, ...]:
        """An effort along each rate."""
        return self.names

    def mass(self, q: ca.SX) -> ca.SX:
        """Of bodies and shafts, (n, n)."""
        return self._at(q, None, None)[0]

    def force(self, q: ca.SX, v: ca.SX, u: ca.SX) -> ca.SX:
        """Loads, motors, friction, weight, and velocity products, (n,)."""
        return self._at(q, v, u)[1]

    def constraint(self, q: ca.SX) -> ca.SX:
        """None, (0,)."""
        return ca.SX(0, 1)

    def actuation(self, q: ca.SX) -> ca.SX:
        """The unit matrix."""
        return ca.SX.eye(self.manifold.tangent)

    def expressions(self) -> list[ca.SX]:
        """Those of the model."""
        return self.model.expressions()

    def _at(self, q: ca.SX, v: ca.SX | None, u: ca.SX | None) -> tuple[ca.SX, ca.SX]:
        n = self.manifold.tangent
        moving = ca.vertcat(q, ca.SX.zeros(n) if v is None else v, ca.SX.zeros(n))
        given = ca.SX.zeros(len(self.signals)) if u is None else u
        symbols, inputs, parts = self._equations
        mass, force = ca.substitute(parts, [symbols, inputs], [ca.densify(moving), given])
        return mass, force

    @cached_property
    def _equations(self) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
        """Symbols of (q, v, a) and u, with the slopes of what the motion lacks along a, and what acts; both are taken
        at a = 0, where the friction's mean over the step is its value at the instant."""
        settings = Settings.of(self.model)
        found = instant(self.model, settings)
        widths = ca.vertcat(settings.slip_width, settings.turn_width, settings.impulse_width)
        given = ca.vertcat(_INSTANT, self.friction_width * ca.DM.ones(widths.numel()))
        lacking = ca.substitute(found.lacking / settings.step, ca.vertcat(settings.step, widths), given)
        return found.symbols, found.u, [ca.jacobian(lacking, found.symbols[-self.manifold.tangent :]), -lacking]


def _follows_load(joint: Joint) -> bool:
    """True if its dry friction grows with the forces that it transmits."""
    numbers = ca.SX([0.5] * len(joint.coordinates))
    bound = joint.bound(numbers, numbers)
    return not all(is_zero(part) for part in ca.vertsplit(bound.load)) if joint.coordinates else False
