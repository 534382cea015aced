"""The declared problem: copies and settings, recordings that share parameters, angles on any branch, gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mechanisms import furuta, hub, pendulum, twin

from spookid import HingeAngle, Parameter, Problem, ProblemError, Recording, Solution, Spook, Status, Variational

TRUTH = {"J": 0.005, "b": 0.004}
PAPER = {"state_weight": 100.0, "stepper": Spook()}
"""Settings with which costs compare: sizes of noise that are estimated differ from fit to fit."""


def swing(**more: object) -> Problem:
    """A pendulum, 0.8 s, one recording."""
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    settings = {"initial": {"hinge": 1.0}, "duration": 0.8, "noise": 2e-3, **PAPER, **more}
    return twin(pendulum(inertia=J, viscous=b), TRUTH, **settings)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return swing()


@pytest.fixture(scope="module")
def solution(problem: Problem) -> Solution:
    return problem.solve()


def same(one: Solution, other: Solution, rel: float = 1e-9) -> None:
    """Both fits have the same estimates."""
    assert one.values == pytest.approx(other.values, rel=rel)


# --- copies and settings ---


def test_parameters_are_found_and_not_listed(problem):
    assert [p.name for p in problem.parameters] == ["J", "b"]
    assert problem.free == problem.parameters
    assert problem.guess == {"J": 0.01, "b": 1e-3}


def test_with_changes_a_copy(problem):
    other = problem.with_(step=0.02, name="coarse", initial={"J": 0.02}, fixed=["b"])
    assert (other.step, other.name, other.guess["J"]) == (0.02, "coarse", 0.02)
    assert [p.name for p in other.free] == ["J"]
    assert (problem.step, problem.name, problem.guess["J"]) == (0.01, "twin", 0.01)
    assert [p.name for p in problem.free] == ["J", "b"]
    assert other.model is problem.model
    assert other.place == problem.place


def test_what_it_was_given_may_change_afterwards():
    model = pendulum(inertia=Parameter("J", 0.01))
    initial, fixed, observations = {"J": 0.02}, ["J"], [HingeAngle(model.joints[0], "theta")]
    problem = Problem("p", model=model, observations=observations, initial=initial, fixed=fixed)
    initial["J"] = 0.5
    fixed.clear()
    observations.clear()
    assert problem.guess == {"J": 0.02}
    assert problem.free == ()
    assert len(problem.observations) == 1


def test_one_name_may_be_fixed_as_a_text(problem):
    assert problem.with_(fixed="J").fixed == frozenset({"J"})


def test_fixed_values_may_leave_the_bounds(problem):
    assert problem.with_(initial={"J": -1.0}, fixed="J").guess["J"] == -1.0
    with pytest.raises(ProblemError, match="'J' is outside"):
        problem.with_(initial={"J": -1.0})


def test_options_of_solve_go_where_they_belong(problem):
    solution = problem.solve(
        step=0.02, state_weight=10.0, initial={"J": 0.006}, fixed=["b"], max_iterations=1, damping=1e-3
    )
    assert (solution.step, solution.state_weight) == (0.02, 10.0)
    assert solution["J"].initial == 0.006
    assert (solution["b"].estimate, solution["b"].fixed) == (1e-3, True)
    assert (solution.status, solution.iterations) == (Status.MAX_ITERATIONS, 1)
    assert solution.history[1].damping == 1e-3
    assert solution.size.steps == 41
    assert problem.step == 0.01


def test_options_of_simulate_are_the_problems(problem):
    run = problem.simulate(duration=0.5, step=0.05, initial={"hinge": 1.0}, substeps=1)
    np.testing.assert_allclose(run.t, 0.05 * np.arange(11))


def test_a_fixed_parameter_keeps_its_guess(problem, solution):
    fixed = problem.solve(fixed=["b"], initial={"b": solution["b"].estimate})
    assert fixed["b"].estimate == solution["b"].estimate
    assert fixed["J"].estimate == pytest.approx(solution["J"].estimate, rel=1e-7)
    assert fixed["J"].std_err <= solution["J"].std_err
    assert [step.parameters.keys() for step in fixed.history] == [{"J"}] * len(fixed.history)


def test_with_nothing_free_the_motion_alone_is_estimated(problem, solution):
    smoothed = problem.solve(fixed=["J", "b"], initial=solution.values)
    assert smoothed.status is Status.CONVERGED
    assert smoothed.values == solution.values
    assert smoothed.sensitivities.names == ()
    assert smoothed.cost.total == pytest.approx(solution.cost.total, rel=1e-8)
    np.testing.assert_allclose(smoothed.trajectories[0].q, solution.trajectories[0].q, atol=1e-6)


def test_sigma_weighs_an_observation(problem, solution):
    joint = problem.model.joints[0]
    sharp = problem.solve(observations=[HingeAngle(joint, "hinge", sigma=0.01)], state_weight=100.0 * 1e4)
    same(sharp, solution, rel=1e-6)
    assert sharp.cost.total == pytest.approx(1e4 * solution.cost.total, rel=1e-6)


@pytest.mark.parametrize("weight", [None, "auto"])
def test_without_a_weight_the_noise_is_estimated(weight):
    problem = swing(state_weight=weight, stepper=Variational(), duration=2.0)
    solution = problem.solve()
    assert (problem.dynamics, solution.dynamics) == ("estimated", "estimated")
    assert math.isnan(solution.state_weight)
    assert math.isfinite(solution.log_likelihood)
    sensor = next(noise for noise in solution.noise if noise.kind == "sensor")
    assert sensor.std == pytest.approx(2e-3, rel=0.15)
    for name, truth in TRUTH.items():
        assert abs(solution[name].estimate - truth) < 4 * solution[name].std_err


def test_a_signal_may_be_called_like_its_hinge():
    problem = swing(state_weight=None, stepper=Variational())
    run, joint = problem.recordings[0], problem.model.joints[0]
    other = problem.with_(
        recordings=[Recording(run.t, {"theta": run.signal("hinge")})], observations=[HingeAngle(joint, "theta")]
    )
    one, two = problem.solve(), other.solve()
    same(one, two)
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-9)


def test_a_weight_moves_cost_from_one_group_to_the_other(problem):
    soft, hard = problem.solve(state_weight=1.0), problem.solve(state_weight=1e4)
    assert soft.cost.state / 1.0 > hard.cost.state / 1e4
    assert soft.cost.observation < hard.cost.observation


def test_multipliers_of_a_rigid_hinge_cannot_be_eliminated():
    b = Parameter("b", 1e-3, lower=0)
    settings = {"initial": {"hinge": 1.0}, "duration": 0.8, "noise": 1e-3, **PAPER}
    rigid = twin(pendulum(viscous=b, compliance=0), {"b": 0.004}, **settings)
    with pytest.raises(ProblemError, match=r"mechanisms.py:\d+: Hinge 'hinge' has compliance 0.*Variational\(\)"):
        rigid.solve()
    for stepper in (Spook(multipliers="lifted"), Variational()):
        solution = rigid.solve(stepper=stepper)
        assert solution.status is Status.CONVERGED
        assert solution["b"].estimate == pytest.approx(0.004, rel=0.1)


@pytest.mark.parametrize("stepper", [Spook(), Spook(multipliers="lifted"), Variational()], ids=lambda s: s.name)
def test_lengths_are_estimated_like_other_parameters(stepper):
    L, b = Parameter("L", 0.18, lower=0.12), Parameter("b", 1e-3, lower=0)
    model = pendulum(length=L, viscous=b)
    settings = {"initial": {"hinge": 1.0}, "noise": 1e-3, **PAPER, "stepper": stepper}
    solution = twin(model, {"L": 0.2, "b": 0.004}, **settings).solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations < 20
    assert solution["L"].estimate == pytest.approx(0.2, rel=0.01)
    assert solution["b"].estimate == pytest.approx(0.004, rel=0.1)


# --- recordings ---


def test_a_recording_twice_doubles_the_cost_and_nothing_else(problem, solution):
    twice = problem.solve(recordings=problem.recordings * 2)
    same(twice, solution)
    assert twice.cost.total == pytest.approx(2 * solution.cost.total, rel=1e-9)
    assert twice.size.states == 2 * solution.size.states
    # Not to the last digit: 80 steps leave the impulses' variance a few degrees of freedom, of which one fit costs two.
    assert twice["J"].std_err == pytest.approx(solution["J"].std_err / np.sqrt(2), rel=0.3)
    np.testing.assert_allclose(twice.trajectories[0].q, twice.trajectories[1].q, atol=1e-9)


def test_recordings_share_parameters_and_have_their_own_states(problem, solution):
    other = swing(initial={"hinge": (-0.5, 4.0)}, duration=0.5, seed=1)
    alone = other.solve()
    both = problem.solve(recordings=[*problem.recordings, *other.recordings])
    assert [len(motion.t) for motion in both.trajectories] == [81, 51]
    # Each is fitted best alone; together they agree on a value in between, with smaller errors.
    costs = solution.cost.total + alone.cost.total
    assert costs <= both.cost.total < 1.2 * costs
    for name in TRUTH:
        low, high = sorted([solution[name].estimate, alone[name].estimate])
        margin = 0.2 * (high - low)
        assert low - margin <= both[name].estimate <= high + margin
        assert both[name].std_err < 1.1 * min(solution[name].std_err, alone[name].std_err)


def test_the_order_of_recordings_does_not_matter(problem):
    others = [swing(initial={"hinge": a}, duration=0.4, seed=2).recordings[0] for a in (0.5, -0.9)]
    forward, back = problem.solve(recordings=others), problem.solve(recordings=others[::-1])
    same(forward, back)
    assert forward.cost.total == pytest.approx(back.cost.total, rel=1e-9)


def test_time_may_start_anywhere(problem, solution):
    run = problem.recordings[0]
    late = Recording(t=run.t + 1000.0, signals=run.signals, name="late")
    shifted = problem.solve(recordings=[late])
    same(shifted, solution, rel=1e-6)
    assert shifted.trajectories[0].t[0] == 1000.0
    assert shifted.trajectories[0].name == "late"


def test_a_finer_recording_is_sampled_at_the_steps():
    fine = swing(step=0.002, noise=0.0).recordings[0]
    coarse = Recording(t=fine.t[::5], signals={"hinge": fine.signals["hinge"][::5]})
    problem = swing().with_(every=1)
    same(problem.solve(recordings=[fine], cutoff=100.0), problem.solve(recordings=[coarse], cutoff=100.0), rel=1e-6)


def test_steps_may_be_integers_of_another_unit():
    model = hub(viscous=Parameter("b", 1e-4, lower=0))
    problem = twin(model, {"b": 2e-4}, initial={"hinge": (0, 0.2)}, duration=60, step=1, noise=1e-3)
    assert problem.solve(cutoff=0.4).size.steps == 61


# --- angles ---


def test_wrapped_and_multi_turn_angles_give_the_same_fit():
    b = Parameter("b", 1e-3, lower=0)
    whirl = twin(pendulum(viscous=b), {"b": 0.004}, initial={"hinge": (0, 18.0)}, duration=1.5, noise=2e-3, **PAPER)
    theta = whirl.recordings[0].signals["hinge"]
    assert np.ptp(theta) > 4 * np.pi
    whole = whirl.solve()
    assert whole.status is Status.CONVERGED
    wrapped = (theta + np.pi) % (2 * np.pi) - np.pi
    jumping = theta + 2 * np.pi * np.random.default_rng(0).integers(-3, 4, len(theta))
    for signal in (wrapped, jumping, theta - 20 * np.pi):
        other = whirl.solve(recordings=[whirl.recordings[0].with_signals(hinge=signal)])
        same(other, whole, rel=1e-6)
        assert other.cost.total == pytest.approx(whole.cost.total, rel=1e-6)
        motion = other.trajectories[0]
        assert np.abs(motion.predicted - motion.observed).max() < 0.05


def test_wrapped_angles_are_interpolated_the_short_way_round():
    b = Parameter("b", 1e-3, lower=0)
    whirl = twin(pendulum(viscous=b), {"b": 0.004}, initial={"hinge": (0, 18.0)}, duration=1.5, noise=2e-3, **PAPER)
    theta = whirl.recordings[0].signals["hinge"]
    wrapped = whirl.recordings[0].with_signals(hinge=(theta + np.pi) % (2 * np.pi) - np.pi)
    between = whirl.solve(step=0.015)  # every other step lies between two samples
    other = whirl.solve(step=0.015, recordings=[wrapped])
    same(other, between, rel=1e-6)
    assert other.cost.total == pytest.approx(between.cost.total, rel=1e-6)


# --- gaps ---


def test_missing_samples_and_missing_rows_are_the_same_gap(problem, solution):
    run = problem.recordings[0]
    gap = np.zeros(len(run.t), dtype=bool)
    gap[10:13] = gap[40:50] = True
    holes = run.with_signals(hinge=np.where(gap, np.nan, run.signals["hinge"]))
    shorter = Recording(t=run.t[~gap], signals={"hinge": run.signals["hinge"][~gap]})
    marked, removed = problem.solve(recordings=[holes]), problem.solve(recordings=[shorter])
    same(marked, removed)
    assert marked.size.residuals == removed.size.residuals == solution.size.residuals - 13
    assert np.isnan(marked.trajectories[0].observed[gap]).all()
    np.testing.assert_allclose(marked.trajectories[0].q, solution.trajectories[0].q, atol=0.02)
    same(marked, solution, rel=0.1)


def test_one_hinge_may_be_seen_at_some_steps_only():
    b = Parameter("b", 1e-3, lower=0)
    whole = twin(furuta(elbow={"viscous": b}), {"b": 2e-3}, initial={"elbow": 1.0}, duration=1.0, noise=1e-3, **PAPER)
    run = whole.recordings[0]
    sparse = run.signals["shoulder"].copy()
    sparse[np.arange(len(sparse)) % 4 != 0] = np.nan
    solution = whole.solve(recordings=[run.with_signals(shoulder=sparse)])
    assert solution["b"].estimate == pytest.approx(whole.solve()["b"].estimate, rel=0.05)


def test_a_problem_may_have_no_recording_to_simulate_only():
    model = pendulum()
    problem = Problem("only", model=model, observations=[HingeAngle(model.joints[0], "theta")])
    run = problem.simulate(duration=0.3, initial={"hinge": 0.1}, substeps=1)
    assert run.name == "only"
    assert run.signals["theta"][0] == pytest.approx(0.1)
    assert problem.guess == {}
    assert not math.isnan(run.q.sum())
