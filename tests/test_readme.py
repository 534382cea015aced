"""What the README says runs, and the problems that ship load."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pages import ROOT, fenced, read, section

from spookid import Status, load_problem
from spookid.__main__ import parser

README = read(ROOT / "README.md")
PROBLEMS = sorted((ROOT / "problems").glob("*.py"))
CONVERTED = [path.name for path in PROBLEMS if "from data.convert" in path.read_text(encoding="utf-8")]
MEASURED = [  # and the files that load such a file
    path for path in PROBLEMS if path.name in CONVERTED or any(f'"{n}"' in path.read_text("utf-8") for n in CONVERTED)
]


# --- the README ---


def test_the_quick_start_is_one_line_to_solve_and_one_to_test() -> None:
    blocks = fenced(section("Quick start", README))
    assert [block.count("\n") for block in blocks] == [1, 1]
    solve, test = blocks
    assert "pip install" in solve
    assert "pip install" in test
    command = shlex.split(solve.rpartition("&&")[2])
    assert Path(command[0]).name == "spookid"
    assert parser().parse_args(command[1:]).command == "solve"
    assert "-m pytest" in test
    path = ROOT / command[2]
    assert path.is_file()
    assert path not in MEASURED  # it needs no data but those that ship


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 500


# --- problems that ship ---


@pytest.mark.study  # the ten lines of the README are the same fit in test_docs, its numbers are in tests/golden
def test_the_measured_pendulum_that_ships_converges() -> None:
    solution = load_problem(ROOT / "problems" / "pendulum.py").solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations < 30
    # m g l/(J + m l^2), which a simulation-error fit of the same release puts at 120.27 1/s^2
    J, m, l = solution["J"].estimate, 0.01225, 0.062
    assert m * 9.81 * l / (J + m * l**2) == pytest.approx(120.27, abs=0.15)
    assert 0 < solution["c"].std_err < 0.1 * solution["c"].estimate
