"""What ``problem.solve`` returns: one set of numbers that agree with one another and with the problem."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from mechanisms import OneStep, furuta, twin

import spookid
from spookid import Cost, Parameter, Problem, ProblemError, Recording, Solution, Spook, Status, Variational

TRUTH = {"J_Azz": 0.003, "b_1": 1e-3, "m": 1.0, "K": 0.1}


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A driven Furuta pendulum, half a second, one recording with a gap and a shorter one, one parameter fixed."""
    p = {name: Parameter(name, 2 * value, lower=0, unit="u", note="n") for name, value in TRUTH.items()}
    model = furuta(inertias=(p["J_Azz"], 0.004 * p["m"], 0.004), shoulder={"viscous": p["b_1"]}, motor={"gain": p["K"]})
    inputs = Recording(t=np.arange(60) * 0.01, signals={"u": np.sign(np.sin(0.3 * np.arange(60)))})
    paper = {"state_weight": 100.0, "stepper": Spook()}
    one = twin(model, TRUTH, initial={"elbow": 2.0}, duration=0.5, inputs=inputs, noise=1e-3, **paper)
    theta = one.recordings[0].signals["elbow"].copy()
    theta[20:23] = np.nan
    short = one.recordings[0].between(0.1, 0.4)
    return one.with_(recordings=[one.recordings[0].with_signals(elbow=theta), short], fixed="m", initial={"m": 1.0})


@pytest.fixture(scope="module")
def solution(problem: Problem) -> Solution:
    return problem.solve()


def test_it_says_how_it_was_made(solution):
    assert (solution.problem, solution.backend, solution.stepper, solution.friction) == (
        "twin",
        "lm",
        "spook",
        "smooth",
    )
    assert (solution.step, solution.state_weight, solution.status) == (0.01, 100.0, Status.CONVERGED)
    assert (solution.dynamics, solution.noise) == ("weight", ())
    assert math.isnan(solution.log_likelihood)
    assert [f.code for f in solution.findings].count("weight.paper") == 1
    assert solution.versions["spookid"] == spookid.__version__
    assert set(solution.versions) >= {"spookid", "casadi", "numpy"}
    assert solution.message.startswith(Status.CONVERGED.advice.removesuffix("."))
    assert solution.detail in solution.message
    assert math.isnan(solution.complementarity_residual)


@pytest.mark.parametrize("name", ["fit", "convergence", "parameters", "influence", "mechanism"])
def test_a_plot_is_a_figure_that_notebooks_show(drawn, solution, name):
    figure = solution.plot(name)
    assert figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_plot_that_is_none_is_refused_with_those_that_are(solution):
    with pytest.raises(
        ProblemError, match=r"figure 'fits' does not exist; figures are fit, convergence, parameters, influence"
    ):
        solution.plot("fits")


def test_sizes(solution):
    size = solution.size
    assert (size.recordings, size.steps, size.states, size.parameters) == (2, 51 + 30, (51 + 30) * 24, 3)
    assert size.residuals == 2 * 24 + (50 + 29) * 24 + (51 + 30) * 2 - 3
    assert size.residuals < size.jacobian_nonzeros < size.residuals * 51


def test_estimates(solution):
    assert list(solution.parameters) == list(TRUTH)
    for name, truth in TRUTH.items():
        estimate = solution[name]
        assert (estimate.name, estimate.unit, estimate.lower, estimate.upper) == (name, "u", 0.0, math.inf)
        assert estimate.initial == (1.0 if name == "m" else 2 * truth)
        assert not estimate.at_bound
        assert estimate.fixed == (name == "m")
    assert solution["m"].estimate == 1.0
    assert math.isnan(solution["m"].std_err)
    assert "fixed" in solution["m"].reason
    assert solution["K"].estimate == pytest.approx(0.1, rel=0.1)
    assert solution.values == {name: solution[name].estimate for name in TRUTH}
    with pytest.raises(KeyError, match=r"no parameter 'J'; there are J_Azz, b_1, m, K"):
        solution["J"]


def test_costs_are_sums_over_the_trajectories(solution):
    state = sum(np.sum(motion.impulse_residual**2) for motion in solution.trajectories)
    observation = sum(np.nansum((motion.predicted - motion.observed) ** 2) for motion in solution.trajectories)
    assert solution.cost.state == pytest.approx(100.0 * state, rel=1e-9)
    assert solution.cost.observation == pytest.approx(observation, rel=1e-9)
    assert solution.cost.total == solution.cost.state + solution.cost.observation + solution.cost.prior
    assert Cost(1.0, 2.0, 4.0).total == 7.0


def test_trajectories(problem, solution):
    first, second = solution.trajectories
    assert first.signals == ("shoulder", "elbow")
    for motion, recording, n in ((first, problem.recordings[0], 51), (second, problem.recordings[1], 30)):
        assert motion.name == recording.name
        np.testing.assert_allclose(motion.t, recording.t, atol=1e-12)
        assert (motion.q.shape, motion.v.shape) == ((n, 2, 7), (n, 2, 6))
        assert (motion.observed.shape, motion.predicted.shape) == ((n, 2), (n, 2))
        assert (motion.impulse_residual.shape, motion.multipliers.shape) == ((n, 24), (n, 10))
        np.testing.assert_allclose(np.linalg.norm(motion.q[:, :, 3:], axis=2), 1, atol=1e-12)
        np.testing.assert_allclose(motion.observed[:, 0], recording.signals["shoulder"])
        assert np.nanmax(np.abs(motion.predicted - motion.observed)) < 0.01
    assert np.isnan(first.observed[20:23, 1]).all()
    assert np.isfinite(first.predicted).all()
    assert np.abs(np.diff(first.predicted[:, 1])).max() < 1.0


def test_multipliers_and_residuals_are_those_of_the_step(problem, solution):
    values = {p: solution[p.name].estimate for p in problem.parameters}
    step = OneStep(problem.model, h=0.01, values=values)
    motion = solution.trajectories[0]
    states = np.hstack([motion.q.reshape(51, 14), motion.v.reshape(51, 12)])
    u = problem.recordings[0].signals["u"]
    for k in (0, 7, 49):
        np.testing.assert_allclose(
            motion.multipliers[k], step.multipliers(states[k], states[k + 1], u[k : k + 1]), atol=1e-12
        )
        residual = step.residual(states[k], states[k + 1], u[k : k + 1])
        np.testing.assert_allclose(motion.impulse_residual[k + 1], residual, atol=1e-12)
    np.testing.assert_allclose(motion.impulse_residual[0], step.initial(states[0]), atol=1e-12)
    assert np.isnan(motion.multipliers[-1]).all()


def test_impulses_of_estimated_noise_are_in_physical_units(problem):
    found = problem.solve(state_weight=None, stepper=Variational())
    motion, (first, *_) = found.trajectories[0], found.noise
    assert motion.impulse_residual.shape == (51, 2)
    assert first.kind == "disturbance"
    sizes = {name: noise.std for noise in found.noise if noise.kind == "disturbance" for name in noise.names}
    scale = 0.01 * np.array([sizes["shoulder"], sizes["elbow"]])
    squares = sum(np.nansum((motion.impulse_residual / scale) ** 2) for motion in found.trajectories)
    assert found.cost.state == pytest.approx(squares, rel=1e-3)  # states are known no better


def test_expressions(solution):
    K, m, J = (Parameter(name, 1.0) for name in ("K", "m", "J_Azz"))
    assert solution(2 * K).estimate == pytest.approx(2 * solution["K"].estimate)
    assert solution(K * m).std_err == pytest.approx(solution["K"].std_err)
    assert (solution(m).estimate, solution(m).std_err) == (1.0, 0.0)
    assert (solution(3.0).estimate, solution(3.0).std_err) == (3.0, 0.0)
    known = solution.sensitivities
    assert known.names == ("J_Azz", "b_1", "K")
    first, _, last = np.sqrt(np.diag(known.covariance))
    expected = first**2 + last**2 + 2 * known.correlation[0, 2] * first * last
    assert solution(J + K).std_err == pytest.approx(math.sqrt(expected))


def test_expressions_of_the_files_own_parameters_are_understood(problem, solution):
    own = {p.name: p for p in problem.parameters}
    assert solution(own["K"] / own["b_1"]).estimate == pytest.approx(solution["K"].estimate / solution["b_1"].estimate)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Parameter("stranger", 1.0), "'stranger', which is no parameter of 'twin'"),
        ("K", "must be a number or an expression"),
        ([1.0, 2.0], "one number"),
    ],
)
def test_other_expressions_are_refused(solution, expression, message):
    with pytest.raises(ProblemError, match=message):
        solution(expression)


def test_it_is_frozen(solution):
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.status = Status.STALLED
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution["K"].estimate = 1.0


def test_doors_to_rendering_open(solution, tmp_path):
    text = solution.summary()
    for name in TRUTH:
        assert name in text
    solution.save(tmp_path / "out")
    again = spookid.load(tmp_path / "out")
    assert again.values == solution.values
    assert again.status is solution.status
