"""URDF: links and joints of a file's elements. Meshes are never opened; visuals, collisions and the like are left out.

The format is described at https://wiki.ros.org/urdf/XML.

Which format a robot's file has, and what it says.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.robots import mjcf
from spookid.robots.description import (
    Connection,
    Description,
    Freedom,
    Inertial,
    Kind,
    Limits,
    Link,
    Placement,
    Source,
    Tie,
)
from spookid.robots.markup import Document, Element, parse, read_bytes

_KINDS: dict[str, Kind] = {
    "revolute": "hinge",
    "continuous": "hinge",
    "prismatic": "slide",
    "planar": "planar",
    "floating": "free",
    "fixed": "fixed",
}
_Named = TypeVar("_Named", Link, Connection)


def described_urdf(document: Document) -> Description:
    """What a URDF says."""
    robot = document.root
    inertials = ((one, one.text("name"), one.one("inertial")) for one in robot.all("link"))
    links = _by_name((Link(n, e.place, None if i is None else _inertial(i, n)) for e, n, i in inertials), "link")
    if not links:
        raise ProblemError(f"{robot.place}: <robot> has no <link>; give a complete description")
    joints = _by_name((_joint(element) for element in robot.all("joint")), "joint")
    for joint in joints.values():
        for link in (joint.parent, joint.child):
            if link not in links:
                raise ProblemError(
                    f"{joint.place}: joint {joint.name!r} joins link {link!r}, which the file does not have; add it or "
                    "correct its name"
                )
    following = [element for element in robot.all("joint") if element.one("mimic") is not None]
    fixed = [element.text("name") for element in following if joints[element.text("name")].kind == "fixed"]
    ties = [_mimic(element, joints) for element in following if element.text("name") not in fixed]
    leaders = {tie.follower: tie for tie in ties}
    if circle := _circle({name: tie.leader for name, tie in leaders.items()}):
        tie = leaders[circle[0]]
        raise ProblemError(
            f"{tie.place}: joint {tie.follower!r} follows {tie.leader!r}, and that it in the end; take one <mimic> out"
        )
    root = _root(links, joints)
    name = robot.attributes.get("name") or document.path.stem
    notices = [f"Joint {joint!r} is fixed, so that its <mimic> has no effect." for joint in fixed]
    return Description(name, root, links, list(joints.values()), ties, notices=tuple(notices))


def _circle(after: Mapping[str, str]) -> list[str]:
    """Names each of which comes after another of them; empty if there are none."""
    try:
        TopologicalSorter({name: [other] for name, other in after.items()}).prepare()
    except CycleError as error:
        return list(error.args[1][:-1])
    return []


def _by_name(things: Iterable[_Named], what: str) -> dict[str, _Named]:
    found: dict[str, _Named] = {}
    for thing in things:
        if thing.name in found:
            raise ProblemError(
                f"{thing.place}: {what} {thing.name!r} has the name of the one in {found[thing.name].place}; rename it"
            )
        found[thing.name] = thing
    return found


def _root(links: dict[str, Link], joints: dict[str, Connection]) -> str:
    carried: dict[str, Connection] = {}
    for joint in joints.values():
        if joint.child in carried:
            raise ProblemError(
                f"{joint.place}: joint {joint.name!r} is the second to carry link {joint.child!r}, after "
                f"{carried[joint.child].name!r}; keep one, and close loops with robot.model(joints=[...])"
            )
        carried[joint.child] = joint
    roots = [name for name in links if name not in carried]
    if len(roots) > 1:
        raise ProblemError(
            f"{links[roots[1]].place}: no joint carries link {roots[1]!r}, nor {roots[0]!r}; a robot has one root: "
            "join all others to it"
        )
    if circle := _circle({name: joint.parent for name, joint in carried.items()}):
        joint = carried[circle[0]]
        raise ProblemError(
            f"{joint.place}: joint {joint.name!r} closes a circle of links ({', '.join(map(repr, circle))}); a URDF is "
            "a tree: take it out, and close the loop with robot.model(joints=[...])"
        )
    return roots[0]


def _inertial(element: Element, link: str) -> Inertial | None:
    mass = element.one("mass")
    if mass is None:
        raise ProblemError(f"{element.place}: <inertial> of link {link!r} has no <mass>; give it one")
    value = mass.number("value")
    if value < 0:
        raise ProblemError(f"{mass.place}: link {link!r} has mass {value:g} kg; a mass must be positive")
    entries = element.one("inertia")
    if entries is None and value == 0:
        return None
    if entries is None:
        raise ProblemError(f"{element.place}: <inertial> of link {link!r} has no <inertia>; give it one")
    # ROS takes an entry that is not there for zero.
    xx, xy, xz, yy, yz, zz = (entries.number(f"i{name}", 0.0) for name in ("xx", "xy", "xz", "yy", "yz", "zz"))
    moments = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertial(value, np.zeros(3), moments).seen_from(_origin(element))


def _origin(element: Element) -> Placement:
    origin = element.one("origin")
    if origin is None:
        return Placement.none()
    at, angles = (origin.numbers(name, 3, (0, 0, 0)) for name in ("xyz", "rpy"))
    return Placement(np.array(at), turn(angles))


def turn(angles: Iterable[float]) -> Array:
    """Rotation matrix for roll, pitch and yaw about the fixed x, y and z axes, (3, 3)."""
    return np.asarray(Rotation.from_euler("xyz", list(angles)).as_matrix())


def _joint(element: Element) -> Connection:
    name, kind = element.text("name"), element.text("type")
    if kind not in _KINDS:
        raise ProblemError(f"{element.place}: joint {name!r} has type {kind!r}; use one of {', '.join(_KINDS)}")
    ends = []
    for side in ("parent", "child"):
        end = element.one(side)
        if end is None:
            raise ProblemError(f"{element.place}: joint {name!r} has no <{side}>; give it one with a link")
        ends.append(end.text("link"))
    if ends[0] == ends[1]:
        raise ProblemError(f"{element.place}: joint {name!r} joins link {ends[0]!r} to itself; correct one of both")
    own = Placement.none()
    if _KINDS[kind] not in ("fixed", "free"):
        axis = element.one("axis")
        direction = np.array([1.0, 0.0, 0.0] if axis is None else axis.numbers("xyz", 3))
        if not np.linalg.norm(direction) > 0:
            place = (axis or element).place
            raise ProblemError(f"{place}: joint {name!r} has an axis of length zero; give a direction")
        own = Placement.along(direction / np.linalg.norm(direction))
    freedoms = (_freedom(element, name, kind),) if _KINDS[kind] in ("hinge", "slide") else ()
    return Connection(name, _KINDS[kind], ends[0], ends[1], _origin(element) @ own, own, element.place, freedoms)


def _freedom(element: Element, name: str, kind: str) -> Freedom:
    dynamics, limit = element.one("dynamics"), element.one("limit")
    damping, friction = (0.0 if dynamics is None else dynamics.number(what, 0.0) for what in ("damping", "friction"))
    for what, value in (("damping", damping), ("friction", friction)):
        if value < 0:
            place = (dynamics or element).place
            raise ProblemError(f"{place}: joint {name!r} has {what} {value:g}; it must not be negative")
    if limit is None:
        return Freedom(name, element.place, damping, friction)
    ends = (-np.inf, np.inf) if kind == "continuous" else (limit.number("lower", 0.0), limit.number("upper", 0.0))
    # Zero stands for "not known" in many files.
    effort, velocity = (abs(limit.number(what, 0.0)) or np.inf for what in ("effort", "velocity"))
    return Freedom(name, element.place, damping, friction, limits=Limits(*ends, effort, velocity))


def _mimic(element: Element, joints: dict[str, Connection]) -> Tie:
    mimic = element.one("mimic")
    assert mimic is not None
    own, leader = element.text("name"), mimic.text("joint")
    if leader not in joints:
        raise ProblemError(
            f"{mimic.place}: joint {own!r} follows {leader!r}, which the file does not have; correct its name"
        )
    for name in (own, leader):
        if joints[name].kind not in ("hinge", "slide"):
            raise ProblemError(
                f"{mimic.place}: joint {own!r} follows {leader!r}, and {name!r} has no single coordinate; take <mimic> "
                "out"
            )
    if own == leader:
        raise ProblemError(f"{mimic.place}: joint {own!r} follows itself; name another joint")
    ratio, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    if ratio == 0:
        raise ProblemError(f"{mimic.place}: joint {own!r} follows with multiplier 0; make it fixed")
    return Tie(f"{own} follows {leader}", leader, own, ratio, offset, mimic.place)


_PATIENCE = 10.0
"""Seconds for macros."""
_EXPAND = """
import os, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
except (ImportError, ValueError, OSError):
    pass
import xacro, yaml
if sys.argv[2] != "trusted":
    path = os.path.abspath(sys.argv[1])
    folders = [os.path.realpath(os.path.dirname(one)) + os.sep for one in (path, os.path.realpath(path))]
    os.environ.clear()
    robot = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${1}$(arg a)"/></robot>'
    xacro.process_doc(xacro.parse(robot), mappings={"a": ""})  # which loads all modules
    yaml.safe_load("a: 1.0")
    def watch(event, given):
        if event == "open" and not isinstance(given[0], int):
            place = os.path.realpath(os.fsdecode(given[0]))
            if not place.startswith(tuple(folders)):
                raise PermissionError(f"it reads {place}")
        elif event.startswith(("os.", "subprocess.", "socket.", "ctypes.")):
            raise PermissionError("it looks elsewhere")
    sys.addaudithook(watch)
try:
    text = xacro.process_file(sys.argv[1]).toprettyxml(indent="  ")
except Exception as error:
    sys.exit(next(iter(str(error).strip().splitlines()), type(error).__name__))
sys.stdout.buffer.write(text.encode())
"""


def opened(path: Path, trust: bool = False) -> tuple[Description, Source]:
    """Read a URDF or xacro file, and return its description and XML source."""
    document = parse(path, read_bytes(path))
    has_macros = any(element.tag.startswith("xacro:") for element in document.root.inside())
    if document.root.tag == "robot" and (path.suffix == ".xacro" or has_macros):
        document = _expanded(path, trust)
    return described(document, trust)


def described(document: Document, trust: bool = False) -> tuple[Description, Source]:
    """Description of a robot from an XML document, with the positions of its elements."""
    tag = document.root.tag
    if tag == "robot":
        found = described_urdf(document)
        links, joints = ({one.text("name"): one for one in document.root.all(kind)} for kind in ("link", "joint"))
        return found, Source(document, "URDF", links, joints)
    if tag == "mujoco":
        return mjcf.described(document, trust)
    raise ProblemError(f"{document.root.place}: its root is <{tag}>; give a URDF (<robot>) or an MJCF (<mujoco>)")


def _expanded(path: Path, trust: bool) -> Document:
    """The URDF that a xacro file stands for; without trust, macros see their own folder alone and no environment."""
    if find_spec("xacro") is None:
        raise ProblemError(f"{path} has macros; install the package xacro, or expand it to a URDF first")
    # In a process of its own: macros may continue for ever.
    command = [sys.executable, "-c", _EXPAND, str(path), "trusted" if trust else ""]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise ProblemError(
            f"{path} is not expanded by xacro within {_PATIENCE:g} s; take out what repeats itself"
        ) from None
    if done.returncode:
        remedy = "correct it" if trust else "correct it, or let it read other folders and the environment with --trust"
        reason = next(iter(done.stderr.decode(errors="replace").strip().splitlines()), "without a reason")
        raise ProblemError(f"{path} cannot be expanded by xacro ({reason}); {remedy}")
    return replace(parse(Path(f"{path} (expanded)"), done.stdout), file=path)
