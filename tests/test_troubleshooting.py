"""The page on troubleshooting speaks of every status and of every notice that has a rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import spookid.results.notices as notices
from spookid import Status

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
OPENINGS = sorted(value for name, value in vars(notices).items() if name.isupper() and isinstance(value, str))


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_heading(status: Status) -> None:
    assert f"`{status.value}`" in HEADINGS


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_notice_has_a_heading(opening: str) -> None:
    assert any(heading.startswith(f"*{opening}") for heading in HEADINGS)
