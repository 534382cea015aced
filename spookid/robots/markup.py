"""XML as elements that know where they stand in their file, so that single attributes can be changed and nothing else.

Robot files need no document type declaration. One is refused, and with it every entity: nothing is expanded, and
nothing is fetched.

An MJCF may not make MuJoCo make parts without end, nor read files of other folders.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from spookid.errors import ProblemError, is_text
from spookid.files import unreadable

_LARGEST = 64 * 2**20
"""Bytes of the largest file that is read; a description without its meshes has far fewer."""
_DEEPEST, _MOST = 500, 500_000
"""Elements inside each other, and all of them."""
_GREATEST = 1e30
"""Number that is read; with greater ones sums of products overflow."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ATTRIBUTE = re.compile(rb"""\s([^\s=/<>"']+)\s*=\s*("[^"]*"|'[^']*')""")


class Edit(NamedTuple):
    """Replacement of a range of bytes in a text file."""

    start: int
    end: int
    content: bytes


@dataclass(eq=False)
class Element:
    """One element of a file."""

    tag: str
    attributes: Mapping[str, str]
    place: str
    """``arm.urdf:12``."""
    start: int
    """Of its first tag, in bytes of the file."""
    opened: int
    """Where that tag ends."""
    closing: int = 0
    """Where its last tag begins; that of its only tag if it is ``<tag/>``."""
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)

    @property
    def is_short(self) -> bool:
        """True for ``<tag/>``."""
        return self.closing == self.start

    def all(self, tag: str) -> list[Element]:
        """Its children of that tag."""
        return [child for child in self.children if child.tag == tag]

    def one(self, tag: str) -> Element | None:
        """Child of an XML element with a given tag, or None."""
        found = self.all(tag)
        if len(found) > 1:
            raise ProblemError(f"{found[1].place}: <{self.tag}> has a second <{tag}>; keep one")
        return found[0] if found else None

    def inside(self) -> Iterator[Element]:
        """All descendants of an XML element in document order."""
        waiting = list(reversed(self.children))
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)

    def text(self, name: str) -> str:
        """Required attribute of an element."""
        value = self.attributes.get(name, "").strip()
        if not value:
            raise ProblemError(f"{self.place}: <{self.tag}> has no {name}; give it one")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Finite number in an XML attribute, or the default if the attribute is missing."""
        if name not in self.attributes and default is not None:
            return default
        return self.numbers(name, 1)[0]

    def numbers(self, name: str, count: int, default: Iterable[float] | None = None) -> list[float]:
        """Finite numbers in an XML attribute, of a given count, or the default if the attribute is missing."""
        if name not in self.attributes and default is not None:
            return list(default)
        text = self.text(name)
        # Python's float reads more than others do: 1_0, and digits of all scripts.
        values = [float(part) for part in text.split() if _NUMBER.fullmatch(part)]
        if len(values) != count or len(text.split()) != count or not all(abs(value) <= _GREATEST for value in values):
            wanted = "one finite number" if count == 1 else f"{count} finite numbers"
            raise ProblemError(
                f"{self.place}: <{self.tag}> has {name}={text[:40]!r}; give {wanted} of at most {_GREATEST:g}"
            )
        return values


@dataclass(frozen=True, eq=False)
class Document:
    """A file of XML."""

    path: Path
    """What messages and reports call it."""
    content: bytes
    root: Element
    file: Path
    """The file itself, or the file that it replaces."""

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """Apply edits that do not overlap to the bytes of a file."""
        parts, at = [], 0
        for start, end, content in sorted(edits):
            parts += [self.content[at:start], content]
            at = end
        return b"".join([*parts, self.content[at:]])

    def with_attributes(self, element: Element, values: Mapping[str, str | None]) -> list[Edit]:
        """Return the edits that set attributes of an XML element: each value replaces the old one; None removes it."""
        begin = element.start + 1 + len(element.tag.encode())
        tag = self.content[begin : element.opened]
        found = {match[1].decode(): match for match in _ATTRIBUTE.finditer(tag)}
        edits = []
        for name, match in found.items():
            if name in values:
                start, end = (match.start(2) + 1, match.end(2) - 1) if values[name] is not None else match.span()
                edits.append(Edit(begin + start, begin + end, (values[name] or "").encode()))
        new = "".join(f' {name}="{v}"' for name, v in values.items() if v is not None and name not in found)
        if new:
            last = max((match.end() for match in found.values()), default=0)
            edits.append(Edit(begin + last, begin + last, new.encode()))
        return edits

    def with_child(self, element: Element, lines: list[str]) -> list[Edit]:
        """Return the edits that add lines of XML as first child of an element, indented like its neighbours."""
        outer = self._indent(element)
        inner = self._indent(element.children[0]) if element.children else outer + b"  "
        text = b"".join(b"\n" + inner + line.encode() for line in lines)
        if not element.is_short:
            return [Edit(element.opened, element.opened, text)]
        end = self.content.rindex(b"/", element.start, element.opened)
        while self.content[end - 1 : end].isspace():
            end -= 1
        return [Edit(end, element.opened, b">" + text + b"\n" + outer + f"</{element.tag}>".encode())]

    def without(self, element: Element) -> list[Edit]:
        """Edit that removes an XML element, and its line if nothing else is on it."""
        end = element.opened if element.is_short else self.content.index(b">", element.closing) + 1
        start = element.start - len(self._indent(element))
        alone = self.content[start - 1 : start] == b"\n" and self.content[end:].lstrip(b" \t\r")[:1] == b"\n"
        return [Edit(self.content.rfind(b"\n", 0, start) if alone else element.start, end, b"")]

    def _indent(self, element: Element) -> bytes:
        """The blanks before an element in its line."""
        before = self.content[self.content.rfind(b"\n", 0, element.start) + 1 : element.start]
        return before if not before.strip() else b""


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    try:
        if path.exists() and not path.is_file():  # a device may have no end
            raise ProblemError(f"{path} is a {'folder' if path.is_dir() else 'device'}; give a robot's file")
        size = path.stat().st_size
        content = b"" if size > _LARGEST else path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if size > _LARGEST:
        raise ProblemError(f"{path} has {size:,} bytes; give a robot's description, which has {_LARGEST:,} at most")
    if not content.strip():
        raise ProblemError(f"{path} is empty; give a robot's description, URDF or MJCF")
    return content


def parse(path: Path, content: bytes) -> Document:
    """Elements of a file."""
    builder = _Builder(path, content)
    return Document(path, content, builder.root(), path)


class _Builder:
    """Elements from what expat reports."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content
        self._open, self._count = list[Element](), 0
        self._root: Element | None = None
        self._parser = expat.ParserCreate()
        self._parser.XmlDeclHandler = self._declared
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def root(self) -> Element:
        """Of the document."""
        if self._content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ProblemError(f"{self._path} is UTF-16; save it in UTF-8")
        try:
            self._parser.Parse(self._content, True)
        except expat.ExpatError as error:
            raise ProblemError(
                f"{self._path}:{error.lineno}: is no XML ({expat.ErrorString(error.code)}); correct that line"
            ) from None
        except ProblemError:
            raise
        except ValueError as error:  # of an encoding that Python does not know
            raise ProblemError(f"{self._path} is no XML ({error}); save it in UTF-8") from None
        assert self._root is not None
        return self._root

    def _place(self) -> str:
        return f"{self._path}:{self._parser.CurrentLineNumber}"

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            raise ProblemError(f"{self._place()}: its encoding is {encoding}; save it in UTF-8")

    def _refuse_doctype(self, name: str, *_: object) -> NoReturn:
        raise ProblemError(
            f"{self._place()}: it has a document type declaration <!DOCTYPE {name} ...>, whose entities are not "
            "expanded; remove it, a robot's description does not need it"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        start = self._parser.CurrentByteIndex
        self._count += 1
        if len(self._open) >= _DEEPEST:
            raise ProblemError(f"{self._place()}: more than {_DEEPEST} elements are inside each other; take some out")
        if self._count > _MOST:
            raise ProblemError(f"{self._place()}: it has more than {_MOST:,} elements; give a robot's description")
        if not is_text(name := attributes.get("name", "")):
            raise ProblemError(f"{self._place()}: <{tag}> has the name {name[:40]!r}; give a text in one line")
        parent = self._open[-1] if self._open else None
        element = Element(tag, attributes, self._place(), start, self._tag_end(start), parent=parent)
        if parent is None:
            self._root = element
        else:
            parent.children.append(element)
        self._open.append(element)

    def _end(self, tag: str) -> None:
        element = self._open.pop()
        short = self._content[element.opened - 2 : element.opened - 1] == b"/"  # expat is behind its tag then
        element.closing = element.start if short else self._parser.CurrentByteIndex

    def _tag_end(self, start: int) -> int:
        """Where a tag ends: a ``>`` may stand in an attribute."""
        at, quote = start, b""
        while True:
            byte = self._content[at : at + 1]
            at += 1
            if quote:
                quote = b"" if byte == quote else quote
            elif byte in (b'"', b"'"):
                quote = byte
            elif byte == b">":
                return at


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
