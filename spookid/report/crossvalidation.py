"""What a cross-validation leaves behind: a folder with its numbers, its table and one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spookid.report import pictures, study_page
from spookid.report.pictures import BLUE, RED
from spookid.results import folders
from spookid.results.folders import marker_document
from spookid.studies.agreement import Test
from spookid.studies.crossvalidation import CrossValidation, comparison, verdict
from spookid.tables.tabular import as_markdown

if TYPE_CHECKING:  # Matplotlib takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKER = "crossvalidation.json"
"""The file that makes a folder one of a cross-validation."""

Sets = Sequence[Sequence[CrossValidation]]
"""Models that share their recordings stand in one set."""


def save(directory: folders.AnyPath, problem: str, sets: Sets) -> None:
    """Write the folder, whole or not at all: ``crossvalidation.json``, ``.md`` and ``.png``.

    Args:
        problem: what was cross-validated, for the reader of the folder.

    Raises:
        ProblemError: if ``directory`` is neither missing, empty, nor an earlier cross-validation, or cannot be written.
    """
    found = [{"verdict": verdict(models), "models": [_model(model) for model in models]} for models in sets]
    text, picture = "\n".join(as_markdown(comparison(models)) for models in sets), pictures.drawn(figure, sets)
    tree = marker_document(problem, sets=found, **_page(sets))
    folders.save(directory, {MARKER: tree, "crossvalidation.md": text, "crossvalidation.png": picture})


def _page(sets: Sets) -> dict[str, Any]:
    """What the report shows."""
    models = [model for some in sets for model in some]
    notices = [f"{m.failures} of {m.fits} fits of {m.name} did not converge." for m in models if not m.converged]
    blocks = [block for some in sets for block in comparison(some)[:-1]]
    return study_page.told(" ".join(map(verdict, sets)), _assumptions(models), notices, blocks)


def _assumptions(models: Sequence[CrossValidation]) -> dict[str, str]:
    """Once where all models share them, else by model."""
    result = {}
    for key in models[0].assumptions:
        texts = {model.name: model.assumptions[key] for model in models}
        several = len(set(texts.values())) > 1
        result[key] = "; ".join(f"{name}: {text}" for name, text in texts.items()) if several else texts[models[0].name]
    return result


def _model(model: CrossValidation) -> dict[str, Any]:
    said = model.agreement
    facts = ("name", "stepper", "step", "dynamics", "state_weight", "recordings", "log_likelihood", "aic", "cost")
    return {
        **{name: getattr(model, name) for name in facts},
        "parameters_and_sizes_of_noise": model.count or None,
        "cv": model.score,
        "scores": model.scores,
        "agreement": {
            "verdict": said.verdict,
            "errors": "standard" if said.standard is None else "jackknife",
            "standard_over_jackknife": said.ratio,
            "verdict_by_standard_errors": (said.standard or said).verdict,
            "joint": _test(said.joint),
            "parameters": {
                p.name: {"unit": p.unit, "estimates": p.estimates, "std_errs": p.std_errs, **_test(p.test)}
                for p in said.parameters
            },
        },
    }


def _test(test: Test) -> dict[str, Any]:
    return {"chi_square": test.statistic, "freedom": test.freedom, "sigma": test.sigma}


def figure(sets: Sets) -> Figure:
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
    fits = [(model, recording) for model in models for recording in model.recordings]
    own = [(place, model.own(recording).cost) for place, (model, recording) in enumerate(fits)]
    others = [(place, s.cost) for place, (model, recording) in enumerate(fits) for s in model.others(recording)]
    panel.plot(*zip(*others, strict=True), "x", color=RED, label="on each of the others", markersize=6)
    panel.plot(*zip(*own, strict=True), "o", color=BLUE, label="on the recording fitted to", mfc="none", markersize=8)
    likely = any(model.dynamics == "estimated" for model in models)
    if not likely:
        panel.set_yscale("log")
    ticks = [f"{model.name}\n{recording}" for model, recording in fits]
    panel.set_xticks(range(len(ticks)), ticks, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(ticks) - 0.5)
    panel.set_ylabel("−2 log L" if likely else "cost over steps")
    panel.grid(alpha=0.3)
