"""A mechanism drawn as lines: from centres of mass to joints, with a symbol for each kind of joint."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.path import Path
from scipy.spatial.transform import Rotation

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report.pictures import COLOURS, GREY
from spookid.report.views import View
from spookid.results.values import ConstraintOutline, JointOutline, Mechanism, Vector

GROUND = "GROUND"

Poses = dict[str, tuple[Array, Rotation]]
"""Centre of mass and rotation of each body, by its name."""


@dataclass(frozen=True)
class Style:
    """How strongly it is drawn."""

    width: float
    """Of bodies [pt]."""
    alpha: float
    dots: float = 0.0
    """Size of centres of mass [pt]."""
    whole: bool = False
    """True with joints and constraints."""
    names: bool = False
    """True with names beside them."""
    colour: str = ""
    """Of all bodies; empty: each has its own."""


FULL = Style(3.0, 1.0, 8.0, whole=True, names=True)
PALE = Style(1.0, 0.15)


def poses_of(parts: Mechanism, q: Array) -> Poses:
    """Of all bodies in q (n_b, 7)."""
    return {
        body.name: (row[:3], Rotation.from_quat(np.roll(row[3:7], -1)))
        for body, row in zip(parts.bodies, q, strict=True)
    }


def place(poses: Poses, body: str, at: Vector) -> Array:
    """A point of a body in the world, (3,)."""
    if body == GROUND:
        return np.array(at)
    origin, rotation = poses[body]
    return np.asarray(origin + rotation.apply(at), dtype=np.float64)


def lines(parts: Mechanism, poses: Poses, arm: float = 0.0) -> list[tuple[int, Array]]:
    """Numbers of bodies and lines (2, 3) in the world from their centres of mass to their joints and constraints."""
    ends = [end for joint in parts.hinges for end in _ends(joint)]
    ends += [end for tie in parts.constraints for end in zip(tie.ties, tie.at, strict=False)]
    held = {name for name, _ in ends}
    alone = [body.name for body in parts.bodies if arm and body.name not in held]
    ends += [(name, (arm * x, arm * y, arm * z)) for name in alone for x, y, z in np.eye(3).tolist()]
    return [
        (i, np.stack([poses[body.name][0], place(poses, *end)]))
        for i, body in enumerate(parts.bodies)
        for end in ends
        if end[0] == body.name
    ]


def draw(panel: Axes, parts: Mechanism, q: Array, view: View, style: Style, arm: float = 0.0) -> None:
    """A mechanism at q (n_b, 7); ``arm`` as of `lines`."""
    poses = poses_of(parts, q)
    for i, line in lines(parts, poses, arm):
        colour = style.colour or _colour(i)
        panel.plot(*view.seen(line), color=colour, linewidth=style.width, alpha=style.alpha, solid_capstyle="round")
    for i, body in enumerate(parts.bodies if style.dots else ()):
        colour, centre = style.colour or _colour(i), view.seen(poses[body.name][0][None])[:, 0]
        order = 4 if style.whole else 1
        panel.plot(*centre, "o", color=colour, markersize=style.dots, alpha=style.alpha, mew=0, zorder=order)
        if style.names:
            _write(panel, body.name, centre, (7, 7), color=colour)
    if not style.whole:
        return
    for joint in parts.hinges:
        _joint(panel, joint, poses, view, style.names)
    for constraint in parts.constraints:
        _constraint(panel, constraint, parts, poses, view, style.names)


def _colour(body: int) -> str:
    return COLOURS[body % len(COLOURS)]


def _write(panel: Axes, text: str, at: Array, beside: tuple[float, float], **style: Any) -> None:
    panel.annotate(text, (at[0], at[1]), beside, textcoords="offset points", parse_math=False, **style)


def _ends(joint: JointOutline) -> list[tuple[str, Vector]]:
    return [(joint.parent, joint.parent_at), (joint.child, joint.child_at)]


def _joint(panel: Axes, joint: JointOutline, poses: Poses, view: View, named: bool) -> None:
    """At its end on the child, which a slider carries along, with a line to that on the parent; a triangle stands where
    it is on the ground."""
    line = view.seen(np.stack([place(poses, *end) for end in _ends(joint)]))
    axis = np.array(joint.axis) if joint.parent == GROUND else poses[joint.parent][1].apply(joint.axis)
    own = view.seen(np.asarray(axis)[None])[:, 0]
    panel.plot(*line, color="black", linewidth=0.8, zorder=3)
    foot = next((end for end, (body, _) in zip(line.T, _ends(joint), strict=True) if body == GROUND), None)
    symbol(panel, joint.kind, line[:, 1], own, foot)
    if named:
        _write(panel, joint.name, line[:, 1], (7, -13), fontsize=9)


def _constraint(
    panel: Axes, constraint: ConstraintOutline, parts: Mechanism, poses: Poses, view: View, named: bool
) -> None:
    """A rod as a line between its ends, a gear as a broken line between its joints; others are not drawn."""
    ends = [place(poses, body, at) for body, at in zip(constraint.ties, constraint.at, strict=False)]
    for tie in () if ends else constraint.ties:
        ends += [place(poses, *_ends(j)[1]) for j in parts.hinges if tie == j.name or tie.startswith(f"{j.name} ")][:1]
    if len(ends) == 2:
        line = view.seen(np.stack(ends))
        panel.plot(*line, color="black", linewidth=1.2, linestyle="-" if constraint.at else "--", zorder=3)
        panel.plot(*line, "o" if constraint.at else "", color="black", mfc="white", markersize=4, zorder=4)
        if named:
            _write(panel, constraint.name, line.mean(axis=1), (5, 5), fontsize=9)


def scale(panel: Axes) -> None:
    """A bar of a round length at the foot."""
    (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
    length = 10.0 ** np.floor(np.log10(max(right - left, high - low) / 2))
    panel.plot([left, left + length], [low, low], color=GREY, linewidth=2, clip_on=False)
    panel.annotate(f"{length:g} m", (left, low), (0, 5), textcoords="offset points", fontsize=8, color=GREY)


def tripod(panel: Axes, view: View) -> None:
    """The axes of the world in the lower left corner, each of a round length."""
    (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
    length = 10.0 ** np.floor(np.log10((high - low) / 4))
    length *= next(n for n in (2, 1) if 2 * n * length <= high - low)
    ends = length * view.rows
    corner = np.array([left, low]) - np.minimum(ends.min(axis=1), 0.0) + 0.04 * (right - left)
    for end, name in zip(ends.T, "xyz", strict=True):
        panel.plot(*zip(corner, corner + end, strict=True), color=GREY, linewidth=1.5)
        _write(panel, name, corner + end, (3, 2), fontsize=8, color=GREY)
    panel.annotate(f"{length:g} m each", (0.3, 0.0), xycoords="axes fraction", fontsize=8, color=GREY)


Line = list[tuple[float, float]]
"""Points along an axis and across it."""
_END_ON = 0.2
"""Length of a unit vector on paper below which it is seen from its end."""
_SLEEVE: Line = [(-2, -1), (2, -1), (2, 1), (-2, 1)]
_PLATE: Line = [(-0.4, -2.2), (0.4, -2.2), (0.4, 2.2), (-0.4, 2.2)]
_THREADS: list[Line] = [[(x - 0.4, -1), (x + 0.4, 1)] for x in (-1.3, -0.45, 0.45, 1.3)]


def symbol(panel: Axes, kind: str, place: Array, axis: Array, foot: Array | None) -> None:
    """A joint of a kind at a place on paper, (2,)."""
    along = axis / np.linalg.norm(axis) if np.linalg.norm(axis) > _END_ON else np.array([1.0, 0.0])
    if kind == "Hinge":
        _marker(panel, place, "o" if foot is None else "^", 6 if foot is None else 9)
        return
    if foot is not None:
        panel.plot(*foot, "^", color="0.6", mfc="0.85", markersize=19, zorder=4.5)
    if kind in ("Prismatic", "Cylindrical", "Screw"):
        _marker(panel, place, _shape([_SLEEVE], along), 16)
    if kind == "Screw":
        _marker(panel, place, _shape(_THREADS, along, closed=False), 16)
    elif kind == "Planar":
        _marker(panel, place, _shape([_PLATE], along), 18)
    if kind in ("Cylindrical", "Planar"):
        _marker(panel, place, "o", 5)
    elif kind in ("Universal", "Spherical"):
        _marker(panel, place, "o", 10)
        _marker(panel, place, "+" if kind == "Universal" else "o", 9 if kind == "Universal" else 4, "black")
    elif kind == "Fixed":
        _marker(panel, place, "s", 7, "black")
    elif kind not in ("Prismatic", "Screw"):
        _marker(panel, place, "D", 8)
        if kind == "PinInSlot":
            _marker(panel, place, "o", 4)


def _marker(panel: Axes, place: Array, marker: Any, size: float, fill: str = "white") -> None:
    panel.plot(*place, marker=marker, color="black", mfc=fill, markersize=size, zorder=5, linestyle="none")


def _shape(lines: list[Line], along: Array, closed: bool = True) -> Path:
    """A marker of lines whose points are given along the axis and across it."""
    across = np.array([-along[1], along[0]])
    vertices, codes = [], []
    for line in lines:
        points = [x * along + y * across for x, y in (*line, line[0])][: None if closed else len(line)]
        vertices += points
        codes += [Path.MOVETO, *[Path.LINETO] * (len(points) - 1)]
    return Path(np.array(vertices), codes)
