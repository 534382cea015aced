"""Cross-validation as in sections 4.5 and 4.6 of the paper: a model tuned on one recording, judged on the others.

The model is fitted to each recording by itself. With the parameters fixed at those estimates, the states of every other
recording are estimated by the same method, and so is its noise unless the state weight is given. The score is −2 log L
of that or, with a given state weight, the cost over the number of steps.

Where there is a likelihood, models are ordered by Akaike's information criterion, −2 log L + 2k of the fit to all
recordings together: k parameters, sizes of noise among them. The score tells the same with fewer presumptions and less
power. Of nested models −2 log L falls, if the smaller one is right, by chi-square with as many degrees of freedom as
the larger one has parameters more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap
from typing import Any

import numpy as np

from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.problem import Dynamics, Problem
from spookid.errors import ProblemError
from spookid.estimation.outliers import of_same_samples
from spookid.estimation.solving import solve
from spookid.report.conclusion import assumed
from spookid.results.result import Solution
from spookid.results.settings import DynamicsAndFriction
from spookid.solvers.status import Status
from spookid.studies.agreement import Agreement, agreement
from spookid.tables.table import Block, Listed, Table, Tabular, as_text, labelled, number, uncertain

_MEANING = (
    "cost and CV: squared residuals over the number of steps, on the recording fitted to and on the others with the\n"
    "parameters fixed."
)
_LIKELY_MEANING = (
    "−2 log L and CV: of the recording fitted to, and of the others with the parameters fixed and the noise estimated\n"
    "again."
)
_AIC_MEANING = (
    "log L: of all recordings together; k: parameters, sizes of noise among them; AIC = −2 log L + 2k, less is\n"
    "better. Of nested models −2 log L falls, if the smaller one is right, by chi-square with as many degrees of\n"
    "freedom as the larger one has parameters more."
)

CrossvalidationFit = Callable[[Problem, Solution | None, str], Solution]
"""Solves a problem, from a solution near by if there is one; the text says what it is for."""


@dataclass(frozen=True)
class Score(Listed):
    """Estimates from one recording on the same or another."""

    fitted: str
    """Recording that the parameters come from."""
    on: str
    """Recording that is explained."""
    cost: float
    """−2 log L, or with a given state weight the cost of the estimated states over the number of steps."""
    status: Status


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(Tabular, DynamicsAndFriction):
    """One model on all recordings."""

    name: str
    """The model's."""
    stepper: str
    step: float
    """h [s]."""
    dynamics: Dynamics
    """Where the weight of the equations of motion comes from; "estimated" if the scores are likelihoods."""
    state_weight: float
    """κ; NaN where the noise is estimated."""
    sigmas: tuple[float | None, ...]
    """Of the observations, as given."""
    recordings: tuple[str, ...]
    scores: tuple[Score, ...]
    """Every pair of recordings."""
    agreement: Agreement
    log_likelihood: float = math.nan
    """Of the fit to all recordings together; NaN where there is no likelihood."""
    count: int = 0
    """Parameters of that fit, sizes of noise among them."""
    together: Status | None = None
    """How that fit ended; None if there is none."""
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""

    def __repr__(self) -> str:
        return f"<CrossValidation of {self.name!r} on {len(self.recordings)} recordings: CV {self.score:.6g}>"

    @property
    def aic(self) -> float:
        """Akaike's information criterion, less is better; NaN where there is no likelihood."""
        return 2 * self.count - 2 * self.log_likelihood

    @property
    def converged(self) -> bool:
        """True if all fits did."""
        return self.failures == 0

    @property
    def failures(self) -> int:
        """Fits that did not converge."""
        return sum(status is not Status.CONVERGED for status in self._statuses)

    @property
    def fits(self) -> int:
        """How many there are."""
        return len(self._statuses)

    @property
    def _statuses(self) -> list[Status]:
        return [*(score.status for score in self.scores), *([self.together] if self.together else [])]

    def own(self, recording: str) -> Score:
        """On the recording that was fitted."""
        return next(score for score in self.scores if score.fitted == score.on == recording)

    def others(self, recording: str) -> list[Score]:
        """On the recordings that were not."""
        return [score for score in self.scores if score.fitted == recording != score.on]

    @property
    def held_out(self) -> list[Score]:
        """All scores on recordings that were not fitted."""
        return [score for score in self.scores if score.fitted != score.on]

    @property
    def cost(self) -> float:
        """Mean of the fits' scores on the recordings that were fitted."""
        return mean(score.cost for score in self.scores if score.fitted == score.on)

    @property
    def score(self) -> float:
        """CV: mean score on recordings that were not fitted."""
        return mean(score.cost for score in self.held_out)

    def table(self) -> str:
        """The scores as text."""
        return str(self)

    def blocks(self) -> Sequence[Block]:
        """Scores, estimates, agreement and verdict."""
        return comparison([self])

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each pair of recordings."""
        return [
            {"model": self.name, "fitted": s.fitted, "on": s.on, "score": s.cost, "status": s.status.value}
            for s in self.scores
        ]


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean of an iterable."""
    return float(np.mean(list(values)))


def crossvalidate(
    problem: Problem, fit: CrossvalidationFit | None = None, name: str | None = None
) -> CrossValidation:
    """Fit ``problem`` to each of its recordings, and estimate the states of all others with the parameters fixed.

    Noise is estimated in all of them, without a state weight: likelihoods compare. Parameters of which each recording
    has its own are estimated in all of them, too, as its states are. Samples that stand out from their neighbours are
    left out of all (``loss="auto"`` of a sensor): which they are does not hang on the model.

    Args:
        fit: by default ``spookid.estimation.solving.solve`` with its own solver.
        name: of the model, by default the problem's.

    Raises:
        ProblemError: if there are fewer than two recordings, or two of one name.
    """
    _check(problem)
    refuse_contacts(problem, "fits of each other's states")
    fit = fit or (lambda one, near, purpose: solve(one, warm_start=near))
    problem = of_same_samples(problem.with_(estimator="noise"))
    alone = [problem.with_(recordings=[one], step=problem.step) for one in problem.recordings]
    names = [recording.name for recording in problem.recordings]
    fits = [fit(one, None, recording) for one, recording in zip(alone, names, strict=True)]
    scores = []
    for i, source in enumerate(fits):
        for j, one in enumerate(alone):
            held = _held(one, source)
            found = source if i == j else fit(held, fits[j], f"{names[j]} with the estimates from {names[i]}")
            scores.append(_score(found, names[i], names[j]))
    known = all(math.isfinite(solution.log_likelihood) for solution in fits)
    together = fit(problem, None, "all recordings") if known else None
    return CrossValidation(
        name=name or problem.name,
        stepper=problem.stepper.name,
        step=problem.step,
        dynamics=problem.dynamics,
        state_weight=fits[0].state_weight,
        sigmas=tuple(o.sigma for o in problem.channels),
        recordings=tuple(names),
        scores=tuple(scores),
        agreement=agreement(fits),
        log_likelihood=together.log_likelihood if together else math.nan,
        count=_count(together) if together else 0,
        together=together.status if together else None,
        assumptions=assumed(problem),
    )


def _held(problem: Problem, source: Solution) -> Problem:
    """The problem of a recording with the estimates from another; what is its own stays to be estimated, as states do:
    the other says nothing of it."""
    names = {p.name for p in problem.parameter_set.declared if not p.per}
    values = {name: value for name, value in source.values.items() if name in names}
    return problem.with_(initial=problem.parameter_set.updated(problem.initial, values), fixed={*problem.fixed, *names})


def _check(problem: Problem) -> None:
    names = [recording.name for recording in problem.recordings]
    if len(names) < 2:
        raise ProblemError(
            f"{problem.what} has {len(names)} recording{'s' if len(names) != 1 else ''}; "
            "cross-validation needs two or more"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(f"{problem.what} has several recordings named {twice!r}; give each its own name")


def _score(solution: Solution, fitted: str, on: str) -> Score:
    if solution.estimates_noise:
        return Score(fitted, on, -2 * solution.log_likelihood, solution.status)
    return Score(fitted, on, solution.cost.total / len(solution.trajectories[0].t), solution.status)


def _count(solution: Solution) -> int:
    """Parameters and sizes of noise that were estimated."""
    sizes = sum(not noise.given for noise in solution.noise)
    return sum(not estimate.fixed for estimate in solution.parameters.values()) + sizes


# --- several models ---


def verdict(models: Sequence[CrossValidation]) -> str:
    """The models in the order of their likelihoods or scores, and how clear it is."""
    unknown = [
        f"No verdict on {model.name}: {model.failures} of {model.fits} fits did not converge."
        for model in models
        if not model.converged
    ]
    settled = [model for model in models if model.converged]
    likely = [model for model in settled if not model.estimates_noise or math.isfinite(model.aic)]
    unknown += [
        f"No verdict on {model.name}: its likelihood is not known; take smooth friction and backend lm, or give a "
        "state_weight."
        for model in settled
        if model not in likely
    ]
    return " ".join([*([_ordered(likely)] if likely else []), *unknown])


def _ordered(models: Sequence[CrossValidation]) -> str:
    if len(models) < 2:
        return _alone(models[0])
    if len({(m.dynamics, str(m.state_weight), m.step, m.sigmas, m.recordings) for m in models}) > 1:
        return "No verdict: the models differ in state weight, step, sigma or recordings, so their scores do."
    return _by_likelihood(models) if models[0].estimates_noise else _by_score(models)


def _alone(model: CrossValidation) -> str:
    if model.estimates_noise:
        parameters = len(model.agreement.parameters)
        return (
            f"On recordings it was not fitted to, −2 log L of {model.name} is {model.score - model.cost:.1f} higher "
            f"than after fitting; about {2 * parameters} would be chance, twice the number of parameters."
        )
    ratio = model.score / model.cost if model.cost > 0 else float("nan")
    return f"On recordings it was not fitted to, {model.name} costs {ratio:.2f} times as much as on its own."


def _by_likelihood(models: Sequence[CrossValidation]) -> str:
    order = sorted(models, key=lambda model: model.aic)
    best = order[0]
    parts = [f"By Akaike's criterion {best.name} is best (AIC {best.aic:.1f})"]
    parts += [
        f"{model.name} is {model.aic - best.aic:.1f} above it, and its −2 log L on recordings it was not fitted to is "
        f"{abs(model.score - best.score):.1f} {'higher' if model.score > best.score else 'lower'}{_clear(best, model)}"
        for model in order[1:]
    ]
    return "; ".join(parts) + "."


def _by_score(models: Sequence[CrossValidation]) -> str:
    order = sorted(models, key=lambda model: model.score)
    parts = [f"By cross-validation {order[0].name} is best (CV {order[0].score:.3g})"]
    for better, worse in pairwise(order):
        ratio = worse.score / better.score
        parts.append(f"{worse.name} scores {ratio:.2f} times as much as {better.name}{_clear(better, worse)}")
    return "; ".join(parts) + "."


def _clear(better: CrossValidation, worse: CrossValidation) -> str:
    pairs = list(zip(better.held_out, worse.held_out, strict=True))
    wins = sum(a.cost < b.cost for a, b in pairs)
    return f" (worse in {wins} of {len(pairs)} pairs of recordings{'' if wins == len(pairs) else ', not clear'})"


# --- as text ---


def comparison_table(models: Sequence[CrossValidation]) -> str:
    """Scores, estimates, agreement and verdict, for a terminal."""
    return as_text(comparison(models))


def comparison(models: Sequence[CrossValidation]) -> list[Block]:
    """The same as title, tables and sentences."""
    parts: list[Block] = [f"Cross-validation of {', '.join(model.name for model in models)}"]
    parts += [_scores(models), _LIKELY_MEANING if _likely(models) else _MEANING]
    if _likely(models):
        parts += [_criteria(models), _AIC_MEANING]
    for model in models:
        told = [f"{model.name}: {model.agreement.verdict}", *wrap(model.agreement.explanation, 110)]
        parts += [_estimates(model), "\n".join(told)]
    return [*parts, verdict(models)]


def _likely(models: Sequence[CrossValidation]) -> bool:
    return any(model.estimates_noise for model in models)


def _scores(models: Sequence[CrossValidation]) -> Table:
    rows = []
    for model in models:
        for recording in model.recordings:
            sizes = (model.own(recording).cost, mean(s.cost for s in model.others(recording)))
            rows.append((model.name, recording, *(_size(model, size) for size in sizes)))
        rows.append((model.name, "mean", *(_size(model, size) for size in (model.cost, model.score))))
    return Table(("model", "fitted to", "−2 log L" if _likely(models) else "cost", "CV"), rows)


def _size(model: CrossValidation, score: float) -> str:
    return f"{score:.1f}" if model.estimates_noise else number(score, 3)


def _criteria(models: Sequence[CrossValidation]) -> Table:
    rows = []
    for model in sorted(models, key=lambda model: model.aic):
        known = math.isfinite(model.aic)
        cells = (f"{model.log_likelihood:.1f}", str(model.count), f"{model.aic:.1f}") if known else ("-", "-", "-")
        rows.append((model.name, *cells))
    return Table(("model", "log L", "k", "AIC"), rows)


def _estimates(model: CrossValidation) -> Table:
    rows = []
    for p in model.agreement.parameters:
        values = [uncertain(*pair) for pair in zip(p.estimates, p.std_errs, strict=True)]
        spread = f"{100 * p.spread:.2g} %" if math.isfinite(p.spread) else "-"
        apart = f"{p.test.sigma:.1f} sigma" if math.isfinite(p.test.sigma) else "-"
        rows.append((labelled(p.name, p.unit), *values, spread, apart))
    return Table(("parameter", *model.recordings, "spread", "agreement"), rows)
