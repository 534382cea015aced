"""Noise estimated or hard dynamics: the test of both, where hard dynamics may not be believed, and what is told."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    LevenbergMarquardt,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Status,
    gravity,
    load_problem,
)
from spookid.estimation.estimator_choice import choice_by, with_choice
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import fit
from spookid.estimation.work import Work
from spookid.results import schema
from spookid.results.result import Choice
from spookid.statistics.hausman import EstimatorOutput, feedback, hausman_test
from spookid.studies import profile

RELEASES = Path(__file__).parents[2] / "problems" / "pendulum_free_swing.py"
PENDULUM = RELEASES.with_name("pendulum.py")
TORQUE, ARM = 0.01225 * 9.81 * 0.062, 0.01225 * 0.062**2
needs_data = pytest.mark.skipif(not os.environ.get("SPOOKID_DATA"), reason="needs the measured data: set SPOOKID_DATA")


def answer(estimates: list[float], error: float, changes: np.ndarray) -> EstimatorOutput:
    return EstimatorOutput(np.array(estimates), np.full(len(estimates), error), changes)


def stretches(seed: int, error: float, parameters: int = 2) -> np.ndarray:
    """Changes of estimates without each of 20 stretches, whose jackknife is about an error."""
    return np.random.default_rng(seed).normal(0.0, error / np.sqrt(20), (20, parameters))


# --- the test of both ---


def test_answers_that_agree_give_way_to_the_sharper_one() -> None:
    wide, sharp = (
        answer([1.0, 2.0], 1.0, stretches(0, 1.0)),
        answer([1.5, 2.2], 0.1, stretches(1, 0.1)),
    )
    verdict = hausman_test(wide, sharp)
    assert verdict.agree
    assert verdict.gain == pytest.approx(10)
    choice = choice_by(("J", "b"), verdict)
    assert choice.estimator == "hard"
    assert "10 times as large" in choice.reason
    assert choice_by(("J", "b"), hausman_test(sharp, wide)).estimator == "noise"
    alike = replace(sharp, errors=wide.errors / 1.4)
    assert (
        choice_by(("J", "b"), hausman_test(wide, alike)).reason
        == "deterministic dynamics agree, with no smaller errors"
    )


def test_answers_that_differ_are_told() -> None:
    wide, sharp = (
        answer([1.0, 2.0], 1.0, stretches(0, 1.0)),
        answer([7.0, 2.2], 0.1, stretches(1, 0.1)),
    )
    choice = choice_by(("J", "b"), hausman_test(wide, sharp))
    assert choice.estimator == "noise"
    assert list(choice.differing) == ["J"]
    assert 3 < choice.differing["J"] < 6
    assert "differ on J" in choice.reason


def test_answers_with_common_errors_are_told_apart_by_less() -> None:
    """The sandwich of the difference: what both owe to the same stretches is in neither's favour."""
    common = stretches(0, 1.0, 1)
    one, other = answer([1.0], 1.0, common), answer([1.3], 0.5, common + stretches(1, 0.05, 1))
    assert not hausman_test(one, other).agree
    assert hausman_test(one, replace(other, changes=stretches(1, 0.5, 1))).agree


def test_so_many_parameters_so_few_stretches() -> None:
    """Thirty parameters and twenty stretches: one by one, and with the level of each lowered."""
    seeds, differing = range(40), 0
    for seed in seeds:
        one, other = stretches(seed, 1.0, 30), stretches(seed + 1000, 0.1, 30)
        away = np.random.default_rng(seed + 2000).normal(0.0, 1.0, 30)
        differing += not hausman_test(answer([0.0] * 30, 1.0, one), answer(away.tolist(), 0.1, other)).agree
    assert differing <= 6  # of 40 at a level of 5 %


def test_what_is_not_known_replaces_nothing() -> None:
    unknown = np.full((20, 2), np.nan)
    verdict = hausman_test(answer([1.0, 2.0], 1.0, unknown), answer([1.0, 2.0], 0.1, stretches(0, 0.1)))
    assert not verdict.replaces
    assert choice_by(("J", "b"), verdict).estimator == "noise"


def test_both_at_a_bound_agree() -> None:
    one = EstimatorOutput(np.array([1.0, 0.0]), np.array([1.0, np.nan]), stretches(0, 1.0))
    other = EstimatorOutput(np.array([1.1, 0.0]), np.array([0.1, np.nan]), stretches(1, 0.1))
    assert hausman_test(one, other).replaces


# --- closed loops ---


def driven(gain: float, seed: int, steps: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Input and noise of a damped oscillator that follows three tones, disturbed; by feedback or not."""
    rng, x, v = np.random.default_rng(seed), 0.0, 0.0
    inputs, noise = np.zeros((steps, 1)), rng.normal(size=(steps, 2))
    for k, t in enumerate(np.arange(steps) / 100):
        wanted = np.sin(3 * t) + np.sin(7.1 * t + 1) + np.sin(12.3 * t + 2)
        inputs[k] = wanted - gain * (x + 0.01 * noise[k, 1])
        v += 0.01 * (inputs[k, 0] - 20 * x - 0.5 * v) + 0.01 * noise[k, 0]
        x += 0.01 * v
    return inputs, noise


def test_an_input_that_answers_to_noise_is_found() -> None:
    assert max(feedback(*driven(20.0, seed)) for seed in range(5)) < 1e-4


def test_smooth_open_inputs_are_none() -> None:
    """Also where the residuals are smooth, as those of a disturbance that is hardly seen."""
    found = []
    for seed in range(20):
        inputs, noise = driven(0.0, seed)
        window = np.hanning(15)[:, None]
        smooth = np.column_stack([np.convolve(w, window[:, 0], "same") for w in noise.T])
        found += [feedback(inputs, noise), feedback(inputs, smooth)]
    assert sum(p < 0.01 for p in found) <= 2


def test_a_constant_input_and_none_are_open() -> None:
    noise = np.random.default_rng(0).normal(size=(500, 1))
    assert feedback(np.ones((500, 1)), noise) == 1
    assert feedback(np.zeros((500, 0)), noise) == 1
    assert feedback(np.random.default_rng(1).normal(size=(20, 1)), noise[:20]) == 1


def test_closed_loop_is_declared() -> None:
    recording = Recording([0, 1, 2], {"u": [0, 1, 0]}, closed_loop=True)
    assert recording.with_signals(v=[1, 2, 3]).closed_loop
    assert recording.between(0, 2).closed_loop
    with pytest.raises(ProblemError, match="closed_loop is 'yes'"):
        Recording([0, 1], {"u": [0, 1]}, closed_loop="yes")


# --- whole fits ---


def rod(**settings: object) -> Problem:
    J, b = Parameter("J", 1e-3, lower=1e-7, unit="kg m^2"), Parameter("b", 1e-4, lower=0, unit="N m s")
    body = Body("rod", mass=0.2, inertia=(1e-5, J, J))
    down = GROUND.frame(x=(0, 1, 0), y=(0, 0, -1))
    pin = Hinge("pin", down, body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=b)
    model = Model(bodies=[body], joints=[pin], gravity=gravity(9.81))
    return Problem("rod", model, observations=[HingeAngle(pin, "theta")], **{"step_correction": False, **settings})


TRUTH = {"J": 2e-3, "b": 1e-3}


def release(seed: int, disturbance: float, start: float = 2.0) -> Recording:
    noise = {"pin": disturbance, "theta": 1e-3}
    return rod().simulate(TRUTH, 8.0, {"pin": start}, noise=noise, seed=seed)


def lasting(seed: int) -> Recording:
    """The motion obeys the mechanics; the sensor's error lasts for 50 ms, as of an encoder that is not round."""
    clean = rod().simulate(TRUTH, 8.0, {"pin": 2.0})
    rng, error = np.random.default_rng(seed), np.zeros(len(clean.t))
    for k in range(1, len(error)):
        error[k] = 0.8 * error[k - 1] + 1.5e-3 * rng.normal()
    return clean.with_signals(theta=clean.signal("theta") + error)


def offs(solution: Solution) -> list[float]:
    return [(solution[name].estimate - value) / solution[name].std_err for name, value in TRUTH.items()]


@lru_cache
def chosen() -> Solution:
    return rod(recordings=[lasting(0)]).solve()


@pytest.mark.study
def test_errors_of_a_sensor_that_last_are_no_disturbance() -> None:
    solution = chosen()
    noisy = rod(recordings=[lasting(0)], estimator="noise").solve()
    assert solution.choice is not None
    assert solution.choice.estimator == "hard"
    assert "process noise none (deterministic dynamics)" in solution.summary()
    assert noisy.choice == Choice("noise", "as asked")
    assert solution["J"].std_err < noisy["J"].std_err / 1.5
    assert max(map(abs, offs(solution))) < 4
    assert solution.log_likelihood == pytest.approx(noisy.log_likelihood, abs=0.1)


@pytest.mark.study
def test_a_warm_start_chooses_again() -> None:
    again = rod(recordings=[lasting(0)]).solve(warm_start=chosen())
    assert again.choice is not None
    assert again.choice.estimator == "hard"
    assert again["J"].estimate == pytest.approx(chosen()["J"].estimate, rel=1e-4)


@pytest.mark.study
def test_a_choice_is_kept_in_files() -> None:
    solution = chosen()
    assert schema.head_of(schema.document(solution)).answer.choice == solution.choice
    tree = schema.document(solution)
    del tree["choice"]  # as earlier versions wrote it
    assert schema.head_of(tree).answer.choice is None


def test_a_declared_closed_loop_keeps_the_noise() -> None:
    closed = replace(lasting(0), closed_loop=True)
    choice = rod(recordings=[closed]).solve().choice
    assert choice == Choice("noise", "rod is driven in closed loop (as declared)")


def test_deterministic_dynamics_that_cannot_begin_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their fit has no noise that process noise could be compared with."""
    run = Work.run

    def fails(work: Work, problem: Problem, *others: Any) -> Fit:
        found = run(work, problem, *others)
        return found.with_(status=Status.DIVERGED, noise=()) if problem.is_hard else found

    monkeypatch.setattr(Work, "run", fails)
    choice = load_problem(PENDULUM).solve().choice
    assert choice == Choice("noise", "the fit with deterministic dynamics did not converge")


@pytest.mark.study
def test_the_step_is_taken_from_hard_dynamics_too() -> None:
    solution = rod(recordings=[lasting(0)], step_correction=True).solve()
    assert solution.choice is not None
    assert solution.choice.estimator == "hard"
    assert solution.step == 0.01
    assert [noise.std for noise in solution.noise if noise.kind == "disturbance"] == [0.0]
    assert solution["J"].estimate == pytest.approx(TRUTH["J"], abs=4 * solution["J"].std_err)


@pytest.mark.study
@pytest.mark.parametrize("seed", range(3))
def test_a_disturbance_that_adds_up_is_one(seed: int) -> None:
    solution = rod(recordings=[release(seed, 1e-3)]).solve()
    assert solution.choice == Choice("noise", "the process noise passes the whiteness test")
    assert "estimated (process and measurement noise together with the parameters): what" in " ".join(
        solution.summary(verbose=True).split()
    )
    assert max(map(abs, offs(solution))) < 4


@pytest.mark.study
def test_without_a_disturbance_there_is_nothing_to_choose() -> None:
    choices = [rod(recordings=[release(seed, 0.0)]).solve().choice for seed in range(3)]
    assert {choice.estimator for choice in choices if choice} == {"noise"}
    assert any("the estimated process noise is zero" in choice.reason for choice in choices if choice)


@pytest.mark.study
def test_an_unstable_motion_keeps_the_noise() -> None:
    """From just beside the top the smallest disturbance decides when the rod falls."""
    solution = rod(recordings=[release(0, 1e-4, np.pi - 1e-6)]).solve()
    assert solution.choice == Choice("noise", "the motion is not stable")


@pytest.mark.study
def test_a_profile_is_that_of_the_likelihood() -> None:
    asked: list[tuple[str, Solution | None]] = []

    def solve_again(problem: Problem, near: Solution | None) -> Solution:
        asked.append((problem.estimator, near))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile(rod(recordings=[lasting(0)]), "b", solve_again, chosen())
    assert asked == [("noise", None)]


def test_estimators_are_known() -> None:
    with pytest.raises(ProblemError, match="estimator 'best' is not known"):
        rod(estimator="best")


def test_a_difference_is_a_notice() -> None:
    choice = Choice("noise", "deterministic dynamics differ on J (4.1 sigma)", {"J": 4.1})
    first = fit(rod(recordings=[release(0, 1e-3)]), LevenbergMarquardt(), None)
    told = with_choice(choice, first, first.result)
    assert (
        "Fits with estimated process noise and with deterministic dynamics disagree on parameters J (4.1 sigma): "
        "an unmodelled effect is not white noise. Halve the step; if the fits still disagree, look at the residuals."
    ) in told.notices


@needs_data
def test_a_measured_closed_loop_is_found() -> None:
    """EMPS, whose drive holds it on its way by what the encoder says; M is published as 95.11 kg."""
    file = np.load(Path(os.environ["SPOOKID_DATA"]) / "emps" / "DATA_EMPS.npz")
    M, F_v, F_c, offset = (Parameter(name, guess) for name, guess in {"M": 90, "F_v": 200, "F_c": 20, "o": 0}.items())
    cart, axis = Body("cart", mass=1.0, inertia=(1, M, 1)), {"x": (0, 1, 0), "y": (0, 0, -1)}
    slide = Hinge("slide", GROUND.frame(**axis), cart.frame(**axis), viscous=F_v, coulomb=F_c)
    t, vir = file["t"].ravel(), file["vir"].ravel()
    motors = [Motor(slide, "vir", gain=float(file["gtau"])), Motor(slide, "one", gain=-offset)]
    model = Model(bodies=[cart], joints=[slide], motors=motors, gravity=gravity(9.81))
    recording = Recording(t, {"qm": file["qm"].ravel(), "vir": vir, "one": np.ones(len(t))}, "EMPS")
    solution = Problem("emps", model, [recording], [HingeAngle(slide, "qm")], step=0.005).solve()
    words = "EMPS is driven in closed loop (its input depends on the process noise)"
    assert solution.choice == Choice("noise", words)
    assert solution["M"].estimate == pytest.approx(95.11, rel=3e-3)


@pytest.mark.study
@needs_data
@pytest.mark.parametrize(("law", "times"), [pytest.param("viscous", 3, marks=pytest.mark.study), ("dry", 10)])
def test_releases_scatter_as_they_say(law: str, times: float) -> None:
    found, errors = [], []
    for number in ("01", "02", "03"):
        problem = load_problem(f"{RELEASES}::{number}_{law}")
        assert isinstance(problem, Problem)
        solution = problem.solve()
        assert solution.choice is not None
        assert solution.choice.estimator == "hard"
        found.append(TORQUE / (solution["J"].estimate + ARM))
        errors.append(found[-1] * solution["J"].std_err / (solution["J"].estimate + ARM))
    assert min(found) > 119.25
    assert max(found) < 120.35
    ratio = np.std(found, ddof=1) / np.sqrt(np.mean(np.square(errors)))
    assert 1 / times < ratio < times


@pytest.mark.study
def test_what_the_step_adds_is_no_difference_of_estimators() -> None:
    """The four-bar's twin lacks nothing; steps of 4 ms add ten standard errors to an inertia by either estimator."""
    problem = load_problem(Path(__file__).parents[2] / "problems" / "fourbar.py")
    assert isinstance(problem, Problem)
    solution = problem.solve()
    assert solution.choice is not None
    assert not solution.choice.differing
