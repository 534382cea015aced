"""The inside of what ``test_ipopt`` tests."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, paper_twin
from test_cli import data as data
from test_cli import here as here
from test_ipopt import problem as problem
from test_ipopt import solved as solved

from spookid import Manifold, Parameter, Spook, Status, Variational
from spookid.assembly.assembly import assemble
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.linearization import information
from spookid.solvers.program import Program
from spookid.solvers.status import Iteration, Outcome
from spookid.statistics.condensing import Condensed, linearize
from spookid.transcription.factor import Factor, Group, Kind
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Chain, Point, Transcription

NONE = ca.SX.sym("none", 0)


# --- the same answers ---


# --- derivatives ---


def differences(function: object, z: Array, direction: Array, step: float) -> Array:
    near = np.asarray(function(z + step * direction)) - np.asarray(function(z - step * direction))
    far = np.asarray(function(z + 2 * step * direction)) - np.asarray(function(z - 2 * step * direction))
    return (8 * near - far) / (12 * step)


def check_derivatives(program: Program, size: float, step: float) -> None:
    rng = np.random.default_rng(0)
    z = program.origin + size * rng.normal(size=program.size)
    direction, rows = rng.normal(size=program.size), rng.normal(size=len(program.bounds[0]))

    def jacobian(z: Array) -> ca.DM:
        return ca.DM(program.jacobian_sparsity, program.jacobian(z))

    def slope(z: Array) -> Array:
        return 1.3 * program.gradient(z) + (jacobian(z).T @ rows).full()[:, 0]

    def check(ours: Array, wanted: Array) -> None:
        np.testing.assert_allclose(ours, wanted, atol=1e-7 * np.max(np.abs(wanted), initial=1e-300))

    check(program.gradient(z) @ direction, differences(program.objective, z, direction, step))
    check((jacobian(z) @ direction).full()[:, 0], differences(program.constraints, z, direction, step))
    hessian = ca.triu2symm(ca.DM(program.hessian_sparsity, program.hessian(z, 1.3, rows)))
    check((hessian @ direction).full()[:, 0], differences(slope, z, direction, step))
    np.testing.assert_allclose(program.pull_back(z, rows), (jacobian(z).T @ rows).full()[:, 0], atol=1e-12)


@pytest.mark.parametrize("stepper", [Spook(), Spook(multipliers="lifted"), Variational()])
def test_derivatives_along_a_motion(stepper):
    p = {name: Parameter(name, 0.01, lower=0) for name in ("J_Azz", "J_Byy", "b_1")}
    soft = {"compliance": 1e-4, "damping": 0.02}
    model = furuta(inertias=(p["J_Azz"], p["J_Byy"], 0.004), shoulder={"viscous": p["b_1"], **soft}, elbow=soft)
    problem = paper_twin(model, dict.fromkeys(p, 0.003), initial={"elbow": 3.0}, duration=0.04, stepper=stepper)
    assembly = assemble(problem)
    program = Program(assembly.transcription, assembly.start, exact=True)
    check_derivatives(program, size=0.1, step=1e-4)


@pytest.mark.parametrize("t", [0.0, 0.1])
def test_derivatives_of_pairs(t):
    x, y, p = ca.SX.sym("x", 2), ca.SX.sym("y", 2), ca.SX.sym("p")
    a, b = ca.vertcat(ca.sin(x[0]) + p, x[1] * y[0]), ca.vertcat(y[1] ** 2, ca.exp(x[0]) * p)
    pairs = Factor("pairs", Group.STATE, ca.vertcat(a, b), {0: x, 1: y}, NONE, tuple("abcd"), kind=Kind.PAIRS)
    soft = Factor("soft", Group.STATE, ca.vertcat(x * p), {0: x}, NONE, ("r", "s"))
    box = np.array([-np.inf]), np.array([np.inf]), np.array([2.0])
    problem = Transcription(Manifold((("flat", 2),)), [soft, pairs], p, [], ["p"], *box, [Chain("run", 3, {}, {})])
    program = Program(problem, Point((np.array([[0.3, 0.2], [1, 2], [3, 4.0]]),), np.ones(1)), True, t)
    check_derivatives(program, size=0.1, step=1e-4)


# --- complementarity ---


H, MASS, COULOMB, SIGMA = 0.01, 0.5, 0.8, 1e-4


def sliding(n: int = 150) -> tuple[Array, Array, Array]:
    """Input [N], position and velocity of a mass under dry friction that sticks now and then."""
    t = H * np.arange(n)
    u, x, v = 1.2 * np.sin(2 * np.pi * t / 0.9), np.zeros(n), np.zeros(n)
    for k in range(1, n):
        free = MASS * v[k - 1] + H * u[k]
        v[k] = (free - np.clip(free, -H * COULOMB, H * COULOMB)) / MASS
        x[k] = x[k - 1] + H * v[k]
    return u, x, v


def sticking() -> tuple[Transcription, Point]:
    """That mass; a step has position, velocity, friction impulse λ and both parts of the slip rate as unknowns."""
    u, x, _ = sliding()
    y = x + SIGMA * np.random.default_rng(0).normal(size=len(x))
    a, b = ca.SX.sym("a", 5), ca.SX.sym("b", 5)
    m, c, force, seen = (ca.SX.sym(name) for name in ("m", "c", "u", "y"))
    friction = ca.vertcat(a[3], a[4], H * c + a[2], H * c - a[2])
    names = ("forth", "back", "lower", "upper")
    factors = [
        Factor("impulse", Group.STATE, 1e4 * (m * (b[1] - a[1]) - H * force - b[2]), {0: a, 1: b}, force, ("Δp",)),
        Factor("motion", Group.STATE, b[0] - a[0] - H * b[1], {0: a, 1: b}, NONE, ("x",), kind=Kind.HARD),
        Factor("slip", Group.STATE, a[1] - a[3] + a[4], {0: a}, NONE, ("v",), kind=Kind.HARD),
        Factor("friction", Group.STATE, friction, {0: a}, NONE, names, kind=Kind.PAIRS),
        Factor("observation", Group.OBSERVATION, (a[0] - seen) / SIGMA, {0: a}, seen, ("x",)),
    ]
    chain = Chain("run", len(y), {"impulse": u[1:, None].copy(), "observation": y[:, None].copy()}, {})
    box = np.array([1e-6, 0.0]), np.array([np.inf, np.inf]), np.array([1.0, 0.3])
    problem = Transcription(Manifold((("flat", 5),)), factors, ca.vertcat(m, c), [], ["m", "c"], *box, [chain])
    v = np.gradient(y, H)
    start = np.column_stack([y, v, 0 * y, np.maximum(v, 0), np.maximum(-v, 0)])
    return problem, Point((np.ascontiguousarray(start),), np.array([1.0, 0.3]))


def test_friction_that_sticks():
    _, _, velocity = sliding()
    assert np.mean(velocity == 0) > 0.1
    problem, start = sticking()
    outcome = Ipopt().solve(problem, start)
    assert outcome.status is Status.CONVERGED
    errors = np.sqrt(np.diag(np.linalg.inv(information(problem, outcome.point).matrix)))
    assert np.all(errors < [0.005, 0.008])  # a hundredth
    assert np.all(np.abs(outcome.point.parameters - [MASS, COULOMB]) < 3 * errors)
    assert outcome.complementarity < 1e-7
    assert "stationary" in outcome.detail
    # It sticks where the truth does, at the ends of an interval up to a step or two.
    sticks = np.abs(outcome.point.states[0][:, 1]) < 1e-6
    assert np.mean(sticks != (velocity == 0)) < 0.05
    # Rows less unknowns: per step 2 soft and 2 hard rows and 2 pairs that hold one row each, for 5 unknowns.
    n = len(velocity)
    condensed = Condensed(linearize(problem, outcome.point), FreeDirections(np.zeros(2, dtype=bool)))
    assert condensed.freedom == 2 * (n - 1) + n + 2 * n + n - (5 * n + 2)


def test_the_nearest_point_of_two_half_lines():
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p")
    soft = Factor("soft", Group.STATE, ca.vertcat(x[0] - 2, x[1] - 1, p - 3), {0: x}, NONE, tuple("rst"))
    pairs = Factor("pairs", Group.STATE, x, {0: x}, NONE, ("a", "b"), kind=Kind.PAIRS)
    box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    problem = Transcription(Manifold((("flat", 2),)), [soft, pairs], p, [], ["p"], *box, [Chain("run", 1, {}, {})])
    outcome = Ipopt().solve(problem, Point((np.array([[1.0, 0.5]]),), np.zeros(1)))
    assert outcome.status is Status.CONVERGED
    np.testing.assert_allclose(outcome.point.states[0], [[2, 0]], atol=1e-6)
    assert outcome.complementarity < 1e-6
    assert outcome.history[-1].total == pytest.approx(1, abs=1e-5)  # pairs are no part of the cost


def test_a_pair_whose_held_member_should_go_changes_sides():
    """Two pairs, of which the start tells the wrong members: the lower cost lies along a."""
    x, p = ca.SX.sym("x", 4), ca.SX.sym("p")
    rows = ca.vertcat(x[:2] - 1, x[2:] + 1, p - 3)
    pairs = Factor("pairs", Group.STATE, x, {0: x}, NONE, tuple("abcd"), kind=Kind.PAIRS)
    for extra in (0.0, 1.0, 10.0):
        soft = Factor("soft", Group.STATE, ca.vertcat(rows, extra), {0: x}, NONE, tuple("rstuvw"))
        box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
        problem = Transcription(Manifold((("flat", 4),)), [soft, pairs], p, [], ["p"], *box, [Chain("run", 1, {}, {})])
        outcome = Ipopt(told=True).solve(problem, Point((np.array([[0.1, 0.5, 0.5, 0.1]]),), np.zeros(1)))
        assert outcome.status is Status.CONVERGED
        np.testing.assert_allclose(outcome.point.states[0], [[1, 1, 0, 0]], atol=1e-4)


# --- how it ends ---


def minimise(residual: object, start: float, hard: object = None, **settings: object) -> Outcome:
    """A state (x, y) with the residuals of x, a parameter and y in rows of their own, and hard rows of x."""
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p")
    rows = ca.vertcat(residual(x[0]), 1e-3 * p, x[1])
    factors = [Factor("f", Group.STATE, rows, {0: x}, NONE, ("row",) * rows.numel())]
    if hard is not None:
        held = hard(x[0])
        factors.append(Factor("hard", Group.STATE, held, {0: x}, NONE, ("held",) * held.numel(), kind=Kind.HARD))
    box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    problem = Transcription(Manifold((("flat", 2),)), factors, p, [], ["p"], *box, [Chain("run", 1, {}, {})])
    return Ipopt(**settings).solve(problem, Point((np.array([[start, 1.0]]),), np.zeros(1)))


def test_a_small_problem_converges():
    outcome = minimise(lambda x: ca.exp(x) - 2, 3.0)
    assert outcome.status is Status.CONVERGED
    assert outcome.point.states[0][0, 0] == pytest.approx(np.log(2), abs=1e-6)


def test_a_start_that_violates_a_hard_row():
    outcome = minimise(lambda x: x - 1, -7.0, lambda x: x**3 - 8)
    assert outcome.status is Status.CONVERGED
    assert outcome.point.states[0][0, 0] == pytest.approx(2, abs=1e-8)


def test_hard_rows_without_a_solution_stall():
    outcome = minimise(lambda x: x - 1, 2.0, lambda x: x**2 + 1, hessian="exact")
    assert outcome.status is Status.STALLED
    assert outcome.detail


def test_hard_rows_that_contradict_each_other_stall():
    outcome = minimise(lambda x: x - 1, 2.0, lambda x: ca.vertcat(x - 1, x - 2))
    assert outcome.status is Status.STALLED
    assert "contradict" in outcome.detail


def test_residuals_that_are_not_finite_at_the_start_diverge():
    outcome = minimise(lambda x: ca.log(x), -1.0)
    assert outcome.status is Status.DIVERGED
    assert outcome.point.states[0][0, 0] == -1
    assert len(outcome.history) == 1


def test_steps_to_where_residuals_are_not_finite_are_refused():
    outcome = minimise(lambda x: ca.log(x), 30.0)  # Newton's first step is to −72
    assert outcome.status is Status.CONVERGED
    assert outcome.point.states[0][0, 0] == pytest.approx(1)


def test_an_interruption_keeps_the_last_iterate(problem):
    seen: list[Iteration] = []

    def callback(iteration: Iteration) -> None:
        seen.append(iteration)
        if iteration.iteration == 2:
            raise KeyboardInterrupt

    solution = problem.solve(backend="ipopt", callback=callback)
    assert (solution.status, solution.iterations) == (Status.INTERRUPTED, 2)
    assert list(solution.values.values()) == seen[-1].parameters.tolist()
    assert solution.cost.total == seen[-1].total
    motion = solution.trajectories[0]
    assert solution.cost.observation == pytest.approx(np.nansum((motion.predicted - motion.observed) ** 2), rel=1e-9)


def test_an_interruption_inside_an_evaluation_keeps_the_last_iterate(problem, monkeypatch):
    calls = []
    linearize = Transcription.linearize_factor

    def interrupted(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return linearize(*arguments)

    monkeypatch.setattr(Transcription, "linearize_factor", interrupted)
    solution = problem.solve(backend="ipopt")
    assert solution.status is Status.INTERRUPTED
    assert 0 < solution.iterations < 10


def test_errors_of_a_callback_come_through(problem):
    def callback(iteration: Iteration) -> None:
        if iteration.iteration == 1:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        problem.solve(backend="ipopt", callback=callback)


def test_history_tells_of_every_iterate(problem, solved):
    seen: list[Iteration] = []
    solution = problem.solve(backend="ipopt", stepper=Variational(), callback=seen.append)
    assert [i.iteration for i in seen] == list(range(solution.iterations + 1))
    assert seen[0].parameters.tolist() == [0.01, 1e-3]
    assert solution.history[-1].parameters == solution.values
    assert solution.history[-1].cost.total == solution.cost.total
    assert all(step.step_norm > 0 for step in solution.history[1:])
    assert 0 < solution.times.evaluate < solution.times.solve


# --- options ---


@pytest.mark.parametrize("fixed", [False, True])
def test_more_hard_rows_than_unknowns_stall(fixed):
    """Two rows of each step hold, and one member of each of three pairs, of four unknowns."""
    x, p = ca.SX.sym("x", 4), ca.SX.sym("p")
    soft = Factor("soft", Group.STATE, ca.vertcat(x - 1, p - 3), {0: x}, NONE, tuple("rstuv"))
    members = ca.vertcat(x[0], x[1], x[0] + x[1], x[2], x[2], x[2])
    pairs = Factor("pairs", Group.STATE, members, {0: x}, NONE, tuple("abcdef"), kind=Kind.PAIRS)
    rows = ca.vertcat(x[0] - 1, x[1] - x[0] ** 2)
    hard = Factor("hard", Group.STATE, rows, {0: x}, NONE, ("h", "i"), kind=Kind.HARD)
    wide = 0.0 if fixed else np.inf
    box = np.array([-wide]), np.array([wide]), np.array([1.0])
    factors = [soft, pairs, hard]
    problem = Transcription(Manifold((("flat", 4),)), factors, p, [], ["p"], *box, [Chain("run", 2, {}, {})])
    outcome = Ipopt(told=True).solve(problem, Point((np.array([[0.1, 0.1, 0.5, 0.5]] * 2),), np.zeros(1)))
    assert outcome.status is Status.STALLED
    assert "more constraints than unknowns" in outcome.detail
