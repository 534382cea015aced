"""Sparse plans of what is eliminated of a step, and of Jacobians condensed to the rest, against dense algebra."""

from __future__ import annotations

from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest
from benchmarks.problems import chain
from mechanisms import Array
from numpy.typing import NDArray

from spookid import Problem
from spookid.kernels import native
from spookid.kernels.arrays import Integers, location
from spookid.kernels.kernel import Call, Kernel
from spookid.kernels.native import integers, reflections
from spookid.solvers import condensation
from spookid.solvers.condensation import Layout
from spookid.solvers.slopes import Turns
from spookid.stepping.impulses import Settings
from spookid.transcription.factor_kernels import augmented, augmented_pattern


@pytest.fixture
def by(by_c):
    return native.routines()


def copying(count: int, places: Integers | None = None) -> Kernel:
    """A kernel whose numbers are its argument."""
    x = ca.SX.sym("x", count)
    return Kernel(ca.Function("copied", [x], [x]), 1, places)


def given(numbers: Array) -> tuple[object, ...]:
    """The program that copies these, (steps, count), as the routines take it."""
    program = copying(numbers.shape[1]).program
    assert program is not None
    return program, program.address, *program.arguments([numbers], [])


def chained(bodies: int, loop: bool) -> NDArray[np.bool_]:
    """Which of six columns a body five rows of each hinge of a chain see, transposed; in a loop the last sees two."""
    pattern = np.zeros((6 * bodies, 5 * bodies), dtype=bool)
    for i in range(bodies):
        pattern[6 * max(i - 1, 0) : 6 * i + 6, 5 * i : 5 * i + 5] = True
    if loop:
        pattern = np.hstack([pattern, np.zeros((6 * bodies, 2), dtype=bool)])
        pattern[:3, -2:] = pattern[-3:, -2:] = True
    return pattern


def scattered(m: int, k: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(k)
    pattern = rng.uniform(size=(m, k)) < 0.25
    pattern[rng.permutation(m)[:k], np.arange(k)] = True
    return pattern


PATTERNS = {
    "chain": chained(5, loop=False),
    "loop": chained(4, loop=True),
    "scattered": scattered(17, 9),
    "square": scattered(8, 8),
    "full": np.ones((6, 4), dtype=bool),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_private_unknowns_are_fitted_by_sparse_reflections(name, by):
    pattern, rng, steps = PATTERNS[name], np.random.default_rng(2), 13  # which eight does not divide
    m, k = pattern.shape
    T = rng.normal(size=(steps, m, k)) * pattern
    r = rng.normal(size=(steps, m))
    places = np.full((m, k), -1)
    places[pattern] = rng.permutation(int(pattern.sum()))
    numbers = np.empty((steps, int(pattern.sum()) + m))
    numbers[:, places[pattern]] = T[:, pattern]
    numbers[:, pattern.sum() :] = r
    plan = reflections(places, np.arange(m) + int(pattern.sum()))
    states, entries = np.zeros((steps, k + 2)), integers(np.arange(k) + 1)
    complement, residual = np.empty((steps, m, m - k)), np.empty((steps, m))
    still, mixed = np.array([1e-12]), np.zeros(1, dtype=np.int64)
    _held, *arguments = given(numbers)
    by.fit(
        *(steps, *arguments, location(states), k + 2, location(entries), location(plan.sizes), plan.lists.address),
        *(1, location(still), location(complement), location(residual), location(mixed)),
    )
    assert not mixed[0]
    expected = np.stack([np.linalg.lstsq(A, -b, rcond=None)[0] for A, b in zip(T, r, strict=True)])
    np.testing.assert_allclose(states[:, 1:-1], expected, atol=1e-11)
    assert not states[:, [0, -1]].any()
    np.testing.assert_allclose(residual, r + np.einsum("nmk,nk->nm", T, expected), atol=1e-11)
    np.testing.assert_allclose(complement.transpose(0, 2, 1) @ T, 0, atol=1e-13)
    eye = np.broadcast_to(np.eye(m - k), (steps, m - k, m - k))
    np.testing.assert_allclose(complement.transpose(0, 2, 1) @ complement, eye, atol=1e-13)


@pytest.mark.parametrize("based", [True, False], ids=["basis", "no basis"])
@pytest.mark.parametrize("dragged", [True, False], ids=["drag", "no drag"])
@pytest.mark.parametrize("left", [None, 5], ids=["all rows", "complement"])
def test_condensed_jacobians_are_products_of_full_ones(based, dragged, left, by):
    rng, steps, rows, layout = np.random.default_rng(3), 13, 7, Layout((0, 2), 11, (0, 1, 2, 4, 5, 6, 7, 9), 3)
    shape, count, wide = (2 * 11 + 3 + 1, rows), steps - 2, len(layout.visible)
    pattern = rng.uniform(size=shape) < 0.3
    pattern[-1] = True
    places = np.flatnonzero(pattern)
    numbers = rng.normal(size=(count, len(places)))
    kernel = copying(len(places))
    basis = rng.normal(size=(steps, wide, 6)) if based else None
    drag = rng.normal(size=(steps, wide, 2)) if dragged else None
    complement = None if left is None else rng.normal(size=(count, rows, left))
    remains = condensation._Left(basis, drag, integers([0, 2] if dragged else []), complement)
    found, expected = np.full((2, count, 2 * (6 if based else wide) + 4, left or rows), np.nan)
    condensation._by_program(by, kernel.program, places, Call(kernel, [numbers], [], shape), layout, remains, found)
    matrix = np.zeros((count, *shape))
    matrix.reshape(count, -1)[:, places] = numbers
    condensation._interpreted(matrix, layout, remains, expected)
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("based", [True, False], ids=["surface", "no surface"])
@pytest.mark.parametrize("private", [(), (3, 8)], ids=["none private", "private"])
def test_weights_that_c_lifts_are_those_of_full_jacobians_where_these_differ_from_zero(based, private, by):
    rng, steps, rows, columns = np.random.default_rng(5), 13, 7, integers([0, 1, 2, 4, 5, 6, 7, 9])
    factor = SimpleNamespace(variables={0: None, 2: None}, private=(2, private) if private else None)
    shape, count, tangent = (2 * 11 + 3 + 1, rows), steps - 2, 6 if based else len(columns)
    pattern = rng.uniform(size=shape) < 0.3
    places = np.flatnonzero(pattern)
    numbers, kernel = rng.normal(size=(count, len(places))), copying(len(places), places)
    matrix = np.zeros((count, *shape))
    matrix.reshape(count, -1)[:, places] = numbers
    surface = (rng.normal(size=(steps, len(columns), n)) for n in (3, tangent)) if based else (None, None)
    inverse, basis = surface
    one, other = (Turns(steps, 11, columns, inverse, basis) for _ in range(2))
    across = rng.normal(size=(count, 2 * tangent, rows))
    reached = rng.normal(size=(count, len(private), rows)) if private else None
    found = one.lifted_by(factor, Call(kernel, [numbers], [], shape), across, reached)
    expected, seen = other.lifted(factor, matrix, across, reached), pattern[:22].copy()
    seen[11 + integers(private)] = True
    np.testing.assert_allclose(found, np.where(seen, expected, 0.0), atol=1e-12)
    np.testing.assert_allclose(one.products, other.products, atol=1e-12)


def nodes(problem: Problem) -> int:
    """Of the expressions that the Jacobians of a motion and of its joints are computed by."""
    scheme, settings, total = problem.scheme, Settings.of(problem.model, 0), 0
    known = [settings.step, settings.weight, settings.slip_width, settings.turn_width, settings.impulse_width]
    parameters, manifold = ca.vertcat(*problem.free), scheme.manifold(problem.model)
    for factor in scheme.factors(problem.model, settings):
        pattern = augmented_pattern(factor, manifold, parameters)
        whole = ca.project(augmented(factor, manifold, parameters), pattern)
        arguments = [*factor.variables.values(), factor.data, parameters, *known, settings.disturbance]
        total += ca.Function("whole", arguments, [ca.cse(ca.vertcat(*whole.nonzeros()))]).n_nodes()
    return total


@pytest.mark.parametrize(
    ("settings", "most"),
    [pytest.param({"state_weight": 1e4}, 2.2, marks=pytest.mark.study), ({}, 2.5)],
    ids=["weighted", "estimated"],
)
def test_expressions_grow_with_the_number_of_bodies(settings, most):
    """In a likelihood a joint's row sees all bodies beyond it, so that there are a few more of them."""
    counts = [nodes(chain(n, 20, **settings)) for n in (8, 16)]
    assert counts[1] < most * counts[0]


def test_little_fills_in_along_a_chain():
    entries = []
    for bodies in (8, 16):
        pattern = chained(bodies, loop=False)
        numbers = np.where(pattern, np.cumsum(pattern).reshape(pattern.shape) - 1, -1)
        entries.append(int(reflections(numbers, np.arange(len(pattern))).sizes[2]))
    assert entries[0] < 2 * chained(8, loop=False).sum()
    assert entries[1] < 2.6 * entries[0]
