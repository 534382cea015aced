"""The best states for given parameters and noise, by a sequence of linear steps.

The actual decrease of |r|² differs from the predicted one by a higher power of the step. Once a step has shown this
difference, shorter steps need no evaluation at their ends.
"""

from __future__ import annotations

import numpy as np

from spookid.records import dataclass
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.likelihood import States
from spookid.transcription.transcription import Point

_SHARE = 1e-6
"""Of |r|², that a step may take from where the states are good enough, if no noise is estimated that would be its
unit."""
_SMALL = 1e-2
"""Of |r|², that a step may take where it is not looked at where it leads: rows see the states move by a tenth of their
size in root mean square, and slopes in the parameters are those of where the states are linearized."""
_SAFE = 10.0
"""Factor of what a step is known to be off by, of what it promised, and of its shortest part, to be relied upon."""


@dataclass(frozen=True)
class Bend:
    """What a step has promised to take from |r|², and how far it was off."""

    gap: float = 0.0
    off: float = 0.0

    def beyond(self, gap: float) -> float:
        """By how much a step with another promise may be off: that goes with a power of it between one and two."""
        share = gap / self.gap if self.gap else np.inf
        return _SAFE * self.off * max(share, share**2) if share <= _SAFE else np.inf


def by_linear_steps(
    reduced: ReducedProblem, start: Point, bend: Bend, gap: float | None, most: float
) -> tuple[States | None, Bend]:
    """The best states, but for one more step, and what the last step has shown; None if steps or parts of them do not
    lead to them, or rows that link steps switch.

    If equality constraints link steps, the decrease of |r|² also contains their violation, and may be negative.

    Args:
        bend: what an earlier step has shown.
        gap: what a step may take from |r|² where the states are good enough; None: a millionth.

    Raises:
        NotPositiveDefiniteError: without equality constraints between steps, if the states are not determined, or a
            linear step promises to leave many times the squares ``most``.
    """
    if any(factor.box is not None for factor in reduced.coupled):
        return None, bend
    try:
        return _by_steps(reduced, start, bend, gap, most)
    except NotPositiveDefiniteError:
        if not reduced.coupled:
            raise
        return None, bend  # damped steps from there may lead on


def _by_steps(
    reduced: ReducedProblem, start: Point, bend: Bend, gap: float | None, most: float
) -> tuple[States | None, Bend]:
    states = States.projected(reduced, start)
    while True:
        if states.least > _SAFE * most and not reduced.coupled:
            raise NotPositiveDefiniteError("the step is too long")
        little = _SHARE * states.cost if gap is None else gap
        left = abs(states.gap)
        if left <= little or (left <= _SMALL * states.cost and bend.beyond(left) <= little):
            return states, bend
        following, part = States.projected(reduced, states.stepped()), 1.0
        bend = Bend(left, abs(following.least - states.least))
        falls = abs(following.gap) < left / 2 if reduced.coupled else following.cost < states.cost
        while not (falls or abs(following.gap) <= little):  # of NaN, too
            part /= 2
            if reduced.coupled or part * _SAFE < 1:
                return None, bend
            following = States.projected(reduced, states.stepped(part=part))
            falls = following.cost < states.cost
        states = following
