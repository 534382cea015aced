"""The inside of what ``test_online`` tests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from online_twins import (
    ROD,
    WINDOW,
    begun,
    followed,
    fourbar,
    later,
    measured,
    off,
    released,
    rod,
    smoother,
    start,
    swing,
    turning,
)
from test_online import batch, coarse

from spookid import FixedLagSmoother, LevenbergMarquardt, ProblemError, Solution
from spookid.assembly.assembly import assemble
from spookid.smoothing import initialization
from spookid.smoothing.estimate import OnlineEstimate
from spookid.smoothing.initialization import smoothed, with_least_noise
from spookid.smoothing.smoother import StepCorrection
from spookid.statistics.sensitivities import UNOBSERVED

# --- against batch fits ---


def agrees(estimate: OnlineEstimate, whole: Solution) -> None:
    """Within 0.1 standard errors, in parameters and in the state, and so do these errors."""
    assert np.max(np.abs(off(estimate, whole))) < 0.1
    for name, error in estimate.std_errs.items():
        assert error == pytest.approx(whole[name].std_err, rel=0.02)
    trajectory = whole.trajectories[0]
    assert estimate.t == pytest.approx(trajectory.t[-1])
    assert estimate.step == len(trajectory.t) - 1
    assert estimate.converged
    assert not estimate.reason
    rate_error = max(estimate.rate_errors.values())
    assert np.allclose(estimate.q, trajectory.q[-1], atol=0.1 * max(estimate.position_errors.values()))
    assert np.allclose(estimate.v[:, 3:], trajectory.v[-1][:, 3:], atol=0.1 * rate_error)


def test_a_pendulum_is_estimated_as_by_a_batch_fit() -> None:
    run = swing()
    estimate = followed(smoother(run, seconds=0.2), later(run))
    agrees(estimate, batch(rod(), run))
    assert abs(estimate.positions["pin"] - run.signals["theta"][-1]) < 4e-3
    assert estimate.rates["pin"] == pytest.approx(run.v[-1, 0, 4], abs=4 * estimate.rate_errors["pin"])


@pytest.mark.study
def test_a_closed_loop_is_estimated_as_by_a_batch_fit() -> None:
    run = turning()
    estimate = followed(begun(fourbar(), run, seconds=0.2), later(run))
    agrees(estimate, batch(fourbar(), run))


# --- what is not known ---


def test_what_no_data_tell_has_a_reason() -> None:
    estimate = followed(FixedLagSmoother(rod(), WINDOW), measured(released()))
    assert estimate.reasons["K"] == UNOBSERVED
    assert np.isnan(estimate.std_errs["K"])
    assert abs(estimate.values["J"] - ROD["J"]) < 4 * estimate.std_errs["J"]
    assert np.isfinite(estimate.rate_errors["pin"])
    assert "K" in str(estimate)
    assert UNOBSERVED in str(estimate)


# --- the step ---


def test_disturbances_that_are_not_seen_leave_digits_to_the_sensors() -> None:
    problem, run = coarse()
    assembly = assemble(smoothed(problem.with_(recordings=[measured(run)])))
    (disturbance,) = (size.places[0] for size in assembly.noise if size.kind == "disturbance")

    def bounded(size: float) -> np.ndarray[Any, Any]:
        numbers = assembly.transcription.constants.copy()
        numbers[disturbance] = size
        of_size = replace(assembly, transcription=assembly.transcription.with_numbers(numbers))
        return with_least_noise(of_size, assembly.start)

    least = bounded(1e-17)
    assert 1e-12 < least[disturbance] < 1e-7
    assert least[disturbance] == pytest.approx(bounded(1e-30)[disturbance])
    assert bounded(1e-4)[disturbance] == 1e-4
    assert np.array_equal(np.delete(least, disturbance), np.delete(bounded(1e-4), disturbance))


def test_what_is_not_known_of_the_step_correction_grows_with_the_data() -> None:
    information = np.array([[4.0, 1.0], [1.0, 2.0]])
    correction = StepCorrection(np.array([0.5, -0.2]), information)
    before = np.linalg.inv(information)
    assert np.allclose(correction.covariance(before), 0.0, atol=1e-15)
    much = correction.covariance(before * 1e-9)
    assert np.allclose(much, np.outer(correction.amounts, correction.amounts), atol=1e-8)
    unknown = np.array([[0.25, np.nan], [np.nan, np.nan]])
    assert np.all(np.isfinite(correction.covariance(unknown)))


# --- saved and resumed ---


def test_files_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, path = swing(), tmp_path / "state.npz"
    first, _ = start(run)
    online = smoother(run)
    online.save(path)
    with pytest.raises(ProblemError, match="of another model or settings than problem 'rod' has now; begin a new"):
        FixedLagSmoother.resume(first.with_(fixed=["c"]), path)
    with pytest.raises(ProblemError, match="of problem 'rod', and this is 'other'"):
        FixedLagSmoother.resume(first.with_(name="other"), path)
    with pytest.raises(ProblemError, match=r"none\.npz cannot be read"):
        FixedLagSmoother.resume(first, tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("nothing")
    with pytest.raises(ProblemError, match=r"is damaged \(the file is no NumPy archive\); begin a new"):
        FixedLagSmoother.resume(first, tmp_path / "text.npz")
    monkeypatch.setattr("spookid.smoothing.smoother.__version__", "0.0")
    with pytest.raises(ProblemError, match="is of version"):
        FixedLagSmoother.resume(first, path)


# --- studies ---


def test_a_fit_that_has_not_converged_is_told(monkeypatch) -> None:
    first, known = start(swing())
    monkeypatch.setattr(initialization, "LevenbergMarquardt", partial(LevenbergMarquardt, max_iterations=0))
    notices = " ".join(FixedLagSmoother(first, start=known, window=WINDOW).estimate.notices)
    assert "did not converge" in notices
