"""Forward simulation: physics it must reproduce, where it may start, and how it fails."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import PAPER, Array, G, chain, free_body, furuta, hub, joint_state, mechanics, paper_twin, pendulum
from scipy.integrate import solve_ivp

from spookid import HingeAngle, Model, Parameter, Problem, ProblemError, Recording, StepFailedError

J, M, L = 0.005, 0.5, 0.2
"""The pendulum's inertia [kg m²], mass [kg] and distance to its hinge [m]."""
STIFF = {"compliance": 1e-8, "damping": 0.02}


def problem(model: Model, step: float = 0.01, **settings: object) -> Problem:
    """Every hinge's angle observed under the hinge's name, by default with the settings of the paper."""
    observations = [HingeAngle(joint, signal=joint.name) for joint in model.joints]
    return Problem("run", model=model, observations=observations, step=step, **{**PAPER, **settings})


# --- physics ---


def test_small_swings_have_the_period_of_the_textbook():
    run = problem(pendulum(**STIFF), 1e-3).simulate(duration=3, initial={"hinge": 0.01})
    theta, t = run.signals["hinge"], run.t
    before = np.flatnonzero(np.diff(np.sign(theta)))
    crossings = t[before] - theta[before] * 1e-3 / (theta[before + 1] - theta[before])
    expected = 2 * np.pi * np.sqrt((J + M * L**2) / (M * G * L))
    assert len(crossings) >= 4
    np.testing.assert_allclose(2 * np.diff(crossings), expected, rtol=3e-5)
    assert np.abs(theta).max() == pytest.approx(0.01, rel=1e-3)


def energy(run: Recording) -> Array:
    """Of the pendulum, zero at rest [J]."""
    velocity, omega = run.v[:, 0, :3], run.v[:, 0, 3:]
    return 0.5 * M * np.sum(velocity**2, axis=1) + 0.5 * omega**2 @ [1e-4, J, J] + M * G * (run.q[:, 0, 2] + L)


def test_energy_drifts_with_the_step_only():
    drifts = []
    for step in (2e-3, 1e-3):
        now = energy(problem(pendulum(**STIFF), step).simulate(duration=2, initial={"hinge": 2.5}))
        drifts.append(np.ptp(now) / now[0])
    assert drifts[0] < 0.02
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.1)


def test_large_damped_swings_tend_to_the_exact_ones():
    b, c, width = 0.004, 0.01, 0.05

    def swing(_: float, x: Array) -> Array:
        torque = -M * G * L * np.sin(x[0]) - b * x[1] - c * np.tanh(x[1] / width)
        return np.array([x[1], torque / (J + M * L**2)])

    exact = solve_ivp(swing, (0, 1), [2.0, 1.0], rtol=1e-10, atol=1e-12).y[0, -1]
    errors = []
    for step in (2e-3, 1e-3):
        model = pendulum(viscous=b, coulomb=c, **STIFF)
        run = problem(model, step, friction_width=width).simulate(duration=1, initial={"hinge": (2.0, 1.0)})
        errors.append(abs(run.signals["hinge"][-1] - exact))
    assert errors[0] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)


def test_friction_brings_a_hub_to_rest():
    run = problem(hub(coulomb=0.01), friction_width=1e-4).simulate(duration=1, initial={"hinge": (0, 2)})
    # Rate falls by c/J = 5 rad/s², so it stops after 0.4 s at about s²/(2 c/J).
    assert np.abs(run.v[45:, 0, 4]).max() < 1e-6
    assert run.signals["hinge"][-1] == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize("compliance", [0.0, 1e-10, 1e-4])
def test_chains_stay_together(compliance):
    run = problem(chain(compliance=compliance)).simulate(duration=0.5, initial={"a": 1.0, "c": (-0.5, 2.0)})
    model = chain()
    violations = [np.abs(mechanics(model, q.ravel(), np.zeros(30)).g).max() for q in run.q]
    assert max(violations) < 0.01 + 100 * compliance
    assert np.all(np.isfinite(run.q))


def test_a_thrown_body_flies_on():
    model = free_body()
    q, v = np.array([[0, 0, 1.0, 1, 0, 0, 0]]), np.array([[1.0, 2.0, 3.0, 0, 0, 5.0]])
    joint = pendulum()
    both = Model([*model.bodies, *joint.bodies], joint.joints, gravity=model.gravity)
    hanging = np.concatenate(joint_state(joint, [0], [0]))
    run = problem(both).simulate(duration=0.5, initial=(np.vstack([q, hanging[:7]]), np.vstack([v, hanging[7:]])))
    n = np.arange(51)
    np.testing.assert_allclose(run.q[:, 0, 0], 0.01 * n, atol=1e-12)
    np.testing.assert_allclose(run.q[:, 0, 2], 1 + 0.03 * n - G * 1e-4 * n * (n + 1) / 2, atol=1e-12)
    np.testing.assert_allclose(run.q[:, 0, 6], np.sin(5 * 0.01 * n / 2), atol=1e-12)


def test_inputs_are_held_and_drive_the_motor():
    inputs = Recording(t=[0, 0.02, 0.03], signals={"u": [1.0, 0.0, -1.0]})
    run = problem(hub(inertia=0.002, motor={"gain": 0.1})).simulate(duration=0.05, inputs=inputs)
    np.testing.assert_array_equal(run.signals["u"], [1, 1, 0, -1, -1, -1])
    pushes = 0.01 * 0.1 / 0.002 * np.array([0, 1, 1, 0, -1, -1])
    np.testing.assert_allclose(run.v[:, 0, 4], np.cumsum(pushes), atol=1e-12)
    still = problem(hub(motor={"gain": 0.1})).simulate(duration=0.05)
    np.testing.assert_array_equal(still.v, 0)


# --- where it starts ---


def test_angles_and_rates_are_where_it_starts():
    run = problem(furuta()).simulate(duration=0.1, initial={"shoulder": (0.3, 2.0), "elbow": -1.0})
    q, v = joint_state(furuta(), [0.3, -1.0], [2.0, 0.0])
    np.testing.assert_allclose(run.q[0].ravel(), q, atol=1e-14)
    np.testing.assert_allclose(run.v[0].ravel(), v, atol=1e-13)
    assert run.signals["shoulder"][0] == pytest.approx(0.3)
    assert run.signals["elbow"][0] == pytest.approx(-1.0)
    assert (len(run.t), run.t[-1]) == (11, pytest.approx(0.1))


def test_hinges_not_named_start_at_their_rest_angle():
    run = problem(furuta(elbow={"rest_angle": 0.7})).simulate(duration=0.1, initial={"shoulder": 1.0})
    assert run.signals["elbow"][0] == pytest.approx(0.7)
    run = problem(pendulum(rest_angle=Parameter("rest", 0.2))).simulate({"rest": 0.4}, duration=0.1)
    assert run.signals["hinge"][0] == pytest.approx(0.4)


def test_states_it_gave_are_states_it_takes():
    swing = problem(furuta())
    whole = swing.simulate(duration=0.4, initial={"elbow": 2.0})
    rest = swing.simulate(duration=0.2, initial=(whole.q[20], whole.v[20]))
    np.testing.assert_allclose(rest.q, whole.q[20:], atol=1e-10)
    np.testing.assert_allclose(rest.signals["elbow"], whole.signals["elbow"][20:], atol=1e-10)


def test_angles_run_on_over_whole_turns():
    run = problem(hub()).simulate(duration=2, initial={"hinge": (0, 10.0)})
    np.testing.assert_allclose(run.signals["hinge"], 10 * run.t, atol=1e-6)


@pytest.fixture(scope="module")
def swung() -> Problem:
    b = Parameter("b", 1e-3, lower=0)
    return paper_twin(pendulum(viscous=b), {"b": 0.004}, initial={"hinge": 1.0}, noise=1e-3)


def test_replays_of_a_solution_follow_the_measurement(swung):
    solution = swung.solve()
    replay = swung.simulate(solution)
    np.testing.assert_allclose(replay.q[0], solution.trajectories[0].q[0])
    assert len(replay.t) == len(swung.recordings[0].t)
    assert np.sqrt(np.mean((replay.signals["hinge"] - swung.recordings[0].signals["hinge"]) ** 2)) < 0.005
    again = swung.simulate({"b": solution["b"].estimate}, initial=solution)
    np.testing.assert_array_equal(again.q, replay.q)


def test_a_recording_gives_the_start_and_the_duration(swung):
    run = swung.simulate({"b": 0.004})
    np.testing.assert_allclose(run.t, swung.recordings[0].t)
    assert run.signals["hinge"][0] == pytest.approx(swung.recordings[0].signals["hinge"][0], abs=0.01)
    assert len(swung.simulate(duration=0.5).t) == 51


def test_a_recording_that_is_not_there_is_refused(swung):
    with pytest.raises(ProblemError, match="recording"):
        swung.simulate(recording=3)
    with pytest.raises(ProblemError, match="recording is 'loaded'; give a whole number"):
        swung.simulate(recording="loaded")


def test_values_may_leave_the_bounds(swung):
    assert swung.simulate({"b": -0.02}, initial={"hinge": 1.0}).signals["hinge"].max() > 1.1


def test_progress_is_shown(swung):
    seen = []

    def progress(steps: range) -> range:
        seen.append(len(steps))
        return steps

    swung.simulate(duration=1.0, progress=progress)
    assert seen == [100]


def test_steps_in_c_are_those_of_python(by_c, monkeypatch):
    run = problem(furuta(elbow={"coulomb": 0.01}), 0.005, friction_width=1e-2)
    start = {"shoulder": (0.0, 2.0), "elbow": (1.5, 0.0)}
    found = run.simulate(duration=0.5, initial=start)
    monkeypatch.setenv("SPOOKID_NATIVE", "off")
    plain = run.simulate(duration=0.5, initial=start)
    np.testing.assert_allclose(found.q, plain.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.v, plain.v, rtol=0, atol=1e-6)


# --- how it fails ---


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_a_body_without_inertia_fails():
    p = Parameter("p", 1.0)
    model = hub(inertia=p * p)
    with pytest.raises(StepFailedError):
        problem(model).simulate({"p": 0.0}, duration=0.1, initial={"hinge": (0, 1.0)})
