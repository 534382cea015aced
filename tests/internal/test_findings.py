"""Kinds of findings: their order, what one makes superfluous, and that each says what to do and has documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from solutions import pendulum_problem, solution

import spookid
from spookid import Finding
from spookid.estimation.questions import asking
from spookid.results.findings import KINDS, ranked

SOURCE = Path(spookid.__file__).parent
PAGE = (SOURCE.parent / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8")
ADVICE = re.compile(
    r"\?|(\bspookid \w+`)|\b[Aa]dd\b"
    r"|\b([Tt]ake|[Gg]ive|[Ff]it|[Ll]eave|[Cc]orrect|[Mm]easure|[Rr]aise|[Tt]rust|[Dd]eclare)\b"
    r"|\b([Uu]se|[Tt]ry|[Ll]ook|[Bb]egin|[Ss]imulate|[Mm]ultiply|[Cc]onvert|[Ss]hift|[Ss]olve|[Rr]ecord|helps?)\b"
    r"|There is nothing to do|until the model has it|\bmay be a parameter\b"
)
ELSEWHERE = {"fit.stopped", "contacts.schedule", "samples.outliers"}
"""What makes the sentences of these says what to do, which others test."""


def findings(*codes: str) -> tuple[Finding, ...]:
    return tuple(Finding(code, effect=code) for code in codes)


def test_what_changes_the_answer_stands_first() -> None:
    wanted = findings(
        "parameters.undetermined",
        "prior.contradicted",
        "errors.white-noise",
        "step.error",
        "step.extrapolated",
        "stepper.rigid",
        "constraints.redundant",
        "of.another.version",
    )
    assert ranked([*reversed(wanted), wanted[2]]) == wanted


@pytest.mark.parametrize(
    ("cause", "effects"),
    [
        ("residuals.autocorrelated", ["errors.white-noise"]),
        ("noise.given-refuted", ["motion.unexplained", "residuals.autocorrelated", "residuals.excess"]),
    ],
)
def test_what_another_one_explains_is_not_reported(cause: str, effects: list[str]) -> None:
    (remark,) = findings("weight.paper")
    (first,) = findings(cause)
    assert ranked([remark, *findings(*effects), first]) == (first, remark)
    assert ranked([remark, *findings(*effects)]) == (*findings(*effects), remark)


def test_a_finding_is_said_in_sentences_and_has_a_severity() -> None:
    found = Finding("recording.gap", ("run",), {"cost": 2.0}, "A gap.", "Why?", "Look.")
    assert (found.text, found.severity, found.doubts) == ("A gap. Why? Look.", "warning", True)
    assert (Finding("step.chosen").severity, Finding("of.another.version").severity) == ("note", "note")
    assert Finding("fit.stopped").severity == "error"
    assert str(found).startswith("recording.gap")


# --- all that the package can report ---


def calls() -> Iterator[tuple[str, str]]:
    """Code, or what of it is written there, and words of each finding that is made."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            known: dict[str, list[ast.expr]] = {}
            for node in (*tree.body, *ast.walk(scope)):
                if isinstance(node, ast.Assign):
                    for target in (t for t in ast.walk(node.targets[0]) if isinstance(t, ast.Name)):
                        known.setdefault(target.id, []).append(node.value)
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                    "Finding",
                    "_question",
                    "_exceeding",
                ):
                    parts = [*node.args, *(keyword.value for keyword in node.keywords)]
                    yield words(parts[0], known), " ".join(words(part, known) for part in parts[1:])


def words(node: ast.expr, known: dict[str, list[ast.expr]]) -> str:
    """All that is written in an expression, and in what its names were given."""
    found = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    for name in {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & set(known):
        others = {other: values for other, values in known.items() if other != name}
        found += [words(value, others) for value in known[name]]
    return " ".join(found)


def test_every_finding_has_a_kind_and_says_what_to_do() -> None:
    found = list(calls())
    said = " ".join(code for code, _ in found).split()
    assert {code for code in said if re.fullmatch(r"[a-z-]+\.[a-z-]+", code)} <= set(KINDS)
    made = {code for code in KINDS if code in said or code.partition(".")[2] in said}
    assert set(KINDS) - made <= {"result.earlier", "samples.late", "samples.crowded"}
    first = list(KINDS)[: list(KINDS).index("contacts.unsettled")]
    assert [
        pair for pair in found if pair[0] in first and pair[0] not in ELSEWHERE and not ADVICE.search(pair[1])
    ] == []


@pytest.mark.parametrize("code", [code for code in KINDS if code != "result.earlier"])
def test_the_page_on_troubleshooting_has_every_code(code: str) -> None:
    assert f"`{code}`" in PAGE


def test_a_mass_that_vanishes_beside_a_wrong_sign_is_no_answer() -> None:
    vanished = Finding("mass.vanished", ("body",))
    asked = Finding("question.model", ("run",), {"signals": ["f"], "unit": "-1"})
    fitted, plain = (solution().changed(findings=own) for own in ((vanished,), ()))
    assert not fitted.contradicted
    answered = asking(pendulum_problem(), fitted, None, [asked])
    assert answered.contradicted
    assert any("Is the sign or unit of f wrong?" in one for one in answered.notices)
    assert not asking(pendulum_problem(), plain, None, [asked]).contradicted
    assert not asking(pendulum_problem(), fitted, None, []).contradicted
