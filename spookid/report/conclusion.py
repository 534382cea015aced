"""What a solution comes to, in one sentence, and what it takes for granted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spookid.report import summary
from spookid.results.notices import DOUBTS
from spookid.results.result import Estimate, Result
from spookid.results.wording import FRICTION, NO_FRICTION, noise_words, status_words
from spookid.solvers.status import Status
from spookid.tables.numbers import HALF_WIDTH, counted, number


def conclusion(solution: Result) -> str:
    """Whether it converged, and which parameters the data determine."""
    begin = f"{solution.problem}: {status_words(solution)}"
    if solution.status is not Status.CONVERGED:
        return f"{begin}; the estimates are where it stopped, and no answer."
    misfit = any(notice.startswith(DOUBTS) for notice in solution.notices)
    doubt = ["the model misses the data, so that estimates and errors mean little: see the notices"] if misfit else []
    return f"{'; '.join([begin, *doubt, *_known(solution)])}."


def _known(solution: Result) -> list[str]:
    """Which parameters the data determine, and which not."""
    free = [p for p in solution.parameters.values() if not p.fixed]
    if not free:
        return ["no parameter is free"]
    weak = {name for direction in solution.sensitivities.weak for name in direction.direction}
    bound = [p for p in free if p.at_bound]
    prior = [p for p in free if p.known_from == "prior"]
    seen = [p for p in free if p not in [*bound, *prior] and p.name not in weak and math.isfinite(p.std_err)]
    unseen = [p for p in free if p not in [*bound, *prior, *seen]]
    count = f"all {counted(len(free), 'parameter')}" if len(free) > 1 else free[0].name
    parts = [f"the data determine {count if len(seen) == len(free) else f'{len(seen)} of {len(free)} parameters'}"]
    sure = [p for p in seen if abs(p.estimate) > HALF_WIDTH * p.std_err]
    if sure:
        worst = max(sure, key=lambda p: p.std_err / abs(p.estimate))
        share = number(100 * worst.std_err / abs(worst.estimate), 2)
        parts[0] += f", {'the least certain ' if len(sure) > 1 else ''}{worst.name} to ± {share} %"
    zero = [p for p in seen if p not in sure]
    words = ("cannot be told from zero", "known from priors", "at a bound", "not determined")
    told = zip((zero, prior, bound, unseen), words, strict=True)
    return parts + [f"{_names(some)} {own}" for some, own in told if some]


def _names(some: Sequence[Estimate]) -> str:
    *others, last = [p.name for p in some]
    return f"{', '.join(others)} and {last}" if others else last


def assumptions(solution: Result) -> dict[str, str]:
    """Estimator, stepper, friction and noise."""
    sizes = "; ".join(noise_words(noise, solution.step) for noise in solution.noise)
    given = "as the weights say, white and normal"
    return {
        "Estimator": summary.dynamics(solution),
        "Stepper": f"{solution.stepper}, step h = {number(solution.step, 6)} s",
        "Friction": FRICTION.get(solution.friction, solution.friction) if solution.sticking else NO_FRICTION,
        "Noise": f"white and normal; {sizes}" if sizes else given,
    }
