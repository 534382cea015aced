"""Parts of the page that its steps share: work in the background, plots, a player, robots, places to drop files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from nicegui import events, ui
from scipy.optimize import least_squares

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.robots.description import Placement
from spookid.studio.session import Session

SMALL = "text-xs text-gray-600"


def tagged(element: Any, key: str, name: str) -> Any:
    """Element that programs find by name, whatever characters the name has."""
    element.props[f"data-{key}"] = name
    return element


def on_change(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """Element whose new values start a task."""
    element.on_value_change(lambda event: then(event.value))
    return element


def on_enter(element: Any, then: Callable[..., Awaitable[None]]) -> Any:
    """Field whose new value starts a task when the field is left."""
    element.on("change", lambda: then(element.value))
    return element


def button(text: str, key: str, work: Callable[..., Awaitable[None]], props: str = "outline") -> ui.button:
    """Button that starts a task."""
    made: ui.button = tagged(ui.button(text, on_click=work).props(props), "act", key)
    return made


def fold(session: Session, title: str, key: str, unfolded: bool = False) -> ui.expansion:
    """Expandable part of a page that stays as the user left it."""
    if unfolded and f"seen {key}" not in session.unfolded:
        session.unfolded |= {key, f"seen {key}"}
    made: ui.expansion = tagged(
        ui.expansion(title, value=key in session.unfolded).classes("w-full border rounded"), "act", key
    )
    made.on_value_change(lambda e: session.unfolded.add(key) if e.value else session.unfolded.discard(key))
    return made


def findings(found: Sequence[dict[str, Any]]) -> None:
    """List of warnings and notes with their codes."""
    colours = {"error": "bg-red-100", "warning": "bg-amber-100", "note": "bg-gray-100"}
    for one in found:
        with ui.column().classes(f"{colours[one['severity']]} rounded p-2 gap-0 w-full"):
            ui.label(one["code"]).classes("text-xs font-bold")
            ui.label(one["text"]).classes("text-xs")


def figure(block: dict[str, Any]) -> None:
    """A figure of the report."""
    ui.plotly(block["figure"]).classes("w-full").style(f"height: {block['height']}px")


def player(first: float, last: float, go: Callable[[float], None]) -> None:
    """Time slider that can also run by itself."""
    with ui.row().classes("w-full items-center no-wrap"):
        slider = ui.slider(min=first, max=max(last, first + 1e-3), step=0.01, value=first)
        slider.on_value_change(lambda e: go(e.value))

        def tick() -> None:
            slider.value = first if slider.value >= last else min(slider.value + 0.1, last)

        timer = ui.timer(0.1, tick, active=False)
        play = ui.button(icon="play_arrow", on_click=lambda: setattr(timer, "active", not timer.active))
        play.props('round dense aria-label="play"')
    go(first)


class Step:
    """Base class of the panels of the page: ``content`` builds the panel, again after each change."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.content()

    @ui.refreshable_method
    def content(self) -> None:
        """All that it shows."""
        raise NotImplementedError

    def live(self) -> None:
        """Show what has changed while a fit runs."""

    def dropping(self, label: str, endings: Sequence[str] | None, then: Callable[[str], Awaitable[None]]) -> None:
        """Area for dropping files; each file is stored in the folder."""
        session = self.session

        async def dropped(event: events.UploadEventArguments) -> None:
            try:
                name = await session.folder.keep(event.file.name, event.file.iterate(), endings)
            except ProblemError as error:
                session.error = str(error)
            else:
                await then(name)

        box = ui.upload(label=label, multiple=endings is None, auto_upload=True, on_upload=dropped)
        box.classes("w-full").props("flat bordered")


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
