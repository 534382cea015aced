"""Quaternions: against SciPy, against differences, and at the angles where formulas divide by zero."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanisms import slope, unit_quaternions
from scipy.spatial.transform import Rotation

from spookid import Manifold
from spookid.mechanics import rotations
from spookid.mechanics.manifold import jacobian

_psi, _e, _f = ca.SX.sym("psi", 3), ca.SX.sym("e", 4), ca.SX.sym("f", 4)
_exponential = ca.Function("exponential", [_psi], [rotations.exponential(_psi)])
_derivative = ca.Function("derivative", [_psi], [ca.jacobian(rotations.exponential(_psi), _psi)])
_functions = {
    "multiply": ca.Function("multiply", [_e, _f], [rotations.multiply(_e, _f)]),
    "conjugate": ca.Function("conjugate", [_e], [rotations.conjugate(_e)]),
    "matrix": ca.Function("matrix", [_e], [rotations.matrix(_e)]),
    "plus": ca.Function("plus", [_e, _psi], [rotations.plus(_e, _psi)]),
    "minus": ca.Function("minus", [_e, _f], [rotations.minus(_e, _f)]),
    "logarithm": ca.Function("logarithm", [_e], [rotations.logarithm(_e)]),
    "difference": ca.Function("difference", [_e, _f], [rotations.difference(_e, _f)]),
    "tangent": ca.Function("tangent", [_e], [rotations.tangent(_e)]),
}

ANGLES = [0.0, 1e-300, 1e-12, 1e-9, 1e-6, 0.99e-4, 1.01e-4, 1e-3, 0.1, 1.0, 3.0, 3.14159, 6.0, 20.0]
"""Of both branches of the exponential and of both sides of the seam between them, at |ψ| = 1e-4."""

components = st.floats(-3, 3)
vectors = st.tuples(components, components, components).map(np.array)
quaternions = (
    st.tuples(*[st.floats(-1, 1)] * 4)
    .map(np.array)
    .filter(lambda e: np.linalg.norm(e) > 0.01)
    .map(lambda e: e / np.linalg.norm(e))
)


def call(name: str, *arguments: object) -> np.ndarray:
    result = _functions[name](*arguments).full()
    return result[:, 0] if result.shape[1] == 1 else result


def exponential(psi: np.ndarray) -> np.ndarray:
    return _exponential(psi).full()[:, 0]


def scipy_quaternion(rotation: Rotation) -> np.ndarray:
    return rotation.as_quat(scalar_first=True)


def directions(count: int = 5) -> np.ndarray:
    d = np.random.default_rng(1).normal(size=(count, 3))
    return np.vstack([d / np.linalg.norm(d, axis=1, keepdims=True), np.eye(3)])


# --- exponential ---


@pytest.mark.parametrize("angle", ANGLES)
def test_exponential_is_the_rotation_about_the_vector(angle):
    for direction in directions():
        e = exponential(angle * direction)
        expected = np.concatenate([[np.cos(angle / 2)], direction * np.sin(angle / 2)])
        np.testing.assert_allclose(e, expected, rtol=0, atol=1e-15 * (1 + angle))
        matrix = Rotation.from_rotvec(angle * direction).as_matrix()
        np.testing.assert_allclose(call("matrix", e), matrix, rtol=0, atol=2e-15 * (1 + angle))


@pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-6, 0.99e-4])
def test_small_rotations_keep_their_relative_precision(angle):
    np.testing.assert_allclose(exponential(np.array([angle, 0, 0]))[1], np.sin(angle / 2), rtol=4e-16)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 0.99e-4, 1.01e-4, 1e-3, 0.3, 2.0, 3.14159, 7.0])
def test_derivative_of_the_exponential(angle):
    for direction in directions(3):
        psi = angle * direction
        derivative = _derivative(psi).full()
        assert np.all(np.isfinite(derivative))
        expected = slope(lambda delta, psi=psi: exponential(psi + delta), 3, step=1e-3)
        np.testing.assert_allclose(derivative, expected, rtol=0, atol=1e-11)


def test_derivative_of_the_exponential_at_zero_is_half_the_identity():
    expected = np.vstack([np.zeros(3), 0.5 * np.eye(3)])
    np.testing.assert_array_equal(_derivative(np.zeros(3)).full(), expected)


def test_second_derivatives_are_finite_at_zero():
    hessian = ca.Function("hessian", [_psi], [ca.hessian(ca.sum1(rotations.exponential(_psi)), _psi)[0]])
    np.testing.assert_allclose(hessian(np.zeros(3)).full(), -0.25 * np.eye(3), rtol=0, atol=1e-15)


# --- logarithm ---


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-12, 1e-6, 1.9e-4, 2.1e-4, 0.1, 1.0, 3.0, 3.1415])
@pytest.mark.parametrize("sign", [1, -1])
def test_logarithm_undoes_the_exponential(angle, sign):
    for direction in directions():
        psi = call("logarithm", sign * exponential(angle * direction))
        np.testing.assert_allclose(psi, angle * direction, rtol=4e-15, atol=2e-15 * angle)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-6, 1.9e-4, 2.1e-4, 0.5, 3.0])
def test_derivative_of_the_logarithm_along_plus(angle):
    f = unit_quaternions(np.random.default_rng(9), 1)[0]
    e = call("plus", f, angle * np.array([0.6, 0, 0.8]))
    symbolic = ca.Function("d", [_e, _f, _psi], [ca.jacobian(rotations.difference(rotations.plus(_e, _psi), _f), _psi)])
    exact = symbolic(e, f, np.zeros(3)).full()
    assert np.all(np.isfinite(exact))
    # A step of differences crosses the seam of the series; near half a turn they are good to fewer digits.
    expected = slope(lambda delta: call("difference", call("plus", e, delta), f), 3, step=1e-3)
    np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-8 if angle == 3 else 1e-10)


# --- products, ⊞ and ⊟ ---


def test_product_and_conjugate_are_those_of_rotations():
    a, b = unit_quaternions(np.random.default_rng(2), 2)
    product = call("matrix", call("multiply", a, b))
    np.testing.assert_allclose(product, call("matrix", a) @ call("matrix", b), rtol=0, atol=1e-15)
    np.testing.assert_allclose(call("multiply", a, call("conjugate", a)), [1, 0, 0, 0], rtol=0, atol=1e-15)


def test_matrix_takes_body_vectors_to_the_world():
    quarter_turn_about_z = np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    np.testing.assert_allclose(call("matrix", quarter_turn_about_z) @ [1, 0, 0], [0, 1, 0], rtol=0, atol=1e-15)


def test_plus_turns_about_the_bodys_own_axes():
    rng = np.random.default_rng(3)
    for e in unit_quaternions(rng, 10):
        psi = rng.normal(size=3)
        expected = Rotation.from_quat(e, scalar_first=True) * Rotation.from_rotvec(psi)
        np.testing.assert_allclose(call("matrix", call("plus", e, psi)), expected.as_matrix(), rtol=0, atol=3e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.01, 0.1])
def test_minus_undoes_plus_to_third_order(angle):
    for e, direction in zip(unit_quaternions(np.random.default_rng(4), 5), directions(2), strict=True):
        difference = call("minus", call("plus", e, angle * direction), e)
        np.testing.assert_allclose(difference, np.sin(angle) * direction, rtol=0, atol=5e-16)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 0.5])
def test_derivatives_of_minus(angle):
    symbolic = ca.Function("derivatives", [_e, _f], [ca.jacobian(rotations.minus(_e, _f), ca.vertcat(_e, _f))])
    f = unit_quaternions(np.random.default_rng(5), 1)[0]
    e = call("plus", f, angle * np.array([0.6, 0, 0.8]))
    expected = slope(lambda d: call("minus", e + d[:4], f + d[4:]), 8, step=1e-3)
    np.testing.assert_allclose(symbolic(e, f).full(), expected, rtol=0, atol=1e-11)


def test_tangent_is_the_derivative_of_plus_at_zero():
    derivative = ca.Function("d", [_e, _psi], [ca.jacobian(rotations.plus(_e, _psi), _psi)])
    for e in unit_quaternions(np.random.default_rng(6), 5):
        np.testing.assert_allclose(call("tangent", e), derivative(e, np.zeros(3)).full(), rtol=0, atol=1e-16)


# --- manifolds ---


def test_manifold_counts_moves_and_differences_its_parts():
    space = Manifold((("flat", 2), ("rotation", 4), ("flat", 1), ("rotation", 4)))
    assert (space.ambient, space.tangent) == (11, 9)
    rng = np.random.default_rng(7)
    e, f = unit_quaternions(rng, 2)
    x = np.concatenate([[1.0, 2.0], e, [3.0], f])
    delta = 1e-3 * rng.normal(size=9)
    at, by, to = ca.SX.sym("x", 11), ca.SX.sym("d", 9), ca.SX.sym("y", 11)
    moved = ca.Function("r", [at, by], [space.retract(at, by)])(x, delta).full()[:, 0]
    parts = [x[:2] + delta[:2], call("plus", e, delta[2:5]), [x[6] + delta[5]], call("plus", f, delta[6:])]
    np.testing.assert_allclose(moved, np.concatenate(parts), rtol=0, atol=1e-15)
    back = ca.Function("m", [to, at], [space.minus(to, at)])(moved, x).full()[:, 0]
    np.testing.assert_allclose(back, delta, rtol=0, atol=1e-8)


def test_jacobian_on_a_manifold_is_the_derivative_along_retract():
    space = Manifold((("rotation", 4), ("flat", 3)))
    x = ca.SX.sym("x", 7)
    expression = rotations.matrix(x[:4]) @ x[4:]
    derivative = ca.Function("d", [x], [jacobian(expression, x, space)])
    value = ca.Function("v", [x], [expression])
    rng = np.random.default_rng(8)
    here = np.concatenate([unit_quaternions(rng, 1)[0], rng.normal(size=3)])

    def moved(delta: np.ndarray) -> np.ndarray:
        return value(np.concatenate([call("plus", here[:4], delta[:3]), here[4:] + delta[3:]])).full()[:, 0]

    np.testing.assert_allclose(derivative(here).full(), slope(moved, 6, step=1e-3), rtol=0, atol=1e-11)


# --- properties ---


@given(vectors)
def test_exponential_has_unit_norm(psi):
    assert abs(np.linalg.norm(exponential(psi)) - 1) < 1e-15


@given(quaternions, vectors)
def test_plus_stays_on_the_sphere_and_its_matrix_is_a_rotation(e, psi):
    moved = call("plus", e, psi)
    assert abs(np.linalg.norm(moved) - 1) < 2e-15
    matrix = call("matrix", moved)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), rtol=0, atol=5e-15)
    assert np.linalg.det(matrix) > 0


@given(quaternions, quaternions)
def test_minus_is_blind_to_the_sign_of_a_quaternion(e, f):
    expected = call("minus", e, f)
    for one, other in ((-e, f), (e, -f), (-e, -f)):
        np.testing.assert_allclose(call("minus", one, other), expected, rtol=0, atol=1e-15)


@settings(max_examples=50)
@given(quaternions, vectors)
def test_scipy_agrees_on_plus(e, psi):
    expected = scipy_quaternion(Rotation.from_quat(e, scalar_first=True) * Rotation.from_rotvec(psi))
    moved = call("plus", e, psi)
    assert min(np.abs(moved - expected).max(), np.abs(moved + expected).max()) < 3e-15


# --- the chart of the IPOPT backend ---

_cayley = ca.Function("cayley", [_psi], [rotations.cayley(_psi), rotations.cayley_tangent(_psi)])


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 0.5, 3.0, 20.0])
def test_cayley(angle):
    for direction in directions():
        psi = angle * direction
        e, tangent = (value.full() for value in _cayley(psi))
        assert np.linalg.norm(e) == pytest.approx(1, abs=1e-15)
        turned = slope(lambda d, psi=psi: _cayley(psi + d)[0].full()[:, 0], 3)
        wanted = np.column_stack([2 * call("multiply", call("conjugate", e[:, 0]), column) for column in turned.T])
        np.testing.assert_allclose(wanted[0], 0, atol=1e-9)
        np.testing.assert_allclose(tangent, wanted[1:], atol=1e-9)
        if angle <= 1e-3:
            np.testing.assert_allclose(e[:, 0], exponential(psi), atol=angle**3 / 10 + 1e-15)


def test_the_chart_moves_as_the_retraction_to_second_order():
    space = Manifold((("flat", 2), ("rotation", 4)))
    x, d = ca.SX.sym("x", space.ambient), ca.SX.sym("d", space.tangent)
    gap = ca.Function("gap", [x, d], [space.difference(space.chart(x, d), space.retract(x, d))])
    rng = np.random.default_rng(0)
    at, step = np.concatenate([rng.normal(size=2), unit_quaternions(rng, 1)[0]]), rng.normal(size=5)
    sizes = [np.linalg.norm(gap(at, s * step)) for s in (1e-1, 1e-2)]
    assert sizes[0] / sizes[1] == pytest.approx(1000, rel=0.1)
