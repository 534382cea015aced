"""The shape of the package. Its rooms, and what each may import, stand in ``pyproject.toml`` under ``importlinter``."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import spookid

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MOST_LINES, MOST_FILES, MOST_CONSTANTS = 76_954, 314, 475
"""Of the package; see ``named_numbers``."""
DOORS = ("spookid", "spookid.planar", "spookid.graphs", "spookid.robots", "spookid.studies")
COMMANDS = {"spookid.__main__": {"main", "parser"}}
"""What tests start commands by."""
HELPERS = {
    "conftest.py": "turns off the C code and the drawing of figures",
    "fixed_lag_problems.py": "factors without mechanics, for tests of the inside and a benchmark",
    "gtsam_fourbar.py": "gives another solver the same accelerations",
    "kills.py": "waits as long as a command has to end",
    "mechanisms.py": "evaluates equations of a mechanism, and one step of it, as numbers",
    "noisy.py": "draws impulses of the declared size in every step",
    "online_twins.py": "names the type of an online estimate",
    "solutions.py": "makes solutions without a fit",
    "stepper_table.py": "asks steppers what they refuse",
}
"""Helpers of tests that import the inside of the package, and what for. Benchmarks do, too: they measure its parts."""


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


def test_functions_fit_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {node.name}, {node.end_lineno - node.lineno + 1} lines"
        for path in (ROOT / "spookid").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert long == []


def named_numbers(tree: ast.Module) -> Iterator[str]:
    """Names in capitals, of a module, whose value has a number in it."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            if any(isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in ast.walk(node.value)):
                yield from filter(str.isupper, names)


def test_the_package_does_not_grow() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "spookid").rglob("*.py")]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_LINES
    assert len(texts) <= MOST_FILES
    assert sum(len([*named_numbers(ast.parse(text))]) for text in texts) <= MOST_CONSTANTS


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Modules of the package, and the names that are taken from them; None is the module itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "spookid")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "spookid":
            yield from ((node.module, alias.name) for alias in node.names)


def test_tests_use_public_names() -> None:
    """Those of the inside of the package are in ``tests/internal``."""
    public = {door: {None, *import_module(door).__all__} for door in DOORS} | COMMANDS
    public["spookid"] |= {"__version__", *(door.rpartition(".")[2] for door in DOORS[1:])}
    inside: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        file = path.relative_to(TESTS)
        if file.parts[0] in ("internal", "benchmarks"):
            continue
        for module, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if name not in public.get(module, ()):
                inside.setdefault(file.as_posix(), []).append(f"{module}: {name}")
    assert {file: names for file, names in inside.items() if file not in HELPERS} == {}
    assert set(HELPERS) <= set(inside)  # no more than need it
