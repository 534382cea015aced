"""The inside of what ``test_influence`` tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from test_influence import problem as problem
from test_influence import solution as solution

from spookid.report import plots


def test_the_figure(solution):
    figure = plots.influence_figure(solution)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["J", "b"]
    changes = solution.influence.stretches[0] / solution.sensitivities.standard_errors
    np.testing.assert_allclose(np.asarray(axes.collections[0].get_array()).reshape(2, -1), changes.T, atol=1e-12)
    nothing = replace(solution.sensitivities, covariance=np.full((2, 2), np.nan))
    assert (
        "No parameter" in plots.influence_figure(replace(solution, sensitivities=nothing)).axes[0].texts[0].get_text()
    )
