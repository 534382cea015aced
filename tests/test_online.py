"""Estimates while data come in: those of a batch fit of the same data, whatever the order; saved, resumed, refused."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mechanisms import DOWN
from online_twins import BEGIN, ROD, SIGMA, WINDOW, followed, later, measured, off, rod, rows, smoother, start, swing
from scipy.stats import chi2

from spookid import (
    GROUND,
    Body,
    FixedLagSmoother,
    Hinge,
    HingeAngle,
    Model,
    Motor,
    Parameter,
    Problem,
    ProblemError,
    Recording,
    Residual,
    Solution,
    gravity,
    load_problem,
)


@cache
def batch(problem: Problem, run: Recording) -> Solution:
    return problem.with_(recordings=[measured(run)]).solve()


# --- against batch fits ---


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


def test_from_guesses_alone_the_first_samples_lead_nowhere_far() -> None:
    estimate = followed(FixedLagSmoother(rod(), WINDOW), measured(swing()).between(0, 1.5))
    assert all(abs(estimate.values[name] - true) < 4 * estimate.std_errs[name] for name, true in ROD.items())
    assert estimate.std_errs["J"] < 0.05 * ROD["J"]


# --- the step ---


@cache
def coarse() -> tuple[Problem, Recording]:
    """A pendulum that nothing disturbs, in steps so long that they are seen, and its motion in continuous time."""
    K, b, J = Parameter("K", 0.08), Parameter("b", 5e-3, lower=0), Parameter("J", 0.004, lower=1e-5)
    body = Body("rod", mass=0.3, inertia=(1e-4, J, J))
    pin = Hinge("pin", GROUND.frame(**DOWN), body.frame(at=(-0.15, 0, 0), x=(0, 1, 0), y=(1, 0, 0)), viscous=b)
    model = Model([body], [pin], motors=[Motor(pin, "u", gain=K)], gravity=gravity(9.81))
    problem = Problem("plain", model, observations=[HingeAngle(pin, "theta", sigma=SIGMA)], step=0.04)
    t = np.arange(0, 2.6, 0.04)
    drive = Recording(t, {"u": 3 * np.sin(2 * np.pi * (0.4 + 0.15 * t) * t) + 2 * np.sin(5.1 * t)})
    noise, known = {"theta": SIGMA}, {name: ROD[name] for name in ("J", "b", "K")}
    return problem, problem.simulate(known, t[-1], {"pin": 0.5}, inputs=drive, noise=noise, seed=1)


def test_what_steps_add_is_taken_from_the_estimates() -> None:
    problem, run = coarse()
    first = problem.with_(recordings=[measured(run).between(0, 1.5)])
    known = first.solve()
    online = FixedLagSmoother(first, 20, start=known)
    begun = online.estimate
    with_steps = {name: begun[name] + begun.step_errors[name] for name in begun.values}
    assert max(abs(with_steps[name] - ROD[name]) / begun.std_errs[name] for name in with_steps) > 2
    for name, error in begun.std_errs.items():
        assert abs(begun[name] - ROD[name]) < error
        assert error > 1.5 * known[name].std_err  # what the steps add is a disturbance, too
    estimate = followed(online, measured(run).between(1.5, 99))
    assert all(abs(estimate[name] - ROD[name]) < 2 * error for name, error in estimate.std_errs.items())
    assert abs(estimate.positions["pin"] - run.signals["theta"][-1]) < 3 * np.hypot(
        SIGMA, estimate.position_errors["pin"]
    )
    assert not estimate.notices


def test_without_a_start_the_step_is_told() -> None:
    first, later_on = (FixedLagSmoother(rod().with_(step_correction=asked), WINDOW) for asked in (True, False))
    for t, values in rows(measured(swing()).between(0, 0.15)):
        first.update(t, values)
        later_on.update(t, values)
    (notice,) = first.estimate.notices
    assert notice.startswith("Estimates contain the discretization error of the time step 0.005 s")
    assert not later_on.estimate.notices


# --- residuals ---


def test_residuals_that_are_too_large_are_told() -> None:
    run = swing(0, 3.6)
    plain = smoother(run)
    assert not followed(plain, later(run)).notices
    noisy = later(run)
    rng = np.random.default_rng(0)
    shaken = noisy.with_signals(theta=noisy.signals["theta"] + 4 * SIGMA * rng.standard_normal(len(noisy.t)))
    (notice,) = followed(smoother(run), shaken).notices
    assert re.match(r"Since t = (1\.[5-9]|2)\S* s residuals are [34](\.\d)? times larger than their noise", notice)


# --- gaps and what does not come ---


def test_behind_a_long_gap_the_states_begin_anew(tmp_path: Path) -> None:
    run = swing()
    online, whole = smoother(run), list(rows(later(run)))
    for t, values in whole[:40]:
        before = online.update(t, values)
    waiting = online.update(whole[40][0] + 400, whole[40][1])
    assert (
        waiting.reason == "the states are estimated anew after the gap in the data at 2.195 s, and too few samples yet"
    )
    assert waiting.values == before.values
    assert waiting.std_errs == before.std_errs
    assert np.isnan(waiting.t)
    online.save(tmp_path / "state.npz")
    assert FixedLagSmoother.resume(start(run)[0], tmp_path / "state.npz").estimate.t == before.t
    online.update(1.0, {"theta": 0.5})
    for t, values in whole[41:]:
        online.update(t + 400, values)
    estimate, agreed = online.estimate, followed(smoother(run), later(run))
    assert (online.intake.late, online.intake.early) == (1, 0)
    assert online.intake.samples == 2 * len(run.t) + 1
    assert estimate.t == pytest.approx(run.t[-1] + 400)
    turned = (estimate.positions["pin"] - agreed.positions["pin"]) / (2 * np.pi)
    assert turned == pytest.approx(round(turned), abs=1e-4)
    for name, error in agreed.std_errs.items():
        assert abs(estimate[name] - agreed[name]) < 0.7 * error
        assert error < estimate.std_errs[name] < before.std_errs[name]


def test_samples_a_long_gap_away_from_the_first_states_are_left_out() -> None:
    plain, gappy = FixedLagSmoother(rod(), WINDOW), FixedLagSmoother(rod(), WINDOW)
    run = list(rows(measured(swing()).between(0, 0.3)))
    gappy.update(-5000.0, run[0][1])
    for k, (t, values) in enumerate(run):
        plain.update(t, values)
        gappy.update(t, values)
        if k == 1:
            gappy.update(-4000.0, run[0][1])
    assert gappy.estimate.values == plain.estimate.values
    assert gappy.estimate.t == plain.estimate.t
    assert gappy.intake.early == plain.intake.early + 2 * len(run[0][1])


def test_a_signal_that_does_not_come_is_named() -> None:
    online = FixedLagSmoother(rod(), WINDOW)
    for k in range(3000):
        estimate = online.update(0.005 * k, {"theta": 0.1})
    assert estimate.reason == "no sample of signal 'u' has arrived yet"
    assert online.intake.early > 2500
    for k in range(3000, 3021):
        estimate = online.update(0.005 * k, {"theta": 0.1, "u": 0.0})
    assert estimate.t == pytest.approx(15.095)


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
        (lambda p: FixedLagSmoother(p, 0.2), "window is 0.2; give a whole number, or leave it out"),
        (lambda p: FixedLagSmoother(p, 10**9), "window is 1e\\+09 steps, which are all estimated anew"),
        (lambda p: FixedLagSmoother(p, seconds=1e9), "seconds is 1000000000.0, 2e\\+11 steps, which are all"),
        (lambda p: FixedLagSmoother(p, 9, iterations="a"), "iterations is 'a'; give a whole number"),
        (lambda p: FixedLagSmoother(p.model, 9), "give a Problem, or a Graph"),
        (lambda p: FixedLagSmoother(p, seconds=-1), "seconds is -1; give the length of the window"),
        (lambda p: FixedLagSmoother(p.with_(friction="exact"), 9), "friction 'exact', which a smoother cannot hold"),
        (lambda p: FixedLagSmoother(p.with_(every=1), 9), "has every=1, but a smoother takes each sample"),
        (lambda p: FixedLagSmoother(p.with_(estimator="hard"), 9), "estimator 'hard', whose errors need whole"),
        (lambda p: FixedLagSmoother(p.with_(residuals=[_inequality()]), 9), "an inequality, which a smoother cannot"),
        (lambda p: FixedLagSmoother(p.with_(friction_width=None), 9), "dry friction, whose width follows from"),
        (lambda p: FixedLagSmoother(rod(sigma=None), 9), "does not declare the noise of 'theta'; give"),
        (lambda _: smoother(swing(), window=2), "Problem 'rod': window is 2 steps, but a factor connects 3 steps"),
        (lambda p: FixedLagSmoother(p, 9, start=3), "start is 3; give a Solution"),
        (
            lambda p: FixedLagSmoother(p, 9, start=start(swing())[1]),
            "has 0 recordings, and a stream continues from one",
        ),
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


def test_noise_that_becomes_smaller_is_no_inertia() -> None:
    """The pendulum's released motion decays, and what disturbs it. Its frequency is known from simulations."""
    problem = load_problem(Path(__file__).parents[1] / "problems" / "pendulum.py")
    (recording,) = problem.recordings
    first = problem.with_(recordings=[recording.between(0, 1)])
    following = FixedLagSmoother(first, window=20, start=first.solve())
    for t, theta in zip(recording.t, recording.signal("theta"), strict=True):
        if t > 1:
            found = following.update(t, {"theta": theta})
    m, arm = 0.01225, 0.062
    known = m * 9.81 * arm / 120.27 - m * arm**2
    assert abs(found.values["J"] - known) < 2 * found.std_errs["J"]
