"""Pages of results say what they were made from, and one command makes them all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "results").glob("*.md") if path.name not in ("README.md", "evaluation.md"))
sys.path.insert(0, str(ROOT / "results"))
from run import PAGES as MADE  # noqa: E402
from run import stamp, stamped  # noqa: E402


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_stamped_and_made_by_the_command(page: Path) -> None:
    found = stamped(page)
    assert found, f"{page.name}: make it by `python results/run.py {page.name}`"
    assert page.name in {name for one in MADE for name in one.names}
    commit = found["commit"].removesuffix("+")
    if (ROOT / ".git").exists():  # a shallow copy has no history
        shallow = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True
        )
        known = subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, capture_output=True, check=False)
        assert known.returncode == 0 or "true" in shallow.stdout


def test_a_stamp_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nText.\n", encoding="utf-8")
    stamp(page, "0123abc", "a machine, floor 7.00 ms")
    stamp(page, "4567def+", "a machine, floor 8.00 ms")
    text = page.read_text(encoding="utf-8")
    assert re.fullmatch(
        r"# Page\n\nText\.\n\n\*Made at commit 4567def\+ on \d{4}-\d\d-\d\d; a machine, floor 8\.00 ms\.\*\n", text
    )


def test_the_command_lists_what_it_would_make() -> None:
    command = [sys.executable, str(ROOT / "results" / "run.py"), "all", "--list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "mechanisms.md: python results/mechanisms.py, 3 min" in listed
    assert subprocess.run([*command[:2], "nothing.md"], check=False, capture_output=True, cwd=ROOT).returncode == 2
