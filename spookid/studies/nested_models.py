"""Nested models of one mechanism in turn: which step of the ladder pays, by likelihood and by prediction.

Each model is fitted to all recordings, from the estimates of the largest earlier one that it contains. With one more
free parameter, −2 log L falls by chi-square if the smaller model is right; residuals of deterministic dynamics are
correlated, and the fall is divided by their overdispersion ĉ (Burnham and Anderson, 2002, section 2.5). Then each
recording is left out in turn: the model is fitted to the others and simulated along the one that it has not seen, from
its first state on, with inputs alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.report.study_page import Answer
from spookid.results.result import Solution
from spookid.solvers.status import Status
from spookid.statistics.whiteness import FALSE_ALARMS
from spookid.stepping.simulation import StepFailedError
from spookid.studies.crossvalidation import leading, mean
from spookid.studies.job import Job, changed
from spookid.studies.simulating import simulate
from spookid.studies.variants import Chosen, Fit, fitting, is_hard, raised
from spookid.tables.table import Block, Table, Tabular, number

_MEANING = (
    "−2 log L falls by chi-square if the smaller model is right; the fall is divided by {over} because residuals are\n"
    "correlated. Errors are mean absolute ones of free simulations with inputs alone: of recordings that were fitted,\n"
    "and of each recording when it was left out."
)


@dataclass(frozen=True, eq=False)
class Rung:
    """One model of a ladder."""

    name: str
    solution: Solution
    """The fit to all recordings."""
    fitted: Mapping[str, float]
    """Error of the free simulation along each recording, after the fit to all of them; infinite if it failed."""
    left_out: Mapping[str, float]
    """The same after the fit to all others."""

    @property
    def count(self) -> int:
        """Free parameters."""
        return sum(not estimate.fixed for estimate in self.solution.parameters.values())


@dataclass(frozen=True)
class Step:
    """Comparison of a model with a larger model that contains it."""

    name: str
    """That of the larger model."""
    before: str
    """That of the smaller one."""
    parameters: int
    """By how many it has more."""
    fall: float
    """Of −2 log L, divided by the overdispersion."""
    chance: float
    """Probability of such a fall if the smaller model is right."""
    better: int
    """Recordings that are predicted better when they are left out."""
    gain: float
    """By which share the mean error of left-out recordings falls."""
    recordings: int

    @property
    def likely(self) -> bool:
        """True if the likelihood prefers the larger model."""
        return self.chance < FALSE_ALARMS

    @property
    def predicts(self) -> bool:
        """True if the larger model predicts most recordings better, and has a smaller mean error."""
        return self.gain > 0 and 2 * self.better > self.recordings

    @property
    def verdict(self) -> str:
        """In a sentence."""
        share = f"{abs(100 * self.gain):.0f} % {'less' if self.gain > 0 else 'more'}"
        facts = f"the prediction error is {share}, smaller on {self.better} of {self.recordings} recordings"
        word = {2: "pays", 0: "does not pay"}.get(self.likely + self.predicts, "")
        word = word or ("pays by likelihood only" if self.likely else "pays by prediction only")
        fall = f"against model {self.before}, −2 log L / ĉ falls by {number(self.fall, 3)} (p = {self.chance:.1g})"
        return f"{self.name} {word}: {fall}, {facts}."


@dataclass(frozen=True, eq=False, repr=False)
class Ladder(Tabular):
    """Nested models of one mechanism."""

    rungs: tuple[Rung, ...]
    below: Mapping[str, str]
    """By name of a model that of the largest earlier one that it contains."""
    unit: str
    """Of the errors."""
    overdispersion: float
    """ĉ of the likeliest model; 1 where the noise of the motion is estimated."""
    assumptions: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<Ladder of {', '.join(rung.name for rung in self.rungs)}>"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Comparisons of each model with the largest earlier model that it contains."""
        own = {rung.name: rung for rung in self.rungs}
        return tuple(self._step(own[smaller], own[larger]) for larger, smaller in self.below.items())

    def _step(self, smaller: Rung, larger: Rung) -> Step:
        from scipy import special  # its import takes longer than most commands

        more = larger.count - smaller.count
        fall = 2 * (larger.solution.log_likelihood - smaller.solution.log_likelihood) / self.overdispersion
        chance = float(special.chdtrc(more, max(fall, 0.0))) if more > 0 else math.nan
        before, after = (mean(rung.left_out.values()) for rung in (smaller, larger))
        better = sum(larger.left_out[name] < error for name, error in smaller.left_out.items())
        gain = 1 - after / before if before > 0 and math.isfinite(before) else 0.0
        return Step(larger.name, smaller.name, more, fall, chance, better, gain, len(larger.left_out))

    @property
    def verdict(self) -> str:
        """Which steps pay."""
        return " ".join(step.verdict for step in self.steps)

    @property
    def failures(self) -> tuple[str, ...]:
        """Models whose fit did not converge."""
        return tuple(rung.name for rung in self.rungs if rung.solution.status is not Status.CONVERGED)

    def blocks(self) -> list[Block]:
        """Tables of models, prediction errors of each recording, and model extensions that improve the prediction."""
        rows = [
            (
                rung.name,
                str(rung.count),
                f"{rung.solution.log_likelihood:.1f}",
                *(number(mean(errors.values()), 3) for errors in (rung.fitted, rung.left_out)),
            )
            for rung in self.rungs
        ]
        head = ("model", "parameters", "log L", f"error, fitted [{self.unit}]", f"error, left out [{self.unit}]")
        names = [rung.name for rung in self.rungs]
        errors = [(key, *(number(rung.left_out[key], 3) for rung in self.rungs)) for key in self.rungs[0].left_out]
        meaning = _MEANING.format(over=number(self.overdispersion, 3))
        title = f"Ladder of {', '.join(names)}"
        unseen = Table((f"left out [{self.unit}]", *names), errors)
        return [title, Table(head, rows), meaning, unseen, "\n".join(step.verdict for step in self.steps)]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each model and recording."""
        return [
            {"model": rung.name, "recording": key, "fitted": rung.fitted[key], "left_out": error}
            for rung in self.rungs
            for key, error in rung.left_out.items()
        ]


def ladder(problems: Mapping[str, Problem], fit: Fit | None = None) -> Ladder:
    """Fit nested models one after another, and predict each recording from fits to the others. ::

        found = spookid.studies.ladder({"M1": with_coulomb, "M3": with_load_dependent})
        print(found)

    Args:
        problems: from the smallest model to the largest, on the same recordings. Each but the first has all free
            parameters of an earlier one, by name, and more.
        fit: by default the package's own.

    Raises:
        ProblemError: for fewer than two models or recordings, other recordings, a model that contains no earlier one,
            or one without a likelihood.
    """
    below, fit = _below(problems), fit or fitting()
    first: dict[str, Solution] = {}
    for name, problem in problems.items():
        before = first[below[name]] if name in below else None
        first[name] = fit(_from(problem, before), None, f"{name}, all recordings")
        if not math.isfinite(first[name].log_likelihood):
            raise ProblemError(f"{problem.what} has no likelihood to compare; fit it without a state_weight")
    leader = leading(first.values())
    chosen, rungs = Chosen.by(leader), list[Rung]()
    for name, problem in problems.items():
        posed = _from(chosen.posed(problem), first[name])
        alike = is_hard(first[name]) is is_hard(leader) and first[name].outliers == leader.outliers
        whole = first[name] if alike else fit(posed, None, f"{name}, the samples of all models")
        fitted, left_out = {}, {}
        for out, declared in zip(posed.recordings, problem.recordings, strict=True):
            others = [one for one in posed.recordings if one is not out]
            doing = f"{name} without {out.name}"
            alone = fit(_from(posed.with_(recordings=others, step=posed.step), whole), None, doing)
            fitted[out.name] = _error(problem, whole, declared)
            left_out[out.name] = _error(problem, alone, declared)
        rungs.append(Rung(name, whole, fitted, left_out))
    over = mean(factor**2 for factor in raised(leader).values()) if is_hard(leader) else 1.0
    *_, last = problems.values()
    return Ladder(tuple(rungs), below, _unit(last), max(over, 1.0), chosen.assumed(last))


def _below(problems: Mapping[str, Problem]) -> dict[str, str]:
    """By name of a model that of the largest earlier one whose free parameters are among its own."""
    if len(problems) < 2:
        raise ProblemError("a ladder needs two models or more; give problems = {name: problem, ...}")
    first = next(iter(problems.values()))
    for problem in problems.values():
        if len(problem.recordings) < 2:
            raise ProblemError(f"{problem.what} has fewer than two recordings; one is left out in turn, give more")
        if [one.name for one in problem.recordings] != [one.name for one in first.recordings]:
            raise ProblemError(f"{problem.what} has other recordings than {first.what}; give both the same")
    free = {name: {p.name for p in problem.free} for name, problem in problems.items()}
    found = dict[str, str]()
    for i, (name, own) in enumerate(free.items()):
        contained = [other for other in list(free)[:i] if free[other] < own]
        if i and not contained:
            raise ProblemError(
                f"{problems[name].what} contains no earlier model: none has free parameters that are all among its "
                "own; give models from small to large, and what they share the same names"
            )
        if contained:
            found[name] = max(contained, key=lambda other: len(free[other]))
    return found


def _from(problem: Problem, earlier: Solution | None) -> Problem:
    """The problem from the estimates of an earlier fit, as far as it has parameters of their names."""
    if earlier is None:
        return problem
    known = {p.name for p in problem.parameter_set.declared if not p.per}
    values = {name: value for name, value in earlier.values.items() if name in known}
    return problem.with_(initial=problem.parameter_set.updated(problem.initial, values))


def _unit(problem: Problem) -> str:
    units = {channel.unit for channel in problem.channels}
    return units.pop() if len(units) == 1 else "share of the spread"


def _error(problem: Problem, solution: Solution, recording: Recording) -> float:
    """Mean absolute error of a free simulation, in the unit of the sensors, or as a share of each one's spread."""
    alone = problem.with_(recordings=[recording], step=problem.step)
    known = {p.name for p in alone.parameter_set.declared}
    values = {name: value for name, value in solution.values.items() if name in known}
    try:
        simulated = simulate(alone, values)
    except StepFailedError:
        return math.inf
    errors, one_unit = list[float](), len({channel.unit for channel in problem.channels}) == 1
    for channel in problem.channels:
        measured: Array = recording.signal(channel.signal)
        seen = np.isfinite(measured) & (recording.t <= simulated.t[-1] + recording.t[0])
        times = recording.t[seen] - recording.t[0], simulated.t - simulated.t[0]
        predicted = np.interp(*times, simulated.signal(channel.signal))
        away = predicted - measured[seen]
        if channel.period:
            away = (away + channel.period / 2) % channel.period - channel.period / 2
        errors.append(float(np.mean(np.abs(away))) / (1.0 if one_unit else float(np.std(measured[seen])) or 1.0))
    return mean(errors)


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``ladder`` when run from the command line."""
    problems = {name: changed(problem, job.arguments) for name, problem in job.problems.items()}
    _below(problems)
    return lambda: answer(job.place, ladder(problems, job.fit))


def answer(place: str, found: Ladder) -> Answer:
    """With the file ``ladder.txt``."""
    _, *shown = found.blocks()
    facts = {
        "unit": found.unit,
        "overdispersion": found.overdispersion,
        "models": [
            {
                "name": rung.name,
                "parameters": rung.count,
                "log_likelihood": rung.solution.log_likelihood,
                "fitted": dict(rung.fitted),
                "left_out": dict(rung.left_out),
                "estimates": {name: one.estimate for name, one in rung.solution.parameters.items()},
            }
            for rung in found.rungs
        ],
        "steps": list(found.steps),
    }
    failed = [f"not every fit of {name} converged" for name in found.failures]
    files = {"ladder.txt": str(found)}
    return Answer(place, str(found), found.verdict, shown, facts, found.assumptions, failed, files, failed)
