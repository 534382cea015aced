"""Mechanisms in three dimensions: bodies as lines from centres of mass to joints, moved by joints or by poses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from nicegui import ui
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
Pose = tuple[Array, Array]
"""Origin (3,) and axes in columns (3, 3) of a body in the world."""
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")
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
        none = np.zeros(3), np.eye(3)
        found: dict[str, Pose] = {self._facts["ground"]: none}
        waiting = list(self._facts["joints"])
        if not self._facts["ground"] and self._facts["bodies"]:
            roots = {b["name"] for b in self._facts["bodies"]} - {joint["child"] for joint in waiting}
            found |= dict.fromkeys(roots, none)
        while waiting:
            ready = [joint for joint in waiting if joint["parent"] in found]
            if not ready:
                break
            for joint in ready:
                at = values.get(joint["name"], 0.0)
                turn = Rotation.from_rotvec([at, 0, 0]).as_matrix() if joint["kind"] == "hinge" else np.eye(3)
                shift = np.array([at if joint["kind"] == "slide" else 0.0, 0.0, 0.0])
                inner = compose(found[joint["parent"]], _frame(joint["inner"]))
                found[joint["child"]] = compose(compose(inner, (shift, turn)), _inverse(_frame(joint["outer"])))
                waiting.remove(joint)
        for body in self._facts["bodies"]:
            found.setdefault(body["name"], none)
        return found

    def _gaps(self, values: Mapping[str, float]) -> Array:
        poses, gaps = self._placed(values), []
        for loop in self._facts["loops"]:
            ends = [poses[body][0] + poses[body][1] @ np.array(at) for body, at in zip(*self._sides(loop), strict=True)]
            gaps.append(ends[0] - ends[1])
        return np.concatenate(gaps)

    def _sides(self, loop: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Any]]:
        return loop["bodies"], loop["at"]

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


def extent(points: Sequence[Array]) -> float:
    """Largest distance between points along an axis of the world [m]; 1 if there is none."""
    stack = np.array(points)
    size = float(np.max(np.ptp(stack, axis=0))) if len(stack) else 0.0
    return size if math.isfinite(size) and size > 0 else 1.0


def upright(gravity: Sequence[float]) -> Array:
    """Turns the world so that gravity points down in the scene, (3, 3)."""
    size = float(np.linalg.norm(gravity))
    if not (math.isfinite(size) and size > 0):
        return np.eye(3)
    turn: Array = Rotation.align_vectors([[0.0, 0.0, -1.0]], [np.array(gravity) / size])[0].as_matrix()
    return turn


class Figure:
    """One mechanism in a scene; of several the paler are the less sure ones."""

    def __init__(
        self,
        scene: ui.scene,
        bodies: Sequence[Mapping[str, Any]],
        axes: Sequence[Mapping[str, Any]],
        scale: float,
        turn: Array,
        colour: str = "",
        opacity: float = 1.0,
    ) -> None:
        self._scene, self._scale, self._turn = scene, scale, turn
        self._bodies: dict[str, Any] = {}
        self._axes: list[tuple[Any, str, Array]] = []
        thick = 0.02 if not colour else 0.035
        with scene:
            for i, body in enumerate(bodies):
                own = colour or COLOURS[i % len(COLOURS)]
                with scene.group() as group:
                    center = scale * np.array(body["center"])
                    scene.sphere(1.8 * thick).move(*center.tolist()).material(own, opacity)
                    for end in body["ends"]:
                        _bar(scene, center, scale * np.array(end), thick, own, opacity)
                self._bodies[body["name"]] = group
            for axis in axes:
                with scene.group() as group:
                    along = np.array(axis["axis"], dtype=float)
                    along /= max(float(np.linalg.norm(along)), 1e-12)
                    at = scale * np.array(axis["at"])
                    _bar(scene, at - 0.12 * along, at + 0.12 * along, 0.008, "#d62728", opacity)
                    scene.text(axis["name"], "font-size: 11px; color: #333").move(*(at + 0.16 * along).tolist())
                self._axes.append((group, axis["body"], at))

    def pose(self, poses: Mapping[str, Pose]) -> None:
        """Move it."""
        with self._scene._batch_calls():
            for name, group in self._bodies.items():
                self._place(group, poses.get(name))
            for group, body, _ in self._axes:
                self._place(group, poses.get(body, (np.zeros(3), np.eye(3))))

    def show(self, visible: bool) -> None:
        """Show or hide it."""
        for group in self._bodies.values():
            group.visible(visible)

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


def poses_of(names: Sequence[str], q: Sequence[Sequence[float]]) -> dict[str, Pose]:
    """From positions and quaternions, scalar first."""
    found = {}
    for name, row in zip(names, q, strict=True):
        w, x, y, z = row[3:7]
        found[name] = np.array(row[:3]), Rotation.from_quat([x, y, z, w]).as_matrix()
    return found


class Stage:
    """A scene with a camera that sees what is in it."""

    def __init__(self, points: Sequence[Array], turn: Array) -> None:
        self.scale = _SIZE / extent(points)
        self.turn = turn
        middle = (
            self.scale * turn @ (np.min(points, axis=0) + np.max(points, axis=0)) / 2 if len(points) else np.zeros(3)
        )
        camera = ui.scene.perspective_camera(fov=45, near=0.01)
        self.scene = ui.scene(640, 420, grid=(4, 20), camera=camera, background_color="#f6f7f9", fps=30)
        self.scene.classes("w-full border rounded").style("max-width: 100%")
        x, y, z = middle.tolist()
        self.scene.move_camera(x + 1.6, y - 2.4, z + 0.9, x, y, z, 0, 0, 1, duration=0)


def robot_stage(facts: Mapping[str, Any]) -> tuple[Stage, Figure, Kinematics]:
    """A robot as its file has it."""
    moving = Kinematics(facts)
    poses = moving.poses()
    points = [np.zeros(3)]
    for body in facts["bodies"]:
        at, axes = poses[body["name"]]
        points += [at + axes @ np.array(end) for end in [*body["ends"], body["center"]]]
    stage = Stage(points, upright(facts["gravity"]))
    ground = {"name": facts["ground"], "center": [0.0, 0.0, 0.0], "ends": facts["ground_ends"]}
    bodies = [*facts["bodies"], ground] if facts["ground"] else facts["bodies"]
    figure = Figure(stage.scene, bodies, moving.axes(), stage.scale, stage.turn)
    figure.pose(poses)
    return stage, figure, moving
