"""MJCF through MuJoCo, which resolves classes, includes, angles and units: the tree of bodies and its equalities.

Several joints of one body are one joint of the package.

Of shapes only those are read that a body without ``<inertial>`` has its mass from. The format is described at
https://mujoco.readthedocs.io/en/stable/XMLreference.html.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError
from spookid.kernels.precision import EQUAL
from spookid.robots.actuators import motors_of, servos_of
from spookid.robots.description import (
    Actuator,
    Connection,
    Description,
    FileServo,
    Freedom,
    Inertial,
    Kind,
    Limits,
    Link,
    Loop,
    Placement,
    Source,
    Tie,
)
from spookid.robots.markup import Document, Element, Files, read_bytes
from spookid.tables.table import counted

_KINDS: tuple[Kind, ...] = ("free", "ball", "slide", "hinge")
"""Of joints, by MuJoCo's numbers."""


def joint_names(model: Any, bodies: Sequence[str]) -> list[str]:
    """Names of all joints; joints without a name are named after their bodies."""
    names = []
    for j in range(model.njnt):
        body = int(model.jnt_bodyid[j])
        place = j - int(model.body_jntadr[body]) + 1
        after = f"{bodies[body]}_joint" + (f"_{place}" if model.body_jntnum[body] > 1 else "")
        names.append(str(model.joint(j).name) or after)
    return names


def joined(model: Any, joints: Sequence[tuple[int, str, str]], body: str, place: str) -> Connection:
    """Return the joint that connects a body to its parent."""
    types = [_KINDS[model.jnt_type[j]] for j, _, _ in joints]
    name = " and ".join(name for _, name, _ in joints) or f"{body} is fixed"
    at = joints[0][2] if joints else place
    freedoms = [_freedom(model, *joint) for joint in joints if types[0] != "free"]
    if len(types) <= 1 and types != ["ball"]:
        inner = outer = Placement.none()
        if freedoms:
            j = joints[0][0]
            inner = Placement.along(model.jnt_axis[j], model.jnt_pos[j].copy())
            moved = float(model.qpos0[model.jnt_qposadr[j]])
            outer = inner.turned(moved) if types[0] == "hinge" else inner.moved(moved)
        return Connection(name, types[0] if types else "fixed", "", body, inner, outer, at, tuple(freedoms))
    if types == ["ball"]:
        own = Placement(model.jnt_pos[joints[0][0]].copy(), np.eye(3))
        return Connection(name, "ball", "", body, own, own, at, tuple(freedoms))
    found = _several(model, [j for j, _, _ in joints], types)
    if found is None:
        kinds = ", ".join(types)
        raise ProblemError(
            f"{at}: body {body!r} has joints {name} ({kinds}), which together are no universal, cylindrical or planar "
            "joint; give each a body with a mass of its own, or make three hinges a ball"
        )
    kind, inner, outer, order = found
    return Connection(name, kind, "", body, inner, outer, at, tuple(freedoms[i] for i in order))


def _several(
    model: Any, joints: list[int], types: list[Kind]
) -> tuple[Kind, Placement, Placement, tuple[int, ...]] | None:
    """Kind, both frames on the body, and which joint each coordinate is."""
    axes = [model.jnt_axis[j] for j in joints]
    first = [float(model.qpos0[model.jnt_qposadr[j]]) for j in joints]
    at = [model.jnt_pos[j] for j in joints]
    right = np.abs(np.array(axes) @ np.array(axes).T) < EQUAL
    if types == ["hinge", "hinge"] and right[0, 1] and np.linalg.norm(at[0] - at[1]) < EQUAL:
        inner = Placement(at[0].copy(), np.column_stack([axes[0], axes[1], np.cross(axes[0], axes[1])]))
        turn = Rotation.from_rotvec([0, first[1], 0]).as_matrix()
        return "universal", inner.turned(-first[0]), Placement(inner.at, inner.axes @ turn), (0, 1)
    if sorted(types) == ["hinge", "slide"] and np.linalg.norm(axes[0] - axes[1]) < EQUAL:
        order = (types.index("slide"), types.index("hinge"))
        inner = Placement.along(axes[order[1]], at[order[1]].copy())
        return "cylindrical", inner, inner.moved(first[order[0]]).turned(first[order[1]]), order
    if types == ["slide", "slide", "hinge"] and right[0, 1] and right[0, 2] and right[1, 2]:
        order3 = (0, 1, 2) if np.dot(np.cross(axes[0], axes[1]), axes[2]) > 0 else (1, 0, 2)
        x, y = axes[2], axes[order3[0]]
        inner = Placement(at[2].copy(), np.column_stack([x, y, np.cross(x, y)]))
        # Its angle turns about the origin of its outer frame, which the positions must not move.
        before = Placement(inner.at - first[0] * axes[0] - first[1] * axes[1], inner.axes)
        return "planar", before, inner.turned(first[2]), order3
    return None


def _freedom(model: Any, j: int, name: str, place: str) -> Freedom:
    dof = int(model.jnt_dofadr[j])
    lower, upper = map(float, model.jnt_range[j]) if model.jnt_limited[j] else (-np.inf, np.inf)
    effort = float(np.max(np.abs(model.jnt_actfrcrange[j]))) if model.jnt_actfrclimited[j] else np.inf
    ball = _KINDS[model.jnt_type[j]] == "ball"
    stiffness = float(model.jnt_stiffness[j])
    rest = 0.0 if ball or stiffness == 0 else float(model.qpos_spring[model.jnt_qposadr[j]])
    return Freedom(
        name,
        place,
        viscous=float(model.dof_damping[dof]),
        coulomb=float(model.dof_frictionloss[dof]),
        armature=float(model.dof_armature[dof]),
        stiffness=stiffness,
        rest=rest,
        limits=Limits() if ball else Limits(lower, upper, effort),
    )


_MAKING = ("include", "attach", "replicate", "composite", "flexcomp")
"""Elements that expand to others."""
_LEFT_OUT = ("sensors", "actuators", "pairs", "excludes", "tendons", "keys", "tuples", "texts", "numerics", "skins")
_SHAPED = ("meshes", "hfields", "materials", "textures")
_OF_INTEREST = {"tendons": "tendon", "flexes": "flexible part", "pairs": "contact pair"}
"""What is said of what has no place in a model."""


def described(document: Document, trust: bool = False) -> tuple[Description, Source]:
    """Description of an MJCF file, with positions of its elements; untrusted files may read only their own folder."""
    try:
        import mujoco
    except ImportError:
        raise ProblemError(f"{document.path} is an MJCF; install the package mujoco to read it") from None
    files = Files(document, trust)
    try:
        spec, notices, motors, servos = specification(document, mujoco)
        files.check([one.file for one in (*spec.meshes, *spec.hfields)])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = spec.compile()
        notices += [f"MuJoCo says: {' '.join(str(warning.message).split())}." for warning in told]
    except ProblemError:
        raise
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        reason = " ".join(str(error).split())
        raise ProblemError(f"{document.path}: MuJoCo refuses it ({reason}); correct it") from None
    reader, angle = _Reader(document, model, mujoco), 180 / np.pi if spec.compiler.degree else 1.0
    described = replace(reader.description(notices), actuators=motors, servos=servos)
    return described, reader.source(angle, _obstacle(spec, mujoco))


def specification(
    document: Document, mujoco: Any
) -> tuple[Any, list[str], tuple[Actuator, ...], tuple[FileServo, ...]]:
    """MuJoCo specification of a file, without parts that do not affect masses, with notes, motors and servos."""
    if document.file.is_file() and document.file.read_bytes() == document.content:
        spec = mujoco.MjSpec.from_file(str(document.path))
    else:  # as it would be
        names = [e.text("file") for e in document.root.inside() if e.tag == "include"]
        included = {name: read_bytes(document.path.parent / name) for name in names}
        spec = mujoco.MjSpec.from_string(document.content.decode(), include=included)
        spec.modelfiledir = f"{document.path.parent}{os.sep}"
    drives = motors_of(spec, mujoco, str(document.path)), servos_of(spec, mujoco)
    return spec, _reduced(spec, mujoco, sum(map(len, drives))), *drives


def _reduced(spec: Any, mujoco: Any, drives: int) -> list[str]:
    """Take out of a specification what no body has its mass from; what is said of it, with so many drives known."""
    found = {words: len(getattr(spec, kind)) for kind, words in _OF_INTEREST.items()}
    kept = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT)
    others = [equality for equality in spec.equalities if equality.type not in kept]
    found["other constraint"] = len(others)
    found["actuator that is no motor and no servo of one joint"] = len(spec.actuators) - drives
    for element in [*others, *(one for kind in _LEFT_OUT for one in getattr(spec, kind))]:
        spec.delete(element)
    always = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    for body in spec.bodies:
        if body.name == "world" or (body.explicitinertial and not always):
            for geom in list(body.geoms):
                spec.delete(geom)
    used = {geom.meshname for geom in spec.geoms} | {geom.hfieldname for geom in spec.geoms}
    for geom in spec.geoms:
        geom.material = ""
    for element in [one for kind in _SHAPED for one in getattr(spec, kind)]:
        if element.name not in used or not element.name:
            spec.delete(element)
    spec.compiler.fusestatic = False
    told = [counted(count, words) for words, count in found.items() if count]
    return [f"Not in the model: {', '.join(told)}."] if told else []


def _obstacle(spec: Any, mujoco: Any) -> str:
    """What would change masses that are written."""
    compiler = spec.compiler
    if compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE:
        return 'its compiler has inertiafromgeom="true", which overrides every <inertial>; make it "auto"'
    for name in ("settotalmass", "balanceinertia", "boundmass", "boundinertia"):
        if getattr(compiler, name) > 0:
            return f"the compiler option {name} changes masses; remove the option"
    return ""


class _Reader:
    """A compiled model as a description."""

    def __init__(self, document: Document, model: Any, mujoco: Any) -> None:
        self._document, self._model, self._mujoco = document, model, mujoco
        self._path = str(document.path)
        given = [str(model.body(i).name) for i in range(1, model.nbody)]
        self._elements = [None, *elements(document, given)]
        """Of all bodies; None of those that the file itself does not have."""
        self._names = ["world", *(name or f"body_{i}" for i, name in enumerate(given, 1))]
        self._joint_names = joint_names(model, self._names)

    def description(self, notices: Iterable[str]) -> Description:
        """All of it."""
        model = self._model
        links = {name: self._link(i) for i, name in enumerate(self._names)}
        connections = [self._connection(i) for i in range(1, model.nbody)]
        ties, loops, held = self._equalities()
        connections = [one.locked(held[one.name]) if one.name in held else one for one in connections]
        lost = [
            (np.any(model.dof_dampingpoly), "nonlinear damping"),
            (np.any(model.jnt_stiffnesspoly), "nonlinear springs"),
            (np.any(model.body_gravcomp), "compensation of gravity"),
            (model.opt.density > 0 or model.opt.viscosity > 0, "the fluid around it"),
        ]
        words = [what for is_there, what in lost if is_there]
        told = [*notices, *([f"Not in the model: {', '.join(words)}."] if words else [])]
        off = model.opt.disableflags & self._mujoco.mjtDisableBit.mjDSBL_GRAVITY
        gravity = (0.0, 0.0, 0.0) if off else tuple(map(float, model.opt.gravity))
        name = self._document.root.attributes.get("model") or self._document.path.stem
        return Description(name, "world", links, connections, ties, loops, gravity, tuple(told))  # type: ignore[arg-type]

    def source(self, angle: float, obstacle: str) -> Source:
        """Return the positions of bodies and joints in the file."""
        model, links, joints = self._model, dict[str, Element](), dict[str, Element]()
        for i in range(1, model.nbody):
            element = self._elements[i]
            if element is not None:
                links[self._names[i]] = element
            joints |= {self._joint_names[j]: one for j, one in self._joints(i).items() if one is not None}
        return Source(self._document, "MJCF", links, joints, angle, obstacle)

    def _place(self, body: int) -> str:
        element = self._elements[body]
        return self._path if element is None else element.place

    def _joints(self, body: int) -> dict[int, Element | None]:
        """Numbers of a body's joints, and their elements; None if the file does not have as many."""
        own = range(self._model.body_jntadr[body], self._model.body_jntadr[body] + self._model.body_jntnum[body])
        element = self._elements[body]
        written = [one for one in _own(element) if one.tag in ("joint", "freejoint")] if element else []
        return dict(zip(own, written, strict=True)) if len(written) == len(own) else dict.fromkeys(own)

    def _link(self, body: int) -> Link:
        model = self._model
        if body == 0 or not (model.body_mass[body] > 0 or np.any(model.body_inertia[body])):
            return Link(self._names[body], self._place(body))
        own = Placement.of(model.body_ipos[body], model.body_iquat[body])
        inertial = Inertial(float(model.body_mass[body]), np.zeros(3), np.diag(model.body_inertia[body]))
        return Link(self._names[body], self._place(body), inertial.seen_from(own))

    def _connection(self, body: int) -> Connection:
        model = self._model
        name, parent = self._names[body], self._names[model.body_parentid[body]]
        there = Placement.of(model.body_pos[body], model.body_quat[body])
        place = self._place(body)
        joints = [(j, self._joint_names[j], one.place if one else place) for j, one in self._joints(body).items()]
        found = joined(model, joints, name, place)
        return replace(found, parent=parent, child=name, inner=there @ found.inner)

    # --- equalities ---

    def _equalities(self) -> tuple[list[Tie], list[Loop], dict[str, float]]:
        """Joints that follow others, what closes loops, and joints that are held."""
        kinds, ties, loops, held = self._mujoco.mjtEq, list[Tie](), list[Loop](), dict[str, float]()
        for i in range(self._model.neq):
            if not self._model.eq_active0[i]:
                continue
            if self._model.eq_type[i] != kinds.mjEQ_JOINT:
                loops.append(self._loop(i, self._model.eq_type[i] == kinds.mjEQ_WELD))
                continue
            follower, leader, ratio, offset = self._line(i)
            if leader is None:
                held[follower] = offset
            else:
                name = self._model.equality(i).name or f"{follower} follows {leader}"
                ties.append(Tie(name, leader, follower, ratio, offset, self._path))
        return ties, loops, held

    def _line(self, i: int) -> tuple[str, str | None, float, float]:
        """Follower, leader, slope and offset of an equality of joints."""
        model, data = self._model, self._model.eq_data[i]
        one, other = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        follower = self._joint_names[one]
        at = float(model.qpos0[model.jnt_qposadr[one]] + data[0])
        if other < 0:
            return follower, None, 0.0, at
        if np.any(data[2:5]) or data[1] == 0:
            raise ProblemError(
                f"{self._path}: joint {follower!r} follows {self._joint_names[other]!r} by polycoef "
                f"{data[:5].tolist()}, which is not linear; only the first two numbers may be "
                "nonzero, and the second must be"
            )
        ratio = float(data[1])
        return follower, self._joint_names[other], ratio, at - ratio * float(model.qpos0[model.jnt_qposadr[other]])

    def _loop(self, i: int, weld: bool) -> Loop:
        model, data = self._model, self._model.eq_data[i]
        ids = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        if model.eq_objtype[i] == self._mujoco.mjtObj.mjOBJ_SITE:
            frames = [Placement.of(model.site_pos[s], model.site_quat[s]) for s in ids]
            ids = int(model.site_bodyid[ids[0]]), int(model.site_bodyid[ids[1]])
        elif weld:
            frames = [Placement.of(data[3:6], data[6:10]), Placement(data[:3].copy(), np.eye(3))]
        else:
            frames = [Placement(at.copy(), np.eye(3)) for at in (data[:3], data[3:6])]
        links = self._names[ids[0]], self._names[ids[1]]
        name = model.equality(i).name or f"{links[0]} to {links[1]}"
        return Loop(name, "fixed" if weld else "ball", links, (frames[0], frames[1]), self._path)


def elements(document: Document, names: Sequence[str]) -> list[Element | None]:
    """XML elements of a model's bodies; None for bodies that are in included files."""
    bodies = [body for world in document.root.all("worldbody") for body in _bodies(world)]
    own = [body.attributes.get("name", "") for body in bodies]
    if own == list(names) and not any(element.tag in _MAKING for element in document.root.inside()):
        return [*bodies]
    known = {name: body for name, body in zip(own, bodies, strict=True) if name and own.count(name) == 1}
    return [known.get(name) for name in names]


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
