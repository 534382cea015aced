"""One step in the coordinates of the joints, and what schemes of such steps have in common.

All is written in the coordinates x at t_k, and in rates s and accelerations a: of the rates v of the intervals before
and behind t_k their mean and their difference over h. Poses are placed from x, so that joints of the tree hold
identically. Joints that close a loop, and constraints, have their λ, and the random impulses along coordinates of cut
joints, as private unknowns of the step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.kernels.arrays import Array
from spookid.mechanics.body import Body
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.coordinate import halved
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.manifold import Manifold
from spookid.mechanics.model import Model
from spookid.mechanics.recursion import Recursion, Wrench
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import HATS, Settings, Slips
from spookid.stepping.unknowns import PositionScheme, VirtualWork, WorkScheme
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class JointScheme(WorkScheme, PositionScheme):
    """Unknowns of a step begin with the coordinates of the joints."""

    name = "variational"
    turns: ClassVar[bool] = True
    law: DryFriction = field(default=DryFriction(), repr=False)
    weighted: bool = False
    """True for rows with the weight κ, or hard, False for those of a likelihood."""

    def motion(self, model: Model) -> Manifold:
        """The coordinates of the joints."""
        return JointCoordinates(model).manifold

    def reactions(self, model: Model) -> int:
        """What closes transmits, and in a likelihood the random impulses along coordinates of cut joints."""
        joints = JointCoordinates(model)
        return joints.closing_rows + (0 if self.weighted else joints.cut_rates)

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return JointCoordinates(model).configuration(x)

    def moving(self, model: Model, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
        """Of all bodies, by recursion along the tree."""
        return moving(JointCoordinates(model), x, s, a, order)

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Joint coordinates, and nothing transmitted."""
        tree = JointCoordinates(model).along(states, displacements)
        return np.hstack([tree, np.zeros((len(states), self.reactions(model))), friction])

    @abstractmethod
    def step(self, model: Model, settings: Settings) -> JointStep:
        """That around t_k."""

    def impulse(self, step: JointStep, at: int, hard: bool) -> Factor:
        """The random, weighted or hard rows of a step, whose own unknowns have the offset ``at``."""
        first = self.motion(step.model).tangent
        private = (at, range(first, first + step.loads.numel() + step.random.numel()))
        if not step.joints.closing:
            return self._impulse(step, None, hard)
        return self._impulse(step, private, hard)

    def _impulse(self, step: JointStep, private: tuple[int, range] | None, hard: bool) -> Factor:
        return step.weighted(private, hard) if self.weighted else step.random_factor(private, HATS)

    def closed(self, step: JointStep) -> list[Factor]:
        """Rows of joints that close loops and of constraints on positions, hard at every step: none or one."""
        rows = step.closed
        if not rows:
            return []
        x, n = ca.SX.sym("x", self.manifold(step.model).ambient), step.joints.manifold.ambient
        held = ca.substitute(ca.vertcat(*rows.values()), step.here[:n], x[:n])
        labels, none = step.model.holding.labels(rows), ca.SX.sym("none", 0)
        return [Factor("joints", Group.STATE, held, {0: x}, none, labels, kind=Kind.HARD)]

    def rubbing(self, step: JointStep) -> list[Factor]:
        """Those of the law of dry friction."""
        law = self.law.factors(step.model, step.settings, step.slips, step.extra, step.variables)
        return [factor.substituted(step.symbols, step.values) for factor in law]


def moving(joints: JointCoordinates, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
    """Of all bodies, with as many time derivatives as are asked for."""
    motion = Recursion(joints, x[: joints.manifold.ambient], s, a)
    still = ca.SX(joints.model.configuration.tangent, 1)
    v, acceleration = (motion.v if order else still), (motion.accelerations if order == 2 else still)
    return Motion(
        motion.q, v, acceleration, (motion.positions, motion.rates if order else ca.SX(len(joints.model.freedoms), 1))
    )


class JointStep(VirtualWork):
    """The symbols of one step around t_k.

    Args:
        variables: symbols of the unknowns at the steps that it stands between.
        here: their values at t_k, in the order x, λ, random impulses, unknowns of contacts, those of the friction law.
        moved: values of s and a.
        touching: how many unknowns contacts have.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        scheme: JointScheme,
        variables: Mapping[int, ca.SX],
        here: ca.SX,
        moved: tuple[ca.SX, ca.SX],
        touching: int = 0,
    ) -> None:
        self.model, self.settings, self.law = model, settings, scheme.law
        self.joints, self.variables = JointCoordinates(model), dict(variables)
        self.here, self.u = ca.SX.sym("x_here", here.numel()), ca.SX.sym("u", len(model.signals))
        n, rows, extra = self.joints.manifold.ambient, self.joints.closing_rows, scheme.law.unknowns(model)
        cuts = [0, n, n + rows, here.numel() - extra - touching, here.numel() - extra, here.numel()]
        x, self.loads, self.random, self.touching, self.extra = ca.vertsplit(self.here, cuts)
        s, a = (ca.SX.sym(name, self.joints.manifold.tangent) for name in ("s", "a"))
        self.symbols, self.values = ca.vertcat(self.here, s, a), ca.vertcat(here, *moved)
        self.motion = Recursion(self.joints, x, s, a)
        self.slips = self._slips()

    def settled(self, expression: ca.SX) -> ca.SX:
        """In the unknowns at the steps."""
        settled: ca.SX = ca.substitute(ca.densify(expression), self.symbols, self.values)
        return settled

    def weighted(self, private: tuple[int, range] | None, hard: bool) -> Factor:
        """√κ L⁻¹ w with L Lᵀ = SᵀS: its square is that of the least p of all bodies with Sᵀp = w, which is what the
        rows in maximal coordinates cost at their best λ; or w itself, hard."""
        rows = self.residual
        if not hard:
            S = ca.jacobian(self.motion.v, self.motion.s)
            rows = ca.sqrt(self.settings.weight) * halved(S.T @ S, rows)
        labels, kind = tuple(f"Δp {name}" for name in self.joints.names), Kind.HARD if hard else Kind.SOFT
        given = "impulse", Group.STATE, rows, self.variables, self.u, labels
        return Factor(*given, motion=True, kind=kind, private=private)

    def _slips(self) -> Slips:
        """Slip rates at t_k, and how they change over the step."""
        h = self.settings.step
        displacements, now, change = self.motion.positions, self.motion.rates, h * self.motion.rate_changes
        sides = now - change / 2, now + change / 2
        ranged = (joint.in_range(displacements[self.model.freedoms_of(joint), 0]) for joint in self.model.joints)
        position = stacked(ranged)
        return Slips(now=now, end=sides[1], before=now, change=change, rubbing=sides, position=position)

    @property
    def closed(self) -> dict[Joint | Constraint, ca.SX]:
        """g of each joint that closes a loop and of each constraint on positions."""
        q, model, positions = self.motion.q, self.model, self.motion.positions

        def at(joint: Joint) -> ca.SX:
            return positions[model.freedoms_of(joint), 0]

        rows: dict[Joint | Constraint, ca.SX] = {joint: model.joint(joint, q).violation for joint in self.joints.cut}
        return rows | {tie: model.holding.tied(tie, q, at) for tie in model.ties if not tie.on_velocities}

    @property
    def q(self) -> ca.SX:
        """Poses of all bodies, (7 n_b,)."""
        return self.motion.q

    def transmitted(self, along: ca.SX) -> Transmitted:
        """What the joints of the tree transmit, with impulses along the coordinates of all joints."""
        return self.joints.transmitted(self.q, self.motion.in_world(self._needed(along)))

    def net(self, along: ca.SX) -> ca.SX:
        """What the motion takes along unit rates, less loads on bodies and what closes, (n,)."""
        return self.motion.along(self._needed(along))

    def _needed(self, along: ca.SX) -> dict[Body, Wrench]:
        """Impulses that the motion takes, less those of loads on points, of contacts and of joints that close loops."""
        h, motion, model = self.settings.step, self.motion, self.model
        needed = {body: (h * force, h * torque) for body, (force, torque) in motion.needed.items()}
        given = self.cut(along) + self.pushed
        if model.loads:
            given += h * model.pushed(motion.q, motion.v, self.u)
        return motion.less(needed, given) if given.nnz() else needed

    @property
    def pushed(self) -> ca.SX:
        """What contacts that push do to the bodies, (6 n_b,)."""
        return ca.SX(self.model.configuration.tangent, 1)
