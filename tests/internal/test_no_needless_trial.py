"""A doubtful fit is not tried with other sensors where a question names a unit that explains the motion."""

from __future__ import annotations

import numpy as np
from cranes import crane, record

from spookid import Problem, Recording, Solution, Status
from spookid.estimation.questions import asking
from spookid.estimation.solving import solve


def test_a_unit_that_explains_the_motion_ends_the_search_for_causes() -> None:
    measured = record(0)
    for factor, fits in ((np.degrees(1), 0), (1.0, 1)):
        tried = list[Problem]()

        def again(problem: Problem, tried: list[Problem] = tried) -> Solution:
            tried.append(problem)
            return solve(problem, options={"max_iterations": 0})

        problem = crane(Recording(measured.t, {**measured.signals, "x": factor * measured.signals["x"]}))
        doubtful = solve(problem, options={"max_iterations": 0})
        assert doubtful.status is not Status.CONVERGED
        units = [one.evidence["unit"] for one in asking(problem, doubtful, again).findings if "unit" in one.evidence]
        assert len(tried) == fits
        assert bool(units) == (fits == 0)
