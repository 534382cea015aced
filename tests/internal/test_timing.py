"""Where the time of a solve goes: all of it is told, and what is not needed for the estimates is not computed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from spookid import Problem, load_problem
from spookid.estimation import fit as fits
from spookid.estimation import solving  # noqa: F401  # what a first solve loads is no part of its time

FURUTA = "problems/furuta_release.py"


@pytest.fixture(scope="module")
def furuta() -> Problem:
    return load_problem(FURUTA)


def test_all_of_the_wall_time_is_told(furuta: Problem) -> None:
    began = time.perf_counter()
    solution = furuta.solve(state_weight=100.0)
    waited = time.perf_counter() - began
    told = solution.timing
    assert told.total == pytest.approx(waited, rel=0.05, abs=0.01)
    assert told.build + told.compile + told.solve + told.analysis >= 0.8 * told.total
    began = time.perf_counter()
    solution.summary()
    waited += time.perf_counter() - began
    assert told.total < solution.timing.total <= 1.01 * waited
    assert solution.timing.total == pytest.approx(waited, rel=0.1)  # the rest is the summary's own text


def test_estimates_cost_no_analysis(furuta: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("identified", "trajectories", "mechanism", "complementarity"):
        original = getattr(fits, name)

        def counted(*arguments: Any, of: Any = original, called: str = name) -> Any:
            asked.append(called)
            return of(*arguments)

        monkeypatch.setattr(fits, name, counted)
    solution = furuta.solve(state_weight=100.0)
    assert solution["J_Azz"].estimate == solution.values["J_Azz"]
    assert asked == []
    assert np.isfinite(solution["J_Azz"].std_err)
    assert asked == ["identified"]
    for _ in range(2):
        solution.summary(verbose=True)
    assert sorted(asked) == ["complementarity", "identified", "trajectories"]  # each once
