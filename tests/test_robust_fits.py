"""Fits of recordings with gaps and with samples that are plainly wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mechanisms import Array

from spookid import (
    GROUND,
    Body,
    Hinge,
    HingeAngle,
    JointRate,
    Model,
    Parameter,
    Problem,
    Recording,
    Solution,
    StudentT,
    gravity,
    load,
)

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
    assert not [finding for finding in solution.findings if finding.code == "recording.gap"]


def test_samples_of_another_sensor_in_a_gap_are_no_contradiction() -> None:
    rng, whole = np.random.default_rng(5), rod()
    pin = whole.model.joints[0]
    rates = np.gradient(swing().signals["theta"], swing().t) + 0.05 * rng.standard_normal(len(swing().t))
    theta = np.where((swing().t > 0.6) & (swing().t < 1.8), np.nan, swing().signals["theta"])
    both = Recording(swing().t, {"theta": theta, "rate": rates}, name="both")
    problem = whole.with_(recordings=[both], observations=[*whole.observations, JointRate(pin, "rate")])
    assert "recording.gap" not in {finding.code for finding in problem.solve().findings}


def test_samples_that_are_wrong_are_left_out_and_named(tmp_path: Path) -> None:
    recording, wrong = with_spikes()
    solution = rod().with_(recordings=[recording]).solve()
    assert within(solution)
    assert [one.t for one in solution.outliers] == recording.t[wrong].tolist()
    assert {one.signal for one in solution.outliers} == {"theta"}
    assert all(one.left_out and abs(abs(one.value - one.predicted) - 1) < 0.02 for one in solution.outliers)
    (finding,) = [finding for finding in solution.findings if finding.code == "samples.outliers"]
    assert "6 samples of theta left out" in finding.text
    assert (finding.subject, finding.evidence["samples"]) == (("theta",), {"theta": 6})
    assert finding.evidence["student"]["theta"] < 0  # single samples, far away: the others are normal
    solution.save(tmp_path / "out")
    assert load(tmp_path / "out").outliers == solution.outliers
    assert len((tmp_path / "out" / "outliers.csv").read_text().splitlines()) == 7


def test_heavy_tails_are_told_from_outliers_by_likelihood() -> None:
    """And the fit with them ends at its maximum, where samples and noise, each by the other, would go to and fro."""
    tails = 2 * SIGMA * np.random.default_rng(4).standard_t(1.5, len(swing().t))
    recording = swing().with_signals(theta=swing().signals["theta"] + tails)
    solution = rod().with_(recordings=[recording]).solve()
    (finding,) = [finding for finding in solution.findings if finding.code == "samples.outliers"]
    assert finding.evidence["student"]["theta"] > 0
    assert "loss=StudentT()" in finding.text
    heavy = [HingeAngle(rod().model.joints[0], "theta", loss=StudentT())]
    found = rod().with_(recordings=[recording], observations=heavy).solve()
    assert within(found)
    assert len([stage for stage in found.stages if stage.stage == "sensor noise"]) < 50


@pytest.mark.study
def test_samples_of_a_linear_loss_all_count() -> None:
    recording, _ = with_spikes()
    solution = rod("linear").with_(recordings=[recording]).solve()
    assert not solution.outliers
    assert solution.trajectories[0].samples.sum() == len(recording.t)


@pytest.mark.parametrize(("sigma", "told"), [pytest.param(0.05, False, marks=pytest.mark.study), (SIGMA / 20, True)])
def test_residuals_far_above_a_given_sigma_are_told_first(sigma: float, told: bool) -> None:
    sensors = [HingeAngle(rod().model.joints[0], "theta", sigma=sigma)]
    problem = rod().with_(observations=sensors, recordings=[swing().between(2.0, 3.0)], state_weight=np.inf)
    assert any(finding.code == "residuals.excess" for finding in problem.solve().findings) == told
