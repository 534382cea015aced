"""What a cross-validation leaves behind: a folder with its numbers, its table and one figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

import spookid
from spookid.report import pictures
from spookid.report.crossvalidation_table import markdown
from spookid.results import folders
from spookid.studies.agreement import Test
from spookid.studies.crossvalidation import CrossValidation, verdict

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "crossvalidation.json"
"""The file that makes a folder one of a cross-validation."""
SCHEMA = 1
"""Version of its layout."""

_BLUE, _ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito: colour-blind people tell them apart


def check_target(directory: str | PathLike[str]) -> None:
    """Refuse a folder that `save` would refuse.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier cross-validation.
    """
    folders.check_target(directory, MARKER)


def save(directory: str | PathLike[str], problem: str, sets: Sequence[Sequence[CrossValidation]]) -> None:
    """Write the folder, whole or not at all: ``crossvalidation.json``, ``.md`` and ``.png``.

    Args:
        problem: what was cross-validated, for the reader of the folder.
        sets: models that share their recordings stand in one set.

    Raises:
        ProblemError: as `check_target`, or if it cannot be written.
    """
    with folders.replacing(directory, MARKER) as folder:
        text = json.dumps(_document(problem, sets), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / MARKER).write_text(text + "\n", encoding="utf-8")
        (folder / "crossvalidation.md").write_text("\n".join(map(markdown, sets)), encoding="utf-8")
        pictures.save(figure(sets), folder / "crossvalidation.png")


def _document(problem: str, sets: Sequence[Sequence[CrossValidation]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "problem": problem,
        "sets": [{"verdict": verdict(models), "models": [_model(model) for model in models]} for models in sets],
        "versions": {"spookid": spookid.__version__, "casadi": ca.__version__, "numpy": np.__version__},
    }


def _model(model: CrossValidation) -> dict[str, Any]:
    parameters = {
        p.name: {
            "unit": p.unit,
            "estimates": [_finite(value) for value in p.estimates],
            "std_errs": [_finite(value) for value in p.std_errs],
            **_test(p.test),
        }
        for p in model.agreement.parameters
    }
    return {
        "name": model.name,
        "stepper": model.stepper,
        "step": model.step,
        "dynamics": model.dynamics,
        "state_weight": _finite(model.state_weight),
        "recordings": list(model.recordings),
        "log_likelihood": _finite(model.log_likelihood),
        "parameters_and_sizes_of_noise": model.count or None,
        "aic": _finite(model.aic),
        "cost": _finite(model.cost),
        "cv": _finite(model.score),
        "scores": [
            {key: _finite(value) for key, value in {**asdict(s), "status": s.status.value}.items()}
            for s in model.scores
        ],
        "agreement": {
            "verdict": model.agreement.verdict,
            "errors": "standard" if model.agreement.standard is None else "jackknife",
            "standard_over_jackknife": _finite(model.agreement.ratio),
            "verdict_by_standard_errors": (model.agreement.standard or model.agreement).verdict,
            "joint": _test(model.agreement.joint),
            "parameters": parameters,
        },
    }


def _test(test: Test) -> dict[str, Any]:
    return {"chi_square": _finite(test.statistic), "freedom": test.freedom, "sigma": _finite(test.sigma)}


def _finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- the figure ---


def figure(sets: Sequence[Sequence[CrossValidation]]) -> Figure:
    """A panel a set: scores on the recording fitted to and on the others."""
    from matplotlib.figure import Figure

    widest = max(sum(len(model.recordings) for model in models) for models in sets)
    result = Figure(figsize=(max(2.5 + 0.45 * widest, 6.0), 0.8 + 3.4 * len(sets)), layout="constrained")
    panels = result.subplots(len(sets), 1, squeeze=False)[:, 0]
    for panel, models in zip(panels, sets, strict=True):
        _draw(panel, models)
    handles, labels = panels[0].get_legend_handles_labels()
    result.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return result


def _draw(panel: Axes, models: Sequence[CrossValidation]) -> None:
    """Own scores as circles, those on other recordings as crosses, a place on the axis for each fit."""
    own: list[tuple[int, float]] = []
    others: list[tuple[int, float]] = []
    ticks: list[str] = []
    for model in models:
        for recording in model.recordings:
            place = len(ticks)
            own.append((place, model.own(recording).cost))
            others += [(place, score.cost) for score in model.others(recording)]
            ticks.append(f"{model.name}\n{recording}")
    panel.plot(*zip(*others, strict=True), "x", color=_ORANGE, label="on each of the others", markersize=6)
    panel.plot(*zip(*own, strict=True), "o", color=_BLUE, label="on the recording fitted to", mfc="none", markersize=8)
    likely = any(model.dynamics == "estimated" for model in models)
    if not likely:
        panel.set_yscale("log")
    panel.set_xticks(range(len(ticks)), ticks, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(ticks) - 0.5)
    panel.set_ylabel("−2 log L" if likely else "cost over steps")
    panel.grid(alpha=0.3)
