"""Pages of results say what they were made from, and one command makes them all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "results").glob("*.md") if path.name not in ("README.md", "evaluation.md"))
VERDICTS = ("reproduced", "better", "weaker", "differs", "missing")
"""Of the index's tables; an item that is broken is repaired or called what it is."""
ITEMS = {
    "Marklund": ("Fig. 1-7 Fig. G.8-G.12 Table 1-4 Table G.5", 17),
    "Blanco": ("Fig. 1-8 Table 1-2", 10),
    "Martinez": ("Fig. 1-17 Table I-II", 19),
}
"""Figures and tables of each paper, and how many they are."""
ROMAN = {"I": "1", "II": "2"}
sys.path.insert(0, str(ROOT / "results"))
from run import PAGES as MADE  # noqa: E402
from run import stamp, stamped  # noqa: E402


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_stamped_and_made_by_the_command(page: Path) -> None:
    found = stamped(page)
    assert found, f"{page.name}: make it by `python results/run.py {page.name}`"
    assert page.name in {name for one in MADE for name in one.names}
    commit = found["commit"].removesuffix("+")
    if (ROOT / ".git").exists():  # a shallow copy has no history
        shallow = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True
        )
        known = subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, capture_output=True, check=False)
        assert known.returncode == 0 or "true" in shallow.stdout


def test_a_stamp_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nText.\n", encoding="utf-8")
    stamp(page, "0123abc", "a machine, floor 7.00 ms")
    stamp(page, "4567def+", "a machine, floor 8.00 ms")
    text = page.read_text(encoding="utf-8")
    assert re.fullmatch(
        r"# Page\n\nText\.\n\n\*Made at commit 4567def\+ on \d{4}-\d\d-\d\d; a machine, floor 8\.00 ms\.\*\n", text
    )


def test_the_command_lists_what_it_would_make() -> None:
    command = [sys.executable, str(ROOT / "results" / "run.py"), "all", "--list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "mechanisms.md: python results/mechanisms.py, 3 min" in listed
    assert subprocess.run([*command[:2], "nothing.md"], check=False, capture_output=True, cwd=ROOT).returncode == 2


def claims() -> list[str]:
    """Items of the paper in ``docs`` that name pages of results for their numbers."""
    paper = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    items = re.findall(r"^- .*?(?=^- |^$|\Z)", paper, re.MULTILINE | re.DOTALL)
    return [" ".join(item.split()) for item in items if "../results/" in item]


@pytest.mark.parametrize("claim", claims())
def test_numbers_of_the_paper_are_on_the_pages_that_it_names(claim: str) -> None:
    pages = [path.read_text(encoding="utf-8") for path in PAGES if f"../results/{path.name}" in claim]
    numbers = re.findall(r"\b\d[\d.,]*(?:e-?\d+)?(?<![.,])", re.sub(r"\(\[.*?\)\)|UR10e", "", claim))
    assert pages
    assert [
        one for one in numbers if not any(re.search(rf"(?<![\d.]){re.escape(one)}(?!\d)", page) for page in pages)
    ] == []


def rows(paper: str) -> list[list[str]]:
    """Cells of the rows of a paper's table in the index: item, page, script, paper, spookid, verdict."""
    index = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    (part,) = re.findall(rf"^## {paper}.*?(?=^## )", index, re.MULTILINE | re.DOTALL)
    table = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in table[2:]]


def numbered(items: str) -> set[str]:
    """Figures and tables that are named: "Figs. 2, 3 and G.8 to G.11" are six."""
    found, number = set(), r"(?:G\.)?(?:\d+|I+)"
    for kind, listed in re.findall(rf"(Fig|Table)s?\.? ({number}(?:(?:, | and | to |-){number})*)", items):
        for one in re.split(", | and ", listed):
            ends = [end.rpartition(".") for end in re.split(" to |-", one)]
            begin, end = (int(ROMAN.get(name, name)) for _, _, name in (ends[0], ends[-1]))
            found |= {f"{kind} {ends[0][0]}{i}" for i in range(begin, end + 1)}
    return found


@pytest.mark.parametrize("paper", ITEMS)
def test_the_index_has_every_figure_and_table_of_the_papers(paper: str) -> None:
    listed, count = ITEMS[paper]
    assert len(numbered(listed)) == count
    assert numbered("; ".join(row[0] for row in rows(paper))) == numbered(listed)


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_of_a_paper_has_evidence_a_command_and_a_verdict(paper: str) -> None:
    for item, page, script, theirs, ours, verdict in rows(paper):
        assert verdict in VERDICTS, f"{item}: {verdict}"
        assert theirs, item
        assert ours, item
        (name,) = re.findall(r"\[\w+\]\((\w+\.md)\)", page)
        path = ROOT / "results" / name
        assert path.exists(), f"{item}: {name}"
        assert path in PAGES or name == "evaluation.md"
        first, *arguments = script.strip("`").split()
        assert (ROOT / "results" / first).exists(), f"{item}: {script}"
        assert first != "run.py" or arguments == [name], f"{item}: {script}"
