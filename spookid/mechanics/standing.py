"""Contacts that hold: a point or a frame of a body that stays where it is on another one, always or at times.

What holds is that nothing moves over a step, y(q_{k+1}) = y(q_k) with y where the frame is on the other one, which is a
row on positions without the place of the contact among its unknowns: where a foot stands, the data say. The multipliers
act along A(q_k) = ∂y/∂ψ, as those of rigid joints do, and vanish while a contact does not hold.

The rows at acceleration level are those of multibody codes, ÿ = −k_d ẏ − k_p (y − y_0) (Baumgarte; Martinez et al.,
III-B and IV-A with equations 24 and 25). They hold a little less than what they stand for, and bias what damps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.errors import ProblemError, shown
from spookid.mechanics import rotations
from spookid.mechanics.body import GROUND, Body, Frame
from spookid.mechanics.constraints import Constraint, Mechanism
from spookid.mechanics.manifold import Manifold

Holds = bool | str | Sequence[tuple[float, float]] | Mapping[str, "Holds"]
"""When a contact holds: True, always; the name of a signal, while it is at least ``threshold``; or intervals of time
[s]; or one of these by the name of each recording."""
Level = Literal["position", "acceleration"]


@dataclass(frozen=True, eq=False)
class HeldContact(Constraint):
    """What ``PointContact`` and ``Weld`` have in common.

    Raises:
        ProblemError: for what is no frame of the model, both on one body, a schedule of another form, a level that is
            not known, or a negative slip, threshold or gain.
    """

    on_velocities = True
    turns: ClassVar[bool] = False
    """True if rotations hold, too."""

    frame: Frame
    """Whose origin stays; its body is pushed."""
    on: Frame = field(default_factory=GROUND.frame)
    """Where it stays, and in whose axes forces and moments are told."""
    axes: str = field(default="xyz", kw_only=True)
    """Along which axes of ``on`` it stays: ``"z"`` of what slides on a plane, ``"yz"`` in mechanisms of that plane."""
    holds: Holds = field(default=True, kw_only=True)
    """When; see ``Holds``. A step counts if the contact holds at both of its ends."""
    threshold: float = field(default=0.5, kw_only=True)
    """Of the signal, in its unit: 0.5 of one that is 0 or 1, some newtons of a force."""
    slip: float | None = field(default=0.0, kw_only=True)
    """How much it creeps, as a random velocity [m/s/√Hz, and rad/s/√Hz of a ``Weld``]: 0, it does not; None: estimated
    with the other noise."""
    level: Level = field(default="position", kw_only=True)
    """``"position"``, or ``"acceleration"`` with the gains of ``baumgarte`` (where the noise is estimated)."""
    baumgarte: tuple[float, float] = field(default=(0.0, 0.0), kw_only=True)
    """k_p [1/s²], which pulls to the origin of ``on``, and k_d [1/s]."""

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
        if self.level not in ("position", "acceleration"):
            raise ProblemError(f"{self.what} has level {shown(self.level)}; choose 'position' or 'acceleration'")
        self._check_numbers()
        _check_schedule(self.holds, self.what)

    def _check_numbers(self) -> None:
        numbers = {"threshold": self.threshold, "slip": 0.0 if self.slip is None else self.slip}
        numbers |= {"a gain of baumgarte": min(self.baumgarte, default=-1.0)}
        for name, value in numbers.items():
            if not (isinstance(value, (int, float)) and np.isfinite(value) and (value >= 0 or name == "threshold")):
                raise ProblemError(f"{self.what}: {name} is {shown(value)}; give a number that is not negative")
        if len(self.baumgarte) != 2:
            raise ProblemError(f"{self.what}: baumgarte is {shown(self.baumgarte)}; give two gains")

    @property
    def switches(self) -> bool:
        """True if there are times at which it does not hold."""
        return self.holds is not True

    @property
    def schedules(self) -> tuple[str, ...]:
        """Signals that say when it holds."""
        own = self.holds.values() if isinstance(self.holds, Mapping) else [self.holds]
        return tuple(dict.fromkeys(one for one in own if isinstance(one, str)))

    def schedule(self, recording: str | None) -> bool | str | Sequence[tuple[float, float]]:
        """When it holds in a recording; as of no recording, always.

        Raises:
            ProblemError: if nothing is said of it.
        """
        if not isinstance(self.holds, Mapping):
            return self.holds
        if recording is None:
            return True
        if recording not in self.holds:
            names = ", ".join(map(repr, self.holds))
            raise ProblemError(f"{self.what}: holds says nothing of recording {recording!r}; it speaks of {names}")
        return self.holds[recording]  # type: ignore[return-value]

    def labels(self, model: Mechanism) -> tuple[str, ...]:
        """x, y, z, and of a ``Weld`` rx, ry, rz."""
        return (*self.axes, *(("rx", "ry", "rz") if self.turns else ()))

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
        n = len(self.axes)
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
        return ca.vertcat(ca.SX(len(self.axes), 1), *([ca.SX([1, 0, 0, 0])] if self.turns else []))

    def _chosen(self, along: ca.SX) -> ca.SX:
        return ca.vertcat(*(along["xyz".index(axis)] for axis in self.axes))

    def rates(self, model: Mechanism, q: ca.SX, v: ca.SX) -> ca.SX:
        """A(q) v, (rows,) [m/s, rad/s]."""
        own, other = model.moving(self.frame, q, v), model.moving(self.on, q, v)
        spin = other.body_axes @ other.omega
        relative = own.velocity - other.velocity - ca.cross(spin, own.origin - other.origin)
        along = self._chosen(other.axes.T @ relative)
        turning = other.axes.T @ (own.body_axes @ own.omega - spin)
        return ca.vertcat(along, turning) if self.turns else along

    def speeds(self, inputs: Mapping[str, ca.SX]) -> ca.SX:
        """Zero."""
        return ca.SX(1, 1)


@dataclass(frozen=True, eq=False)
class PointContact(HeldContact):
    """A point of a body that stays where it is, as the foot of a leg that stands, and turns freely: three rows.

    Its multiplier is the impulse of the contact's force on the body of ``frame``, along the axes of ``on`` [N s].

    ``PointContact("foot", shank.frame(at=(0, 0, -0.2)), holds="foot_force", threshold=20)``
    """


@dataclass(frozen=True, eq=False)
class Weld(HeldContact):
    """A frame of a body that stays as it is, as the sole of a foot or a hand that holds something: six rows.

    Its multiplier is the impulse of the contact's force on the body of ``frame`` [N s] and that of its moment about the
    frame's origin [N m s], along the axes of ``on``.

    ``Weld("grip", hand.frame(), box.frame(), holds=[(1.0, 4.5)])``
    """

    turns = True


def _check_schedule(holds: Holds, what: str) -> None:
    if isinstance(holds, Mapping):
        for name, one in holds.items():
            if not isinstance(name, str) or isinstance(one, Mapping):
                raise ProblemError(f"{what}: holds has {shown(name)}; give schedules by the names of recordings")
            _check_schedule(one, what)
        return
    if holds is True or isinstance(holds, str):
        return
    try:
        spans = np.asarray(holds, dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        spans = np.full((1, 2), np.nan)
    if holds is False or not np.all(spans[:, 0] < spans[:, 1]):
        raise ProblemError(
            f"{what}: holds is {shown(holds)}; give True, a signal's name, or intervals [(t_0, t_1), ...]"
        )
