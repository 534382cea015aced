"""A mechanism drawn as lines from centres of mass to joints, on the plane of its motion or from the side and above."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.report.pictures import COLOURS, GREY, WIDTH
from spookid.results.result import Solution
from spookid.results.trajectory import Trajectory
from spookid.results.values import ConstraintOutline, JointOutline, Mechanism, Vector

_AZIMUTH, _ELEVATION = np.radians(35.0), np.radians(20.0)
_FLAT = 0.01
"""Share of the largest extent of a motion below which it has none in a direction; compliant joints give a little."""
_ALIGNED = 1 - 1e-6
"""Cosine from which on a direction is that of an axis of the world."""


@dataclass(frozen=True, eq=False)
class View:
    """Directions of the world that are to the right and up on paper."""

    rows: Array
    """(2, 3)."""
    labels: tuple[str, str] = ("", "")
    """Of the axes on paper; empty where lengths look shorter than they are."""

    @property
    def is_flat(self) -> bool:
        """True if lengths on paper are lengths of the motion."""
        return any(self.labels)

    def seen(self, points: Array) -> Array:
        """Points of the world on paper [m], (n, 3) to (2, n)."""
        return np.asarray(self.rows @ points.T)


def upright(gravity: Array) -> Rotation:
    """Turns the world so that gravity points down on paper."""
    if not (np.isfinite(gravity).all() and np.any(gravity)):
        return Rotation.identity()
    return Rotation.align_vectors([[0.0, 0.0, -1.0]], [gravity / np.linalg.norm(gravity)])[0]


def oblique(parts: Mechanism) -> View:
    """From the side and a little from above."""
    right = [-np.sin(_AZIMUTH), np.cos(_AZIMUTH), 0.0]
    up = [-np.sin(_ELEVATION) * np.cos(_AZIMUTH), -np.sin(_ELEVATION) * np.sin(_AZIMUTH), np.cos(_ELEVATION)]
    return View(np.array([right, up]) @ upright(np.array(parts.gravity)).as_matrix())


def view_of(parts: Mechanism, q: Array) -> View:
    """On the plane of a motion q (N, n_b, 7) if it has one, else oblique."""
    gravity = np.array(parts.gravity)
    normal = _normal(q, gravity)
    if normal is None:
        return oblique(parts)
    size = np.linalg.norm(gravity)
    down = gravity - normal * (normal @ gravity)
    if np.isfinite(size) and np.linalg.norm(down) > 0.1 * size > 0:
        up = -down / np.linalg.norm(down)
    else:  # seen from above
        world = np.eye(3)[int(np.argmax(np.abs(normal)[[2, 0, 1]]))]
        up = np.cross(normal, np.cross(world, normal))
        up /= np.linalg.norm(up)
    right = np.cross(up, normal)
    right *= np.sign(right[np.argmax(np.abs(right))])
    return View(np.array([right, up]), (_named(right, "along the plane of motion [m]"), _named(up, "up [m]")))


def _normal(q: Array, gravity: Array) -> Array | None:
    """Unit vector across the plane in which all points of the bodies move, (3,); None if there is none."""
    centres, turned = q[:, :, :3], Rotation.from_quat(np.roll(q[:, :, 3:].reshape(-1, 4), -1, axis=1))
    ends = turned.as_matrix().reshape(*q.shape[:2], 3, 3)  # axes of the bodies in columns, a metre long
    way = np.concatenate([(a - a[0]).reshape(-1, 3) for a in (centres, *np.moveaxis(ends, 3, 0))])
    _, sizes, directions = np.linalg.svd(way, full_matrices=False)
    if not sizes[0] > 0 or sizes[2] > _FLAT * sizes[0]:
        return None
    if sizes[1] > _FLAT * sizes[0]:
        return np.asarray(directions[2])
    # All moves along a line: the plane holds gravity, too, if that is across it.
    across = np.cross(directions[0], gravity)
    level = np.linalg.norm(across) <= 0.1 * np.linalg.norm(gravity) or not np.isfinite(across).all()
    across = np.cross(directions[0], np.eye(3)[int(np.argmin(np.abs(directions[0])))]) if level else across
    return np.asarray(across / np.linalg.norm(across))


def _named(direction: Array, otherwise: str) -> str:
    """Label of an axis on paper."""
    for axis, name in enumerate("xyz"):
        if abs(direction[axis]) > _ALIGNED:
            return f"{name if direction[axis] > 0 else '−' + name} [m]"
    return otherwise


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
    panel.plot(*line, color="black", linewidth=0.8, zorder=3)
    foot = next((end for end, (body, _) in zip(line.T, _ends(joint), strict=True) if body == GROUND), None)
    symbol(panel, joint.kind, line[:, 1], foot)
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


_MARKERS = {
    **{"Hinge": "o", "Prismatic": "s", "Cylindrical": "h", "Screw": "X", "Universal": "P", "Spherical": "*"},
    **{"Planar": "d", "Fixed": "p", "PinInSlot": "H"},
}
"""Matplotlib's marker of each kind of joint; others are diamonds."""
SYMBOLS = (
    "dots are centres of mass, triangles joints on the ground; rings are hinges, squares sliders, hexagons cylinders, "
    "crosses universal joints, saltires screws, stars balls, narrow diamonds planar joints, pentagons fixed ones; thin "
    "lines are rods, broken ones gears. Shapes of bodies are not drawn."
)


def symbol(panel: Axes, kind: str, place: Array, foot: Array | None) -> None:
    """A joint of a kind at a place on paper, (2,), with a pale triangle where it is on the ground."""
    if foot is not None:
        panel.plot(*foot, "^", color="0.6", mfc="0.85", markersize=17, zorder=4.5)
    style: dict[str, Any] = {"color": "black", "mfc": "white", "markersize": 7, "zorder": 5}
    panel.plot(*place, marker=_MARKERS.get(kind, "D"), linestyle="none", **style)


def of_solution(solution: Solution) -> Figure:
    """The mechanism along the first recording."""
    if solution.mechanism is None:
        raise ProblemError("plot: the solution was saved without its mechanism; solve the problem again")
    return mechanism(solution.mechanism, solution.trajectories[0])


def mechanism(parts: Mechanism, trajectory: Trajectory) -> Figure:
    """Bodies as lines from their centres of mass to their hinges, seen from the side and a little from above."""
    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    panel, view = figure.subplots(), oblique(parts)
    states = np.flatnonzero(np.isfinite(trajectory.q).all(axis=(1, 2)))
    moments = states[np.unique(np.linspace(0, len(states) - 1, 13).astype(int))] if len(states) else []
    for k in reversed(moments):
        draw(panel, parts, trajectory.q[k], view, PALE if k != moments[0] else FULL)
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.margins(0.12)
    scale(panel)
    return figure
