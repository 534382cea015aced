"""Initial states: on the constraint surface, at the measured angles, with velocities that lead from pose to pose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mechanisms import Array, G, chain, furuta, mechanics, paper_twin, pendulum, skew_body
from scipy.spatial.transform import Rotation

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, PointPosition, Problem, Recording, gravity
from spookid.assembly.assembly import assemble
from spookid.assembly.constants import WIDTH_SHARE
from spookid.assembly.initialization import WIDTH_AT_REST, Guess, guess
from spookid.data.sampling import grid
from spookid.mechanics.kinematics import displacements, place, rest_positions, velocities

MODELS = {"pendulum": pendulum, "furuta": furuta, "chain": chain, "skew": skew_body}
OPEN = 1e9
"""A cutoff [Hz] above which nothing is filtered."""


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


def channels(model, sensors):
    """One for each signal."""
    return [channel for sensor in sensors for channel in sensor.channels(model)]


def swings(model: Model, t: Array) -> dict[str, Array]:
    """An angle of each hinge over time, by its name."""
    return {j.name: math.pi * np.sin(2 * t + i) + i for i, j in enumerate(model.joints)}


def guessed(model: Model, recording: Recording, names: list[str] | None = None, cutoff: float = OPEN) -> Guess:
    observed = [HingeAngle(j, j.name) for j in model.joints if names is None or j.name in names]
    return guess(model, channels(model, observed), recording, grid(recording, 0.01), {}, cutoff)


# --- poses ---


def test_poses_have_the_angles_and_violate_nothing(model):
    rng = np.random.default_rng(0)
    angles = rng.uniform(-3.1, 3.1, size=(20, len(model.joints)))
    for row, q in zip(angles, place(model, angles, {}), strict=True):
        at = mechanics(model, q, np.zeros(6 * len(model.bodies)))
        np.testing.assert_allclose(at.g, 0, atol=1e-14)
        np.testing.assert_allclose(at.angle, row, atol=1e-13)
        np.testing.assert_allclose(np.linalg.norm(q.reshape(-1, 7)[:, 3:], axis=1), 1, atol=1e-15)


def test_a_furuta_pendulum_by_hand():
    # The arm points along y, the rod hangs down from its end, 0.248 m off the axle.
    q = place(furuta(), np.array([[np.pi / 2, 0.0]]), {})[0].reshape(2, 7)
    np.testing.assert_allclose(q[0, :3], [0, 0.128, 0], atol=1e-15)
    np.testing.assert_allclose(q[1, :3], [0, 0.248, -0.092], atol=1e-15)
    # The rod's own x axis points from its centre of mass away from the hinge.
    down = Rotation.from_quat(q[1, 3:], scalar_first=True).apply([1, 0, 0])
    np.testing.assert_allclose(down, [0, 0, -1], atol=1e-15)


def test_frames_with_parameters_are_placed_by_their_values():
    length, rest = Parameter("l", 0.2), Parameter("rest", 0.1)
    rod = Body("rod", mass=1, inertia=(1, 1, 1))
    hinge = Hinge("hinge", GROUND.frame(), rod.frame(at=(0, -length, 0)), rest_angle=2 * rest)
    model = Model([rod], [hinge], gravity=gravity(9.81))
    values = {"l": 0.5, "rest": 0.3}
    np.testing.assert_array_equal(rest_positions(model, values), [0.6])
    q = place(model, np.array([[0.6]]), values)[0]
    np.testing.assert_allclose(q[:3], [0, 0.5 * np.cos(0.6), 0.5 * np.sin(0.6)], atol=1e-15)


def test_free_bodies_stand_at_the_origin_and_carry_others():
    base, arm = Body("base", 1, (1, 1, 1), free=True), Body("arm", 1, (1, 1, 1))
    hinge = Hinge("hinge", base.frame(at=(1, 0, 0)), arm.frame(at=(-1, 0, 0)))
    q = place(Model([arm, base], [hinge], gravity=gravity(9.81)), np.array([[0.3]]), {})[0].reshape(2, 7)
    np.testing.assert_allclose(q[1], [0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(q[0, :3], [2, 0, 0])


# --- velocities ---


def test_velocities_lead_from_pose_to_pose_exactly(model):
    t = np.arange(30) * 0.01
    poses = place(model, np.column_stack(list(swings(model, t).values())), {})
    v = velocities(poses, 0.01)
    assert v.shape == (30, 6 * len(model.bodies))
    np.testing.assert_array_equal(v[0], v[1])
    n = len(model.bodies)
    for k in range(29):
        before, after, step = poses[k].reshape(n, 7), poses[k + 1].reshape(n, 7), 0.01 * v[k + 1].reshape(n, 6)
        np.testing.assert_allclose(before[:, :3] + step[:, :3], after[:, :3], atol=1e-14)
        here = Rotation.from_quat(before[:, 3:], scalar_first=True) * Rotation.from_rotvec(step[:, 3:])
        there = Rotation.from_quat(after[:, 3:], scalar_first=True)
        np.testing.assert_allclose(here.as_matrix(), there.as_matrix(), atol=1e-14)


def test_velocities_tend_to_the_slip_rates(model):
    t = 0.4 + np.array([-1e-5, 0, 1e-5])
    poses = place(model, np.column_stack(list(swings(model, t).values())), {})
    v = velocities(poses, 1e-5)
    at = mechanics(model, poses[1], v[1])
    rates = [2 * math.pi * math.cos(0.8 + i) for i in range(len(model.joints))]
    np.testing.assert_allclose(at.slip @ v[1], rates, rtol=0, atol=1e-3)
    np.testing.assert_allclose(at.G @ v[1], 0, atol=5e-3)


# --- from recordings ---


def test_measured_angles_come_back_as_states(model):
    t = np.arange(101) * 0.01
    result = guessed(model, Recording(t=t, signals=swings(model, t)))
    expected = np.column_stack(list(swings(model, t).values()))
    np.testing.assert_allclose(result.displacements, expected, atol=1e-12)
    assert result.states.shape == (101, 13 * len(model.bodies))
    assert result.findings == ()
    poses = result.states[:, : 7 * len(model.bodies)]
    angle = displacements(model, poses, {})
    np.testing.assert_allclose(np.exp(1j * angle), np.exp(1j * expected), atol=1e-12)
    for q in poses:
        np.testing.assert_allclose(mechanics(model, q, np.zeros(6 * len(model.bodies))).g, 0, atol=1e-13)


def test_wrapped_angles_give_the_same_states():
    t = np.arange(101) * 0.01
    model, theta = pendulum(), 12 * t
    plain = guessed(model, Recording(t=t, signals={"hinge": theta}))
    wrapped = guessed(model, Recording(t=t, signals={"hinge": (theta + np.pi) % (2 * np.pi) - np.pi}))
    np.testing.assert_allclose(wrapped.displacements, plain.displacements, atol=1e-9)
    np.testing.assert_allclose(wrapped.states[:, 7:], plain.states[:, 7:], atol=1e-9)


def test_irregular_times_are_interpolated():
    rng = np.random.default_rng(1)
    t = np.sort(np.concatenate([[0, 1], rng.uniform(0, 1, 800)]))
    model = furuta()
    result = guessed(model, Recording(t=t, signals=swings(model, t)))
    expected = np.column_stack(list(swings(model, np.arange(101) * 0.01).values()))
    np.testing.assert_allclose(result.displacements, expected, atol=5e-3)


def test_noise_is_filtered_and_the_motion_is_not():
    t = np.arange(2001) * 1e-3
    clean = np.sin(2 * t)
    noisy = clean + 0.01 * np.random.default_rng(2).normal(size=len(t))
    result = guessed(pendulum(), Recording(t=t, signals={"hinge": noisy}), cutoff=10.0)
    error = result.displacements[:, 0] - clean[::10]
    assert np.sqrt(np.mean(error[10:-10] ** 2)) < 0.003


def test_missing_samples_are_bridged():
    t = np.arange(101) * 0.01
    theta = np.sin(2 * t)
    theta[40:45] = np.nan
    result = guessed(pendulum(), Recording(t=t, signals={"hinge": theta}))
    assert np.all(np.isfinite(result.states))
    np.testing.assert_allclose(result.displacements[:, 0], np.sin(2 * t), atol=2e-3)


def test_a_hinge_that_is_not_observed_starts_at_rest_with_a_notice():
    model = furuta(elbow={"rest_angle": -0.4})
    t = np.arange(101) * 0.01
    result = guessed(model, Recording(t=t, signals=swings(model, t)), names=["shoulder"])
    np.testing.assert_array_equal(result.displacements[:, 1], -0.4)
    (finding,) = result.findings
    assert (finding.code, finding.subject) == ("start.unobserved", ("elbow",))
    assert finding.text == "Hinge 'elbow' is not observed; it starts from its rest angle."


def test_the_notice_reaches_the_solution_once():
    b = Parameter("b", 1e-3, lower=0)
    problem = paper_twin(furuta(shoulder={"viscous": b}), {"b": 1e-3}, initial={"elbow": 1.0}, duration=0.3)
    problem = problem.with_(observations=problem.observations[:1], recordings=problem.recordings * 2)
    notices = [n for n in problem.solve(max_iterations=2).notices if "elbow" in n]
    assert len(notices) == 1


# --- what hinge angles alone do not place ---


def four_bar() -> Model:
    """Bars of 1 and 3 m and a rocker of √5 m to a ground hinge at (4, 0), about parallel axles along z."""
    axle = {"x": (0, 0, 1), "y": (1, 0, 0)}
    lengths = {"crank": 1.0, "coupler": 3.0, "rocker": math.sqrt(5)}
    bars = {name: Body(name, mass=1, inertia=(1, 1, 1)) for name in lengths}
    start = {name: bars[name].frame(at=(-length / 2, 0, 0), **axle) for name, length in lengths.items()}
    end = {name: bars[name].frame(at=(length / 2, 0, 0), **axle) for name, length in lengths.items()}
    joints = [
        Hinge("A", GROUND.frame(**axle), start["crank"]),
        Hinge("B", end["crank"], start["coupler"]),
        Hinge("C", end["coupler"], end["rocker"]),
        Hinge("D", GROUND.frame(at=(4, 0, 0), **axle), start["rocker"]),
    ]
    return Model(list(bars.values()), joints, gravity=gravity(9.81))


def test_loops_are_closed_along_the_measurement():
    t = np.arange(101) * 0.01
    crank = 0.3 + np.sin(2 * t)
    model = four_bar()
    result = guessed(model, Recording(t=t, signals={"A": crank}), names=["A"])
    np.testing.assert_allclose(result.displacements[:, 0], crank, atol=1e-9)
    for q in result.states[:, :21]:
        np.testing.assert_allclose(mechanics(model, q, np.zeros(18)).g, 0, atol=1e-9)
    assert np.abs(np.diff(result.displacements, axis=0)).max() < 0.1


def test_points_place_a_pendulum():
    model = pendulum(length=0.2)
    tip = model.bodies[0].frame(at=(0.1, 0, 0))
    t = np.arange(101) * 0.01
    theta = 0.5 * np.sin(2 * t) + 0.1
    recording = Recording(t=t, signals={"x": -0.3 * np.sin(theta), "z": -0.3 * np.cos(theta)})
    sensors = [PointPosition(tip, axis, axis) for axis in ("x", "z")]
    result = guess(model, channels(model, sensors), recording, grid(recording, 0.01), {}, OPEN)
    np.testing.assert_allclose(result.displacements[:, 0], theta, atol=1e-9)


# --- friction widths ---


def test_friction_widths_follow_the_slip_rates_of_the_guess():
    t = np.arange(201) * 0.01
    model = furuta(shoulder={"coulomb": 0.1}, elbow={"coulomb": 0.1})
    observations = [HingeAngle(j, j.name) for j in model.joints]
    recording = Recording(t=t, signals={"shoulder": np.sin(3 * t), "elbow": np.full(201, 0.5)})
    problem = Problem("p", model=model, recordings=[recording], observations=observations, cutoff=1e3)

    def widths(p: Problem) -> list[float]:
        """Of both hinges' slip rates, and of the impulses."""
        assembly = assemble(p)
        symbols = [*(assembly.settings.slip_width[j] for j in range(2)), assembly.settings.impulse_width]
        numbers = {c.symbol.name(): c.value for c in assembly.constants}
        return [numbers[symbol.name()] for symbol in symbols]

    rate = np.sqrt(np.mean(np.diff(np.sin(3 * t)) ** 2)) / 0.01
    weight = (0.238 + 0.428) * G
    np.testing.assert_allclose(widths(problem), [WIDTH_SHARE * rate, WIDTH_AT_REST, 1e-5 * weight], rtol=1e-3)
    assert widths(problem.with_(friction_width=0.2))[:2] == [0.2, 0.2]
