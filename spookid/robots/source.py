"""The file that a robot was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spookid.robots.markup import Document

Format = Literal["URDF", "MJCF"]


@dataclass(frozen=True, eq=False)
class Source:
    """A file of XML, and what it is."""

    document: Document
    format: Format
    is_expanded: bool = False
    """True if it is what a xacro file stands for."""
