"""Mechanisms in three dimensions: bodies as lines from centres of mass to joints, moved by joints or by poses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from nicegui import ui
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
Pose = tuple[Array, Array]
"""Origin (3,) and axes in columns (3, 3) of a body in the world."""
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")
_NONE: Pose = np.zeros(3), np.eye(3)
_SIZE = 2.0
"""Extent of every drawing, in units of the scene."""


def compose(a: Pose, b: Pose) -> Pose:
    """A frame in the outer one, from where it is in the inner one."""
    return a[0] + a[1] @ b[0], a[1] @ b[1]


def _inverse(a: Pose) -> Pose:
    return -a[1].T @ a[0], a[1].T


def _frame(facts: Mapping[str, Any]) -> Pose:
    return np.array(facts["at"], dtype=float), np.array(facts["axes"], dtype=float)


class Kinematics:
    """A robot's tree of joints, from the facts of its file: poses of all bodies at positions of its joints."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        self.movable = [joint for joint in facts["joints"] if joint["kind"] in ("hinge", "slide")]
        self.followers = {tie["follower"]: tie for tie in facts["ties"]}
        self.values = {joint["name"]: min(max(0.0, joint["lower"]), joint["upper"]) for joint in self.movable}

    def poses(self, moved: str = "") -> dict[str, Pose]:
        """Poses by body; loops are closed by the joints that were not ``moved``."""
        for name, tie in self.followers.items():
            if tie["leader"] in self.values and name in self.values:
                self.values[name] = tie["ratio"] * self.values[tie["leader"]] + tie["offset"]
        self._close(moved)
        return self._placed(self.values)

    def _placed(self, values: Mapping[str, float]) -> dict[str, Pose]:
        facts, waiting = self._facts, list(self._facts["joints"])
        roots = {facts["ground"], *(body["name"] for body in facts["bodies"])} - {joint["child"] for joint in waiting}
        found: dict[str, Pose] = dict.fromkeys(roots, _NONE)
        while waiting:
            ready = [joint for joint in waiting if joint["parent"] in found]
            for joint in ready:
                at = values.get(joint["name"], 0.0)
                turn = Rotation.from_rotvec([at, 0, 0]).as_matrix() if joint["kind"] == "hinge" else np.eye(3)
                shift = np.array([at if joint["kind"] == "slide" else 0.0, 0.0, 0.0])
                inner = compose(found[joint["parent"]], _frame(joint["inner"]))
                found[joint["child"]] = compose(compose(inner, (shift, turn)), _inverse(_frame(joint["outer"])))
                waiting.remove(joint)
        return found

    def _gaps(self, values: Mapping[str, float]) -> Array:
        poses, gaps = self._placed(values), []
        for loop in self._facts["loops"]:
            one, other = (
                poses[name][0] + poses[name][1] @ at for name, at in zip(loop["bodies"], loop["at"], strict=True)
            )
            gaps.append(one - other)
        return np.concatenate(gaps)

    def _close(self, moved: str) -> None:
        """Gauss–Newton steps of the other joints until loops are closed, or as nearly as they can be."""
        names = [joint["name"] for joint in self.movable if joint["name"] not in (moved, *self.followers)]
        if not (self._facts["loops"] and names):
            return
        for _ in range(30):
            gap, slope = self._gaps(self.values), 1e-6
            if np.max(np.abs(gap)) < 1e-7:
                return
            columns = [(self._gaps({**self.values, n: self.values[n] + slope}) - gap) / slope for n in names]
            step = np.linalg.lstsq(np.column_stack(columns), -gap, rcond=1e-6)[0]
            step *= min(1.0, 0.5 / max(float(np.max(np.abs(step))), 1e-12))
            for name, change in zip(names, step.tolist(), strict=True):
                self.values[name] += change

    def axes(self) -> list[dict[str, Any]]:
        """Joints with their place and axis on their parent."""
        return [
            {"name": joint["name"], "body": joint["parent"], "at": joint["inner"]["at"]}
            | {"axis": [row[0] for row in joint["inner"]["axes"]]}
            for joint in self._facts["joints"]
        ]


def _extent(points: Sequence[Array]) -> float:
    """Largest distance between points along an axis of the world [m]; 1 if there is none."""
    stack = np.array(points)
    size = float(np.max(np.ptp(stack, axis=0))) if len(stack) else 0.0
    return size if math.isfinite(size) and size > 0 else 1.0


def _upright(gravity: Sequence[float]) -> Array:
    """Turns the world so that gravity points down in the scene, (3, 3)."""
    size = float(np.linalg.norm(gravity))
    if not (math.isfinite(size) and size > 0):
        return np.eye(3)
    turn: Array = Rotation.align_vectors([[0.0, 0.0, -1.0]], [np.array(gravity) / size])[0].as_matrix()
    return turn


class Figure:
    """One mechanism in a scene; in a colour of its own, it is a broad pale one behind another."""

    def __init__(
        self,
        scene: ui.scene,
        scale: float,
        turn: Array,
        bodies: Sequence[Mapping[str, Any]],
        axes: Sequence[Mapping[str, Any]],
        colour: str = "",
        opacity: float = 1.0,
    ) -> None:
        self._scene, self._scale, self._turn = scene, scale, turn
        self._groups: list[tuple[Any, str]] = []
        thick = 0.035 if colour else 0.02
        with scene:
            for i, body in enumerate(bodies):
                own, center = colour or COLOURS[i % len(COLOURS)], scale * np.array(body["center"])
                with scene.group() as group:
                    scene.sphere(1.8 * thick).move(*center.tolist()).material(own, opacity)
                    for end in body["ends"]:
                        _bar(scene, center, scale * np.array(end), thick, own, opacity)
                self._groups.append((group, body["name"]))
            for axis in axes:
                along, at = np.array(axis["axis"], dtype=float), scale * np.array(axis["at"])
                along /= max(float(np.linalg.norm(along)), 1e-12)
                with scene.group() as group:
                    _bar(scene, at - 0.12 * along, at + 0.12 * along, 0.008, "#d62728", opacity)
                    scene.text(axis["name"], "font-size: 11px; color: #333").move(*(at + 0.16 * along).tolist())
                self._groups.append((group, axis["body"]))

    def pose(self, poses: Mapping[str, Pose]) -> None:
        """Move it."""
        known = {"": _NONE, "GROUND": _NONE, **poses}
        with self._scene._batch_calls():
            for group, body in self._groups:
                self._place(group, known.get(body))

    def _place(self, group: Any, pose: Pose | None) -> None:
        group.visible(pose is not None)
        if pose is not None:
            group.move(*(self._scale * self._turn @ pose[0]).tolist())
            group.rotate_R((self._turn @ pose[1]).tolist())


def _bar(scene: ui.scene, begin: Array, end: Array, thick: float, colour: str, opacity: float) -> None:
    length = float(np.linalg.norm(end - begin))
    if length < 1e-9:
        return
    along = (end - begin) / length
    cross = np.cross([0.0, 1.0, 0.0], along)
    sine, cosine = float(np.linalg.norm(cross)), float(along[1])
    axis = cross / sine if sine > 1e-9 else np.array([1.0, 0.0, 0.0])
    turn = Rotation.from_rotvec(math.atan2(sine, cosine) * axis).as_matrix()
    bar = scene.cylinder(thick / 2, thick / 2, length).material(colour, opacity)
    bar.move(*((begin + end) / 2).tolist()).rotate_R(turn.tolist())


def _poses_of(bodies: Sequence[Mapping[str, Any]], q: Sequence[Sequence[float]]) -> dict[str, Pose]:
    """From positions and quaternions, scalar first; none where there are none."""
    pairs = zip(bodies, q, strict=False)
    return {
        body["name"]: (np.array(row[:3]), Rotation.from_quat(np.roll(row[3:7], -1)).as_matrix()) for body, row in pairs
    }


def _stage(points: Sequence[Array], gravity: Sequence[float]) -> tuple[ui.scene, float, Array]:
    """A scene whose camera sees all points, the scale to draw them in, and the turn that has gravity point down."""
    scale, turn = _SIZE / _extent(points), _upright(gravity)
    there = scale * np.array(points) @ turn.T
    x, y, z = ((np.min(there, axis=0) + np.max(there, axis=0)) / 2).tolist()
    camera = ui.scene.perspective_camera(fov=45, near=0.01)
    scene = ui.scene(640, 400, grid=False, camera=camera, background_color="#f6f7f9", fps=30)
    scene.classes("w-full border rounded").style("max-width: 100%")
    floor = float(np.min(there[:, 2])) - 0.1
    with scene:  # lines alone: the grid of the library hides what is behind it
        for at in np.linspace(-1.5, 1.5, 13).tolist():
            scene.line([x + at, y - 1.5, floor], [x + at, y + 1.5, floor]).material("#d5d8de")
            scene.line([x - 1.5, y + at, floor], [x + 1.5, y + at, floor]).material("#d5d8de")
    scene.move_camera(x + 1.5, y - 2.3, z + 0.8, x, y, z, 0, 0, 1, duration=0)
    return scene, scale, turn


def robot_stage(facts: Mapping[str, Any]) -> tuple[Figure, Kinematics]:
    """A robot as its file has it, and what moves it."""
    moving = Kinematics(facts)
    poses = moving.poses()
    ends = [(body["name"], at) for body in facts["bodies"] for at in [*body["ends"], body["center"]]]
    stage = _stage(
        [np.zeros(3), *(poses[name][0] + poses[name][1] @ np.array(at) for name, at in ends)], facts["gravity"]
    )
    ground = {"name": facts["ground"], "center": [0.0, 0.0, 0.0], "ends": facts["ground_ends"]}
    figure = Figure(*stage, [*facts["bodies"], *([ground] if facts["ground"] else [])], moving.axes())
    figure.pose(poses)
    return figure, moving


def results_stage(parts: Mapping[str, Any], motion: Mapping[str, Any]) -> Callable[[int], None]:
    """Estimated motion over measured: a function that shows one of its moments."""
    bodies = parts["bodies"]
    first = _poses_of(bodies, motion["estimated"][0])
    points = [np.array(row[:3]) for frame in motion["estimated"] for row in frame]
    points += [first[body["name"]][0] + first[body["name"]][1] @ np.array(at) for body in bodies for at in body["ends"]]
    stage = _stage([point for point in points if np.isfinite(point).all()], parts["gravity"])
    measured = Figure(*stage, bodies, [], "#ff9f40", 0.45) if any(motion["measured"]) else None
    estimated = Figure(*stage, bodies, parts["axes"])

    def show(k: int) -> None:
        estimated.pose(_poses_of(bodies, motion["estimated"][k]))
        if measured is not None:
            measured.pose(_poses_of(bodies, motion["measured"][k] or []))

    return show
