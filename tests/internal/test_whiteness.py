"""Changes of estimates if noises were weighted as correlated ones, against dense generalized least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space
from test_disturbance import QUIET, four_bar
from test_loops import BASE, LENGTHS, closed

from spookid import HingeAngle, LevenbergMarquardt, Parameter, Problem, Recording
from spookid.estimation.fitting import fit
from spookid.statistics.causes import rounding_error
from spookid.statistics.condensing import Condensed
from spookid.statistics.reweighting import change_if_weighted
from spookid.statistics.whiteness import SerialCorrelation, not_white

NAMES = ("drive", "knee", "wrist", "pivot")


@pytest.fixture(scope="module", params=["maximal", "joint"])
def condensed(request: pytest.FixtureRequest) -> Condensed:
    """A driven linkage over a few steps. In maximal coordinates each step has forces that are eliminated in advance."""
    inertia = Parameter("I_crank", 2e-4, lower=0)
    model = four_bar((0, 1, 2, 3), inertia, coordinates=request.param)
    seen = [HingeAngle(model.joints[0], "crank", sigma=1e-3), HingeAngle(model.joints[3], "rocker", sigma=1e-3)]
    problem = Problem("linkage", model, observations=seen, **QUIET)
    t = 0.01 * np.arange(42)
    inputs, noise = Recording(t, {"u": 0.08 * np.sin(5 * t)}), dict.fromkeys((*NAMES, "crank", "rocker"), 1e-3)
    made = problem.simulate({"I_crank": 2e-4}, t[-1], closed(LENGTHS, BASE, 1.0), inputs=inputs, noise=noise)
    found = fit(problem.with_(recordings=[made], estimator="noise"), LevenbergMarquardt(), None).condensed
    assert found is not None
    return found


def dense(condensed: Condensed) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Jacobian of the states, of each factor's own unknowns and of the parameters, residuals, and noises of the
    rows."""
    terms = condensed.linearized.chains[0]
    states = terms[0].steps * terms[0].tangent
    each, blocks, own, residuals, noises = np.eye(states).reshape(terms[0].steps, -1, states), [], [], [], []
    for term in terms:
        rows = term.at(slice(None))
        assert not term.factor.hard
        for k, (image, matrix) in enumerate(zip(rows.image(each), rows.matrix, strict=True)):
            C = np.eye(image.shape[1]) if term.complement is None else term.complement[k % len(term.complement)]
            blocks.append(C @ np.hstack([image.T, matrix[term.unknowns : -1].T]))
            own.append(null_space(C.T))
            residuals.append(C @ matrix[-1])
            noises += term.factor.noise or [""] * len(C)
    J = np.vstack(blocks)
    return np.hstack([J[:, :states], block_diag(*own), J[:, states:]]), np.concatenate(residuals), noises


@pytest.mark.parametrize("rho", [0.01, -0.5, 0.95])
@pytest.mark.parametrize(
    "found", [[("measurement of crank", 1)], [("drive", 4)], [("measurement of rocker", 2), ("knee", 1)]]
)
def test_estimates_change_as_in_generalized_least_squares(
    condensed: Condensed, found: Sequence[tuple[str, int]], rho: float
) -> None:
    J, r, noises = dense(condensed)
    A = np.zeros((len(r), len(r)))
    for name, lag in found:
        places = np.flatnonzero([noise == name for noise in noises])
        A[places[lag:], places[:-lag]] = A[places[:-lag], places[lag:]] = rho / (1 + rho**2)
    scale = np.linalg.norm(J, axis=0)
    J = J / scale
    left = r - J @ np.linalg.lstsq(J, r)[0]
    W = np.eye(len(r)) - A
    expected = -(np.linalg.solve(J.T @ W @ J, J.T @ W @ left) / scale)[-1:]
    first = np.linalg.lstsq(J, A @ left)[0][-1:] / scale[-1:]
    change = change_if_weighted(condensed, {name: (lag, rho) for name, lag in found})
    errors = np.sqrt(np.diag(condensed.inverse))
    np.testing.assert_allclose(change / errors, expected / errors, atol=0.01)
    if rho == 0.01:
        np.testing.assert_allclose(change, first, rtol=0.03)


def test_a_sum_that_no_correlation_explains_is_not_reported(condensed: Condensed) -> None:
    few, many = (SerialCorrelation("drive", 1, 0.8, 0.8, 5 * width, width, 5.0) for width in (0.1, 10.0))
    assert not not_white(condensed, [few])
    assert not_white(condensed, [many])


@pytest.mark.parametrize("noise", [1e-6, 0.1, 0.4, 0.9])
def test_rounding_adds_the_mean_of_many_draws(noise: float) -> None:
    values = np.linspace(-1.3, 1.2, 26)
    shown = np.rint(values + noise * np.random.default_rng(0).normal(size=(40_000, 1)))
    found = rounding_error(values, 1 / np.sqrt(noise**2 + 1 / 12))
    assert np.all(np.abs(found - (shown.mean(axis=0) - values)) <= 5 * shown.std(axis=0) / 200 + 1e-9)
