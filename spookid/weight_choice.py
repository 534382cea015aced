"""How the data chose the state weight: the criterion and its curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from spookid.solvers.status import Status

TOLERANCE = 1.06
"""Weights whose error is within 6 % of the least predict as well as the best one."""
WORSE = 1.25
"""A prediction error that exceeds the least so far by this factor is on the way out."""
_FALLING = 0.99
"""The error is falling if it is below this share of the one before."""
_SETTLED = 0.02
"""Share of the cost below which the impulse residuals hardly move the estimates."""
_RECENT = 30.0
"""The largest weight and those that are less than this factor smaller are judged against all others: two decades."""


@dataclass(frozen=True)
class WeightTrial:
    """One fit of the search."""

    weight: float
    """κ."""
    error: float
    """Score of the open-loop prediction in units of σ (see ``spookid.open_loop``); infinite if a simulation failed."""
    state_share: float
    """Share of the cost that the impulse residuals have."""
    status: Status


@dataclass(frozen=True)
class WeightChoice:
    """The smallest weight that predicts as well as the best."""

    criterion: str
    """Its name."""
    window: float
    """How long the longest prediction lasts [s]."""
    curve: tuple[WeightTrial, ...]
    """In the order of the weights."""

    @property
    def considered(self) -> tuple[WeightTrial, ...]:
        """The curve up to where larger weights have stopped helping, whichever end the search came from."""
        lengths = range(1, len(self.curve) + 1)
        return self.curve[: next((n for n in lengths if ended(self.curve[:n])), len(self.curve))]

    @property
    def best(self) -> WeightTrial:
        """The chosen one.

        Of those considered that are as good as the best and next to it or to one another, the smallest: it leaves the
        states most freedom to take up what the model lacks. Fits that did not converge count only if none did.
        """
        converged = [trial for trial in self.considered if trial.status is Status.CONVERGED]
        trials = [trial for trial in converged if math.isfinite(trial.error)] or converged or list(self.considered)
        best = min(trials, key=lambda trial: trial.error)
        down = (trial for trial in reversed(trials) if trial.weight <= best.weight)
        return [*takewhile(lambda trial: trial.error <= TOLERANCE * best.error, down)][-1]


def ended(trials: Sequence[WeightTrial]) -> bool:
    """True if weights larger than those of ``trials`` are not worth a fit.

    The last two decades predict no better than all before, the error is not falling, and the impulse residuals have
    settled or both decades are worse.

    Args:
        trials: in the order of the weights.
    """
    top = trials[-1]
    recent = [trial for trial in trials if trial.weight * _RECENT > top.weight]
    before = [trial.error for trial in trials[: -len(recent)]]
    if len(recent) < 2 or not before or not math.isfinite(min(before)):
        return False
    better = min(trial.error for trial in recent) * TOLERANCE < min(before)
    if better or top.error < _FALLING * recent[-2].error:
        return False
    return top.state_share < _SETTLED or all(trial.error > WORSE * min(before) for trial in recent)
