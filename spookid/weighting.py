"""The state weight chosen by the data.

The fit is repeated over powers of ten of κ, each from the last. Two criteria judge them (``weight_choice``).

Expected errors, if they can be believed. Where noise moves the mechanism and sensors err at random, as the weights
assume, the standard errors that the residuals promise (3.26 to 3.32) are those that the estimates show from stretch to
stretch of the recordings (the jackknife). The best weight is that with the least errors, the bias that noise gives
and what the time step adds (``step_errors``) included. Of Spook's, a stepper of first order, the leading order says too
little: twins that it simulated would get a weight 10^6 times too large. Predictions are no guide there: the noise in
the motion spoils them all, and least those of large weights, which were fitted to it. Friction that the model lacks,
quantized encoders or a time step that is too long let the two differ, or make the weight with the least errors predict
far worse than others, or give other estimates.

Then open-loop prediction (``open_loop``): how well do the estimates predict windows of the recordings without further
correction, over horizons from a quarter of a period to four? Long horizons alone mislead where the stepper dissipates
by itself, as Spook does with large steps: with a large weight the parameters are then bent until the energy is right.
Short horizons alone do not tell friction laws apart, and where the model lacks something they prefer states that take
it up to parameters that do not need it: with viscous friction in the place of dry, a measured release of a pendulum is
predicted best by a fit whose replay misses by nine times the least mean square. So only weights whose replay of whole
recordings is about as good as any count, of those that predict windows well. The marginal likelihood (by Laplace)
presumes white noise whether it is there or not: on a measured release of a pendulum it prefers a weight so small that
the fit follows the noise (m g l/(J + m l²) 32 % off). Predictions from filtered states, which know nothing of what they
predict, choose weights whose replay has 3 and 39 times the least mean squared error on two of three measured releases.

Where every fit is biased by its time step no weight serves all parameters: an exactly integrated Furuta pendulum,
fitted with steps of 10 ms, has its inertias best at κ = 10^12 and its friction at 10^8. The search ends where two
decades predict no better than those before (``weight_choice.ended``), and what lies beyond is left out of the choice,
so that it matters little where the search starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spookid.errors import ProblemError
from spookid.estimation import solve
from spookid.open_loop import Windows, windows
from spookid.periods import LONG, OVERLAP
from spookid.problem import Problem
from spookid.solution import Solution
from spookid.solvers.levenberg_marquardt import Callback
from spookid.solvers.status import Status
from spookid.weight_choice import WeightChoice, WeightTrial, ended

START = 4
"""The search starts at κ = 10^4 unless told otherwise."""
_LARGEST, _SMALLEST = 18, -8
_MOST_STEPS = 6000
"""That all windows may cover together."""
_CLEARLY = 0.999
"""Of two minima one is better if its cost is below this share of the other's."""
_FOLLOWS_NOISE = 0.9
"""Share of the cost above which the weight is so small that the search takes two decades at once."""

Fit = Callable[[Problem, Solution | None], Solution]


def solve_weighted(
    problem: Problem,
    backend: str,
    options: Mapping[str, Any],
    callback: Callback | None,
    warm_start: Solution | None,
    start: int = START,
) -> Solution:
    """Estimate states, parameters and κ; see ``Problem.solve``.

    Args:
        start: exponent of ten at which the search starts.

    Raises:
        ProblemError: as ``Problem.solve``, or if no weight lets the mechanism be simulated.
    """

    def fit(weighted: Problem, before: Solution | None) -> Solution:
        return solve(weighted, backend, options, callback, before, doubtful=False)

    search = _Search(problem, fit, windows_of(problem), warm_start)
    search.run(start)
    return search.answer()


def windows_of(problem: Problem) -> Windows:
    """The windows that a problem is judged by.

    Raises:
        ProblemError: if there is nothing to fit.
    """
    if not (problem.recordings and problem.observations):
        raise ProblemError(f"{problem.place}: Problem {problem.name!r} needs recordings and observations to be solved")
    return windows(problem, _MOST_STEPS, LONG, OVERLAP)


@dataclass(eq=False)
class _Search:
    """Fits by exponent of ten of κ. Methods that fit say whether they were interrupted."""

    problem: Problem
    fit: Fit
    windows: Windows
    warm_start: Solution | None
    solutions: dict[int, Solution] = field(default_factory=dict)
    trials: dict[int, WeightTrial] = field(default_factory=dict)
    guessed: set[int] = field(default_factory=set)
    """Exponents that were fitted from the guess."""
    stopped: Solution | None = None
    """What an interrupted search answers."""

    def run(self, start: int) -> bool:
        """From ``start`` up and down, and what leads nowhere or is chosen from the guess, too."""
        return self._fit(start, [self.warm_start]) or self._widen() or self._mend(start) or self._confirm()

    def _widen(self) -> bool:
        """Up until larger weights change nothing or predict worse, then down until smaller ones do."""
        while (top := max(self.trials)) < _LARGEST and not ended(self.choice.curve):
            if self._next(top + (2 if self.trials[top].state_share > _FOLLOWS_NOISE else 1), top):
                return True
        while (bottom := min(self.trials)) > _SMALLEST and not self.choice.sunk:
            if self._next(bottom - 1, bottom):
                return True
        return False

    def _next(self, exponent: int, nearest: int) -> bool:
        """From the nearest one's fit and, if that leads nowhere, from the guess: where a law of friction has runaway
        parameters, one bad fit would spoil all after it."""
        return self._fit(exponent, [self.solutions[nearest], self.warm_start])

    def _mend(self, start: int) -> bool:
        """The first fit had no neighbour to start from."""
        near = sorted((e for e, trial in self.trials.items() if trial.tells), key=lambda e: abs(e - start))
        return not self.trials[start].tells and bool(near) and self._fit(start, [self.solutions[near[0]]])

    def _confirm(self) -> bool:
        """Fit the chosen weight from the guess and, if that gives a better minimum, all others as well."""
        while (best := self._exponent) not in self.guessed:
            before = self.solutions[best].cost.total
            if self._fit(best, [self.warm_start]):
                return True
            if self.solutions[best].cost.total < _CLEARLY * before:
                others = sorted(self.solutions.keys() - self.guessed)
                if any(self._fit(exponent, [self.warm_start]) for exponent in others) or self._widen():
                    return True
        return False

    @property
    def _exponent(self) -> int:
        """Of the chosen weight."""
        return next(e for e, trial in self.trials.items() if trial.weight == self.choice.best.weight)

    @property
    def choice(self) -> WeightChoice:
        """From the trials so far."""
        curve = tuple(self.trials[exponent] for exponent in sorted(self.trials))
        return WeightChoice(self.windows.seconds, curve)

    def answer(self) -> Solution:
        """The solution with the chosen weight, or the one during which the search was interrupted."""
        if not self.trials and self.stopped is not None:
            return self.stopped
        choice = self.choice
        if self.stopped is None and not math.isfinite(choice.best.error):
            raise ProblemError(
                f"{self.problem.place}: Problem {self.problem.name!r} cannot be simulated with any state weight from "
                f'{choice.curve[0].weight:g} to {choice.curve[-1].weight:g}; give a number in the place of "auto"'
            )
        return replace(self.stopped or self.solutions[self._exponent], state_weight_choice=choice)

    def _fit(self, exponent: int, starts: Sequence[Solution | None]) -> bool:
        """Fit one weight from one start after the other until one leads somewhere, and keep the best."""
        weighted = self.problem.with_(state_weight=float(10.0**exponent))
        found = [(self.solutions[exponent], self.trials[exponent])] if exponent in self.trials else []
        for start in starts:
            solution = self.fit(weighted, start)
            if solution.status is Status.INTERRUPTED:
                self.stopped = self._best(found) or solution
                return True
            errors = self.windows.score(solution), self.windows.whole.error(solution)
            found.append((solution, _trial(solution, *errors, told=self.problem.scheme.order > 1)))
            self.guessed |= {exponent} if start is self.warm_start else set()
            if found[-1][1].tells:
                break
        self.solutions[exponent], self.trials[exponent] = min(found, key=_merit)
        return False

    def _best(self, found: Sequence[tuple[Solution, WeightTrial]]) -> Solution | None:
        """What is known when a fit from the guess is interrupted that was to better others; None if it was not."""
        if not found:
            return None
        known = self.solutions[self._exponent] if self.trials else min(found, key=_merit)[0]
        return replace(known, status=Status.INTERRUPTED)


def _merit(found: tuple[Solution, WeightTrial]) -> tuple[bool, bool, float]:
    """Least of the best of several fits for one weight."""
    solution, trial = found
    return solution.status is not Status.CONVERGED, not math.isfinite(trial.error), solution.cost.total


def _trial(solution: Solution, error: float, replay: float, told: bool) -> WeightTrial:
    """What one fit tells.

    Args:
        told: whether the leading order tells what the time step does.
    """
    cost, knowledge = solution.cost, solution.sensitivities
    estimates = {name: solution[name] for name in knowledge.names}
    return WeightTrial(
        weight=solution.state_weight,
        error=error,
        replay=replay,
        state_share=cost.state / cost.total if cost.total > 0 else 0.0,
        estimates={name: known.estimate for name, known in estimates.items()},
        standard_errors={name: known.std_err for name, known in estimates.items()},
        step_errors={name: known.step_error if told else math.nan for name, known in estimates.items()},
        agreement=knowledge.agreement,
        status=solution.status,
    )
