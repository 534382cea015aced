"""The inside of what ``test_score_tests`` tests."""

from typing import Any

import pytest
from test_score_tests import fitted, rod, told

from spookid.estimation import misspecification
from spookid.statistics.causes import Alternative


def test_more_of_a_free_coefficient_does_to_the_likelihood_what_its_parameter_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, float] = {}

    def spied(*given: Any) -> tuple[Alternative, ...]:
        found = alternatives(*given)
        seen.update({a.words: a.volume for a in found if a.volume is not None})
        return found

    alternatives = misspecification.alternatives
    monkeypatch.setattr(misspecification, "alternatives", spied)
    solution = fitted(0, disturbance=1e-3, step_correction=False)
    told(solution)  # causes are asked for with the notices
    slopes = solution.normaliser
    assert slopes is not None
    names = [parameter.name for parameter in rod().free]
    for name, what in {"b": "viscous friction", "c": "dry friction"}.items():
        volume = next(value for words, value in seen.items() if f"{{}} of {what} in pin" in words)
        assert volume == pytest.approx(slopes[names.index(name)], rel=1e-6)
