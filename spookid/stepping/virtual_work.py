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
from spookid.stepping.base import Scheme
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, StepFunction, along_coordinates, random_factor
from spookid.transcription.factor import Factor


class VirtualWork(ABC):
    """The rows of one step around t_k; a subclass says what motion and loads give and take."""

    model: Model
    settings: Settings
    law: DryFriction
    joints: JointCoordinates
    variables: dict[int, ca.SX]
    """Unknowns at the steps that it stands between."""
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

    def net(self, along: ca.SX) -> ca.SX:
        """What the motion takes along unit rates, less loads on bodies and what closes, (n,)."""
        return self.transmitted(along).along

    def settled(self, expression: ca.SX) -> ca.SX:
        """In ``variables``."""
        return expression

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
        return self.net(along) - self.joints.of_tree(along)

    def cut(self, along: ca.SX) -> ca.SX:
        """What joints that close loops do to the bodies, (6 n_b,)."""
        given, joints = self.closing[1], self.joints.cut
        sizes = [len(joint.coordinates) for joint in joints]
        random = self.random if self.random.numel() else ca.SX.zeros(sum(sizes))
        for joint, disturbed in zip(joints, split(random, sizes), strict=True):
            own = self.model.freedoms_of(joint)
            given += self.at.slip[own, :].T @ (along[own, 0] + disturbed)
        return given

    def random_factor(self, private: tuple[int, range] | None = None, overlap: float = 0.0) -> Factor:
        """Random impulses along the coordinates over their standard deviations."""
        joints, impulses = self.joints, ca.vertcat(self.residual, self.random)
        places, known = [*joints.places, *joints.cut_places], len(joints.places)
        at = places, impulses, self.variables, self.u, private, known, overlap
        return random_factor(self.model, self.settings, *at)

    def _along(self, multipliers: ca.SX) -> ca.SX:
        friction = self.law.impulses(self.model, self.settings, self.slips, multipliers, self.extra)
        return along_coordinates(self.model, self.settings, self.slips, friction, self.u)


class WorkScheme(Scheme):
    """A scheme whose random rows are virtual work."""

    @abstractmethod
    def step(self, model: Model, settings: Settings) -> VirtualWork:
        """Its symbols."""

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of a step, (n_g,), from the impulses that its joints transmit."""
        step = self.step(model, settings)
        return StepFunction(step.variables, step.u, step.settled(step.multipliers))

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """In the same step."""
        step = self.step(model, settings)
        value = self.law.along(model, settings, step.slips, step.multipliers, step.extra)
        return StepFunction(step.variables, step.u, step.settled(value))
