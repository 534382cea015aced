"""A mechanism in motion in three dimensions, as it was estimated over what was measured, for the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spookid.assembly.outlining import MOST_RECORDINGS
from spookid.kernels.arrays import Array, Integers
from spookid.records import dataclass
from spookid.report import skeleton
from spookid.report.interactive import worded
from spookid.report.pictures import BLACK, COLOURS, GREY, ORANGE
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.trajectory import FRAMES_PER_SECOND, LONGEST, Trajectory, moments, slowness
from spookid.results.values import Mechanism, Vector
from spookid.tables.table import counted, number


@dataclass(frozen=True, eq=False)
class Marker:
    """Point of a body whose coordinates were measured."""

    body: str
    at: Vector
    columns: tuple[tuple[int, int], ...]
    """Axes of the world and the signals that show the coordinates along them."""


@dataclass(frozen=True, eq=False)
class Film:
    """Animation data of one recording with F frames."""

    parts: Mechanism
    trajectory: Trajectory
    frames: Integers
    """Steps, (F,)."""
    poses: Array
    """Measured, (F, n_b, 7), NaN where they are not determined."""
    title: str

    @property
    def markers(self) -> tuple[Marker, ...]:
        """Points that sensors measure."""
        columns = dict[tuple[str, Vector], list[tuple[int, int]]]()
        for column, sensor in enumerate(self.parts.sensors):
            if (point := sensor.point) is not None:
                columns.setdefault((point.body, point.at), []).append((point.axis, column))
        return tuple(Marker(*place, tuple(own)) for place, own in columns.items())

    @property
    def estimated(self) -> Array:
        """(F, n_b, 7)."""
        return np.asarray(self.trajectory.q[self.frames])

    def point(self, marker: Marker, k: int) -> Array | None:
        """Measured position of a point, (3,), with estimates for axes that were not measured; None if none was."""
        t, step = self.trajectory, self.frames[k]
        place = skeleton.place(skeleton.poses_of(self.parts, t.q[step]), marker.body, marker.at)
        for axis, column in marker.columns:
            place[axis] += np.nan_to_num(t.observed[step, column] - t.predicted[step, column])
        seen = any(np.isfinite(t.observed[step, column]) for _, column in marker.columns)
        return place if seen else None

    @property
    def is_determined(self) -> bool:
        """True if measured signals determine the pose in at least one frame."""
        return bool(np.isfinite(self.poses).all(axis=(1, 2)).any())

    @property
    def sentence(self) -> str:
        """Sentence on the measured data in the animation."""
        if self.is_determined:
            gaps = "" if np.isfinite(self.poses).all() else ", where these determine a pose"
            return f"Pale bodies: pose computed from measured signals and joints alone{gaps}."
        if self.markers:
            return "Crosses: measured points, which do not determine a pose."
        return "The measured signals do not determine a pose; only the estimated motion is drawn."

    @property
    def pace(self) -> str:
        """Speed of the animation, as text."""
        duration = float(self.trajectory.t[-1] - self.trajectory.t[0])
        slower = slowness(duration)
        speed = "real time" if slower == 1 else f"{slower} times slower than real time"
        return speed if duration <= LONGEST else f"animated: first {LONGEST:g} s of {number(duration, 3)} s, {speed}"


def films(solution: Solution) -> list[Film]:
    """Animation data of the first recordings; empty if the solution contains no mechanism."""
    parts, title, found = solution.mechanism, solution.problem, list[Film]()
    if parts is None:
        return found
    for i, trajectory in enumerate(solution.trajectories[:MOST_RECORDINGS]):
        frames, bodies = moments(trajectory.t), trajectory.q.shape[1]
        poses = np.full((len(frames), bodies, 7), math.nan)
        if i < len(solution.measured) and np.array_equal(solution.measured[i].frames, frames):
            poses = solution.measured[i].poses
        shown = np.isfinite(trajectory.q[frames]).all(axis=(1, 2))
        if shown.any():
            told = title if trajectory.name == title else f"{title}, {trajectory.name}"
            found.append(Film(parts, trajectory, frames[shown], poses[shown], told))
    return found


def omitted(solution: Solution) -> str:
    """Sentence on recordings that are not animated."""
    more = len(solution.trajectories) - MOST_RECORDINGS
    return f"{counted(more, 'more recording')} not animated." if more > 0 else ""


# --- the scene ---


def scene(film: Film) -> Tree:
    """Animation with a time slider and a play button, as a block of the page."""
    poses = [skeleton.poses_of(film.parts, film.trajectory.q[step]) for step in film.frames]
    # Axes of a body that nothing holds are this share of the extent of the motion.
    arm = 0.15 * (float(max(np.ptp(np.concatenate([_centres(film, one) for one in poses]), axis=0))) or 1.0)
    places = [list(_places(film, k, one, arm)) for k, one in enumerate(poses)]
    every = np.concatenate([place for frame in places for place in frame])
    low, high = np.nanmin(every, axis=0), np.nanmax(every, axis=0)
    # With air around what moves, and no side much shorter than the longest one.
    sides = 1.12 * np.maximum(high - low, 0.35 * (float(np.max(high - low)) or 1.0))
    middle = (low + high) / 2
    digits = 4 - math.floor(math.log10(float(np.max(sides))))
    frames = [[_coordinates(place, digits) for place in frame] for frame in places]
    traces = [{**look, **first} for look, first in zip(_looks(film, poses[0], arm), frames[0], strict=True)]
    space: Tree = {
        f"{axis}axis": {"title": {"text": f"{axis} [m]"}, "range": [c - s / 2, c + s / 2], "nticks": 5}
        for axis, c, s in zip("xyz", middle.tolist(), sides.tolist(), strict=True)
    }
    shape = dict(zip("xyz", (sides / max(sides)).tolist(), strict=True))
    camera = _camera(film.parts, sides)
    turned = "turntable" if camera["up"]["z"] > 0.999 else "orbit"  # a turntable's axis is always z
    space |= {"aspectmode": "manual", "aspectratio": shape, "camera": camera, "dragmode": turned}
    layout = {"scene": space, **_controls(film), "margin": {"l": 0, "r": 0, "t": 0, "b": 0}}
    steps = [{"name": str(k), "data": frame} for k, frame in enumerate(frames)]
    drawn = {"data": traces, "layout": layout, "frames": steps}
    name = film.trajectory.name
    words = f"{name}, as it was estimated, {film.pace}. {film.sentence}"
    return {"figure": drawn, "height": 460, "alt": f"The mechanism in motion, {name}", "caption": words}


def _places(film: Film, k: int, poses: skeleton.Poses, arm: float) -> Iterator[Array]:
    """Points of each trace in a frame, (n, 3); lines are apart by a row of NaN."""
    parts = film.parts
    if film.is_determined:
        known = bool(np.isfinite(film.poses[k]).all())
        measured = skeleton.poses_of(parts, film.poses[k]) if known else poses
        drawn = _joined([line for _, line in skeleton.lines(parts, measured, arm)])
        yield drawn if known else np.full_like(drawn, np.nan)
    lines = skeleton.lines(parts, poses, arm)
    for i in range(len(parts.bodies)):
        yield _joined([line for body, line in lines if body == i] or [np.tile(_centres(film, poses)[i], (2, 1))])
    ends = [skeleton.ends_of(constraint, parts, poses) for constraint in parts.constraints]
    yield _joined([np.stack(pair) for pair in ends if len(pair) == 2])
    yield np.array([skeleton.place(poses, joint.child, joint.child_at) for joint in parts.hinges]).reshape(-1, 3)
    points = [film.point(marker, k) for marker in film.markers]
    yield np.array([np.full(3, np.nan) if point is None else point for point in points]).reshape(-1, 3)


def _looks(film: Film, poses: skeleton.Poses, arm: float) -> list[Tree]:
    """Traces without their points, in the order of `_places`."""
    parts, found = film.parts, list[Tree]()
    bodies = [i for i, _ in skeleton.lines(parts, poses, arm)]
    if film.is_determined:
        found.append(_look("measured", ORANGE, mode="lines", width=18, opacity=0.45))
    for i, body in enumerate(parts.bodies):
        dots = [9, 0, 0] * max(bodies.count(i), 1)  # each line begins at the centre of mass
        found.append(_look(body.name, COLOURS[i % len(COLOURS)], width=8, size=dots))
    found.append(_look("constraints", BLACK, mode="lines", width=3, showlegend=bool(parts.constraints)))
    names = [worded(f"{j.name} ({j.kind}), {j.parent} and {j.child}") for j in parts.hinges]
    symbols = [skeleton.SOLIDS.get(joint.kind, "diamond") for joint in parts.hinges]
    edges = {"text": names, "hoverinfo": "text", "showlegend": bool(names)}
    found.append(_look("joints", GREY, mode="markers", size=6, symbol=symbols, **edges))
    found.append(_look("measured points", ORANGE, mode="markers", size=5, symbol="x", showlegend=bool(film.markers)))
    return found


def _look(name: str, colour: str, size: float | Sequence[float] = 0.0, **style: Any) -> Tree:
    symbol, mode = style.pop("symbol", "circle"), style.pop("mode", "lines+markers")
    marker = {"size": size, "color": colour, "opacity": 1, "line": {"width": 0}, "symbol": symbol}
    line = {"color": colour, "width": style.pop("width", 1)}
    return {"type": "scatter3d", "name": worded(name), "mode": mode, "marker": marker, "line": line, **style}


def _coordinates(points: Array, digits: int) -> Tree:
    """Of a trace; of what is missing none."""
    rounded = [[value if math.isfinite(value) else None for value in row] for row in points.T.round(digits).tolist()]
    return dict(zip("xyz", rounded, strict=True))


def _joined(lines: Sequence[Array]) -> Array:
    gap = np.full((1, 3), np.nan)
    return np.concatenate([np.zeros((0, 3)), *(part for line in lines for part in (line, gap))])


def _centres(film: Film, poses: skeleton.Poses) -> Array:
    """Centres of mass, (n_b, 3)."""
    return np.array([poses[body.name][0] for body in film.parts.bodies])


def _camera(parts: Mechanism, sides: Array) -> Tree:
    """Gravity points down, and the eye is a little aside of the level direction in which the scene is thinnest."""
    upright = skeleton.upright(np.array(parts.gravity)).inv()
    up, world = upright.apply([0.0, 0.0, 1.0]), np.eye(3)
    across = world[int(np.argmin(sides + 1e3 * float(np.max(sides)) * (np.abs(up) > 0.7)))]
    across = across - up * (across @ up)
    right = np.cross(up, across / np.linalg.norm(across))
    right *= np.sign(right[np.argmax(np.abs(right))])
    eye = np.cross(right, up) + 0.4 * right + 0.3 * up
    return {
        "up": dict(zip("xyz", up.tolist(), strict=True)),
        "eye": dict(zip("xyz", (1.6 * eye / np.linalg.norm(eye)).tolist(), strict=True)),
    }


def _controls(film: Film) -> Tree:
    """A slider of time, and buttons that play and stop."""
    t = film.trajectory.t[film.frames]
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    moving = {**still, "fromcurrent": True, "frame": {"duration": 1000 / FRAMES_PER_SECOND, "redraw": True}}
    steps = [
        {"method": "animate", "label": f"{when:.2f} s", "args": [[str(k)], still]} for k, when in enumerate(t.tolist())
    ]
    buttons = [
        {"method": "animate", "label": "Play", "args": [None, moving]},
        {"method": "animate", "label": "Stop", "args": [[None], still]},
    ]
    place = {"x": 0, "y": 0, "xanchor": "left", "yanchor": "bottom"}
    bar = {"x": 0.0, "len": 1.0, "y": 0, "yanchor": "top", "ticklen": 0, "minorticklen": 0, "font": {"size": 1}}
    return {
        "sliders": [{**bar, "steps": steps, "currentvalue": {"prefix": "t = ", "font": {"size": 13}}}],
        "updatemenus": [{"type": "buttons", "direction": "left", **place, "buttons": buttons}],
    }
