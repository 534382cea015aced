"""The inside of what ``test_influence`` tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from test_influence import problem as problem
from test_influence import solution as solution

from spookid.report import diagnostic_plots
from spookid.tables.table import number


def test_the_figure(solution):
    figure = diagnostic_plots.influence_figure(solution)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["J", "b"]
    changes = solution.influence.stretches[0] / solution.sensitivities.standard_errors
    bars = [path.get_extents() for path in axes.collections[0].get_paths()]
    heights = np.array([bar.height for bar in bars]).reshape(changes.shape)
    np.testing.assert_allclose(heights / heights.max(), np.abs(changes) / np.abs(changes).max(), atol=1e-12)
    places = np.array([(bar.y0 + bar.y1) / 2 for bar in bars]).reshape(changes.shape)
    np.testing.assert_allclose(places, [0, -1] + np.sign(changes) * heights / 2, atol=1e-12)
    assert [text.get_text() for text in axes.texts] == [number(c, 2) for c in np.abs(changes).max(axis=0)]
    nothing = replace(solution.sensitivities, covariance=np.full((2, 2), np.nan))
    assert (
        "No parameter"
        in diagnostic_plots.influence_figure(replace(solution, sensitivities=nothing)).axes[0].texts[0].get_text()
    )
