"""The shape of the package. Its rooms, and what each may import, stand in ``pyproject.toml`` under ``importlinter``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import spookid

ROOT = Path(__file__).parents[1]


def test_imports_point_down_and_in_no_circle() -> None:
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert found.returncode == 0, found.stdout


def test_the_package_imports_nothing_until_it_is_asked() -> None:
    code = "import spookid, sys; print(*sorted({'casadi', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_public_names_are_where_the_package_says() -> None:
    for name in spookid.__all__:
        assert getattr(spookid, name) is not None
    assert set(spookid.__all__) <= set(dir(spookid))
    with pytest.raises(AttributeError, match="nonsense"):
        spookid.nonsense  # noqa: B018


def test_no_file_is_longer_than_can_be_read() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "spookid").rglob("*.py")}
    assert [f"{p.relative_to(ROOT)}: {n}" for p, n in lengths.items() if n > 400] == []
