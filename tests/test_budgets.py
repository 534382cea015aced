"""A fit of a model that the data contradict comes to an end, and says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cranes import crane, record

from spookid import Recording, Status
from spookid.__main__ import main


def in_degrees(recording: Recording) -> Recording:
    signals = recording.signals
    return Recording(recording.t, {**signals, "x": 57.3 * signals["x"]}, name=recording.name)


def test_a_sensor_in_another_unit_ends_with_a_verdict_after_few_iterations() -> None:
    found = crane(in_degrees(record(0))).solve()
    assert found.status is not Status.CONVERGED or found.contradicted
    assert len(found.stages) <= 6


def test_the_command_ends_with_exit_status_three(tmp_path: Path) -> None:
    recording = in_degrees(record(0))
    recording.to_csv(tmp_path / "log.csv")
    (tmp_path / "p.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom cranes import crane\n"
        f"from spookid import Recording\nproblem = crane(Recording.from_csv({str(tmp_path / 'log.csv')!r}))\n"
    )
    assert main(["solve", str(tmp_path / "p.py"), "--no-figures", "--quiet", "--out", str(tmp_path / "out")]) == 3


def test_a_right_model_is_not_ended() -> None:
    found = crane(record(3)).solve()
    assert found.status is Status.CONVERGED
    assert np.isfinite(found.log_likelihood)
