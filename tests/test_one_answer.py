"""Studies of a shipped problem say what its fit says: profiles, audits, cross-validation, sweeps, joint fits."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spookid import Problem, Solution, load_problem, solve_jointly, sweep
from spookid.__main__ import main
from spookid.studies import audit

PROBLEMS = Path(__file__).parents[1] / "problems"
SHIPPED = ["pendulum.py", "furuta_release.py", "slider_crank.py", "fourbar.py"]
"""Whose data are part of the project, and whose fits take less than a second."""
CLOSE = 0.1
"""Standard errors."""


@pytest.fixture(scope="module", params=SHIPPED)
def solved(request: pytest.FixtureRequest) -> tuple[Problem, Solution]:
    problem = load_problem(PROBLEMS / request.param)
    return problem, problem.solve()


@pytest.fixture(scope="module")
def pendulum() -> tuple[Problem, Solution]:
    problem = load_problem(PROBLEMS / "pendulum.py")
    return problem, problem.solve()


def test_a_profile_is_least_at_the_estimate_of_the_fit(solved: tuple[Problem, Solution]) -> None:
    problem, solution = solved
    parameter = next(p for p in solution.parameters.values() if p.std_err > 0 and not p.at_bound)
    found = problem.profile(parameter.name, solution)
    values, rises = np.array([(p.value, p.zeta**2) for p in found.points]).T
    near = np.argsort(np.abs(values - parameter.estimate))[:3]  # a parabola through the three points about the middle
    bend, slope, _ = np.polyfit((values[near] - parameter.estimate) / parameter.std_err, rises[near], 2)
    assert abs(slope / (2 * bend)) < CLOSE


def test_errors_that_are_a_scatter_have_profiles_as_wide(pendulum: tuple[Problem, Solution]) -> None:
    problem, solution = pendulum
    assert solution.choice is not None
    assert solution.choice.is_hard
    for name in ("J", "b", "c"):
        found = problem.profile(name, solution)
        assert found.interval == pytest.approx(found.linear, abs=0.1 * (found.linear[1] - found.linear[0]))


def test_an_audit_shows_the_estimates_and_errors_of_the_fit(solved: tuple[Problem, Solution]) -> None:
    problem, solution = solved
    found = audit(problem)
    assert {d.name: d.solved for d in found.drifts} == {d.name: solution[d.name].estimate for d in found.drifts}
    errors = {d.name: solution[d.name].std_err for d in found.drifts if not np.isnan(solution[d.name].std_err)}
    assert {d.name: d.std_err for d in found.drifts if d.name in errors} == errors
    assert solution.choice is None or solution.choice.reason in str(found)


@pytest.mark.parametrize("estimator", ["noise", "hard"])
def test_an_estimator_that_is_asked_for_is_that_of_all_studies(
    pendulum: tuple[Problem, Solution], estimator: str
) -> None:
    problem, _ = pendulum
    solution = problem.solve(estimator=estimator)
    found = problem.profile("J", solution, estimator=estimator)
    assert found.estimate == solution["J"].estimate
    assert "as asked" in found.assumptions["Estimator"]
    assert audit(problem.with_(estimator=estimator)).drifts[0].solved == solution["J"].estimate
    (point,) = sweep(problem, {"estimator": [estimator]}).points
    assert point.parameters["J"].estimate == solution["J"].estimate
    together = solve_jointly(problem, estimator=estimator)
    assert together.choice is not None
    assert together.choice.estimator == estimator
    assert together["J"].estimate == pytest.approx(solution["J"].estimate, abs=CLOSE * solution["J"].std_err)


def test_points_of_a_sweep_have_the_estimator_of_the_fit_without_it(pendulum: tuple[Problem, Solution]) -> None:
    problem, solution = pendulum
    assert solution.choice is not None
    found = sweep(problem, {"J": [solution["J"].estimate]})
    assert solution.choice.reason in found.assumptions["Estimator"]
    free, (point,) = [name for name in problem.guess if name != "J"], found.points
    for name in free:
        error = solution[name].std_err
        assert point.parameters[name].estimate == pytest.approx(solution[name].estimate, abs=CLOSE * error)


def test_recordings_are_compared_with_the_estimator_of_the_fit_of_all(pendulum: tuple[Problem, Solution]) -> None:
    problem, _ = pendulum
    (whole,) = problem.recordings
    halves = [whole.between(0.0, 2.3), whole.between(2.3, 4.6)]
    several = problem.with_(recordings=[replace(half, name=f"half {i}") for i, half in enumerate(halves)])
    together = several.solve()
    assert together.choice is not None
    assert together.choice.reason in several.crossvalidate().assumptions["Estimator"]


def test_the_errors_to_expect_of_the_same_motion_are_those_of_the_fit(pendulum: tuple[Problem, Solution]) -> None:
    problem, solution = pendulum
    again = problem.simulate(solution, step=0.001)  # as many samples as were measured
    found = problem.with_(initial=solution.values).expected_errors(again, noise=solution)
    errors = [solution[name].std_err for name in found.names]
    assert found.after == pytest.approx(errors, rel=0.1)
    other = problem.expected_errors(again, noise=solution, estimator="noise")
    same = problem.with_(estimator="noise").expected_errors(again, noise=solution)
    np.testing.assert_array_equal(other.after, same.after)


def test_commands_take_an_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(PROBLEMS / "pendulum.py")
    assert main(["audit", file, "--estimator", "noise"]) in (0, 3)
    assert "Estimator: estimated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "sensors", "estimator"), [("slider_crank.py", 1, "hard"), ("pendulum.py", 2, "noise")]
)
def test_times_of_stages_are_no_longer_together_than_the_solve(name: str, sensors: int, estimator: str) -> None:
    problem = load_problem(PROBLEMS / name)
    began = time.perf_counter()
    solution = problem.with_(observations=problem.observations[:sensors]).solve(estimator=estimator)
    assert solution.times.total <= time.perf_counter() - began
