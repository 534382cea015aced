"""Robots in three dimensions: bodies as lines from centres of mass to joints, moved by positions of the joints."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from nicegui import ui
from scipy.optimize import least_squares

from spookid.kernels.arrays import Array
from spookid.robots.description import Placement

COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22")


def _frame(facts: Mapping[str, Any]) -> Placement:
    return Placement(np.array(facts["at"], dtype=float), np.array(facts["axes"], dtype=float))


class Kinematics:
    """Kinematic tree of a robot, from the facts of its file: poses of all bodies for joint positions."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        self.movable = [joint for joint in facts["joints"] if joint["kind"] in ("hinge", "slide")]
        self.followers = {tie["follower"]: tie for tie in facts["ties"]}
        self.values = {joint["name"]: min(max(0.0, joint["lower"]), joint["upper"]) for joint in self.movable}

    def poses(self, moved: str = "") -> dict[str, Placement]:
        """Poses by body; loops are closed as well as possible by the joints that were not ``moved``."""
        for name, tie in self.followers.items():
            if tie["leader"] in self.values and name in self.values:
                self.values[name] = tie["ratio"] * self.values[tie["leader"]] + tie["offset"]
        names = [joint["name"] for joint in self.movable if joint["name"] not in (moved, *self.followers)]
        if self._facts["loops"] and names:
            start = [self.values[name] for name in names]
            closed = least_squares(lambda x: self._gaps(dict(zip(names, x.tolist(), strict=True))), start)
            self.values |= dict(zip(names, closed.x.tolist(), strict=True))
        return self._placed(self.values)

    def _placed(self, values: Mapping[str, float]) -> dict[str, Placement]:
        facts, waiting = self._facts, list(self._facts["joints"])
        roots = {facts["ground"], *(body["name"] for body in facts["bodies"])} - {joint["child"] for joint in waiting}
        found = dict.fromkeys(roots, Placement.none())
        while waiting:
            joint = next(joint for joint in waiting if joint["parent"] in found)
            inner, at = _frame(joint["inner"]), values.get(joint["name"], 0.0)
            inner = {"hinge": inner.turned, "slide": inner.moved}.get(joint["kind"], lambda _, own=inner: own)(at)
            found[joint["child"]] = found[joint["parent"]] @ inner @ _frame(joint["outer"]).inverse
            waiting.remove(joint)
        return found

    def _gaps(self, others: Mapping[str, float]) -> Array:
        poses = self._placed({**self.values, **others})
        gaps = []
        for loop in self._facts["loops"]:
            one, other = (poses[n].at + poses[n].axes @ at for n, at in zip(loop["bodies"], loop["at"], strict=True))
            gaps.append(one - other)
        return np.concatenate(gaps)


class Drawing(Kinematics):
    """A robot on the page."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        ground = {"name": facts["ground"], "center": [0.0, 0.0, 0.0], "ends": facts["ground_ends"]}
        self._bodies = [*facts["bodies"], *([ground] if facts["ground"] else [])]
        self._reach = 0.0
        self._chart = ui.plotly({}).classes("w-full border rounded").style("height: 400px")
        self.show()

    def show(self, moved: str = "") -> None:
        """Draw the robot at its positions, after one joint was moved."""
        poses, turn, gap = self.poses(moved), np.array(self._facts["upright"]), np.full(3, np.nan)

        def placed(body: str, points: list[Any]) -> Array:
            return np.asarray((poses[body].at + np.array(points) @ poses[body].axes.T) @ turn.T)

        traces = []
        for i, body in enumerate(self._bodies):
            center, colour = body["center"], COLOURS[i % len(COLOURS)]
            points = placed(body["name"], [center, *(one for end in body["ends"] for one in (center, end, gap))])
            self._reach = max(self._reach, float(np.nanmax(np.abs(points))))
            traces.append(_trace(points, escape(body["name"]), colour, 8, marker={"size": 4, "color": colour}))
        for joint in self._facts["joints"]:
            inner, name = _frame(joint["inner"]), escape(joint["name"])
            half = 0.12 * (self._reach or 1.0) * inner.axes[:, 0]
            points = placed(joint["parent"], [inner.at - half, inner.at + half])
            traces.append(_trace(points, name, "#d62728", 4, mode="lines+text", text=["", name]))
        wide = 1.1 * (self._reach or 1.0)
        axes = {f"{axis}axis": {"range": [-wide, wide], "title": {"text": f"{axis} [m]"}} for axis in "xyz"}
        camera = {"eye": {"x": 0.9, "y": -1.3, "z": 0.5}}
        scene = {**axes, "aspectmode": "cube", "dragmode": "turntable", "camera": camera}
        layout = {"scene": scene, "showlegend": False, "margin": dict.fromkeys("lrtb", 0), "uirevision": "one"}
        self._chart.update_figure({"data": traces, "layout": layout})


def _trace(points: Array, name: str, colour: str, width: int, **style: Any) -> dict[str, Any]:
    places = dict(zip("xyz", points.T.tolist(), strict=True))
    return {"type": "scatter3d", "name": name, "line": {"color": colour, "width": width}, **places, **style}
