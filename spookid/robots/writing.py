"""A robot's own file with what was found instead of its numbers; every other byte is as it was."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError, shown
from spookid.files import alone
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EPSILON
from spookid.results import folders
from spookid.results.result import Derived, Estimate, Solution
from spookid.robots.actuators import ServoActuator, actuator_edits
from spookid.robots.description import Inertial
from spookid.robots.identified import Identified, from_result, from_values, shared
from spookid.robots.markup import Document, Edit, Element
from spookid.robots.parts import Parts
from spookid.robots.urdf import turn

_IN_URDF = {"viscous": "damping", "coulomb": "friction"}
_IN_MJCF = {
    "viscous": "damping",
    "coulomb": "frictionloss",
    "armature": "armature",
    "stiffness": "stiffness",
    "rest": "springref",
}
_OTHERS = ("quat", "axisangle", "xyaxes", "zaxis", "euler", "diaginertia", "fullinertia")
"""Attributes of an ``<inertial>`` that say what its pose and moments say otherwise."""


def write(
    robot: Parts,
    path: str | PathLike[str],
    found: Solution | Mapping[str, float] | Identified,
    drives: Sequence[ServoActuator] = (),
) -> Path:
    """Write the robot's file with identified values; see ``Robot.write``."""
    target = Path(path)
    beside = target.with_name(f"{target.name}.json") if target.name else target
    check = partial(_check_target, robot.source.document, target, beside)
    with alone(target.parent):  # not between the two files of an export
        check()
    if isinstance(found, Solution):
        identified = from_result(robot, found)
    elif isinstance(found, Identified):
        identified = found
    elif isinstance(found, Mapping):
        identified = from_values(robot, found)
    else:
        raise ProblemError(f"{target} cannot be written from {shown(found)}; give a Solution, or values by name")
    content, inertials, joints = rewritten(robot, identified, drives)
    document = _document(robot, target, identified, inertials, joints)
    folders.write_all({beside: document, target: lambda part: part.write_bytes(content)}, check)
    return beside


def _check_target(document: Document, target: Path, beside: Path) -> None:
    """Refuse to replace what is none of an earlier export, and a folder in which the file's parts are not found."""
    if target.resolve() == document.file.resolve():
        raise ProblemError(f"{target} is the robot's own file, which is kept; write into another one")
    for one in (target, beside):
        if os.path.lexists(one) and not _is_ours(target, beside):
            raise ProblemError(f"{one} is there already and is no earlier export; remove it or give another name")
    for element in document.root.inside():
        name = element.attributes.get("file", "") if element.tag == "include" else ""
        if name and not (target.parent / name).is_file():
            raise ProblemError(
                f"{target} would not find {name!r}, which {document.path} includes, from that "
                f"folder; write into {document.file.parent}"
            )


def _is_ours(target: Path, beside: Path) -> bool:
    """True of the JSON that ``write`` puts beside a file, before which that may not be there yet."""
    try:
        tree = msgspec.json.decode(beside.read_bytes()) if target.is_file() or not os.path.lexists(target) else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and {"schema", "robot", "sha256"} <= tree.keys() and tree.get("file") == target.name


Rewritten: TypeAlias = tuple[bytes, Mapping[str, Inertial | None], Mapping[str, Mapping[str, float]]]
"""A file, the inertials in it that are other ones (None of links without mass now), and attributes of joints."""


def rewritten(robot: Parts, identified: Identified, drives: Sequence[ServoActuator] = ()) -> Rewritten:
    """The file that ``Robot.write`` writes."""
    inertials, joints = _inertials(robot, identified), _joints(robot, identified)
    if drives and robot.source.format != "MJCF":
        raise ProblemError(f"{robot.source.document.path} has no place for the gains of servos; give an MJCF file")
    for one in drives:
        if one.joint not in robot.freedoms:
            raise ProblemError(
                f"{robot.source.document.path} has no joint {one.joint!r} of a servo; rename one of them"
            )
        own = joints.setdefault(robot.freedoms[one.joint].name, {})
        own["damping"] = own.get("damping", robot.freedoms[one.joint].viscous)
        own["damping"] += 0.0 if one.motor else one.back_emf
    edits = actuator_edits(robot.source.document, drives) if drives else []
    return _content(robot, inertials, joints, edits), inertials, joints


# --- what the file holds ---


def _inertials(robot: Parts, identified: Identified) -> dict[str, Inertial | None]:
    """Of links; None of those that have no mass any more."""
    found: dict[str, Inertial | None] = {}
    for name, own in identified.bodies.items():
        found |= shared(robot, robot.grouped.groups[name], own)
    for name, part in found.items():
        if part is not None:  # zeros where there is nothing but rounding, of a body of this size and mass
            gyration = math.sqrt(abs(np.trace(part.inertia)) / part.mass) if part.mass > 0 else 0.0
            extent = max(float(np.linalg.norm(part.center)), gyration)
            center, inertia = _above(part.center, extent), _above(part.inertia, part.mass * extent**2)
            found[name] = Inertial(part.mass, center, inertia)
    return found


def _above(values: Array, scale: float) -> Array:
    """Zeros for numbers below the rounding of a scale."""
    return np.where(np.abs(values) <= EPSILON * scale, 0.0, values)


def _joints(robot: Parts, identified: Identified) -> dict[str, dict[str, float]]:
    """Attributes of the file's joints that were found; a ball has one number for its three coordinates."""
    words = _IN_URDF if robot.source.format == "URDF" else _IN_MJCF
    gathered: dict[str, dict[str, set[float]]] = {}
    for label, values in identified.joints.items():
        own = gathered.setdefault(robot.freedoms[label].name, {})
        for what, value in values.items():
            scale = robot.source.angle if what == "rest" and robot.coordinates[label].unit == "rad" else 1.0
            if what in words:
                own.setdefault(words[what], set()).add(scale * value)
    return {
        joint: {word: next(iter(values)) for word, values in own.items() if len(values) == 1}
        for joint, own in gathered.items()
    }


def _content(
    robot: Parts,
    inertials: Mapping[str, Inertial | None],
    joints: Mapping[str, Mapping[str, float]],
    actuators: Sequence[Edit],
) -> bytes:
    source = robot.source
    if inertials and source.obstacle:
        raise ProblemError(f"{source.document.path}: {source.obstacle}")
    edits: list[Edit] = [*actuators]
    for name, inertial in inertials.items():
        element = _element(robot, source.links, name, "body")
        write_inertial = _urdf_inertial if source.format == "URDF" else _mjcf_inertial
        edits += write_inertial(source.document, element, inertial)
    for name, values in joints.items():
        element, found = _element(robot, source.joints, name, "joint"), {w: text(v) for w, v in values.items()}
        if source.format == "MJCF":
            edits += source.document.with_attributes(element, found)
        elif found:
            edits += _set(source.document, element, "dynamics", found)
    return source.document.edited(edits)


def _element(robot: Parts, elements: Mapping[str, Element], name: str, what: str) -> Element:
    if name not in elements:
        raise ProblemError(
            f"{robot.source.document.path}: {what} {name!r} is in no element of this file's own, as after "
            "<include> or <replicate>; write it out"
        )
    return elements[name]


def text(*values: float) -> str:
    """Format numbers for a robot's file without loss of precision."""
    return " ".join(repr(float(value) + 0.0) for value in values)


def _urdf_inertial(document: Document, link: Element, inertial: Inertial | None) -> list[Edit]:
    """Its axes stay turned as they are."""
    element = link.one("inertial")
    if inertial is None:
        return [] if element is None else document.without(element)
    origin = None if element is None else element.one("origin")
    axes = np.eye(3) if origin is None else turn(origin.numbers("rpy", 3, (0, 0, 0)))
    own = _above(axes.T @ inertial.inertia @ axes, float(np.abs(inertial.inertia).max()))
    entries = {f"i{'xyz'[i]}{'xyz'[j]}": text(own[i, j]) for i in range(3) for j in range(i, 3)}
    values = {"origin": {"xyz": text(*inertial.center)}, "mass": {"value": text(inertial.mass)}, "inertia": entries}
    if element is None:
        lines = [f"  {_tag(name, attributes)}" for name, attributes in values.items()]
        return document.with_child(link, ["<inertial>", *lines, "</inertial>"])
    children = {name: element.one(name) for name in values}
    edits = [e for name, child in children.items() if child for e in document.with_attributes(child, values[name])]
    new = [_tag(name, values[name]) for name, child in children.items() if child is None]
    return edits + (document.with_child(element, new) if new else [])


def _tag(name: str, attributes: Mapping[str, str | None]) -> str:
    return f"<{name} " + " ".join(f'{what}="{value}"' for what, value in attributes.items()) + "/>"


def _set(document: Document, parent: Element, tag: str, values: Mapping[str, str | None]) -> list[Edit]:
    """Attributes of the child of that tag, which is there afterwards."""
    element = parent.one(tag)
    return document.with_attributes(element, values) if element else document.with_child(parent, [_tag(tag, values)])


def _mjcf_inertial(document: Document, body: Element, inertial: Inertial | None) -> list[Edit]:
    """Along its principal axes, so that MuJoCo has none to find; of None nothing, whatever its shapes."""
    inertial = inertial or Inertial.none()
    moments, axes = np.linalg.eigh(inertial.inertia)
    axes[:, 2] *= np.linalg.det(axes)
    quaternion = np.roll(Rotation.from_matrix(axes).as_quat(), 1)
    values: dict[str, str | None] = {"pos": text(*inertial.center), "quat": text(*quaternion)}
    values |= {"mass": text(inertial.mass), "diaginertia": text(*moments)}
    others = dict.fromkeys(_OTHERS) if body.one("inertial") else {}
    return _set(document, body, "inertial", {**others, **values})


# --- what stands beside it ---


def _document(
    robot: Parts,
    target: Path,
    identified: Identified,
    inertials: Mapping[str, Inertial | None],
    joints: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """Provenance, all that was found with errors and covariance, and what of it the file does not hold."""
    source, result = robot.source.document, identified.result
    derived = identified.derived
    words = _IN_URDF if robot.source.format == "URDF" else _IN_MJCF
    held = {name for name, one in derived.items() if _is_held(robot, one, words, joints)}
    facts: dict[str, Any] = {
        "schema": 1,
        "robot": {"name": robot.name, "file": source.file.name, "format": robot.source.format},
        "sha256": hashlib.sha256(source.content).hexdigest(),
        "file": target.name,
        "links": {
            name: part and {"mass": part.mass, "center_of_mass": part.center, "inertia": part.inertia}
            for name, part in inertials.items()
        },
        "joints": joints,
        "result": None,
    }
    if result is None:
        return {**facts, "values": {"bodies": identified.bodies, "joints": identified.joints}}
    names = ("problem", "status", "message", "stepper", "friction", "step", "dynamics", "versions")
    return facts | {
        "result": {name: getattr(result, name) for name in names},
        "quantities": {name: {**_quantity(one), "in_file": name in held} for name, one in derived.items()},
        "covariance": {"names": list(derived), "matrix": identified.covariance()},
        "parameters": {name: _quantity(one) for name, one in result.parameters.items()},
        "parameter_covariance": {"names": result.sensitivities.names, "matrix": result.sensitivities.covariance},
    }


def _is_held(robot: Parts, one: Derived, words: Mapping[str, str], joints: Mapping[str, Mapping[str, float]]) -> bool:
    """True if the file holds a number."""
    what = one.name.removeprefix(f"{one.body} ")
    if one.body in robot.freedoms and what in words:
        return words[what] in joints.get(robot.freedoms[one.body].name, {})
    return one.body in robot.bodies and one.unit in ("kg", "m", "kg m^2") and "[" not in what


def _quantity(one: Derived | Estimate) -> dict[str, Any]:
    error = one.std_err if math.isfinite(one.std_err) else None
    told = {"estimate": one.estimate, "std_err": error, "unit": one.unit, "known_from": one.known_from}
    return told | ({"reason": one.reason} if one.reason else {})
