"""A mechanism in motion as an animated GIF: as it was estimated, over what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from spookid.kernels.arrays import Array, Integers
from spookid.records import dataclass
from spookid.report import pictures, skeleton
from spookid.report.pictures import BLACK, GREY, ORANGE
from spookid.report.skeleton import FULL, Style, View, view_of
from spookid.results.result import Solution
from spookid.results.trajectory import FRAMES_PER_SECOND, LONGEST, Trajectory, moments, slowness
from spookid.results.values import Mechanism, Vector
from spookid.tables.table import counted, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 4
"""Recordings that are animated."""
_ESTIMATED, _MEASURED = replace(FULL, names=False), Style(8.0, 0.45, 18.0, colour=ORANGE)
_ARM = 0.15
"""Length of the axes of a body that nothing holds, as a share of the extent of the motion."""
_SLIM = 0.35
"""Least share that the shorter side of a picture has of the longer one."""


@dataclass(frozen=True, eq=False)
class Marker:
    """A point of a body of which coordinates were measured."""

    body: str
    at: Vector
    columns: tuple[tuple[int, int], ...]
    """Axes of the world and the signals that show the coordinates along them."""


@dataclass(frozen=True, eq=False)
class Film:
    """What is shown of one recording; F frames."""

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
        """Where a point was measured in a frame, (3,), as estimated along axes that were not; None if along none."""
        t, step = self.trajectory, self.frames[k]
        place = skeleton.place(skeleton.poses_of(self.parts, t.q[step]), marker.body, marker.at)
        for axis, column in marker.columns:
            place[axis] += np.nan_to_num(t.observed[step, column] - t.predicted[step, column])
        seen = any(np.isfinite(t.observed[step, column]) for _, column in marker.columns)
        return place if seen else None

    @property
    def is_determined(self) -> bool:
        """True if measured signals determine the pose in some frame."""
        return bool(np.isfinite(self.poses).all(axis=(1, 2)).any())

    @property
    def sentence(self) -> str:
        """What is drawn of the measured signals."""
        if self.is_determined:
            gaps = "" if np.isfinite(self.poses).all() else ", where they determine it"
            return f"Pale: the pose computed from measured signals and joints without the fit{gaps}."
        if self.markers:
            return "Crosses: points as they were measured, which determine no pose."
        return "The measured signals determine no pose; only the estimated motion is drawn."

    @property
    def pace(self) -> str:
        """How its time runs, in words."""
        duration = float(self.trajectory.t[-1] - self.trajectory.t[0])
        slower = slowness(duration)
        speed = "real time" if slower == 1 else f"{slower} times slower than real time"
        return speed if duration <= LONGEST else f"first {LONGEST:g} s of {number(duration, 3)} s, {speed}"


def films(solution: Solution) -> list[Film]:
    """Of the first recordings, those that hold a motion; none if the solution holds no mechanism."""
    parts, title, found = solution.mechanism, solution.problem, list[Film]()
    if parts is None:
        return found
    for i, trajectory in enumerate(solution.trajectories[:MOST]):
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
    """What is said of recordings that are too many."""
    more = len(solution.trajectories) - MOST
    return f"{counted(more, 'more recording')} not animated." if more > 0 else ""


def file_name(place: int) -> str:
    """Of a recording's film, as its arrays are called in ``trajectory.npz``."""
    return f"animation_{place}.gif"


def writers(solution: Solution) -> dict[str, partial[None]]:
    """What writes each film, by the name of its file."""
    names = [t.name for t in solution.trajectories]
    return {file_name(names.index(f.trajectory.name)): partial(_write, f) for f in films(solution)}


# --- drawing ---


def _write(film: Film, path: Path) -> None:
    """The film as a file that repeats itself."""
    from matplotlib.animation import PillowWriter  # slow to load

    figure, draw = stage(film, 70)
    writer = PillowWriter(fps=FRAMES_PER_SECOND)
    with TemporaryDirectory() as folder:  # the writer wants a path that ends in .gif
        drawn = Path(folder) / file_name(0)
        with writer.saving(figure, str(drawn), 70):
            for _ in draw:
                writer.grab_frame()
        path.write_bytes(drawn.read_bytes())


def stage(film: Film, dpi: int) -> tuple[Figure, Iterator[int]]:
    """A figure and what draws one frame after another in it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = view_of(film.parts, film.estimated)
    arm, (left, right, low, high) = _room(film, view)
    share = np.clip((high - low) / (right - left), _SLIM, 1 / _SLIM)
    size = (5.6, 4.6 * share + 1.4) if share <= 1 else (max(4.6 / share, 3.2) + 1.0, 6.0)
    place = (0.75 / size[0], 0.9 / size[1], 1 - 0.95 / size[0], 1 - 1.5 / size[1])
    still, figure = Figure(figsize=size, dpi=dpi), Figure(figsize=size, dpi=dpi)
    behind, panel = still.add_axes(place), figure.add_axes(place)
    for axes in (behind, panel):
        axes.set_aspect("equal")
        axes.set(xlim=(left, right), ylim=(low, high))
    panel.set_axis_off()
    _write_around(still, behind, film, view)
    canvas = FigureCanvasAgg(still)
    canvas.draw()  # type: ignore[no-untyped-call]
    figure.figimage(np.asarray(canvas.buffer_rgba()), zorder=-1)  # type: ignore[no-untyped-call]
    return figure, _frames(figure, panel, film, view, arm)


def _frames(figure: Figure, panel: Axes, film: Film, view: View, arm: float) -> Iterator[int]:
    head = figure.text(0.5, 1 - 0.5 / figure.get_figheight(), "", fontsize=9, ha="center")
    for k, step in enumerate(film.frames):
        for artist in (*panel.lines, *panel.texts):
            artist.remove()
        if np.isfinite(film.poses[k]).all():
            skeleton.draw(panel, film.parts, film.poses[k], view, _MEASURED, arm)
        skeleton.draw(panel, film.parts, film.trajectory.q[step], view, _ESTIMATED, arm)
        for marker in film.markers:
            _mark(panel, film, marker, k, view)
        head.set_text(f"t = {film.trajectory.t[step]:.2f} s ({film.pace})")
        yield k


def _mark(panel: Axes, film: Film, marker: Marker, k: int, view: View) -> None:
    """A cross where a point was measured, a ring where it was estimated."""
    poses = skeleton.poses_of(film.parts, film.trajectory.q[film.frames[k]])
    estimated = view.seen(skeleton.place(poses, marker.body, marker.at)[None])[:, 0]
    panel.plot(*estimated, "o", color=BLACK, mfc="none", markersize=7, zorder=6)
    measured = film.point(marker, k)
    if measured is not None:
        panel.plot(*view.seen(measured[None])[:, 0], "x", color=ORANGE, markersize=8, markeredgewidth=2, zorder=7)


def _write_around(figure: Figure, panel: Axes, film: Film, view: View) -> None:
    """Title, legend, and axes with their units."""
    pictures.title(figure, film.title, 10)
    if view.is_flat:
        pictures.plain(panel, 8)
        panel.set_xlabel(view.labels[0], fontsize=9)
        panel.set_ylabel(view.labels[1], fontsize=9)
    else:
        panel.set_axis_off()
        skeleton.scale(panel)
    handles = [pictures.entry("estimated", BLACK, "o", "-", linewidth=3)]
    if film.is_determined:
        handles.append(pictures.entry("measured", ORANGE, "", "-", linewidth=8, alpha=0.45))
    if film.markers:
        handles.append(pictures.entry("measured point", ORANGE, "x", markersize=8, markeredgewidth=2))
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=8)
    if len(handles) == 1:
        high = 0.32 / figure.get_figheight()
        figure.text(0.5, high, "No pose follows from what was measured.", ha="center", color=GREY, fontsize=8)


def _room(film: Film, view: View) -> tuple[float, tuple[float, float, float, float]]:
    """Length of the axes of bodies that nothing holds, and limits of what is seen in all frames: left, right, low, high
    [m]."""
    known = np.isfinite(film.poses).all(axis=(1, 2))
    states = np.concatenate([film.estimated, film.poses[known]])
    poses = [skeleton.poses_of(film.parts, q) for q in states]
    marked = [p for m in film.markers for k in range(len(film.frames)) if (p := film.point(m, k)) is not None]
    arm = _ARM * (max(np.ptp(_ends(film, poses, marked, 0.0, view), axis=1)) or 1.0)
    ends = _ends(film, poses, marked, float(arm), view)
    low, high = ends.min(axis=1), ends.max(axis=1)
    middle, half = (low + high) / 2, (high - low) / 2
    half = 1.12 * np.maximum(half, _SLIM * (half.max() or 0.5))
    (left, low), (right, high) = (middle - half).tolist(), (middle + half).tolist()
    return float(arm), (left, right, low, high)


def _ends(film: Film, poses: Sequence[skeleton.Poses], marked: Sequence[Array], arm: float, view: View) -> Array:
    """All points that are drawn, on paper, (2, n)."""
    centres = [pose[0] for one in poses for pose in one.values()]
    ground = [end for j in film.parts.hinges for end in (j.parent_at,) if j.parent == skeleton.GROUND]
    drawn = [line for one in poses for _, line in skeleton.lines(film.parts, one, arm)]
    return view.seen(np.concatenate([np.array([*centres, *ground, *marked]), *drawn]))
