"""What the page on factor graphs shows, in short: results/factor_graphs.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))

from factor_graph_forward import STEP, STEPS, followed, rmse, table_2
from factor_graph_inverse import LIMIT, tracked
from factor_graph_linkages import MECHANISMS, expected, found
from factor_graph_reference import SHEET, moved, torque
from factor_graph_sensors import online, twins


def test_the_reference_is_that_of_two_other_integrators() -> None:
    for values, known in zip(moved(np.arange(6.0)), SHEET.values(), strict=True):
        np.testing.assert_allclose(values[1:], known, atol=1e-8)
    t = np.linspace(0, 1, 11)
    θ, ω = 0.3 * np.sin(2 * t), 0.6 * np.cos(2 * t)
    there = moved(t, lambda s: float(torque(*(np.array([x]) for x in _swing(s)))[0]), (0.0, 0.6))
    np.testing.assert_allclose(there, [θ, ω], atol=1e-9)


def _swing(s: float) -> tuple[float, float, float]:
    return 0.3 * np.sin(2 * s), 0.6 * np.cos(2 * s), -1.2 * np.sin(2 * s)


def falls(kind: Any, window: int, steps: int) -> None:
    """As in table 1: errors, iterations, and what is hard."""
    run = followed(table_2(kind), window, steps)
    q, v = run.errors(*moved(STEP * np.arange(steps)))
    assert rmse(q) < 1e-4
    assert rmse(v) < 1e-3
    assert np.mean(run.iterations) < 3
    assert np.max(run.iterations) <= 5
    assert run.unfinished == 0
    assert run.violation < 1e-10


@pytest.mark.parametrize("kind", [pytest.param("dependent", marks=pytest.mark.study), "independent"])
def test_a_window_of_two_steps_follows_the_four_bar(kind: Any) -> None:
    falls(kind, 2, 601)


@pytest.mark.study
@pytest.mark.parametrize("kind", ["dependent", "independent"])
@pytest.mark.parametrize("window", range(2, 11))
def test_every_window_follows_the_four_bar_for_five_seconds(kind: Any, window: int) -> None:
    falls(kind, window, STEPS)


def follows(seconds: float) -> None:
    """As in figure 8: the torque, forward factors and another integrator that are given it."""
    run = tracked(seconds)
    assert np.abs(run.solution["Q"][:, 0] - run.wanted).max() < 1e-2
    assert np.abs(run.restarted).max() < LIMIT
    explained = run.rounding < 0.1 * LIMIT
    assert explained[min(len(explained) - 1, 7000)]
    assert np.all(run.error[explained] < LIMIT)


@pytest.mark.study
def test_a_torque_that_is_found_makes_the_motion_that_was_asked_for() -> None:
    follows(0.8)


@pytest.mark.study
def test_it_does_so_until_rounding_has_grown() -> None:
    follows(10.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_linkages_move_as_by_lagranges_equations(name: str) -> None:
    t = STEP * np.arange(301)
    true, (points, _) = expected(name, t), found(name, t, "independent")
    assert np.ptp(true, axis=0).max() > 0.02
    assert np.linalg.norm(points - true, axis=1).max() < 1e-5


@pytest.mark.study
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_errors_of_a_gyroscope_alone_are_true(known: bool) -> None:
    """Normalized squares of errors of 50 twins, of state and parameters, within the bounds that one of a hundred
    leaves."""
    runs = twins(50)
    for total in np.sum([online(known, runs, draw).squares for draw in range(50)], axis=0).tolist():
        low, high = chi2.ppf([0.005, 0.995], 100)
        assert low < total < high
