"""Routines in C against NumPy, with numbers of steps that eight does not divide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from spookid.kernels import native
from spookid.solvers import structured
from spookid.solvers.condensation import inverses, null_space_and_inverse, null_space_basis, smallest_solution
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.rows import Rows
from spookid.solvers.structured import normal_equations


@pytest.fixture
def by(by_c):
    return native.routines()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(("n", "rows", "columns"), [(19, 10, 12), (8, 5, 6), (3, 4, 5)])
def test_null_space_and_pseudo_inverse(engine, rng, n, rows, columns):
    whole = rng.normal(size=(n, columns + 3, rows))
    matrices = whole[:, 1 : columns + 1].transpose(0, 2, 1)
    matrices[0, :, 0] = 0.0  # a column below whose first entry all are zero
    found = null_space_and_inverse(matrices, rows)
    np.testing.assert_allclose(found.inverse, np.linalg.pinv(matrices), atol=1e-12)
    np.testing.assert_allclose(null_space_basis(matrices, rows), found.null, atol=1e-12)
    np.testing.assert_allclose(matrices @ found.null, 0, atol=1e-13)


@pytest.mark.parametrize("shape", [(11, 5, 7), (11, 7, 5), (9, 4, 4)])
def test_smallest_solution(engine, rng, shape):
    matrices, right = rng.normal(size=shape), rng.normal(size=shape[:2])
    expected = np.stack([np.linalg.lstsq(A, b, rcond=None)[0] for A, b in zip(matrices, right, strict=True)])
    np.testing.assert_allclose(smallest_solution(matrices, right, min(shape[1:])), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 2, 4), (3, 4, 2), (3, 3, 3)])
def test_a_singular_matrix_has_no_solution_of_full_rank(engine, shape):
    found = smallest_solution(np.ones(shape), np.ones(shape[:2]), min(shape[1:]))
    assert found.shape == (3, shape[2])
    assert np.isnan(found).all()


def rows(rng, count, offsets, tangent, parameters, size):
    matrix = rng.normal(size=(count, len(offsets) * tangent + parameters + 1, size))
    return Rows(offsets, matrix * (rng.uniform(size=matrix.shape[1:]) < 0.4), None)


def test_normal_equations(by, rng, monkeypatch):
    steps, tangent, parameters = 21, 3, 19
    blocks = [rows(rng, steps - 1, (0, 1), tangent, parameters, 5), rows(rng, steps, (0,), tangent, parameters, 4)]
    blocks.append(rows(rng, steps - 2, (0, 2), tangent, parameters, 4))
    blocks.append(rows(rng, steps - 1, (0, 1), tangent, parameters, 0))  # a mechanism without joints has such rows
    found = normal_equations(blocks, steps, tangent, parameters)
    monkeypatch.setattr(structured, "routines", lambda: None)
    expected = normal_equations(blocks, steps, tangent, parameters)
    for part in ("band", "border", "corner"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-13, atol=1e-13)


def test_entries_that_are_zero_at_first_are_not_missed(by, rng, monkeypatch):
    steps, tangent, parameters = 40, 3, 2
    block = rows(rng, steps - 1, (0, 1), tangent, parameters, 4)
    full = rows(rng, 1, (0, 1), tangent, parameters, 4).matrix[0] + 1.0
    block.matrix[:9] *= rng.uniform(size=block.matrix.shape[1:]) < 0.5
    block.matrix[21] = full  # then all entries are products' factors
    block.matrix[30, 2, 1] = -0.0
    found = normal_equations([block], steps, tangent, parameters)
    monkeypatch.setattr(structured, "routines", lambda: None)
    expected = normal_equations([block], steps, tangent, parameters)
    for part in ("band", "border", "corner"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("offsets", "size"), [((0,), 2), ((0, 1), 5), ((1, 3), 3)])
@pytest.mark.parametrize("across", [1, 4])
def test_products_of_rows_with_steps_and_columns(by, rng, monkeypatch, offsets, size, across):
    steps, tangent = 23, 3
    block = rows(rng, steps - max(offsets), offsets, tangent, 4, size)
    moves, columns = rng.normal(size=(steps, tangent, across)), rng.normal(size=(len(block.matrix), across, size))
    found = block.image(moves), np.ones((steps, tangent, across))
    block.pull(columns, found[1])
    monkeypatch.setattr("spookid.solvers.rows.routines", lambda: None)
    expected = block.image(moves), np.ones((steps, tangent, across))
    block.pull(columns, expected[1])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_inverses_and_determinants(by, rng, size):
    matrices = rng.normal(size=(9, size, size))
    matrices[3] *= 1e80  # whose determinant is beyond any number
    found, logarithms = inverses(matrices)
    np.testing.assert_allclose(found @ matrices, np.tile(np.eye(size), (9, 1, 1)), atol=1e-11)
    np.testing.assert_allclose(logarithms, np.linalg.slogdet(matrices)[1], rtol=1e-12)
    assert np.isneginf(inverses(0 * matrices)[1]).all()


def test_zeros_that_are_known_change_no_product(by, rng):
    steps, tangent, parameters = 21, 3, 5
    block = rows(rng, steps - 1, (0, 1), tangent, parameters, 5)
    known = replace(block, places=np.flatnonzero(np.any(block.matrix, axis=0)))
    found, expected = (normal_equations([one], steps, tangent, parameters) for one in (known, block))
    for part in ("band", "border", "corner"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


def test_without_the_c_code_there_are_no_routines(by_numpy):
    assert native.routines() is None


@pytest.mark.parametrize("n", [1, 4, 13])
def test_the_bounded_step_is_that_of_bounded_least_squares(rng, n):
    for _ in range(50):
        root, target = rng.normal(size=(n + 2, n)), rng.normal(size=n + 2)
        lower = np.where(rng.uniform(size=n) < 0.3, 0.0, -rng.uniform(size=n))
        upper = np.where(rng.uniform(size=n) < 0.3, np.inf, rng.uniform(size=n))
        expected = lsq_linear(root, target, (lower, upper), method="bvls", tol=1e-14).x
        found = bounded_step(root.T @ root, -root.T @ target, lower, upper)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert np.all((lower <= found) & (found <= upper))
