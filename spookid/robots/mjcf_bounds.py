"""What an MJCF may not make MuJoCo do: make parts without end, and read files of other folders."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from spookid.errors import ProblemError
from spookid.robots.markup import Document, Element, parse, read_bytes

_MOST_COPIES, _MOST_POINTS = 1e4, 1e8
"""Of a body, and of a height field or a texture."""
_EXPANDED = ("replicate", "composite", "flexcomp")


class _Part(NamedTuple):
    """A file of those that a robot's file reads."""

    document: Document
    copies: float
    """How often its elements may be made."""
    models: tuple[Path, ...]
    """Those that it is attached in, and itself if it is attached."""


class Files:
    """Other files that a robot's file includes.

    Raises:
        ProblemError: for those outside of its folder unless it is trusted, and for what makes too many parts.
    """

    def __init__(self, document: Document, trust: bool) -> None:
        self._trust, self._place = trust, str(document.path)
        self._own = [path.resolve().parent for path in (document.path.parent / "_", document.path)]
        self._folders = {document.path.parent}
        """From which names may count: MuJoCo takes those of included files from the first file's folder."""
        waiting, included = [_Part(document, 1.0, (document.path.resolve(),))], set[Path]()
        while waiting:
            part = waiting.pop()
            self._folders.add(part.document.path.parent)
            for element in part.document.root.inside():
                copies = part.copies * _checked(element, part.copies)
                if element.tag == "compiler":
                    named = (element.attributes.get(f"{kind}dir", "") for kind in ("mesh", "texture", "asset"))
                    self._folders |= {folder / name for folder in {*self._folders} for name in named}
                if element.tag not in ("include", "model", "flexcomp"):
                    continue
                for path in self.check([element.attributes.get("file", "")], element.place):
                    if element.tag == "include" and path not in included:  # MuJoCo refuses a second time
                        included.add(path)
                        waiting.append(_Part(parse(path, read_bytes(path)), copies, part.models))
                    elif element.tag == "model":
                        waiting.append(self._attached(element, path, part))

    def check(self, names: Iterable[str], place: str = "") -> list[Path]:
        """Return existing files, for file names in the robot's file."""
        found = {folder / name for name in names if name for folder in self._folders if (folder / name).exists()}
        for path in found:
            if not (self._trust or any(path.resolve().is_relative_to(folder) for folder in self._own)):
                raise ProblemError(
                    f"{place or self._place}: it reads {path.resolve()}, outside of the robot's own folder; copy the "
                    "file there, or let it read other folders with --trust"
                )
        return sorted(found)

    def _attached(self, element: Element, path: Path, part: _Part) -> _Part:
        """A model that is attached to another."""
        if path.resolve() in part.models:
            raise ProblemError(f"{element.place}: {path.name!r} is attached to itself; take it out")
        copies = part.copies * sum(one.tag in ("model", "attach") for one in part.document.root.inside())
        if copies > _MOST_COPIES:
            raise ProblemError(f"{element.place}: {path.name!r} is attached {copies:.3g} times; attach fewer")
        return _Part(parse(path, read_bytes(path)), copies, (*part.models, path.resolve()))


def _checked(element: Element, copies: float) -> float:
    """How many copies of what is in an element there are; raises ProblemError if those would take for ever, or fill all
    memory."""
    above: Element | None = element
    made = 1.0
    while above is not None:
        made *= math.prod(_counts(above, "count")) if above.tag in _EXPANDED else 1
        above = above.parent
    size = copies * made * math.prod(_counts(element, "nrow", "ncol", "width", "height"))
    if size > (_MOST_COPIES if element.tag in _EXPANDED else _MOST_POINTS):
        raise ProblemError(f"{element.place}: <{element.tag}> makes {size:.3g} parts of itself; give fewer")
    return max(made, 1.0)


def _counts(element: Element, *names: str) -> list[float]:
    words = [word for name in names for word in element.attributes.get(name, "").split()]
    return [float(word) for word in words if word.isdigit()]
