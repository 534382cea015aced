"""Every way to solve a problem ends at the same answer; all problems: ``python tests/benchmarks/ways.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.ways import CLOSE, NEAR, WAYS, Row, rows

from spookid import load_problem

PROBLEMS = Path(__file__).parents[1] / "problems"


def found(name: str, stepper: str) -> list[Row]:
    problem = load_problem(PROBLEMS / f"{name}.py")
    problem = problem.with_(every=1)  # fewer rows, and as many ways
    return rows(name, problem, stepper, list(WAYS), limit=120.0, most=150)


@pytest.mark.study
@pytest.mark.parametrize(
    ("name", "stepper", "ways"), [("furuta_release", "variational", 4), ("fourbar", "variational", 2)]
)
def test_every_way_ends_at_the_same_answer(name, stepper, ways):
    all_rows = found(name, stepper)
    assert len(all_rows) == ways
    assert [row.why for row in all_rows if not row.converged] == []
    for row in all_rows:
        cost, errors = row.distance(all_rows)
        assert cost <= CLOSE, row.cells(all_rows)
        assert errors <= NEAR, row.cells(all_rows)
    costs = {row.way: row.solution.cost.total for row in all_rows if row.solution}
    smooth = costs[WAYS[0]]
    assert all(cost <= 1.01 * smooth for cost in costs.values())
