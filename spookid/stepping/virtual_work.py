"""The virtual work of what disturbs a step along unit rates of the joints, whatever the unknowns of a step are.

With p what the residual of all bodies' momenta is, w = Sᵀp has a row for each degree of freedom of the spanning tree.
λ of its joints follow from the impulses that they carry; what closes loops has its λ, and the random impulses along its
coordinates, as private unknowns of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import casadi as ca

from spookid.mechanics.constraints import Constraint
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import split
from spookid.mechanics.model import Mechanics, Model
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, along_coordinates


class VirtualWork(ABC):
    """The rows of one step around t_k; a subclass says what motion and loads give and take."""

    model: Model
    settings: Settings
    law: DryFriction
    joints: JointCoordinates
    u: ca.SX
    loads: ca.SX
    """λ of what closes, as unknowns."""
    random: ca.SX
    """Random impulses along coordinates of cut joints; empty where there are none."""
    extra: ca.SX
    """Unknowns of the friction law."""
    slips: Slips

    @property
    @abstractmethod
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""

    @abstractmethod
    def transmitted(self, along: ca.SX) -> Transmitted:
        """What the joints of the tree transmit, with impulses along the coordinates of all joints."""

    @abstractmethod
    def net(self, along: ca.SX) -> ca.SX:
        """What the motion takes along unit rates, less loads on bodies and what closes, (n,)."""

    @cached_property
    def at(self) -> Mechanics:
        """The mechanics at these poses."""
        return self.model.mechanics(self.q)

    @cached_property
    def closing(self) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """λ of what closes, and what they do to the bodies, (6 n_b,)."""
        if not self.joints.closing:
            return {}, ca.SX(self.model.configuration.tangent, 1)
        return self.joints.closed_by(self.loads, self.at)

    @cached_property
    def _along_with(self) -> tuple[ca.SX, ca.SX]:
        """Impulses along the coordinates of all joints, and λ of all joints."""
        given = self.closing[0]
        own = self._along(self.joints.ordered(given))  # a joint's friction follows its own load alone
        multipliers = self.joints.ordered(given | self.transmitted(own).loads)
        return self._along(multipliers), multipliers

    @property
    def multipliers(self) -> ca.SX:
        """λ of all joints, (n_g,)."""
        return self._along_with[1]

    @cached_property
    def residual(self) -> ca.SX:
        """w = Sᵀp, (n,)."""
        along = self._along_with[0]
        net = self.net(along)
        tree = ca.vertcat(ca.SX(0, 1), *(along[self.model.freedoms_of(joint), 0] for joint in self.joints.tree))
        return net - ca.vertcat(tree, ca.SX(net.numel() - tree.numel(), 1))

    def cut(self, along: ca.SX) -> ca.SX:
        """What joints that close loops do to the bodies, (6 n_b,)."""
        given, joints = self.closing[1], self.joints.cut
        sizes = [len(joint.coordinates) for joint in joints]
        random = self.random if self.random.numel() else ca.SX.zeros(sum(sizes))
        for joint, disturbed in zip(joints, split(random, sizes), strict=True):
            own = self.model.freedoms_of(joint)
            given += self.at.slip[own, :].T @ (along[own, 0] + disturbed)
        return given

    def _along(self, multipliers: ca.SX) -> ca.SX:
        friction = self.law.impulses(self.model, self.settings, self.slips, multipliers, self.extra)
        return along_coordinates(self.model, self.settings, self.slips, friction, self.u)
