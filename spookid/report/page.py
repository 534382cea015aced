"""One self-contained page in HTML about the results in a folder, made of its files alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spookid.errors import ProblemError
from spookid.report import export, report_sections, summary
from spookid.results import folders
from spookid.results.result import Result
from spookid.results.tables import Table
from spookid.results.wording import number, status_words
from spookid.solvers.status import Status
from spookid.version import __version__

PAGE = "report.html"
"""Name of the page in its folder."""


def write(directory: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` into a folder of results, or into one of several such folders, and return its path.

    Raises:
        ProblemError: if there are no results, they cannot be read, or the page cannot be written.
    """
    folder = Path(directory)
    found = _results(folder)
    text = page({key: export.load(path) for key, path in found.items()}, {key: _date(p) for key, p in found.items()})
    folders.write(folder / PAGE, text)
    return folder / PAGE


def page(solutions: Mapping[str, Result], dates: Mapping[str, str]) -> str:
    """The page of solutions by key, with the dates of their folders."""
    environment = Environment(
        loader=PackageLoader("spookid.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    names = list(solutions)
    title = next(iter(solutions.values())).problem if len(names) == 1 else f"{len(names)} results"
    return environment.get_template(PAGE).render(
        title=title,
        version=__version__,
        results=[_result(key, i, solutions[key], dates[key]) for i, key in enumerate(names)],
        overview=_overview(solutions),
    )


def _results(folder: Path) -> dict[str, Path]:
    """Folders of results by key: the folder itself, or those in it."""
    if (folder / export.MARKER).is_file():
        return {folder.resolve().name: folder}
    try:
        found = {path.name: path for path in sorted(folder.iterdir()) if (path / export.MARKER).is_file()}
    except OSError as error:
        raise ProblemError(
            f"{folder} cannot be read ({error.strerror or error}); give a folder that `spookid solve` wrote"
        ) from None
    if not found:
        raise ProblemError(f"{folder} holds no {export.MARKER}; give a folder that `spookid solve` wrote")
    return found


def _date(folder: Path) -> str:
    written = datetime.fromtimestamp((folder / export.MARKER).stat().st_mtime, UTC)
    return f"{written:%Y-%m-%d %H:%M} UTC"


def _overview(solutions: Mapping[str, Result]) -> Table:
    """Of several results: how each ended."""
    rows = [
        (key, status_words(solution), number(solution.cost.total), number(solution.step, 6) + " s", solution.stepper)
        for key, solution in solutions.items()
    ]
    return Table(("result", "status", "cost", "step", "stepper"), rows)


def _result(key: str, place: int, solution: Result, date: str) -> dict[str, Any]:
    """What the template wants to know about one result."""
    return {
        "key": key,
        "anchor": f"{re.sub(r'[^A-Za-z0-9_-]', '-', key)}-{place}",
        "name": solution.problem,
        "converged": solution.status is Status.CONVERGED,
        "status": status_words(solution),
        "message": solution.message,
        "notices": solution.notices,
        "parameters": [report_sections.parameter(estimate) for estimate in solution.parameters.values()],
        **{section.__name__: section(solution) for section in report_sections.SECTIONS},
        **report_sections.fits(solution),
        "cost": summary.cost(solution),
        "provenance": report_sections.provenance(solution, key, date),
    }
