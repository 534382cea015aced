"""What a study has found, written into its folder; the report reads it back without the study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from spookid.files import regular
from spookid.registry import studies
from spookid.results import folders
from spookid.results.folders import Tree
from spookid.tables.table import Block, Table

REPORT = "report"
"""Key of the marker under which it stands."""
_EARLIER = "This folder was written by an earlier version, which kept no more than its files."


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a study, for a terminal, its folder and the page.

    Args:
        problem: name of the problem.
        text: text that the command prints; empty if it has been printed.
        conclusion: in a sentence or two.
        blocks: tables and sentences of the page, after their title.
        facts: numbers of the marker, trees of them, arrays and dataclasses.
        assumptions: assumptions of the study, in words.
        notices: texts of the warnings.
        files: others of the folder by their names: texts, trees, or what writes to a path. A ``.png`` is on the page.
        complaints: fits that did not converge or failed; then the exit status of the command is 3.
    """

    problem: str
    text: str
    conclusion: str
    blocks: Sequence[Block] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    assumptions: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()
    files: Mapping[str, folders.Content] = field(default_factory=dict)
    complaints: Sequence[str] = ()

    @property
    def marker(self) -> Tree:
        """File that marks the result folder and contains the data of the page."""
        told = {"conclusion": self.conclusion, "assumptions": dict(self.assumptions), "notices": list(self.notices)}
        head = {"schema": folders.SCHEMA, "problem": self.problem, **self.facts, "versions": folders.versions()}
        return head | {REPORT: {**told, "blocks": shown(self.blocks)}}

    def save(self, directory: folders.AnyPath, marker: str) -> None:
        """Write the result folder, completely or not at all.

        Args:
            marker: name of the file that marks it.

        Raises:
            ProblemError: if ``directory`` is neither missing, empty, nor an earlier one of the same study, or cannot be
                written.
        """
        folders.save(directory, {marker: self.marker, **self.files})


def picture(address: str, alt: str, caption: str = "") -> Tree:
    """Picture with its caption, in the form of the template."""
    return {"picture": address, "alt": alt, "caption": caption}


def shown(blocks: Iterable[Block | Tree]) -> list[Tree]:
    """Sentences, tables and pictures, in the form of the template."""
    found: list[Tree] = []
    for block in blocks:
        if isinstance(block, Table):
            found.append({"head": block.head, "rows": block.rows})
        elif isinstance(block, str):
            found.append({"lines" if "\n" in block else "text": block})
        else:
            found.append(block)
    return found


def facts(rows: Iterable[tuple[str, str]]) -> Tree:
    """Facts as labels and texts."""
    return {"facts": list(rows)}


def study(folder: Path, marker: str, key: str, anchor: str, date: str) -> Tree:
    """Data of a study for the template."""
    tree = folders.read_marker(folder / marker, "run its command again")
    page = tree.get(REPORT) or _plain(folder, tree)
    pictures = [picture(folders.embedded(path), f"Figure {path.stem}") for path in sorted(folder.glob("*.png"))]
    provenance = [
        ("Folder", f"{key}, written {date}"),
        ("Files", ", ".join(path.name for path in sorted(folder.iterdir()) if path.is_file())),
        ("Versions", ", ".join(f"{name} {version}" for name, version in tree.get("versions", {}).items())),
    ]
    return {
        "key": key,
        "anchor": anchor,
        "name": f"{tree['problem']}: {_title(marker)}",
        "conclusion": page["conclusion"],
        "good": True,
        "message": "",
        "assumptions": list(page["assumptions"].items()),
        "notices": page["notices"],
        "sections": [
            {"title": "Results", "blocks": [*page["blocks"], *pictures]},
            {"title": "Provenance", "blocks": [facts(provenance)]},
        ],
    }


def _title(marker: str) -> str:
    """Of the study that writes it; of one that this process does not know what its files are called."""
    known = {study.marker: study.title for study in studies()}
    return known.get(marker) or marker.removesuffix(".json")


def tells_study(path: Path) -> bool:
    """True if a marker belongs to a study, also to a study that this process does not know."""
    try:
        tree = msgspec.json.decode(regular(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and {"schema", "problem", REPORT} <= tree.keys()


def _plain(folder: Path, tree: Tree) -> Tree:
    """Of a folder that does not hold it: its texts as they are."""
    texts = sorted([*folder.glob("*.txt"), *folder.glob("*.md")])
    blocks = [{"lines": path.read_text(encoding="utf-8")} for path in texts]
    return {"conclusion": tree.get("verdict", _EARLIER), "assumptions": {}, "notices": [], "blocks": blocks}
