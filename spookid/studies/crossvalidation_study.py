"""Which problems belong together: one model with all recordings it is declared for, beside other models of the same.

What a cross-validation leaves behind: a folder with its numbers, its table and one figure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.report import pictures
from spookid.report.pictures import BLUE, RED
from spookid.report.study_page import Answer
from spookid.studies.agreement import Test
from spookid.studies.crossvalidation import (
    CrossValidation,
    check_recordings,
    comparison,
    crossvalidate,
    leading,
    verdict,
)
from spookid.studies.job import Job, changed, digest
from spookid.tables.table import as_markdown, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Case:
    """One model with all its recordings, which have unique names."""

    name: str
    problem: Problem


def cases(problems: Mapping[str, Problem]) -> list[Case]:
    """Merge problems that differ only in their names and recordings into one model each.

    So ``{"01_dry": ..., "01_viscous": ..., "02_dry": ..., "02_viscous": ...}`` are two models, dry and viscous, on two
    recordings. A case has the name of what its keys have in common.
    """
    groups: dict[str, dict[str, Problem]] = {}
    for key, problem in problems.items():
        groups.setdefault(digest(problem.with_(name="", recordings=(), step=problem.step)), {})[key] = problem
    return [_merged(group) for group in groups.values()]


def _merged(group: Mapping[str, Problem]) -> Case:
    distinct: list[Recording] = []
    for recording in (r for problem in group.values() for r in problem.recordings):
        if not any(_same(recording, other) for other in distinct):
            distinct.append(recording)
    named: list[Recording] = []
    for recording in distinct:  # with a number after a name that another has already
        name, again = recording.name, 2
        while name in (other.name for other in named):
            name, again = f"{recording.name} ({again})", again + 1
        named.append(replace(recording, name=name))
    first = next(iter(group.values()))
    words = [re.split(r"[\s_\-./]+", key) for key in group] if len(group) > 1 else [list(group)]
    shared = [word for word in words[0] if all(word in other for other in words)]
    return Case("_".join(shared) or ", ".join(group), first.with_(recordings=named, step=first.step))


def same_recordings(a: Problem, b: Problem) -> bool:
    """True if two models are declared for the same recordings."""
    return len(a.recordings) == len(b.recordings) and all(map(_same, a.recordings, b.recordings))


def _same(a: Recording, b: Recording) -> bool:
    return (
        a.name == b.name
        and np.array_equal(a.t, b.t)
        and a.signals.keys() == b.signals.keys()
        and all(np.array_equal(values, b.signals[name], equal_nan=True) for name, values in a.signals.items())
    )


Sets = Sequence[Sequence[CrossValidation]]
"""Models that share their recordings are in one set."""


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``crossvalidate`` when run from the command line."""
    sets = _sets(job, cases({name: changed(problem, job.arguments) for name, problem in job.problems.items()}))

    def judged(models: Sequence[Case]) -> list[CrossValidation]:
        leader = leading([job.fit(case.problem, None, f"{case.name}, all recordings") for case in models])
        return [crossvalidate(case.problem, job.fit, case.name, leader) for case in models]

    def work() -> Answer:
        counts = [len(case.problem.recordings) for models in sets for case in models]
        job.expect(sum(count**2 + 2 for count in counts))  # all together, each, and each with the others' estimates
        return answer(job.place, [judged(models) for models in sets])

    return work


def _sets(job: Job, found: Iterable[Case]) -> list[list[Case]]:
    """Models on the same recordings together; those with fewer than two are left out.

    Raises:
        ProblemError: if none is left.
    """
    sets: list[list[Case]] = []
    for case in found:
        if len(case.problem.recordings) < 2:
            job.complain(f"{case.name} has fewer than two recordings and is left out")
            continue
        home = next((s for s in sets if same_recordings(s[0].problem, case.problem)), None)
        if home is None:
            sets.append(home := [])
        check_recordings(case.problem)
        home.append(case)
    if not sets:
        raise ProblemError(
            f"{job.place}: cross-validation needs a model with two or more recordings"
            "; give it more, or compare with `spookid profile`"
        )
    return sets


def answer(problem: str, sets: Sets) -> Answer:
    """Result of the study, with the files ``crossvalidation.md`` and ``crossvalidation.png``.

    Args:
        problem: what was cross-validated, for the reader of the folder.
    """
    models = [model for some in sets for model in some]
    failed = [model for model in models if not model.converged]
    return Answer(
        problem,
        "\n\n\n".join(as_text(comparison(some)) for some in sets),
        " ".join(map(verdict, sets)),
        [block for some in sets for block in comparison(some)[:-1]],
        {"sets": [{"verdict": verdict(some), "models": [_model(model) for model in some]} for some in sets]},
        _assumptions(models),
        [f"{m.failures} of {m.fits} fits of {m.name} did not converge." for m in failed],
        {
            "crossvalidation.md": "\n".join(as_markdown(comparison(some)) for some in sets),
            "crossvalidation.png": pictures.drawn(figure, sets),
        },
        [f"not every fit of {', '.join(m.name for m in failed)} converged"] if failed else [],
    )


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
    facts = (
        "name",
        "stepper",
        "step",
        "dynamics",
        "state_weight",
        "recordings",
        "log_likelihood",
        "overdispersion",
        "aic",
        "cost",
    )
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
    """Draw one panel per set of models: scores on the fitted recording and on other recordings."""
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
    likely = any(model.estimates_noise for model in models)
    if not likely:
        panel.set_yscale("log")
    ticks = [f"{model.name}\n{recording}" for model, recording in fits]
    panel.set_xticks(range(len(ticks)), ticks, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(ticks) - 0.5)
    panel.set_ylabel("−2 log L" if likely else "cost over steps")
    panel.grid(alpha=0.3)
