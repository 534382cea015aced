"""What holds the bodies of a model: points and frames that touch, constraint equations, and the tree of joints.

Constraint rows are those of joints, of constraints on positions, of those on velocities, in this order. Joints of a
spanning tree place bodies; the others close loops.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import casadi as ca

from spookid.errors import ProblemError, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.constraints import Constraint, Passage, Positions, of_rows
from spookid.mechanics.joints import Joint
from spookid.parameter import stacked
from spookid.records import dataclass

if TYPE_CHECKING:
    from spookid.mechanics.model import Model
    from spookid.mechanics.moving import JointState


@dataclass(frozen=True, eq=False)
class Touch(Constraint):
    """Base class of bilateral contacts and impacts.

    Raises:
        ProblemError: for what is no frame of the model, both on one body, or axes that are none.
    """

    on_velocities = True
    switches = True
    """True if there are times at which it does not act."""
    stabilized = False
    """True if its rows are at acceleration level."""
    creeps: ClassVar[float | None] = 0.0
    """How much it moves where it is held, as a random velocity [m/s/√Hz]; None: that is estimated."""
    turns: ClassVar[bool] = False
    """True if rotations hold, too."""
    scheduled: ClassVar[tuple[str, Any]]
    """Field that says when it acts, and what that is where recordings have no names."""

    frame: Frame
    """Frame whose origin touches; its body is pushed."""
    on: Frame = field(default_factory=GROUND.frame)
    """Frame of the contact, in whose axes forces and moments are given."""
    axes: str = field(default="xyz", kw_only=True)
    """Along which axes of ``on`` it is held: ``"z"`` of what slides on a plane, ``"yz"`` in mechanisms of these."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame.body is self.on.body:
            raise ProblemError(f"{self.what} holds {self.frame.body.name!r} to itself; give frames of two bodies")
        if self.frame.body is GROUND:
            raise ProblemError(f"{self.what} holds the ground; name the body's frame first, then on=GROUND.frame()")
        if not (self.axes and set(self.axes) <= set("xyz") and len(set(self.axes)) == len(self.axes)):
            raise ProblemError(f"{self.what} has axes {shown(self.axes)}; give some of 'xyz'")
        given = getattr(self, self.scheduled[0])
        for name, one in given.items() if isinstance(given, Mapping) else [("", given)]:
            if not isinstance(name, str) or isinstance(one, Mapping):
                what = f"{self.what}: {self.scheduled[0]} has {shown(name)}"
                raise ProblemError(f"{what}; give one for each by the names of recordings")
            self.check_schedule(one)

    @abstractmethod
    def check_schedule(self, given: Any) -> None:
        """Raise ProblemError for an invalid schedule of a contact."""

    @property
    def rows_along(self) -> str:
        """Axes of frame ``on`` along which the contact has equations."""
        return self.axes

    def schedule(self, recording: str | None) -> Any:
        """Schedule of the contact in a recording; without a schedule always closed, or open if others are named."""
        name, otherwise = self.scheduled
        given = getattr(self, name)
        if not isinstance(given, Mapping):
            return given
        if recording is None:
            return otherwise
        if recording not in given:
            names = ", ".join(map(repr, given))
            raise ProblemError(f"{self.what}: {name} has no recording {recording!r}; it has {names}")
        return given[recording]

    def labels(self, model: Model) -> tuple[str, ...]:
        """Labels of the equations: x, y, z, and for a ``Weld`` rx, ry, rz."""
        return (*self.rows_along, *(("rx", "ry", "rz") if self.turns else ()))

    def bodies(self) -> tuple[Body, Body]:
        """Body of the contact frame and body of the frame ``on``."""
        return self.frame.body, self.on.body

    def expressions(self, model: Model) -> list[ca.SX]:
        return [self.compliance, self.damping, *self.frame.expressions(), *self.on.expressions()]

    def place_of(self, model: Model, q: ca.SX) -> ca.SX:
        """Position relative to the frame ``on``, (rows,) [m]; for a ``Weld`` followed by the rotation quaternion."""
        own, other = model.moving(self.frame, q), model.moving(self.on, q)
        along = self._chosen(other.axes.T @ (own.origin - other.origin))
        return ca.vertcat(along, own.orientation_in(other)) if self.turns else along

    def moved(self, place: ca.SX, before: ca.SX) -> ca.SX:
        """Displacement from a given position, (rows,) [m, rad], with rotations about the axes of ``on``."""
        n = len(self.rows_along)
        if not self.turns:
            return place - before
        turn = rotations.multiply(place[n:], rotations.conjugate(before[n:]))
        return ca.vertcat(place[:n] - before[:n], rotations.logarithm(turn))

    def over_step(self, model: Model, passage: Passage, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Displacement over a step, divided by the step h."""
        before, after = (self.place_of(model, q) for q in (passage.q, passage.q_next))
        return self.moved(after, before) / passage.step

    @property
    def home(self) -> ca.SX:
        """Position for which the contact frame and the frame ``on`` coincide."""
        return ca.vertcat(ca.SX(len(self.rows_along), 1), *([ca.SX([1, 0, 0, 0])] if self.turns else []))

    def _chosen(self, along: ca.SX) -> ca.SX:
        return ca.vertcat(*(along["xyz".index(axis)] for axis in self.rows_along))

    def rates(self, model: Model, q: ca.SX, v: ca.SX) -> ca.SX:
        along = self._chosen(self.velocity(model, q, v))
        if not self.turns:
            return along
        own, other = model.moving(self.frame, q, v), model.moving(self.on, q, v)
        turning = other.axes.T @ (own.body_axes @ own.omega - other.body_axes @ other.omega)
        return ca.vertcat(along, turning)

    def velocity(self, model: Model, q: ca.SX, v: ca.SX) -> ca.SX:
        """Velocity of the frame's origin relative to the other body, along the axes of ``on``, (3,) [m/s]."""
        own, other = model.moving(self.frame, q, v), model.moving(self.on, q, v)
        spin = other.body_axes @ other.omega
        return other.axes.T @ (own.velocity - other.velocity - ca.cross(spin, own.origin - other.origin))

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        return ca.SX(1, 1)


class Holding:
    """The rows of one model."""

    def __init__(self, model: Model, original: Model) -> None:
        self._model, self._original = model, original
        joints: dict[Joint | Constraint, tuple[str, ...]]
        joints = {joint: (*joint.linear, *joint.angular) for joint in model.joints}
        self.names = joints | {tie: tie.labels(original) for tie in model.ties}
        """Of the rows of each joint, then of each constraint."""

    @cached_property
    def contacts(self) -> tuple[Touch, ...]:
        """Bilateral contacts and impacts, in the order of their equations, (n_c,)."""
        return tuple(tie for tie in self._model.ties if isinstance(tie, Touch))

    @property
    def rolling(self) -> list[Constraint]:
        """Velocity constraints except contacts."""
        return [tie for tie in self._model.ties if tie.on_velocities and not isinstance(tie, Touch)]

    @cached_property
    def count(self) -> int:
        """Of all rows, n_g."""
        return sum(map(len, self.names.values()))

    @cached_property
    def on_velocities(self) -> int:
        """Number of velocity constraints, which are the last equations."""
        return sum(len(self.names[tie]) for tie in self._model.ties if tie.on_velocities)

    def rows_of(self, thing: Joint | Constraint) -> slice:
        """Indices of the constraint equations of a joint or a constraint."""
        things = list(self.names)
        start = sum(len(self.names[other]) for other in things[: things.index(thing)])
        return slice(start, start + len(self.names[thing]))

    def labels(self, things: Iterable[Joint | Constraint] | None = None) -> tuple[str, ...]:
        """Names of the constraint equations of joints and constraints, such as ``elbow.x``; by default of all."""
        return tuple(f"{t.name}.{row}" for t in (self.names if things is None else things) for row in self.names[t])

    def violation(
        self, q: ca.SX, joints: Sequence[JointState] | None = None, ties: Sequence[Constraint] | None = None
    ) -> ca.SX:
        """Position constraints g(q)."""
        states = [self._model.joint(joint, q) for joint in self._model.joints] if joints is None else joints
        chosen = [tie for tie in self._model.ties if not tie.on_velocities] if ties is None else ties
        return stacked([*(state.violation for state in states), *(self.tied(tie, q) for tie in chosen)])

    def reached(self, q: ca.SX, q_next: ca.SX) -> ca.SX:
        """Position constraints g(q_next) after a step from q. An equation that poses do not determine is replaced by
        its change over the step, valid for changes below half a turn; both are zero together."""

        def moved(joint: Joint) -> ca.SX:
            before, after = (self._model.joint(joint, at).displacement for at in (q, q_next))
            return joint.in_range(after - before)

        def still(joint: Joint) -> ca.SX:
            return ca.SX(len(joint.coordinates), 1)

        parts = [self._model.joint(joint, q_next).violation for joint in self._model.joints]
        for tie in (tie for tie in self._model.ties if not tie.on_velocities):
            there = self.tied(tie, q_next, None if tie.told_by_poses else moved)
            parts.append(there if tie.told_by_poses else there - self.tied(tie, q_next, still))
        return stacked(parts)

    def told_by_poses(self, q: ca.SX, tied: bool = True) -> ca.SX:
        """Position constraints g(q) of joints, and of constraints if ``tied``, that depend on poses only."""
        told = (tie for tie in self._model.ties if tie.told_by_poses and not tie.on_velocities)
        return self.violation(q, ties=list(told) if tied else [])

    def tied(self, tie: Constraint, q: ca.SX, positions: Positions | None = None) -> ca.SX:
        """Residual g(q) of one constraint; joint coordinates are computed from q unless they are given."""
        given = positions or (lambda joint: self._model.joint(joint, q).displacement)
        own = dict(zip(self._original.joints, self._model.joints, strict=True))
        return tie.violation(self._original, q, lambda joint: given(own[joint]))

    def rates(self, q: ca.SX, v: ca.SX) -> ca.SX:
        """Velocity constraints A(q) v."""
        return stacked(tie.rates(self._original, q, v) for tie in self._model.ties if tie.on_velocities)

    def speeds(self, u: ca.SX) -> ca.SX:
        """Prescribed velocities γ of the velocity constraints."""
        inputs, fast = self._model.by_signal(u), (tie for tie in self._model.ties if tie.on_velocities)
        return stacked(of_rows(tie.speeds(inputs), len(self.names[tie])) for tie in fast)

    def all_speeds(self, u: ca.SX) -> ca.SX:
        """Prescribed velocities γ of all equations, (n_g,); 0 for position constraints."""
        return ca.vertcat(ca.SX(self.count - self.on_velocities, 1), self.speeds(u))

    def speed_data(self, u: ca.SX) -> ca.SX:
        """Inputs of factors that use inputs only through γ; empty if no γ is an input."""
        return u if self.takes_inputs else ca.SX.sym("none", 0)

    @property
    def takes_inputs(self) -> bool:
        """True if some prescribed velocity γ is an input."""
        return any(tie.signals for tie in self._model.ties)

    def over_step(
        self, passage: Passage, u: ca.SX, held: ca.SX | None = None, multipliers: ca.SX | None = None
    ) -> ca.SX:
        """Residuals A v − γ of velocity constraints at the middle of a step; multipliers λ for released contacts."""
        fast = [tie for tie in self._model.ties if tie.on_velocities]
        inputs = self._model.by_signal(u) if u.numel() else {}
        parts = [tie.over_step(self._original, passage, inputs) for tie in fast]
        if held is not None and multipliers is not None:
            for number, tie in enumerate(tie for tie in fast if isinstance(tie, Touch)):
                i, holds = fast.index(tie), held[number]
                parts[i] = holds * parts[i] + (1 - holds) * multipliers[self.rows_of(tie), 0]
        return stacked(parts)


@dataclass(frozen=True)
class Freedom:
    """One coordinate of one joint."""

    joint: Joint
    index: int  # among those of its joint

    @property
    def coordinate(self) -> Coordinate:
        """Its name and unit."""
        return self.joint.coordinates[self.index]

    @property
    def label(self) -> str:
        """Label of the coordinate: the name of the joint if the joint has only one coordinate."""
        return self.joint.labels[self.index]

    @property
    def rubs(self) -> bool:
        """True if the coordinate has dry friction of any kind."""
        return self.joint.rubbing[self.index]


def rooted(bodies: Sequence[Body]) -> set[int]:
    """Bodies that need no joint to be placed, by ``id``: the ground and free bodies."""
    return {id(GROUND)} | {id(body) for body in bodies if body.free}


def spanning_tree(bodies: Sequence[Body], joints: Sequence[Joint], measured: Collection[Joint]) -> list[Joint]:
    """Joints of a spanning tree, ordered so that each adds one new body; joints that close loops are not included.

    Of a loop a joint is left out whose effort is not measured, if there is one (Prim's algorithm): noise of a
    measurement is a row along a coordinate of the tree.
    """
    for given in (joints, sorted(joints, key=lambda joint: joint not in measured)):
        placed, order = rooted(bodies), list[Joint]()
        while fresh := [j for j in given if sum(id(body) in placed for body in j.bodies()) == 1]:
            order.append(fresh[0])
            placed |= {id(body) for body in fresh[0].bodies()}
        if all(joint in order for joint in measured):
            break
    return order


def row_labels(bodies: Sequence[Body], quantity: str) -> tuple[str, ...]:
    """Names of the 6 n_b components of the body impulses, such as ``Δp_u A.x``."""
    return tuple(f"{quantity} {body.name}.{axis}" for body in bodies for axis in ("x", "y", "z", "rx", "ry", "rz"))
