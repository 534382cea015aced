"""The inside of what ``test_parameter_constraints`` tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array
from scipy.optimize import minimize
from test_parameter_constraints import J_1, J_2, NAMES, TRUTH, arms, b_1, b_2, free, given, m_1, m_2, measured

import spookid
from spookid import (
    GROUND,
    Body,
    FullInertia,
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
    mirrored,
    total_mass,
)
from spookid.assembly.assembly import assemble
from spookid.assembly.priors import attainable
from spookid.estimation.tensions import contradicted
from spookid.solvers.program import Program
from spookid.solvers.quadratic_program import bounded_step
from spookid.statistics.condensing import pseudo_inverse
from spookid.statistics.sensitivities import CONSTRAINED
from spookid.transcription.parameter_constraints import (
    FreeDirections,
    LinearConstraints,
    ParameterConstraints,
    least_distance,
)


def rows(equal: Sequence[ca.SX], unequal: Sequence[ca.SX], symbols: ca.SX, sizes: Array) -> ParameterConstraints:
    titles = [str(row) for row in (*equal, *unequal)]
    empty = ca.SX(0, 1)
    return ParameterConstraints(
        symbols, ca.vertcat(empty, *equal), ca.vertcat(empty, *unequal), titles, sizes, np.ones(len(sizes))
    )


# --- the small programs ---


@pytest.mark.parametrize("seed", range(8))
def test_a_step_is_the_constrained_minimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, scale = 5, 10.0 ** rng.uniform(-4, 4, 5)
    root = rng.normal(size=(7, n))
    S, g = root.T @ root / np.outer(scale, scale), rng.normal(size=n) / scale
    A, b = rng.normal(size=(3, n)) / scale, np.append(rng.normal(size=2) * 0.1, 0.1)
    A[1] = 2 * A[0]  # redundant
    b[1] = 2 * b[0]
    C, d = rng.normal(size=(4, n)) / scale, rng.uniform(0, 0.3, 4) + 0.3
    lower, upper = (side * scale * np.where(rng.random(n) < 0.5, 0.5, np.inf) for side in (-1, 1))
    step = bounded_step(S, g, lower, upper, LinearConstraints(A, b, C, d))
    assert pytest.approx(b, abs=1e-9) == A @ step
    assert np.all(C @ step <= d + 1e-9)
    assert np.all((lower <= step) & (step <= upper))
    found = minimize(
        lambda z: 0.5 * z @ (scale[:, None] * S * scale) @ z + (g * scale) @ z,
        np.zeros(n),
        jac=lambda z: (scale[:, None] * S * scale) @ z + g * scale,
        method="SLSQP",
        bounds=list(zip(lower / scale, upper / scale, strict=True)),
        constraints=[
            {"type": "eq", "fun": lambda z: (A[[0, 2]] * scale) @ z - b[[0, 2]]},
            {"type": "ineq", "fun": lambda z: d - (C * scale) @ z},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    assert step / scale == pytest.approx(found.x, abs=1e-6)


def test_constraints_that_leave_no_point_are_found_out() -> None:
    assert least_distance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([-1.0, -1.0])) is None
    assert least_distance(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-1.0, -1.0])) == pytest.approx([-1.0, 0.0])
    assert least_distance(np.array([[0.0, 0.0]]), np.array([-1.0])) is None


def test_slopes_and_curvature_are_those_of_differences() -> None:
    x, at, h = ca.SX.sym("x", 3), np.array([0.7, -0.4, 1.3]), 1e-5
    made = rows([x[0] * ca.sin(x[1]) - x[2]], [ca.exp(x[0] * x[2]) - x[1] ** 3], x, np.ones(3))
    weights = np.array([0.6, -1.7])
    unit = h * np.eye(3)
    slopes = [(made.values(at + d)[0] - made.values(at - d)[0]) / (2 * h) for d in unit]
    assert made.values(at)[1] == pytest.approx(np.transpose(slopes), abs=1e-8)
    bend = [weights @ (made.values(at + d)[1] - made.values(at - d)[1]) / (2 * h) for d in unit]
    assert made.curvature(at, weights) == pytest.approx(np.array(bend), abs=1e-7)


def test_what_is_restored_is_feasible_and_near() -> None:
    x = ca.SX.sym("x", 2)
    circle = rows([ca.sumsqr(x) - 1], [x[0] - x[1]], x, np.ones(2))
    wide = np.full(2, -np.inf), np.full(2, np.inf)
    found = circle.restored(np.array([0.3, 0.9]), *wide)
    assert found is not None
    assert circle.violation(found) < 1e-12
    assert np.linalg.norm(found - np.array([0.3, 0.9]) / math.hypot(0.3, 0.9)) < 2e-3  # nearest to first order
    corner = circle.restored(np.array([1.0, 0.2]), *wide)
    assert corner == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-9)
    assert rows([ca.sumsqr(x) + 1], [], x, np.ones(2)).restored(np.ones(2), *wide) is None


# --- errors ---


def test_covariance_is_the_closed_form_of_a_linear_problem() -> None:
    rng = np.random.default_rng(0)
    J, a = rng.normal(size=(9, 4)), np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, -2.0, 0.5]])
    S, none = J.T @ J, np.zeros(4, dtype=bool)
    C = np.linalg.inv(S)
    closed = C - C @ a.T @ np.linalg.inv(a @ C @ a.T) @ a @ C
    found, rank = pseudo_inverse(S, FreeDirections(none, np.vstack([a, a[0] - a[1]])))
    assert rank == 2
    assert found == pytest.approx(closed, abs=1e-12)
    # One that the data do not see is determined through the constraint.
    S[3] = S[:, 3] = 0.0
    known, _ = pseudo_inverse(S, FreeDirections(none, a[1:]))
    assert known[3, 3] == pytest.approx(np.array([0, -2, 4]) @ np.linalg.inv(S[:3, :3]) @ np.array([0, -2, 4]))


def test_what_lets_go_of_a_constraint_is_foretold(tmp_path: Any) -> None:
    alone = free()(m_1 + m_2)
    total, freed, error = alone.estimate - 1.5 * alone.std_err, 1.5 * alone.std_err, alone.std_err
    solution = given(Relation("scale", m_1 + m_2 == total), b_1 <= 2 * b_2).solve()
    scale, other = solution.constraints.values()
    assert scale.active
    assert scale.freed == pytest.approx(freed, rel=0.05)
    assert scale.freed_err == pytest.approx(error, rel=0.1)
    assert not any(finding.code == "constraints.contradicted" for finding in solution.findings)
    (finding,) = contradicted({"scale": replace(scale, freed_err=error / 3), "other": other})
    assert finding.subject == ("scale",)
    assert finding.text.startswith("The data contradict constraints between parameters: scale (")
    assert not other.active
    assert math.isnan(other.freed)
    assert other.value < 0
    solution.save(tmp_path)
    assert str(spookid.load(tmp_path).constraints) == str(solution.constraints)
    assert "active; without the constraint, left - right would be" in " ".join(solution.summary().split())
    assert "not active" in solution.summary()


def test_parameters_that_constraints_determine_say_so() -> None:
    solution = given(m_1 + m_2 == 2.3, m_1 - m_2 == 0.1, 2 * m_1 == 2.4).solve()  # one too many
    assert solution.values["m_1"] == pytest.approx(1.2, abs=1e-12)
    assert math.isnan(solution["m_1"].std_err)
    assert solution["m_1"].reason == CONSTRAINED
    assert solution["m_1"].known_from == "given"
    assert solution(m_1 * 2).std_err == 0.0
    assert math.isfinite(solution["J_1"].std_err)
    assert {one.reason for one in solution.constraints.values()} == {"others imply it"}


# --- both backends, and others ---


def test_fit_is_that_of_scipy() -> None:
    """All states and parameters by SLSQP, on a short recording."""
    problem = arms(recordings=[measured(duration=0.3)], constraints=[m_1 * m_2 == 1.3, J_1 >= J_2], step=0.03)
    solution, assembly = problem.solve(), assemble(problem.with_(constraints=()))
    program = Program(assembly.transcription, assembly.start, exact=False)
    lower, upper = program.box
    parameters = slice(program.size - 6, None)

    def related(z: Array) -> Array:
        m, n, J, K, *_ = z[parameters] * program.scales
        return np.array([m * n - 1.3, 100 * (J - K)])

    z0 = program.origin.copy()
    z0[parameters] = np.array([solution.values[name] for name in NAMES]) / program.scales * 1.02
    kept: list[dict[str, Any]] = [
        {"type": "eq", "fun": lambda z: related(z)[:1]},
        {"type": "ineq", "fun": lambda z: related(z)[1:]},
    ]
    sparsity, equal = program.jacobian_sparsity, np.all(program.bounds[0] == program.bounds[1])
    assert equal  # joints are hard rows
    kept.append(
        {"type": "eq", "fun": program.constraints, "jac": lambda z: ca.DM(sparsity, program.jacobian(z)).full()}
    )
    found = minimize(
        program.objective,
        z0,
        jac=program.gradient,
        method="SLSQP",
        bounds=list(zip(lower, upper, strict=True)),
        constraints=kept,
        options={"maxiter": 400, "ftol": 1e-15},
    )
    theirs = found.x[parameters] * program.scales
    assert program.objective(found.x) == pytest.approx(solution.cost.total, rel=1e-5)
    for name, value in zip(NAMES, theirs.tolist(), strict=True):
        assert solution.values[name] == pytest.approx(value, abs=1e-2 * np.nan_to_num(solution[name].std_err) + 1e-8)


# --- what users write ---


def test_fixed_parameters_in_constraints() -> None:
    with pytest.raises(ProblemError, match="does not hold at the values at which"):
        given(m_1 == 1.0, fixed=["m_1"]).solve()
    start = assemble(given(m_1 + m_2 == 2.3, m_1 <= 2, fixed=["m_1"], initial={"m_1": 1.2}))
    assert start.values(start.start)["m_2"] == pytest.approx(1.1)
    assert start.transcription.constraints is not None
    assert start.transcription.constraints.titles == ("m_1+m_2 == 2.3",)


def test_parameters_of_recordings_are_related_in_each() -> None:
    load = Parameter("load", 0.5, lower=0.01, per="recording")
    body = Body("arm", mass=1.0 + load, inertia=(0.01, J_1, 0.01))
    axle: dict[str, Any] = {"x": (0, 1, 0), "y": (0, 0, -1)}
    hinge = Hinge("hinge", GROUND.frame(**axle), body.frame(at=(0, 0, 0.3), **axle), viscous=b_1)
    problem = Problem(
        "loads",
        model=Model([body], [hinge], [Motor(hinge, "u_1")], gravity=gravity(9.81)),
        observations=[HingeAngle(hinge, "q_1")],
    )
    runs = [measured(seed).with_signals() for seed in (1, 2)]
    named = [Recording(r.t, r.signals, name) for r, name in zip(runs, ("a", "b"), strict=True)]
    full = problem.with_(recordings=named, step=0.02, state_weight=1e4, constraints=[Relation("cap", load <= 10 * J_1)])
    assembly = assemble(full)
    assert assembly.transcription.constraints is not None
    assert assembly.transcription.constraints.titles == ("cap[a]", "cap[b]")
    for name in ("a", "b"):
        values = assembly.values(assembly.start)
        assert values[f"load[{name}]"] == pytest.approx(10 * values["J_1"])


def test_a_profile_ends_where_constraints_do() -> None:
    problem = given(m_1 + m_2 == 2.3, m_1 <= 1.2004, m_2**2 <= 4)
    ends = [attainable(problem, TRUTH, "m_1", bound) for bound in (1e-5, math.inf)]
    assert ends == pytest.approx([0.3, 1.2004], abs=1e-8)
    with pytest.raises(ProblemError, match="its constraints determine 'm_1'"):
        given(m_1 == 1.2).profile("m_1")


# --- total masses, mirror images ---


def lump(name: str, points: Array, masses: Array, at: Array, axes: Array) -> Body:
    """A body of point masses, with its mass, centre of mass and moments as Parameters, in a frame of its own."""
    local = (points - at) @ axes
    total = masses.sum()
    c = masses @ local / total
    second = (masses[:, None] * (local - c)).T @ (local - c)
    inertia = np.trace(second) * np.eye(3) - second
    entries = [inertia[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    unknown = [Parameter(f"{name}_{i}", float(v)) for i, v in enumerate([total, *c, *entries])]
    return Body(name, inertia=FullInertia(unknown[0], tuple(unknown[1:4]), inertia=unknown[4:]))


def test_a_mirror_image_has_the_signs_of_mirrored_points() -> None:
    rng = np.random.default_rng(3)
    points, masses = rng.normal(size=(6, 3)), rng.uniform(0.5, 2, 6)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    # Both bodies stand askew in frames of their own; frames on them are where the points are given.
    left = lump("left", points, masses, rng.normal(size=3), np.eye(3))
    where = rng.normal(size=3)
    right = lump("right", points * [1, -1, 1], masses, where, turn)
    seen_left = left.frame(at=-_origin(left, points, masses), x=(1, 0, 0), y=(0, 1, 0))
    seen_right = right.frame(at=-where @ turn, x=turn[0], y=turn[1])
    relation = mirrored(seen_left, seen_right, "xz")
    differences = ca.vertcat(*(row for row, _ in relation.rows))
    symbols = [p for p in ca.symvar(differences)]
    values = {p.name(): v for p, v in zip(symbols, _guesses(symbols), strict=True)}
    at = ca.Function("at", symbols, [differences])(*(values[p.name()] for p in symbols)).full()[:, 0]
    assert len(relation.rows) == 10
    assert at == pytest.approx(np.zeros(10), abs=1e-12)
    other = ca.vertcat(*(row for row, _ in mirrored(seen_left, seen_right, "xy").rows))
    assert np.max(np.abs(ca.Function("at", symbols, [other])(*_guesses(symbols)).full())) > 0.1


def _origin(body: Body, points: Array, masses: Array) -> Array:
    """Where its own frame is among the points, its axes theirs."""
    c = np.array(
        [
            float(ca.substitute(x, ca.vertcat(*ca.symvar(x)), ca.DM(_guesses(ca.symvar(x)))))
            for x in ca.vertsplit(body.distribution.center_of_mass)
        ]
    )  # type: ignore[union-attr]
    return masses @ points / masses.sum() - c


def _guesses(symbols: Sequence[ca.SX]) -> list[float]:
    from spookid.parameter import parameters_in

    return [parameters_in([s], "it")[0].guess for s in symbols]


def test_two_arms_alike_are_known_better() -> None:
    bodies = given().model.bodies
    solution = given(mirrored(*bodies, plane="xz"), total_mass(bodies, 2.3), b_1 == b_2).solve()
    assert solution["m_1"].reason == CONSTRAINED
    assert solution.values["m_1"] == pytest.approx(1.15)
    alone = {name: free()[name].std_err for name in NAMES}
    # Independent arms: informations add.
    both = 1 / math.sqrt(alone["b_1"] ** -2 + alone["b_2"] ** -2)
    alike = given(b_1 == b_2).solve()
    assert alike["b_1"].std_err == pytest.approx(both, rel=0.2)
    assert alike["b_1"].std_err < min(alone["b_1"], alone["b_2"])
