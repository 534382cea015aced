"""The file that a model was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from spookid.records import dataclass


@dataclass(frozen=True)
class RobotFile:
    """A robot's file, and how it was read; see ``spookid.robots.read``."""

    path: str
    """Absolute."""
    sha256: str
    """Of its bytes; of a xacro file those of the URDF that it stands for."""
    free: bool = False
    held: Mapping[str, float] = field(default_factory=dict)
    merge: bool = True
    mend: bool = False
