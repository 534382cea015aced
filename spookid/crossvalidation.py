"""Cross-validation as in sections 4.5 and 4.6 of the paper: a model tuned on one recording, judged on the others.

The model is fitted to each recording by itself. With the parameters fixed at those estimates, the states of every other
recording are estimated by the same method. The score is the cost of that: squared residuals over the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spookid.agreement import Agreement, agreement
from spookid.errors import ProblemError
from spookid.problem import AUTO, Problem
from spookid.solution import Solution
from spookid.solvers.status import Status

Fit = Callable[[Problem, Solution | None, str], Solution]
"""Solves a problem, from a solution near by if there is one; the text says what it is for."""


@dataclass(frozen=True)
class Score:
    """Estimates from one recording on the same or another."""

    fitted: str
    """Recording that the parameters come from."""
    on: str
    """Recording that is explained."""
    cost: float
    """Of the estimated states, over the number of steps."""
    status: Status


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """One model on all recordings."""

    name: str
    """The model's."""
    stepper: str
    step: float
    """h [s]."""
    state_weight: float
    """κ."""
    sigmas: tuple[float, ...]
    """Of the observations."""
    recordings: tuple[str, ...]
    scores: tuple[Score, ...]
    """Every pair of recordings."""
    agreement: Agreement

    @property
    def converged(self) -> bool:
        """True if all fits did."""
        return all(score.status is Status.CONVERGED for score in self.scores)

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
        """Mean cost of the fits."""
        return mean(score.cost for score in self.scores if score.fitted == score.on)

    @property
    def score(self) -> float:
        """CV: mean cost on recordings that were not fitted."""
        return mean(score.cost for score in self.held_out)

    def table(self) -> str:
        """The scores as text."""
        from spookid.crossvalidation_table import table  # rendering is apart from results

        return table([self])


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean of an iterable."""
    return float(np.mean(list(values)))


def crossvalidate(problem: Problem, fit: Fit, name: str | None = None) -> CrossValidation:
    """Fit ``problem`` to each of its recordings, and estimate the states of all others with the parameters fixed.

    A state weight that the data are to choose is chosen once, on all recordings together.

    Args:
        fit: solves; see `Fit`.
        name: of the model, by default the problem's.

    Raises:
        ProblemError: if there are fewer than two recordings, or two of one name.
    """
    _check(problem)
    if problem.state_weight == AUTO:
        problem = problem.with_(state_weight=fit(problem, None, "all recordings").state_weight)
    alone = [problem.with_(recordings=[recording]) for recording in problem.recordings]
    names = [recording.name for recording in problem.recordings]
    fits = [fit(one, None, recording) for one, recording in zip(alone, names, strict=True)]
    scores = []
    for i, source in enumerate(fits):
        for j, one in enumerate(alone):
            held = one.with_(initial=source.values, fixed=list(problem.guess))
            found = source if i == j else fit(held, fits[j], f"{names[j]} with the estimates from {names[i]}")
            scores.append(_score(found, names[i], names[j]))
    return CrossValidation(
        name=name or problem.name,
        stepper=problem.stepper.name,
        step=problem.step,
        state_weight=problem.weight,
        sigmas=tuple(o.sigma for o in problem.observations),
        recordings=tuple(names),
        scores=tuple(scores),
        agreement=agreement(fits),
    )


def _check(problem: Problem) -> None:
    names = [recording.name for recording in problem.recordings]
    if len(names) < 2:
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has {len(names)} recording{'s' if len(names) != 1 else ''}; "
            "cross-validation needs two or more"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(
            f"{problem.place}: Problem {problem.name!r} has several recordings named {twice!r}; give each its own name"
        )


def _score(solution: Solution, fitted: str, on: str) -> Score:
    return Score(fitted, on, solution.cost.total / len(solution.trajectories[0].t), solution.status)


# --- several models ---


def verdict(models: Sequence[CrossValidation]) -> str:
    """The models in the order of their scores, and how clear it is."""
    unknown = [
        f"No verdict on {model.name}: {sum(s.status is not Status.CONVERGED for s in model.scores)} of "
        f"{len(model.scores)} fits did not converge."
        for model in models
        if not model.converged
    ]
    settled = [model for model in models if model.converged]
    return " ".join([*([_ordered(settled)] if settled else []), *unknown])


def _ordered(models: Sequence[CrossValidation]) -> str:
    if len(models) < 2:
        ratio = models[0].score / models[0].cost if models[0].cost > 0 else float("nan")
        return f"On recordings it was not fitted to, {models[0].name} costs {ratio:.2f} times as much as on its own."
    if len({(m.state_weight, m.step, m.sigmas, m.recordings) for m in models}) > 1:
        return "No verdict: the models differ in state weight, step, sigma or recordings, so their scores do."
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
