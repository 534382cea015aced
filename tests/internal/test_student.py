"""Covariances widened for what is unknown of the noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spookid.statistics.variances import Variances, widened

ONE, NONE = np.ones((1, 1)), np.zeros((1, 1))


def of_freedom(variance: float, freedom: float, common: float) -> Variances:
    """One variance estimated with that many degrees of freedom."""
    return Variances(np.array([variance]), np.array([[2 * variance**2 / freedom]]), common)


@pytest.mark.parametrize("freedom", [60, 1000])
def test_one_variance_gives_the_interval_of_student(freedom):
    result = widened(NONE, ONE[None], of_freedom(4.0, freedom, 4.0))
    assert 1.96 * np.sqrt(result[0, 0]) == pytest.approx(2 * stats.t(freedom).ppf(0.975), rel=1e-4)


def test_variances_that_are_known_change_nothing():
    rng = np.random.default_rng(0)
    parts = np.array([a @ a.T for a in rng.normal(size=(2, 3, 3))])
    variances = np.array([2.0, 0.5])
    result = widened(np.eye(3), parts, Variances(variances, np.diag(variances**2 * 1e-12), 1.0))
    np.testing.assert_allclose(result, np.eye(3) + 2 * parts[0] + 0.5 * parts[1], rtol=1e-9)


def test_a_part_that_is_certain_makes_the_rest_matter_less():
    # Of a variance of 1 + 1 only one half is known with 10 degrees of freedom, and so the whole with 40.
    found = Variances(np.array([1.0, 1.0]), np.diag([2 / 10, 0.0]), 1.0)
    result = widened(NONE, np.ones((2, 1, 1)), found)
    assert np.sqrt(result[0, 0] / 2) == pytest.approx(stats.t(40).ppf(0.975) / 1.96, rel=0.02)


def test_expressions_have_the_errors_of_reparametrized_fits():
    rng = np.random.default_rng(1)
    parts = np.array([a @ a.T for a in rng.normal(size=(3, 4, 4))])
    doubt = np.diag([0.5, 0.1, 0.01]) + 0.01
    found = Variances(np.array([1.0, 2.0, 0.2]), doubt, 1.0)
    change = rng.normal(size=(4, 4))
    changed = widened(change @ change.T, change @ parts @ change.T, found)
    np.testing.assert_allclose(changed, change @ widened(np.eye(4), parts, found) @ change.T, rtol=1e-9)


@pytest.mark.parametrize("estimate", [0.0, 1e-6])
def test_noise_that_was_not_found_may_be_what_the_weights_let_expect_or_the_data_let_pass(estimate):
    def error(deviation: float) -> float:
        found = Variances(np.array([estimate, 1.0]), np.diag([deviation**2, 0.0]), 1.0)
        return float(widened(NONE, np.array([[[1.0]], [[0.01]]]), found)[0, 0])

    assert error(1e-4) == pytest.approx(0.01, rel=0.05)  # the data would have shown it
    # Half a normal distribution: mean 0.798 and deviation 0.603 of the whole one's.
    freedom = 2 * ((0.798 * 0.5 + 0.01) / (0.603 * 0.5)) ** 2
    assert error(0.5) == pytest.approx((0.798 * 0.5 + 0.01) * (stats.t(freedom).ppf(0.975) / 1.96) ** 2, rel=0.01)
    # As much as the weights say, and known to no better than itself.
    assert error(1e3) == pytest.approx(1.01 * (stats.t(2 * 1.01**2).ppf(0.975) / 1.96) ** 2, rel=0.01)
    assert error(1e9) == pytest.approx(error(1e3), rel=1e-6)


@pytest.mark.parametrize("freedom", [4, *(pytest.param(n, marks=pytest.mark.study) for n in (10, 40))])
def test_intervals_cover_if_the_variance_is_estimated(freedom):
    rng = np.random.default_rng(2)
    draws = zip(rng.normal(size=2000), rng.chisquare(freedom, 2000) / freedom, strict=True)
    covered = [abs(x) < 1.96 * np.sqrt(widened(NONE, ONE[None], of_freedom(v, freedom, 1.0))[0, 0]) for x, v in draws]
    assert 0.935 < np.mean(covered) < 0.965
