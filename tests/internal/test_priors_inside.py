"""The inside of what ``test_priors`` tests."""

from __future__ import annotations

import numpy as np
import pytest
from test_priors import two_frictions

from spookid import Parameter
from spookid.statistics.sensitivities import UNOBSERVED, Seen, prior_share


def test_a_prior_settles_what_the_data_cannot():
    without, solution = two_frictions(None).solve(), two_frictions((1.5e-3, 2e-4)).solve()
    assert without["one"].reason == UNOBSERVED
    assert solution["one"].estimate == pytest.approx(1.5e-3, rel=1e-6)
    assert solution["one"].std_err == pytest.approx(2e-4, rel=1e-3)
    # What the data say of the sum is what they said before.
    assert solution["two"].std_err == pytest.approx(np.hypot(2e-4, solution_of_sum(solution)), rel=1e-3)
    assert solution["one"].estimate + solution["two"].estimate == pytest.approx(4e-3, rel=0.1)
    assert any((f.code, f.subject) == ("parameters.undetermined", ("one", "two")) for f in solution.findings)


def test_an_error_that_is_raised_does_not_make_a_number_known_from_the_data() -> None:
    """The data's information is a third of the prior's, and stretches of the recording scatter by 5 of its errors."""
    covariance = np.array([[1.0]])
    seen = Seen(covariance, 25 * covariance, np.zeros((0, 1)), np.ones(1), 0.75 * covariance, raised_from=1.5)
    assert seen.error(np.array([2.0])) == 10
    assert prior_share({"J": 2.0}, 10.0, ["J"], seen) == pytest.approx(0.75)
    assert np.isnan(prior_share({"J": 2.0}, np.nan, ["J"], seen))


def solution_of_sum(solution) -> float:
    """Standard error of the sum of the two frictions."""
    one, two = Parameter("one", 1.0), Parameter("two", 1.0)
    return solution(one + two).std_err
