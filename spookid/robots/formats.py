"""Which format a robot's file has, and what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from spookid.errors import ProblemError
from spookid.robots import mjcf, urdf
from spookid.robots.description import Description
from spookid.robots.markup import Document, parse, read_bytes
from spookid.robots.source import Source


def opened(path: Path) -> tuple[Description, Source]:
    """What a file says, and the file.

    Raises:
        ProblemError: for a file that is none of a robot.
    """
    document = parse(path, read_bytes(path))
    has_macros = any(element.tag.startswith("xacro:") for element in document.root.inside())
    if document.root.tag == "robot" and (path.suffix == ".xacro" or has_macros):
        document = _expanded(path)
    return described(document)


def described(document: Document) -> tuple[Description, Source]:
    """What a document says, and where.

    Raises:
        ProblemError: for one that is none of a robot.
    """
    tag = document.root.tag
    if tag == "robot":
        found = urdf.described(document)
        links, joints = ({one.text("name"): one for one in document.root.all(kind)} for kind in ("link", "joint"))
        return found, Source(document, "URDF", links, joints)
    if tag == "mujoco":
        return mjcf.described(document)
    raise ProblemError(f"{document.root.place}: its root is <{tag}>; give a URDF (<robot>) or an MJCF (<mujoco>)")


def _expanded(path: Path) -> Document:
    """The URDF that a xacro file stands for."""
    try:
        import xacro
    except ImportError:
        raise ProblemError(f"{path} has macros; install the package xacro, or expand it to a URDF first") from None
    try:
        expanded: Any = xacro.process_file(str(path)).toprettyxml(indent="  ")
    except Exception as error:  # whatever its macros evaluate to
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ProblemError(f"{path} cannot be expanded by xacro ({reason}); correct it") from None
    return replace(parse(Path(f"{path} (expanded)"), expanded.encode()), file=path)
