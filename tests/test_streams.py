"""Streams that are not as the first seconds were: stamps beside the steps, samples left out, inputs that stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from online_twins import BEGIN, SIGMA, followed, later, measured, off, rod, rows, smoother, start, swing

from spookid import FixedLagSmoother, Monitor, Recording

WINDOW = 20
"""Steps."""


@pytest.mark.study
def test_a_clock_may_drift_off_the_steps_of_the_first_seconds() -> None:
    run = swing()
    beside = np.where(run.t > BEGIN, 2e-4 * np.random.default_rng(0).uniform(-1, 1, len(run.t)), 0.0)
    beside[-1] = 0.0
    angle = run.signals["theta"] + beside * run.v[:, 0, 4]
    stamps = np.unique([*run.t, *(run.t + beside)])
    columns = {name: np.full(len(stamps), np.nan) for name in run.signals}
    columns["u"][np.searchsorted(stamps, run.t)] = run.signals["u"]
    columns["theta"][np.searchsorted(stamps, run.t + beside)] = angle
    online = smoother(run, window=WINDOW)
    estimate = followed(online, Recording(stamps, columns, run.name).between(BEGIN + 1e-3, 99.0))
    assert online.intake.crowded == online.intake.late == 0
    assert not estimate.notices
    whole = rod().with_(recordings=[Recording(stamps, columns, run.name, several_clocks=True)]).solve()
    assert np.max(np.abs(off(estimate, whole))) < 0.1
    assert abs(estimate.positions["pin"] - run.signals["theta"][-1]) < 4 * SIGMA


def test_samples_that_are_left_out_are_told(tmp_path: Path) -> None:
    run = swing()
    online = smoother(run, window=WINDOW)
    told: list[tuple[str, ...]] = []
    for t, values in list(rows(later(run)))[1:21]:
        for i in (4, 3, 2, 1):
            online.update(t - i * 1e-3, {"theta": values["theta"]})
        told.append(online.update(t, values).notices)
    assert online.intake.crowded == 38  # 2 of 4 at each step, and all at the first
    assert told[0] == ()
    notice = told[-1][-1]
    assert notice.startswith("since 2.0")
    assert "more samples come between two steps" in notice
    online.save(tmp_path / "stream.npz")
    assert FixedLagSmoother.resume(start(run)[0], tmp_path / "stream.npz").estimate.notices[-1] == notice
    for t, values in list(rows(later(run)))[21:]:
        estimate = online.update(t, values)
    assert not any("left out" in notice for notice in estimate.notices)


def test_an_input_that_stops_is_told(tmp_path: Path) -> None:
    run = swing()
    online = smoother(run, window=WINDOW)
    told = {}
    for t, values in rows(later(run)):
        told[t] = online.update(t, values if t < 2.2 else {"theta": values["theta"]})
    assert all(not known.stopped and not known.notices for t, known in told.items() if t < 2.24)
    last = online.estimate
    assert last.stopped == {"u": 2.195}
    assert last.notices[-1].startswith("input 'u' has no sample after 2.195 s, and keeps its last value")
    assert "input 'u'" in str(last)
    online.save(tmp_path / "stream.npz")
    resumed = FixedLagSmoother.resume(start(run)[0], tmp_path / "stream.npz")
    assert resumed.estimate.stopped == last.stopped
    assert not resumed.update(2.605, {"theta": 0.0, "u": 0.0}).stopped


def test_an_input_that_is_told_when_it_changes_has_not_stopped() -> None:
    run = swing()
    first, known = start(run)
    u = run.signals["u"].copy()
    u[(np.arange(len(u)) % 3 > 0) | ((np.arange(len(u)) > 200) & (np.arange(len(u)) < 260))] = np.nan
    seldom = measured(run).with_signals(u=u)
    online = FixedLagSmoother(first.with_(recordings=[seldom.between(0, BEGIN)]), WINDOW, start=known)
    for t, values in rows(later(seldom)):
        assert not online.update(t, values).stopped, t


@pytest.mark.study
def test_a_monitor_forgets_what_was_told_without_an_input() -> None:
    run = swing(duration=4.0)
    whole = rod().with_(recordings=[measured(run)]).solve()
    monitor, plain = Monitor(smoother(run, window=WINDOW)), smoother(run, window=WINDOW)
    for t, values in rows(later(run)):
        taken = {"theta": values["theta"]} if 2.5 < t < 3.0 else values
        monitor.update(t, taken)
        plain.update(t, taken)
    assert not monitor.changes
    assert np.max(np.abs(off(plain.estimate, whole))) > 20
    assert np.max(np.abs(off(monitor.smoother.estimate, whole))) < 3
