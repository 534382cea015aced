"""What a solution comes to, in one sentence, and what it takes for granted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from spookid.report import summary
from spookid.results.notices import DOUBTS
from spookid.results.result import Derived, Estimate, Result
from spookid.results.wording import FRICTION, NO_FRICTION, noise_words, status_words, told
from spookid.solvers.status import Status
from spookid.statistics.settled import left_open
from spookid.tables.numbers import HALF_WIDTH, counted, number

_Told: TypeAlias = Estimate | Derived
_MANY = 8
"""Names from which on there are too many for a sentence."""


def conclusion(solution: Result) -> str:
    """Whether it converged, and which parameters the data determine."""
    begin = f"{solution.problem}: {status_words(solution)}"
    if solution.status is not Status.CONVERGED:
        return f"{begin}; the estimates are where it stopped, and no answer."
    misfit = any(notice.startswith(DOUBTS) for notice in solution.notices)
    doubt = ["the model misses the data, so that estimates and errors mean little: see the notices"] if misfit else []
    return f"{'; '.join([begin, *doubt, *_known(solution)])}."


def _known(solution: Result) -> list[str]:
    """Which combinations and parameters the data determine, and which not."""
    free = [p for p in solution.parameters.values() if not p.fixed]
    if not free:
        return ["no parameter is free"]
    weak = {name for one in left_open(solution.sensitivities) for name in one.direction}
    bound, prior = [p for p in free if p.at_bound], [p for p in free if p.known_from == "prior"]
    unseen = [p for p in free if p not in [*bound, *prior] and (p.name in weak or math.isnan(p.std_err))]
    if not solution.base_parameters:
        return [*_determined("the data", free, [*bound, *prior, *unseen]), *_open(prior, bound, unseen)]
    # What priors tell of single parameters of inertias is no lack then: combinations are all that motion shows.
    others = [p for p in free if p not in prior]
    single = _determined("they", others, [*bound, *unseen], "other parameter") if others else []
    return [*_combinations(list(solution.base_parameters.values())), *single, *_open(prior, bound, unseen)]


def _combinations(base: Sequence[Derived]) -> list[str]:
    prior, unseen = ([one for one in base if one.known_from == source] for source in ("prior", "nothing"))
    noun = "base parameter"
    return [*_determined("the data", base, [*prior, *unseen], noun), *_open(prior, [], unseen, noun)]


def _determined(who: str, every: Sequence[_Told], but: Sequence[_Told], noun: str = "parameter") -> list[str]:
    """How many the data determine, all but some, the least certain of them, and which cannot be told from zero."""
    seen = [one for one in every if one not in but]
    count = f"all {counted(len(every), noun)}" if len(every) > 1 else every[0].name
    parts = [f"{who} determine {count if len(seen) == len(every) else f'{len(seen)} of {len(every)} {noun}s'}"]
    sure = [one for one in seen if abs(one.estimate) > HALF_WIDTH * one.std_err]
    if sure:
        worst = max(sure, key=lambda one: one.std_err / abs(one.estimate))
        share = number(100 * worst.std_err / abs(worst.estimate), 2)
        which = f", {'the least certain ' if len(sure) > 1 else ''}{worst.name}" if len(every) > 1 else ""
        parts[0] += f"{which} to ± {share} %"
    zero = [one for one in seen if one not in sure]
    return [*parts, f"{_names(zero, noun)} cannot be told from zero"] if zero else parts


def _open(
    prior: Sequence[_Told], bound: Sequence[_Told], unseen: Sequence[_Told], noun: str = "parameter"
) -> list[str]:
    """Which the data do not determine."""
    told = zip((prior, bound, unseen), ("known from priors", "at a bound", "not determined"), strict=True)
    return [f"{_names(some, noun)} {words}" for some, words in told if some]


def _names(some: Sequence[_Told], noun: str) -> str:
    """All of few, the number of many."""
    if len(some) > _MANY:
        return counted(len(some), noun)
    *others, last = [one.name for one in some]
    return f"{', '.join(others)} and {last}" if others else last


def assumptions(solution: Result) -> dict[str, str]:
    """Estimator, stepper, friction and noise."""
    sizes = "; ".join(noise_words(noise, solution.step) for noise in told(solution.noise))
    given = "as the weights say, white and normal"
    return {
        "Estimator": summary.dynamics(solution),
        "Stepper": f"{solution.stepper}, step h = {number(solution.step, 6)} s",
        "Friction": FRICTION.get(solution.friction, solution.friction) if solution.sticking else NO_FRICTION,
        "Noise": f"white and normal; {sizes}" if sizes else given,
    }
