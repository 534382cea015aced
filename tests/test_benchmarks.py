"""The benchmarks run, at a size that takes no time. What they show is read by people."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import shooting as simulated
from benchmarks.rows import Bench, scaling, shooting
from benchmarks.shooting import COMPILER, estimates, single_shooting
from benchmarks.table import markdown, text

from spookid import Spook, Status

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason="SciPy's simulation is compiled")

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def unoptimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that optimizes takes longer than what it makes."""
    monkeypatch.setattr(simulated, "OPTIONS", ["-O0"])


@pytest.mark.study
def test_measurements_are_in_a_table_and_on_a_page():
    bench = Bench(60, 1, time.perf_counter)
    rows = [*shooting(bench), *scaling(bench, 1000)]
    lines = text(rows).splitlines()
    assert lines[0].split() == ["what", "median", "to", "floor", "target"]
    assert sum("SciPy single shooting" in line for line in lines) == 2
    assert len(lines) == len(rows) + 1 == 6
    assert all(f"| {row.what} | " in markdown(rows, "") for row in rows)


@pytest.mark.study
def test_the_reference_finds_the_parameters_from_guesses_near_them():
    truth = {"J_Azz": 3e-3, "J_Byy": 4e-3, "b_1": 1e-3, "b_2": 1e-4}
    found = estimates(single_shooting(300)(1.03 * np.array(list(truth.values()))))
    assert found == pytest.approx(truth, rel=0.3)
    assert found["J_Byy"] == pytest.approx(truth["J_Byy"], rel=0.01)


@pytest.mark.study
def test_benchmarks_run_and_show_each_target_beside_its_figure(tmp_path):
    page = tmp_path / "benchmarks.md"
    command = [sys.executable, "tests/benchmarks", "--steps", "60", "--repeats", "1", "--largest", "1000"]
    done = subprocess.run([*command, "--markdown", str(page)], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["what", "median", "to", "floor", "target"]
    for what, target in {
        "SPOOK, 13 parameters: an iteration": "≤ 0.93 floors",
        "SPOOK, 13 parameters: memory of a step, all of a solve": "≤ 35 kB",
        "rigid, joint coordinates, 4 parameters, known noise: loop": "≤ 0.47 floors",
        "rigid Variational, 4 parameters: an iteration": "≤ 0.7 floors",
        "SPOOK, 13 parameters: set-up, the first": "≤ 4 s",
        "spookid solve with figures": "≤ 1 s",
    }.items():
        (line,) = (line for line in lines if line.startswith(what))
        assert target in line
        assert f"| {what} | " in page.read_text(encoding="utf-8")
    assert sum("SciPy single shooting" in line for line in lines) == 2


@pytest.mark.study
def test_lifted_multipliers_serve_thirteen_parameters():
    from benchmarks.problems import furuta

    fits = [furuta(Spook(multipliers), 200, 13).solve() for multipliers in ("eliminated", "lifted")]
    assert all(fit.status is Status.CONVERGED for fit in fits)
    assert fits[1].iterations <= fits[0].iterations + 4
    assert fits[1].cost.total == pytest.approx(fits[0].cost.total, rel=0.01)
