"""The pages of the project: their code, their commands, their links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
DOCS = sorted(path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts)
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *DOCS, *ROOT.glob("results/*.md")]
_FENCED = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def read(path: Path) -> str:
    """Text of a page."""
    return path.read_text(encoding="utf-8")


def fenced(text: str, language: str = "") -> list[str]:
    """Content of the fenced blocks in a language."""
    return [content for _, name, content in _FENCED.findall(text) if name == language]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCED.sub("", text)


def spans(text: str) -> list[str]:
    """What stands between backticks, on one line each."""
    return [" ".join(content.split()) for _, content in _SPAN.findall(prose(text))]


def section(title: str, page: str) -> str:
    """What stands under a heading of the second level."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found


def links(text: str) -> list[str]:
    """Targets of links and figures, those to other sites left out."""
    found = _LINK.findall(_SPAN.sub("", prose(text)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Of the headings, as repository hosts make them."""
    headings = re.findall(r"^#+ +(.*?)\s*$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shell_lines(text: str) -> list[str]:
    """Lines of the blocks that are no Python, and what stands between backticks in the text."""
    blocks = [content for _, name, content in _FENCED.findall(text) if name in ("", "bash", "console", "sh", "shell")]
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()] + spans(text)


def code(text: str) -> str:
    """Its Python blocks one after another, each on the lines where it stands."""
    lines = [""] * text.count("\n")
    for block in _FENCED.finditer(text):
        if block[2] == "python":
            first = text.count("\n", 0, block.start(3))
            lines[first : first + block[3].count("\n")] = block[3].splitlines()
    return "\n".join(lines)


def run(path: Path, folder: Path) -> dict[str, Any]:
    """Run a page's code in a folder that has ``problems``, as its reader would; the names that it leaves behind."""
    (folder / "problems").symlink_to(ROOT / "problems")
    names: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Figure, "savefig", lambda _, file, **__: Path(file).write_bytes(b""))  # drawn by other tests
        exec(compile(code(read(path)), str(path.relative_to(ROOT)), "exec"), names)
    return {**names, "folder": folder}
