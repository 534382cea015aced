"""Studies and benchmarks that are run by hand find what they import."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("results/*.py"), *ROOT.glob("tests/benchmarks/**/*.py")])


def imported(script: Path) -> Iterator[tuple[str, str]]:
    """Names that a script takes from the package, with their modules."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "spookid":
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_script_imports_is_there(script: Path) -> None:
    for module, name in imported(script):
        found = import_module(module)
        assert hasattr(found, name) or import_module(f"{module}.{name}")
