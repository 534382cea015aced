"""The inside of what ``test_inverse_dynamics`` tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from spookid import Status, load_problem
from spookid.parameter import substitute

# --- a measured arm ---


@pytest.mark.study
@pytest.mark.measured
@pytest.mark.skipif("SPOOKID_DATA" not in os.environ, reason="SPOOKID_DATA is not set")
def test_a_measured_arm_of_six_joints_predicts_a_trajectory_that_it_has_not_seen() -> None:
    file = Path(__file__).parents[2] / "problems" / "ur10e.py"
    fitted, unseen = (load_problem(f"{file}::excitation_{name}") for name in ("12harm_40s", "14harm_50s"))
    solution = fitted.solve(max_iterations=300)
    assert solution.status is Status.CONVERGED
    found = unseen.inverse_dynamics(solution, cutoff=6.0)
    gains = np.array([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])
    errors = np.sqrt(np.mean(((found.measured - found.predicted) * gains) ** 2, axis=0))
    ratios = errors / [2.71, 3.75, 1.56, 0.356, 0.348, 0.330]  # of the regression in the README of the data
    assert np.mean(ratios) < 1.05
    assert np.max(ratios) < 1.15
    for body in fitted.model.bodies:
        assert body.distribution is not None
        assert np.linalg.eigvalsh(substitute(body.distribution.pseudo, solution.values))[0] > 0
