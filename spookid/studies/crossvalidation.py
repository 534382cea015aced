"""Cross-validation as in sections 4.5 and 4.6 of the paper: a model tuned on one recording, judged on the others.

The model is fitted to each recording by itself. With the parameters fixed at those estimates, the states of every other
recording are estimated by the same method, and so is its noise unless the weight κ is given. The score is −2 log L
of that or, with a given weight κ, the cost over the number of steps.

Where there is a likelihood, models are ordered by Akaike's information criterion, −2 log L + 2k of the fit to all
recordings together: k parameters, noise standard deviations among them. The score says the same with fewer presumptions
and less power. Of nested models −2 log L falls, if the smaller one is right, by chi-square with as many degrees of
freedom as the larger one has parameters more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap
from typing import Any

import numpy as np

from spookid.assembly.contact_start import refuse_contacts
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.results.result import Solution
from spookid.results.settings import Dynamics, DynamicsAndFriction
from spookid.solvers.status import Status
from spookid.studies.agreement import Agreement, agreement
from spookid.studies.variants import Chosen, Fit, estimator_line, fitting, is_hard, raised
from spookid.tables.table import Block, Listed, Table, Tabular, labelled, number, uncertain

_MEANING = (
    "cost and CV: squared residuals over the number of steps, on the recording fitted to and on the others with the\n"
    "parameters fixed."
)
_LIKELY_MEANING = (
    "−2 log L and CV: of the recording fitted to, and of the others with the parameters fixed and the noise estimated\n"
    "again."
)
_AIC_MEANING = (
    "log L: of all recordings together; k: parameters and noise standard deviations; AIC = −2 log L + 2k, less is\n"
    "better. Of nested models −2 log L falls, if the smaller one is right, by chi-square with as many degrees of\n"
    "freedom as the larger one has parameters more."
)


@dataclass(frozen=True)
class Score(Listed):
    """Score of estimates from one recording, evaluated on this or another recording."""

    fitted: str
    """Recording that the parameters come from."""
    on: str
    """Recording that is explained."""
    cost: float
    """−2 log L, or with a given `state_weight` the cost of the estimated states over the number of steps."""
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
    """Weighting of the equations of motion; "estimated" if the scores are likelihoods."""
    state_weight: float
    """κ; NaN where the noise is estimated."""
    sigmas: tuple[float | None, ...]
    """Given standard deviations of the sensors."""
    recordings: tuple[str, ...]
    scores: tuple[Score, ...]
    """Every pair of recordings."""
    agreement: Agreement
    log_likelihood: float = math.nan
    """Log-likelihood of the fit to all recordings together; NaN without a likelihood."""
    count: int = 0
    """Number of parameters and noise standard deviations of that fit."""
    together: Status | None = None
    """Status of that fit; None if there is none."""
    overdispersion: float = 1.0
    """ĉ, the mean squared factor by which errors are raised to their scatter over blocks: with deterministic dynamics
    residuals are correlated, and differences of −2 log L are too large by it (Burnham and Anderson, 2002, section 2.5).
    """
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Estimator, stepper, friction and noise in words."""

    def __repr__(self) -> str:
        return f"<CrossValidation of {self.name!r} on {len(self.recordings)} recordings: CV {self.score:.6g}>"

    @property
    def aic(self) -> float:
        """Akaike's information criterion with log L divided by ``overdispersion``; NaN without a likelihood."""
        return 2 * self.count - 2 * self.log_likelihood / self.overdispersion

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
        """Score on the recording to which the model was fitted."""
        return next(score for score in self.scores if score.fitted == score.on == recording)

    def others(self, recording: str) -> list[Score]:
        """Scores on recordings to which the model was not fitted."""
        return [score for score in self.scores if score.fitted == recording != score.on]

    @property
    def held_out(self) -> list[Score]:
        """Scores of all fits on recordings to which they were not fitted."""
        return [score for score in self.scores if score.fitted != score.on]

    @property
    def cost(self) -> float:
        """Mean score of all fits on their own recordings."""
        return mean(score.cost for score in self.scores if score.fitted == score.on)

    @property
    def score(self) -> float:
        """Cross-validation score: mean score on recordings that were not fitted."""
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
    problem: Problem, fit: Fit | None = None, name: str | None = None, leader: Solution | None = None
) -> CrossValidation:
    """Fit ``problem`` to each of its recordings alone; on the others, keep the parameters and estimate only the states.

    All fits have the estimator and the samples that the fit of all recordings together has chosen, so that their
    likelihoods compare. Parameters of which each recording has its own are estimated in all of them, as its states are.

    Args:
        fit: a function that fits a problem; default: ``spookid.estimation.solving.solve``.
        name: name of the model; default: that of the problem.
        leader: a fit of another model to the same recordings, whose choices are taken instead; see ``leading``.

    Raises:
        ProblemError: if there are fewer than two recordings, or two of one name.
    """
    check_recordings(problem)
    fit, name = fit or fitting(), name or problem.name
    whole = fit(problem, None, f"{name}, all recordings")
    leader = leader or whole
    problem = Chosen.by(leader).posed(problem)
    alone = [problem.with_(recordings=[one], step=problem.step) for one in problem.recordings]
    names = [recording.name for recording in problem.recordings]
    fits = [fit(one, None, f"{name}, {recording}") for one, recording in zip(alone, names, strict=True)]
    scores = []
    for i, source in enumerate(fits):
        for j, one in enumerate(alone):
            held = _held(one, source)
            found = source if i == j else fit(held, fits[j], f"{name}, {names[j]} with the estimates from {names[i]}")
            scores.append(_score(found, names[i], names[j]))
    known = all(math.isfinite(solution.log_likelihood) for solution in fits)
    alike = is_hard(leader) is is_hard(whole) is False and leader.outliers == whole.outliers
    together = None
    if known:
        together = whole if alike else fit(problem, whole, f"{name}, all recordings, estimator {problem.estimator}")
    return CrossValidation(
        name=name,
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
        overdispersion=mean(factor**2 for factor in raised(leader).values()) if is_hard(leader) else 1.0,
        assumptions=Chosen.by(leader).assumed(problem),
    )


def leading(solutions: Iterable[Solution]) -> Solution:
    """Select the fit whose estimator and outliers all models use: most likely, preferably with estimated noise."""

    def rank(solution: Solution) -> tuple[bool, float]:
        likely = solution.log_likelihood
        return is_hard(solution), -likely if math.isfinite(likely) else solution.cost.total

    return min(solutions, key=rank)


def _held(problem: Problem, source: Solution) -> Problem:
    """The problem of a recording with the estimates from another; what is its own stays to be estimated, as states do:
    the other says nothing of it."""
    names = {p.name for p in problem.parameter_set.declared if not p.per}
    values = {name: value for name, value in source.values.items() if name in names}
    return problem.with_(initial=problem.parameter_set.updated(problem.initial, values), fixed={*problem.fixed, *names})


def check_recordings(problem: Problem) -> None:
    """Raise ProblemError for a problem that cannot be cross-validated."""
    names = [recording.name for recording in problem.recordings]
    if len(names) < 2:
        raise ProblemError(
            f"{problem.what} has {len(names)} recording{'s' if len(names) != 1 else ''}; "
            "cross-validation needs two or more"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(f"{problem.what} has several recordings named {twice!r}; give each its own name")
    refuse_contacts(problem, "fits of each other's states")


def _score(solution: Solution, fitted: str, on: str) -> Score:
    if solution.estimates_noise:
        return Score(fitted, on, -2 * solution.log_likelihood, solution.status)
    return Score(fitted, on, solution.cost.total / len(solution.trajectories[0].t), solution.status)


def _count(solution: Solution) -> int:
    """Parameters and noise standard deviations that were estimated."""
    sizes = sum(not noise.given for noise in solution.noise)
    return sum(not estimate.fixed for estimate in solution.parameters.values()) + sizes


# --- several models ---


def verdict(models: Sequence[CrossValidation]) -> str:
    """Rank the models by likelihood or score, and state how significant the differences are."""
    settled = [model for model in models if model.converged]
    likely = [model for model in settled if not model.estimates_noise or math.isfinite(model.aic)]
    unknown = {m.name: f"{m.failures} of {m.fits} fits did not converge" for m in models if m not in settled}
    blind = "its likelihood is unknown; use smooth friction and backend lm, or give a state_weight"
    unknown |= {model.name: blind for model in settled if model not in likely}
    texts = [_ordered(likely)] if likely else []
    return " ".join([*texts, *(f"No verdict on {name}: {why}." for name, why in unknown.items())])


def _ordered(models: Sequence[CrossValidation]) -> str:
    first, likely = models[0], models[0].estimates_noise
    if len(models) < 2 and likely:
        over, twice = first.overdispersion, 2 * len(first.agreement.parameters)
        why = "twice the number of parameters" + (
            f", times {number(over)} for correlated residuals" if over > 1 else ""
        )
        return (
            f"On recordings that were not fitted, −2 log L of model {first.name} is {first.score - first.cost:.1f} "
            f"higher than on fitted ones. For a correct model, this difference is about {number(twice * over)}: {why}."
        )
    if len(models) < 2:
        ratio = first.score / first.cost if first.cost > 0 else math.nan
        return (
            f"On recordings that were not fitted, the cost of {first.name} is {ratio:.2f} times the cost on the "
            "fitted recording."
        )
    if len({(m.dynamics, str(m.state_weight), m.step, m.sigmas, m.recordings) for m in models}) > 1:
        return "No verdict: the models differ in `state_weight`, step, sigma or recordings, so their scores do."
    best, *others = sorted(models, key=lambda model: model.aic if likely else model.score)
    if not likely:
        parts = [f"By cross-validation model {best.name} is best (CV {best.score:.3g})"]
        for better, worse in pairwise([best, *others]):
            times = f"{worse.score / better.score:.2f} times as much as {better.name}"
            parts.append(f"{worse.name} scores {times}{_clear(better, worse)}")
        return "; ".join(parts) + "."
    parts = [f"By Akaike's criterion model {best.name} is best (AIC {best.aic:.1f})"]
    for m in others:
        apart = f"{abs(m.score - best.score):.1f} {'higher' if m.score > best.score else 'lower'}{_clear(best, m)}"
        above = f"{m.aic - best.aic:.1f} above it, and its −2 log L on recordings that were not fitted is {apart}"
        parts.append(f"{m.name} is {above}")
    return "; ".join(parts) + "."


def _clear(better: CrossValidation, worse: CrossValidation) -> str:
    pairs = list(zip(better.held_out, worse.held_out, strict=True))
    wins = sum(a.cost < b.cost for a, b in pairs)
    return f" (worse in {wins} of {len(pairs)} pairs of recordings{'' if wins == len(pairs) else ', not clear'})"


def comparison(models: Sequence[CrossValidation]) -> list[Block]:
    """Report on scores, estimates, agreement and verdict: title, tables and sentences."""
    likely = any(model.estimates_noise for model in models)
    rows, layout = [], "{:.1f}" if likely else "{:.3g}"
    for model in models:
        for recording in model.recordings:
            others = mean(score.cost for score in model.others(recording))
            rows.append((model.name, recording, layout.format(model.own(recording).cost), layout.format(others)))
        rows.append((model.name, "mean", layout.format(model.cost), layout.format(model.score)))
    scores = Table(("model", "fitted to", "−2 log L" if likely else "cost", "CV"), rows)
    title = f"Cross-validation of {', '.join(model.name for model in models)}"
    parts: list[Block] = [title, scores, _LIKELY_MEANING if likely else _MEANING]
    if likely:
        criteria = [
            (m.name, f"{m.log_likelihood:.1f}", str(m.count), f"{m.aic:.1f}")
            if math.isfinite(m.aic)
            else (m.name, *"---")
            for m in sorted(models, key=lambda model: model.aic)
        ]
        over = models[0].overdispersion
        divided = f"\nIn AIC log L is divided by {number(over)}: the residuals are correlated." if over > 1 else ""
        parts += [Table(("model", "log L", "k", "AIC"), criteria), _AIC_MEANING + divided]
    for model in models:
        told = [f"{model.name}: {model.agreement.verdict}"]
        told += [
            line
            for text in (model.agreement.explanation, *estimator_line(model.assumptions))
            for line in wrap(text, 110)
        ]
        parts += [_estimates(model), "\n".join(told)]
    return [*parts, verdict(models)]


def _estimates(model: CrossValidation) -> Table:
    rows = []
    for p in model.agreement.parameters:
        values = [uncertain(*pair) for pair in zip(p.estimates, p.std_errs, strict=True)]
        spread = f"{100 * p.spread:.2g} %" if math.isfinite(p.spread) else "-"
        apart = f"{p.test.sigma:.1f} sigma" if math.isfinite(p.test.sigma) else "-"
        rows.append((labelled(p.name, p.unit), *values, spread, apart))
    return Table(("parameter", *model.recordings, "spread", "agreement"), rows)
