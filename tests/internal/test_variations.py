"""Variations of a model that are its own parameters change the likelihood as these do."""

from __future__ import annotations

from types import MappingProxyType

import cranes
import numpy as np
import pytest

from spookid import LevenbergMarquardt
from spookid.estimation.fitting import fit
from spookid.statistics.score_tests import _corrected

OWN = MappingProxyType(
    {
        "viscous friction in rail": "b",
        "dry friction in rail": "c",
        "mass of body trolley": "M",
        "viscous friction in hook": "d",
    }
)


@pytest.mark.parametrize("width", [2e-3, pytest.param(2e-2, marks=pytest.mark.study)])
def test_a_variation_that_is_a_parameter_has_no_slope_left(width: float) -> None:
    """There all slopes of the likelihood are zero; sharp friction has other slopes of determinants a little beside."""
    problem = cranes.crane(cranes.record(0, 4.0, width, np.inf))
    found = fit(problem.with_(estimator="noise", friction_width=width), LevenbergMarquardt(), None)
    assert found.score_tests is not None
    answers = found.score_tests.alternatives
    for name in OWN:
        (i,) = (i for i, (words, _) in enumerate(answers.words) if name in words)
        assert answers.gram[i, i] < 1e-6 * answers.least[i]
        assert answers.pulls[i] == pytest.approx(0.0, abs=1e-6 * np.max(np.abs(found.score_tests.volumes)))


def test_determinants_correct_what_residuals_say_and_are_no_evidence() -> None:
    pulls, slopes = np.array([5.0, 5.0, 5.0, 0.1, -0.1]), np.array([1.0, -1.0, 300.0, 300.0, 300.0])
    np.testing.assert_allclose(_corrected(pulls, slopes), [4.0, 5.0, 0.0, 0.0, -0.1])
