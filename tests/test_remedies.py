"""Every status and every refusal says what to do: all messages that the package can issue are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_faults import C_FREE, T, problem

import spookid
from spookid import Recording, Status

SOURCE = Path(spookid.__file__).parent
REMEDY = re.compile(r"; |\b(must|choose|use|give|take|needs?|neither|pip install)\b")
"""In refusals: a clause of its own, or what is asked for."""
PASSED_ON = re.compile(r"\{(error|text|remedy|shape|told|why|\w+\.obstacle|\w+\.detail|_wrong\(.*\))\}$")
"""Refusals that end with what another one, or its words, says."""


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """All that the package says, with the files that say it."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    telling = {path: said for path, said in files.items() if "raise ProblemError" in said}
    return [(path, node) for path, said in telling.items() for node in ast.walk(ast.parse(said))]


def text(node: ast.expr) -> str:
    """A message as it is written, numbers and names in braces."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return text(node.left) + text(node.right)
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{ast.unparse(getattr(node, 'value', node))}}}"


def refusals() -> Iterator[tuple[str, str]]:
    """Place and text of each ``raise ProblemError``."""
    for path, node in nodes():
        raised = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(raised, ast.Call) and getattr(raised.func, "id", "") == "ProblemError":
            yield f"{path.relative_to(SOURCE)}:{raised.lineno}", text(raised.args[0])


def test_every_refusal_says_what_to_do() -> None:
    found = dict(refusals())
    assert len(found) > 700
    mute = {place: said for place, said in found.items() if not (REMEDY.search(said) or PASSED_ON.search(said))}
    assert mute == {}


@pytest.mark.parametrize("status", Status)
def test_every_status_says_what_to_do(status: Status) -> None:
    assert status.advice.endswith(".")
    assert status in (Status.CONVERGED, Status.INTERRUPTED) or re.search(r": \w+", status.advice)


def test_a_fit_that_stopped_names_the_recording_that_holds_the_cost() -> None:
    made = problem(C_FREE)
    slow = Recording(T, {"angle": 0.5 * T}, name="wrong")
    found = made.with_(recordings=[*made.recordings, slow]).solve(max_iterations=1)
    assert found.status is Status.MAX_ITERATIONS
    (held,) = (finding.text for finding in found.findings if finding.code == "fit.stopped")
    assert "recording 'wrong' has " in held
    assert "is 'Δp hinge': fit this recording alone" in held
    assert not any(finding.code == "fit.stopped" for finding in made.solve().findings)
