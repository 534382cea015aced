"""Where the bodies and joints of a compiled MJCF stand in its file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spookid.robots.markup import Document, Element

_JOINTS = ("joint", "freejoint")
_MAKING = ("include", "attach", "replicate", "composite", "flexcomp")
"""Elements that stand for others."""


@dataclass(frozen=True, eq=False)
class Found:
    """Elements of bodies, and of the joints of each."""

    bodies: Sequence[Element | None]
    """In the order of the compiled model, without the world; None of those that the file itself does not have."""

    def place(self, body: int, path: str) -> str:
        """``robot.xml:12`` of a body of the compiled model, from 1 on."""
        element = self.bodies[body - 1]
        return path if element is None else element.place

    def joints(self, body: int) -> list[Element]:
        """Of a body of the compiled model, from 1 on, in order."""
        element = self.bodies[body - 1]
        return [] if element is None else [one for one in _own(element) if one.tag in _JOINTS]


def elements(document: Document, names: Sequence[str]) -> Found:
    """The elements of a model's bodies.

    Args:
        names: of its bodies without the world, in its order; empty of those that have none.
    """
    bodies = [body for world in document.root.all("worldbody") for body in _bodies(world)]
    own = [body.attributes.get("name", "") for body in bodies]
    whole = not any(element.tag in _MAKING for element in document.root.inside())
    if whole and own == list(names):
        return Found(bodies)
    known = {name: body for name, body in zip(own, bodies, strict=True) if name and own.count(name) == 1}
    return Found([known.get(name) for name in names])


def _bodies(element: Element) -> Iterator[Element]:
    """Those inside, each before those that it carries."""
    for child in _own(element):
        if child.tag == "body":
            yield child
            yield from _bodies(child)


def _own(element: Element) -> Iterator[Element]:
    """Its children, those in frames too."""
    for child in element.children:
        if child.tag == "frame":
            yield from _own(child)
        else:
            yield child
