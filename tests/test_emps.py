"""The positioning system EMPS as its problem file declares it, beside what was published for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spookid import Problem, Solution, Status, load_problem

FILE = Path(__file__).parents[1] / "problems" / "emps.py"

pytestmark = [
    pytest.mark.measured,
    pytest.mark.skipif(not os.environ.get("SPOOKID_DATA"), reason="needs the measured data: set SPOOKID_DATA"),
]


def solved(law: str, **settings: float | dict[str, float]) -> Solution:
    problem = load_problem(f"{FILE}::{law}")
    assert isinstance(problem, Problem)
    assert problem.state_weight is None
    solution = problem.solve(**settings)
    assert solution.status is Status.CONVERGED
    assert solution.choice is not None
    assert "closed loop" in solution.choice.reason  # nothing declares it
    return solution


@pytest.mark.parametrize("start", [pytest.param(10.0, marks=pytest.mark.study), 1000.0])
def test_mass_and_friction_are_those_published(start: float) -> None:
    solution = solved("symmetric", initial={"M": start})
    assert solution["M"].estimate == pytest.approx(95.11, rel=0.003)
    assert solution["F_v"].estimate == pytest.approx(203.5, rel=0.015)  # 1.2 % off at the estimated width
    assert solution["F_c"].estimate == pytest.approx(20.39, rel=0.01)
    assert solution["offset"].estimate == pytest.approx(-3.165, abs=0.05)


@pytest.mark.study
def test_friction_by_direction_is_that_published_and_fits_better() -> None:
    """Its viscous part is a third smaller forwards; one parameter more says so by thousands of −2 log L."""
    solution, symmetric = solved("by_direction"), solved("symmetric")
    published = {"M": (95.15, 0.003), "F_v_forward": (166.7, 0.02), "F_v_backward": (240.4, 0.02)}
    published |= {"F_c_forward": (20.14, 0.01), "F_c_backward": (20.63, 0.01)}
    for name, (value, rel) in published.items():
        assert solution[name].estimate == pytest.approx(value, rel=rel), name
    assert solution.log_likelihood > symmetric.log_likelihood + 1000
    assert solution["F_v_forward"].std_err < 0.5 * symmetric["F_v"].std_err
