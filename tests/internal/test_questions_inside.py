"""The inside of what ``test_questions`` tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_questions import PENDULUM, T, faster, pushed, slide, swing

from spookid import ProblemError
from spookid.__main__ import main
from spookid.assembly import checks
from spookid.data import sampling
from spookid.estimation.explained import Balance, input_lag

# --- what is asked ---


def test_nothing_is_asked_of_accelerations_that_are_noise() -> None:
    noise = 0.03 * np.random.default_rng(1).normal(size=len(T))
    noisy = slide(change=lambda r: r.with_signals(x=r.signal("x") + noise))
    assert Balance(noisy).along(noisy.recordings[0]).unexplained[0] > 0.5
    assert noisy.questions() == ()


def test_a_lag_has_an_error() -> None:
    problems = [slide(0.042, pushed(seed)) for seed in range(8)]  # samples hold for 4 ms, 2 ms late on average
    lags = [input_lag(Balance(problem).along(problem.recordings[0])) for problem in problems]
    apart = np.array([(lag.late - 0.04) / lag.error for lag in lags if lag is not None])
    assert len(apart) == len(lags)
    assert 0.3 < np.sqrt(np.mean(apart**2)) < 3  # pushes last longer than a block: errors may be half of what they are


# --- the commands ---


def test_solve_asks_first_and_the_result_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PENDULUM.read_text().replace("Path(__file__).parent", f"Path({str(PENDULUM.parent)!r})")
    held = "from dataclasses import replace\nrun = Recording.from_npz(DATA).between(0, 0.2)\n"
    held += "run = replace(run, t=1e3 * run.t)\n"
    text = text.replace("problem = Problem(", f"{held}problem = Problem(").replace(
        "[Recording.from_npz(DATA)]", "[run]"
    )
    (tmp_path / "swing.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "available", lambda: 5e7)
    assert main(["solve", "swing.py"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "spookid: pendulum: Is this meant? Recording 'pendulum' has a sample every 1 s and lasts 199 s, "
    )
    assert "has a sample every 1 s, which are 200 steps of 0.005 s; give times in seconds" in second
    assert not Path("results").exists()


def test_states_alone_that_exceed_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = swing(lambda r: r)
    monkeypatch.setattr(checks, "available", lambda: 1e5)
    with pytest.raises(ProblemError, match=r"914 steps of 0.005 s.*0\.1 MB may be had; take a larger step"):
        problem.solve()
    monkeypatch.setattr(sampling, "available", lambda: 1e8)
    with pytest.raises(ProblemError, match="see that times are in seconds"):
        swing(faster(1e4))


def test_what_may_be_had_is_told() -> None:
    assert 1e8 < checks.available() < 1e15
