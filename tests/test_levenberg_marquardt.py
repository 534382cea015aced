"""The solver: twins it must recover, bounds, every way it can end, and what must not change its answer."""

from __future__ import annotations

import time
from itertools import pairwise

import casadi as ca
import numpy as np
import pytest
from mechanisms import furuta, paper_twin, pendulum

from spookid import LevenbergMarquardt, Manifold, Parameter, Problem, Solution, Status
from spookid.solvers.status import Iteration, Outcome
from spookid.statistics.covariance import AT_BOUND
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Chain, Point, Transcription

TIGHTER = {"gradient_tolerance": 1e-11, "step_tolerance": 1e-11, "decrease_tolerance": 1e-12}
"""A hundredth of the defaults."""

SWING = {"J": 0.005, "b": 0.004}
SPIN = {"J_Azz": 0.003, "J_Byy": 0.004, "b_1": 1e-3, "b_2": 1e-4}


def swing(J: object = None, b: object = None, truth: dict[str, float] = SWING, **settings: object) -> Problem:
    """A pendulum released at 1.5 rad, 2 s, with 1 mrad of noise, in joints that are stiff for its state weight."""
    J = Parameter("J", 0.01, lower=1e-6) if J is None else J
    b = Parameter("b", 1e-3, lower=0) if b is None else b
    model = pendulum(inertia=J, viscous=b, compliance=1e-5)
    return paper_twin(model, truth, initial={"hinge": 1.5}, noise=1e-3, **{"state_weight": 1e4, **settings})


@pytest.fixture(scope="module")
def spin() -> Problem:
    """A Furuta pendulum released near its upright position, 2 s, with 1 mrad of noise."""
    p = {name: Parameter(name, 0.01 if name[0] == "J" else 1e-4, lower=0) for name in SPIN}
    model = furuta(
        inertias=(p["J_Azz"], p["J_Byy"], 0.004), shoulder={"viscous": p["b_1"]}, elbow={"viscous": p["b_2"]}
    )
    return paper_twin(model, SPIN, initial={"elbow": 3.0}, noise=1e-3)


@pytest.fixture(scope="module")
def spun(spin: Problem) -> Solution:
    return spin.solve()


def estimates(solution: Solution) -> np.ndarray:
    return np.array(list(solution.values.values()))


# --- twins ---


def test_a_twin_without_noise_is_recovered():
    # What remains is the small-angle formula of Δp_q, of the order of (h ω)² where ω is the rate: here 1e-6.
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    model = pendulum(inertia=J, viscous=b)
    solution = paper_twin(model, SWING, initial={"hinge": 0.1}, duration=1.0, step=0.002).solve()
    assert solution.cost.total < 1e-15
    np.testing.assert_allclose(estimates(solution), [0.005, 0.004], rtol=1e-6)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("h", [0.01, 0.005])
def test_the_bias_of_a_twin_falls_with_the_square_of_the_step(h):
    J, b = Parameter("J", 0.01, lower=1e-6), Parameter("b", 1e-3, lower=0)
    solution = paper_twin(pendulum(inertia=J, viscous=b), SWING, initial={"hinge": 1.0}, duration=1.0, step=h).solve()
    assert solution.status is Status.CONVERGED
    assert np.all(np.abs(estimates(solution) / [0.005, 0.004] - 1) < 40 * h**2)


def test_a_noisy_twin_is_recovered(spun):
    assert spun.status is Status.CONVERGED
    for name, truth in SPIN.items():
        # The small-angle difference (3.24), which a simulated step does not make, leaves half a percent.
        assert abs(spun[name].estimate - truth) < 3 * spun[name].std_err + 0.01 * truth
    assert spun["J_Byy"].std_err < 0.01 * spun["J_Byy"].estimate


def test_history_falls_and_ends_at_the_answer(spun):
    totals = [step.cost.total for step in spun.history]
    assert all(after < before for before, after in pairwise(totals))
    assert [step.iteration for step in spun.history] == list(range(spun.iterations + 1))
    assert spun.history[0].parameters == {name: p.initial for name, p in spun.parameters.items()}
    assert spun.history[-1].parameters == spun.values
    assert totals[-1] == spun.cost.total
    assert spun.times.evaluate + spun.times.factorize <= spun.times.solve


# --- what must not change the answer ---


def test_going_on_moves_nothing(spin, spun):
    on = spin.solve(initial=spun.values, **TIGHTER)
    np.testing.assert_allclose(estimates(on), estimates(spun), rtol=1e-4)
    tighter = spin.solve(**TIGHTER)
    assert tighter.status is Status.CONVERGED
    np.testing.assert_allclose(estimates(tighter), estimates(spun), rtol=1e-4)


@pytest.mark.parametrize("guess", [1e-4, pytest.param(0.1, marks=pytest.mark.study)])
def test_other_guesses_end_at_the_same_minimum(spin, spun, guess):
    other = spin.solve(initial={"J_Azz": guess, "J_Byy": guess, "b_1": 1e-2})
    np.testing.assert_allclose(estimates(other), estimates(spun), rtol=1e-6)


def test_short_steps_under_heavy_damping_are_no_sign_of_a_minimum(spin, spun):
    # At 1e11 the first steps are far below the tolerances.
    damped = spin.solve(damping=1e11, largest_damping=1e13)
    assert damped.status is Status.CONVERGED
    np.testing.assert_allclose(estimates(damped), estimates(spun), rtol=1e-6)


@pytest.mark.study
def test_corrections_save_iterations_and_change_nothing_else():
    stiff = swing(state_weight=1e6)
    corrected, plain = stiff.solve(), stiff.solve(corrections=0)
    assert corrected.status is plain.status is Status.CONVERGED
    np.testing.assert_allclose(estimates(corrected), estimates(plain), rtol=1e-6)
    assert 2 * corrected.iterations < plain.iterations


def test_units_change_only_the_number():
    unit = 1e-6
    micro = Parameter("J", 0.01 / unit, lower=1e-6 / unit)
    plain, scaled = swing().solve(), swing(J=micro * unit, truth={"J": 0.005 / unit, "b": 0.004}).solve()
    assert scaled.iterations == plain.iterations
    assert scaled.cost.total == pytest.approx(plain.cost.total, rel=1e-10)
    assert scaled["J"].estimate * unit == pytest.approx(plain["J"].estimate, rel=1e-8)
    # Random signs are in it, and with stiff joints they meet other roundings: how uncertain the variance of impulses
    # is, which comes out as almost none here, is known to some percent.
    assert scaled["J"].std_err * unit == pytest.approx(plain["J"].std_err, rel=0.1)
    assert scaled["b"].estimate == pytest.approx(plain["b"].estimate, rel=1e-8)


# --- bounds ---


@pytest.mark.parametrize(
    ("bounds", "held", "other"),
    [
        ({"J": {"lower": 0.006}}, "J", "b"),
        pytest.param({"J": {"lower": 1e-6, "upper": 0.0045}, "guess": 0.004}, "J", "b", marks=pytest.mark.study),
        ({"b": {"lower": 0.0, "upper": 0.003}}, "b", "J"),
    ],
)
def test_a_truth_outside_the_box_ends_on_the_bound(bounds, held, other):
    free = {"J": Parameter("J", bounds.get("guess", 0.01), **bounds.get("J", {}))}
    free["b"] = Parameter("b", 1e-3, **bounds.get("b", {}))
    problem = swing(**free)
    solution = problem.solve()
    assert solution.status is Status.CONVERGED
    assert solution[held].at_bound
    assert solution[held].estimate in (free[held].lower, free[held].upper)
    assert np.isnan(solution[held].std_err)
    assert solution[held].reason == AT_BOUND
    # The other one is where it would be if the first had been fixed there.
    fixed = problem.solve(initial={held: solution[held].estimate}, fixed=[held])
    assert not solution[other].at_bound
    assert solution[other].estimate == pytest.approx(fixed[other].estimate, rel=1e-7)
    assert solution[other].std_err == pytest.approx(fixed[other].std_err, rel=1e-2)
    assert solution.cost.total == pytest.approx(fixed.cost.total, rel=1e-9)


def test_a_guess_on_its_bound_leaves_it():
    solution = swing(J=Parameter("J", 1e-3, lower=1e-3), b=Parameter("b", 0.0, lower=0.0)).solve()
    np.testing.assert_allclose(estimates(solution), estimates(swing().solve()), rtol=1e-6)
    assert not solution["b"].at_bound


# --- how it ends ---


def minimise(residual: object, start: float, **settings: object) -> Outcome:
    """A single state x with the residual of x, and a parameter in a row of its own."""
    x, p, none = ca.SX.sym("x"), ca.SX.sym("p"), ca.SX.sym("none", 0)
    rows = ca.vertcat(residual(x), 1e-3 * p)
    factor = Factor("f", Group.STATE, rows, {0: x}, none, ("row",) * rows.numel())
    chain = Chain("run", 1, {}, {})
    box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    problem = Transcription(Manifold((("flat", 1),)), [factor], p, [], ["p"], *box, [chain])
    return LevenbergMarquardt(**settings).solve(problem, Point((np.array([[start]]),), np.zeros(1)))


@pytest.mark.parametrize(
    ("residual", "start", "end"),
    [
        (lambda x: ca.exp(x) - 2, 3.0, np.log(2)),
        (lambda x: ca.vertcat(10 * (ca.sin(x) - x), 1 - x), -1.2, None),
        (lambda x: ca.vertcat(x - 1, x + 2), 5.0, -0.5),
    ],
)
def test_small_problems_converge(residual, start, end):
    outcome = minimise(residual, start)
    assert outcome.status is Status.CONVERGED
    if end is not None:
        assert outcome.point.states[0][0, 0] == pytest.approx(end, abs=1e-8)


def test_a_perfect_start_has_converged_at_once():
    outcome = minimise(lambda x: x, 0.0)
    assert (outcome.status, len(outcome.history)) == (Status.CONVERGED, 1)
    assert "round-off" in outcome.detail


@pytest.mark.parametrize("limit", [0, 3])
def test_the_iteration_limit(spin, limit):
    solution = spin.solve(max_iterations=limit)
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.iterations == limit
    assert str(limit) in solution.message
    assert "max_iterations" in solution.message


def test_a_kink_stalls():
    # Below x = 1e-8 the slope of |x| + 1 promises more than any step with damping up to 1e8 can keep.
    outcome = minimise(lambda x: ca.fabs(x) + 1, 1e-12)
    assert outcome.status is Status.STALLED
    assert outcome.point.states[0][0, 0] == pytest.approx(0, abs=1e-12)
    assert "damping" in outcome.detail


def test_too_little_damping_allowed_stalls(spin):
    solution = spin.solve(damping=1e-6, largest_damping=1e-7)
    assert solution.status is Status.STALLED
    assert solution.iterations == 0
    assert "compliance" in solution.message


def test_steps_to_where_residuals_are_not_finite_are_refused():
    outcome = minimise(lambda x: ca.log(x), 30.0)  # Newton's first step is to −72
    assert outcome.status is Status.CONVERGED
    assert outcome.point.states[0][0, 0] == pytest.approx(1)


def test_an_interruption_keeps_the_best_iterate(spin):
    seen: list[Iteration] = []

    def callback(iteration: Iteration) -> None:
        seen.append(iteration)
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    solution = spin.solve(callback=callback)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 2
    assert list(solution.values.values()) == seen[-1].parameters.tolist()
    assert solution.cost.total == pytest.approx(seen[-1].total)
    assert [step.cost.total for step in solution.history] == [i.total for i in seen]
    # The states belong to that iterate too.
    motion = solution.trajectories[0]
    assert solution.cost.observation == pytest.approx(np.sum((motion.predicted - motion.observed) ** 2), rel=1e-9)


def test_an_interruption_before_the_first_cost_leaves_nothing_to_keep(spin, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Transcription, "residuals", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spin.solve()


def test_callbacks_see_every_accepted_iterate(spin):
    seen: list[Iteration] = []
    began = time.perf_counter()
    solution = spin.solve(callback=seen.append, max_iterations=3)
    assert [i.iteration for i in seen] == [0, 1, 2, 3]
    assert [i.total for i in seen] == [step.cost.total for step in solution.history]
    assert solution.times.solve < time.perf_counter() - began


def test_every_status_has_advice():
    assert {status.value for status in Status} == {"converged", "max_iterations", "stalled", "diverged", "interrupted"}
    assert len({status.advice for status in Status}) == 5
