"""Spook() with noise that is estimated: rows, value and score of the likelihood, and twins."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, joint_state, pendulum
from test_loops import BASE, LENGTHS, MASSES, closed, linkage

from spookid import (
    HingeAngle,
    LevenbergMarquardt,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Solution,
    Spook,
    Status,
)
from spookid.assembly.assembly import assemble
from spookid.mechanics.joint_coordinates import JointCoordinates
from spookid.solvers.linearization import Linearization
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import LinearizedFactor
from spookid.solvers.systems import System
from spookid.statistics.condensing import Condensed, linearize
from spookid.statistics.likelihood import States, marginal
from spookid.statistics.search import Search
from spookid.statistics.trial import Trial
from spookid.transcription.factor import measured_noise
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Point

TRUTH = {"J": 0.005, "b": 0.003, "J_A": 0.003, "J_B": 0.004, "b_2": 0.001}
START = {"hinge": (1.5, 0.5), "shoulder": (0.0, 2.0), "elbow": (1.0, 1.0)}
SIGMA = 1e-3
TIGHT = LevenbergMarquardt(gradient_tolerance=1e-11, step_tolerance=1e-11, decrease_tolerance=1e-14, newton=False)


def parameter(name: str) -> Parameter:
    """With a guess that is 20 % off."""
    return Parameter(name, 1.2 * TRUTH[name], lower=1e-8)


def soft(compliance: float, **more: Any) -> dict[str, Any]:
    return {"compliance": compliance, "damping": 0.02, **more}


def swinging(compliance: float = 1e-4, **settings: Any) -> Problem:
    """A pendulum with free inertia and friction."""
    model = pendulum(inertia=parameter("J"), **soft(compliance, viscous=parameter("b")))
    return declared(model, **settings)


def chain(compliance: float = 1e-4, **settings: Any) -> Problem:
    """A Furuta pendulum with two free inertias and the friction of its elbow."""
    inertias = parameter("J_A"), parameter("J_B"), 0.004
    elbow = soft(compliance, viscous=parameter("b_2"))
    return declared(furuta(inertias=inertias, shoulder=soft(compliance), elbow=elbow), **settings)


def declared(model: Model, **settings: Any) -> Problem:
    """All angles are observed."""
    sensors = [HingeAngle(joint, joint.name + " angle") for joint in model.joints]
    return Problem("twin", model, observations=sensors, **{"stepper": Spook(), **settings})


def twin(problem: Problem, disturbance: float, duration: float = 5.0, seed: int = 0, **more: Any) -> Problem:
    """With a recording of the true mechanism, disturbed and noisy."""
    model = problem.model
    start = {joint.name: START[joint.name] for joint in model.joints}
    noise = dict.fromkeys([joint.name for joint in model.joints], disturbance)
    noise |= dict.fromkeys([o.signal for o in problem.observations], SIGMA)
    truth = {p.name: TRUTH[p.name] for p in problem.parameters}
    recording = problem.simulate(truth, duration, start, noise=noise, seed=seed, **more)
    return problem.with_(recordings=[recording])


@cache
def fitted(compliance: float, disturbance: float, multipliers: Any) -> Solution:
    """A pendulum's twin, fitted."""
    return twin(swinging(compliance, stepper=Spook(multipliers)), disturbance, 8.0).solve()


# --- the rows of a step ---


@pytest.mark.parametrize("make", [swinging, chain])
def test_a_simulated_motion_satisfies_the_hard_rows_and_random_rows_are_its_disturbance(make: Any) -> None:
    problem = twin(make(), 1e-2)
    assembly, recording = assemble(problem), problem.recordings[0]
    assert recording.q is not None
    assert recording.v is not None
    parts = [recording.q.reshape(len(recording.t), -1), recording.v.reshape(len(recording.t), -1)]
    truth = np.array([TRUTH[name] for name in assembly.transcription.names])
    residuals = assembly.transcription.residuals(Point((np.hstack(parts),), truth))[0]
    rows = dict(zip([f.name for f in assembly.transcription.factors], residuals, strict=True))
    assert np.max(np.abs(rows["step"])) < 1e-11
    assert np.max(np.abs(rows["first state"])) < 1e-12
    assert np.std(rows["impulse"]) == pytest.approx(1e-2 * np.sqrt(problem.step), rel=0.1)


def test_impulses_balance_at_violated_hinges() -> None:
    model, rng = furuta(), np.random.default_rng(0)
    q, p = ca.SX.sym("q", 14), ca.SX.sym("p", 12)
    at, joints = model.mechanics(q), JointCoordinates(model)
    found = joints.balanced(at, p)
    loads = ca.vertcat(*(found.loads[joint] for joint in model.joints))
    whole = at.constraint.T @ loads + at.slip.T @ found.along
    error = ca.Function("error", [q, p], [ca.densify(whole - p)])
    apart = joint_state(model, [0.4, 1.1], [0.0, 0.0])[0] + 0.05 * rng.standard_normal(14)
    for i in (3, 10):
        apart[i : i + 4] /= np.linalg.norm(apart[i : i + 4])
    assert np.max(np.abs(error(apart, rng.standard_normal(12)).full())) < 1e-12


# --- the likelihood ---


def trial(problem: Problem, parameters: Array, logs: Array) -> tuple[Search, Trial]:
    assembly = assemble(problem)
    search = Search(assembly.transcription, assembly.noise, TIGHT, 1, lambda _: None)
    return search, search.trial(Point(assembly.start.states, parameters), logs)


@pytest.mark.parametrize(
    ("make", "compliance"), [(swinging, 1e-4), (swinging, 0.0), pytest.param(chain, 1e-4, marks=pytest.mark.study)]
)
def test_score_is_the_slope_of_the_value(make: Any, compliance: float) -> None:
    problem = twin(make(compliance), 1e-3, 0.6)
    parameters = np.array([p.guess for p in problem.free])
    logs = np.log([2e-4] + [1.5e-3] * len(problem.observations))
    search, here = trial(problem, parameters, logs)
    slopes = np.zeros(len(parameters) + len(logs))
    for i in range(len(slopes)):
        values = []
        for sign in (1, -1):
            theta, eta, h = parameters.copy(), logs.copy(), 3e-4
            if i < len(theta):
                theta[i] *= 1 + sign * h
            else:
                eta[i - len(theta)] += sign * h
            values.append(search.trial(Point(here.point.states, theta), eta).value)
        slopes[i] = (values[0] - values[1]) / (2 * h * (parameters[i] if i < len(theta) else 1.0))
    np.testing.assert_allclose(here.score, slopes, rtol=1e-4, atol=1e-4 * np.sqrt(np.diag(here.matrix).min()))


def test_value_is_the_density_of_the_data_by_dense_algebra() -> None:
    """Σ log of all pieces, by stiff rows and dense determinants on a few steps."""
    problem = twin(swinging(), 1e-3, 0.1)
    assembly = assemble(problem)
    _, here = trial(problem, np.array([p.guess for p in problem.free]), np.log([2e-4, 1e-3]))
    reduced = here.states.reduced
    rows, _ = reduced.linearize(here.point, 0, kept=True)
    steps, t = assembly.transcription.chains[0].steps, reduced.tangent
    soft_rows, hard_rows = np.zeros((0, steps * t)), np.zeros((0, steps * t))
    normalizer = 0.0
    newest = []
    for factor, block in zip(reduced.kept, rows, strict=True):
        count, _, m = block.matrix.shape
        whole = np.zeros((count, m, steps * t))
        for i, offset in enumerate(block.offsets):
            for k in range(count):
                whole[k, :, (k + offset) * t : (k + offset + 1) * t] = block.matrix[k, i * t : (i + 1) * t].T
        flat = whole.reshape(-1, steps * t)
        if factor.hard:
            hard_rows = np.vstack([hard_rows, flat])
        else:
            soft_rows = np.vstack([soft_rows, flat])
        if factor.first_only:
            normalizer += np.linalg.slogdet(block.matrix[0, :t].T @ block.matrix[0, :t])[1]
        elif factor.hard or factor.density:
            newest.append(block.matrix[:, t : 2 * t])
    normalizer += 2 * np.sum(np.linalg.slogdet(np.concatenate(newest, axis=2))[1])
    saddle = np.block([[soft_rows.T @ soft_rows, hard_rows.T], [hard_rows, np.zeros((len(hard_rows), len(hard_rows)))]])
    residual = sum(here.marginal.sweep().residual.values())
    expected = np.linalg.slogdet(saddle)[1] - normalizer + residual + 2 * steps * np.log(1e-3)
    assert here.marginal.value == pytest.approx(expected, rel=1e-8)


def test_hard_rows_have_no_share_in_noise_and_their_scale_none_in_the_answer() -> None:
    problem = twin(swinging(), 1e-3, 0.5)
    _, here = trial(problem, np.array([p.guess for p in problem.free]), np.log([2e-4, 1e-3]))
    assert set(here.marginal.freedom()) == {"hinge", measured_noise("hinge angle")}
    # An observation a step, of which the first state's angle and rate take two.
    freedom = len(problem.recordings[0].t) - 2
    assert sum(here.marginal.freedom().values()) == pytest.approx(freedom, rel=1e-6)
    reduced = ReducedProblem(here.states.reduced.problem, here.point)
    reduced.penalty *= 1e4
    other = marginal(States(reduced, here.point), {measured_noise("hinge angle"): np.log(1e-3)})
    assert other.value == pytest.approx(here.marginal.value, rel=1e-9)
    np.testing.assert_allclose(other.score, here.marginal.score, rtol=1e-6)


def test_small_noise_loses_no_digits() -> None:
    """With less and less of it the likelihood approaches that of a motion without any."""
    problem = twin(swinging(), 0.0, 1.0)
    parameters = np.array([TRUTH[p.name] for p in problem.free])
    values = [trial(problem, parameters, np.log([size, SIGMA]))[1] for size in (1e-8, 1e-10)]
    assert values[0].value == pytest.approx(values[1].value, abs=1e-4)
    np.testing.assert_allclose(values[0].score[:-2], values[1].score[:-2], rtol=1e-3, atol=1.0)


def test_stiff_rows_tell_the_same_information_as_hard_ones() -> None:
    problem = twin(swinging(), 1e-3, 2.0)
    _, here = trial(problem, np.array([p.guess for p in problem.free]), np.log([1e-4, 1e-3]))
    condensed = Condensed(linearize(here.states.reduced.problem, here.point), FreeDirections(np.zeros(2, dtype=bool)))
    np.testing.assert_allclose(condensed.information, here.marginal.information, rtol=1e-4)


def at_start(problem: Problem) -> list[LinearizedFactor]:
    """Factors at the initial guess, all of whose rows are kept."""
    assembly = assemble(problem)
    reduced = ReducedProblem(assembly.transcription, assembly.start)
    return list(Linearization(reduced, assembly.start, kept=True).chains[0])


def test_hard_rows_are_eliminated_by_blocks() -> None:
    problem = twin(chain(), 1e-3, 0.3)
    terms = at_start(problem)
    system, unknowns = System(terms), terms[0].steps * terms[0].tangent
    right = np.random.default_rng(0).standard_normal((unknowns, 2))
    solved = system.solve(right)
    # The inverse is symmetric.
    assert right[:, 0] @ solved[:, 1] == pytest.approx(right[:, 1] @ solved[:, 0], rel=1e-6)


def test_hard_rows_are_eliminated_alike_by_c_and_by_numpy(by_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = at_start(twin(chain(), 1e-3, 0.3))
    unknowns, found = terms[0].steps * terms[0].tangent, []
    for _ in range(2):
        system, rng = System(terms), np.random.default_rng(0)
        solved = [system.solve(rng.standard_normal((unknowns, columns))) for columns in (1, 3, 9)]
        across = [system.cross_covariances(i) for i in range(len(terms))]
        found.append([system.corner, system.response, np.array(system.logarithm()), *solved, *across])
        monkeypatch.setenv("SPOOKID_NATIVE", "off")
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10 * np.abs(other).max())


@pytest.mark.parametrize("lenient", [True, False])
def test_states_are_projected_out_as_dense_algebra_does(lenient: bool) -> None:
    terms = at_start(twin(chain(), 1e-3, 0.06))
    system, unknowns = System(terms, lenient), terms[0].steps * terms[0].tangent
    soft, hard = (np.vstack([flat(t) for t in terms if t.factor.hard == wanted]) for wanted in (False, True))
    J, A = soft[:, :unknowns], hard[:, :unknowns]
    _, sizes, right = np.linalg.svd(A)
    assert np.all(sizes > 1e-6 * sizes[0])  # hard rows are independent
    free, own = right[len(A) :].T, np.linalg.lstsq(A, hard[:, unknowns:], rcond=None)[0]
    rest = soft[:, unknowns:] - J @ own
    left = rest - J @ free @ np.linalg.lstsq(J @ free, rest, rcond=None)[0]
    columns = [part.transpose(0, 2, 1).reshape(-1, part.shape[1]) for part in system.condensed(again=True)]
    T = np.vstack([part for part, term in zip(columns, terms, strict=True) if not term.factor.hard])
    forces = np.vstack([part for part, term in zip(columns, terms, strict=True) if term.factor.hard])
    scale = np.abs(left).max(axis=0)
    np.testing.assert_allclose(T / scale, left / scale, atol=1e-8)
    balance = J.T @ T + A.T @ forces
    np.testing.assert_allclose(balance / np.abs(J.T @ rest).max(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(system.corner, left.T @ left, rtol=1e-6, atol=1e-8 * np.abs(left.T @ left).max())


def flat(term: LinearizedFactor) -> Array:
    """Its rows in all unknowns of the states, and behind them the border."""
    rows, t = term.rows, term.tangent
    whole = np.zeros((len(rows.matrix), rows.matrix.shape[2], term.steps * t + term.parameters + 1))
    for k, matrix in enumerate(rows.matrix):
        for i, offset in enumerate(rows.offsets):
            whole[k, :, (k + offset) * t : (k + offset + 1) * t] = matrix[i * t : (i + 1) * t].T
        whole[k, :, term.steps * t :] = matrix[term.unknowns :].T
    return whole.reshape(-1, whole.shape[2])


def test_hard_rows_that_repeat_one_another_do_not_matter(engine: str) -> None:
    terms = at_start(twin(swinging(), 1e-3, 0.06))
    number = next(i for i, term in enumerate(terms) if term.factor.hard and len(term.rows.offsets) == 2)
    rows = terms[number].rows
    again = replace(rows, matrix=np.concatenate([rows.matrix, 3 * rows.matrix[:, :, :1]], axis=2), places=None)
    twice = [replace(term, source=again) if i == number else term for i, term in enumerate(terms)]
    one, two = System(terms), System(twice)
    np.testing.assert_allclose(two.corner, one.corner, rtol=1e-6, atol=1e-8 * np.abs(one.corner).max())
    np.testing.assert_allclose(two.response, one.response, rtol=1e-6, atol=1e-7 * np.abs(one.response).max())
    assert two.logarithm() == pytest.approx(one.logarithm(), abs=1e-5)


def test_covariances_beside_hard_rows_are_those_of_the_steps_that_a_row_is_of() -> None:
    terms = at_start(twin(chain(), 1e-3, 0.06))
    steps, t = terms[0].steps, terms[0].tangent
    number = next(
        i
        for i, term in enumerate(terms)
        if not term.factor.hard and term.rows.offsets == (0,) and len(term.rows.matrix) == steps
    )
    rows = replace(terms[number].rows, offsets=(1,), matrix=terms[number].rows.matrix[:-1])
    terms[number] = replace(terms[number], source=rows)
    system = System(terms)
    covariance = system.solve(np.eye(steps * t)).reshape(steps, t, steps, t)
    wanted = [covariance[k + 1, :, k + 1] @ rows.matrix[k, :t] for k in range(steps - 1)]
    np.testing.assert_allclose(system.cross_covariances(number), wanted, rtol=1e-6, atol=1e-12)


def test_covariances_beside_hard_rows_of_rows_over_three_steps() -> None:
    terms = at_start(twin(chain(), 1e-3, 0.06))
    steps, t = terms[0].steps, terms[0].tangent
    number = next(i for i, term in enumerate(terms) if not term.factor.hard and term.rows.offsets == (0, 1))
    matrix = terms[number].rows.matrix[:-1]
    skipping = replace(terms[number].rows, offsets=(0, 2), matrix=matrix, places=None)
    terms[number] = replace(terms[number], source=skipping)
    system = System(terms)
    covariance = system.solve(np.eye(steps * t)).reshape(steps, t, steps, t)
    places = [[k, k + 2] for k in range(steps - 2)]
    blocks = [covariance[p][:, :, p].reshape(2 * t, 2 * t) for p in places]
    wanted = [P @ J[: 2 * t] for P, J in zip(blocks, matrix, strict=True)]
    found = system.cross_covariances(number)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9 * np.abs(wanted).max())


# --- twins ---


@pytest.mark.parametrize(
    ("compliance", "multipliers", "disturbance"),
    [
        pytest.param(1e-4, "eliminated", 1e-3, marks=pytest.mark.study),
        (1e-4, "eliminated", 1e-2),
        pytest.param(0.0, "lifted", 1e-4, marks=pytest.mark.study),
    ],
)
def test_a_twin_tells_its_parameters_and_its_noise(compliance: float, multipliers: str, disturbance: float) -> None:
    solution = fitted(compliance, disturbance, multipliers)
    assert solution.status is Status.CONVERGED
    for estimate in solution.parameters.values():
        assert abs(estimate.estimate - TRUTH[estimate.name]) < 4 * estimate.std_err
    torque, angle = solution.noise
    assert torque.density == pytest.approx(disturbance, rel=max(0.15, 3 * torque.error))
    assert angle.std == pytest.approx(SIGMA, rel=0.15)


@pytest.mark.study
def test_a_chain_tells_its_parameters_and_its_noise() -> None:
    solution = twin(chain(), 1e-2, 1.5).solve()
    assert solution.status is Status.CONVERGED
    for estimate in solution.parameters.values():
        assert abs(estimate.estimate - TRUTH[estimate.name]) < 4 * estimate.std_err
    for noise in solution.noise:
        true, found = (1e-2, noise.density) if noise.kind == "disturbance" else (SIGMA, noise.std)
        assert found == pytest.approx(true, rel=max(0.15, 3 * noise.error))


def test_both_settings_of_the_multipliers_are_one() -> None:
    one, other = fitted(1e-4, 1e-3, "eliminated"), fitted(1e-4, 1e-3, "lifted")
    for name, estimate in one.parameters.items():
        assert estimate.estimate == pytest.approx(other.parameters[name].estimate, rel=1e-9)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)


def test_trajectories_are_whole() -> None:
    solution = fitted(1e-4, 1e-3, "eliminated")
    motion, steps = solution.trajectories[0], 801
    assert motion.q.shape == (steps, 1, 7)
    assert motion.v.shape == (steps, 1, 6)
    assert motion.multipliers.shape == (steps, 5)
    assert motion.impulse_residual.shape == (steps, 1)
    assert np.all(np.isfinite(motion.q))
    assert np.all(np.isfinite(motion.v))
    assert np.all(np.isfinite(motion.impulse_residual[1:]))
    # Where the rod swings no more than it does here, its hinge carries about its weight.
    assert np.nanmean(np.linalg.norm(motion.multipliers[:, :3], axis=1)) == pytest.approx(0.5 * 9.82 * 0.01, rel=0.5)
    assert "converged" in solution.summary()


def test_a_given_weight_is_what_it_was() -> None:
    scheme = swinging(state_weight=100.0).scheme
    assert isinstance(scheme, Spook)


def test_measured_torques_are_no_density_of_the_state() -> None:
    model = pendulum(inertia=parameter("J"), **soft(1e-4, viscous=parameter("b")))
    driven = Model(model.bodies, model.joints, [Motor(model.joints[0], "u", measured=True)], gravity=model.gravity)
    problem = declared(driven)
    t = np.arange(601) * 0.01
    torque = 0.5 * np.sin(5 * t)
    inputs = Recording(t=t, signals={"u": torque}, name="drive")
    problem = twin(problem, 0.0, 6.0, inputs=inputs)
    noisy = torque + 0.02 * np.random.default_rng(1).standard_normal(len(t))
    signals = {**problem.recordings[0].signals, "u": noisy}
    solution = problem.with_(recordings=[Recording(t=t, signals=signals, name="drive")]).solve()
    assert solution.status is Status.CONVERGED
    assert {noise.names[0]: noise.std for noise in solution.noise}["u"] == pytest.approx(0.02, rel=0.25)
    for estimate in solution.parameters.values():
        assert abs(estimate.estimate - TRUTH[estimate.name]) < 4 * estimate.std_err


# --- loops ---


def loop(compliance: float, inertia: Any = 2e-4) -> Problem:
    inertias = (inertia, 2.5e-3, 4e-3)
    model = linkage(LENGTHS, BASE, MASSES, inertias, viscous=0.01, gain=0.05, **soft(compliance))
    return declared(model)


@pytest.mark.study
def test_a_soft_loop_can_be_fitted() -> None:
    problem = loop(1e-6, Parameter("J", 2.4e-4, lower=1e-7))
    t = np.arange(61) * 0.01
    inputs = Recording(t=t, signals={"u": 3 * np.sin(6 * t)}, name="drive")
    noise = {joint.name: 1e-3 for joint in problem.model.joints} | {o.signal: SIGMA for o in problem.observations}
    recording = problem.simulate({"J": 2e-4}, 0.6, closed(LENGTHS, BASE, 1.0), inputs=inputs, noise=noise)
    solution = problem.with_(recordings=[recording]).solve()
    assert solution.status is Status.CONVERGED
    estimate = solution.parameters["J"]
    assert abs(estimate.estimate - 2e-4) < 4 * estimate.std_err


def test_a_rigid_loop_is_refused() -> None:
    problem = loop(0.0)
    t = np.arange(31) * 0.01
    signals = {o.signal: np.full(len(t), 0.1) for o in problem.observations} | {"u": np.zeros(len(t))}
    problem = problem.with_(stepper=Spook("lifted"), recordings=[Recording(t=t, signals=signals, name="still")])
    with pytest.raises(ProblemError, match=r"compliance 0 in a mechanism with loops.* use Variational\(\)"):
        assemble(problem)
