"""What the report shows of the folder of a study: written into its marker, read back without the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from spookid.results import folders
from spookid.results.folders import Tree
from spookid.tables.table import Table
from spookid.tables.tabular import Block

REPORT = "report"
"""Key of the marker under which it stands."""
_EARLIER = "This folder was written by an earlier version, which said no more than stands in its files."


def told(conclusion: str, assumptions: Mapping[str, str], notices: Sequence[str], blocks: Sequence[Block]) -> Tree:
    """Entry of a marker: what the page is made of.

    Args:
        blocks: after their title.
    """
    told = {"conclusion": conclusion, "assumptions": dict(assumptions), "notices": list(notices)}
    return {REPORT: {**told, "blocks": shown(blocks)}}


def shown(blocks: Sequence[Block]) -> list[Tree]:
    """Sentences and tables as the template wants them."""
    return [{"head": b.head, "rows": b.rows} if isinstance(b, Table) else {"text": b} for b in blocks]


def study(folder: Path, marker: str, key: str, anchor: str, date: str) -> Tree:
    """What the template wants to know about a study.

    Raises:
        ProblemError: if its marker cannot be read.
    """
    tree = folders.read_marker(folder / marker, "run its command again")
    page = tree.get(REPORT) or _plain(folder, tree)
    kind = marker.removesuffix(".json")
    return {
        "key": key,
        "anchor": anchor,
        "name": f"{tree['problem']}: {_KINDS[kind]}",
        "conclusion": page["conclusion"],
        "assumptions": list(page["assumptions"].items()),
        "notices": page["notices"],
        "blocks": page["blocks"],
        "pictures": {path.stem: folders.embedded(path) for path in sorted(folder.glob("*.png"))},
        "provenance": [
            ("Folder", f"{key}, written {date}"),
            ("Files", ", ".join(path.name for path in sorted(folder.iterdir()) if path.is_file())),
            ("Versions", ", ".join(f"{name} {version}" for name, version in tree.get("versions", {}).items())),
        ],
    }


_KINDS = {
    "simulation": "simulation",
    "audit": "time-step audit",
    "sweep": "sweep",
    "profile": "profiles",
    "crossvalidation": "cross-validation",
    "regression": "regression",
}


def _plain(folder: Path, tree: Tree) -> Tree:
    """Of a folder that does not hold it: its texts as they are."""
    texts = sorted([*folder.glob("*.txt"), *folder.glob("*.md")])
    blocks = [{"lines": path.read_text(encoding="utf-8")} for path in texts]
    return {"conclusion": tree.get("verdict", _EARLIER), "assumptions": {}, "notices": [], "blocks": blocks}
