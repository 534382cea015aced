"""Estimates of continuous time: data of an exact integrator, and the quick start's own truth."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Parameter,
    Problem,
    Recording,
    Status,
    Variational,
    gravity,
    load_problem,
)

TRUTH = {"J": 2e-3, "b": 2e-3}
MASS, LENGTH = 0.2, 0.15
DRY = 0.01
"""Coulomb friction of twins that stick in the end [N m]."""


def rod(samples: Recording, dry: float | Parameter = 0.0, **settings: object) -> Problem:
    """A pendulum whose inertia and friction are unknown."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    body = Body("rod", mass=MASS, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), body.frame(at=(-LENGTH, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=b, coulomb=dry)
    model = Model(bodies=[body], joints=[pin], gravity=gravity(9.81))
    sensors = [HingeAngle(pin, "theta")]
    return Problem("rod", model, [samples], sensors, step=0.02, stepper=Variational(), **settings)


def exact(seed: int, sigma: float = 1e-3) -> Recording:
    """Ten seconds integrated to 1e-11, seen every 20 ms with noise of 1 mrad."""
    inertia = TRUTH["J"] + MASS * LENGTH**2

    def rates(_: float, x: np.ndarray) -> list[float]:
        return [x[1], (-MASS * 9.81 * LENGTH * np.sin(x[0]) - TRUTH["b"] * x[1]) / inertia]

    t = np.arange(0.0, 10.0, 0.02)
    motion = solve_ivp(rates, (0, t[-1]), [2.0, 0.0], "DOP853", t, rtol=1e-11, atol=1e-11)
    noise = np.random.default_rng(seed).normal(0.0, sigma, len(t))
    return Recording(t=t, signals={"theta": motion.y[0] + noise})


def sticking(seed: int, sigma: float = 1e-4) -> Recording:
    """The same with Coulomb friction, from one turning point to the next until it sticks."""
    inertia, t = TRUTH["J"] + MASS * LENGTH**2, np.arange(0.0, 10.0, 0.02)
    angle, begin, theta = 2.0, 0.0, np.empty(len(t))
    while begin < t[-1]:
        pull = -MASS * 9.81 * LENGTH * np.sin(angle)
        after = t >= begin
        theta[after] = angle
        if abs(pull) <= DRY:
            break
        way = np.sign(pull)

        def rates(_: float, x: np.ndarray, way: float = way) -> list[float]:
            return [x[1], (-MASS * 9.81 * LENGTH * np.sin(x[0]) - TRUTH["b"] * x[1] - DRY * way) / inertia]

        def turns(at: float, x: np.ndarray, begin: float = begin) -> float:
            return x[1] if at > begin else 1.0

        turns.terminal, turns.direction = True, -way
        motion = solve_ivp(
            rates, (begin, t[-1]), [angle, 0.0], "DOP853", t[after], events=turns, rtol=1e-11, atol=1e-11
        )
        theta[np.flatnonzero(after)[: len(motion.t)]] = motion.y[0]
        if motion.status != 1:
            break
        begin, angle = float(motion.t_events[0][0]), float(motion.y_events[0][0][0])
    noise = np.random.default_rng(seed).normal(0.0, sigma, len(t))
    return Recording(t=t, signals={"theta": theta + noise})


def test_the_step_is_taken_from_estimates_with_friction_that_sticks() -> None:
    problem = rod(sticking(0), Parameter("c", 1e-3, lower=0), friction="exact")
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    assert {name: solution[name].initial for name in problem.guess} == problem.guess
    assert solution.sticking["pin"] > 0.3
    assert len(solution.trajectories[0].t) == 500
    assert solution["J"].step_error > solution["J"].std_err
    assert any(finding.code == "step.extrapolated" for finding in solution.findings)
    for name, true in (*TRUTH.items(), ("c", DRY)):
        assert abs(solution[name].estimate - true) < 3 * solution[name].std_err


@pytest.mark.study
def test_the_step_is_taken_from_the_estimates() -> None:
    errors = {True: [], False: []}
    for seed in range(4):
        samples = exact(seed)
        for corrected, found in errors.items():
            solution = rod(samples, step_correction=corrected).solve()
            J = solution["J"]
            found.append((J.estimate - TRUTH["J"]) / J.std_err)
            assert len(solution.trajectories[0].t) == len(samples.t)
            assert solution.step == 0.02
            if corrected:
                assert abs((solution["b"].estimate - TRUTH["b"]) / solution["b"].std_err) < 4
    assert np.sqrt(np.mean(np.square(errors[True]))) < 2
    assert np.sqrt(np.mean(np.square(errors[False]))) > 2 * np.sqrt(np.mean(np.square(errors[True])))


def test_what_was_taken_away_is_not_told_to_be_there() -> None:
    codes = {finding.code for finding in rod(exact(0, 1e-4)).solve().findings}
    assert "step.extrapolated" in codes
    assert "step.error" not in codes


@pytest.mark.study
def test_the_quick_start_finds_its_truth() -> None:
    problem = load_problem(Path(__file__).parents[1] / "problems" / "furuta_release.py")
    assert isinstance(problem, Problem)
    solution = problem.solve(every=1)
    assert solution.status is Status.CONVERGED
    assert solution.iterations < 30
    truth = {"J_Azz": 0.003, "J_Byy": 0.004, "J_Bzz": 0.004, "b_1": 1e-3, "b_2": 1e-4, "tilt_x": 0.0, "tilt_y": 0.0}
    for name, value in truth.items():
        estimate = solution[name]
        assert abs(estimate.estimate - value) < 3 * estimate.std_err, name
    for name in ("mu_1", "mu_2"):
        assert solution[name].estimate <= 3 * np.nan_to_num(solution[name].std_err, nan=1e-5)
    assert any("continuous time" in notice for notice in solution.notices)


def test_every_so_many_steps_are_whole_numbers() -> None:
    with pytest.raises(Exception, match="every is 0"):
        rod(exact(0), every=0)


def test_an_interrupt_of_the_finer_fit_is_one() -> None:
    alone, calls = list[object](), 0
    rod(exact(0), step_correction=False).solve(callback=alone.append)

    def callback(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > len(alone):
            raise KeyboardInterrupt

    solution = rod(exact(0)).solve(callback=callback)
    assert solution.status.value == "interrupted"
    assert "before the step was taken" in solution.detail


def test_noise_is_that_over_the_declared_step() -> None:
    solution = rod(exact(0)).solve()
    for noise in solution.noise:
        if noise.kind == "disturbance":
            assert noise.std == pytest.approx(noise.density / np.sqrt(solution.step))
    assert solution.size.steps == len(solution.trajectories[0].t)
