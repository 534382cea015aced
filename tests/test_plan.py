"""The plan of a fit: what it takes is shown before, what it took after, and few fits on few assemblies are enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from spookid import HingeAngle, Parameter, Solution, Status, load, load_problem
from spookid.__main__ import main

PENDULUM = "problems/pendulum.py"


def fits(solution: Solution) -> tuple[int, int]:
    """How many a solve took, and on how many assemblies."""
    return len(solution.stages), sum(one.assembled for one in solution.stages)


def test_the_pendulum_of_the_readme_takes_few_fits_on_two_assemblies() -> None:
    solution = load_problem(PENDULUM).solve()
    assert fits(solution) <= (6, 2)
    assert {one.step for one in solution.stages} == {0.005, 0.0025}


@pytest.mark.parametrize("options", [{"friction": "exact"}, {"backend": "ipopt"}])
def test_friction_that_sticks_and_ipopt_take_eight_fits_on_two_assemblies(options: dict[str, str]) -> None:
    count, assembled = fits(load_problem(PENDULUM).solve(**options))
    assert count <= 8
    assert assembled <= 2


def test_iterations_count_on_from_stage_to_stage() -> None:
    seen: list[int] = []
    solution = load_problem(PENDULUM).solve(callback=lambda i: seen.append(i.iteration))
    assert seen == sorted(seen)
    assert set(seen) == set(range(solution.iterations + 1))


def test_ipopt_ends_a_fit_whose_delay_others_have_found() -> None:
    problem = load_problem(PENDULUM)
    late = HingeAngle(problem.model.joints[0], "theta", delay=Parameter("late", 0.0, lower=-0.02, upper=0.02))
    problem = problem.with_(observations=[late], step=problem.step)
    by_ipopt, by_lm = problem.solve(backend="ipopt"), problem.solve()
    assert by_ipopt.status is by_lm.status is Status.CONVERGED
    assert by_ipopt.stages[-1].solver == "ipopt"
    for name, estimate in by_lm.parameters.items():
        assert by_ipopt[name].estimate == pytest.approx(estimate.estimate, abs=0.05 * estimate.std_err)


def test_a_plan_is_shown_before_the_fit_and_with_its_times_after_it() -> None:
    problem = load_problem(PENDULUM)
    plan = problem.plan()
    names = [stage.name for stage in plan.stages]
    assert names[0] == "noise"
    assert names[-1] == "half the step"
    assert "deterministic dynamics" in str(plan)
    solution = problem.solve()
    assert {one.stage for one in solution.stages} <= {*names, "the step"}
    assert f"{len(solution.stages)} fits on 2 assemblies" in str(plan.done(solution))
    assert sum(one.iterations for one in solution.stages) == solution.iterations
    assert "sticking" in str(problem.plan(friction="exact"))
    assert "half the step" not in str(problem.plan(step_correction=False))


def test_the_command_shows_the_plan_and_keeps_what_was_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", PENDULUM, "--plan", "--no-figures", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.count("Plan of pendulum") == 2
    assert "on 2 assemblies" in said
    assert f"{len(load(tmp_path / 'out').stages)} fits on 2 assemblies" in said
