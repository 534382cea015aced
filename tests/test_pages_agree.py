"""Summary, ``print``, notebook and report show a solution with the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from solution_pages import agree

from spookid.__main__ import main

PROBLEMS = Path(__file__).parents[1] / "problems"


@pytest.mark.parametrize("name", ["pendulum", "furuta_release"])
def test_all_pages_of_a_result_agree_to_the_digit(name: str, tmp_path: Path) -> None:
    assert main(["solve", str(PROBLEMS / f"{name}.py"), "--out", str(tmp_path / "out"), "--no-figures", "--quiet"]) == 0
    agree(tmp_path / "out")
