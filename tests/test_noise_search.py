"""Sizes of noise and parameters found together, on twins whose noise is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import furuta, pendulum

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    Model,
    Noise,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Status,
    gravity,
)

TRUTH = {"J": 0.005, "b": 0.01}
GUESS = {"J": 0.006, "b": 0.008}
FURUTA = {"J_A": 0.003, "J_B": 0.004, "b_1": 5e-3, "b_2": 5e-3}


def rod(sigma: float | None = None, **hinge: Any) -> Problem:
    """A pendulum whose inertia and friction are unknown."""
    p = {name: Parameter(name, guess, lower=1e-6) for name, guess in GUESS.items()}
    model = pendulum(inertia=p["J"], viscous=p["b"], **hinge)
    return Problem(
        "rod", model, observations=[HingeAngle(model.joints[0], "theta", sigma=sigma)], step=0.01, step_correction=False
    )


def swung(problem: Problem, pin: float, theta: float, seed: int = 1, duration: float = 6.0) -> Problem:
    """With a recording of the truth from 1.5 rad, disturbed at the hinge [N m/√Hz] and seen with noise [rad]."""
    run = problem.simulate(TRUTH, duration, {"hinge": 1.5}, noise={"hinge": pin, "theta": theta}, seed=seed)
    return problem.with_(recordings=[run])


@cache
def found(pin: float, theta: float, seed: int = 1) -> Solution:
    return swung(rod(), pin, theta, seed).solve()


def size(solution: Solution, *names: str) -> Noise:
    """The noise of these names."""
    return next(noise for noise in solution.noise if noise.names == names)


def near(solution: Solution, truth: Mapping[str, float]) -> None:
    """Estimates are within four standard errors of the truth, less what the step adds, and these are no excuse."""
    for name, value in truth.items():
        estimate = solution[name]
        assert abs(estimate.estimate - estimate.step_error - value) < 4 * estimate.std_err
        assert estimate.std_err < 0.25 * value


def told(noise: Noise, truth: float) -> None:
    """A size is found within 15 %, and within four of its standard errors."""
    value = noise.density if noise.kind == "disturbance" else noise.std
    assert value == pytest.approx(truth, rel=0.15)
    assert abs(math.log(value / truth)) < 4 * noise.error


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.study) for seed in (2, 3))])
@pytest.mark.parametrize(("pin", "theta"), [(1e-2, 1e-3), pytest.param(5e-3, 2e-4, marks=pytest.mark.study)])
def test_sizes_and_parameters_of_a_pendulum_are_found(pin, theta, seed):
    solution = found(pin, theta, seed)
    assert solution.status is Status.CONVERGED
    assert solution.dynamics == "estimated"
    told(size(solution, "hinge"), pin)
    told(size(solution, "theta"), theta)
    near(solution, TRUTH)


def test_disturbances_are_stated_for_a_step_and_per_root_hertz():
    noise = size(found(1e-2, 1e-3), "hinge")
    assert noise.kind == "disturbance"
    assert noise.unit == "N m"
    assert noise.std == pytest.approx(noise.density / math.sqrt(0.01))
    assert math.isnan(size(found(1e-2, 1e-3), "theta").density)


@pytest.mark.study
def test_a_density_does_not_depend_on_the_step():
    problem = swung(rod(), 1e-2, 1e-3)
    coarse = problem.solve(step=0.02)
    told(size(coarse, "hinge"), 1e-2)
    assert size(coarse, "hinge").density == pytest.approx(size(found(1e-2, 1e-3), "hinge").density, rel=0.1)


def test_where_nothing_disturbs_there_is_no_disturbance():
    solution = found(0.0, 1e-3)
    assert solution.status is Status.CONVERGED
    assert size(solution, "hinge").density < 1e-4
    told(size(solution, "theta"), 1e-3)
    near(solution, TRUTH)


@pytest.mark.study
def test_where_disturbances_dominate_the_sensor_is_not_seen():
    solution = found(5e-2, 1e-5)
    assert solution.status is Status.CONVERGED
    told(size(solution, "hinge"), 5e-2)
    assert size(solution, "theta").std < 1e-4
    assert all(abs(solution[name].estimate - value) < 4 * solution[name].std_err for name, value in TRUTH.items())


@pytest.mark.study
@pytest.mark.parametrize("initial", [{"J": 0.003, "b": 0.05}, {"J": 0.02, "b": 1e-4}, {"J": 0.01, "b": 0.02}])
def test_all_starts_lead_to_one_answer(initial):
    one, other = found(1e-2, 1e-3), swung(rod(), 1e-2, 1e-3).solve(initial=initial)
    assert other.status is Status.CONVERGED
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-3)
    for name in TRUTH:
        assert abs(other[name].estimate - one[name].estimate) < 0.03 * one[name].std_err
    for a, b in zip(one.noise, other.noise, strict=True):
        assert abs(math.log(a.std / b.std)) < 0.03 * a.error


def test_a_warm_start_is_at_the_end():
    one = found(1e-2, 1e-3)
    again = swung(rod(), 1e-2, 1e-3).solve(warm_start=one)
    assert again.status is Status.CONVERGED
    assert again.iterations <= 2
    assert again.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-3)


def spinning(noise: Mapping[str, float], seed: int, duration: float, prefix: str = "") -> Problem:
    """A Furuta pendulum released from rest; signals are called as the hinges, behind a prefix."""
    p = {name: Parameter(name, 1.2 * value, lower=1e-9) for name, value in FURUTA.items()}
    model = furuta(inertias=(p["J_A"], p["J_B"], 0.004), shoulder={"viscous": p["b_1"]}, elbow={"viscous": p["b_2"]})
    sensors = [HingeAngle(joint, f"{prefix}{joint.name}") for joint in model.joints]
    problem = Problem("furuta", model, observations=sensors, step=0.01, step_correction=False)
    run = problem.simulate(FURUTA, duration, {"shoulder": 0.3, "elbow": 2.0}, noise=noise, seed=seed, substeps=1)
    return problem.with_(recordings=[run])


@pytest.mark.parametrize("seed", [1, 2])
def test_sizes_and_parameters_of_a_furuta_pendulum_are_found(seed):
    noise = {"shoulder": 1e-2, "elbow": 1e-2, "angle of shoulder": 1e-3, "angle of elbow": 2e-3}
    solution = spinning(noise, seed, 6.0, "angle of ").solve()
    assert solution.status is Status.CONVERGED
    told(size(solution, "shoulder", "elbow"), 1e-2)
    for name in ("angle of shoulder", "angle of elbow"):
        told(size(solution, name), noise[name])
    for name, value in FURUTA.items():
        assert abs(solution[name].estimate - value) < 4 * solution[name].std_err


def test_disturbances_are_told_apart_where_they_differ():
    # Hinges and signals have the same names: each number is that of a disturbance and of a sensor.
    solution = spinning({"shoulder": 2e-2, "elbow": 1e-3}, 5, 4.0).solve()
    assert solution.status is Status.CONVERGED
    kinds = [(noise.kind, noise.names) for noise in solution.noise]
    assert kinds == [(kind, (name,)) for kind in ("disturbance", "sensor") for name in ("shoulder", "elbow")]
    assert solution.noise[0].density > 5 * solution.noise[1].density
    assert solution.noise[2].std > 5 * solution.noise[3].std


# --- what is known ---


def test_no_sensor_is_finer_than_it_resolves():
    problem = swung(rod(), 1e-3, 1e-9)
    (run,) = problem.recordings
    rounded = run.with_signals(theta=np.round(run.signals["theta"] / 2e-3) * 2e-3)
    solution = problem.with_(recordings=[rounded]).solve()
    noise = size(solution, "theta")
    assert noise.resolution == pytest.approx(2e-3)
    assert noise.std >= 2e-3 / math.sqrt(12) * (1 - 1e-9)
    assert noise.std < 2e-3
    near(solution, TRUTH)


def test_a_declared_disturbance_is_kept():
    solution = swung(rod(disturbance=2e-2), 1e-2, 1e-3).solve()
    assert solution.status is Status.CONVERGED
    noise = size(solution, "hinge")
    assert noise.given
    assert noise.density == pytest.approx(2e-2)
    assert math.isnan(noise.error)
    assert size(solution, "theta").std == pytest.approx(1e-3, rel=0.15)
    assert solution.log_likelihood < found(1e-2, 1e-3).log_likelihood - 1


def test_a_declared_sigma_is_kept():
    solution = swung(rod(sigma=3e-3), 1e-2, 1e-3).solve()
    assert solution.status is Status.CONVERGED
    noise = size(solution, "theta")
    assert noise.given
    assert noise.std == pytest.approx(3e-3)
    assert solution.log_likelihood < found(1e-2, 1e-3).log_likelihood - 1


def test_interrupted_searches_keep_the_best_finished_answer():
    problem, seen = swung(rod(), 1e-2, 1e-3), []

    def stop(iteration: Any) -> None:
        seen.append(iteration.parameters.copy())
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    solution = problem.solve(callback=stop, initial={"J": 0.02, "b": 1e-4})
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 2
    np.testing.assert_array_equal([solution[name].estimate for name in TRUTH], seen[-1])
    assert math.isfinite(solution.log_likelihood)
    assert all(math.isfinite(noise.std) for noise in solution.noise)


def test_the_most_iterations_are_an_end_of_their_own():
    solution = swung(rod(), 1e-2, 1e-3).solve(initial={"J": 0.02, "b": 1e-4}, max_iterations=2)
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.iterations == 2


# --- noisy simulations ---


def test_simulations_repeat_themselves_and_are_clean_without_noise():
    problem = rod()
    noise = {"hinge": 1e-2, "theta": 1e-3}
    clean, silent, one, same, other = (
        problem.simulate(TRUTH, 0.5, {"hinge": 1.0}, noise=given, seed=seed).signals["theta"]
        for given, seed in ((None, 0), ({"hinge": 0.0}, 0), (noise, 1), (noise, 1), (noise, 2))
    )
    np.testing.assert_allclose(silent, clean, atol=1e-12)
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-4
    assert np.std(one[:10] - clean[:10]) == pytest.approx(1e-3, rel=0.7)


def test_simulations_take_the_noise_of_a_solution():
    solution = found(1e-2, 1e-3)
    noise = {"hinge": size(solution, "hinge").density, "theta": size(solution, "theta").std}
    runs = [rod().simulate(TRUTH, 0.5, {"hinge": 1.0}, noise=given, seed=3, substeps=1) for given in (solution, noise)]
    np.testing.assert_array_equal(runs[0].signals["theta"], runs[1].signals["theta"])


@pytest.mark.parametrize("noise", [{"elbow": 1e-3}, {"hinge": -1.0}, {"hinge": math.nan}])
def test_noise_of_nothing_is_refused(noise):
    with pytest.raises(ProblemError, match=next(iter(noise))):
        rod().simulate(TRUTH, 0.5, {"hinge": 1.0}, noise=noise)


def test_several_recordings_have_one_size():
    problem = rod()
    runs = [
        replace(
            problem.simulate(TRUTH, 3.0, {"hinge": 1.5}, noise={"hinge": 1e-2, "theta": 1e-3}, seed=s, substeps=1),
            name=f"{s}",
        )
        for s in (6, 7)
    ]
    solution = problem.with_(recordings=runs).solve()
    told(size(solution, "hinge"), 1e-2)
    told(size(solution, "theta"), 1e-3)
    near(solution, TRUTH)


@pytest.mark.study
def test_no_disturbance_can_be_given() -> None:
    """Zero means that nothing disturbs the joint: estimates are those of hard dynamics, and converge."""
    problem, truth = silent_rod()
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    size = next(n for n in solution.noise if n.kind == "disturbance")
    assert size.given
    assert size.density < 1e-6
    near(solution, truth)


def silent_rod() -> tuple[Problem, dict[str, float]]:
    """A pendulum that nothing disturbs, as it is declared."""
    J, b = Parameter("J", 1e-3, lower=1e-7), Parameter("b", 1e-4, lower=0)
    rod = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    frames = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0))
    pin = Hinge("pin", *frames, viscous=b, disturbance=0)
    model = Model(bodies=[rod], joints=[pin], gravity=gravity(9.81))
    twin = Problem("silent", model, observations=[HingeAngle(pin, "theta")], step=0.01, step_correction=False)
    truth = {"J": 2e-3, "b": 2e-3}
    run = twin.simulate(truth, duration=5.0, initial={"pin": 2.0}, noise={"theta": 1e-3}, seed=1)
    return twin.with_(recordings=[Recording(t=run.t, signals={"theta": run.signals["theta"]})]), truth


def test_errors_average_over_a_disturbance_at_its_floor_after_the_step_is_taken_off_too() -> None:
    """The floor of a fit with half the step lies above the size that it keeps from the one before."""
    problem = swung(rod(), 3e-5, 1e-3, seed=3, duration=3.0)
    plain, corrected = problem.solve(), problem.with_(step_correction=True).solve()
    assert math.isnan(size(corrected, "hinge").error)
    for name in TRUTH:
        assert corrected[name].std_err == pytest.approx(plain[name].std_err, rel=0.2)


LEFT = {"J_A": 0.003, "J_B": 0.004, "J_C": 0.004, "b": 1e-3}


@pytest.mark.parametrize("seed", range(4))
def test_a_search_ends_at_a_maximum_whatever_is_missing(seed: int) -> None:
    """The viscous friction of the elbow is left out of the model; the shoulder's disturbance tends to zero."""
    truth = furuta(shoulder={"viscous": 1e-3}, elbow={"viscous": 1e-4})
    named = {name: Parameter(name, 2 * value, lower=0) for name, value in LEFT.items()}
    model = furuta(inertias=tuple(named[name] for name in ("J_A", "J_B", "J_C")), shoulder={"viscous": named["b"]})
    sensors = [HingeAngle(j, f"angle of {j.name}") for j in truth.joints]
    posed = Problem("left out", truth, observations=sensors, step=5e-3)
    noise = {o.signal: 1e-3 for o in posed.observations}
    run = posed.simulate({}, 10.0, {"elbow": 3.0}, noise=noise, seed=seed)
    sensors = [HingeAngle(j, f"angle of {j.name}") for j in model.joints]
    solution = posed.with_(model=model, observations=sensors, recordings=[run]).solve()
    assert solution.status is Status.CONVERGED
    assert any("viscous friction in elbow" in notice for notice in solution.notices)
    for name, value in LEFT.items():
        assert abs(solution[name].estimate / value - 1) < 0.1


def test_no_last_step_leads_far_along_what_is_almost_flat() -> None:
    """What the data leave of an inertia beside a given part, a hundredth of its error, is the exponential of twice its
    logarithm, which begins where it is nothing: the linear step from there promises little, and is far too long."""
    free = found(1e-3, 1e-3)
    run, given = swung(rod(), 1e-3, 1e-3).recordings, free["J"].estimate - 0.01 * free["J"].std_err

    def beside(log: Any) -> Problem:
        model = pendulum(inertia=given + ca.exp(2 * log), viscous=Parameter("b", free["b"].estimate, lower=1e-6))
        return rod().with_(model=model, recordings=run, observations=[HingeAngle(model.joints[0], "theta")])

    solution = beside(Parameter("log", -10.0)).solve(warm_start=beside(-10.0).solve())
    assert solution.status is Status.CONVERGED
    assert math.exp(2 * solution["log"].estimate) < 3 * free["J"].std_err
    assert solution["b"].estimate == pytest.approx(free["b"].estimate, abs=0.1 * free["b"].std_err)
