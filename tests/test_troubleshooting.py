"""The page on failures has every status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spookid import Status

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "failures.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_heading(status: Status) -> None:
    assert f"`{status.value}`" in HEADINGS
