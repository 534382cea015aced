"""The linear algebra of a step: against dense matrices, with one and two chains, with and without parameters."""

from __future__ import annotations

import itertools

import casadi as ca
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms import Array
from scipy.optimize import lsq_linear

from spookid import Manifold
from spookid.solvers.elimination import Elimination
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.rows import Rows
from spookid.solvers.steps import DampedStep, MeritModel, Tangent
from spookid.solvers.structured import (
    NormalEquations,
    NotPositiveDefiniteError,
    normal_equations,
    pull_back,
)
from spookid.transcription.factor import Factor, Group
from spookid.transcription.transcription import Chain, Point, Transcription

STEPS, TANGENT = 6, 3

SHAPES = {
    "reach 0": [(4, (0,), False)],
    "reach 1": [(5, (0, 1), False), (3, (0,), True)],
    "reach 2 with a gap": [(2, (0, 2), False), (4, (0, 1), False), (2, (0,), False), (6, (0,), True)],
}
"""Per factor its rows, offsets, and whether it stands at the first step only."""


def random_blocks(shape: str, parameters: int, rng: np.random.Generator, steps: int = STEPS) -> list[Rows]:
    blocks = []
    for rows, offsets, first_only in SHAPES[shape]:
        count = 1 if first_only else steps - max(offsets)
        matrix = rng.normal(size=(count, len(offsets) * TANGENT + parameters + 1, rows))
        blocks.append(Rows(offsets, matrix, complement=None))
    return blocks


def dense(blocks: list[Rows], parameters: int, steps: int = STEPS) -> tuple[Array, Array]:
    """J (rows, N t + n_p) and r (rows,)."""
    rows, values = [], []
    for block in blocks:
        for k, matrix in enumerate(block.matrix):
            row = np.zeros((matrix.shape[1], steps * TANGENT + parameters))
            for i, offset in enumerate(block.offsets):
                row[:, (k + offset) * TANGENT :][:, :TANGENT] = matrix[i * TANGENT : (i + 1) * TANGENT].T
            row[:, steps * TANGENT :] = matrix[len(matrix) - 1 - parameters : -1].T
            rows.append(row)
            values.append(matrix[-1])
    return np.vstack(rows), np.concatenate(values)


@pytest.fixture(params=[0, 1, 3])
def parameters(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(params=SHAPES)
def blocks(request: pytest.FixtureRequest, parameters: int) -> list[Rows]:
    return random_blocks(request.param, parameters, np.random.default_rng(0))


# --- one chain ---


def test_normal_equations_are_those_of_the_dense_jacobian(blocks, parameters):
    J, r = dense(blocks, parameters)
    equations = normal_equations(blocks, STEPS, TANGENT, parameters)
    n = STEPS * TANGENT
    hessian, gradient = J.T @ J, J.T @ r
    lower = np.zeros((n, n))
    for d in range(equations.band.shape[1]):
        np.fill_diagonal(lower[d:], equations.band[: n - d, d])
    np.testing.assert_allclose(lower, np.tril(hessian[:n, :n]), atol=1e-12)
    for d in range(1, equations.band.shape[1]):  # nothing stands beyond the end of the matrix
        assert not equations.band[n - d :, d].any()
    np.testing.assert_allclose(equations.border, np.column_stack([hessian[:n, n:], gradient[:n]]), atol=1e-12)
    corner = np.block([[hessian[n:, n:], gradient[n:, None]], [gradient[None, n:], np.array([[r @ r]])]])
    np.testing.assert_allclose(equations.corner, corner, atol=1e-12)
    np.testing.assert_allclose(equations.gradient, gradient[:n], atol=1e-12)
    np.testing.assert_allclose(equations.diagonal, np.diag(hessian)[:n], atol=1e-12)


def test_products_with_the_hessian_and_with_other_residuals(blocks, parameters):
    J, _ = dense(blocks, parameters)
    rng = np.random.default_rng(1)
    n = STEPS * TANGENT
    step = rng.normal(size=n + parameters)
    moved = normal_equations(blocks, STEPS, TANGENT, parameters).apply(step[:n], step[n:])
    np.testing.assert_allclose(np.concatenate(moved), J.T @ J @ step, atol=1e-11)
    others = [rng.normal(size=(len(b.matrix), b.matrix.shape[2])) for b in blocks]
    pulled = np.concatenate(pull_back(blocks, others, STEPS, TANGENT))
    np.testing.assert_allclose(pulled, J.T @ np.concatenate([o.ravel() for o in others]), atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_elimination_is_the_schur_complement(blocks, parameters, damping):
    J, r = dense(blocks, parameters)
    n = STEPS * TANGENT
    hessian, gradient = J.T @ J, J.T @ r
    states = hessian[:n, :n] + damping * np.diag(np.diag(hessian)[:n])
    border = hessian[:n, n:]
    equations = normal_equations(blocks, STEPS, TANGENT, parameters)
    elimination = Elimination(equations, damping * equations.diagonal)
    whole = np.column_stack([border, gradient[:n]])
    np.testing.assert_allclose(elimination.corner, whole.T @ np.linalg.solve(states, whole), rtol=1e-8, atol=1e-10)
    moved = np.linspace(-1, 1, parameters)
    other = np.random.default_rng(5).normal(size=n)
    for forward, g in ((elimination.own, gradient[:n]), (elimination.forward(other), other)):
        solved = np.linalg.solve(states, g)
        np.testing.assert_allclose(forward.taken, border.T @ solved, rtol=1e-8, atol=1e-10)
        assert forward.square == pytest.approx(g @ solved, rel=1e-8)
        expected = -np.linalg.solve(states, g + border @ moved)
        np.testing.assert_allclose(elimination.step(forward, moved)[0], expected, rtol=1e-8, atol=1e-10)


def test_states_that_move_nothing_stay_where_they_are():
    blocks = random_blocks("reach 1", 1, np.random.default_rng(2))
    for block in blocks:
        block.matrix[:, 0 : len(block.offsets) * TANGENT : TANGENT] = 0
    J, r = dense(blocks, 1)
    elimination = Elimination(normal_equations(blocks, STEPS, TANGENT, 1))
    still = np.arange(STEPS * TANGENT) % TANGENT == 0
    moved = elimination.step(elimination.own, np.ones(1))[0]
    np.testing.assert_array_equal(moved[still], 0)
    expected = np.linalg.lstsq(J[:, :-1], -r - J[:, -1])[0]
    np.testing.assert_allclose(moved, expected, rtol=1e-8, atol=1e-10)


def test_an_indefinite_band_is_refused():
    band = np.zeros((2, 2))
    band[:, 0], band[0, 1] = 1.0, 2.0
    with pytest.raises(NotPositiveDefiniteError):
        Elimination(NormalEquations(band, np.zeros((2, 2)), np.zeros((2, 2)), 2))


# --- two chains and the damped, bounded step ---


def linearization(shape: str, lower: float, upper: float) -> tuple[MeritModel, Array, Array]:
    """Two chains that share two parameters, with the dense Jacobian and residual of both."""
    rng = np.random.default_rng(3)
    lengths = (STEPS, STEPS + 2)
    chains = [random_blocks(shape, 2, rng, steps) for steps in lengths]
    total = sum(lengths) * TANGENT
    whole, start = [], 0
    for blocks, steps in zip(chains, lengths, strict=True):
        J, _ = dense(blocks, 2, steps)
        wide = np.zeros((len(J), total + 2))
        wide[:, start : start + steps * TANGENT], wide[:, total:] = J[:, :-2], J[:, -2:]
        whole.append(wide)
        start += steps * TANGENT
    r = np.concatenate([dense(blocks, 2, steps)[1] for blocks, steps in zip(chains, lengths, strict=True)])
    bounds = np.full(2, lower), np.full(2, upper)
    none = ca.SX.sym("none", 0)
    factors = [
        Factor(
            f"f{i}",
            Group.STATE,
            ca.SX(rows, 1),
            {o: ca.SX.sym("x", TANGENT) for o in offsets},
            none,
            ("r",) * rows,
            once,
        )
        for i, (rows, offsets, once) in enumerate(SHAPES[shape])
    ]
    space, symbols = Manifold((("flat", TANGENT),)), ca.SX.sym("p", 2)
    horizons = [Chain("run", steps, {}, {}) for steps in lengths]
    problem = Transcription(space, factors, symbols, [], ["a", "b"], *bounds, np.ones(2), horizons)
    point = Point(tuple(np.zeros((steps, TANGENT)) for steps in lengths), np.zeros(2))
    reduced = ReducedProblem(problem, point)
    reduced.linearize = lambda at, chain, kept=False: (chains[chain], None)
    return MeritModel(reduced, reduced.evaluate(point)), np.vstack(whole), r


def flat(tangent: Tangent) -> Array:
    return np.concatenate([*tangent.states, tangent.parameters])


@pytest.mark.parametrize("shape", SHAPES)
def test_linearizations_are_dense_algebra(shape):
    here, J, r = linearization(shape, -np.inf, np.inf)
    states = len(J.T) - 2
    hessian, gradient = J.T @ J, J.T @ r
    np.testing.assert_allclose(flat(here.gradient), gradient, atol=1e-11)
    complement = hessian[states:, states:] - hessian[states:, :states] @ np.linalg.solve(
        hessian[:states, :states], hessian[:states, states:]
    )
    np.testing.assert_allclose(here.schur[:-1, :-1], complement, rtol=1e-8, atol=1e-9)
    cosines = np.abs(gradient) / (np.linalg.norm(J, axis=0) * np.linalg.norm(r))
    assert here.optimality() == pytest.approx(cosines.max(), rel=1e-10)
    damping = 1e-3
    scales = np.diag(hessian).copy()
    scales[states:] = np.maximum(scales[states:], r @ r)  # magnitudes are 1
    np.testing.assert_allclose(flat(here.scales), scales, rtol=1e-12)
    step, promised = DampedStep(here, damping).first()
    expected = -np.linalg.solve(hessian + damping * np.diag(scales), gradient)
    np.testing.assert_allclose(flat(step), expected, rtol=1e-8, atol=1e-9)
    assert promised == pytest.approx(r @ r - np.sum((r + J @ expected) ** 2), rel=1e-8)
    assert step.scaled_norm(here.scales) == pytest.approx(np.sqrt(scales @ expected**2), rel=1e-8)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (-1.0, 0.0)])
def test_what_pushes_against_a_bound_is_no_reason_to_go_on(lower, upper):
    here, J, r = linearization("reach 0", lower, upper)
    gradient = J.T @ r
    cosines = np.abs(gradient) / (np.linalg.norm(J, axis=0) * np.linalg.norm(r))
    pushed = np.zeros(len(gradient), dtype=bool)
    pushed[-2:] = gradient[-2:] > 0 if lower == 0 else gradient[-2:] < 0
    here.gradient.states[0][:], here.gradient.states[1][:] = 0, 0  # leave the parameters alone in the comparison
    assert here.optimality() == pytest.approx(np.where(pushed, 0, cosines)[-2:].max(), rel=1e-10)


@pytest.mark.parametrize("shape", ["reach 0", "reach 1"])
@pytest.mark.parametrize(("lower", "upper"), [(-1e-2, 1e-2), (0.0, 1e-3), (-1e-3, 0.0), (-1.0, 1e-3)])
def test_bounded_steps_minimise_the_damped_model_in_the_box(shape, lower, upper):
    here, J, r = linearization(shape, lower, upper)
    n = J.shape[1]
    damping = 1e-3
    tangent, promised = DampedStep(here, damping).first()
    step = flat(tangent)
    assert promised == pytest.approx(r @ r - np.sum((r + J @ step) ** 2), rel=1e-8)
    rows = np.vstack([J, np.diag(np.sqrt(damping * flat(here.scales)))])
    box = np.full(n, -np.inf), np.full(n, np.inf)
    box[0][-2:], box[1][-2:] = lower, upper
    expected = lsq_linear(rows, np.concatenate([-r, np.zeros(n)]), box, method="bvls", tol=1e-14).x
    np.testing.assert_allclose(step, expected, rtol=1e-6, atol=1e-9)
    assert np.all((step[-2:] >= lower) & (step[-2:] <= upper))


# --- the bounded quadratic program ---


def brute_force(S: Array, g: Array, lower: Array, upper: Array) -> Array:
    """The best of all active sets whose free part lies in the box."""
    best, value = None, np.inf
    for sides in itertools.product((-1, 0, 1), repeat=len(g)):
        side = np.array(sides)
        delta = np.where(side < 0, lower, np.where(side > 0, upper, 0.0))
        free = side == 0
        delta[free] = np.linalg.solve(S[np.ix_(free, free)], -g[free] - S[np.ix_(free, ~free)] @ delta[~free])
        cost = 0.5 * delta @ S @ delta + g @ delta
        if np.all(delta >= lower - 1e-12) and np.all(delta <= upper + 1e-12) and cost < value:
            best, value = delta, cost
    return best


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1.0, 1e-6, 1e6]))
def test_the_bounded_step_is_the_best_of_all_active_sets(seed, n, unit):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n + 2, n))
    units = unit ** rng.integers(-1, 2, n)  # units must not matter
    lower, upper = -rng.exponential(size=n), rng.exponential(size=n)
    lower[rng.random(n) < 0.3], upper[rng.random(n) < 0.2] = 0.0, 1e-9
    S, g = A.T @ A, 3 * rng.normal(size=n)
    step = bounded_step(S / np.outer(units, units), g / units, lower * units, upper * units)
    assert np.all((step >= lower * units) & (step <= upper * units))
    np.testing.assert_allclose(step / units, brute_force(S, g, lower, upper), rtol=1e-7, atol=1e-9)


def test_a_step_inside_the_box_is_newtons():
    S, g = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -1.0])
    step = bounded_step(S, g, np.full(2, -np.inf), np.full(2, np.inf))
    np.testing.assert_allclose(step, -np.linalg.solve(S, g), rtol=1e-14)


def test_no_parameters_need_no_step():
    assert bounded_step(np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("S", [[[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0 - 1e-12]]])
def test_a_program_without_a_minimum_is_refused(S):
    with pytest.raises(NotPositiveDefiniteError):
        bounded_step(np.array(S), np.ones(2), np.full(2, -1.0), np.full(2, 1.0))
