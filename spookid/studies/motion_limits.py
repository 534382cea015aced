"""What a planned motion must stay within."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from spookid.argument_checks import Checked
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError, declared_at, shown
from spookid.kernels.arrays import Array, Mask
from spookid.mechanics.body import Frame
from spookid.mechanics.holding import Touch

_MARGIN = 0.01
"""Of each limit, which the motion between the instants of a design may need."""


@dataclass(frozen=True, eq=False)
class Cone:
    """Friction cone that limits the force of a contact."""

    contact: Touch
    friction: float
    """Largest force across the plane's normal over that along it."""
    least: float
    """Force along the normal at the least [N]."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of n joint coordinates, f frames and c friction cones; infinite without a limit."""

    position: Array
    """(2, n) [rad or m]."""
    rate: Array
    """(n,) [rad/s or m/s]."""
    effort: Array
    """(n,) [N m or N]."""
    place: Array
    """(2, 3 f) [m]."""
    cone: Array
    """Least force along the normal of each cone, (c,) [N]."""

    @cached_property
    def rows(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the quantities in ``PlannedEfforts.asked``, (3 n + 3 f + 2 c,)."""
        symmetric = np.concatenate([self.rate, self.effort])
        forces = np.column_stack([self.cone, 0 * self.cone]).ravel()
        lower = [self.position[0], -symmetric, self.place[0], forces]
        return np.concatenate(lower), np.concatenate([self.position[1], symmetric, self.place[1], forces + np.inf])

    @cached_property
    def scales(self) -> Array:
        """Scales by which the limited quantities are divided, (3 n + 3 f + 2 c,)."""
        lower, upper = self.rows
        half = (upper - lower) / 2
        found = np.where(np.isfinite(half) & (half > 0), half, 1.0)
        found[len(found) - 2 * len(self.cone) :] = np.repeat(np.maximum(self.cone, 1.0), 2)
        return found

    @cached_property
    def inner(self) -> tuple[Array, Array]:
        """Bounds that are tightened, because the motion is checked only at discrete instants."""
        lower, upper = self.rows
        room = np.where(np.isfinite(upper - lower), _MARGIN * self.scales, 0.0)
        below = room.copy()
        cones = slice(len(room) - 2 * len(self.cone), None)
        below[cones] = _MARGIN * self.scales[cones]
        return lower + below, upper - room

    @cached_property
    def present(self) -> Mask:
        """True for quantities that have a limit."""
        lower, upper = self.rows
        return np.isfinite(lower) | np.isfinite(upper)

    def beyond(self, rows: Array) -> float:
        """Violation of the limits by quantities (N, 3 n + 3 f + 2 c), in shares of half the range; negative inside,
        infinite if no such pose exists."""
        lower, upper = self.rows
        off = np.maximum(lower - rows, rows - upper) / self.scales
        most = float(np.max(off[:, self.present], initial=-np.inf))
        return np.inf if np.isnan(most) else most


Box = Sequence[tuple[float, float]]
"""(lower, upper) along x, y and z [m], infinite where there is no wall."""


@dataclass(frozen=True)
class MotionLimits(metaclass=Checked):
    """Limits of a planned motion, by coordinate label; the label of a hinge or slider is its name.

    >>> limits = MotionLimits(position={"hinge": (-1.0, 1.0)}, rate={"hinge": 3.0})

    Args:
        position: (lower, upper) [rad or m].
        rate: largest size [rad/s or m/s].
        effort: largest effort of a motor along its coordinate [N m or N].
        place: walls of the world around the origins of frames, by their names in ``Model.frames`` (links of a robot's
            file) or by names of bodies: ``{"tool0": [(-inf, inf), (-inf, inf), (0.1, inf)]}``.
        cone: (μ, least normal force [N]) of holding contacts, by their names: the force on the body stays within
            Coulomb's cone about the z axis of ``on``, with at least this normal force. Moments of a ``Weld`` are free.

    Raises:
        ProblemError: for limits that are not numbers, or that exclude each other.
    """

    position: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rate: Mapping[str, float] = field(default_factory=dict)
    effort: Mapping[str, float] = field(default_factory=dict)
    place: Mapping[str, Box] = field(default_factory=dict)
    cone: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    where: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        for name, pair in self.position.items():
            _check_pair(self.where, f"position of {name!r}", pair)
        for what in ("rate", "effort"):
            for name, value in getattr(self, what).items():
                if not value > 0:
                    limit = f"the {what} limit of coordinate {name!r} is {shown(value)}"
                    raise ProblemError(f"{self.where}: {limit}: give a limit above 0")
        for name, box in self.place.items():
            if len(box) != 3:
                raise ProblemError(f"{self.where}: limits of the place of {name!r}: give three pairs, of x, y and z")
            for axis, pair in zip("xyz", box, strict=True):
                _check_pair(self.where, f"{axis} of {name!r}", pair)
        for name, one in self.cone.items():
            friction, least = one
            if not (0 < friction < math.inf and 0 <= least < math.inf):
                raise ProblemError(
                    f"{self.where}: cone {shown(one)} of {name!r}: give its friction, above 0, and the least normal "
                    "force in N"
                )

    def over(self, others: MotionLimits) -> MotionLimits:
        """These limits, completed by others."""
        parts = {n: {**getattr(others, n), **getattr(self, n)} for n in ("position", "rate", "effort", "place", "cone")}
        return MotionLimits(**parts, where=self.where)

    def frames(self, problem: Problem) -> list[Frame]:
        """Frames whose position is limited.

        Raises:
            ProblemError: for a name that is neither a frame nor a body.
        """
        model, found = problem.model, []
        bodies = {body.name: body.frame() for body in model.bodies}
        for name in self.place:
            frame = model.frames.get(name) or bodies.get(name)
            if frame is None:
                known = ", ".join(dict.fromkeys([*model.frames, *bodies]))
                raise ProblemError(f"{self.where}: limits name the frame {name!r}; there are {known}")
            found.append(frame)
        return found

    def cones(self, problem: Problem) -> list[Cone]:
        """Of contacts.

        Raises:
            ProblemError: for an unknown contact, or one that does not hold along its normal.
        """
        contacts = {contact.name: contact for contact in problem.model.holding.contacts}
        for name in self.cone:
            if name not in contacts:
                known = ", ".join(contacts) or "none"
                raise ProblemError(f"{self.where}: limits name the contact {name!r}; there are {known}")
            if "z" not in contacts[name].rows_along:
                raise ProblemError(f"{self.where}: contact {name!r} has no normal, the z axis of on; give no cone")
        return [Cone(contacts[name], *map(float, one)) for name, one in self.cone.items()]

    def bounds(self, problem: Problem) -> Bounds:
        """Bounds as arrays, in the order of the model's coordinates.

        Raises:
            ProblemError: for an unknown coordinate, or a motor without a limit of its rate.
        """
        labels = [freedom.label for freedom in problem.model.freedoms]
        for name in (*self.position, *self.rate, *self.effort):
            if name not in labels:
                raise ProblemError(f"{self.where}: limits name the joint {name!r}; there are {', '.join(labels)}")
        most = self.rate, self.effort
        rate, effort = (np.array([float(of.get(label, math.inf)) for label in labels]) for of in most)
        driven = {motor.label for motor in problem.model.motors}
        if endless := [n for n, most in zip(labels, rate, strict=True) if math.isinf(most) and n in driven]:
            raise ProblemError(
                f"{problem.what}: nothing limits the rate of {endless[0]!r}, and "
                f"faster motions always identify more; give it, as of a command --rate-limit {endless[0]}=1.5"
            )
        pairs = [self.position.get(label, (-math.inf, math.inf)) for label in labels]
        walls = [pair for box in self.place.values() for pair in box]
        least = np.array([float(least) for _, least in self.cone.values()])
        position, place = (np.array(some, dtype=np.float64).reshape(-1, 2).T for some in (pairs, walls))
        return Bounds(position, rate, effort, place, least)


def _check_pair(where: str, what: str, pair: tuple[float, float]) -> None:
    lower, upper = pair
    if not lower < upper:
        raise ProblemError(f"{where}: limits {shown(pair)} of the {what}: give (lower, upper), the lower one first")
