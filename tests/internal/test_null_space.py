"""Points put back onto the surface of local hard rows, and factors linearized along what is left of each step there."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from mechanisms import Array, furuta, maximal, paper_twin, pendulum
from test_loops import noisy, problem, unknown

from spookid import LevenbergMarquardt, Manifold, Parameter, Problem, Recording, Variational
from spookid.assembly.assembly import assemble
from spookid.solvers.condensation import null_space_basis, orthonormal
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.transcription.factor import Block, Factor, Group, Kind
from spookid.transcription.transcription import Chain, Point, Transcription

Case = tuple[Transcription, Point]


def shaken(declared: Problem, distance: float = 1e-4) -> Case:
    """A problem and a point that is off the joints' surface, with multipliers that fit nothing."""
    assembly, rng = assemble(declared), np.random.default_rng(4)
    transcription, start = assembly.transcription, assembly.start
    steps = [distance * rng.normal(size=(len(x), transcription.manifold.tangent)) for x in start.states]
    return transcription, transcription.retract(start, steps, np.zeros_like(start.parameters))


def rigid(**friction: float) -> Case:
    """A Furuta pendulum of 15 steps, which eight does not divide."""
    J, values = Parameter("J", 0.003, lower=0), {name: Parameter(name, v, lower=0) for name, v in friction.items()}
    model = furuta(inertias=(J, 0.004, 0.004), shoulder=values, elbow={"dry": 0.0})
    start = {"shoulder": (0.3, 2.0), "elbow": (2.0, -3.0)}
    settings = {"step": 0.01, "stepper": Variational(), "friction_width": 0.5}
    return shaken(
        paper_twin(maximal(model), {"J": 0.003, **friction}, initial=start, duration=0.14, noise=1e-3, **settings)
    )


def hard_motion() -> Case:
    """Equations of motion that must hold, so that the rows with private unknowns are hard."""
    J = Parameter("J", 0.005, lower=0)
    fitted = paper_twin(maximal(pendulum(inertia=J)), {"J": 0.004}, initial={"hinge": 1.0}, duration=0.12, step=0.01)
    return shaken(fitted.with_(stepper=Variational(), state_weight=np.inf))


def redundant_loop() -> Case:
    """A planar linkage: some of the rows of its joints say what others say."""
    run = noisy()
    short = Recording(t=run.t[:81], signals={name: s[:81] for name, s in run.signals.items()})
    # Off the plane the rows are independent.
    return shaken(problem(unknown(compliance=0), recordings=[short], step=0.004, state_weight=1e4), distance=0)


def dragged(bend: float) -> Case:
    """Steps (a, b, l) on an ellipse whose size is a parameter; l is private, and enters linearly without ``bend``."""
    here, there, p = ca.SX.sym("here", 3), ca.SX.sym("there", 3), ca.SX.sym("p", 2)
    (a, b, push), (a_next, b_next, _) = ca.vertsplit(here), ca.vertsplit(there)
    d, none = ca.SX.sym("d"), ca.SX.sym("none", 0)
    shove = ca.vertcat(a_next - p[1] * ca.sin(a) - push * ca.cos(b), b_next - a * b + 2 * push + bend * push**2, push)
    factors = [
        Factor("seen", Group.OBSERVATION, ca.vertcat(a - d, ca.exp(p[1] * b)), {0: here}, d, ("a", "b")),
        Factor("shove", Group.STATE, shove, {0: here, 1: there}, none, tuple("123"), private=(0, range(2, 3))),
        Factor("ellipse", Group.STATE, a**2 + 2 * b**2 - p[0], {0: here}, none, ("g",), kind=Kind.HARD),
        Factor("first", Group.PRIOR, ca.vertcat(p[0] - 1, a * b), {0: here}, none, ("p", "ab"), first_only=True),
    ]
    chain = Chain("run", 11, {"seen": np.linspace(0, 1, 11)[:, None]}, {})
    box = np.full(2, -np.inf), np.full(2, np.inf), np.ones(2)
    transcription = Transcription(Manifold((("flat", 3),)), factors, p, [], ["p", "q"], *box, [chain])
    states = 0.5 + 0.2 * np.random.default_rng(1).normal(size=(11, 3))
    return transcription, Point((states,), np.array([0.8, 0.7]))


CASES: dict[str, Callable[[], Case]] = {
    "linear friction": lambda: rigid(viscous=1e-3),
    "friction of the load": lambda: rigid(dry=0.05),
    "hard motion": hard_motion,
    "redundant loop": redundant_loop,
    "dragged": lambda: dragged(0.0),
    "dragged and bent": lambda: dragged(0.2),
}


def local(transcription: Transcription, point: Point) -> tuple[Array, Array, Array]:
    """G in the visible columns, the slopes to the parameters, and g, from the full Jacobians of the first chain."""
    blocks = [transcription.linearize_factor(f, point, 0) for f in transcription.local]
    whole = np.concatenate([block.matrix for block in blocks], axis=2).transpose(0, 2, 1)
    width = transcription.manifold.tangent
    return whole[:, :, list(transcription.visible)], whole[:, :, width:-1], whole[:, :, -1]


def private(transcription: Transcription, factor: Factor, point: Point) -> tuple[Array, Array]:
    """Jacobian in the private unknowns, and the residual."""
    offset, columns = factor.private or (0, range(0))
    block = transcription.linearize_factor(factor, point, 0)
    places = np.array(columns) + list(factor.variables).index(offset) * transcription.manifold.tangent
    return block.matrix[:, places].transpose(0, 2, 1), block.residual


@pytest.mark.parametrize("name", CASES)
def test_a_projected_point_is_on_the_surface_and_its_private_unknowns_fit_best(name):
    transcription, start = CASES[name]()
    reduced = ReducedProblem(transcription, start)
    assert name == "redundant loop" or np.abs(local(transcription, start)[2]).max() > 1e-5
    point = reduced.project(start)
    np.testing.assert_allclose(local(transcription, point)[2], 0, atol=1e-14)
    factor = next((f for f in transcription.factors if f.private), None)
    if factor is None:
        return
    jacobian, residual = private(transcription, factor, point)
    gradient = np.einsum("krc,kr->kc", jacobian, residual)
    lengths = np.linalg.norm(jacobian, axis=1)
    lengths[lengths < 1e-9 * lengths.max()] = np.inf  # redundant ones are rounded zeros
    scale = lengths * np.linalg.norm(residual, axis=1)[:, None]
    if factor.name in transcription.linear:
        np.testing.assert_allclose(gradient / scale, 0, atol=1e-9)
        np.testing.assert_allclose(reduced.project(point).states[0], point.states[0], rtol=1e-9, atol=1e-9)
    else:
        first = len(transcription.visible) - transcription.manifold.tangent
        unfitted = point.states[0].copy()
        unfitted[:, first:] = start.states[0][:, first:]
        before = private(transcription, factor, Point((unfitted,), point.parameters))[1]
        assert np.linalg.norm(residual) < 0.9 * np.linalg.norm(before)
    point = reduced.project(start)
    for found, expected in zip(reduced.evaluate(point).residuals[0], transcription.residuals(point)[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("name", CASES)
def test_rows_are_full_jacobians_in_what_is_left_of_a_step(name, engine):
    transcription, start = CASES[name]()
    reduced = ReducedProblem(transcription, start)
    for point in (reduced.project(start), start):  # where projecting tells what is left, and where nothing does
        rows, basis = reduced.linearize(point, 0, kept=True)
        G, slopes, _ = local(transcription, point)
        np.testing.assert_allclose(G @ basis, 0, atol=1e-12)
        np.testing.assert_allclose(
            basis.transpose(0, 2, 1) @ basis, np.tile(np.eye(reduced.tangent), (len(G), 1, 1)), atol=1e-12
        )
        drag = -np.linalg.pinv(G, rcond=1e-9) @ slopes
        assert drag.any() == ("dragged" in name)
        for factor, found in zip(reduced.kept, rows, strict=True):
            block = transcription.linearize_factor(factor, point, 0)
            expected = projected(transcription, block, basis, drag, found.complement)
            if factor in reduced.coupled:
                expected *= np.sqrt(reduced.penalty)
            atol = 1e-11 * np.abs(block.matrix).max() * max(1, np.sqrt(reduced.penalty))
            np.testing.assert_allclose(found.matrix, expected, rtol=1e-9, atol=atol)
            if factor.private:
                jacobian, _ = private(transcription, factor, point)
                np.testing.assert_allclose(
                    found.complement.transpose(0, 2, 1) @ jacobian, 0, atol=1e-12 * np.abs(jacobian).max()
                )


def projected(transcription: Transcription, block: Block, basis: Array, drag: Array, complement: Array | None) -> Array:
    """A full transposed Jacobian in the unknowns that are left, by dense algebra."""
    width, visible = transcription.manifold.tangent, list(transcription.visible)
    matrix = block.matrix if complement is None else block.matrix @ complement
    offsets, count = list(block.factor.variables), len(matrix)
    border, steps = matrix[:, len(offsets) * width :].copy(), []
    for i, offset in enumerate(offsets):
        columns = matrix[:, i * width : (i + 1) * width][:, visible]
        steps.append(basis[offset : offset + count].transpose(0, 2, 1) @ columns)
        border[:, :-1] += drag[offset : offset + count].transpose(0, 2, 1) @ columns
    return np.concatenate([*steps, border], axis=1)


@pytest.mark.parametrize("name", CASES)
def test_points_by_c_and_by_numpy_are_the_same(name, by_c, monkeypatch):
    points = []
    for _ in range(2):
        transcription, start = CASES[name]()
        points.append(ReducedProblem(transcription, start).project(start).states[0])
        monkeypatch.setenv("SPOOKID_NATIVE", "off")
    np.testing.assert_allclose(*points, rtol=1e-9, atol=1e-9)


def test_private_unknowns_enter_linearly_or_not():
    assert "shove" in dragged(0.0)[0].linear
    assert "shove" not in dragged(0.2)[0].linear


def test_a_point_that_is_not_finite_stays_so(engine):
    transcription, start = rigid(viscous=1e-3)
    reduced = ReducedProblem(transcription, start)
    start.states[0][3, 0] = np.nan
    point = reduced.project(start)
    assert not np.isfinite(reduced.evaluate(point).merit)


def test_all_kernels_are_ready_before_a_solve():
    transcription, start = rigid(viscous=1e-3)
    transcription.kernels.prepare()
    spent = transcription.kernels.seconds
    assert spent > 0
    LevenbergMarquardt(newton=False).solve(transcription, start)
    assert transcription.kernels.seconds == spent


def test_coordinates_of_tangent_columns():
    manifold = Manifold((("flat", 3), ("rotation", 4), ("flat", 2)))
    assert [manifold.coordinate(column) for column in (0, 2, 6, 7)] == [0, 2, 7, 8]
    for column in (3, 5, 8, -1):
        with pytest.raises(ValueError, match=f"tangent column {column} belongs to a rotation"):
            manifold.coordinate(column)


def test_rows_that_are_longer_by_orders_of_magnitude_cost_others_no_digits() -> None:
    """What a multiplier does along three coordinates, to one of them by rounding alone."""
    rng = np.random.default_rng(0)
    P = rng.normal(size=(50, 5, 2)) * np.array([1e3, 1.0, 3e-13, 1e9, 1e-6])[:, None]
    lengths = np.linalg.norm(P, axis=2, keepdims=True)
    C = orthonormal(null_space_basis((P / lengths).transpose(0, 2, 1), 2) / lengths)
    np.testing.assert_allclose(np.matmul(C.transpose(0, 2, 1), C), np.broadcast_to(np.eye(3), (50, 3, 3)), atol=1e-14)
    largest = np.max(np.abs(P[:, :, :, None] * C[:, :, None, :]), axis=1)
    assert np.max(np.abs(np.einsum("krp,krc->kpc", P, C)) / largest) < 1e-12
