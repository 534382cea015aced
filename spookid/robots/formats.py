"""Which format a robot's file has, and what it says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from spookid.errors import ProblemError
from spookid.robots import mjcf, urdf
from spookid.robots.description import Description, Source
from spookid.robots.markup import Document, parse, read_bytes

_PATIENCE = 10.0
"""Seconds for macros."""
_EXPAND = """
import sys, xacro
try:
    text = xacro.process_file(sys.argv[1]).toprettyxml(indent="  ")
except Exception as error:
    sys.exit(next(iter(str(error).strip().splitlines()), type(error).__name__))
sys.stdout.buffer.write(text.encode())
"""


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
    if find_spec("xacro") is None:
        raise ProblemError(f"{path} has macros; install the package xacro, or expand it to a URDF first")
    # In a process of its own: macros may go on for ever.
    command = [sys.executable, "-c", _EXPAND, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise ProblemError(
            f"{path} is not expanded by xacro within {_PATIENCE:g} s; take out what repeats itself"
        ) from None
    if done.returncode:
        reason = next(iter(done.stderr.decode(errors="replace").strip().splitlines()), "without a reason")
        raise ProblemError(f"{path} cannot be expanded by xacro ({reason}); correct it")
    return replace(parse(Path(f"{path} (expanded)"), done.stdout), file=path)
