"""A check says how long a fit takes, to a factor of 2, on any machine: by processor time in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spookid import load_problem
from spookid.assembly.assembly import assemble
from spookid.estimation import fitting
from spookid.report import export
from spookid.transcription import factor_kernels

PROBLEMS = ("pendulum", "furuta_release", "fourbar", "five_bar", "slider_crank", "planar_fourbar")


def taken(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


@pytest.mark.study
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_fit_takes_what_is_said(name: str, tmp_path: Path) -> None:
    problem = load_problem(f"problems/{name}.py")
    assembly, building = taken(lambda: assemble(problem))
    said = fitting.seconds(assembly, building)
    factor_kernels._made.clear()  # as in a process that has forecast nothing
    _, needed = taken(lambda: export.save(problem.solve(), tmp_path / name, figures=False))
    assert 0.5 < said / needed < 2.0
