"""The mechanism in motion: poses that were measured, and the scene of the report."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
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
from spookid.assembly.assembly import assemble
from spookid.assembly.outlining import measured_poses, mechanism
from spookid.assembly.trajectories import trajectories
from spookid.report import motion
from spookid.report.motion import Film
from spookid.results.trajectory import moments, slowness

# --- poses ---


def film(problem: Problem) -> Film:
    """Of the start of a problem's fit."""
    assembly = assemble(problem)
    moved = trajectories(assembly, assembly.start)
    (found,) = measured_poses(assembly, assembly.start, moved)
    parts = mechanism(problem, assembly.values(assembly.start))
    return Film(parts, moved[0], found.frames.astype(np.int64), found.poses, "start")


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


def places(figure: Any, k: int) -> dict[str, np.ndarray]:
    """Points of each trace in a frame, (n, 3), those that are missing left out."""
    names = [trace["name"] for trace in figure["data"]]
    found = {}
    for name, data in zip(names, figure["frames"][k]["data"], strict=True):
        points = np.array([data[axis] for axis in "xyz"], dtype=float).T
        found[name] = points[np.isfinite(points).all(axis=1)]
    return found


def test_bodies_of_a_scene_go_from_centres_of_mass_to_joints() -> None:
    shown = film(crank())
    figure = motion.scene(shown)["figure"]
    assert len(figure["frames"]) == len(shown.frames) == len(figure["layout"]["sliders"][0]["steps"])
    drawn, theta = places(figure, 20), shown.trajectory.q[shown.frames[20], 0, :3]
    np.testing.assert_allclose(drawn["crank"][0], theta, atol=1e-4)
    np.testing.assert_allclose(drawn["joints"], [[0, 0, 0], [0.3, 0, 0]], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(np.diff(drawn["constraints"], axis=0)), 0.4, atol=1e-3)
    np.testing.assert_allclose(drawn["measured"][0], shown.poses[20, 0, :3], atol=1e-4)
    low, high = np.array([figure["layout"]["scene"][f"{axis}axis"]["range"] for axis in "xyz"]).T
    for k in range(len(shown.frames)):
        for points in places(figure, k).values():
            assert ((low <= points) & (points <= high)).all()


def test_gravity_points_down_and_motion_on_a_plane_is_seen_from_its_side() -> None:
    space = motion.scene(film(crank()))["figure"]["layout"]["scene"]
    camera = space["camera"]
    assert space["dragmode"] == "turntable"
    assert [camera["up"][axis] for axis in "xyz"] == pytest.approx([0, 0, 1])
    eye = np.array([camera["eye"][axis] for axis in "xyz"])
    assert np.argmax(np.abs(eye)) == 1  # the mechanism moves in the plane of x and z
    assert np.cross([0, 0, 1], eye)[0] > 0  # and x points to the right
    swung = film(crank())
    aside = replace(swung, parts=replace(swung.parts, gravity=(0.0, -9.81, 0.0)))
    space = motion.scene(aside)["figure"]["layout"]["scene"]
    assert [space["camera"]["up"][axis] for axis in "xyz"] == pytest.approx([0, 1, 0])
    assert space["dragmode"] == "orbit"


def test_points_that_were_measured_are_in_the_scene() -> None:
    figure = motion.scene(tossed(2))["figure"]
    assert "measured" not in places(figure, 0)
    np.testing.assert_allclose(
        places(figure, 10)["measured points"][0], tossed(2).point(tossed(2).markers[0], 10), atol=1e-4
    )


def test_the_first_recordings_are_shown_and_the_others_told() -> None:
    many = solution().changed(trajectories=6 * solution().trajectories, measured=6 * solution().measured)
    assert len(motion.films(many)) == 4
    assert motion.omitted(many) == "2 more recordings not animated."
    assert motion.omitted(solution()) == ""
    assert motion.films(solution().changed(mechanism=None)) == []
