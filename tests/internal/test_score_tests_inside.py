"""The inside of what ``test_score_tests`` tests."""

from typing import Any

import numpy as np
import pytest
from test_score_tests import fitted, rod, told

from spookid.statistics import score_tests
from spookid.statistics.causes import Alternative
from spookid.statistics.condensing import Condensed, products
from spookid.statistics.score_tests import Determinants


def test_more_of_a_free_coefficient_does_to_the_likelihood_what_its_parameter_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, tuple[float, float]] = {}
    followed: list[np.ndarray] = []

    def spied(condensed: Condensed, alternatives: list[Alternative], determinants: Determinants) -> Any:
        for one in (one for one in alternatives if one.volume is not None):
            rows = condensed.rows(one.columns, determinants.images())
            following = -sum(products(part, image).item() for term, part, image in rows if not term.factor.hard)
            seen[one.words] = one.volume + following, following
        followed.append(determinants.following.sum(axis=0))
        return tested(condensed, alternatives, determinants)

    tested = score_tests._tested
    monkeypatch.setattr(score_tests, "_tested", spied)
    solution = fitted(0, disturbance=1e-3, step_correction=False)
    told(solution)  # causes are asked for with the notices
    slopes = solution.normaliser
    assert slopes is not None
    names = [parameter.name for parameter in rod().free]
    for name, what in {"b": "viscous friction", "c": "dry friction"}.items():
        volume, following = next(one for words, one in seen.items() if f"{{}} of {what} in pin" in words)
        assert volume == pytest.approx(slopes[names.index(name)], rel=1e-6)
        assert following == pytest.approx(followed[0][names.index(name)], rel=1e-4)
