"""The variational step in the coordinates of the joints, for a likelihood: what is random is a row a degree of freedom.

The step is that of ``variational``, M (v₊ − v) = Gᵀλ + Ḡᵀτ + h (f + f_g), g = 0 at every k, with poses that are placed
from joint coordinates, so that joints of the tree hold identically and their λ follow from the impulses that they
carry. What is left is the virtual work of the residual p along unit rates,

    w = Sᵀp,    n rows in N m s (N s for the translation of free bodies),

random with a standard deviation of s √h, where s is a disturbance in N m/√Hz. It is a density of the new state, unless
the torque at a joint is measured: then its row is an error of that measurement.

Joints that close a loop hold by hard rows; their λ, and the random impulses along their coordinates, are private
unknowns of the step, so that the covariance of the rows that remain is Σ_j s_j² a_j a_jᵀ over all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import ClassVar

import casadi as ca
import numpy as np

from spookid.kernels.kernel import Array
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import central
from spookid.mechanics.manifold import Manifold, split
from spookid.mechanics.model import Mechanics, Model
from spookid.stepping.base import Scheme
from spookid.stepping.dry_friction import DryFriction
from spookid.stepping.impulses import Settings, Slips, StepFunction, Window, along_coordinates, random_factor
from spookid.stepping.leapfrog import Leapfrog
from spookid.stepping.windows import first_of_positions, of_positions
from spookid.transcription.factor import Factor, Group, Kind


@dataclass(frozen=True)
class JointSpace(Scheme):
    """Joint coordinates at each step as unknowns."""

    name = "variational"
    order: ClassVar[int] = 2
    offers_hard: ClassVar[bool] = True
    law: DryFriction = field(default=DryFriction(), repr=False)

    def fitting(self, model: Model) -> Scheme:
        """The same step with velocities as unknowns, if constraints hold those."""
        return Leapfrog(law=self.law) if model.holding.on_velocities else self

    def manifold(self, model: Model) -> Manifold:
        """The unknowns of a step: joint coordinates, what cut joints transmit, and those of the friction law."""
        joints = JointCoordinates(model)
        flat = _private(joints) + self.law.unknowns(model)
        return Manifold((*joints.manifold.parts, *((("flat", flat),) if flat else ())))

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        """q (7 n_b,) of the unknowns of one step."""
        return JointCoordinates(model).configuration(x)

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """Velocities and accelerations are differences, over three steps."""
        return of_positions(model, settings, order, self.manifold(model).ambient, partial(self.configuration, model))

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        """The velocity at the first step is that of a parabola through three poses."""
        ambient = self.manifold(model).ambient
        return first_of_positions(model, settings, order, ambient, partial(self.configuration, model))

    def start(self, model: Model, states: Array, displacements: Array, friction: Array) -> Array:
        """Joint coordinates, and nothing transmitted."""
        joints = JointCoordinates(model)
        given = ca.SX.sym("displacements", len(model.freedoms)), ca.SX.sym("roots", 7 * len(joints.roots))
        convert = ca.Function("coordinates", list(given), [ca.densify(joints.coordinates(*given))])
        roots = [states[:, 7 * i : 7 * i + 7] for i in (model.bodies.index(body) for body in joints.roots)]
        poses = np.hstack([np.zeros((len(states), 0)), *roots])
        tree = np.asarray(convert(displacements.T, poses.T).full()).T
        return np.hstack([tree, np.zeros((len(states), _private(joints))), friction])

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States x = (q, v), (N, 13 n_b), from poses q: v_k is the mean of both sides, extrapolated at the ends."""
        return np.hstack([poses, central(poses, step)])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns of which every other one belongs to the same motion in steps of 2h."""
        return unknowns

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Data of the impulse factor, (N − 2, n_u): the inputs weighted by a hat over [t_{k−1}, t_{k+1}].

        Args:
            mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
        """
        return late[:-1] + (mean - late)[1:]

    def factors(self, model: Model, settings: Settings, hard: bool = False) -> list[Factor]:
        """The random rows of each inner step, and those that close loops at every step."""
        step = _step(model, settings, self.law)
        joints = step.joints
        first = joints.manifold.tangent
        private = (1, range(first, first + _private(joints))) if joints.closing else None
        impulses, tree = ca.vertcat(step.residual, step.random), len(joints.places)
        places = [*joints.places, *joints.cut_places]
        factors = [random_factor(model, settings, places, impulses, step.variables, step.u, private, known=tree)]
        if joints.closing:
            closed, none = ca.vertcat(*step.closed), ca.SX.sym("none", 0)
            rows = model.holding.labels(joints.closing)
            factors.append(Factor("joints", Group.STATE, closed, {0: step.here}, none, rows, kind=Kind.HARD))
        return factors + self.law.factors(model, settings, step.slips, step.extra, step.variables)

    def multipliers_along(self, model: Model, settings: Settings) -> StepFunction:
        """λ of the step at t_k, (n_g,), from the impulses that its joints transmit."""
        step = _step(model, settings, self.law)
        return StepFunction(step.variables, step.u, step.multipliers)

    def friction_along(self, model: Model, settings: Settings) -> StepFunction:
        """In the step around t_k."""
        step = _step(model, settings, self.law)
        value = self.law.along(model, settings, step.slips, step.multipliers, step.extra)
        return StepFunction(step.variables, step.u, value)


def _private(joints: JointCoordinates) -> int:
    """Unknowns of what closes: λ, and the random impulses along coordinates of joints that close loops."""
    return joints.closing_rows + joints.cut_rates


@lru_cache(maxsize=4)
def _step(model: Model, settings: Settings, law: DryFriction) -> _JointStep:
    """Kept, for a fit needs it several times, and building expressions takes longer than an iteration."""
    return _JointStep(model, settings, law, JointSpace(law).manifold(model))


class _JointStep:
    """The symbols of one step around t_k, from the unknowns at three steps."""

    def __init__(self, model: Model, settings: Settings, law: DryFriction, manifold: Manifold) -> None:
        self.model, self.settings, self.law = model, settings, law
        self.joints = JointCoordinates(model)
        before, self.here, after = (ca.SX.sym(name, manifold.ambient) for name in ("x_before", "x", "x_after"))
        self.variables = {0: before, 1: self.here, 2: after}
        self.u = ca.SX.sym("u", len(model.signals))
        h, n, rows = settings.step, self.joints.manifold.ambient, self.joints.closing_rows
        cuts = [0, n, n + rows, n + _private(self.joints), manifold.ambient]
        _, self._loads, self.random, self.extra = ca.vertsplit(self.here, cuts)
        q_before, self.q, q_after = (self.joints.configuration(x) for x in (before, self.here, after))
        self.v = model.configuration.difference(self.q, q_before) / h
        self.v_next = model.configuration.difference(q_after, self.q) / h
        self.slips = self._slips()

    def _slips(self) -> Slips:
        """Slip rates at the midpoint velocity, all rows Ḡ at q_k."""

        def rates(v: ca.SX) -> ca.SX:
            return self.model.rates(self.q, v)

        middle = rates((self.v + self.v_next) / 2)
        sides = rates(self.v), rates(self.v_next)
        states = (self.model.joint(joint, self.q) for joint in self.model.joints)
        position = ca.vertcat(ca.SX(0, 1), *(state.displacement for state in states))
        change = rates(self.v_next - self.v)
        return Slips(now=middle, end=sides[1], before=middle, change=change, rubbing=sides, position=position)

    @property
    def closed(self) -> list[ca.SX]:
        """Rows of what closes: g of each joint that closes a loop and of each constraint on positions."""
        of_joints = [self.model.joint(joint, self.q).violation for joint in self.joints.cut]
        ties = (tie for tie in self.model.ties if not tie.on_velocities)
        return [*of_joints, *(self.model.holding.tied(tie, self.q, self._positions) for tie in ties)]

    def _positions(self, joint: Joint) -> ca.SX:
        """Coordinates of a joint: of one of the tree the unknowns themselves, which go on beyond a turn."""
        if joint not in self.joints.tree:
            return self.model.joint(joint, self.q).displacement
        start = sum(other.manifold.ambient for other in self.joints.tree[: self.joints.tree.index(joint)])
        return joint.manifold.difference(self.here[start : start + joint.manifold.ambient], joint.manifold.zero)

    @cached_property
    def _closing(self) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """λ of what closes, and what they do to the bodies."""
        if not self.joints.closing:
            return {}, ca.SX(self.model.configuration.tangent, 1)
        return self.joints.closed_by(self._loads, self.model.mechanics(self.q))

    @cached_property
    def _along_with(self) -> tuple[ca.SX, ca.SX]:
        """Impulses along the coordinates of all joints, and λ of all joints."""
        given = self._closing[0]
        own = self._along(self.joints.ordered(given))  # a joint's friction follows its own load alone
        free = self.joints.transmitted(self.q, self._transmitted_by_cut(own))
        multipliers = self.joints.ordered(given | free.loads)
        return self._along(multipliers), multipliers

    @property
    def multipliers(self) -> ca.SX:
        """λ of all joints, (n_g,)."""
        return self._along_with[1]

    @cached_property
    def residual(self) -> ca.SX:
        """w = Sᵀp, (n,)."""
        along = self._along_with[0]
        net = self.joints.transmitted(self.q, self._transmitted_by_cut(along)).along
        tree = ca.vertcat(ca.SX(0, 1), *(along[self.model.freedoms_of(joint), 0] for joint in self.joints.tree))
        return net - ca.vertcat(tree, ca.SX(net.numel() - tree.numel(), 1))

    def _along(self, multipliers: ca.SX) -> ca.SX:
        friction = self.law.impulses(self.model, self.settings, self.slips, multipliers, self.extra)
        return along_coordinates(self.model, self.settings, self.slips, friction, self.u)

    def _transmitted_by_cut(self, along: ca.SX) -> ca.SX:
        """M (v₊ − v) − h (f + f_g) less what cut joints do to the bodies, (6 n_b,)."""
        model = self.model
        mass, middle = model.inertia(), (self.v + self.v_next) / 2
        force = model.weight() + Mechanics.gyroscopic_of(mass, middle) + model.pushed(self.q, middle, self.u)
        impulse = mass @ (self.v_next - self.v) - self.settings.step * force - self._closing[1]
        if not self.joints.cut:
            return impulse
        at = model.mechanics(self.q)
        sizes = [len(joint.coordinates) for joint in self.joints.cut]
        for joint, random in zip(self.joints.cut, split(self.random, sizes), strict=True):
            own = model.freedoms_of(joint)
            impulse -= at.slip[own, :].T @ (along[own, 0] + random)
        return impulse
