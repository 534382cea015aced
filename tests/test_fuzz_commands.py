"""Every command with each of its arguments replaced by nonsense: one line and exit status 2, never a traceback."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import broken_files
import pytest

from spookid.__main__ import main, parser

NONSENSE = (
    "",
    "nonsense",
    "-1",
    "nan",
    "1e300",
    "0",
    "a\nb",
    "nul\0",
    "é=1=2",
    "x=",
    "=1",
    "..",
    "[1",
    "nowhere/x.csv",
)
"""In the place of any value."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    (actions,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(actions.choices)


def right(action: argparse.Action, folder: Path) -> list[str]:
    """A value that a command needs before it looks at the others."""
    values = {"problem": folder / "p.py", "log": folder / "run.csv", "out": folder / "out", "over": "step=0.1,0.2"}
    words = {"parameter": "J", "duration": "0.5", "robot": folder / "arm.urdf", "body": "rod", "directory": folder}
    value = str({**values, **words}.get(action.dest, folder / "nowhere"))
    return [action.option_strings[0], value] if action.option_strings else [value]


def lines(command: str, folder: Path) -> Iterator[list[str]]:
    """Command lines with one argument that is nonsense."""
    actions = [a for a in parsers()[command]._actions if not isinstance(a, argparse._HelpAction)]
    needed = [a for a in actions if a.required or not a.option_strings]
    for action in actions:
        rest = [word for other in needed if other is not action for word in right(other, folder)]
        for value in NONSENSE if action.nargs != 0 else ("=3",):
            flag = action.option_strings[-1:]
            yield [command, *rest, *([f"{flag[0]}={value}"] if flag else [value])]


def statuses(command: str, folder: Path) -> list[str]:
    """What is wrong with the answers."""
    found = []
    for line in lines(command, folder):
        said = io.StringIO()
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            try:
                status = main(line)
            except SystemExit as end:
                status = int(end.code or 0)
            except Exception as error:
                found.append(f"{line}: {type(error).__name__}: {error}")
                continue
        told = [row for row in said.getvalue().splitlines() if "error:" in row]
        if status not in (0, 2, 3) or (status == 2 and len(told) != 1) or "Traceback" in said.getvalue():
            found.append(f"{line}: exit {status}: {told}")
    return found


@pytest.mark.study
@pytest.mark.parametrize("command", sorted(parsers()))
def test_commands(command, tmp_path, monkeypatch):
    (tmp_path / "p.py").write_text(broken_files.PROBLEM, encoding="utf-8")
    (tmp_path / "run.csv").write_text("t,theta\n0,0.1\n0.1,0.2\n0.2,0.1\n0.3,0\n", encoding="utf-8")
    (tmp_path / "arm.urdf").write_text(broken_files.robot_files.ARM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert statuses(command, tmp_path) == []
