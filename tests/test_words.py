"""Private words stay out of the documentation, and become fewer in what the package says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from words import LONGEST_SENTENCE, PAGES, ROOT, SCRIPTS, hits, of_module, of_package, of_page, of_script

IN_THE_PACKAGE = 1
"""Private words in strings of ``spookid`` that users read: one, a name that logs give to their column of times."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_plain_words_short_sentences_and_one_subject(path: Path) -> None:
    assert list(of_page(path.read_text(encoding="utf-8"))) == []


def test_no_line_of_a_page_is_lost_as_a_comment() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in [*PAGES, *ROOT.glob("results/*.md")]}
    texts = {path: re.sub(r"^(`{3,}).*?^\1$", "", page, flags=re.DOTALL | re.MULTILINE) for path, page in pages.items()}
    assert [path for path, text in texts.items() if re.search(r"^ *%", text, re.MULTILINE)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_problem_that_ships_has_plain_words(path: Path) -> None:
    assert list(of_script(path)) == []


def test_the_package_has_no_private_words() -> None:
    found = list(of_package())
    assert len(found) <= IN_THE_PACKAGE, "\n".join([*found, f"{len(found)} in all; `python -m tests.words` lists them"])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The data do not see J.", "The data do not determine J."),
        ("Estimates hang on the weight.", "Estimates depend on the weight."),
        ("A notice tells it.", "A warning reports it."),
        ("The twin lacks friction.", "The synthetic data have no friction."),
    ],
)
def test_a_private_word_is_found(text: str, plain: str) -> None:
    assert list(hits(text))
    assert not list(hits(plain))


def test_a_page_is_searched_without_its_code() -> None:
    page = "# Title\n\nGive `hangs on` a value.\n\n```\ntold\n```\n\n| a twin | b |\n|---|---|\n"
    assert len(list(of_page(page))) == 1
    long = " ".join(["word"] * (LONGEST_SENTENCE + 1)) + "."
    assert list(of_page(long))
    assert not list(of_page(" ".join(["word"] * LONGEST_SENTENCE) + "."))
    assert list(of_page("What the model lost is gone."))
    assert not list(of_page("What does it mean?"))


def test_a_module_is_searched_without_its_private_docstrings() -> None:
    said = '    """It tells."""'
    source = ['"""What a module tells."""', "def _inner():", said, "def outer():", said, '    return "It tells."', ""]
    assert len(list(of_module("\n".join(source)))) == 2
