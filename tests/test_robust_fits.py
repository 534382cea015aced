"""Fits of recordings with gaps and with samples that are plainly wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mechanisms import Array

from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, Solution, gravity, load
from spookid.assembly.declaration import Declaration
from spookid.estimation import solving
from spookid.estimation.gaps import solved_across_gaps
from spookid.estimation.outliers import of_same_samples, standing_out
from spookid.estimation.stuck_sensors import stuck
from spookid.results.notices import EXCESS, GAP, OUTLIERS
from spookid.results.result import Result

TRUTH = {"J": 0.005, "b": 0.002}
SIGMA = 2e-3


@cache
def rod(loss: str = "auto") -> Problem:
    """A pendulum that turns over before it swings: the short way across a gap is the wrong one."""
    J, b = Parameter("J", 0.02, lower=1e-5), Parameter("b", 5e-4, lower=0)
    body = Body("rod", mass=0.3, inertia=(1e-4, J, J))
    frame = {"x": (0, 1, 0), "y": (0, 0, -1)}
    pin = Hinge("pin", GROUND.frame(**frame), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=b)
    sensors = [HingeAngle(pin, "theta", loss=loss)]
    return Problem("rod", Model([body], [pin], gravity=gravity(9.81)), observations=sensors, step=0.01)


@cache
def swing() -> Recording:
    noise = {"theta": SIGMA, "pin": 1e-4}
    run = rod().simulate(TRUTH, 4.0, {"pin": (0.5, 25.0)}, noise=noise, seed=3)
    return Recording(run.t, run.signals)


def within(solution: Solution, errors: float = 4.0) -> bool:
    found = solution.parameters
    return all(abs(found[name].estimate - value) < errors * found[name].std_err for name, value in TRUTH.items())


def with_spikes(seed: int = 0) -> tuple[Recording, Array]:
    rng, theta = np.random.default_rng(seed), swing().signals["theta"].copy()
    wrong = rng.choice(len(theta), 6, replace=False)
    theta[wrong] += rng.choice([-1.0, 1.0], 6)
    return swing().with_signals(theta=theta), np.sort(wrong)


def test_the_motion_turns_over_in_a_gap_and_the_fit_finds_how_often() -> None:
    t, theta = swing().t, swing().signals["theta"].copy()
    gap = (t > 0.6) & (t < 1.8)
    turned = (theta[np.flatnonzero(gap)[-1]] - theta[np.flatnonzero(gap)[0]]) / (2 * np.pi)
    assert abs(turned) > 1.5
    holed = swing().with_signals(theta=np.where(gap, np.nan, theta))
    solution = rod().with_(recordings=[holed]).solve()
    assert within(solution)
    shown = np.unwrap(solution.trajectories[0].predicted[:, 0])
    assert np.ptp(shown - theta[: len(shown)]) < 0.1  # also inside the gap
    assert not [notice for notice in solution.notices if notice.startswith(GAP)]


def test_the_fit_across_a_gap_begins_where_its_parts_end() -> None:
    """Not at the user's guesses, which have had their turn: a motion that parts have told does not go with them."""
    t, theta = swing().t, swing().signals["theta"]
    holed = swing().with_signals(theta=np.where((t > 0.6) & (t < 1.8), np.nan, theta))
    problem = rod().with_(recordings=[holed], initial={name: 2 * value for name, value in TRUTH.items()})
    begun: list[tuple[int, dict[str, float]]] = []

    def solve(part: Declaration, near: Result | None, held: bool, before: Result | None) -> Result:
        begun.append((len(part.recordings), dict(part.initial)))
        return before or solving.solve(part, warm_start=near, hold=held)

    solved_across_gaps(problem, None, solve)
    assert begun == [(2, dict(problem.initial)), (1, {}), (1, {})]


def test_samples_that_are_wrong_are_left_out_and_named(tmp_path: Path) -> None:
    recording, wrong = with_spikes()
    solution = rod().with_(recordings=[recording]).solve()
    assert within(solution)
    assert [one.t for one in solution.outliers] == recording.t[wrong].tolist()
    assert {one.signal for one in solution.outliers} == {"theta"}
    assert all(one.left_out and abs(abs(one.value - one.predicted) - 1) < 0.02 for one in solution.outliers)
    (notice,) = [notice for notice in solution.notices if notice.startswith(OUTLIERS)]
    assert "6 samples of theta left out" in notice
    solution.save(tmp_path / "out")
    assert load(tmp_path / "out").outliers == solution.outliers
    assert len((tmp_path / "out" / "outliers.csv").read_text().splitlines()) == 7


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
    (notice,) = [notice for notice in solution.notices if notice.startswith(OUTLIERS)]
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


@pytest.mark.study
def test_samples_of_a_linear_loss_all_count() -> None:
    recording, _ = with_spikes()
    solution = rod("linear").with_(recordings=[recording]).solve()
    assert not solution.outliers
    assert solution.trajectories[0].samples.sum() == len(recording.t)


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


@pytest.mark.parametrize(("sigma", "told"), [pytest.param(0.05, False, marks=pytest.mark.study), (SIGMA / 20, True)])
def test_residuals_far_above_a_given_sigma_are_told_first(sigma: float, told: bool) -> None:
    sensors = [HingeAngle(rod().model.joints[0], "theta", sigma=sigma)]
    problem = rod().with_(observations=sensors, recordings=[swing().between(2.0, 3.0)], state_weight=np.inf)
    assert any(notice.startswith(EXCESS) for notice in problem.solve().notices) == told


@pytest.mark.parametrize("place", [0, 1, 2, 497, 498, 499])
def test_a_wrong_sample_stands_out_at_the_ends_too(place: int) -> None:
    t = np.arange(500) * 0.01
    x = np.sin(3 * t) + 2e-3 * np.random.default_rng(1).normal(size=500)
    x[place] += 1
    assert np.flatnonzero(standing_out(t, x, None)).tolist() == [place]
