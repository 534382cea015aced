"""The rows of ``joint_space`` in the poses of all bodies: joints hold by rows of each step, none of them identically.

The unknowns of a step are the poses q_k; all of g(q_k) = 0 is hard and holds one step alone, so that solvers eliminate
it there, joint by joint. The random rows are the same virtual work w = Sᵀp of the residual

    p = M (v₊ − v) − h (f + f_g),    v = (q_k ⊟ q_{k−1})/h,    v₊ = (q_{k+1} ⊟ q_k)/h,

with S at poses that satisfy the joints of the tree. Joints that close loops have their λ and the random impulses along
their coordinates as private unknowns, as in ``joint_space``.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import ClassVar

import casadi as ca

from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Mechanics, Model
from spookid.records import dataclass
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import HATS, Settings, Slips
from spookid.stepping.unknowns import PositionScheme
from spookid.stepping.virtual_work import VirtualWork, WorkScheme
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class PoseSpace(WorkScheme, PositionScheme):
    """Poses of all bodies at each step as unknowns."""

    name = "variational"
    offers_hard: ClassVar[bool] = True
    law: DryFriction = field(default=DryFriction(), repr=False)

    def reactions(self, model: Model) -> int:
        """What cut joints transmit."""
        return _private(JointCoordinates(model))

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of each inner step, and g(q_k) = 0 at every step."""
        step = self.step(model, settings)
        joints, first = step.joints, model.configuration.tangent
        private = (1, range(first, first + _private(joints))) if joints.closing else None
        factors = [step.random_factor(private, HATS)]
        if model.rows:
            here, labels, none = step.variables[1], model.holding.labels(), ca.SX.sym("none", 0)
            held = model.violation(step.q)
            factors.append(Factor("joints", Group.STATE, held, {0: here}, none, labels, kind=Kind.HARD))
        return factors + self.law.factors(model, settings, step.slips, step.extra, step.variables)

    def step(self, model: Model, settings: Settings) -> _PoseStep:
        """That around t_k."""
        return _step(model, settings, self)


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

    def _needed(self, along: ca.SX) -> ca.SX:
        """M (v₊ − v) − h (f + f_g) less what cut joints do to the bodies, (6 n_b,)."""
        model, mass, middle = self.model, self.model.inertia(), (self.v + self.v_next) / 2
        force = model.weight() + Mechanics.gyroscopic_of(mass, middle) + model.pushed(self.q, middle, self.u)
        return mass @ (self.v_next - self.v) - self.settings.step * force - self.cut(along)
