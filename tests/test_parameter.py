"""Parameters: usable where numbers are, found where they stand, and refused with the line that declared them."""

from __future__ import annotations

import copy
import inspect
import math

import casadi as ca
import numpy as np
import pytest
from mechanisms import pendulum

from spookid import GROUND, Body, Hinge, Model, Parameter, Problem, ProblemError, gravity


@pytest.fixture
def a() -> Parameter:
    return Parameter("a", 0.3)


def line() -> str:
    """This file's name and the line of the caller, as messages give them."""
    return f"test_parameter.py:{inspect.currentframe().f_back.f_lineno}"


# --- what it is ---


def test_a_parameter_holds_its_facts():
    J = Parameter("J", 0.01, lower=1e-6, upper=2, unit="kg m^2", note="arm")
    assert J.place == f"test_parameter.py:{inspect.currentframe().f_lineno - 1}"
    assert (J.name, J.guess, J.lower, J.upper, J.unit, J.note) == ("J", 0.01, 1e-6, 2.0, "kg m^2", "arm")
    assert isinstance(J, ca.SX)


def test_a_notebook_shows_what_it_is() -> None:
    J = Parameter("J", 0.01, lower=1e-6, unit="kg m^2", note="arm <about its axle>")
    assert repr(J) == "Parameter('J', 0.01, lower=1e-06, unit='kg m^2')"
    html = J._repr_html_()
    for text in ("<td", ">J<", ">0.01<", "≥ 1e-06<", ">kg m²<", ">arm &lt;about its axle&gt;<"):
        assert text in html


def test_bounds_are_infinite_by_default(a):
    assert (a.lower, a.upper) == (-math.inf, math.inf)


def test_a_guess_may_stand_on_its_bound():
    assert Parameter("b_1", 0.0, lower=0).guess == 0


def test_copies_are_the_same_unknown(a):
    assert copy.copy(a) is a
    assert copy.deepcopy({"x": [a]})["x"][0] is a


# --- where it stands ---


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


# --- errors name the line ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "J", "guess": 2, "upper": 1}, "Parameter 'J' has its initial value 2 outside [-inf, 1]"),
        ({"name": "J", "guess": -1e-3, "lower": 0}, "Parameter 'J' has its initial value -0.001 outside [0, inf]"),
        ({"name": "J", "guess": math.nan}, "Parameter 'J' has its initial value nan outside"),
        ({"name": "J", "guess": math.inf}, "Parameter 'J' has its initial value inf outside"),
        ({"name": "J", "guess": 1, "lower": 2, "upper": 0}, "'J' has lower bound 2 not below upper bound 0"),
        ({"name": "J", "guess": 1, "lower": 1, "upper": 1}, "'J' has lower bound 1 not below upper bound 1"),
        ({"name": "J", "guess": 1, "lower": math.nan}, "'J' has lower bound nan not below upper bound inf"),
        ({"name": "J", "guess": "much"}, "'J': initial value and bounds must be numbers, not 'much'"),
        ({"name": "J", "guess": 1, "upper": None}, "'J': initial value and bounds must be numbers, not None"),
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
