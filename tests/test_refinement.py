"""Simulations of continuous time: against an integrator of another make, on loops, and where they cannot be had."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Motor, Problem, ProblemError, Recording, Spook, gravity

J, B, C, K, MASS, LENGTH, WIDTH = 2e-3, 2e-3, 5e-3, 0.05, 0.2, 0.15, 0.1
STEP = 0.02


def rod(**settings: object) -> Problem:
    """A driven pendulum with viscous and Coulomb friction."""
    body = Body("rod", mass=MASS, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=B, coulomb=C)
    model = Model(bodies=[body], joints=[pin], motors=[Motor(pin, signal="u", gain=K)], gravity=gravity(9.81))
    return Problem("rod", model, observations=[HingeAngle(pin, "theta")], step=STEP, friction_width=WIDTH, **settings)


def voltage() -> Recording:
    """Held for 50 ms, and changed at times of its own."""
    t = 0.05 * np.arange(60) + np.where(np.arange(60) > 0, 0.0137, 0.0)
    return Recording(t=t, signals={"u": np.sin(7 * t)})


def reference(t: np.ndarray) -> np.ndarray:
    """The angle by an integrator of order eight, restarted where the voltage changes."""
    drive, x, found = voltage(), np.array([1.5, 0.0]), []
    for start, end, u in zip(drive.t[:-1], drive.t[1:], drive.signals["u"][:-1], strict=True):

        def rates(_: float, x: np.ndarray, u: float = float(u)) -> list[float]:
            torque = K * u - MASS * 9.81 * LENGTH * np.sin(x[0]) - B * x[1] - C * np.tanh(x[1] / WIDTH)
            return [x[1], torque / (J + MASS * LENGTH**2)]

        inside = t[(t >= start - 1e-9) & (t < end - 1e-9)]
        seen = [*np.maximum(inside, start), end]
        run = solve_ivp(rates, (start, end), x, "DOP853", seen, rtol=1e-11, atol=1e-12)
        found.append(run.y[0][:-1])
        x = run.y[:, -1]
    return np.concatenate(found)


def test_a_driven_pendulum_with_friction_moves_as_in_continuous_time() -> None:
    run = rod().simulate(duration=2.0, initial={"pin": 1.5}, inputs=voltage())
    assert np.max(np.abs(run.signals["theta"] - reference(run.t))) < 3e-6
    coarse = rod().simulate(duration=2.0, initial={"pin": 1.5}, inputs=voltage(), substeps=1)
    assert np.max(np.abs(coarse.signals["theta"] - reference(run.t))) > 1e-3


def test_velocities_are_those_of_continuous_time_too() -> None:
    run = rod().simulate(duration=1.0, initial={"pin": 1.5})
    fine = rod(every=1).simulate(duration=1.0, initial={"pin": 1.5}, step=1e-4, substeps=1)
    np.testing.assert_allclose(run.v[:-1], fine.v[::200][:-1], atol=2e-5)


@pytest.mark.study
def test_loops_hold_and_velocities_lie_along_them() -> None:
    model = linkage(LENGTHS, BASE, MASSES, [2e-4, 2.5e-3, 4e-3], compliance=0)
    sensors = [HingeAngle(joint, signal=joint.name) for joint in model.joints]
    problem = Problem("loop", model, observations=sensors, step=5e-3)
    run = problem.simulate(duration=0.2, initial=closed(LENGTHS, BASE, 0.5))
    fine = problem.simulate(duration=0.2, initial=closed(LENGTHS, BASE, 0.5), step=5e-5, substeps=1)
    for signal, angle in run.signals.items():
        np.testing.assert_allclose(angle, fine.signals[signal][::100], atol=5e-6)


def test_random_impulses_are_those_of_the_steps() -> None:
    noise = {"pin": 1e-2, "theta": 0.0}
    whole = rod().simulate(duration=1.0, initial={"pin": 0.5}, noise=noise, seed=3)
    fine = rod().simulate(duration=1.0, initial={"pin": 0.5}, noise=noise, seed=3, substeps=32)
    np.testing.assert_allclose(whole.signals["theta"], fine.signals["theta"], atol=1e-4)
    other = rod().simulate(duration=1.0, initial={"pin": 0.5}, noise=noise, seed=4)
    assert np.max(np.abs(whole.signals["theta"] - other.signals["theta"])) > 1e-2


@pytest.mark.parametrize("settings", [{"stepper": Spook(), "state_weight": 1e4}, {"friction": "exact"}])
def test_steps_that_belong_to_the_model_are_taken_as_they_are(settings: dict[str, object]) -> None:
    runs = [rod(**settings).simulate(duration=0.5, initial={"pin": 1.5}, **more) for more in ({}, {"substeps": 1})]
    np.testing.assert_array_equal(runs[0].signals["theta"], runs[1].signals["theta"])


@pytest.mark.parametrize("substeps", [0, -1, 1.5, "two"])
def test_a_number_of_substeps_is_whole(substeps: object) -> None:
    with pytest.raises(ProblemError, match="substeps is"):
        rod().simulate(duration=0.5, initial={"pin": 1.5}, substeps=substeps)  # type: ignore[arg-type]
