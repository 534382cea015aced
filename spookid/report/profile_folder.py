"""What profiles leave behind: a folder with their numbers, their table and one figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

import spookid
from spookid.report import pictures
from spookid.report.profile_table import table
from spookid.report.wording import labelled, number
from spookid.results import folders
from spookid.studies.profile import CRITICAL, Profile

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "profile.json"
"""The file that makes a folder one of profiles."""
SCHEMA = 1
"""Version of its layout."""

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#707070"  # of Okabe and Ito: colour-blind people tell them apart
_MOST_COLUMNS = 3


def check_target(directory: str | PathLike[str]) -> None:
    """Refuse a folder that `save` would refuse.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier folder of profiles.
    """
    folders.check_target(directory, MARKER)


def save(directory: str | PathLike[str], profiles: Sequence[Profile]) -> None:
    """Write the folder, whole or not at all: ``profile.json``, ``profile.txt`` and ``profile.png``.

    Raises:
        ProblemError: as `check_target`, or if it cannot be written.
    """
    with folders.replacing(directory, MARKER) as folder:
        text = json.dumps(_document(profiles), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / MARKER).write_text(text + "\n", encoding="utf-8")
        (folder / "profile.txt").write_text(table(profiles) + "\n", encoding="utf-8")
        pictures.save(figure(profiles), folder / "profile.png")


def _document(profiles: Sequence[Profile]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "problem": profiles[0].problem,
        "parameters": {profile.name: _entry(profile) for profile in profiles},
        "versions": {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__},
    }


def _entry(profile: Profile) -> dict[str, Any]:
    return {
        "unit": profile.unit,
        "estimate": _finite(profile.estimate),
        "std_err": _finite(profile.std_err),
        "linear": [_finite(end) for end in profile.linear],
        "interval": [_finite(end) for end in profile.interval],
        "verdict": profile.verdict,
        "points": [
            {
                "value": point.value,
                "cost": _finite(point.cost),
                "log_likelihood": _finite(point.log_likelihood),
                "zeta": _finite(point.zeta),
                "status": point.status.value,
                "parameters": dict(point.others),
            }
            for point in profile.points
        ],
    }


def _finite(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if math.isfinite(value) else None


# --- the figure ---


def figure(profiles: Sequence[Profile]) -> Figure:
    """A panel a parameter: ζ against the value, the straight line of the linearization, and both intervals."""
    from matplotlib.figure import Figure

    columns = min(len(profiles), _MOST_COLUMNS)
    rows = -(-len(profiles) // columns)
    result = Figure(figsize=(max(4.2 * columns, 6.0), 1.5 + 3.0 * rows), layout="constrained")
    result.suptitle(f"Profiles of {profiles[0].problem}", fontsize=12, parse_math=False)
    panels = result.subplots(rows, columns, squeeze=False).ravel()
    for panel, profile in zip(panels, profiles, strict=False):
        _draw(panel, profile)
    for panel in panels[len(profiles) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    result.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return result


def _draw(panel: Axes, profile: Profile) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    values = [point.value for point in profile.points]
    panel.axhspan(-CRITICAL, CRITICAL, color=_GREY, alpha=0.15, linewidth=0, label="within 95 %")
    panel.plot(values, [point.zeta for point in profile.points], "o-", color=_BLUE, markersize=4, label="refitted")
    if math.isfinite(profile.std_err) and profile.std_err > 0:
        line = [(value - profile.estimate) / profile.std_err for value in values]
        panel.plot(values, line, "--", color=_ORANGE, linewidth=1.2, label="linearized")
    for i, end in enumerate(profile.interval):
        if math.isfinite(end):
            panel.axvline(
                end, color=_BLUE, linewidth=1, linestyle=":", label=None if i else "likelihood-ratio interval"
            )
    panel.set_xlabel(labelled(profile.name, profile.unit), parse_math=False)
    panel.set_ylabel("ζ = ±√(rise of −2 log L)" if profile.likely else "ζ = ±√(rise of cost/s²)")
    panel.set_ylim(-4.5, 4.5)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: number(x, 5)))
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.3)
