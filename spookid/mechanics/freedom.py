"""Coordinates that joints leave, one by one."""

from __future__ import annotations

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
