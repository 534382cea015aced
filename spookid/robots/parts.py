"""A robot from its file: bodies and joints by name, of which models are made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from spookid.errors import ProblemError, declared_at, shown
from spookid.mechanics.body import GROUND, Body, Frame, RobotFile
from spookid.mechanics.coefficients import Coordinate
from spookid.mechanics.constraints import Constraint, Gear
from spookid.mechanics.inertia import FullInertia
from spookid.mechanics.joint_kinds import Cylindrical, Fixed, Planar, Prismatic, Spherical, Universal
from spookid.mechanics.joints import Hinge, Joint
from spookid.mechanics.model import Coordinates, Model
from spookid.mechanics.motor import Motor
from spookid.mechanics.point_loads import PointLoad
from spookid.robots.description import (
    Connection,
    Description,
    Freedom,
    Group,
    Grouped,
    Limits,
    Placement,
    Source,
    grouped,
    idle,
)

_KINDS: dict[str, type[Joint]] = {
    "fixed": Fixed,
    "hinge": Hinge,
    "slide": Prismatic,
    "cylindrical": Cylindrical,
    "universal": Universal,
    "planar": Planar,
    "ball": Spherical,
}


@dataclass(frozen=True, eq=False)
class Parts:
    """Bodies and joints of a robot's file; the subclass ``Robot`` also writes the file."""

    description: Description = field(repr=False)
    """What the file says."""
    source: Source = field(repr=False)
    """The file."""
    free: bool = False
    """True if its root moves freely, False if that is the ground."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Joints that do not move, and where they are [rad or m]."""
    merge: bool = True
    """True if links that fixed joints hold are one body; False if these are joints, too."""
    mend: bool = False
    """True if an inertia that no body has counts as the nearest that some body has."""
    inertias: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those that take the place of the file's, by body."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Arguments of joints that take the place of the file's, by joint."""
    trust: bool = False
    """True if macros of xacro may read files of other folders, and the environment."""
    place: str = field(default_factory=declared_at, repr=False)

    def __post_init__(self) -> None:
        for name in ("held", "inertias", "settings"):
            if not isinstance(getattr(self, name), Mapping):
                raise ProblemError(f"{self._what}: {name} is {shown(getattr(self, name))}; give a dict by name")
        self._check_names("body", "bodies", self.inertias, self.bodies, self.place)
        self._check_names("joint", "joints", self.settings, self.joints, self.place)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self.bodies)} bodies, {len(self.joints)} joints>"

    @property
    def name(self) -> str:
        """As the file has it."""
        return self.description.name

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about parts of the URDF or MJCF file that the model cannot represent."""
        resting = ", ".join(name for name in idle(self.description) if name not in self.held)
        told = [f"All links that joints {resting} move are massless: these joints are fixed at 0."] if resting else []
        return (*self.description.notices, *told, *self.servo_notices)

    @property
    def servo_notices(self) -> tuple[str, ...]:
        """Names of actuators in the file that are servos and therefore not in ``motors``."""
        names = ", ".join(one.name for one in self.description.servos)
        return (
            (f"{names} follow position or velocity commands and are not read as motors; declare each as a Servo.",)
            if names
            else ()
        )

    def with_(
        self,
        *,
        inertias: Mapping[str, Any] | None = None,
        joints: Mapping[str, Mapping[str, Any]] | None = None,
        held: Mapping[str, float] | None = None,
    ) -> Self:
        """Return a copy of the robot with some parts replaced.

        Args:
            inertias: of bodies by name: ``LogCholesky`` and the like, in the frame of the link.
            joints: arguments of joints by name, as ``{"elbow": {"viscous": b, "coulomb": c}}``.
            held: joints that do not move, and where they are [rad or m].

        Raises:
            ProblemError: for a name that the robot does not have.
        """
        settings = {**self.settings}
        for name, own in (joints or {}).items():
            if not isinstance(own, Mapping):
                raise ProblemError(f"{declared_at()}: joint {name!r} is given {shown(own)}; give a dict of arguments")
            settings[name] = {**settings.get(name, {}), **own}
        return replace(
            self,
            inertias={**self.inertias, **(inertias or {})},
            settings=settings,
            held={**self.held, **(held or {})},
            place=declared_at(),
        )

    @cached_property
    def bodies(self) -> Mapping[str, Body]:
        """Dict from name to body, in the order of the URDF or MJCF file, without bodies that are part of the ground."""
        return MappingProxyType({group.name: self._body(group) for group in self.grouped.bodies})

    @cached_property
    def joints(self) -> Mapping[str, Joint]:
        """Joints by name: joints of the tree in the order of the file, then joints that close loops."""
        joints = [self._joint(one) for one in self.grouped.connections if one.kind != "free"]
        for loop in self.description.loops:
            frames = [self._frame(link, own) for link, own in zip(loop.links, loop.frames, strict=True)]
            own = {"place": loop.place, **self.settings.get(loop.name, {})}
            joints.append(_KINDS[loop.kind](loop.name, frames[0], frames[1], **own))
        return MappingProxyType({joint.name: joint for joint in joints})

    @cached_property
    def constraints(self) -> Sequence[Constraint]:
        """Joints that follow others."""
        found = []
        for tie in self.description.ties:
            if tie.leader in self.joints and tie.follower in self.joints:
                pair = self.joints[tie.leader], self.joints[tie.follower]
                found.append(Gear(tie.name, *pair, ratio=tie.ratio, offset=tie.offset, place=tie.place))
        return tuple(found)

    @cached_property
    def freedoms(self) -> Mapping[str, Freedom]:
        """Dict from label in results to properties of the coordinate in the URDF or MJCF file."""
        return MappingProxyType(
            {
                label: connection.freedoms[min(i, len(connection.freedoms) - 1)]
                for connection in self.grouped.connections
                if connection.freedoms
                for i, label in enumerate(self.joints[connection.name].labels)
            }
        )

    @cached_property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """Dict from label in results to joint coordinate."""
        pairs = [zip(joint.labels, joint.coordinates, strict=True) for joint in self.joints.values()]
        return MappingProxyType({label: coordinate for own in pairs for label, coordinate in own})

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Dict from label to limits in the robot's file; the model has limits only if joints are given ``limits``."""
        return {label: freedom.limits for label, freedom in self.freedoms.items()}

    def motors(self, *, measured: bool = False) -> list[Motor]:
        """Motors of an MJCF on moving joints: signals are named after actuators, and gains are gear times gain. Other
        actuators, such as position servos, are not included; ``notices`` list them.

        Args:
            measured: as of ``Motor``.
        """
        return [
            Motor(self.joints[one.joint], one.name, one.gain, measured=measured, place=one.place)
            for one in self.description.actuators
            if one.joint in self.joints
        ]

    def frame(self, link: str, *, at: Any = (0, 0, 0), x: Any = (1, 0, 0), y: Any = (0, 1, 0)) -> Frame:
        """Return a link's frame in the URDF or MJCF file, as a frame on the body that contains the link.

        Args:
            at, x, y: as of ``Body.frame``, in the frame of the link; numbers.

        Raises:
            ProblemError: for a name that is no link.
        """
        self._check_names("link", "links", [link], self.grouped.groups, declared_at())
        along = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        return self._frame(link, Placement(np.asarray(at, dtype=float), np.column_stack([*along, np.cross(*along)])))

    def model(
        self,
        coordinates: Coordinates | None = None,
        *,
        motors: Sequence[Motor] = (),
        joints: Sequence[Joint] = (),
        bodies: Sequence[Body] = (),
        constraints: Sequence[Constraint] = (),
        loads: Sequence[PointLoad] = (),
        gravity: Any = None,
    ) -> Model:
        """Return the robot as a ``Model``, with additional parts that its file cannot contain.

        Args:
            coordinates: as of a ``Model``.
            motors: what drives it. What they have of inertia comes on top of the file's armatures.
            joints: further ones, such as those that close loops.
            bodies, constraints, loads: further ones.
            gravity: (3,) [m/s²]; None: the file's, or 9.81 m/s² against z.
        """
        if not (self.bodies or bodies):
            raise ProblemError(f"{self._what} has no part that moves; read it with free=True if its root does")
        document = self.source.document
        digest = hashlib.sha256(document.content).hexdigest()
        return Model(
            [*self.bodies.values(), *bodies],
            [*self.joints.values(), *joints],
            motors,
            constraints=[*self.constraints, *constraints],
            loads=loads,
            gravity=self.description.gravity if gravity is None else gravity,
            frames={link: self.frame(link) for link, group in self.grouped.groups.items() if not group.ground},
            coordinates=coordinates,
            robot=RobotFile(
                str(document.file.resolve()), digest, self.free, dict(self.held), self.merge, self.mend, self.trust
            ),
            place=declared_at(),
        )

    # --- how it is made ---

    @cached_property
    def grouped(self) -> Grouped:
        """Which links are one body."""
        return grouped(self.description, self.still, self.free, self.merge)

    @cached_property
    def still(self) -> Mapping[str, float]:
        """Joints that do not move: fixed joints, and joints coupled to fixed ones."""
        found, ties = dict(self.held), list(self.description.ties)
        while True:
            pairs = [(tie, tie.leader in found, tie.follower in found) for tie in ties]
            half = next((tie for tie, leads, follows in pairs if leads != follows), None)
            if half is None:
                return MappingProxyType(found)
            if half.leader in found:
                found[half.follower] = half.ratio * found[half.leader] + half.offset
            else:
                found[half.leader] = (found[half.follower] - half.offset) / half.ratio

    @property
    def _what(self) -> str:
        return f"robot {self.name!r}"

    def _check_names(self, what: str, several: str, given: Iterable[str], known: Iterable[str], place: str) -> None:
        for name in given:
            if name not in known:
                listing = f"its {several} are {', '.join(known)}"
                raise ProblemError(f"{place}: {self._what} has no {what} {shown(name)}; {listing}")

    def _body(self, group: Group) -> Body:
        free = (self.free and group.name == self.description.root) or any(
            one.kind == "free" and one.child == group.name for one in self.grouped.connections
        )
        given = self.inertias.get(group.name)
        return Body(group.name, inertia=given or self._inertia(group), free=free, place=group.place)

    def _inertia(self, group: Group) -> FullInertia:
        own = group.inertial(self.description)
        if self.mend:
            return FullInertia.possible(own.mass, own.center, inertia=own.inertia)
        try:
            return FullInertia(own.mass, own.center, inertia=own.inertia, place=group.place)
        except ProblemError as error:
            reason = str(error).partition(": FullInertia")[2].lstrip(": ").partition("; ")[0]
            raise ProblemError(
                f"{group.place}: link {group.name!r}: {reason or error}; correct it, or take the nearest "
                "physical inertia with mend=True (option --mend of commands)"
            ) from None

    def _frame(self, link: str, own: Placement) -> Frame:
        group, there = self.grouped.frame(link, own)
        body = GROUND if group.ground else self.bodies[group.name]
        return body.frame(at=there.at, x=there.axes[:, 0], y=there.axes[:, 1])

    def _joint(self, one: Connection) -> Joint:
        frames = self._frame(one.parent, one.inner), self._frame(one.child, one.outer)
        own: dict[str, Any] = {"place": one.place}
        for what in ("viscous", "coulomb", "stiffness", "rest", "armature"):
            values = [getattr(freedom, what) for freedom in one.freedoms]
            if any(values):  # one number of each coordinate, or one for all
                own[what] = values[0] if len(values) == 1 else tuple(values)
        own |= self.settings.get(one.name, {})
        try:
            return _KINDS[one.kind](one.name, *frames, **own)
        except TypeError as error:
            raise ProblemError(f"{self.place}: joint {one.name!r} of {self._what}: {error}; correct its name") from None
