"""The rows of ``joint_space`` in the poses of all bodies: joints hold by rows of each step, none of them identically.

The unknowns of a step are the poses q_k; all of g(q_k) = 0 is hard and holds one step alone, so that solvers eliminate
it there, joint by joint. The random rows are the same virtual work w = Sᵀp of the residual

    p = M (v₊ − v) − h (f + f_g),    v = (q_k ⊟ q_{k−1})/h,    v₊ = (q_{k+1} ⊟ q_k)/h,

with S at poses that satisfy the joints of the tree. Joints that close loops have their λ and the random impulses along
their coordinates as private unknowns, as in ``joint_space``.

The virtual work of what disturbs a step along unit rates of the joints, whatever the unknowns of a step are.

With p what the residual of all bodies' momenta is, w = Sᵀp has a row for each degree of freedom of the spanning tree.
λ of its joints follow from the impulses that they carry; what closes loops has its λ, and the random impulses along its
coordinates, as private unknowns of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from typing import ClassVar

import casadi as ca

from spookid.mechanics.constraints import Constraint
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold, split
from spookid.mechanics.model import Mechanics, Model
from spookid.records import dataclass, field
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import HATS, Settings, Slips, StepFunction, along_coordinates, random_factor
from spookid.stepping.unknowns import PositionScheme
from spookid.transcription.factor import Factor, Group, Kind


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

    def _along(self, multipliers: ca.SX) -> ca.SX:
        friction = self.law.impulses(self.model, self.settings, self.slips, multipliers, self.extra)
        return along_coordinates(self.model, self.settings, self.slips, friction, self.u)


@dataclass(frozen=True)
class PoseSpace(PositionScheme):
    """Poses of all bodies at each step as unknowns."""

    name = "variational"
    offers_hard: ClassVar[bool] = True
    law: DryFriction = field(default=DryFriction(), repr=False)

    def reactions(self, model: Model) -> int:
        """What cut joints transmit."""
        return _private(JointCoordinates(model))

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of each inner step, and g(q_k) = 0 at every step."""
        step = _step(model, settings, self)
        joints, first = step.joints, model.configuration.tangent
        private = (1, range(first, first + _private(joints))) if joints.closing else None
        impulses, places = ca.vertcat(step.residual, step.random), [*joints.places, *joints.cut_places]
        known = len(joints.places)
        at = places, impulses, step.variables, step.u, private, known
        factors = [random_factor(model, settings, *at, overlap=HATS)]
        if model.rows:
            here, labels, none = step.variables[1], model.holding.labels(), ca.SX.sym("none", 0)
            held = model.violation(step.q)
            factors.append(Factor("joints", Group.STATE, held, {0: here}, none, labels, kind=Kind.HARD))
        return factors + self.law.factors(model, settings, step.slips, step.extra, step.variables)

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step at t_k, (n_g,), from the impulses that its joints transmit."""
        step = _step(model, settings, self)
        return StepFunction(step.variables, step.u, step.multipliers)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """In the step around t_k."""
        step = _step(model, settings, self)
        value = self.law.along(model, settings, step.slips, step.multipliers, step.extra)
        return StepFunction(step.variables, step.u, value)


def _private(joints: JointCoordinates) -> int:
    """Unknowns of what closes: λ, and the random impulses along coordinates of cut joints."""
    return joints.closing_rows + joints.cut_rates


@lru_cache(maxsize=4)
def _step(model: Model, settings: Settings, scheme: PoseSpace) -> _PoseStep:
    """Kept, for a fit needs it several times, and building expressions takes longer than an iteration."""
    return _PoseStep(model, settings, scheme.law, scheme.manifold(model))


class _PoseStep(VirtualWork):
    """The symbols of one step around t_k, from the unknowns at three steps."""

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints = JointCoordinates(model)
        self.variables = {i: ca.SX.sym(name, manifold.ambient) for i, name in enumerate(("x_before", "x", "x_after"))}
        self.u = ca.SX.sym("u", len(model.signals))
        n, rows = model.configuration.ambient, self.joints.closing_rows
        cuts = [0, n, n + rows, n + _private(self.joints), manifold.ambient]
        self._poses, self.loads, self.random, self.extra = ca.vertsplit(self.variables[1], cuts)
        difference, h = model.configuration.difference, settings.step
        self.v = difference(self.q, self.variables[0][:n]) / h
        self.v_next = difference(self.variables[2][:n], self.q) / h
        self.slips = self._slips()

    def _slips(self) -> Slips:
        """Slip rates at the midpoint velocity, all rows Ḡ at q_k."""
        velocities = (self.v + self.v_next) / 2, self.v, self.v_next, self.v_next - self.v
        middle, before, after, change = (self.model.rates(self.q, v) for v in velocities)
        position = self.model.displacements(self.q)
        return Slips(now=middle, end=after, before=middle, change=change, rubbing=(before, after), position=position)

    @property
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""
        return self._poses

    def transmitted(self, along: ca.SX) -> Transmitted:
        """What the joints of the tree transmit, with impulses along the coordinates of all joints."""
        return self.joints.transmitted(self.q, self._needed(along))

    def net(self, along: ca.SX) -> ca.SX:
        """What the motion takes along unit rates, less loads on bodies and what closes, (n,)."""
        return self.transmitted(along).along

    def _needed(self, along: ca.SX) -> ca.SX:
        """M (v₊ − v) − h (f + f_g) less what cut joints do to the bodies, (6 n_b,)."""
        model, mass, middle = self.model, self.model.inertia(), (self.v + self.v_next) / 2
        force = model.weight() + Mechanics.gyroscopic_of(mass, middle) + model.pushed(self.q, middle, self.u)
        return mass @ (self.v_next - self.v) - self.settings.step * force - self.cut(along)
