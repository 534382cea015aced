"""The state of a solve between its stages: the problem, the fits that were made, and where the next one begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.priors import NORMALISER
from spookid.assembly.problem import Problem
from spookid.estimation.fit import Fit, joined
from spookid.estimation.fitting import Start, finished, fit, with_likelihood
from spookid.estimation.suspects import Wrong
from spookid.kernels.arrays import Array
from spookid.results.result import Solution
from spookid.results.values import StageRecord
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Callback, Outcome, Status, counting_from

Solver = LevenbergMarquardt | Ipopt


def holds_pairs(solver: Solver) -> bool:
    """True for a solver that supports inequalities and complementarity pairs, but does not estimate noise."""
    return isinstance(solver, Ipopt)


@dataclass(eq=False)
class Work:
    """State of a solve between two stages of its plan."""

    problem: Problem
    """As it is fitted from now on: without samples that are left out, around the delays that were found."""
    solver: Solver
    callback: Callback | None = None
    near: Solution | None = None
    """Where the first fit begins; None: at the initial values of the problem."""
    hold: bool = False
    """True to keep the noise of ``near``."""
    widths: bool = False
    """True to estimate the widths of smooth friction."""
    fit: Fit | None = None
    """The current fit, with the history and the times of all before it."""
    found: Solution | None = None
    """Where the next fit begins; None: at the initial values."""
    finer: Solution | None = None
    """Where a fit with half the step begins; None: where the fit with the whole step has ended."""
    noise: Solution | None = None
    """Fits with sticking friction, contacts or IPOPT keep the noise of this solution; None: they estimate it."""
    touching: tuple[Array | None, ...] = ()
    """What contacts do on each recording of the last fit; empty: it is found out."""
    whole: Problem | None = None
    """The problem with the samples that are or were suspected; None: all are kept."""
    suspects: Wrong = ()
    """Samples that are left out."""
    judged: bool = False
    """True once the motion of a fit has confirmed or changed them."""
    records: list[StageRecord] = field(default_factory=list)
    """Every fit, by the stage that it belongs to."""
    remarks: list[Callable[[Solution], Solution]] = field(default_factory=list)
    """What stages add to the answer at the end, such as the choice of an estimator."""
    answer: Solution | None = None
    """The solution that a stage made from several fits; None: that of ``fit``."""
    doubted: bool = False
    """True once a fit has left more to process noise than acts in the model."""
    misread: bool = False
    """True once a unit or a sign is known to be wrong."""
    done: int = 0
    """Iterations of the fits before the first one here, for the callback."""
    _stage: str = ""
    _known: list[Assembly] = field(default_factory=list)
    _ends: list[Outcome] = field(default_factory=list)
    """Of ``records``."""

    @property
    def begins(self) -> bool:
        """True for a solve from the initial values, without a warm start."""
        return self.near is None and not self.hold

    @property
    def stopped(self) -> bool:
        """True if the solve has been interrupted."""
        return self.fit is not None and self.fit.result.status is Status.INTERRUPTED

    @property
    def leader(self) -> LevenbergMarquardt:
        """Solver of preliminary fits: Levenberg–Marquardt, which also estimates the noise."""
        most = self.solver.max_iterations
        return self.solver if isinstance(self.solver, LevenbergMarquardt) else LevenbergMarquardt(max_iterations=most)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context in which fits are recorded under this stage of the plan."""
        before, self._stage = self._stage, name
        try:
            yield
        finally:
            self._stage = before

    def run(self, problem: Problem, start: Start, after: Fit | None = None, solver: Solver | None = None) -> Fit:
        """Run one fit, by default with the requested solver, or by ``leader`` if noise is estimated; its iterations
        continue those of another fit, whose history and times it includes."""
        began, iterations = time.perf_counter(), self.done if after is None else after.result.iterations
        if solver is None:
            solver = self.leader if problem.estimates_noise and start.noise is None else self.solver
        if start.assembly is None:
            start = replace(start, like=self._like(problem, start.noise is not None))
        told = None if self.callback is None else counting_from(self.callback, iterations)
        made = fit(problem, solver, told, start)
        self._known = [made.assembly, *self._known[:3]]
        seconds, own, anew = time.perf_counter() - began, made.result, start.assembly is None and start.like is None
        kept = made.backend, own.iterations, seconds, made.outcome.status, anew
        self.records.append(StageRecord(self._stage, problem.step, *kept))
        self._ends.append(made.outcome)
        return made if after is None else made.with_(**joined(after.result, own))

    def _like(self, problem: Problem, normalised: bool) -> Assembly | None:
        """An assembly with the same step, the one most like it."""

        def likeness(one: Assembly) -> tuple[bool, bool]:
            has = any(factor.name == NORMALISER for factor in one.transcription.factors)
            return one.problem.friction == problem.friction, has == normalised

        same = [one for one in self._known if one.problem.step == problem.step]
        return max(same, key=likeness, default=None)

    def finished(self, near: Fit) -> Fit:
        """Continue a fit that ended near its maximum; it counts as the same fit."""
        began, made = time.perf_counter(), finished(near)
        place = next((i for i, one in enumerate(self._ends) if one is near.outcome), None)
        if made is not near and place is not None:
            before, more = self.records[place], len(made.outcome.history) - len(near.outcome.history)
            longer = before.seconds + time.perf_counter() - began
            self.records[place] = replace(before, iterations=before.iterations + more, seconds=longer)
            self._ends[place] = made.outcome
        return made

    def polished(self, made: Fit, held: Mapping[str, float] = MappingProxyType({})) -> Fit:
        """Fit with noise from Levenberg–Marquardt, refined by IPOPT if requested and not done yet."""
        searched = made.outcome.status is not Status.CONVERGED or made.result.normaliser is not None
        if not (holds_pairs(self.solver) and self.problem.estimates_noise and searched):
            return made
        if made.outcome.status is not Status.CONVERGED:
            detail = f"{made.outcome.detail}; IPOPT was not begun, this is the search for the noise before it"
            return replace(made, backend=self.solver.name).with_(detail=detail)
        start = Start(made.result, noise=made.result, held=held)
        return with_likelihood(made, self.run(made.assembly.problem, start, made), self.hold)

    def beside(self, problem: Problem, found: Solution | None = None) -> Work:
        """Work on another problem, starting from a fit of it; its fits are counted here."""
        own = Work(problem, self.solver, self.callback, found=found, records=self.records)
        own._known, own._ends, own._stage = self._known, self._ends, self._stage
        return own


def as_begun(problem: Problem) -> Problem:
    """Problem with its declared initial values, after those of the user were used."""
    return problem.with_(initial={name: value for name, value in problem.initial.items() if name in problem.fixed})


def asked_from(problem: Problem, found: Solution) -> Solution:
    """Result with the initial values of the problem that the user asked for."""
    guess = problem.guess
    return found.changed(parameters={name: e.changed(initial=guess[name]) for name, e in found.parameters.items()})


def starting_from(problem: Problem, known: Solution | None) -> tuple[Problem, Solution | None]:
    """The problem and the solution to start from; with deterministic dynamics only the estimates, because such a motion
    has no residuals from which a search could find process noise."""
    if known is None or known.choice is None or not known.choice.is_hard:
        return problem, known
    pairs = ((p, known.values.get(p.name, np.nan)) for p in problem.free)
    values = {p.name: float(np.clip(value, p.lower, p.upper)) for p, value in pairs if np.isfinite(value)}
    return problem.with_(initial={**values, **problem.given}), None
