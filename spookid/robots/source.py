"""The file that a robot was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spookid.robots.markup import Document, Element

Format = Literal["URDF", "MJCF"]


@dataclass(frozen=True, eq=False)
class Source:
    """A file of XML, and where things stand in it."""

    document: Document
    format: Format
    links: Mapping[str, Element] = field(default_factory=dict)
    """By name; not those that stand in a file that it includes."""
    joints: Mapping[str, Element] = field(default_factory=dict)
    """By the name of a coordinate's joint."""
    angle: float = 1.0
    """Its unit of angles, so many a radian."""
    obstacle: str = ""
    """Why masses that are written into it would not be those of the model; empty if they are."""
