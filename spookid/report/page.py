"""One self-contained page in HTML about the results in a folder, made of its files alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from spookid.errors import ProblemError
from spookid.files import unreadable
from spookid.registry import markers
from spookid.report import animation, conclusion, export, report_sections, study_page
from spookid.report.report_sections import Films
from spookid.results import folders
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.results.wording import verdict
from spookid.solvers.status import Status
from spookid.tables.table import Block, Table
from spookid.version import __version__

PAGE = "report.html"
"""Name of the page in its folder."""

Robots: TypeAlias = Callable[[Solution], Sequence[Block | Tree]]
"""What is said of the robot's file that a solution was made from; nothing of one that was not."""


def write(directory: str | os.PathLike[str], *, animate: bool = False, robots: Robots | None = None) -> Path:
    """Write ``report.html`` into a folder of results, or into one of several such folders, and return its path."""
    folder = Path(directory)
    solutions: dict[str, Solution] = {}
    studies: list[Mapping[str, Any]] = []
    found = _results(folder)
    written = {key: datetime.fromtimestamp(path.stat().st_mtime, UTC) for key, path in found.items()}
    dates = {key: f"{date:%Y-%m-%d %H:%M} UTC" for key, date in written.items()}
    for key, marker in found.items():
        if marker.name == export.MARKER:
            solutions[key] = export.load(marker.parent)
        else:
            anchor = _anchor(key, len(studies), "study")
            studies.append(study_page.study(marker.parent, marker.name, key, anchor, dates[key]))
    if animate:
        _animate(folder, {found[key].parent: solution for key, solution in solutions.items()})
    films = {key: _films(found[key].parent, solution) for key, solution in solutions.items()}
    files = {key: robots(solution) for key, solution in solutions.items()} if robots else {}
    folders.write(folder / PAGE, page(solutions, dates, studies, films, files))
    return folder / PAGE


def _animate(folder: Path, solutions: Mapping[Path, Solution]) -> None:
    """Write the animations of solutions into their folders."""
    if not solutions:
        raise ProblemError(
            f"{folder} holds no solution, and only estimated motion is animated; give a folder that spookid solve wrote"
        )
    writers = {place: animation.writers(solution) for place, solution in solutions.items()}
    for place, files in writers.items():
        if not files:
            raise ProblemError(f"{place} holds no mechanism in motion to animate; solve the problem again")
    for place, files in writers.items():
        for name, content in files.items():
            folders.write(place / name, content)


def _films(folder: Path, solution: Solution) -> Films:
    """The animations that are in a folder."""
    found = {i: folder / animation.file_name(i) for i in range(min(len(solution.trajectories), animation.MOST))}
    known = {i: path for i, path in found.items() if path.is_file()}
    if not known:
        return ()
    sentences = {film.trajectory.name: film.sentence for film in animation.films(solution)}
    names = {i: solution.trajectories[i].name for i in known}
    return tuple((names[i], folders.embedded(path), sentences.get(names[i], "")) for i, path in known.items())


def page(
    solutions: Mapping[str, Solution],
    dates: Mapping[str, str],
    studies: Sequence[Mapping[str, Any]] = (),
    films: Mapping[str, Films] | None = None,
    robots: Mapping[str, Sequence[Block | Tree]] | None = None,
) -> str:
    """The page of solutions by key, with the dates of their folders, and of studies after them."""
    environment = Environment(
        loader=PackageLoader("spookid.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    solved: list[Tree] = [
        {
            "key": key,
            "anchor": _anchor(key, i),
            "name": solution.problem,
            "conclusion": verdict(solution),
            "good": solution.status is Status.CONVERGED,
            "message": solution.message,
            "assumptions": list(conclusion.assumptions(solution).items()),
            "notices": [],
            "sections": report_sections.sections(
                solution, (films or {}).get(key, ()), (robots or {}).get(key, ()), f"{key}, written {dates[key]}"
            ),
        }
        for i, (key, solution) in enumerate(solutions.items())
    ]
    results = [*solved, *studies]
    return environment.get_template(PAGE).render(
        title=results[0]["name"] if len(results) == 1 else f"{len(results)} results",
        version=__version__,
        results=results,
        overview=Table(("result", "conclusion"), [(str(one["key"]), str(one["conclusion"])) for one in results]),
    )


def _results(folder: Path) -> dict[str, Path]:
    """Markers of results by key: that of the folder itself, or those of the folders in it."""
    own = _marker(folder)
    if own is not None:
        return {folder.resolve().name: own}
    try:
        found = {path.name: marker for path in sorted(folder.iterdir()) if (marker := _marker(path)) is not None}
    except OSError as error:
        raise unreadable(folder, error, "give a folder that a command of spookid wrote") from None
    if not found:
        known = ", ".join(markers())
        raise ProblemError(f"{folder} holds none of {known}; give a folder that a command of spookid wrote")
    return found


def _marker(folder: Path) -> Path | None:
    """The file that tells what results a folder holds; None if it holds none."""
    known = (path for name in markers() if (path := folder / name).is_file())
    return next(known, None) or next(filter(study_page.tells_study, sorted(folder.glob("*.json"))), None)


def _anchor(key: str, place: int, kind: str = "") -> str:
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', key)}-{kind}{place}"
