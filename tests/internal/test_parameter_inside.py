"""The inside of what ``test_parameter`` tests."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import casadi as ca
import numpy as np
import pytest
from mechanisms import hub
from test_parameter import a as a

from spookid import Parameter, ProblemError
from spookid.parameter import is_constant, parameters_in, substitute, symbolic

VALUES = {"a": 0.3, "b": 1.7}


@pytest.fixture
def b() -> Parameter:
    return Parameter("b", 1.7)


# --- arithmetic ---


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, m: 2 * a + b / 3 - a**2,
        lambda a, b, m: -a * (b - 1) ** 0.5 + abs(-a),
        lambda a, b, m: 1 / a + (+a) ** -b,
        lambda a, b, m: m.sin(2 * a) + m.cos(b),
        lambda a, b, m: m.sqrt(a) * m.exp(-b),
        lambda a, b, m: m.arctan2(a, b) + m.hypot(a, b) + m.tanh(a) + m.log(b),
        lambda a, b, m: m.maximum(a, b) - m.minimum(a, 0.1),
        lambda a, b, m: np.float64(3) * a + a * np.float64(2) - np.int64(4) / b,
    ],
)
def test_numpy_functions_and_arithmetic_give_expressions(a, b, function):
    value = substitute(symbolic(function(a, b, np), "it"), VALUES)
    np.testing.assert_allclose(value, [function(0.3, 1.7, np)], rtol=1e-15)


def test_casadi_functions_and_derivatives(a):
    expression = ca.sin(2 * a) * a
    np.testing.assert_allclose(substitute(ca.jacobian(expression, a), VALUES), [math.sin(0.6) + 0.6 * math.cos(0.6)])


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        (lambda a, b: np.diag([a, b, a]), (3, 3), np.diag([0.3, 1.7, 0.3])),
        (lambda a, b: [[a, 0, b], [0, 1, 0], [b, 0, 2]], (3, 3), [[0.3, 0, 1.7], [0, 1, 0], [1.7, 0, 2]]),
        (lambda a, b: np.eye(3) * a, (3, 3), 0.3 * np.eye(3)),
        (lambda a, b: b * np.array([1.0, 2.0, 3.0]), (3,), [1.7, 3.4, 5.1]),
        (lambda a, b: (a, 2 * b, 5), (3,), [0.3, 3.4, 5]),
        (lambda a, b: ca.vertcat(a, b), (2,), [0.3, 1.7]),
        (lambda a, b: np.array([a, 2]), (2,), [0.3, 2]),
        (lambda a, b: np.arange(6.0).reshape(2, 3), (2, 3), np.arange(6.0).reshape(2, 3)),
        (lambda a, b: ca.DM([1, 2]), (2,), [1, 2]),
        (lambda a, b: np.float32(0.5), (), [0.5]),
        (lambda a, b: Fraction(1, 4), (), [0.25]),
        (lambda a, b: np.ma.array([1.0, 2.0]), (2,), [1.0, 2.0]),
    ],
)
def test_symbolic_takes_nested_things(a, b, value, shape, expected):
    expression = symbolic(value(a, b), "it", shape)
    np.testing.assert_allclose(substitute(expression, VALUES), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        ("text", (), "the mass must be a number or an expression of Parameters, not 'text'"),
        (None, (), "the mass must be a number or an expression of Parameters, not None"),
        (object(), (3,), "the mass must be a number or an expression"),
        (b"1", (), "the mass must be a number or an expression of Parameters, not b'1'"),
        ([1, b"1"], (2,), "the mass must be a number or an expression"),
        ({1: 2}, (), "the mass must be a number or an expression"),
        ({1, 2}, (2,), "the mass must be a number or an expression"),
        (np.ma.masked, (), "the mass must be a number or an expression"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), (2,), "the mass must be a number or an expression"),
        (np.array(["2026-11-26"], dtype="M8[D]"), (), "the mass must be a number or an expression"),
        (np.array(1j), (), "the mass must be a number or an expression"),
        ([1, 2], (3,), "the mass must have shape 3, not 2 x 1"),
        ([1, 2], (), "the mass must have one number, not 2 x 1"),
        ([[1, 2], [3]], (2, 2), "the mass must be a number or an expression"),
        (math.nan, (), "the mass holds a value that is not finite"),
        ([1, math.inf], (2,), "the mass holds a value that is not finite"),
    ],
)
def test_symbolic_refuses_what_is_no_number(value, shape, message):
    with pytest.raises(ProblemError, match=re.escape(message)):
        symbolic(value, "the mass", shape)


def test_constants_are_told_from_expressions(a):
    assert is_constant(symbolic(2, "it"))
    assert is_constant(a - a)
    assert not is_constant(a + 1)


# --- what it is ---


def test_two_parameters_of_one_name_are_two_unknowns():
    first, second = Parameter("twin", 1), Parameter("twin", 2)
    assert hash(first) != hash(second)
    assert not is_constant(first - second)
    assert parameters_in([first * first], "it") == (first,)


# --- where it stands ---


def test_parameters_are_found_in_the_order_of_their_declaration():
    z, y, _, x = (Parameter(name, 1.0) for name in ("z", "y", "unused", "x"))
    found = parameters_in([x * 2, ca.sin(z) + x, ca.vertcat(y, x)], "it")
    assert [p.name for p in found] == ["z", "y", "x"]
    assert found[0] is z


def test_motors_hold_parameters():
    K, J = Parameter("K", 1.0), Parameter("J_shaft", 1e-4)
    assert parameters_in(hub(motor={"gain": K, "shaft_inertia": 2 * J}).expressions(), "it") == (K, J)
