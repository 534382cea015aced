"""The inside of what ``test_readme`` tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT
from test_readme import MEASURED, PROBLEMS

from spookid import Recording
from spookid.assembly.loading import load_file

needs_data = pytest.mark.skipif("SPOOKID_DATA" not in os.environ, reason="SPOOKID_DATA is not set")


# --- problems that ship ---


@pytest.mark.parametrize("path", [p for p in PROBLEMS if p not in MEASURED], ids=lambda p: p.stem)
def test_problems_on_our_own_data_load(path: Path) -> None:
    assert load_file(path).problems


@needs_data
@pytest.mark.measured
@pytest.mark.parametrize("path", MEASURED, ids=lambda p: p.stem)
def test_problems_on_measured_data_load(path: Path) -> None:
    for problem in load_file(path).problems.values():
        assert problem.recordings
        assert problem.free


@needs_data
@pytest.mark.measured
def test_the_recording_that_ships_is_that_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOOKID_CONVERTED", str(tmp_path))
    (whole,) = load_file(ROOT / "problems" / "pendulum_free_swing.py").problems["03_dry"].recordings
    ships = Recording.from_npz(ROOT / "problems" / "data" / "pendulum.npz")
    assert np.array_equal(ships.t, whole.t)
    assert np.array_equal(ships.signal("theta"), whole.signal("theta"))
