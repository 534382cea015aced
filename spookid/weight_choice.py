"""How the data chose the state weight: the criteria and their curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from spookid.solvers.status import Status
from spookid.uncertainty import believable

PREDICTION, ERRORS = "open-loop prediction", "least expected errors"
"""The two criteria."""
TOLERANCE = 1.06
"""Weights whose error is within 6 % of the least predict as well as the best one."""
_WORSE = 1.25
"""A prediction error that exceeds the least so far by this factor is on the way out."""
_FAR = 4.0
"""Of weights whose error exceeds the least by this factor none has the least expected errors, nor any smaller one."""
_DOUBLED = 2.0
"""Nor where expected errors have grown by this factor, and prediction errors are on the way out."""
WORST = 2.5
"""A weight with the least expected errors must not predict worse than the best one by more than this factor, that by
which its standard errors miss the jackknife's included: two halves of a doubt are one. With 116 twins, most of them
moved by noise, it is 2.35 at most; with viscous friction in the place of dry, of a measured release, 4.2 and 4.3."""
REPLAY = 1.35
"""Nor must the replay of a weight that predicts well miss by more than this factor of the least one."""
_ASTRAY = 4.0
"""A replay that misses by so many times what windows are missed by went astray, and which did so least says nothing.
With Spook's steps of 10 ms, whose dissipation no weight makes up for, the best replay of an exactly integrated Furuta
pendulum misses by 8 times as much, with J_Azz 7 times too large; those of measured pendulums mostly by 1 to 2 times."""
APART = 2.5
"""Standard errors by which its estimates may differ from those that predict best: chance brings more in 5 % of cases if
there are four parameters."""
_EQUAL = 1.01
"""Of weights whose expected errors are within 1 % of the least the largest is taken."""
_FALLING = 0.99
"""The error is falling if it is below this share of the one before."""
_SETTLED = 0.02
"""Share of the cost below which the impulse residuals hardly move the estimates, or the samples."""
_RECENT = 30.0
"""The largest weight and those that are less than this factor smaller are judged against all others: two decades."""

_HOPELESS = 4
"""So many decades in a row whose fits fail say that those beyond will."""


@dataclass(frozen=True)
class WeightTrial:
    """One fit of the search."""

    weight: float
    """κ."""
    error: float
    """Score of the open-loop prediction in units of σ (see ``spookid.open_loop``); infinite if a simulation failed."""
    replay: float
    """The same for whole recordings: geometric mean of the root mean square errors, simulated from the first states."""
    state_share: float
    """Share of the cost that the impulse residuals have."""
    estimates: Mapping[str, float]
    """Of the parameters."""
    standard_errors: Mapping[str, float]
    """Theirs, NaN where they are unknown."""
    step_errors: Mapping[str, float]
    """What the time step adds to the estimates, NaN where it is unknown or its leading order is no guide."""
    agreement: float
    """Geometric mean of the standard errors over those of the jackknife; NaN if there are none."""
    status: Status

    @property
    def tells(self) -> bool:
        """True if the fit converged and its estimates can be simulated."""
        return self.status is Status.CONVERGED and math.isfinite(self.error)

    @property
    def expected(self) -> float:
        """Geometric mean of the relative errors to be expected: standard errors, and what the time step adds; those
        that are unknown or larger taken as 1. NaN if there are no parameters."""
        errors = {name: math.hypot(error, self._of_step(name)) for name, error in self.standard_errors.items()}
        pairs = [(errors[name], abs(value)) for name, value in self.estimates.items()]
        logarithms = [math.log(error / value) if error < value else 0.0 for error, value in pairs]
        return math.exp(sum(logarithms) / len(logarithms)) if pairs else math.nan

    def apart(self, other: WeightTrial) -> float:
        """How many standard errors the estimates of two trials, less what the time step adds, differ by at most; 0 if
        none are known."""
        both = ((name, math.hypot(self.standard_errors[name], other.standard_errors[name])) for name in self.estimates)
        known = ((name, error) for name, error in both if error > 0)
        return max((abs(self._stepless(name) - other._stepless(name)) / error for name, error in known), default=0.0)

    def _of_step(self, name: str) -> float:
        error = self.step_errors[name]
        return error if math.isfinite(error) else 0.0

    def _stepless(self, name: str) -> float:
        return self.estimates[name] - self._of_step(name)


@dataclass(frozen=True)
class WeightChoice:
    """The weight with the least expected errors where these can be believed, or one that predicts best."""

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
    def criterion(self) -> str:
        """Which one decided."""
        return PREDICTION if self._surest is None else ERRORS

    @property
    def best(self) -> WeightTrial:
        """The chosen one."""
        return self._surest or _smallest(self._trials, self.replayed)

    @property
    def replayed(self) -> list[WeightTrial]:
        """Those of which prediction takes one: their replay is about as good as any of weights that predict."""
        least = min(trial.error for trial in self._trials)
        predicting = [trial for trial in self._trials if not trial.error > WORST * least]
        sane = (trial.replay for trial in predicting if trial.replay <= _ASTRAY * trial.error)
        limit = REPLAY * min(sane, default=math.inf)
        return [trial for trial in predicting if not trial.replay > limit]

    @property
    def sunk(self) -> bool:
        """True if weights smaller than these are not worth a fit."""
        lowest = [trial.tells for trial in self.considered[:_HOPELESS]]
        return not any(lowest) or (lowest[0] and _sunk(self._trials))

    @property
    def _surest(self) -> WeightTrial | None:
        """The one with the least expected errors, unless something tells that the model lacks something.

        Then standard errors are not those of the jackknife, predictions are bad, or the estimates move with the weight
        more than standard errors and time step let expect: were the model right, all weights would give the same within
        them (Hausman, Econometrica 46, 1978). Of weights beyond those worth a fit, which a search from elsewhere may
        have met, none counts.
        """
        trials, farthest = self._trials, _smallest(self._trials, self._trials)
        sunk = (i for i, trial in enumerate(trials) if trial.weight < farthest.weight and _sunk(trials[i:]))
        worth = trials[max(sunk, default=-1) + 1 :]
        believed = [trial for trial in worth if believable(trial.agreement) and trial.expected < 1]
        if not believed:
            return None
        limit = _EQUAL * min(trial.expected for trial in believed)
        surest = [trial for trial in believed if trial.expected <= limit][-1]
        doubt = max(surest.agreement, 1 / surest.agreement)
        predicts = doubt * surest.error <= WORST * min(trial.error for trial in trials)
        return surest if predicts and surest.apart(farthest) <= APART else None

    @property
    def _trials(self) -> list[WeightTrial]:
        """Those considered; fits that did not converge count only if none did."""
        telling = [trial for trial in self.considered if trial.tells]
        converged = [trial for trial in self.considered if trial.status is Status.CONVERGED]
        return telling or converged or list(self.considered)


def _smallest(trials: Sequence[WeightTrial], among: Sequence[WeightTrial]) -> WeightTrial:
    """Of those that predict as well as the best and are next to it or to one another, the smallest.

    It leaves the states most freedom to take up what the model lacks.

    Args:
        trials: in the order of the weights.
        among: those of them that count.
    """
    best = min(among, key=lambda trial: trial.error)
    down = (trial for trial in reversed(trials) if trial.weight <= best.weight)
    return [*takewhile(lambda trial: trial in among and trial.error <= TOLERANCE * best.error, down)][-1]


def ended(trials: Sequence[WeightTrial]) -> bool:
    """True if weights larger than those of ``trials`` are not worth a fit.

    The last two decades predict no better than all before, the error is not falling, and the impulse residuals have
    settled or both decades are worse. Fits that failed do not say that larger weights are worse, unless there are four
    in a row after others that did not.

    Args:
        trials: in the order of the weights.
    """
    top, telling = trials[-1], [trial.tells for trial in trials]
    if any(telling) and not any(telling[-_HOPELESS:]):
        return True
    recent = [trial for trial in trials if trial.weight * _RECENT > top.weight]
    before = [trial.error for trial in trials[: -len(recent)]]
    if len(recent) < 2 or not before or not math.isfinite(min(before)):
        return False
    better = min(trial.error for trial in recent) * TOLERANCE < min(before)
    if better or top.error < _FALLING * recent[-2].error:
        return False
    worse = all(trial.tells and trial.error > _WORSE * min(before) for trial in recent)
    return (top.tells and top.state_share < _SETTLED) or worse


def _sunk(trials: Sequence[WeightTrial]) -> bool:
    """True if neither the smallest weight of ``trials`` nor smaller ones can have the least expected errors.

    Args:
        trials: in the order of the weights.
    """
    bottom, least = trials[0], min(trial.error for trial in trials)
    grown = bottom.expected > _DOUBLED * min(trial.expected for trial in trials)
    follows = bottom.state_share > 1 - _SETTLED
    return follows or bottom.error > _FAR * least or (grown and bottom.error > _WORSE * least)
