"""IPOPT: the same answers as Levenberg–Marquardt, complementarity pairs, and every way it can end."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from mechanisms import paper_twin, pendulum
from test_cli import ONE, main, write
from test_cli import data as data
from test_cli import here as here
from test_loops import BASE, LENGTHS, MASSES, closed, linkage
from test_loops import problem as loop

from spookid import Parameter, Problem, ProblemError, Solution, Spook, Status, Variational

TRUTH = {"J": 0.005, "b": 0.004}


def swing(duration: float = 0.5, **settings: object) -> Problem:
    """A pendulum released at 1 rad with 1 mrad of noise; if ``driven``, friction is negative and b ends at zero."""
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    truth = {**TRUTH, "b": -0.002} if settings.pop("driven", False) else TRUTH
    model = pendulum(inertia=J, viscous=b, compliance=settings.pop("compliance", 1e-4), damping=0.02)
    return paper_twin(model, truth, initial={"hinge": 1.0}, duration=duration, noise=1e-3, **settings)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return swing()


@pytest.fixture(scope="module")
def solved(problem: Problem) -> Solution:
    return problem.solve(backend="ipopt")


def check_agreement(ours: Solution, other: Solution) -> None:
    assert (ours.status, other.status) == (Status.CONVERGED, Status.CONVERGED)
    assert ours.cost.total == pytest.approx(other.cost.total, rel=1e-8)
    for name, wanted in other.parameters.items():
        # Far below the standard error; at a bound exactly.
        slack = 0 if wanted.at_bound else 1e-3 * other[name].std_err
        assert abs(ours[name].estimate - wanted.estimate) <= slack
        assert ours[name].at_bound == wanted.at_bound


# --- the same answers ---


def test_it_agrees_with_levenberg_marquardt(problem, solved):
    other = problem.solve()
    check_agreement(solved, other)
    for name in TRUTH:
        assert solved[name].estimate == pytest.approx(other[name].estimate, rel=1e-4)
        assert solved[name].std_err == pytest.approx(other[name].std_err, rel=1e-4)
    assert (solved.backend, solved.size) == ("ipopt", other.size)
    assert np.isnan(solved.complementarity_residual)
    np.testing.assert_allclose(solved.trajectories[0].q, other.trajectories[0].q, atol=1e-6)


def test_the_exact_hessian_gives_the_same(problem, solved):
    check_agreement(problem.solve(backend="ipopt", hessian="exact"), solved)


@pytest.mark.parametrize("stepper", [Spook(multipliers="lifted"), Variational()])
def test_hard_rows_become_equalities(stepper):
    problem = swing(stepper=stepper, compliance=0.0)
    check_agreement(problem.solve(backend="ipopt"), problem.solve())


def test_dynamics_that_hold_exactly():
    problem = swing(stepper=Variational(), compliance=0.0).with_(state_weight=np.inf)
    check_agreement(problem.solve(backend="ipopt"), problem.solve())


def test_a_parameter_that_belongs_on_its_bound_is_set_on_it():
    problem = swing(driven=True)
    solution = problem.solve(backend="ipopt")
    assert (solution["b"].estimate, solution["b"].at_bound) == (0.0, True)
    assert solution.history[-1].parameters == solution.values
    check_agreement(solution, problem.solve())


def test_a_guess_on_its_bound_leaves_it(problem, solved):
    check_agreement(problem.solve(backend="ipopt", initial={"b": 0.0}), solved)


def test_several_recordings(problem):
    recording = problem.recordings[0]
    two = problem.with_(recordings=[recording, replace(recording, name="again")])
    check_agreement(two.solve(backend="ipopt"), two.solve())


def test_rows_that_others_imply_are_left_out():
    b = Parameter("b", 1e-3, lower=0)
    model = linkage(LENGTHS, BASE, MASSES, (2e-4, 2.5e-3, 4e-3), viscous=b, compliance=0)
    model = replace(model, motors=[])
    clean = loop(model).simulate({"b": 0.01}, 0.2, closed(LENGTHS, BASE, 1.0), substeps=1)
    rng = np.random.default_rng(0)
    noisy = {name: clean.signal(name) + 1e-3 * rng.normal(size=len(clean.t)) for name in ("crank", "rocker")}
    problem = loop(model, recordings=[clean.with_signals(**noisy)], state_weight=1e4)
    ours, other = problem.solve(backend="ipopt"), problem.solve()
    assert ours.status is Status.CONVERGED
    assert ours["b"].estimate == pytest.approx(other["b"].estimate, rel=1e-4)
    assert ours.notices == other.notices
    assert "3 constraint equations" in " ".join(ours.notices)


# --- complementarity ---


@pytest.mark.parametrize(("backend", "friction"), [("lm", "mpcc"), ("ipopt", "exact")])
def test_a_backend_refuses_a_law_that_it_does_not_know(problem, backend, friction):
    with pytest.raises(ProblemError, match=f"friction '{friction}' is not for backend '{backend}'"):
        problem.solve(backend=backend, friction=friction)


# --- how it ends ---


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_iteration_limit(problem, limit):
    solution = problem.solve(backend="ipopt", stepper=Variational(), max_iterations=limit)
    assert (solution.status, solution.iterations) == (Status.MAX_ITERATIONS, limit)
    assert f"(max_iterations = {limit})" in solution.message
    assert solution.history[-1].parameters == solution.values


# --- options ---


def test_it_is_silent_unless_asked(problem, capfd):
    problem.solve(backend="ipopt", max_iterations=1)
    assert capfd.readouterr() == ("", "")
    problem.solve(backend="ipopt", max_iterations=1, verbose=True)
    assert "Number of Iterations" in capfd.readouterr().out


@pytest.mark.parametrize("backend", ["lm", "ipopt"])
def test_a_warm_start_saves_iterations(problem, solved, backend):
    cold, warm = problem.solve(backend=backend), problem.solve(backend=backend, warm_start=solved)
    assert warm.iterations < cold.iterations
    assert warm.history[0].cost.total == pytest.approx(solved.cost.total, rel=1e-6)
    check_agreement(warm, solved)


def test_a_warm_start_from_another_stepper(problem, solved):
    lifted = problem.with_(stepper=Spook(multipliers="lifted"))
    check_agreement(lifted.solve(backend="ipopt", warm_start=solved), lifted.solve())


def test_a_warm_start_yields_to_guesses(problem, solved):
    assert problem.solve(initial={"J": 0.02}, max_iterations=0, warm_start=solved)["J"].estimate == 0.02


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recordings": []}, "needs recordings"),
        ({"several": True}, "has 1 recordings and this problem 2"),
    ],
)
def test_a_warm_start_that_does_not_fit_is_refused(problem, solved, change, words):
    if change.pop("several", False):
        change = {"recordings": [problem.recordings[0], replace(problem.recordings[0], name="again")]}
    with pytest.raises(ProblemError, match=words):
        problem.with_(**change).solve(warm_start=solved)


def test_a_warm_start_with_other_steps_is_as_good(problem, solved):
    coarse = problem.with_(step=2 * problem.step)
    cold, warm = coarse.solve(), coarse.solve(warm_start=solved)
    assert warm["J"].estimate == pytest.approx(cold["J"].estimate, rel=1e-6)
    assert warm.iterations <= cold.iterations


def test_a_warm_start_must_be_a_solution(problem):
    with pytest.raises(ProblemError, match="warm_start is 3; give a Solution"):
        problem.solve(warm_start=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hessian": "none"}, "hessian is 'none'; give 'gauss-newton' or 'exact'"),
        ({"damping": 1.0}, "'damping' is no option of backend 'ipopt'"),
    ],
)
def test_wrong_options_are_refused(problem, options, words):
    with pytest.raises(ProblemError, match=words):
        problem.solve(backend="ipopt", **options)


def test_on_the_command_line(here):
    assert main(["solve", write(ONE), "--backend", "ipopt", "--out", "out", "--quiet"]) == 0
    tree = json.loads((here / "out/solution.json").read_text())
    assert (tree["backend"], tree["status"]) == ("ipopt", "converged")
    assert tree["iterations"] == len(tree["history"]) - 1
