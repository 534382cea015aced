"""Rows of impacts: what the motions before and after one have to do with each other.

An impact at a time t* acts in the steps around t_k as a force would that is an instant: an impulse Λ weighted by the
hats of the steps on both sides of t*, which is exact where the motion is free. So the impulses λ are unknowns of the
three steps around the t_k that is nearest to t*, and masses and forces are those at the pose of the impact. Coordinates
of joints are parabolas through steps k−3, k−2, k−1 and k+1, k+2, k+3; with these, at the t* where the point is at the
same place along the normal on both,

    ẏ⁺ + e ẏ⁻ = 0,    and of what sticks    ẋ⁺ = 0 along the plane,

the reset map of ``mechanics.impacts``. No mass stands in these rows, and no time is an unknown of theirs: t* is one
step of Newton's method from a time that is known, and fits go on around the times that they find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca

from spookid.mechanics.impacts import Impact
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.mechanics.recursion import Recursion
from spookid.stepping.contact_rows import SLIP_FLOOR, slip_name
from spookid.stepping.impulses import Settings
from spookid.transcription.factor import Factor, Group

IMPACTS = "impacts"
"""Name of the factor; its data are of each impact 1 at the middle one of its steps, else 0, and how many steps after it
the impact is."""
AROUND = 3
"""Steps before and after the nearest one that its rows reach to."""
_FAR = 1.5
"""Steps from the nearest one beyond which no impact is sought."""
_APPROACH = 1e-3
"""Jump of velocities below which there is hardly an impact [m/s]."""


class Flight:
    """The motion of a tree on one side of an impact.

    Args:
        x, s, a: coordinates, rates and accelerations at a step.
        offset: of that step from the one nearest to the impact.
    """

    def __init__(self, joints: JointCoordinates, parts: Sequence[ca.SX], offset: int, step: ca.SX) -> None:
        self._joints, self._parts, self._offset, self._step = joints, parts, offset, step

    def at(self, late: ca.SX) -> tuple[ca.SX, ca.SX]:
        """q (7 n_b,) and v (6 n_b,) so many steps after the nearest one."""
        (x, s, a), t = self._parts, (late - self._offset) * self._step
        there = self._joints.manifold.retract(x, t * s + t**2 / 2 * a)
        motion = Recursion(self._joints, there, s + t * a, ca.SX(a.numel(), 1))
        return motion.q, motion.v


class Encounter:
    """What an impact does, from the motion on both of its sides.

    Args:
        late: how many steps after the nearest one it is, about.
    """

    def __init__(self, impact: Impact, joints: JointCoordinates, flights: Sequence[Flight], late: ca.SX, step: ca.SX):
        self._impact, self._model = impact, joints.model.original or joints.model
        states = [flight.at(late) for flight in flights]
        before, after = (impact.height(self._model, q) for q, _ in states)
        speeds = [impact.velocity(self._model, q, v)[2] for q, v in states]
        jump = step * (speeds[1] - speeds[0])
        further = (before - after) * jump / (jump**2 + (_APPROACH * step) ** 2)
        self.late = ca.fmax(ca.fmin(late + further, _FAR), -_FAR)
        """How many steps after the nearest one it is."""
        self.velocities = [impact.velocity(self._model, *flight.at(self.late)) for flight in flights]
        """Of the point over the plane before and after, along the axes of ``on``, (3,) each [m/s]."""

    @property
    def reset(self) -> ca.SX:
        """What is lacking of the reset map, (rows,) [m/s]."""
        before, after = self.velocities
        rows = [after["xyz".index(axis)] for axis in self._impact.rows_along]
        rows[self._impact.rows_along.index("z")] += self._impact.restitution * before[2]
        return ca.vertcat(*rows)


def flights(joints: JointCoordinates, unknowns: Sequence[ca.SX], step: ca.SX) -> tuple[list[Flight], ca.SX, ca.SX]:
    """The flights around an impact, in symbols of their own, and these with their values in the unknowns.

    Args:
        unknowns: of seven neighbouring steps.
    """
    manifold, offset = joints.manifold, AROUND - 1
    sizes = manifold.ambient, manifold.tangent, manifold.tangent
    found, symbols, values = [], list[ca.SX](), list[ca.SX]()
    for side in (-offset, offset):
        before, here, after = (unknowns[AROUND + side + i][: manifold.ambient] for i in (-1, 0, 1))
        left, right = manifold.difference(here, before) / step, manifold.difference(after, here) / step
        parts = [ca.SX.sym(name, size) for name, size in zip("xsa", sizes, strict=True)]
        found.append(Flight(joints, parts, side, step))
        symbols += parts
        values += [here, (left + right) / 2, (right - left) / step]
    return found, ca.vertcat(*symbols), ca.vertcat(*values)


def impact_factor(
    joints: JointCoordinates,
    settings: Settings,
    impacts: Sequence[Impact],
    unknowns: Mapping[int, ca.SX],
    weighted: bool,
) -> Factor:
    """Reset maps of a model's impacts, over the size of what contacts that hold move in a step.

    Args:
        unknowns: symbols of seven neighbouring steps.
        weighted: True where no noise is estimated.
    """
    holding, n, step = joints.model.holding, len(impacts), settings.step
    data, (around, symbols, values) = ca.SX.sym("strikes", 2 * n), flights(joints, list(unknowns.values()), step)
    rows, labels, noise = [], list[str](), list[str]()
    for i, impact in enumerate(impacts):
        size = SLIP_FLOOR if weighted else settings.slips[holding.contacts.index(impact)]
        reset = Encounter(impact, joints, around, data[n + i], step).reset
        rows.append(data[i] * step * reset / size)
        labels += holding.labels([impact])
        noise += [slip_name(impact)] * reset.numel()
    given = dict(unknowns), data, tuple(labels)
    return Factor(IMPACTS, Group.STATE, ca.vertcat(*rows), *given, noise=tuple(noise)).written_in(symbols, values)
