"""The inside of what ``test_refinement`` tests."""

import pytest
from test_refinement import rod

from spookid.stepping import exact


def test_what_is_not_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST", 2)
    with pytest.warns(RuntimeWarning, match="the error is still"):
        rod().simulate(duration=0.2, initial={"pin": 1.5})
