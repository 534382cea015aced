"""Links that do not move against each other as one body: fixed joints, joints that are held, links without mass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spookid.errors import ProblemError, shown
from spookid.robots.description import Connection, Description, Inertial, Placement


@dataclass(frozen=True, eq=False)
class Group:
    """Links that are one body, named after the one that carries the others; in its frame its frames are given."""

    name: str
    place: str
    members: dict[str, Placement] = field(default_factory=dict)
    """Where each link is, by name; the first is that which it is named after."""
    ground: bool = False
    held: set[str] = field(default_factory=set)
    """Links that could move against the first, were no joint held."""

    def inertial(self, description: Description) -> Inertial:
        """Of all its links, in its frame."""
        total = Inertial.none()
        for name, own in self.members.items():
            inertial = description.links[name].inertial
            if inertial is not None:
                total = total + inertial.seen_from(own)
        return total


@dataclass(frozen=True, eq=False)
class Grouped:
    """The bodies of a description and the connections between them."""

    groups: Mapping[str, Group]
    """By the name of each of their links, in the order of the file."""
    connections: tuple[Connection, ...]
    """Those that are joints, in the order of the file."""

    @property
    def bodies(self) -> list[Group]:
        """Each once, but for the ground."""
        return [group for name, group in self.groups.items() if name == group.name and not group.ground]

    def frame(self, link: str, own: Placement) -> tuple[Group, Placement]:
        """The body of a frame that is given on a link, and where it is there."""
        group = self.groups[link]
        return group, group.members[link] @ own


def grouped(description: Description, held: Mapping[str, float], free: bool, merge: bool) -> Grouped:
    """The bodies of a description.

    Args:
        held: joints that do not move, and where.
        free: True if the root is no ground.
        merge: True if what fixed joints hold is one body; False if only links without mass are.

    Raises:
        ProblemError: for held joints that are none, or a body that moves and has no mass.
    """
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
        _check_mass(group, description, moving)
    return found


def idle(description: Description) -> list[str]:
    """Hinges and sliders that move no link with an inertial, and nothing that closes a loop or leads another joint:
    what they do changes nothing."""
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
            raise ProblemError(f"robot {description.name!r} has no hinge or slider {name!r} to hold; it has {known}")
        if isinstance(position, bool) or not isinstance(position, (int, float)):
            raise ProblemError(f"robot {description.name!r}: {name!r} is held at {shown(position)}; give a number")


def _check_mass(group: Group, description: Description, moving: list[Connection]) -> None:
    if group.inertial(description).mass > 0:
        return
    joint = next((connection for connection in moving if connection.child == group.name), None)
    moved = "moves freely" if joint is None else f"moves on joint {joint.name!r}"
    remedy = "give it an <inertial>" if joint is None else f"give it an <inertial>, or hold {joint.name!r} with held="
    raise ProblemError(f"{group.place}: link {group.name!r} {moved} and has no mass; {remedy}")
