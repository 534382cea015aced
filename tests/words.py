"""Private words, long sentences and long pages of the documentation: ``python -m tests.words`` lists them."""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "results/README.md", "results/evaluation.md")),
    *sorted(path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts),
]
SCRIPTS = sorted(ROOT.glob("problems/*.py"))
SOURCE = ROOT / "spookid"
LONGEST_SENTENCE, LONGEST_PAGE = 30, 1500
"""In words."""

_LIST = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
PRIVATE = {
    re.compile(pattern, re.IGNORECASE): standard
    for pattern, _, standard in (line.partition(" = ") for line in _LIST.splitlines() if not line.startswith("#"))
}
"""What not to write, and what to write."""
HEADLESS = re.compile(r"(What|Where|Who|Of)\b(?!.*\?$)")
"""Openings of sentences that have no subject yet; questions may have them."""
ARGUMENT = re.compile(r"^ +\w+(, \w+)*:(?= )", re.MULTILINE)
"""Names of arguments and attributes in sections of docstrings: they are code."""


def hits(text: str) -> Iterator[str]:
    """Each private word of a text with its remedy."""
    for pattern, standard in PRIVATE.items():
        yield from (f"{found[0]!r}: write {standard}" for found in pattern.finditer(text))


def prose(page: str) -> list[str]:
    """Paragraphs, items of lists and cells of tables of a page, without code, formulas and targets of links."""
    text = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.DOTALL)
    text = re.sub(r"^(`{3,}).*?^\1$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$|(?<![\\$])\$[^$\n]+\$", "x", text, flags=re.DOTALL)
    text = re.sub(r"(`+)(?!`).*?\1", "X", text, flags=re.DOTALL)
    text = re.sub(r"(!?\[[^\]]*\])\([^)]*\)", r"\1", text)
    text = re.sub(r"^\(.*\)=$|^( {4}).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *([-*]|\d+\.) |^#+ ", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\|.*$", lambda row: "\n\n" + "\n\n".join(row[0].strip("|").split("|")) + "\n", text, flags=re.M)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if re.search(r"\w", part)]


def sentences(page: str) -> Iterator[str]:
    """One by one."""
    for part in prose(page):
        yield from re.split(r"(?<=[.?!])[\])]* (?=[A-ZΑ-Ωα-ω*\[(]|spookid)", part)


def of_page(page: str) -> Iterator[str]:
    """All that is to be rewritten on a page."""
    for part in prose(page):
        yield from (f"{hit}, in: {part[:90]}" for hit in hits(part))
    for sentence in sentences(page):
        words = len(re.findall(r"[\w’'.,-]*\w[\w’'.,-]*", sentence))
        if words > LONGEST_SENTENCE:
            yield f"{words} words: {sentence[:90]}"
        if HEADLESS.match(sentence):
            yield f"begins without a subject: {sentence[:90]}"
    length = len(" ".join(prose(page)).split())
    if length > LONGEST_PAGE:
        yield f"{length} words in all"


def of_module(source: str) -> Iterator[str]:
    """Private words of the strings that users read: all but docstrings of what is private."""
    tree = ast.parse(source)
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    hidden = set()
    for scope in (node for node in ast.walk(tree) if isinstance(node, scopes)):
        first = scope.body[0] if scope.body else None
        if isinstance(first, ast.Expr) and isinstance(scope, ast.Module) | getattr(scope, "name", "").startswith("_"):
            hidden.add(id(first.value))
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for node in (node for node in texts if id(node) not in hidden and " " in node.value):
        text = ARGUMENT.sub("", re.sub(r"(`+).*?\1", "x", node.value))
        yield from (f"{node.lineno}: {hit}" for hit in hits(text))


def of_script(path: Path) -> Iterator[str]:
    """Private words of the comments and strings of a file."""
    with path.open("rb") as lines:
        for token in tokenize.tokenize(lines.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield from (f"{token.start[0]}: {hit}" for hit in hits(re.sub(r"(`+).*?\1", "x", token.string)))


def of_package() -> Iterator[str]:
    """Those of all modules, with file and line."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield from (f"{path.relative_to(ROOT)}:{hit}" for hit in of_module(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    wanted = [ROOT / name for name in sys.argv[1:]] or PAGES
    found = [f"{path.relative_to(ROOT)}: {hit}" for path in wanted for hit in of_page(path.read_text(encoding="utf-8"))]
    if not sys.argv[1:]:
        found += [f"{path.relative_to(ROOT)}:{hit}" for path in SCRIPTS for hit in of_script(path)]
        found += of_package()
    sys.stdout.write("\n".join([*found, f"{len(found)} in all", ""]))
