"""What fits take for unknowns at each step: positions alone, of which velocities are differences, or both.

The virtual work of the random impulses of a step along unit rates of the joints, whatever the unknowns of a step are:
with p the residual of all bodies' momenta, w = Sᵀp has a row for each degree of freedom of the spanning tree. λ of its
joints follow from the impulses that they carry; what closes loops has its λ, and the random impulses along its
coordinates, as private unknowns of the step.

Steps in the coordinates of the joints are written in the coordinates x at t_k, and in rates s and accelerations a: of
the rates v of the intervals before and behind t_k their mean and their difference over h. Poses are placed from x, so
that joints of the tree hold identically.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeVar

import casadi as ca
import numpy as np

from spookid.data.state import Motion
from spookid.kernels.arrays import Array
from spookid.mechanics.body import Body
from spookid.mechanics.constraints import Constraint
from spookid.mechanics.gear_friction import gear_efforts
from spookid.mechanics.joint_coordinates import JointCoordinates, Transmitted
from spookid.mechanics.joints import Joint
from spookid.mechanics.kinematics import Recursion, Wrench, central
from spookid.mechanics.manifold import Manifold, split
from spookid.mechanics.model import Mechanics, Model
from spookid.parameter import stacked
from spookid.records import dataclass
from spookid.stepping.base import Dynamics, Scheme, StepRows
from spookid.stepping.impulses import HATS, DryFriction, Settings, Slips, Window, along_coordinates
from spookid.transcription.factor import Factor, Group, Kind

W = TypeVar("W", bound=StepRows, covariant=True)
J = TypeVar("J", bound="JointStep", covariant=True)


class PositionScheme(Scheme[W]):
    """Scheme with positions only as unknowns, by default poses of all bodies."""

    order = 2

    def moving(self, model: Model, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
        """The motion of all bodies.

        Args:
            x: unknowns of one step.
            s, a: rates and accelerations of its coordinates, (n,), of which so many as ``order`` are asked for.
        """
        return Motion(self.configuration(model, x), s, a)

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """State at the middle of three steps: rates are means of both sides, accelerations their difference over h."""
        x, motion = self.three(model), self.motion(model)
        if order == 0:
            still = ca.SX(motion.tangent, 1)
            return Window({0: x[1]}, self.moving(model, x[1], still, still, 0))
        moved = middle(*sides(motion, x, settings.step), settings.step)
        return Window(dict(enumerate(x)), self.moving(model, x[1], *moved, order))

    def first_window(self, model: Model, settings: Settings, order: int) -> Window | None:
        """State at the first step: the rate of a parabola through three positions; no accelerations."""
        if order != 1:
            return None if order else self.window(model, settings, 0)
        x, motion = self.three(model), self.motion(model)
        near, far = sides(motion, x, settings.step)
        return Window(dict(enumerate(x)), self.moving(model, x[0], (3 * near - far) / 2, ca.SX(motion.tangent, 1), 1))

    def three(self, model: Model) -> list[ca.SX]:
        """Symbols of the unknowns at three consecutive steps."""
        return [ca.SX.sym(name, self.manifold(model).ambient) for name in ("x_before", "x", "x_after")]

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        """States with v_k as mean of both sides, extrapolated at the ends."""
        return np.hstack([poses, central(poses, step)])

    def doubled(self, model: Model, unknowns: Array, step: float) -> Array | None:
        """Unknowns unchanged, except for reactions, which solvers adapt at every point."""
        return unknowns

    def inputs(self, held: Array, mean: Array, late: Array) -> Array:
        """Inputs weighted by a hat function over [t_{k−1}, t_{k+1}] at each inner step, (N − 2, n_u)."""
        return hats(mean, late)[1:]


class StateScheme(Scheme[W]):
    """Scheme with poses and velocities of all bodies as unknowns."""

    def motion(self, model: Model) -> Manifold:
        return model.state

    def window(self, model: Model, settings: Settings, order: int) -> Window:
        """State whose velocities are unknowns and whose accelerations are their differences."""
        n, m, h = model.configuration.ambient, model.state.ambient, settings.step
        before, x, after = (ca.SX.sym(name, self.manifold(model).ambient) for name in ("x_before", "x", "x_after"))
        if order < 2:
            return Window({0: x}, Motion(x[:n], x[n:m], ca.SX(m - n, 1)))
        return Window({0: before, 1: x, 2: after}, Motion(x[:n], x[n:m], (after[n:m] - before[n:m]) / (2 * h)))

    def states(self, model: Model, poses: Array, unknowns: Array, step: float) -> Array:
        return unknowns[:, : model.state.ambient]


def sides(motion: Manifold, x: Sequence[ca.SX], step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Rates before and after the middle of three steps, (n,) each; their unknowns x begin at ``motion``."""
    before, after = (motion.difference(b, a) / step for a, b in pairwise([one[: motion.ambient] for one in x]))
    return before, after


def middle(before: ca.SX, after: ca.SX, step: ca.SX) -> tuple[ca.SX, ca.SX]:
    """Rates and accelerations at the middle step, from the rates on both sides."""
    return (before + after) / 2, (after - before) / step


def hats(mean: Array, late: Array) -> Array:
    """Means weighted by a hat function over [t_{k−1}, t_{k+1}], at the first step over its half, (N − 1, n_u).

    Args:
        mean, late: means over each step, and means with a weight that rises from 0 to 1 over it, (N − 1, n_u).
    """
    return np.vstack([2 * (mean - late)[:1], late[:-1] + (mean - late)[1:]])


class VirtualWork(StepRows):
    """Equations of one step around t_k by virtual work; subclasses define motion and loads."""

    loads: ca.SX
    """λ of what closes, as unknowns."""
    q: ca.SX
    """Poses of all bodies, (7 n_b,)."""

    def carried(self, impulse: ca.SX) -> Transmitted:
        """Part of an impulse on all bodies that the tree's joints transmit, (6 n_b,)."""
        raise NotImplementedError

    def needed(self) -> ca.SX:
        """Impulse M (v₊ − v) − h (f + f_g) that the motion needs, (6 n_b,)."""
        raise NotImplementedError

    def transmitted(self, along: ca.SX) -> Transmitted:
        """Impulses that the tree's joints transmit, for given impulses along all joint coordinates."""
        return self.carried(self.needed() - self.cut(along))

    def net(self, along: ca.SX) -> ca.SX:
        """Impulse that the motion needs along unit rates, minus loads on bodies and loop constraints, (n,)."""
        return self.transmitted(along).along

    @property
    def rates(self) -> ca.SX:
        impulse = ca.SX.sym("p", self.model.configuration.tangent)
        return ca.jacobian(self.carried(impulse).along, impulse).T

    @cached_property
    def at(self) -> Mechanics:
        """The mechanics at these poses."""
        return self.model.mechanics(self.q)

    @cached_property
    def closing(self) -> tuple[dict[Joint | Constraint, ca.SX], ca.SX]:
        """Multipliers λ of loop constraints, and their impulses on the bodies, (6 n_b,)."""
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
        return self._along_with[1]

    @cached_property
    def residual(self) -> ca.SX:
        along = self._along_with[0]
        return self.net(along) - self.joints.of_tree(along)

    def cut(self, along: ca.SX) -> ca.SX:
        """Impulses of joints that close loops on the bodies, (6 n_b,)."""
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
class JointScheme(PositionScheme[J]):
    """Scheme whose unknowns begin with the joint coordinates."""

    coordinates: ClassVar[Literal["joint", "maximal"]] = "joint"
    law: DryFriction = DryFriction()
    dynamics: Dynamics = "estimated"

    def motion(self, model: Model) -> Manifold:
        return JointCoordinates(model).manifold

    def reactions(self, model: Model) -> int:
        return self.closing_unknowns(model)

    def configuration(self, model: Model, x: ca.SX) -> ca.SX:
        return JointCoordinates(model).configuration(x)

    def moving(self, model: Model, x: ca.SX, s: ca.SX, a: ca.SX, order: int) -> Motion:
        joints = JointCoordinates(model)
        motion, still = Recursion(joints, x[: joints.manifold.ambient], s, a), ca.SX(model.configuration.tangent, 1)
        v, acceleration = (motion.v if order else still), (motion.accelerations if order == 2 else still)
        rates = motion.rates if order else ca.SX(len(model.freedoms), 1)
        return Motion(motion.q, v, acceleration, (motion.positions, rates))

    def start(self, model: Model, states: Array, displacements: Array, friction: Array, step: float) -> Array:
        """Joint coordinates, and nothing transmitted."""
        tree = JointCoordinates(model).along(states, displacements)
        return np.hstack([tree, np.zeros((len(states), self.reactions(model))), friction])

    def closed(self, step: JointStep) -> list[Factor]:
        """Factor of loop joints and position constraints, hard at every step: none or one."""
        rows = step.closed
        if not rows:
            return []
        x, n = ca.SX.sym("x", self.manifold(step.model).ambient), step.joints.manifold.ambient
        held = ca.substitute(ca.vertcat(*rows.values()), step.here[:n], x[:n])
        labels, none = step.model.holding.labels(rows), ca.SX.sym("none", 0)
        return [Factor("joints", Group.STATE, held, {0: x}, none, labels, kind=Kind.HARD)]


class JointStep(VirtualWork):
    """Symbols of one step around t_k in joint coordinates.

    Args:
        at: which of these steps has its private unknowns.
        variables: symbols of the unknowns at the steps that it is between.
        here: their values at t_k, in the order x, λ, random impulses, unknowns of contacts, those of the friction law.
        moved: values of s and a.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        scheme: JointScheme[Any],
        at: int,
        variables: Mapping[int, ca.SX],
        here: ca.SX,
        moved: tuple[ca.SX, ca.SX],
    ) -> None:
        self.model, self.settings, self.law = model, settings, scheme.law
        self.joints, self.variables, self.overlap = JointCoordinates(model), dict(variables), HATS
        if self.joints.closing:
            first = scheme.motion(model).tangent
            self.private = at, range(first, first + scheme.closing_unknowns(model))
        self.here, self.u = ca.SX.sym("x_here", here.numel()), ca.SX.sym("u", len(model.inputs))
        n, rows, last = self.joints.manifold.ambient, self.joints.closing_rows, here.numel()
        extra = last - scheme.law.unknowns(model)
        cuts = [0, n, n + rows, extra - scheme.touching(model), extra, last]
        x, self.loads, self.random, self.touching, self.extra = ca.vertsplit(self.here, cuts)
        s, a = (ca.SX.sym(name, self.joints.manifold.tangent) for name in ("s", "a"))
        self.symbols, self.values = ca.vertcat(self.here, s, a), ca.vertcat(here, *moved)
        self.motion = Recursion(self.joints, x, s, a)
        self.q = self.motion.q
        self.slips = self._slips()

    def settled(self, expression: ca.SX) -> ca.SX:
        settled: ca.SX = ca.substitute(ca.densify(expression), self.symbols, self.values)
        return settled

    @property
    def rates(self) -> ca.SX:
        return ca.jacobian(self.motion.v, self.motion.s)

    def _slips(self) -> Slips:
        """Slip rates at t_k, and how they change over the step."""
        h = self.settings.step
        displacements, now, change = self.motion.positions, self.motion.rates, h * self.motion.rate_changes
        sides = now - change / 2, now + change / 2
        ranged = (joint.in_range(displacements[self.model.freedoms_of(joint), 0]) for joint in self.model.joints)
        place = stacked(ranged)
        efforts = gear_efforts(self.model, self.q, place, now, self.u, self.settings.slip_width)
        return Slips.between(now, sides, change, place, efforts)

    def law_factors(self) -> list[Factor]:
        """Factors of the laws, in the unknowns at the steps."""
        return [factor.substituted(self.symbols, self.values) for factor in super().law_factors()]

    @property
    def closed(self) -> dict[Joint | Constraint, ca.SX]:
        """Residual g of each loop joint and each position constraint."""
        q, model = self.motion.q, self.model
        own = {joint: self.motion.positions[model.freedoms_of(joint), 0] for joint in model.joints}
        rows: dict[Joint | Constraint, ca.SX] = {joint: model.joint(joint, q).violation for joint in self.joints.cut}
        tied = (tie for tie in model.ties if not tie.on_velocities)
        return rows | {tie: model.holding.tied(tie, q, own.__getitem__) for tie in tied}

    def transmitted(self, along: ca.SX) -> Transmitted:
        return self.joints.transmitted(self.q, self.motion.in_world(self._needed(along)))

    def net(self, along: ca.SX) -> ca.SX:
        return self.motion.along(self._needed(along))

    def _needed(self, along: ca.SX) -> dict[Body, Wrench]:
        """Impulses that the motion takes, less those of loads on points, of contacts and of joints that close loops."""
        h, motion, model = self.settings.step, self.motion, self.model
        needed = {body: (h * force, h * torque) for body, (force, torque) in motion.needed.items()}
        given = self.cut(along)
        if self.contacts is not None:
            given += self.contacts.impulse
        if model.loads:
            given += h * model.pushed(motion.q, motion.v, self.u)
        return motion.less(needed, given) if given.nnz() else needed
