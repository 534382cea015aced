"""Cross-validation as a table: plain for a terminal, in pipes for Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap

from spookid.report.wording import labelled, number, uncertain
from spookid.studies.crossvalidation import CrossValidation, mean, verdict

_COLUMNS = 110
_HEAD = ("model", "fitted to", "cost", "CV")
_LIKELY_HEAD = ("model", "fitted to", "−2 log L", "CV")
_MEANING = (
    "cost and CV: squared residuals over the number of steps, on the recording fitted to and on the others with the\n"
    "parameters fixed."
)
_LIKELY_MEANING = (
    "−2 log L and CV: of the recording fitted to, and of the others with the parameters fixed and the noise estimated\n"
    "again."
)
_AIC_HEAD = ("model", "log L", "k", "AIC")
_AIC_MEANING = (
    "log L: of all recordings together; k: parameters, sizes of noise among them; AIC = −2 log L + 2k, less is\n"
    "better. Of nested models −2 log L falls, if the smaller one is right, by chi-square with as many degrees of\n"
    "freedom as the larger one has parameters more."
)


def table(models: Sequence[CrossValidation]) -> str:
    """Scores, estimates, agreement and verdict, for a terminal."""
    parts = [f"Cross-validation of {', '.join(model.name for model in models)}", _aligned(_scores(models))]
    parts += [_meaning(models)]
    if _likely(models):
        parts += [_aligned(_criteria(models)), _AIC_MEANING]
    for model in models:
        told = [f"{model.name}: {model.agreement.verdict}", *wrap(model.agreement.explanation, _COLUMNS)]
        parts += [_aligned(_estimates(model)), "\n".join(told)]
    return "\n\n".join([*parts, verdict(models)])


def markdown(models: Sequence[CrossValidation]) -> str:
    """The same in Markdown."""
    parts = [f"# Cross-validation of {', '.join(model.name for model in models)}", verdict(models)]
    parts += [_piped(_scores(models)), _meaning(models)]
    if _likely(models):
        parts += [_piped(_criteria(models)), _AIC_MEANING]
    for model in models:
        parts += [f"## {model.name}", model.agreement.report, _piped(_estimates(model))]
    return "\n\n".join(parts) + "\n"


def _likely(models: Sequence[CrossValidation]) -> bool:
    return any(model.dynamics == "estimated" for model in models)


def _meaning(models: Sequence[CrossValidation]) -> str:
    return _LIKELY_MEANING if _likely(models) else _MEANING


def _scores(models: Sequence[CrossValidation]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_LIKELY_HEAD if _likely(models) else _HEAD]
    for model in models:
        for recording in model.recordings:
            sizes = (model.own(recording).cost, mean(s.cost for s in model.others(recording)))
            rows.append((model.name, recording, *(_size(model, size) for size in sizes)))
        rows.append((model.name, "mean", *(_size(model, size) for size in (model.cost, model.score))))
    return rows


def _size(model: CrossValidation, score: float) -> str:
    return f"{score:.1f}" if model.dynamics == "estimated" else number(score, 3)


def _criteria(models: Sequence[CrossValidation]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_AIC_HEAD]
    for model in sorted(models, key=lambda model: model.aic):
        known = math.isfinite(model.aic)
        cells = (f"{model.log_likelihood:.1f}", str(model.count), f"{model.aic:.1f}") if known else ("-", "-", "-")
        rows.append((model.name, *cells))
    return rows


def _estimates(model: CrossValidation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("parameter", *model.recordings, "spread", "agreement")]
    for p in model.agreement.parameters:
        values = [uncertain(*pair) for pair in zip(p.estimates, p.std_errs, strict=True)]
        spread = f"{100 * p.spread:.2g} %" if math.isfinite(p.spread) else "-"
        apart = f"{p.test.sigma:.1f} sigma" if math.isfinite(p.test.sigma) else "-"
        rows.append((labelled(p.name, p.unit), *values, spread, apart))
    return rows


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def _piped(rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
