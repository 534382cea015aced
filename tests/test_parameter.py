"""Parameters: usable where numbers are, found where they stand, and refused with the line that declared them."""

from __future__ import annotations

import copy
import inspect
import math
import re
from fractions import Fraction

import casadi as ca
import numpy as np
import pytest
from mechanisms import hub, pendulum

from spookid import GROUND, Body, Hinge, Model, Parameter, Problem, ProblemError, gravity
from spookid.parameter import is_constant, parameters_in, substitute, symbolic

VALUES = {"a": 0.3, "b": 1.7}


@pytest.fixture
def a() -> Parameter:
    return Parameter("a", 0.3)


@pytest.fixture
def b() -> Parameter:
    return Parameter("b", 1.7)


def line() -> str:
    """This file's name and the line of the caller, as messages give them."""
    return f"test_parameter.py:{inspect.currentframe().f_back.f_lineno}"


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


def test_a_parameter_holds_its_facts():
    J = Parameter("J", 0.01, lower=1e-6, upper=2, unit="kg m^2", note="arm")
    assert J.place == f"test_parameter.py:{inspect.currentframe().f_lineno - 1}"
    assert (J.name, J.guess, J.lower, J.upper, J.unit, J.note) == ("J", 0.01, 1e-6, 2.0, "kg m^2", "arm")
    assert isinstance(J, ca.SX)


def test_bounds_are_infinite_by_default(a):
    assert (a.lower, a.upper) == (-math.inf, math.inf)


def test_a_guess_may_stand_on_its_bound():
    assert Parameter("b_1", 0.0, lower=0).guess == 0


def test_copies_are_the_same_unknown(a):
    assert copy.copy(a) is a
    assert copy.deepcopy({"x": [a]})["x"][0] is a


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


def test_problems_find_parameters_wherever_they_stand():
    names = ["mass", "J", "at", "g", "eps", "tau", "b", "mu", "delta", "zeta", "d", "k", "rest", "x"]
    p = {name: Parameter(name, 0.5) for name in names}
    body = Body("body", mass=p["mass"], inertia=np.diag([p["J"], 2 * p["J"], 1]))
    hinge = Hinge(
        "hinge",
        GROUND.frame(x=(1, p["x"], 0), y=(0, 0, 1)),
        body.frame(at=(p["at"], 0, 0)),
        compliance=(1e-4, p["eps"]),
        damping=p["tau"],
        viscous=p["b"],
        dry=p["mu"],
        stribeck=(p["delta"], p["zeta"]),
        drag=p["d"],
        stiffness=p["k"],
        rest_angle=p["rest"],
    )
    problem = Problem("all", model=Model(bodies=[body], joints=[hinge], gravity=gravity(p["g"])))
    assert [q.name for q in problem.parameters] == names


def test_motors_hold_parameters():
    K, J = Parameter("K", 1.0), Parameter("J_shaft", 1e-4)
    assert parameters_in(hub(motor={"gain": K, "shaft_inertia": 2 * J}).expressions(), "it") == (K, J)


# --- errors name the line ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "J", "guess": 2, "upper": 1}, "Parameter 'J' has its guess 2 outside its bounds [-inf, 1]"),
        ({"name": "J", "guess": -1e-3, "lower": 0}, "Parameter 'J' has its guess -0.001 outside its bounds [0, inf]"),
        ({"name": "J", "guess": math.nan}, "Parameter 'J' has its guess nan outside its bounds"),
        ({"name": "J", "guess": math.inf}, "Parameter 'J' has its guess inf outside its bounds"),
        ({"name": "J", "guess": 1, "lower": 2, "upper": 0}, "'J' has lower bound 2 not below upper bound 0"),
        ({"name": "J", "guess": 1, "lower": 1, "upper": 1}, "'J' has lower bound 1 not below upper bound 1"),
        ({"name": "J", "guess": 1, "lower": math.nan}, "'J' has lower bound nan not below upper bound inf"),
        ({"name": "J", "guess": "much"}, "'J': guess and bounds must be numbers, not 'much'"),
        ({"name": "J", "guess": 1, "upper": None}, "'J': guess and bounds must be numbers, not None"),
        ({"name": "J 1", "guess": 1}, "Parameter name 'J 1' is not an identifier"),
        ({"name": "", "guess": 1}, "Parameter name '' is not an identifier"),
        ({"name": 3, "guess": 1}, "Parameter name 3 is not an identifier"),
    ],
)
def test_errors_name_the_parameter_and_the_line(arguments, message):
    with pytest.raises(ProblemError) as caught:
        Parameter(**arguments)
    assert str(caught.value).startswith(f"test_parameter.py:{inspect.currentframe().f_lineno - 1}: ")
    assert message in str(caught.value)


def test_two_of_one_name_in_a_problem_are_refused_with_both_lines():
    J, first = Parameter("J", 0.01), line()
    other, second = Parameter("J", 0.02), line()
    model = pendulum(inertia=J, viscous=other)
    with pytest.raises(ProblemError, match="two Parameters named 'J'") as caught:
        Problem("p", model=model)
    assert first in str(caught.value)
    assert second in str(caught.value)
    assert "Problem 'p'" in str(caught.value)


def test_a_raw_symbol_is_refused():
    model = pendulum(inertia=ca.SX.sym("J_raw"))
    with pytest.raises(ProblemError, match=r"test_parameter\.py:\d+: Problem 'p' holds the symbol 'J_raw'"):
        Problem("p", model=model)
