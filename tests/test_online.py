"""Estimates while data come in: those of a batch fit of the same data, whatever the order; saved, resumed, refused."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from online_twins import BEGIN, ROD, begun, followed, fourbar, measured, off, released, rod, rows, swing, turning
from scipy.stats import chi2

from spookid import FixedLagSmoother, Problem, ProblemError, Recording, Residual, Solution
from spookid.smoothing.estimate import OnlineEstimate
from spookid.statistics.combinations import UNOBSERVED

WINDOW = 40
"""Steps of the rod's window: 0.2 s."""


@cache
def batch(problem: Problem, run: Recording) -> Solution:
    return problem.with_(recordings=[measured(run)]).solve()


@cache
def start(run: Recording) -> tuple[Problem, Solution]:
    """The rod's first seconds, and a fit of them."""
    first = rod().with_(recordings=[measured(run).between(0, BEGIN)])
    return first, first.solve()


def smoother(run: Recording, **window: Any) -> FixedLagSmoother:
    first, known = start(run)
    return FixedLagSmoother(first, start=known, **(window or {"window": WINDOW}))


def later(run: Recording, stop: float = 99.0) -> Recording:
    return measured(run).between(BEGIN, stop)


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


def test_a_closed_loop_is_estimated_as_by_a_batch_fit() -> None:
    run = turning()
    estimate = followed(begun(fourbar(), run, seconds=0.2), later(run))
    agrees(estimate, batch(fourbar(), run))


def test_gaps_are_those_of_a_batch_fit() -> None:
    run = swing()
    angle = run.signals["theta"].copy()
    angle[450:470] = np.nan
    angle[::3] = np.nan
    angle[[0, -1]] = run.signals["theta"][[0, -1]]
    gappy = measured(run).with_signals(theta=angle)
    first = rod().with_(recordings=[gappy.between(0, BEGIN)])
    estimate = followed(FixedLagSmoother(first, WINDOW, start=first.solve()), later(gappy))
    assert np.max(np.abs(off(estimate, batch(rod(), gappy)))) < 0.1


def test_without_a_start_the_guesses_lead_to_the_same() -> None:
    run = swing()
    online = FixedLagSmoother(rod(), WINDOW)
    early = online.update(0.0, {"theta": 0.5, "u": 0.0})
    assert not early.converged
    assert early.reason == early.reasons["J"] == "too few samples yet"
    assert np.isnan(early.t)
    assert np.isnan(early.std_errs["J"])
    assert early["J"] == 0.004
    with pytest.raises(ProblemError, match="no states yet that could be saved"):
        online.save("nowhere")
    online = FixedLagSmoother(rod(), WINDOW)
    assert np.max(np.abs(off(followed(online, measured(run)), batch(rod(), run)))) < 0.2


# --- order ---


def test_samples_in_any_order_count_alike() -> None:
    run = swing()
    whole = list(rows(later(run, 2.5)))
    online = smoother(run)
    for t, values in whole:
        online.update(t, values)
    shuffled = smoother(run)
    stamps = np.array([t for t, _ in whole])
    for i in np.argsort(stamps + np.random.default_rng(0).uniform(0, 0.05, len(stamps))):
        t, values = whole[i]
        shuffled.update(t + 0.0, {"u": values["u"]})
        shuffled.update(t, {"theta": values["theta"]})
    first, second = online.estimate, shuffled.estimate
    assert shuffled.intake == online.intake
    assert shuffled.intake.late == 0
    for name, error in first.std_errs.items():
        assert second[name] == pytest.approx(first[name], abs=0.01 * error)


def test_a_sample_behind_the_window_is_told_and_left_out() -> None:
    run = swing()
    online = smoother(run)
    known = followed(online, later(run, 2.3))
    assert online.intake.late == online.intake.crowded == 0
    after = online.update(BEGIN - 0.0025, {"u": 77.0})  # between two steps, out of the window by now
    assert online.intake.late == 1
    assert after.values == known.values


# --- what is not known ---


def test_what_no_data_tell_has_a_reason() -> None:
    estimate = followed(FixedLagSmoother(rod(), WINDOW), measured(released()))
    assert estimate.reasons["K"] == UNOBSERVED
    assert np.isnan(estimate.std_errs["K"])
    assert abs(estimate.values["J"] - ROD["J"]) < 4 * estimate.std_errs["J"]
    assert np.isfinite(estimate.rate_errors["pin"])
    assert "K" in str(estimate)
    assert UNOBSERVED in str(estimate)


def test_from_guesses_alone_the_first_samples_lead_nowhere_far() -> None:
    estimate = followed(FixedLagSmoother(rod(), WINDOW), measured(swing()).between(0, 1.5))
    assert all(abs(estimate.values[name] - true) < 4 * estimate.std_errs[name] for name, true in ROD.items())
    assert estimate.std_errs["J"] < 0.05 * ROD["J"]


# --- saved and resumed ---


def test_a_resumed_smoother_goes_on_with_the_same_digits(tmp_path: Path) -> None:
    run, path = swing(), tmp_path / "state.npz"
    online, whole = smoother(run), list(rows(later(run, 2.4)))
    for t, values in whole[:30]:
        online.update(t, values)
    online.update(whole[30][0], {"theta": whole[30][1]["theta"]})  # its input comes after the interruption
    online.save(path)
    resumed = FixedLagSmoother.resume(start(run)[0], path)
    assert resumed.estimate.values == online.estimate.values
    for one in (online, resumed):
        one.update(whole[30][0], {"u": whole[30][1]["u"]})
        for t, values in whole[31:]:
            one.update(t, values)
    first, second = online.estimate, resumed.estimate
    assert first.values == second.values
    assert first.std_errs == second.std_errs
    assert np.array_equal(first.q, second.q)
    assert np.array_equal(first.state_covariance, second.state_covariance)
    assert online.intake == resumed.intake
    scores = online.released(), resumed.released()
    assert all(np.array_equal(a, b) for a, b in zip(*scores, strict=True))


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
    with pytest.raises(ProblemError, match="is damaged"):
        FixedLagSmoother.resume(first, tmp_path / "text.npz")
    monkeypatch.setattr("spookid.smoothing.saving.__version__", "0.0")
    with pytest.raises(ProblemError, match="is of version"):
        FixedLagSmoother.resume(first, path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, online = tmp_path / "state.npz", smoother(swing())
    online.save(path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    online.update(*next(rows(later(swing()))))
    with pytest.raises(ProblemError, match=r"cannot be written \(No space left on device\); choose another place"):
        online.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


# --- what is refused ---


def _inequality() -> Residual:
    return Residual("own", lambda state: state.v[0], kind="inequality")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: FixedLagSmoother(p), "give a smoother either window=, in steps, or seconds="),
        (lambda p: FixedLagSmoother(p, 10, seconds=0.1), "give a smoother either window=, in steps, or seconds="),
        (lambda p: FixedLagSmoother(p, 0.2), "window is 0.2; give a whole number of steps, or seconds="),
        (lambda p: FixedLagSmoother(p, seconds=-1), "seconds is -1; give the length of the window"),
        (lambda p: FixedLagSmoother(p.with_(friction="exact"), 9), "friction 'exact', which a smoother cannot hold"),
        (lambda p: FixedLagSmoother(p.with_(every=1), 9), "has every=1, but a smoother takes each sample"),
        (lambda p: FixedLagSmoother(p.with_(estimator="hard"), 9), "estimator 'hard', whose errors need whole"),
        (lambda p: FixedLagSmoother(p.with_(residuals=[_inequality()]), 9), "an inequality, which a smoother cannot"),
        (lambda p: FixedLagSmoother(p.with_(friction_width=None), 9), "dry friction, whose width follows from"),
        (lambda p: FixedLagSmoother(rod(sigma=None), 9), "does not say how large the noise of 'theta' is; give"),
        (lambda _: smoother(swing(), window=2), "Problem 'rod': window is 2 steps; the factors reach over 3: take as"),
        (lambda p: FixedLagSmoother(p, 9, start=3), "start is 3; give a Solution of the problem"),
        (lambda p: FixedLagSmoother(p, 9, start=start(swing())[1]), "has 0 recordings, and a stream goes on from one"),
    ],
)
def test_what_a_smoother_cannot_do_is_refused(make: Callable[[Problem], object], words: str) -> None:
    with pytest.raises(ProblemError, match=words) as refused:
        make(rod())
    assert ".py:" in str(refused.value)


def test_a_refused_update_leaves_all_as_it_was() -> None:
    online = smoother(swing())
    known = online.estimate
    for t, values, words in [
        (2.0, {"theta": 0.1, "phi": 0.0}, "no signal 'phi'"),
        (2e9, {"theta": 0.1}, "time leaps from 1.995 to 2000000000 s, over 4e"),
        (1.995, {"u": 0.1}, "'u' has a second sample at 1.995 s"),
    ]:
        with pytest.raises(ProblemError, match=words):
            online.update(t, values)
    assert online.estimate is known
    assert online.update(2.0, {}).step == known.step + 1


# --- studies ---


@pytest.mark.study
def test_errors_are_those_that_are_told() -> None:
    """Squares of the errors of 50 twins over their covariances, of parameters and of the newest state, are chi-square:
    sums within the bounds that one of a hundred leaves."""
    squares = []
    for seed in range(50):
        run = swing(seed)
        estimate = followed(smoother(run), later(run))
        x, z = run.q[-1, 0, [0, 2]]
        turned = estimate.positions["pin"] + np.arctan2(x, -z)
        off_state = [turned - 2 * np.pi * np.rint(turned / (2 * np.pi)), estimate.rates["pin"] - run.v[-1, 0, 4]]
        wrong = np.array([value - ROD[name] for name, value in estimate.values.items()])
        pairs = [(wrong, estimate.covariance), (np.array(off_state), estimate.state_covariance)]
        squares.append([error @ np.linalg.solve(covariance, error) for error, covariance in pairs])
    for total, freedom in zip(np.sum(squares, axis=0).tolist(), (4, 2), strict=True):
        low, high = chi2.ppf([0.005, 0.995], 50 * freedom)
        assert low < total < high


@pytest.mark.study
def test_neither_time_nor_memory_grow() -> None:
    """Over 1e5 updates the last take no longer than the first, and nothing is kept."""
    updates = 100_000
    run = swing(0, BEGIN + 0.005 * updates)
    online, spent, sizes = smoother(run), [], []
    for k, (t, values) in enumerate(rows(later(run, 1e9))):
        before = time.process_time()
        online.update(t, values)
        spent.append(time.process_time() - before)
        if k % 10_000 == 5_000:
            gc.collect()
            sizes.append(len(gc.get_objects()))
    assert np.median(spent[-5000:]) < 1.3 * np.median(spent[1000:6000])
    assert max(sizes) - min(sizes) < 500
    estimate = online.estimate
    assert all(abs(estimate[name] - value) < 4 * estimate.std_errs[name] for name, value in ROD.items())
