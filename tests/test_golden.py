"""Answers of problems beside those of a commit before, and what counts as moved."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from golden.__main__ import main
from golden.comparison import moved

ROOT = Path(__file__).parents[1]
ANSWER = {
    "status": "converged",
    "fit": {"stepper": "variational", "step": 0.005, "residuals": 100},
    "cost": {"total": 90.0},
    "log_likelihood": 200.0,
    "parameters": {"J": [1.0, 0.1], "b": [0.0, None, "at bound"], "c": [2.0, None]},
}


def test_two_small_problems_have_the_answers_of_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["problems/pendulum.py", "problems/slider_crank.py"]) == 0
    said = capsys.readouterr().out
    assert said.count("same") + said.count("higher") == 2


@pytest.mark.study
def test_all_problems_have_the_answers_of_before() -> None:
    assert subprocess.run([sys.executable, "-m", "tests.golden"], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("change", "said", "passes"),
    [
        ({}, None, True),
        ({"parameters": {"J": [1.0019, 0.1019]}}, None, True),
        ({"parameters": {"J": [1.0021, 0.1]}}, "J 1 -> 1.0021, by 0.021 of its error", False),
        ({"parameters": {"J": [1.0, 0.097]}}, "J: standard error 0.1 -> 0.097", False),
        ({"parameters": {"J": [1.0, None]}}, "J: standard error 0.1 -> None", False),
        ({"parameters": {"b": [0.1, None]}}, "b 0.0 -> 0.1, no longer at its bound", False),
        ({"parameters": {"c": [3.0, None]}}, None, True),
        ({"parameters": {"d": [1.0, 0.1]}}, "other parameters: d", False),
        ({"log_likelihood": 199.998}, "log L worse by 0.002", False),
        ({"log_likelihood": 200.002}, "log L better by 0.002", True),
        ({"log_likelihood": 200.002, "parameters": {"J": [1.1, 0.1]}}, "by 1 of its error", True),
        ({"log_likelihood": 200.002, "status": "stalled"}, "status converged -> stalled", False),
        ({"log_likelihood": 300.0, "fit": {"residuals": 101}}, "another fit: residuals 100 -> 101", False),
        ({"log_likelihood": None, "cost": {"total": 1.0}}, "another fit: log L 200.0 -> None", False),
    ],
)
def test_what_moved_is_printed_and_passes_at_a_higher_likelihood_alone(
    change: dict[str, Any], said: str | None, passes: bool
) -> None:
    now: dict[str, Any] = deepcopy(ANSWER)
    for name, value in change.items():
        now[name] = {**now[name], **value} if isinstance(value, dict) else value
    found, passed = moved(ANSWER, now)
    assert passed == passes
    assert said in "\n".join(found) if said else not found


def test_costs_are_compared_where_the_weight_is_given() -> None:
    before: dict[str, Any] = {**deepcopy(ANSWER), "log_likelihood": None}
    lower, higher = ({**before, "cost": {"total": total}} for total in (89.9, 90.1))
    assert moved(before, lower) == (["cost / 2 better by 0.05"], True)
    assert moved(before, higher) == (["cost / 2 worse by 0.05"], False)
