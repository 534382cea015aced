"""Coordinates that joints leave, one by one.

Spanning trees of joints: which of them place bodies, and which close loops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spookid.mechanics.body import GROUND, Body
from spookid.mechanics.coordinate import Coordinate
from spookid.mechanics.joints import Joint
from spookid.records import dataclass


@dataclass(frozen=True)
class Freedom:
    """One coordinate of one joint."""

    joint: Joint
    index: int
    """Among those of its joint."""

    @property
    def coordinate(self) -> Coordinate:
        """Its name and unit."""
        return self.joint.coordinates[self.index]

    @property
    def label(self) -> str:
        """That of the joint, if it has no other coordinate."""
        return self.joint.labels[self.index]

    @property
    def rubs(self) -> bool:
        """True if it has dry friction of any kind."""
        return self.joint.rubbing[self.index]


def rooted(bodies: Sequence[Body]) -> set[int]:
    """What nothing has to place, by ``id``: the ground and free bodies."""
    return {id(GROUND)} | {id(body) for body in bodies if body.free}


def spanning_tree(bodies: Sequence[Body], joints: Sequence[Joint], measured: Collection[Joint]) -> list[Joint]:
    """Joints in an order in which each joins a new body to one already placed; those that close loops are left out.

    Of a loop a joint is left out whose effort is not measured, if there is one (Prim's algorithm): noise of a
    measurement is a row along a coordinate of the tree.
    """
    order = _grown(bodies, joints)
    if any(joint not in order for joint in measured):
        order = _grown(bodies, sorted(joints, key=lambda joint: joint not in measured))
    return order


def _grown(bodies: Sequence[Body], joints: Sequence[Joint]) -> list[Joint]:
    """By the first of the joints wherever there is a choice."""
    placed, order = rooted(bodies), list[Joint]()
    while fresh := [j for j in joints if sum(id(body) in placed for body in j.bodies()) == 1]:
        order.append(fresh[0])
        placed |= {id(body) for body in fresh[0].bodies()}
    return order
