"""All that shows a solution: the summary, ``print``, the notebook and the report, as rows and sentences."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from spookid import load
from spookid.__main__ import main


class Rows(HTMLParser):
    """Rows of all tables of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.text, self._cell = "", False
        self.feed(page)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        self._cell = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"
        if self._cell and self.rows:
            self.rows[-1][-1] += data


def one(text: str) -> str:
    """Without line breaks and columns."""
    return " ".join(text.split())


def agree(folder: Path) -> None:
    """The pages of a folder of results have the same numbers, to the digit."""
    solution, said = load(folder), one((folder / "summary.txt").read_text(encoding="utf-8"))
    assert one(str(solution)) == said
    notebook = Rows(solution._repr_html_())
    assert notebook.rows
    for row in notebook.rows:
        assert one(" ".join(row)) in said
    assert main(["report", str(folder)]) == 0
    report = Rows((folder / "report.html").read_text(encoding="utf-8"))
    cells = {one(" ".join(row)) for row in report.rows}
    for row in notebook.rows:
        if row and any(row):
            shown = one(" ".join(row))
            assert any(other.startswith(shown) or one(" ".join(row[:6])) in other for other in cells), shown
    lines = [line for line in (folder / "summary.txt").read_text(encoding="utf-8").splitlines() if line]
    for start in ("noise: ", f"{sum(int(t.samples.sum()) for t in solution.trajectories):,} sample"):
        (line,) = [line for line in lines if line.startswith(start)]
        assert one(line) in report.text
    assert lines[0] in report.text
