"""A mechanism drawn as lines from centres of mass to joints, from the side and a little from above."""

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
from spookid.results.values import ConstraintOutline, JointOutline, Mechanism, Vector


@dataclass(frozen=True, eq=False)
class View:
    """View of the world for drawing: the directions that point right and up on paper."""

    rows: Array
    """(2, 3)."""

    def seen(self, points: Array) -> Array:
        """Projection of points of the world on paper [m], (n, 3) to (2, n)."""
        return np.asarray(self.rows @ points.T)


def upright(gravity: Array) -> Rotation:
    """Rotate the world so that gravity points down on paper."""
    if not (np.isfinite(gravity).all() and np.any(gravity)):
        return Rotation.identity()
    return Rotation.align_vectors([[0.0, 0.0, -1.0]], [gravity / np.linalg.norm(gravity)])[0]


def oblique(parts: Mechanism) -> View:
    """View from the side and slightly from above."""
    azimuth, elevation = np.radians((35.0, 20.0))
    right = [-np.sin(azimuth), np.cos(azimuth), 0.0]
    up = [-np.sin(elevation) * np.cos(azimuth), -np.sin(elevation) * np.sin(azimuth), np.cos(elevation)]
    return View(np.array([right, up]) @ upright(np.array(parts.gravity)).as_matrix())


GROUND = "GROUND"

Poses = dict[str, tuple[Array, Rotation]]
"""Centre of mass and rotation of each body, by its name."""


def poses_of(parts: Mechanism, q: Array) -> Poses:
    """Poses of all bodies in q (n_b, 7)."""
    return {
        body.name: (row[:3], Rotation.from_quat(np.roll(row[3:7], -1)))
        for body, row in zip(parts.bodies, q, strict=True)
    }


def place(poses: Poses, body: str, at: Vector) -> Array:
    """Position of a body's point in the world, (3,)."""
    if body == GROUND:
        return np.array(at)
    origin, rotation = poses[body]
    return np.asarray(origin + rotation.apply(at), dtype=np.float64)


def lines(parts: Mechanism, poses: Poses, arm: float = 0.0) -> list[tuple[int, Array]]:
    """Lines (2, 3) in the world from the bodies' centres of mass to their joints and constraints, with body numbers."""
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


def draw(panel: Axes, parts: Mechanism, q: Array, view: View, whole: bool) -> None:
    """Draw a mechanism at q (n_b, 7): completely, or only its bodies, thin and pale."""
    poses = poses_of(parts, q)
    width, alpha = (3.0, 1.0) if whole else (1.0, 0.15)
    for i, line in lines(parts, poses):
        panel.plot(*view.seen(line), color=_colour(i), linewidth=width, alpha=alpha, solid_capstyle="round")
    if not whole:
        return
    for i, body in enumerate(parts.bodies):
        centre = view.seen(poses[body.name][0][None])[:, 0]
        panel.plot(*centre, "o", color=_colour(i), markersize=8.0, mew=0, zorder=4)
        _write(panel, body.name, centre, (7, 7), color=_colour(i))
    for joint in parts.hinges:
        _joint(panel, joint, poses, view)
    for constraint in parts.constraints:
        _constraint(panel, constraint, parts, poses, view)


def _colour(body: int) -> str:
    return COLOURS[body % len(COLOURS)]


def _write(panel: Axes, text: str, at: Array, beside: tuple[float, float], **style: Any) -> None:
    panel.annotate(text, (at[0], at[1]), beside, textcoords="offset points", parse_math=False, **style)


def _ends(joint: JointOutline) -> list[tuple[str, Vector]]:
    return [(joint.parent, joint.parent_at), (joint.child, joint.child_at)]


def _joint(panel: Axes, joint: JointOutline, poses: Poses, view: View) -> None:
    """At its end on the child, which a slider carries along, with a line to that on the parent; a triangle stands where
    it is on the ground."""
    line = view.seen(np.stack([place(poses, *end) for end in _ends(joint)]))
    panel.plot(*line, color="black", linewidth=0.8, zorder=3)
    foot = next((end for end, (body, _) in zip(line.T, _ends(joint), strict=True) if body == GROUND), None)
    symbol(panel, joint.kind, line[:, 1], foot)
    _write(panel, joint.name, line[:, 1], (7, -13), fontsize=9)


def ends_of(constraint: ConstraintOutline, parts: Mechanism, poses: Poses) -> list[Array]:
    """Positions of the ends of a rod, or of the joints that a gear connects, (3,) each; other constraints have none."""
    ends = [place(poses, body, at) for body, at in zip(constraint.ties, constraint.at, strict=False)]
    for tie in () if ends else constraint.ties:
        ends += [place(poses, *_ends(j)[1]) for j in parts.hinges if tie == j.name or tie.startswith(f"{j.name} ")][:1]
    return ends


def _constraint(panel: Axes, constraint: ConstraintOutline, parts: Mechanism, poses: Poses, view: View) -> None:
    """A rod as a line between its ends, a gear as a broken line between its joints; others are not drawn."""
    ends = ends_of(constraint, parts, poses)
    if len(ends) == 2:
        line = view.seen(np.stack(ends))
        panel.plot(*line, color="black", linewidth=1.2, linestyle="-" if constraint.at else "--", zorder=3)
        panel.plot(*line, "o" if constraint.at else "", color="black", mfc="white", markersize=4, zorder=4)
        _write(panel, constraint.name, line.mean(axis=1), (5, 5), fontsize=9)


def scale(panel: Axes) -> None:
    """Scale bar of a round length at the bottom."""
    (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
    length = 10.0 ** np.floor(np.log10(max(right - left, high - low) / 2))
    panel.plot([left, left + length], [low, low], color=GREY, linewidth=2, clip_on=False)
    panel.annotate(f"{length:g} m", (left, low), (0, 5), textcoords="offset points", fontsize=8, color=GREY)


_MARKERS = {
    **{"Hinge": "o", "Prismatic": "s", "Cylindrical": "h", "Screw": "X", "Universal": "P", "Spherical": "*"},
    **{"Planar": "d", "Fixed": "p", "PinInSlot": "H"},
}
"""Matplotlib's marker of each kind of joint; others are diamonds."""
SOLIDS = {"Prismatic": "square", "Screw": "cross", "Universal": "cross", "Spherical": "circle", "Hinge": "circle"}
"""Plotly's marker in three dimensions of each kind of joint; others are diamonds."""


def symbol(panel: Axes, kind: str, place: Array, foot: Array | None) -> None:
    """Symbol of a joint at a place on paper, (2,), with a pale triangle if it is on the ground."""
    if foot is not None:
        panel.plot(*foot, "^", color="0.6", mfc="0.85", markersize=17, zorder=4.5)
    style: dict[str, Any] = {"color": "black", "mfc": "white", "markersize": 7, "zorder": 5}
    panel.plot(*place, marker=_MARKERS.get(kind, "D"), linestyle="none", **style)


def of_solution(solution: Solution) -> Figure:
    """Drawing of the mechanism along the first recording."""
    if solution.mechanism is None:
        raise ProblemError("plot: the solution was saved without its mechanism; solve the problem again")
    return mechanism(solution.mechanism, solution.trajectories[0].q)


def mechanism(parts: Mechanism, q: Array) -> Figure:
    """Drawing of bodies as lines from centres of mass to hinges, along a motion (N, n_b, 7); later poses are pale."""
    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    panel, view = figure.subplots(), oblique(parts)
    states = np.flatnonzero(np.isfinite(q).all(axis=(1, 2)))
    moments = states[np.unique(np.linspace(0, len(states) - 1, 13).astype(int))] if len(states) else []
    for k in reversed(moments):
        draw(panel, parts, q[k], view, whole=k == moments[0])
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.margins(0.12)
    scale(panel)
    return figure
