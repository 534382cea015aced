"""The folder of a sweep: a small file for every finished point, so that it can be continued, and the whole at the end.

``points/*.json`` are written one by one as points are solved. ``sweep.json``, ``sweep.csv``, ``sweep.txt`` and the
figures are written from them when all are there; until then ``sweep.json`` says that the sweep is not complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from spookid.errors import ProblemError
from spookid.report import pictures
from spookid.report.sweep_table import comma_separated, table, word
from spookid.results import folders
from spookid.results.result import Cost, Estimate
from spookid.solvers.status import Status
from spookid.studies.axes import Axis, Choice
from spookid.studies.settings import Variant
from spookid.studies.sweep_points import Point, Sweep

MARKER = "sweep.json"
"""The file that makes a folder one of a sweep."""
SCHEMA = 1
"""Version of its layout."""

_POINTS = "points"
_WIDTH = 120
"""Columns of ``sweep.txt``."""
_LONGEST = 100
"""Characters of a point's file name that tell its values."""


def check_target(directory: str | PathLike[str]) -> None:
    """Refuse a folder that is neither missing, empty, nor one of a sweep, finished or not.

    Raises:
        ProblemError: naming what is in the way.
    """
    folders.check_continued(directory, MARKER)


@dataclass(frozen=True)
class Store:
    """The points of a folder that belong to one problem, its variant and these versions."""

    folder: Path
    identity: str
    """Digest of all that the points depend on beside their own values."""

    def get(self, values: Mapping[str, Choice]) -> Point | None:
        """The point if it was solved before, as it was."""
        try:
            tree = json.loads(self._path(values).read_text(encoding="utf-8"))
            return _point_of(tree, values) if tree["identity"] == self.identity else None
        except (OSError, KeyError, TypeError, ValueError):
            return None  # a file that is missing or damaged is a point to solve again

    def put(self, point: Point) -> None:
        """Keep a point, unless it failed: then a later run tries again."""
        if point.status is not None:
            path = self._path(point.values)
            with _writing(path):
                path.parent.mkdir(exist_ok=True)
                folders.write(path, _text({"schema": SCHEMA, "identity": self.identity, **_point(point)}))

    def _path(self, values: Mapping[str, Choice]) -> Path:
        words = ",".join(f"{name}={word(value)}" for name, value in values.items())
        legible = re.sub(r"[^\w=,.+-]", "_", words)[:_LONGEST]
        short = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]
        return self.folder / _POINTS / f"{legible}-{short}.json"


def opened(
    directory: str | PathLike[str],
    problem: str,
    axes: tuple[Axis, ...],
    variant: Variant,
    versions: Mapping[str, str],
    digest: str,
) -> Store:
    """The store of a sweep that begins or goes on; its folder is made if need be and marked as not complete.

    Raises:
        ProblemError: as `check_target`, or if the disk refuses.
    """
    folder = folders.check_continued(directory, MARKER)
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folders.write(folder / MARKER, _text(_document(Sweep(problem, axes, (), variant, versions), complete=False)))
    everything = [digest, repr(variant), sorted(versions.items())]
    return Store(folder, hashlib.sha256(repr(everything).encode()).hexdigest())


def warm_up() -> None:
    """Load what `save` draws with, which takes a while, at a time when there is nothing else to do."""
    from spookid.report import sweep_plot  # noqa: F401


def save(directory: str | PathLike[str], sweep: Sweep) -> None:
    """Write the result of a sweep into its folder: numbers, tables and figures.

    Raises:
        ProblemError: if it cannot be written.
    """
    from spookid.report import sweep_plot  # Matplotlib takes a while to load

    folder = Path(directory)
    figures = sweep_plot.figures(sweep)
    with _writing(folder):
        for i, figure in enumerate(figures):
            number = f"-{i + 1}" if len(figures) > 1 else ""
            part = folder / f".sweep{number}.part.png"
            pictures.save(figure, part)
            part.replace(folder / f"sweep{number}.png")
        folders.write(folder / "sweep.csv", comma_separated(sweep))
        folders.write(folder / "sweep.txt", table(sweep, _WIDTH) + "\n")
        folders.write(folder / MARKER, _text(_document(sweep, complete=True)))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ProblemError(f"{path} cannot be written ({error.strerror or error}); choose another folder") from error


# --- trees ---


def _document(sweep: Sweep, complete: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "problem": sweep.problem,
        "complete": complete,
        "axes": [{"name": one.name, "values": [_finite(value) for value in one.values]} for one in sweep.axes],
        "settings": {name: _finite(value) for name, value in sweep.variant.settings.items()},
        "initial": dict(sweep.variant.initial),
        "fixed": list(sweep.variant.fixed),
        "points": [_point(point) for point in sweep.points],
        "versions": dict(sweep.versions),
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "values": {name: _finite(value) for name, value in point.values.items()},
        "status": None if point.status is None else point.status.value,
        "message": point.message,
        "iterations": point.iterations,
        "cost": {**_numbers(asdict(point.cost)), "total": _finite(point.cost.total)},
        "log_likelihood": _finite(point.log_likelihood),
        "parameters": {name: _numbers(asdict(estimate)) for name, estimate in point.parameters.items()},
        "seconds": _finite(point.seconds),
    }


def _point_of(tree: Mapping[str, Any], values: Mapping[str, Choice]) -> Point:
    cost = Cost(**{f.name: _known(tree["cost"][f.name]) for f in fields(Cost)})
    return Point(
        values=values,
        status=Status(tree["status"]),
        message=tree["message"],
        iterations=tree["iterations"],
        cost=cost,
        parameters={name: _estimate_of(node) for name, node in tree["parameters"].items()},
        seconds=_known(tree["seconds"]),
        log_likelihood=_known(tree["log_likelihood"]),
    )


def _estimate_of(node: Mapping[str, Any]) -> Estimate:
    unknown: dict[str, Any] = {
        "estimate": math.nan,
        "std_err": math.nan,
        "step_error": math.nan,
        "initial": math.nan,
        "lower": -math.inf,
        "upper": math.inf,
    }
    return Estimate(**{name: unknown[name] if value is None else value for name, value in node.items()})


def _numbers(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: _finite(value) for name, value in tree.items()}


def _finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _text(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
