"""Points and frames of bodies that touch another body: where they are on it, and how fast they move there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import casadi as ca

from spookid.errors import ProblemError, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.constraints import Constraint, Mechanism
from spookid.mechanics.manifold import Manifold

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Touch(Constraint):
    """What contacts that hold and impacts have in common.

    Raises:
        ProblemError: for what is no frame of the model, both on one body, or axes that are none.
    """

    on_velocities = True
    turns: ClassVar[bool] = False
    """True if rotations hold, too."""

    frame: Frame
    """Whose origin touches; its body is pushed."""
    on: Frame = field(default_factory=GROUND.frame)
    """Where it touches, and in whose axes forces and moments are told."""
    axes: str = field(default="xyz", kw_only=True)
    """Along which axes of ``on`` it is held: ``"z"`` of what slides on a plane, ``"yz"`` in mechanisms of these."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for frame in (self.frame, self.on):
            if not isinstance(frame, Frame):
                raise ProblemError(f"{self.what} is of {shown(frame)}, which is no frame; use body.frame(...)")
        if self.frame.body is self.on.body:
            raise ProblemError(f"{self.what} holds {self.frame.body.name!r} to itself")
        if self.frame.body is GROUND:
            raise ProblemError(
                f"{self.what} holds the ground; name the frame of the body first, then on=GROUND.frame()"
            )
        if not (self.axes and set(self.axes) <= set("xyz") and len(set(self.axes)) == len(self.axes)):
            raise ProblemError(f"{self.what} has axes {shown(self.axes)}; give some of 'xyz'")

    @property
    def switches(self) -> bool:
        """True if there are times at which it does not act."""
        return True

    @abstractmethod
    def schedule(self, recording: str | None) -> Any:
        """When it acts in a recording.

        Raises:
            ProblemError: if nothing is said of it.
        """

    @property
    def stabilized(self) -> bool:
        """True if its rows are at acceleration level."""
        return False

    @property
    def creeps(self) -> float | None:
        """How much it moves where it is held, as a random velocity [m/s/√Hz]; None: that is estimated."""
        return 0.0

    @property
    def rows_along(self) -> str:
        """Axes of ``on`` along which it has rows."""
        return self.axes

    def of_recording(self, given: Mapping[str, T], recording: str, field: str) -> T:
        """What is given by the names of recordings, of one.

        Raises:
            ProblemError: if nothing is said of it.
        """
        if recording not in given:
            names = ", ".join(map(repr, given))
            raise ProblemError(f"{self.what}: {field} says nothing of recording {recording!r}; it speaks of {names}")
        return given[recording]

    def labels(self, model: Mechanism) -> tuple[str, ...]:
        """x, y, z, and of a ``Weld`` rx, ry, rz."""
        return (*self.rows_along, *(("rx", "ry", "rz") if self.turns else ()))

    def check(self, model: Mechanism) -> None:
        """Both bodies must be in the model."""
        for body in self.bodies():
            if body is not GROUND and body not in model.bodies:
                raise ProblemError(f"{self.what} is of Body {body.name!r}, which is not in the bodies")

    def bodies(self) -> tuple[Body, Body]:
        """That of the frame and that which it stays on."""
        return self.frame.body, self.on.body

    def expressions(self, model: Mechanism) -> list[ca.SX]:
        """All that may hold a Parameter."""
        return [self.compliance, self.damping, *self.frame.expressions(), *self.on.expressions()]

    def place_of(self, model: Mechanism, q: ca.SX) -> ca.SX:
        """Where the frame is on the other one, (rows,) [m]; of a ``Weld`` the rotation, a quaternion, is behind."""
        own, other = model.moving(self.frame, q), model.moving(self.on, q)
        along = self._chosen(other.axes.T @ (own.origin - other.origin))
        return ca.vertcat(along, own.orientation_in(other)) if self.turns else along

    def moved(self, place: ca.SX, before: ca.SX) -> ca.SX:
        """By how much it has moved from a place, (rows,) [m, rad], rotations about axes of ``on``."""
        n = len(self.rows_along)
        if not self.turns:
            return place - before
        turn = rotations.multiply(place[n:], rotations.conjugate(before[n:]))
        return ca.vertcat(place[:n] - before[:n], rotations.logarithm(turn))

    def over_step(
        self, model: Mechanism, space: Manifold, q: ca.SX, q_next: ca.SX, h: ca.SX, inputs: Mapping[str, ca.SX]
    ) -> ca.SX:
        """By how much it moves in a step, over h."""
        return self.moved(self.place_of(model, q_next), self.place_of(model, q)) / h

    @property
    def home(self) -> ca.SX:
        """Its place where both frames agree."""
        return ca.vertcat(ca.SX(len(self.rows_along), 1), *([ca.SX([1, 0, 0, 0])] if self.turns else []))

    def _chosen(self, along: ca.SX) -> ca.SX:
        return ca.vertcat(*(along["xyz".index(axis)] for axis in self.rows_along))

    def rates(self, model: Mechanism, q: ca.SX, v: ca.SX) -> ca.SX:
        """A(q) v, (rows,) [m/s, rad/s]."""
        along = self._chosen(self.velocity(model, q, v))
        if not self.turns:
            return along
        own, other = model.moving(self.frame, q, v), model.moving(self.on, q, v)
        turning = other.axes.T @ (own.body_axes @ own.omega - other.body_axes @ other.omega)
        return ca.vertcat(along, turning)

    def velocity(self, model: Mechanism, q: ca.SX, v: ca.SX) -> ca.SX:
        """Of the frame's origin over the other body, along the axes of ``on``, (3,) [m/s]."""
        own, other = model.moving(self.frame, q, v), model.moving(self.on, q, v)
        spin = other.body_axes @ other.omega
        return other.axes.T @ (own.velocity - other.velocity - ca.cross(spin, own.origin - other.origin))

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Zero."""
        return ca.SX(1, 1)
