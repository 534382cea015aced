"""What a regression leaves behind: a folder with its numbers and its table."""

from __future__ import annotations

from spookid.report import study_page
from spookid.results import folders
from spookid.results.folders import marker_document
from spookid.studies.regression import Regression

MARKER = "regression.json"
"""The file that makes a folder one of a regression."""
_FACTS = ("recordings", "method", "filter", "cutoff", "unknowns", "condition", "held")


def save(directory: folders.AnyPath, found: Regression) -> None:
    """Write the folder, whole or not at all: ``regression.json`` and ``regression.txt``.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier regression, or cannot be written.
    """
    title, *blocks = found.blocks()
    tree = marker_document(
        found.problem,
        **{name: getattr(found, name) for name in _FACTS},
        parameters=found.records(),
        left=dict(zip(found.rows, found.errors.tolist(), strict=True)),
        **study_page.told(str(title), {}, [], blocks),
    )
    folders.save(directory, {MARKER: tree, "regression.txt": f"{found}\n"})
