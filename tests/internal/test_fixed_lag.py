"""The fixed-lag smoother on a transcription: dense algebra on linear problems, consistency on others."""

from __future__ import annotations

from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from fixed_lag_problems import bilinear, exponential, factor, linear, scaled, transcription
from mechanisms import Array

from spookid import Manifold, ProblemError, load_problem
from spookid.assembly.assembly import assemble
from spookid.solvers import lag_terms
from spookid.solvers.fixed_lag import FixedLag
from spookid.solvers.fronts import Pivots, joint_covariance
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.statistics.likelihood import States
from spookid.transcription.factor import Group, Kind

ROOT = Path(__file__).parents[2]


def close(found: Array, expected: Array, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max()))


# --- linear problems ---


@pytest.mark.parametrize(("reach", "window", "hard"), [(1, 2, False), (1, 7, True), (2, 3, True), (2, 20, False)])
def test_a_linear_problem_has_the_answer_of_all_data_at_once(engine, reach, window, hard):
    known = linear(reach, hard)
    *_, lag = known.stream(window)
    states, parameters, covariance = known.answer()
    close(lag.states, states[-window:])
    close(lag.parameters, parameters)
    close(lag.parameter_covariance(), covariance[-3:, -3:])
    close(lag.state_covariance(), covariance[-5:-3, -5:-3])
    assert lag.first == known.steps - window
    if hard:
        assert np.abs(lag.states @ [1, 2] - known.data["surface"][-window:, 0]).max() < 1e-12


def test_both_ways_give_the_same_numbers(by_c, monkeypatch):
    found = []
    for _ in range(2):
        problem, data = exponential(np.random.default_rng(1))
        found.append(run(problem, data, 60, window=8, start=np.zeros(1)))
        monkeypatch.setenv("SPOOKID_NATIVE", "off")
    one, other = ((lag.states, lag.parameters, lag.state_covariance(), *lag.released()) for lag in found)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())


def test_what_is_not_determined_yet_has_no_error_and_stays(engine):
    known, errors = linear(1, prior=False), []
    for lag in known.stream(3):
        errors.append(np.diag(lag.parameter_covariance()).copy())
        if lag.first == 0 and lag.steps == 1:
            assert lag.parameters.tolist() == [0, 0, 0]
    assert np.isnan(errors[0]).all()
    assert np.isfinite(errors[-1]).all()
    known_at = np.flatnonzero(np.isfinite(errors).all(axis=1))[0]
    for early in range(known_at):
        shorter = linear(1, prior=False)
        shorter.steps = early + 1
        rows = shorter.rows()[0][:, :-1]
        assert np.linalg.matrix_rank(rows) < rows.shape[1]


def test_rows_that_have_left_are_white(engine):
    # At the true parameters their sum has the covariance that is told: the information.
    rng, count, scores = np.random.default_rng(4), 16, []
    known, truth = linear(1, steps=25, prior=False), np.array([0.3, -0.2, 0.5])
    states, kept = rng.normal(size=2 * known.steps), ~known.missing["observation"]
    for _ in range(count):
        rows = known.rows()[0]
        motion = rows[:48, :-1] @ np.concatenate([states, truth]) + rows[:48, -1]
        known.data["motion"][:, 6:] -= (motion + rng.normal(size=48)).reshape(24, 2)
        known.data["observation"][kept] = (states + rng.normal(size=50) / 3).reshape(25, 2)[kept]
        lag = FixedLag(known.problem, 4, parameters=truth)
        for k in range(known.steps):
            known.feed(lag, k)  # nothing is solved for: parameters stay where they are
        for _ in range(4):
            lag.append()
        score, information = lag.released()
        scores.append(np.linalg.solve(np.linalg.cholesky(information), score))
        assert not lag.released()[1].any()
    squares = np.square(scores)
    assert 1 - 3.5 * np.sqrt(2 / squares.size) < squares.mean() < 1 + 3.5 * np.sqrt(2 / squares.size)
    assert np.abs(np.mean(scores, axis=0)).max() < 3.5 / np.sqrt(count)


# --- bounds, order, saving ---


def test_parameters_stay_in_their_bounds(engine):
    x, y, theta = ca.SX.sym("x"), ca.SX.sym("y"), ca.SX.sym("theta", 2)
    rows = [factor("seen", ca.vertcat(x - y, x - theta[0] - 3, theta[0] + theta[1] - 5), [x], y)]
    problem = transcription(rows, theta, 10, bounds=(0.0, 1.0))
    lag = FixedLag(problem, 3, parameters=np.full(2, 0.5))
    for k in range(10):
        lag.append(np.zeros(1) if k == 0 else None)
        lag.set_data("seen", k, np.array([9.0]))
        lag.solve()
    np.testing.assert_allclose(lag.parameters, [1, 1], atol=1e-12)
    np.testing.assert_allclose(lag.states, 6.5, atol=1e-9)


def test_data_that_come_late_count_as_long_as_their_rows_are_there(engine):
    known, late = linear(1), linear(1)
    lag = FixedLag(late.problem, 5, parameters=np.zeros(3))
    for k in range(late.steps):
        lag.append(np.zeros(2) if k == 0 else None)
        for at in (k - 3, k - 2) if k % 2 and k > 2 else ():
            for name in ("observation", "motion"):
                missing = late.missing[name][at] if name in late.missing else None
                assert lag.set_data(name, at, late.data[name][at], missing)
        lag.solve()
    for at in range(late.steps - 3, late.steps):
        lag.set_data("observation", at, late.data["observation"][at], late.missing["observation"][at])
    for at in range(late.steps - 2 - late.steps % 2, late.steps - 1):
        lag.set_data("motion", at, late.data["motion"][at])
    lag.solve()
    *_, prompt = known.stream(5)
    close(lag.parameters, prompt.parameters)
    assert not lag.set_data("observation", lag.first - 1, np.zeros(2))
    with pytest.raises(ValueError, match=f"step {late.steps} has no data yet"):
        lag.set_data("observation", late.steps, np.zeros(2))


def test_a_smoother_goes_on_from_what_was_saved_with_the_same_digits(engine, tmp_path):
    problem, data = bilinear(np.random.default_rng(2))
    lag = run(problem, data, 25, window=8, start=np.array([1.0, 1.5]))
    np.savez(tmp_path / "state.npz", **lag.arrays())
    with np.load(tmp_path / "state.npz") as arrays:
        again = FixedLag.resumed(problem, arrays)
    for _ in range(40):
        sample = next(data)
        for one in (lag, again):
            feed(one, *sample)
        assert np.array_equal(lag.states, again.states)
        assert np.array_equal(lag.parameters, again.parameters)
    assert np.array_equal(lag.state_covariance(), again.state_covariance(), equal_nan=True)
    assert all(np.array_equal(a, b) for a, b in zip(lag.released(), again.released(), strict=True))


def test_nothing_grows(engine):
    problem, data = bilinear(np.random.default_rng(2))
    lag = run(problem, data, 20, window=5, start=np.array([1.0, 1.5]))
    before = {name: array.shape for name, array in lag.arrays().items()}
    for _ in range(60):
        feed(lag, *next(data))
    after = {name: array.shape for name, array in lag.arrays().items()}
    assert after.pop("border soft")[0] <= 2
    assert after.items() <= before.items()


# --- what no data tell ---


def feed(lag: FixedLag, u: Array, y: Array) -> None:
    """One step of a problem with motion and observation, and the input that led to it."""
    k = lag.append(np.ones(1) if lag.steps == 0 else None)
    lag.set_data("observation", k, y)
    if k:
        lag.set_data("motion", k - 1, u)
    lag.solve()


def run(problem, data, count: int, window: int, start: Array) -> FixedLag:
    lag = FixedLag(problem, window, parameters=start)
    for _ in range(count):
        feed(lag, *next(data))
    return lag


def known_of(lag: FixedLag) -> Array:
    """Eigenvalues of the information in the parameters that is remembered, relative to the largest."""
    rows = lag.arrays()["border soft"][:, :-1]
    return np.linalg.eigvalsh(rows.T @ rows) / np.linalg.norm(rows) ** 2


@pytest.mark.study
@pytest.mark.parametrize(("model", "start"), [(bilinear, (1.0, 1.5)), (scaled, (1.5, 0.05))])
def test_what_no_data_tell_stays_unknown_while_parameters_move(model, start):
    problem, data = model(np.random.default_rng(0))
    lag, way = FixedLag(problem, 5, parameters=np.array(start)), []
    for k in range(2000):
        feed(lag, *next(data))
        if k % 50 == 0:
            way.append(lag.parameters)
    assert np.ptp(way[1:], axis=0).max() > 0.1 * np.abs(way).max(axis=0).min()
    assert abs(known_of(lag)[0]) < 1e-12
    assert np.isnan(np.diag(lag.parameter_covariance())).any()


def test_at_present_estimates_it_would_become_known(monkeypatch):
    monkeypatch.setattr(lag_terms, "_MOST", 1e12)
    monkeypatch.setattr(lag_terms, "_KNOWN", -1e12)
    monkeypatch.setattr(lag_terms, "NO_INFORMATION", -1.0)
    monkeypatch.setattr(lag_terms, "_FAR", 0.0)
    problem, data = bilinear(np.random.default_rng(0))
    assert known_of(run(problem, data, 400, window=5, start=np.array([1.0, 1.5])))[0] > 1e-6


def test_first_estimates_that_are_far_off_give_way():
    lag = run(*exponential(np.random.default_rng(0)), 300, window=5, start=np.zeros(1))
    error = np.sqrt(lag.parameter_covariance()[0, 0])
    assert abs(lag.parameters[0] - 1.2) < 4 * error
    assert lag.arrays()["first estimates"] == pytest.approx(1.2, abs=0.02)


def test_a_parameter_of_which_nothing_is_known_yet_stays_near_its_start():
    # The first steps are so short that noise makes their length: any small step fits, and there none would tell of θ.
    for seed in range(4):
        problem, data = exponential(np.random.default_rng(seed), short=1e-3)
        lag = run(problem, data, 20, window=5, start=np.zeros(1))
        assert abs(lag.parameters[0]) < 1.0
        assert np.sqrt(lag.parameter_covariance()[0, 0]) > 1.0
        for _ in range(300):
            feed(lag, *next(data))
        assert abs(lag.parameters[0] - 1.2) < 4 * np.sqrt(lag.parameter_covariance()[0, 0])


# --- curved problems ---


def test_hard_rows_hold_on_a_curved_surface(engine):
    # A point on a circle, pushed along it by known steps and seen with noise.
    x, u, y = [ca.SX.sym("x", 2), ca.SX.sym("z", 2)], ca.SX.sym("u"), ca.SX.sym("y", 2)
    turned = ca.vertcat(ca.cos(u) * x[0][0] - ca.sin(u) * x[0][1], ca.sin(u) * x[0][0] + ca.cos(u) * x[0][1])
    rows = [
        factor("circle", ca.sumsqr(x[0]) - 1, x[:1], kind=Kind.HARD),
        factor("push", (x[1] - turned) / 0.01, x, u),
        factor("seen", (x[0] - y) / 0.05, x[:1], y),
    ]
    lag, rng, angle = FixedLag(transcription(rows, ca.SX(0, 1), 10), 6), np.random.default_rng(0), 0.0
    for k in range(60):
        lag.append(np.array([0.9, 0.1]) if k == 0 else None)
        lag.set_data("seen", k, np.array([np.cos(angle), np.sin(angle)]) + 0.05 * rng.normal(size=2))
        if k:
            lag.set_data("push", k - 1, np.array([0.2]))
        lag.solve()
        angle += 0.2 + 0.01 * rng.normal()
        assert np.abs(np.sum(lag.states**2, axis=1) - 1).max() < 1e-12
    assert np.linalg.norm(lag.states[-1] - [np.cos(angle - 0.2), np.sin(angle - 0.2)]) < 0.1
    variance = lag.state_covariance()
    assert abs(lag.states[-1] @ variance @ lag.states[-1]) < 1e-9 < np.trace(variance)


# --- what is refused ---


def test_rows_that_switch_are_refused():
    x, theta = ca.SX.sym("x", 2), ca.SX.sym("theta", 1)
    for kind in (Kind.PAIRS, Kind.INEQUALITY):
        problem = transcription([factor("contact", x, [x], kind=kind)], theta, 5)
        with pytest.raises(ProblemError, match=r'contact are not smooth.*friction="smooth"'):
            FixedLag(problem, 3, parameters=np.zeros(1))
    belief = factor("belief", theta, [x], kind=Kind.HARD)
    object.__setattr__(belief, "group", Group.PRIOR)
    with pytest.raises(ProblemError, match="contain parameters only"):
        FixedLag(transcription([factor("free", x, [x]), belief], theta, 5), 3, parameters=np.zeros(1))


def test_a_window_shorter_than_its_rows_is_refused():
    with pytest.raises(ProblemError, match="window is 2 steps, but a factor connects 3 steps"):
        FixedLag(linear(2).problem, 2, parameters=np.zeros(3))
    with pytest.raises(ValueError, match="values to start from"):
        FixedLag(linear(2).problem, 3)
    with pytest.raises(ValueError, match="first step needs a state"):
        FixedLag(linear(2).problem, 3, parameters=np.zeros(3)).append()


def test_hard_rows_that_link_steps_have_no_volume_here():
    with pytest.raises(ProblemError, match="constraints link connect several time steps"):
        FixedLag(linear(1, hard=True).problem, 3, parameters=np.zeros(3), volumes=True)


def test_states_that_turn_go_on_as_they_did():
    x = [ca.SX.sym("x", 7), ca.SX.sym("z", 7)]
    space = Manifold((("flat", 3), ("rotation", 4)))
    problem = transcription([factor("same", space.difference(x[1], x[0]), x)], ca.SX(0, 1), 5)
    problem = type(problem)(space, problem.factors, ca.SX(0, 1), [], [], *(np.zeros(0),) * 3, problem.chains)
    lag = FixedLag(problem, 4)
    for angle in (0.1, 0.2):
        lag.append(np.array([angle, 0, 0, np.cos(angle / 2), np.sin(angle / 2), 0, 0]))
    lag.append()
    np.testing.assert_allclose(lag.states[-1], [0.3, 0, 0, np.cos(0.15), np.sin(0.15), 0, 0], atol=1e-12)


# --- the volume of the states ---


@pytest.mark.parametrize(("name", "setting"), [("pendulum", "by_c"), ("fourbar", "by_c"), ("fourbar", "by_numpy")])
def test_slopes_of_the_volume_are_those_of_the_likelihood(name, setting, request):
    # With all steps in the window; the four-bar has a surface, private unknowns, and rows of it that others imply.
    request.getfixturevalue(setting)
    problem = load_problem(ROOT / f"problems/{name}.py")
    recording = problem.recordings[0]
    start = float(recording.t[0])
    problem = problem.with_(recordings=[recording.between(start, start + 30 * problem.step)])
    assembly = assemble(problem)
    transcription, chain = assembly.transcription, assembly.transcription.chains[0]
    reduced = ReducedProblem(transcription, assembly.start)
    point = reduced.project(assembly.start)
    expected, *_ = States(reduced, point).recordings[0].sweep
    lag = FixedLag(transcription, chain.steps, parameters=point.parameters, volumes=True)
    for state in point.states[0]:
        lag.append(state)
    for f in transcription.factors:
        for k, data in enumerate(chain.data.get(f.name, ())):
            lag.set_data(f.name, k, data, chain.missing[f.name][k] if f.name in chain.missing else None)
    lag.parameter_covariance()
    steps, found = len(lag.arrays()["states"]), lag.arrays()["slopes"]
    assert found.shape[0] == steps
    rows = lag._border  # what eliminating all states leaves of the linear term stands in the parameters' shifts
    assert rows is not None
    np.testing.assert_allclose(rows.rows[:, :-1].T @ rows.shifts, expected, rtol=1e-6, atol=1e-9)


def test_rounding_beside_an_unknown_that_no_row_gives_makes_nothing_unknown() -> None:
    rows = np.array([[2e5, 3.0, 1e-13], [0.0, 4.0, 0.0]])
    pivots = Pivots(np.column_stack([rows, np.zeros(2)]), np.array([0, 1]), np.zeros(2), hard=0, count=3)
    covariance = joint_covariance([pivots], Pivots(np.zeros((0, 1)), np.zeros(0, np.int64), np.zeros(0), 0, 0), 3)
    expected = np.linalg.inv(rows[:, :2].T @ rows[:, :2])
    np.testing.assert_allclose(covariance[:2, :2], expected, rtol=1e-12)
    assert np.isnan(covariance[2, 2])
