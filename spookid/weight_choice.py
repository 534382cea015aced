"""How the data chose the state weight: the criterion and its curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile

from spookid.solvers.status import Status

TOLERANCE = 1.06
"""Weights whose error is within 6 % of the least predict as well as the best one."""


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
    def best(self) -> WeightTrial:
        """The chosen one.

        Of those that are as good as the best and next to it or to one another, the smallest: it leaves the states most
        freedom to take up what the model lacks. Fits that did not converge count only if none did.
        """
        converged = [trial for trial in self.curve if trial.status is Status.CONVERGED]
        trials = [trial for trial in converged if math.isfinite(trial.error)] or converged or list(self.curve)
        best = min(trials, key=lambda trial: trial.error)
        down = (trial for trial in reversed(trials) if trial.weight <= best.weight)
        return [*takewhile(lambda trial: trial.error <= TOLERANCE * best.error, down)][-1]
