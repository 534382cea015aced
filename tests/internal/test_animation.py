"""Animations: poses that were measured, what is shown of them, and the files in folders and on pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from solutions import solution

from spookid import (
    GROUND,
    Body,
    Distance,
    Hinge,
    HingeAngle,
    Model,
    PointPosition,
    Problem,
    Recording,
    gravity,
)
from spookid.__main__ import main
from spookid.assembly.assembly import assemble
from spookid.assembly.outlining import measured_poses, mechanism
from spookid.assembly.trajectories import trajectories
from spookid.report import animation, diagnostic_plots, plots
from spookid.report.animation import Film
from spookid.report.skeleton import view_of
from spookid.results.trajectory import moments, slowness

# --- poses ---


def film(problem: Problem) -> Film:
    """Of the start of a problem's fit."""
    assembly = assemble(problem)
    motion = trajectories(assembly, assembly.start)
    (found,) = measured_poses(assembly, assembly.start, motion)
    parts = mechanism(problem, assembly.values(assembly.start))
    return Film(parts, motion[0], found.frames.astype(np.int64), found.poses, "start")


def test_a_measured_angle_turns_the_estimated_pose_by_its_residual() -> None:
    s = solution()
    (t,), (found,) = s.trajectories, s.measured
    k = found.frames.astype(int)
    error, angle = (t.observed - t.predicted)[k, 0], t.predicted[k, 0]
    assert np.array_equal(np.isnan(found.poses).any(axis=(1, 2)), np.isnan(error))
    assert np.isnan(error).any()
    seen = np.isfinite(error)
    # The hinge turns about y, 0.2 m from the centre of mass, and its angle is zero where the rod hangs.
    moved = -0.2 * np.column_stack([np.cos(angle) * error, 0 * error, -np.sin(angle) * error])
    assert np.max(np.abs(moved[seen])) > 1e-4
    np.testing.assert_allclose((found.poses[:, 0, :3] - t.q[k, 0, :3])[seen], moved[seen], atol=2e-6)


def crank() -> Problem:
    """A crank and a rocker with a rod between their ends; the crank's angle is measured."""
    sides = dict(mass=1.0, inertia=(0.01, 0.01, 0.01))
    one, other = Body("crank", **sides), Body("rocker", **sides)
    up = dict(x=(0, 1, 0), y=(0, 0, 1))
    left = Hinge("left", GROUND.frame(**up), one.frame(at=(0, 0, -0.1), **up))
    right = Hinge("right", GROUND.frame(at=(0.3, 0, 0), **up), other.frame(at=(0, 0, -0.2), **up))
    rod = Distance("rod", one.frame(at=(0, 0, 0.1)), other.frame(at=(0, 0, 0.2)), length=0.4)
    t = np.arange(40) * 0.01
    angle = 0.4 * np.sin(5 * t) + 0.003 * np.random.default_rng(0).normal(size=40)
    model = Model(bodies=[one, other], joints=[left, right], constraints=[rod], gravity=gravity(9.81))
    observed = [HingeAngle(left, "theta")]
    return Problem(
        "crank", model=model, observations=observed, recordings=[Recording(t, {"theta": angle}, "r")], step=0.01
    )


def test_one_angle_determines_all_poses_of_a_loop() -> None:
    shown = film(crank())
    centre, theta = shown.poses[:, 0, :3], shown.trajectory.observed[shown.frames, 0]
    np.testing.assert_allclose(centre, 0.1 * np.column_stack([np.sin(theta), 0 * theta, np.cos(theta)]), atol=1e-8)
    far = np.array([0.3, 0, 0]) + 2 * (shown.poses[:, 1, :3] - [0.3, 0, 0])
    np.testing.assert_allclose(np.linalg.norm(2 * centre - far, axis=1), 0.4, atol=1e-8)
    assert np.max(np.abs(theta - shown.trajectory.predicted[shown.frames, 0])) > 1e-3  # the start is filtered


@lru_cache
def tossed(markers: int) -> Film:
    """A body in the air with markers, the last of which sees nothing of y."""
    body = Body("box", mass=1.0, inertia=(0.01, 0.02, 0.03), free=True)
    places = [(0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.2)][:markers]
    axes = ["xyz"] * (markers - 1) + ["xz"]
    sensors = [
        PointPosition(body.frame(at=at), own, tuple(f"{own}{i}"[j] + str(i) for j in range(len(own))))
        for i, (at, own) in enumerate(zip(places, axes, strict=True))
    ]
    problem = Problem(
        "box", model=Model(bodies=[body], gravity=gravity(9.81)), observations=sensors, step=0.01, state_weight=100.0
    )
    start = np.array([[0.0, 0, 0, 1, 0, 0, 0]]), np.array([[1.0, 0, 2, 1, 3, 0.5]])
    clean, noise = problem.simulate(duration=0.3, initial=start), np.random.default_rng(0)
    signals = {c.signal: clean.signal(c.signal) + 1e-3 * noise.normal(size=len(clean.t)) for c in problem.channels}
    return film(problem.with_(recordings=[Recording(clean.t, signals, "toss")]))


def test_markers_determine_a_pose_only_if_there_are_enough() -> None:
    few, enough = tossed(2), tossed(3)
    assert not few.is_determined
    assert enough.is_determined
    assert np.isfinite(enough.poses).all()
    assert "Crosses" in few.sentence
    assert "Pale" in enough.sentence


def test_markers_stand_where_they_were_measured() -> None:
    shown = tossed(2)
    first, last = shown.markers
    t, step = shown.trajectory, shown.frames[10]
    np.testing.assert_allclose(shown.point(first, 10), t.observed[step, :3], atol=1e-12)
    np.testing.assert_allclose(shown.point(last, 10)[[0, 2]], t.observed[step, 3:], atol=1e-12)
    blind = replace(shown, trajectory=replace(t, observed=np.full_like(t.observed, np.nan)))
    assert blind.point(first, 10) is None


# --- what is shown ---


@pytest.mark.parametrize(
    ("t", "count", "pace"),
    [
        (np.arange(0, 25, 0.004), 200, 0.05),
        (3 + np.arange(0, 4.0001, 0.01), 80, 0.05),
        (np.arange(0, 0.5001, 0.001), 50, 0.01),
        (np.arange(0, 5.01, 0.1), 100, 0.05),
    ],
)
def test_frames_keep_the_pace(t: Any, count: int, pace: float) -> None:
    steps = moments(t)
    assert len(steps) == count
    assert slowness(float(t[-1] - t[0])) == round(0.05 / pace)
    np.testing.assert_allclose(t[steps], t[0] + pace * np.arange(count), atol=np.diff(t)[0] / 2 + 1e-9)


def test_planar_motion_is_seen_on_its_plane() -> None:
    s = solution()
    assert s.mechanism is not None
    view = view_of(s.mechanism, s.trajectories[0].q)
    assert view.labels == ("x [m]", "z [m]")
    np.testing.assert_allclose(view.rows, [[1, 0, 0], [0, 0, 1]], atol=1e-3)
    aside = replace(s.mechanism, gravity=(0.0, 9.81, 0.0))  # which pulls across the plane: seen from above
    assert set(view_of(aside, s.trajectories[0].q).labels) == {"x [m]", "z [m]"}
    assert not view_of(tossed(3).parts, tossed(3).estimated).is_flat


def test_motion_along_a_line_is_seen_with_gravity_down() -> None:
    s = solution()
    assert s.mechanism is not None
    q = np.tile([0, 0, 0, 1.0, 0, 0, 0], (50, 1, 1))
    q[:, 0, 1] = np.linspace(-1, 1, 50)
    assert view_of(s.mechanism, q).labels == ("y [m]", "z [m]")


def test_the_first_recordings_are_shown_and_the_others_told() -> None:
    many = solution().changed(trajectories=6 * solution().trajectories, measured=6 * solution().measured)
    assert len(animation.films(many)) == 4
    assert animation.omitted(many) == "2 more recordings not animated."
    assert animation.omitted(solution()) == ""
    assert animation.films(solution().changed(mechanism=None)) == []


# --- files ---


_FILE = """
import sys
sys.path.insert(0, {tests!r})
from solutions import pendulum_problem, recording
from spookid import Recording
r = recording()
short = Recording(r.t[:40], {{"theta": r.signal("theta")[:40]}}, "short")
problem = pendulum_problem().with_(recordings=[short])
"""


@pytest.fixture(scope="module")
def short() -> Iterator[None]:
    """Animations end after a tenth of a second of motion, as those of long motions do later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spookid.results.trajectory.LONGEST", 0.1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, short: None) -> Path:
    """Results with an animation, other figures of which cost no time."""
    home = tmp_path_factory.mktemp("animated")
    (home / "swing.py").write_text(_FILE.format(tests=str(Path(__file__).parents[1])))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (plots, "fit"),
            (plots, "convergence"),
            (plots, "parameters"),
            (diagnostic_plots, "influence_figure"),
        ):
            patch.setattr(module, name, lambda _: Figure(figsize=(1, 1)))
        assert main(["solve", str(home / "swing.py"), "--animate", "--quiet", "--out", str(home / "out")]) == 0
    return home / "out"


def test_the_file_repeats_itself_and_keeps_the_pace(folder: Path) -> None:
    with Image.open(folder / "animation_0.gif") as image:
        assert image.info["loop"] == 0
        frames, total = [], 0
        for k in range(image.n_frames):
            image.seek(k)
            total += image.info["duration"]
            frames.append(np.asarray(image.convert("RGB")))
    assert total == 50 * len(moments(np.arange(40) * 0.01))  # [ms]; frames that look alike may be one
    assert all(np.any(one != other) for one, other in pairwise(frames))
    assert (folder / "animation_0.gif").stat().st_size < 3e6


def test_a_report_shows_the_motion(folder: Path) -> None:
    content = (folder / "animation_0.gif").read_bytes()
    (folder / "animation_0.gif").unlink()
    assert main(["report", str(folder), "--animate"]) == 0
    assert (folder / "animation_0.gif").read_bytes() == content
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert html.count("data:image/gif;base64,") == 1
    assert "<script" not in html
    assert re.search(r"<h2>Motion</h2>.*short, as it was estimated\. Pale: the pose that measured", html, re.DOTALL)


def test_a_folder_without_motion_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (tmp_path / "sweep.json").write_text('{"schema": 2, "problem": "p"}')
    assert main(["report", str(tmp_path), "--animate"]) == 2
    assert re.search(r"holds no solution, and only .*; give a folder that spookid solve wrote", capsys.readouterr().err)
    tree = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("trajectory.npz", "sensitivities.npz"):
        (bare / name).write_bytes((folder / name).read_bytes())
    (bare / "solution.json").write_text(json.dumps({**tree, "mechanism": None}))
    assert main(["report", str(bare), "--animate"]) == 2
    assert "bare holds no mechanism in motion to animate; solve the problem again" in capsys.readouterr().err
    assert not (bare / "report.html").exists()
