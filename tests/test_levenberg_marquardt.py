"""The solver: twins it must recover, bounds, every way it can end, and what must not change its answer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from mechanisms import furuta, paper_twin, pendulum

from spookid import Parameter, Problem, Solution, Status

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


def test_a_guess_on_its_bound_leaves_it():
    solution = swing(J=Parameter("J", 1e-3, lower=1e-3), b=Parameter("b", 0.0, lower=0.0)).solve()
    np.testing.assert_allclose(estimates(solution), estimates(swing().solve()), rtol=1e-6)
    assert not solution["b"].at_bound


# --- how it ends ---


@pytest.mark.parametrize("limit", [0, 3])
def test_the_iteration_limit(spin, limit):
    solution = spin.solve(max_iterations=limit)
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.iterations == limit
    assert str(limit) in solution.message
    assert "max_iterations" in solution.message


def test_too_little_damping_allowed_stalls(spin):
    solution = spin.solve(damping=1e-6, largest_damping=1e-7)
    assert solution.status is Status.STALLED
    assert solution.iterations == 0
    assert "compliance" in solution.message


def test_every_status_has_advice():
    assert {status.value for status in Status} == {"converged", "max_iterations", "stalled", "diverged", "interrupted"}
    assert len({status.advice for status in Status}) == 5
