"""Samples between the steps: every one counts in what a fit says of its residuals."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from test_score_tests import TRUTH, rod, told

from spookid import Recording, Solution

SAMPLING, STEP = 0.0025, 0.01


@cache
def swing(duration: float = 4.5, dry: float = 2e-2) -> Recording:
    """Without noise to speak of, four samples a step."""
    t = np.arange(0.0, duration + 2 * SAMPLING, SAMPLING)
    drive = Recording(t=t, signals={"u": np.sin(2 * t) + np.sin(5.3 * t)})
    noise = {"theta": 1e-6, "pin": 1e-5}
    truth = {**TRUTH, "c": dry}
    twin = rod().with_(step=SAMPLING)
    run = twin.simulate(truth, duration, {"pin": 1.5}, inputs=drive, noise=noise, seed=0, substeps=2)
    return Recording(run.t, run.signals)


def fitted(error: np.ndarray | float = 0.0) -> Solution:
    recording = swing().with_signals(theta=swing().signals["theta"] + error)
    return rod().with_(recordings=[recording], step=STEP, estimator="noise", step_correction=False).solve()


def test_what_a_long_step_does_not_predict_is_not_called_outliers() -> None:
    notice = told(rod().with_(recordings=[swing()], estimator="noise", step=2 * STEP).solve())
    assert "samples of theta are more than 5 times its noise off: is the step too long?" in notice
    assert "outliers" not in notice


def test_stiffness_about_an_angle_has_its_unit() -> None:
    settings = {"step": STEP, "estimator": "noise", "step_correction": False}
    assert " N m/rad of stiffness in pin" in told(rod().with_(recordings=[swing(8.0, 5e-3)], **settings).solve())


def test_outliers_among_samples_between_the_steps_are_told() -> None:
    rng, count = np.random.default_rng(0), len(swing().t)
    far = 0.2 * rng.standard_normal(count) * (rng.random(count) < 0.02)
    notice = told(fitted(far + 1e-3 * rng.standard_normal(count)))
    assert "samples of theta are more than 5 times its noise off: outliers?" in notice
    assert "too long" not in notice


def test_the_table_of_the_fit_counts_every_sample() -> None:
    rng, count, between = np.random.default_rng(1), len(swing().t), 803
    error = 1e-3 * rng.standard_normal(count)
    error[between] += 0.1
    solution = fitted(error)
    (trajectory,) = solution.trajectories
    assert trajectory.samples.sum() == count
    assert np.sqrt(trajectory.squares.sum() / count) == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.05)
    assert trajectory.largest.max() == pytest.approx(0.1, rel=0.05)
    assert int(np.argmax(trajectory.largest)) == round(swing().t[between] / STEP)
    table = solution.summary(verbose=True).partition("\nresiduals\n")[2].splitlines()
    row = next(line for line in table if line.strip().startswith("theta "))
    assert float(row.split()[3]) == pytest.approx(100, rel=0.05)  # mrad
    assert f"{count:,}" in row
