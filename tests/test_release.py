"""What a release consists of says the same everywhere: versions, dependencies, platforms."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import spookid

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE = (ROOT / ".ci" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8")
CONDA = {"matplotlib-base": "matplotlib", "msgspec-python": "msgspec"}


def test_the_recipe_needs_what_the_package_needs() -> None:
    needed = dict(re.findall(r"^    - ([\w.-]+) (>=[\d.]+)$", RECIPE.partition("  run:")[2], re.MULTILINE))
    declared = dict(re.fullmatch(r"([\w-]+)(>=[\d.]+)", one).groups() for one in PROJECT["project"]["dependencies"])
    assert {CONDA.get(name, name): bound for name, bound in needed.items()} == declared


def test_the_wheels_are_built_for_all_platforms() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert all(system in workflow for system in ("ubuntu", "-arm", "macos", "windows"))
    assert ".ci/check_wheel.py" in workflow
    assert ".ci/check_wheel.py" in PROJECT["tool"]["cibuildwheel"]["test-command"]


def test_the_version_is_said_once() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {spookid.__version__}\n" in citation
    released = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert released is None or released[1] == spookid.__version__
