"""The inside of what ``test_robust_fits`` tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_robust_fits import SIGMA, TRUTH, rod, swing, with_spikes, within

from spookid.assembly.problem import Problem
from spookid.estimation import work
from spookid.estimation.fit import Fit
from spookid.estimation.outliers import of_same_samples
from spookid.estimation.suspects import standing_out, stuck, suspects


def test_the_fit_across_a_gap_begins_where_its_parts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the user's guesses, which have had their turn: a motion that parts have told does not go with them."""
    t, theta = swing().t, swing().signals["theta"]
    holed = swing().with_signals(theta=np.where((t > 0.6) & (t < 1.8), np.nan, theta))
    problem = rod().with_(recordings=[holed], initial={name: 2 * value for name, value in TRUTH.items()})
    begun: list[tuple[int, dict[str, float]]] = []
    own = work.fit

    def seen(part: Problem, *rest: Any) -> Fit:
        begun.append((len(part.recordings), dict(part.initial)))
        return own(part, *rest)

    monkeypatch.setattr(work, "fit", seen)
    problem.with_(step_correction=False, estimator="noise").solve()
    assert begun == [(2, dict(problem.initial)), (1, {}), (1, {})]


def test_likelihoods_that_are_compared_are_of_the_same_samples() -> None:
    recording, wrong = with_spikes()
    problem = rod().with_(recordings=[recording], step_correction=False)
    solution = problem.solve()
    fixed = solution.values | {"b": 0.004}
    for found in (None, solution):
        same = of_same_samples(problem, found)
        assert np.flatnonzero(np.isnan(same.recordings[0].signals["theta"])).tolist() == wrong.tolist()
        other = same.with_(fixed=["b"], initial=fixed).solve()
        assert not other.outliers
        assert other.trajectories[0].samples.sum() == solution.trajectories[0].samples.sum()
    assert of_same_samples(problem, solution).solve().log_likelihood == pytest.approx(solution.log_likelihood, abs=1e-3)
    assert other.log_likelihood < solution.log_likelihood


@pytest.mark.parametrize(
    ("held", "first", "last"), [(True, 1, 20), pytest.param(False, 0, 20, marks=pytest.mark.study)]
)
def test_samples_of_a_stuck_encoder_and_of_a_dropout_are_named(held: bool, first: int, last: int) -> None:
    """It holds its last value for a while, which the first of these samples has every right to; or shows zero."""
    theta, begin = np.unwrap(swing().signals["theta"]), 250
    theta[begin : begin + 20] = theta[begin] if held else 0.0
    wrong = list(range(begin + first, begin + last))
    assert np.flatnonzero(stuck(theta, None)).tolist() == wrong
    solution = rod().with_(recordings=[swing().with_signals(theta=theta)]).solve()
    assert within(solution)
    named = [one.t for one in solution.outliers]
    assert set(named) <= set(swing().t[wrong].tolist())
    assert len(named) >= len(wrong) - 2  # the motion may pass there
    (notice,) = [f.text for f in solution.findings if f.code == "samples.outliers"]
    assert f"at {named[0]:g} to " in notice


@pytest.mark.parametrize("rate", [20.0, 60.0, 120.0])
def test_dropouts_of_an_angle_that_turns_fast_are_named(rate: float) -> None:
    """At 100 Hz up to a fifth of a turn a sample, where a jump is no larger than the motion."""
    t, rng, found = np.arange(0, 3, 0.01), np.random.default_rng(2), 0
    for begin in range(40, 200, 8):
        moving = rate * t + 0.3 * np.sin(9 * t) + 1e-3 * rng.normal(size=len(t))
        theta = np.angle(np.exp(1j * moving))
        theta[begin : begin + 7] = 0.0
        wrong = np.flatnonzero(stuck(theta, 2 * np.pi)).tolist()
        assert set(wrong) <= set(range(begin, begin + 7))
        found += len(wrong) >= 6  # the motion may pass there
    assert found >= 18
    stops = np.concatenate([np.arange(50) * 0.5, np.full(20, 24.6), 24.6 + np.arange(50) ** 2 * 2e-3])  # at a wall
    assert not np.any(stuck(stops, None))


@pytest.mark.parametrize("rate", [20.0, 1000.0])
def test_motion_is_not_suspected(rate: float) -> None:
    t = np.arange(0, 3, 1 / rate)
    moving, rng = 2 * np.sin(9 * t), np.random.default_rng(1)
    for values in (moving, moving + 1e-3 * rng.normal(size=len(t)), np.round(moving, 2), np.zeros(len(t))):
        assert not np.any(standing_out(t, values, None))
        assert not np.any(standing_out(t, np.angle(np.exp(1j * values)), 2 * np.pi))
        assert not np.any(stuck(values, None))
        assert not np.any(stuck(np.angle(np.exp(1j * values)), 2 * np.pi))
    holed = np.where((t > 1) & (t < 2), np.nan, moving + 1e-3 * rng.normal(size=len(t)))
    assert not np.any(standing_out(t, holed, 2 * np.pi))
    holed[len(t) // 5] += 1.0
    assert np.flatnonzero(standing_out(t, holed, 2 * np.pi)).tolist() == [len(t) // 5]


@pytest.mark.parametrize("place", [0, 1, 2, 497, 498, 499])
def test_a_wrong_sample_stands_out_at_the_ends_too(place: int) -> None:
    t = np.arange(500) * 0.01
    x = np.sin(3 * t) + 2e-3 * np.random.default_rng(1).normal(size=500)
    x[place] += 1
    assert np.flatnonzero(standing_out(t, x, None)).tolist() == [place]


def test_samples_between_wrong_ones_are_kept() -> None:
    """Where one excursion has returned and the next begins, too; and all that stand out are found beside each other."""
    rng, theta = np.random.default_rng(7), swing().signals["theta"].copy()
    away = np.where(rng.random(len(theta)) < 0.04, 0.3 * rng.standard_t(2, len(theta)), 0.0)
    problem = rod().with_(recordings=[swing().with_signals(theta=theta + away)])
    suspected = suspects(problem, problem.recordings[0])["theta"]
    assert np.count_nonzero(suspected & (away == 0)) < np.count_nonzero(away) / 2
    solution = problem.solve()
    assert within(solution)
    named = {one.t for one in solution.outliers}
    assert named <= set(swing().t[away != 0].tolist())
    assert named >= set(swing().t[np.abs(away) > 8 * SIGMA].tolist())
    assert {one.code for one in solution.findings if one.severity == "warning"} == {"samples.outliers"}
