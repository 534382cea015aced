"""Constraints between parameters: steps, fits, errors and what is told of them."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

import spookid
from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Relation,
    gravity,
    load_problem,
    mirrored,
    total_mass,
)

NAMES = ("m_1", "m_2", "J_1", "J_2", "b_1", "b_2")
GUESSES = (0.8, 1.0, 0.01, 0.01, 0.05, 0.05)
TRUTH = {"m_1": 1.2, "m_2": 1.1, "J_1": 0.02, "J_2": 0.02, "b_1": 0.1, "b_2": 0.1}
P = {name: Parameter(name, guess, lower=1e-5) for name, guess in zip(NAMES, GUESSES, strict=True)}
m_1, m_2, J_1, J_2, b_1, b_2 = P.values()


def arms(second: ca.SX = m_2, **settings: Any) -> Problem:
    """Two driven pendulums that share nothing but constraints, with the second one's mass."""
    bodies, hinges, motors, sensors = [], [], [], []
    for i, (m, J, b) in enumerate(((m_1, J_1, b_1), (second, J_2, b_2)), start=1):
        axle: dict[str, Any] = {"x": (0, 1, 0), "y": (0, 0, -1)}
        body = Body(f"arm {i}", mass=m, inertia=(0.01, J, 0.01))
        hinge = Hinge(f"hinge {i}", GROUND.frame(at=(i, 0, 0), **axle), body.frame(at=(0, 0, 0.3), **axle), viscous=b)
        bodies.append(body)
        hinges.append(hinge)
        motors.append(Motor(hinge, f"u_{i}"))
        sensors.append(HingeAngle(hinge, f"q_{i}"))
    model = Model(bodies, hinges, motors, gravity=gravity(9.81))
    return Problem("arms", model, observations=sensors, **{"step": 0.02, "state_weight": 1e4, **settings})


@cache
def measured(seed: int = 1, duration: float = 2.4, truth: tuple[tuple[str, float], ...] = ()) -> Recording:
    """Of the arms, with 1 mrad of noise."""
    t = np.arange(0, duration + 0.05, 0.02)
    drives = Recording(t, {"u_1": np.sin(3 * t) + 0.5 * np.sin(8 * t), "u_2": np.cos(2.5 * t)})
    run = arms().simulate({**TRUTH, **dict(truth)}, duration, inputs=drives, substeps=1)
    rng = np.random.default_rng(seed)
    noisy = {q: run.signals[q] + 1e-3 * rng.standard_normal(len(run.t)) for q in ("q_1", "q_2")}
    return Recording(run.t, {**run.signals, **noisy}, "run").with_signals(**noisy)


def given(*constraints: Any, **settings: Any) -> Problem:
    """The measured arms with constraints."""
    return arms(recordings=[measured()], constraints=constraints, **settings)


@cache
def free() -> Any:
    """The fit without any."""
    return given().solve()


# --- errors ---


def test_fit_and_errors_are_those_of_the_closed_form() -> None:
    """Near the free estimates constraints c move them by −G c(θ̂), G = S⁻¹aᵀ(a S⁻¹aᵀ)⁻¹, and leave (I − Ga) C (I − Ga)ᵀ
    of their covariance C."""
    known, theta = free().sensitivities, np.array(list(free().values.values()))
    C = known.covariance
    a = np.zeros((2, 6))
    a[0, [0, 1]], a[1, [2, 3]] = 1.0, (1.0, -1.0)
    inverse = np.linalg.inv(known.factor.T @ known.factor)
    gain = inverse @ a.T @ np.linalg.inv(a @ inverse @ a.T)
    left = np.eye(6) - gain @ a
    total = float(theta[0] + theta[1]) + 1e-4
    solution = given(m_1 + m_2 == total, J_1 == J_2).solve()
    assert solution.sensitivities.names == known.names
    expected = theta - gain @ (a @ theta - [total, 0.0])
    errors = np.sqrt(np.diag(C))
    assert np.abs(np.array(list(solution.values.values())) - expected) / errors == pytest.approx(np.zeros(6), abs=0.02)
    whitened = (solution.sensitivities.covariance - left @ C @ left.T) / np.outer(errors, errors)
    assert whitened == pytest.approx(np.zeros((6, 6)), abs=0.03)
    assert solution(m_1 + m_2).std_err == pytest.approx(0.0, abs=1e-9)
    assert solution(m_1 - m_2).std_err == pytest.approx(2 * solution["m_1"].std_err)


# --- both backends, and others ---


def test_backends_agree_and_are_feasible() -> None:
    problem = given(m_1 * m_2 == 1.3, J_1 == J_2, b_1 >= b_2, b_1**2 + b_2**2 <= 0.0199)
    ours, theirs = problem.solve(), problem.solve(backend="ipopt")
    assert ours.status is theirs.status is spookid.Status.CONVERGED
    for solution in (ours, theirs):
        for one in solution.constraints.values():
            assert one.value <= 1e-10
            assert one.kind == "inequality" or one.value >= -1e-10
        assert sum(one.active for one in solution.constraints.values()) == 3
    for name in NAMES:
        assert abs(ours.values[name] - theirs.values[name]) < 1e-4 * ours[name].std_err + 1e-9
        assert ours[name].std_err == pytest.approx(theirs[name].std_err, rel=1e-6)


def test_backends_agree_where_the_noise_is_estimated_and_the_step_taken_off() -> None:
    constraints = (m_1 + m_2 == 2.4, b_1 <= b_2 - 0.06)
    problem = arms(recordings=[measured(duration=0.8)], constraints=constraints, state_weight=None)
    ours, other = problem.solve(), problem.solve(backend="ipopt")
    assert ours.status is other.status is spookid.Status.CONVERGED
    assert other.log_likelihood == pytest.approx(ours.log_likelihood, abs=1e-3)
    for name in NAMES:
        assert other[name].estimate == pytest.approx(ours[name].estimate, abs=0.01 * ours[name].std_err)
        assert other[name].step_error == pytest.approx(ours[name].step_error, abs=0.01 * ours[name].std_err)
        assert other[name].std_err == pytest.approx(ours[name].std_err, rel=1e-2)
    for name, one in ours.constraints.items():
        same = other.constraints[name]
        assert one.active
        assert (same.freed, same.freed_err) == pytest.approx((one.freed, one.freed_err), rel=1e-3)


def test_estimated_noise_keeps_constraints() -> None:
    solution = given(m_1 * m_2 == 1.31, J_1 == J_2, b_1 >= b_2, state_weight=None).solve()
    assert solution.values["m_1"] * solution.values["m_2"] == pytest.approx(1.31, rel=1e-11)
    assert solution.values["J_1"] == pytest.approx(solution.values["J_2"], rel=1e-11)
    assert solution["J_1"].std_err == pytest.approx(solution["J_2"].std_err)
    assert solution(m_1 * m_2).std_err == pytest.approx(0.0, abs=1e-6)


def test_errors_are_those_of_a_problem_with_the_constraint_put_in() -> None:
    """Where errors are averaged over a disturbance that is hardly seen, its values weigh the same."""
    settings: dict[str, Any] = {"recordings": [measured(duration=0.8)], "state_weight": None, "step_correction": False}
    tied = arms(**settings, constraints=(m_1 + m_2 == 2.3,)).solve()
    put_in = arms(2.3 - m_1, **settings).solve()
    assert tied.noise[0].density == pytest.approx(put_in.noise[0].density, abs=1e-5)
    for name in ("m_1", "J_1", "J_2", "b_1", "b_2"):
        assert tied[name].std_err == pytest.approx(put_in[name].std_err, rel=0.02)


# --- what users write ---


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([m_1 + m_2 <= 1, Relation("heavy", m_1 >= 2), b_1 <= b_2], "'m_1.*<= 1?.*' .*and 'heavy'"),
        ([m_1 == -1.0], "satisfy the constraint 'm_1 == -1'"),
        ([m_1 - 2 * m_2], "is no relation"),
        ([m_1 == m_1], "holds no Parameter"),
        ([m_1 != m_2], "is no relation"),
        ([True], "holds no Parameter"),
        ([Parameter("q", 1.0) == ca.SX.sym("stray")], "no Parameter"),
        ([Parameter("q", 1.0) == 2], "'q == 2': q occurs in no model"),
        ([m_1 + m_2 == math.nan], r"'m_1\+m_2 == nan' holds a number that is not finite"),
        ([m_1 <= math.inf], r"'m_1 <= inf' holds a number that is not finite"),
        ([ca.sqrt(m_1 - 1) == m_2], "is NaN where the fit begins"),
    ],
)
def test_bad_constraints_are_refused_in_a_sentence(constraints: list[Any], words: str) -> None:
    with pytest.raises(ProblemError, match=words) as caught:
        given(*constraints).solve()
    assert "test_parameter_constraints.py:" in str(caught.value)


def test_one_relation_and_chains_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for one in (m_1 + m_2 == 1.8, Relation("whole", m_1 + m_2 == 1.8)):
        with pytest.raises(ProblemError, match="but must be a list"):
            given().with_(constraints=one)
    for chain in ("0.5 <= m <= 0.9", "0.5 <= 2 * (m + n) <= 0.9", "m == n**2 == 1"):
        file = tmp_path / "chained.py"
        file.write_text(
            f"from spookid import Parameter\nm, n = Parameter('m', 1), Parameter('n', 1)\nrelations = {chain}\n"
        )
        with pytest.raises(ProblemError, match=r"chained\.py line 3: .* write a chain of relations as two"):
            load_problem(file)


def test_casadi_is_left_alone() -> None:
    code = "import casadi; was = dict(vars(casadi.SX)); import spookid; spookid.Problem; spookid.Parameter('m', 1.0)"
    asked = f"{code}; assert was == dict(vars(casadi.SX))"
    subprocess.run([sys.executable, "-c", asked], check=True)


def test_a_smoother_refuses_constraints() -> None:
    with pytest.raises(ProblemError, match="which a smoother cannot hold"):
        FixedLagSmoother(given(m_1 == m_2), seconds=0.2)


# --- total masses, mirror images ---


def test_total_mass_and_mirrored_refuse_what_they_cannot_relate() -> None:
    known, other = (Body(name, mass=1.0, inertia=(1, 2, 2.5)) for name in ("a", "b"))
    heavier = Body("c", mass=2.0, inertia=(1, 2, 2.5))
    loose = Body("d", mass=m_1, inertia=(1, 2, 2.9))
    for wrong, words in (
        (lambda: total_mass([known, other], 3.0), "no mass of a, b is a Parameter"),
        (lambda: total_mass([loose], -1.0), "must be positive"),
        (lambda: total_mass(loose, 1.0), "must be a list"),  # type: ignore[arg-type]
        (lambda: mirrored(known, heavier), "its mass is 2, not 1"),
        (lambda: mirrored(known, other), "there is nothing to relate"),
        (lambda: mirrored(loose, loose), "twice"),
        (lambda: mirrored(loose, known, "zx"), "give 'xy'"),  # type: ignore[arg-type]
        (lambda: mirrored(loose, known), "its I_zz is 2.5, not 2.9"),
    ):
        with pytest.raises(ProblemError, match=words):
            wrong()


@pytest.mark.study
def test_intervals_cover_under_constraints() -> None:
    """Errors along constraints that are right cover the truth, and fall with each of them."""
    inside, sizes = [], []
    for seed in range(40):
        run = measured(seed, truth=(("m_2", 1.2),))
        for constraints in ((), (m_1 == m_2,), (m_1 == m_2, J_1 == J_2, b_1 == b_2)):
            solution = arms(recordings=[run], constraints=constraints, state_weight=None, step_correction=False).solve()
            truth = {**TRUTH, "m_2": 1.2}
            scores = [(solution.values[n] - truth[n]) / solution[n].std_err for n in NAMES]
            inside.append(np.abs(scores) < 1.96)
            sizes.append([solution[n].std_err for n in NAMES])
    share = np.reshape(inside, (40, 3, 6)).mean(axis=(0, 2))
    errors = np.reshape(sizes, (40, 3, 6)).mean(axis=0)
    assert np.all(share > 0.88)
    assert np.all(errors[1] < errors[0] * 1.01)
    assert np.all(errors[2] < errors[1] * 1.01)
