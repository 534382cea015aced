"""Factors over the horizon: Jacobians against differences, and the bookkeeping of rows, data and names."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, dense, furuta, paper_twin, pendulum, slope

from spookid import LevenbergMarquardt, Manifold, Parameter, Problem, Recording, Status, tilted_gravity
from spookid.assembly.assembly import assemble
from spookid.kernels.kernel import CHUNK, Kernel
from spookid.solvers.linearization import information
from spookid.statistics.condensing import Condensed, linearize
from spookid.transcription.factor import Constant, Factor, Group, Kind
from spookid.transcription.parameter_constraints import FreeDirections
from spookid.transcription.transcription import Chain, Point, Transcription

TRUTH = {"J": 0.003, "m": 0.9, "b": 1e-3, "mu": 1e-3, "c": 2e-3, "delta": 1e-3, "zeta": 0.4, "K": 0.1, "tilt": 0.05}


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A Furuta pendulum with a parameter of every kind and recordings of 7 and 5 steps, the second with a gap."""
    p = {name: Parameter(name, value) for name, value in TRUTH.items()}
    model = furuta(
        inertias=(p["J"], 2 * p["J"], p["m"] * 0.004),
        shoulder={"viscous": p["b"], "dry": p["mu"], "stribeck": (p["delta"], p["zeta"]), "compliance": 1e-2},
        elbow={"coulomb": p["c"], "drag": p["b"], "stiffness": 0.01, "compliance": (1e-2, p["mu"])},
        motor={"gain": p["K"], "shaft_inertia": 1e-4},
        acceleration=tilted_gravity(9.82, p["tilt"], 0),
    )
    inputs = Recording(t=np.arange(8) * 0.01, signals={"u": np.sin(np.arange(8.0))})
    start = {"shoulder": (0.3, 2.0), "elbow": (2.0, -3.0)}
    one = paper_twin(model, TRUTH, initial=start, duration=0.06, inputs=inputs, noise=1e-3, friction_width=0.5)
    other = one.simulate(TRUTH, 0.04, {"elbow": (-1.0, 1.0)}, inputs=inputs, substeps=1).with_signals(
        elbow=[1, np.nan, 1, 2, 3]
    )
    return one.with_(recordings=[*one.recordings, other])


@pytest.fixture(scope="module")
def transcription(problem: Problem) -> Transcription:
    return assemble(problem).transcription


@pytest.fixture(scope="module")
def point(problem: Problem) -> Point:
    """Off the constraint surface, so that no term vanishes."""
    assembly = assemble(problem)
    return moved(assembly.transcription, assembly.start, 0.03 * np.random.default_rng(1).normal(size=297))


def moved(transcription: Transcription, point: Point, delta: Array) -> Point:
    """The point, all unknowns moved."""
    tangent = transcription.manifold.tangent
    ends = np.cumsum([chain.steps * tangent for chain in transcription.chains])
    *states, parameters = np.split(delta, ends)
    return transcription.retract(point, [s.reshape(-1, tangent) for s in states], parameters)


def residual(transcription: Transcription, point: Point) -> Array:
    """All rows, in the order of ``dense``."""
    return np.concatenate([rows.ravel() for chain in transcription.residuals(point) for rows in chain])


# --- derivatives ---


def test_every_block_is_the_derivative_of_its_residual(transcription, point):
    jacobian, value = dense(transcription, point)
    np.testing.assert_allclose(value, residual(transcription, point), rtol=1e-12, atol=1e-12)
    assert jacobian.shape == (2 * 24 + (6 + 4) * 24 + (7 + 5) * 2, (7 + 5) * 24 + 9)
    expected = slope(lambda d: residual(transcription, moved(transcription, point, d)), transcription.unknowns, 3e-5)
    scale = 1e-8 * np.abs(expected).max(axis=1, keepdims=True) + 1e-8
    assert np.max(np.abs(jacobian - expected) / scale) < 1
    assert np.all(np.abs(expected).max(axis=0) > 1e-6)


def test_every_parameter_moves_what_it_should(transcription, point):
    # K drives the shoulder only where there is an input; the tilt is felt by the velocity rows of both bodies.
    blocks = {block.factor.name: block for block in transcription.linearize(point, 0)}
    columns = dict(zip(transcription.names, blocks["impulse"].matrix[0][48:57], strict=True))
    assert not columns["K"].any()
    assert blocks["impulse"].matrix[1][48 + transcription.names.index("K")].any()
    rows = {name for name, value in zip(blocks["impulse"].factor.rows, columns["tilt"], strict=True) if value}
    assert rows == {f"Δp_{kind} {body}.{axis}" for kind in "qu" for body in "AB" for axis in "yz"}
    assert not blocks["observation"].matrix[:, 24:33].any()


def test_residuals_of_a_block_are_its_last_rows(transcription, point):
    for c, chain in enumerate(transcription.residuals(point)):
        for block, values in zip(transcription.linearize(point, c), chain, strict=True):
            np.testing.assert_allclose(block.residual, values, rtol=1e-12, atol=1e-12)


def test_gradients_of_weighted_rows_are_those_of_the_jacobian_and_of_differences(transcription, point):
    rng = np.random.default_rng(2)
    for c in range(len(transcription.chains)):
        for block in transcription.linearize(point, c):
            weights = rng.normal(size=block.residual.shape)
            found = transcription.pull_back(block.factor, point, c, weights)
            expected = np.einsum("kcr,kr->kc", block.matrix[:, :-1], weights)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    weights = rng.normal(size=len(residual(transcription, point)))
    numbers = slope(lambda d: np.array([weights @ residual(transcription, moved(transcription, point, d))]), 297, 3e-5)
    jacobian, _ = dense(transcription, point)
    np.testing.assert_allclose(numbers[0], weights @ jacobian, rtol=1e-6, atol=1e-8 * np.abs(numbers).max())


# --- counts and names ---


def test_counts(transcription, point):
    assert transcription.names == tuple(TRUTH)
    assert transcription.unknowns == (7 + 5) * 24 + 9
    assert transcription.rows == 2 * 24 + (6 + 4) * 24 + (7 + 5) * 2 - 1
    jacobian, _ = dense(transcription, point)
    assert np.count_nonzero(jacobian) <= transcription.nonzeros
    # Structural zeros are known: the count is near what a random point shows.
    assert transcription.nonzeros < 1.2 * np.count_nonzero(jacobian)


def test_costs_are_sums_of_squares_by_group(transcription, point):
    residuals = transcription.residuals(point)
    costs = transcription.costs(residuals)
    assert sum(costs.values()) == pytest.approx(np.sum(residual(transcription, point) ** 2), rel=1e-13)
    assert costs[Group.OBSERVATION] == pytest.approx(sum(np.sum(chain[-1] ** 2) for chain in residuals), rel=1e-13)


def test_provenance_names_recording_step_and_row(transcription):
    initial, impulse, observation = transcription.factors
    first, second = (chain.name for chain in transcription.chains)
    assert (first, second) == ("twin", "twin")
    assert transcription.provenance(0, initial, 3) == "twin, step 0 (t = 0 s): Δp_q0 A.rx"
    assert transcription.provenance(0, impulse, 0) == "twin, step 1 (t = 0.01 s): Δp_q A.x"
    assert transcription.provenance(0, impulse, 2 * 24 + 23) == "twin, step 3 (t = 0.03 s): Δp_u B.rz"
    assert transcription.provenance(1, observation, 5) == "twin, step 2 (t = 0.02 s): observation of elbow"


def test_missing_samples_drop_out(transcription, point):
    observation = transcription.residuals(point)[1][-1]
    assert observation[1, 1] == 0
    assert np.count_nonzero(observation == 0) == 1
    block = transcription.linearize(point, 1)[-1]
    assert not block.matrix[1, :, 1].any()
    assert block.matrix[1, :, 0].any()


def test_retract_keeps_parameters_in_their_bounds():
    J = Parameter("J", 0.01, lower=0.005, upper=0.02)
    assembly = assemble(paper_twin(pendulum(inertia=J), {}, initial={"hinge": 0.5}, duration=0.05))
    still = [np.zeros((6, 12))]
    for step, expected in ((1.0, 0.02), (-1.0, 0.005), (0.001, 0.011)):
        assert assembly.transcription.retract(assembly.start, still, np.array([step])).parameters == expected


# --- hand-made factors ---


def tiny(steps: int) -> Transcription:
    """Differences over two steps, weighted by a parameter and a constant; the first value is to be 1."""
    x0, x1, x2 = (ca.SX.sym(f"x{i}") for i in range(3))
    data, parameter, constant, none = ca.SX.sym("d"), ca.SX.sym("p"), ca.SX.sym("c"), ca.SX.sym("none", 0)
    bend = Factor(
        "bend", Group.STATE, constant * (parameter * x0 - 2 * x1 + x2 - data), {0: x0, 1: x1, 2: x2}, data, ("b",)
    )
    first = Factor("first", Group.OBSERVATION, x0**2 - 1, {0: x0}, none, ("f",), first_only=True)
    chain = Chain("run", steps, {"bend": np.arange(steps - 2.0)[:, None], "first": np.zeros((1, 0))}, {})
    ends = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    return Transcription(
        Manifold((("flat", 1),)), [bend, first], parameter, [Constant(constant, 3.0)], ["p"], *ends, [chain]
    )


@pytest.mark.parametrize("steps", [3, 10, CHUNK + 2, CHUNK + 3, 3 * CHUNK + 50])
def test_factors_stand_at_every_step_and_first_ones_once(steps):
    transcription = tiny(steps)
    x = np.random.default_rng(0).normal(size=(steps, 1))
    bend, first = transcription.residuals(Point((x,), np.array([0.7])))[0]
    expected = 3 * (0.7 * x[:-2] - 2 * x[1:-1] + x[2:] - np.arange(steps - 2.0)[:, None])
    np.testing.assert_allclose(bend, expected, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(first, [[x[0, 0] ** 2 - 1]], rtol=1e-13)
    impulse = transcription.factors[0]
    assert transcription.provenance(0, impulse, 0).count(", step 1: ") == 1
    assert transcription.rows == steps - 2 + 1
    assert transcription.nonzeros == 4 * (steps - 2) + 1
    block = transcription.linearize(Point((x,), np.array([0.7])), 0)[0]
    np.testing.assert_allclose(block.matrix[:, :3, 0], np.tile([2.1, -6, 3], (steps - 2, 1)))
    np.testing.assert_allclose(block.matrix[:, 3, 0], 3 * x[:-2, 0])
    np.testing.assert_allclose(block.matrix[:, 4, 0], expected[:, 0], atol=1e-12)


def test_kernels_take_shifted_views_and_return_their_buffer():
    x, y, p = ca.SX.sym("x", 2), ca.SX.sym("y", 2), ca.SX.sym("p")
    kernel = Kernel(ca.Function("f", [x, y, p], [ca.densify(p * ca.horzcat(x, y, x - y))]), 2)
    values = np.random.default_rng(0).normal(size=(300, 2))
    out = np.empty((299, 3, 2))
    assert kernel([values[:-1], values[1:]], [np.array([2.0])], out) is out
    expected = np.stack([values[:-1], values[1:], values[:-1] - values[1:]], axis=1)
    np.testing.assert_allclose(out, 2 * expected)
    assert kernel([values[:0], values[:0]], [np.array([2.0])], np.empty((0, 3, 2))).size == 0


@pytest.mark.parametrize("count", [1, 3, 300])
def test_kernels_write_results_that_are_zero_whatever_the_arguments(count: int):
    x, data, p = ca.SX.sym("x", 2), ca.SX.sym("data", 0), ca.SX.sym("p")
    kernel = Kernel(ca.Function("f", [x, data, p], [ca.densify(ca.SX(3, 2))]), 2)
    out = np.full((count, 2, 3), np.nan)
    np.testing.assert_array_equal(kernel([np.ones((count, 2)), np.zeros((count, 0))], [np.ones(1)], out), 0.0)


# --- hard rows and private unknowns ---

STEPS = 6


def mixed(local: bool, coupled: bool, private: bool) -> Transcription:
    """Steps (a, b, l) and a parameter in a linear problem: two soft factors, hard rows at one step and between two."""
    here, there = ca.SX.sym("here", 3), ca.SX.sym("there", 3)
    (a, b, push), (a_next, b_next, _) = ca.vertsplit(here), ca.vertsplit(there)
    d, p, none = ca.SX.sym("d"), ca.SX.sym("p"), ca.SX.sym("none", 0)
    both = {0: here, 1: there}
    # The push of the last step stands nowhere; it moves nothing.
    shove = ca.vertcat(a_next - a - push, b_next - b + 2 * push + 0.1 * p, b_next - a)
    factors = [
        Factor("seen", Group.OBSERVATION, ca.vertcat(a - d, b + p - 2 * d**2), {0: here}, d, ("a", "b")),
        Factor("shove", Group.STATE, shove, both, none, ("1", "2", "3"), private=(0, range(2, 3)) if private else None),
        Factor("local", Group.STATE, a + 2 * b - p - 1, {0: here}, none, ("c",), kind=Kind.HARD),
        Factor("coupled", Group.STATE, a_next - 0.8 * a - 0.3 * b, both, none, ("c",), kind=Kind.HARD),
    ]
    factors = [f for f in factors if not f.hard or (f.name == "local" and local) or (f.name == "coupled" and coupled)]
    chain = Chain("run", STEPS, {"seen": np.linspace(0, 1, STEPS)[:, None]}, {})
    box = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])
    return Transcription(Manifold((("flat", 3),)), factors, p, [], ["p"], *box, [chain])


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(("local", "coupled"), [(False, False), (True, False), (False, True)])
def test_hard_rows_hold_and_the_soft_ones_are_least(local, coupled, private):
    transcription = mixed(local, coupled, private)
    outcome = LevenbergMarquardt().solve(transcription, Point((np.ones((STEPS, 3)),), np.array([0.3])))
    assert outcome.status is Status.CONVERGED
    # The same by one dense KKT system, without the push of the last step.
    zero = Point((np.zeros((STEPS, 3)),), np.zeros(1))
    J, r = dense(transcription, zero)
    J = np.delete(J, 3 * STEPS - 1, axis=1)
    is_hard = np.concatenate([np.full(f.count(STEPS) * len(f.rows), f.hard) for f in transcription.factors])
    C, A = J[is_hard], J[~is_hard]
    kkt = np.block([[A.T @ A, C.T], [C, np.zeros((len(C), len(C)))]])
    exact = np.linalg.solve(kkt, -np.concatenate([A.T @ r[~is_hard], r[is_hard]]))[: J.shape[1]]
    found = np.append(np.delete(outcome.point.states[0].ravel(), 3 * STEPS - 1), outcome.point.parameters)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)
    cost = np.sum((A @ exact + r[~is_hard]) ** 2)
    assert outcome.history[-1].total == pytest.approx(cost, rel=1e-6)
    assert np.abs(C @ found + r[is_hard]).max(initial=0) < 1e-6
    matrix = information(transcription, outcome.point).matrix
    np.testing.assert_allclose(matrix, 1 / np.linalg.inv(kkt)[J.shape[1] - 1, J.shape[1] - 1], rtol=1e-3)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(("local", "coupled"), [(False, False), (True, False), (False, True)])
def test_freedom_is_rows_less_what_they_determine(local, coupled, private):
    transcription = mixed(local, coupled, private)
    outcome = LevenbergMarquardt().solve(transcription, Point((np.ones((STEPS, 3)),), np.array([0.3])))
    # The push of the last step stands in no row: it is not determined and takes no freedom.
    contraction = Condensed(linearize(transcription, outcome.point), FreeDirections(np.zeros(1, dtype=bool)))
    assert contraction.freedom == transcription.rows - (transcription.unknowns - 1)


def test_hard_rows_cost_nothing():
    transcription = mixed(local=True, coupled=True, private=False)
    point = Point((np.random.default_rng(0).normal(size=(STEPS, 3)),), np.array([0.3]))
    residuals = transcription.residuals(point)
    costs = transcription.costs(residuals)
    assert costs[Group.STATE] == pytest.approx(np.sum(residuals[0][1] ** 2))
    assert transcription.rows == 2 * STEPS + 3 * (STEPS - 1) + STEPS + STEPS - 1
