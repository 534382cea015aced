"""What a robot's file says, whatever its format: links, what joins them, what ties their motion; all numbers, SI.

Links that do not move against each other as one body: fixed joints, joints that are held, links without mass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.robots.markup import Document, Element

Kind = Literal["fixed", "free", "hinge", "slide", "cylindrical", "universal", "planar", "ball"]


@dataclass(frozen=True, eq=False)
class Placement:
    """Pose of one frame relative to another."""

    at: Array
    """Its origin, (3,) [m]."""
    axes: Array
    """Columns x, y, z, (3, 3)."""

    @staticmethod
    def none() -> Placement:
        """The other frame itself."""
        return Placement(np.zeros(3), np.eye(3))

    @staticmethod
    def of(at: Array, quaternion: Array) -> Placement:
        """From a quaternion, scalar first."""
        return Placement(at.copy(), Rotation.from_quat(np.roll(quaternion, -1)).as_matrix())

    @staticmethod
    def along(axis: Array, at: Array | None = None) -> Placement:
        """Frame whose x axis has a given direction (3,), and whose perpendicular y axis is chosen reproducibly."""
        least = np.eye(3)[np.argmin(np.abs(axis))]
        y = np.cross(axis, least)
        y /= np.linalg.norm(y)
        return Placement(np.zeros(3) if at is None else at, np.column_stack([axis, y, np.cross(axis, y)]))

    def __matmul__(self, other: Placement) -> Placement:
        """A frame in the outer one, from where it is in this one."""
        return Placement(self.at + self.axes @ other.at, self.axes @ other.axes)

    @property
    def inverse(self) -> Placement:
        """Inverse pose: the second frame relative to the first."""
        return Placement(-self.axes.T @ self.at, self.axes.T)

    def turned(self, angle: float) -> Placement:
        """Pose rotated about its x axis [rad]."""
        return Placement(self.at, self.axes @ Rotation.from_rotvec([angle, 0, 0]).as_matrix())

    def moved(self, distance: float) -> Placement:
        """Pose moved along its x axis [m]."""
        return Placement(self.at + distance * self.axes[:, 0], self.axes)


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass [kg], centre of mass (3,) [m], and inertia about it (3, 3) [kg m²], in the axes of one frame."""

    mass: float
    center: Array
    inertia: Array

    @staticmethod
    def none() -> Inertial:
        """Nothing at all."""
        return Inertial(0.0, np.zeros(3), np.zeros((3, 3)))

    def seen_from(self, own: Placement) -> Inertial:
        """Convert to a frame in which the present frame has the pose ``own``."""
        return Inertial(self.mass, own.at + own.axes @ self.center, own.axes @ self.inertia @ own.axes.T)

    def __add__(self, other: Inertial) -> Inertial:
        """Both as one body."""
        mass = self.mass + other.mass
        if mass == 0:
            return Inertial(0.0, self.center, self.inertia + other.inertia)
        center = (self.mass * self.center + other.mass * other.center) / mass
        inertia = self.inertia + other.inertia
        for one in (self, other):
            c = one.center - center
            inertia = inertia + one.mass * (np.dot(c, c) * np.eye(3) - np.outer(c, c))
        return Inertial(mass, center, inertia)

    def __sub__(self, other: Inertial) -> Inertial:
        """What is left if a part is taken away; what no body has if that was no part."""
        return self + Inertial(-other.mass, other.center, -other.inertia)


@dataclass(frozen=True, eq=False)
class Link:
    """Rigid link of a robot with its own frame."""

    name: str
    place: str
    """``arm.urdf:12``."""
    inertial: Inertial | None = None
    """In its frame; None if the file has none."""


@dataclass(frozen=True)
class Limits:
    """Limits of a joint coordinate and its drive from the robot's file; infinite if the file has none."""

    lower: float = -np.inf
    """[rad or m]."""
    upper: float = np.inf
    effort: float = np.inf
    """[N m or N]."""
    velocity: float = np.inf
    """[rad/s or m/s]."""


@dataclass(frozen=True)
class Freedom:
    """One joint coordinate in the robot's file."""

    name: str
    """Of the file's joint."""
    place: str
    viscous: float = 0.0
    """[N m s or N s/m]."""
    coulomb: float = 0.0
    """Of constant bound [N m or N]."""
    armature: float = 0.0
    """What it feels of the motor's inertia [kg m² or kg]."""
    stiffness: float = 0.0
    """[N m/rad or N/m]."""
    rest: float = 0.0
    """Where its spring is at rest [rad or m]."""
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class Connection:
    """Joint that connects a link to its parent; x is the axis of its frames."""

    name: str
    kind: Kind
    parent: str
    child: str
    inner: Placement
    """Its frame on the parent link."""
    outer: Placement
    """Its frame on the child link; both agree where its coordinates are zero."""
    place: str
    freedoms: tuple[Freedom, ...] = ()
    """One a coordinate, in the order of the joint's; of a ball one for all three."""

    def locked(self, position: float) -> Connection:
        """Connection of a hinge or slider that is fixed at ``position`` of its coordinate."""
        moved = self.inner.turned(position) if self.kind == "hinge" else self.inner.moved(position)
        return replace(self, kind="fixed", inner=moved, freedoms=())


@dataclass(frozen=True)
class Tie:
    """Coupling of one coordinate to another: b = ratio a + offset (mimic joint)."""

    name: str
    leader: str
    """The joint a."""
    follower: str
    """The joint b."""
    ratio: float
    offset: float
    place: str


@dataclass(frozen=True)
class Actuator:
    """Motor in the robot's file: an effort along a coordinate, proportional to its control input."""

    name: str
    joint: str
    gain: float
    """[N m or N] per unit of the control."""
    place: str


@dataclass(frozen=True, eq=False)
class FileServo:
    """Servo in the robot's file with effort k_p (u − q) − k_d s along a coordinate, or k_p (u − s) for velocities."""

    name: str
    joint: str
    mode: Literal["position", "velocity"]
    kp: float
    """[N m/rad or N/m; of a velocity times s]."""
    kd: float
    """[N m s/rad or N s/m]."""
    limit: float
    """Largest effort [N m or N]; infinite without one."""
    delay: float
    """[s]."""
    lag: float = 0.0
    """Time constant of the first-order lag of commands [s]."""


@dataclass(frozen=True, eq=False)
class Loop:
    """Constraint that closes a kinematic loop: two frames share the origin, for ``"fixed"`` also the axes."""

    name: str
    kind: Literal["ball", "fixed"]
    links: tuple[str, str]
    frames: tuple[Placement, Placement]
    """Each in the frame of its link."""
    place: str


@dataclass(frozen=True, eq=False)
class Description:
    """Tree of links and loop constraints, read from a robot's file."""

    name: str
    root: str
    """The link that no other one carries."""
    links: Mapping[str, Link]
    connections: Sequence[Connection]
    ties: Sequence[Tie] = ()
    loops: Sequence[Loop] = ()
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    """[m/s²]."""
    notices: tuple[str, ...] = field(default=())
    """What of the file has no place in the model, a sentence each."""
    actuators: Sequence[Actuator] = ()
    servos: Sequence[FileServo] = ()

    @cached_property
    def ordered(self) -> list[Connection]:
        """Sort connections so that parents come first."""
        of_parent: dict[str, list[Connection]] = {}
        for connection in self.connections:
            of_parent.setdefault(connection.parent, []).append(connection)
        found, waiting = [], [self.root]
        while waiting:
            own = of_parent.get(waiting.pop(0), [])
            found += own
            waiting += [connection.child for connection in own]
        return found


Format = Literal["URDF", "MJCF"]


@dataclass(frozen=True, eq=False)
class Source:
    """XML source of a robot's file with the positions of its elements."""

    document: Document
    format: Format
    links: Mapping[str, Element] = field(default_factory=dict)
    """By name; not those of a file that it includes."""
    joints: Mapping[str, Element] = field(default_factory=dict)
    """By the name of a coordinate's joint."""
    angle: float = 1.0
    """Its unit of angles, so many a radian."""
    obstacle: str = ""
    """Why masses that are written into it would not be those of the model; empty if they are."""


@dataclass(frozen=True, eq=False)
class Group:
    """Links that form one body, named after the link that carries the others; frames are given in that link."""

    name: str
    place: str
    members: dict[str, Placement] = field(default_factory=dict)
    """Where each link is, by name; the first is that which it is named after."""
    ground: bool = False
    held: set[str] = field(default_factory=set)
    """Links that could move against the first, were no joint held."""

    def inertial(self, description: Description) -> Inertial:
        """Combined mass, centre of mass and inertia of all links in the group, in the group's frame."""
        total = Inertial.none()
        for name, own in self.members.items():
            inertial = description.links[name].inertial
            if inertial is not None:
                total = total + inertial.seen_from(own)
        return total


@dataclass(frozen=True, eq=False)
class Grouped:
    """Bodies of a robot's description, and the connections between them."""

    groups: Mapping[str, Group]
    """By the name of each of their links, in the order of the file."""
    connections: tuple[Connection, ...]
    """Those that are joints, in the order of the file."""

    @property
    def bodies(self) -> list[Group]:
        """Bodies of the robot, each once, without the ground."""
        return [group for name, group in self.groups.items() if name == group.name and not group.ground]

    def frame(self, link: str, own: Placement) -> tuple[Group, Placement]:
        """Body and pose on this body of a frame that is given on a link."""
        group = self.groups[link]
        return group, group.members[link] @ own


def grouped(description: Description, held: Mapping[str, float], free: bool, merge: bool) -> Grouped:
    """The bodies of a description."""
    _check_held(description, held)
    resting = idle(description)
    root = Group(description.root, description.links[description.root].place, ground=not free)
    root.members[description.root] = Placement.none()
    groups, moving = {description.root: root}, []
    for connection in description.ordered:
        if connection.name in held:
            connection = connection.locked(held[connection.name])
        elif connection.name in resting:
            connection = connection.locked(0.0)
        inner = groups[connection.parent]
        # A link in between that has none would be a body without mass.
        outer = description.links[connection.child].inertial
        apart = not (merge or inner.ground) and inner.inertial(description).mass > 0 and outer is not None
        if connection.kind == "fixed" and not apart:
            groups[connection.child] = inner
            own = connection.inner @ connection.outer.inverse
            inner.members[connection.child] = inner.members[connection.parent] @ own
            if connection.name in {*held, *resting} or connection.parent in inner.held:
                inner.held.add(connection.child)
            continue
        group = Group(connection.child, description.links[connection.child].place)
        group.members[connection.child] = Placement.none()
        groups[connection.child] = group
        moving.append(connection)
    # As the file has them: people and logs count joints so.
    order = {connection.name: i for i, connection in enumerate(description.connections)}
    moving.sort(key=lambda connection: order[connection.name])
    found = Grouped({name: groups[name] for name in description.links}, tuple(moving))
    for group in found.bodies:
        if not group.inertial(description).mass > 0:
            joint = next((connection.name for connection in moving if connection.child == group.name), None)
            moved = "moves freely" if joint is None else f"moves on joint {joint!r}"
            hold = "" if joint is None else f", or hold {joint!r} with held="
            raise ProblemError(
                f"{group.place}: link {group.name!r} {moved} and has no mass; give it an <inertial>{hold}"
            )
    return found


def idle(description: Description) -> list[str]:
    """Hinges and sliders that move no mass, and neither close a loop nor drive another joint."""
    used = {link for loop in description.loops for link in loop.links}
    used |= {name for name, link in description.links.items() if link.inertial is not None}
    found: list[str] = []
    for connection in reversed(description.ordered):
        leads = any(tie.leader == connection.name and tie.follower not in found for tie in description.ties)
        if connection.child in used or leads:
            used.add(connection.parent)
        elif connection.kind in ("hinge", "slide"):
            found.append(connection.name)
    return found[::-1]


def _check_held(description: Description, held: Mapping[str, float]) -> None:
    single = {c.name for c in description.connections if c.kind in ("hinge", "slide")}
    for name, position in held.items():
        if name not in single:
            known = ", ".join(sorted(single)) or "none"
            raise ProblemError(f"robot {description.name!r} has no hinge or slider {name!r} to fix, only {known}")
        if isinstance(position, bool) or not isinstance(position, (int, float)):
            raise ProblemError(
                f"robot {description.name!r}: joint {name!r} cannot be fixed at {shown(position)}; give a number"
            )
