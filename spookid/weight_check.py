"""Is a given state weight far from what the data would choose? Told at the solution, without fitting again.

The criterion is one of ``weighting``'s two, open-loop prediction, linearized (``solvers.prediction``): how much better
would the estimates for another weight, a linear step away, predict the recordings? Where the weight is so small that
the states follow every sample, the linear step leads nowhere; then a prediction that misses by hundreds of times what
the fit leaves tells it. Where the other criterion would decide, as standard errors can be believed, predictions have to
be far better before anything is said.

A weight that is too large is found out if smaller ones would predict better, because the states could take up what the
model lacks. If they would not, as with a model that is right, a large weight does no harm, and nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spookid.assembly import Assembly
from spookid.knowledge import Knowledge
from spookid.periods import LONG, OVERLAP, extent
from spookid.solution import Trajectory
from spookid.solvers import prediction
from spookid.transcription import Point
from spookid.uncertainty import believable

_FACTORS = (1.0, 1e2, 1e4, 1e-4, 1e-8)
"""Of κ; the first is compared with the others."""
_LIMITS = (1.5, 300.0)
"""A prediction that would be better by the first factor gives a notice; so does one that misses by so many times the
misfit as the second says: where a stepper fits the motion badly, as Spook with steps of 10 ms, it is some 30 times with
the best weight."""
_LIMITS_BELIEVED = (3.0, 3000.0)
"""The same if the standard errors are those of the jackknife: then noise moves the mechanism as the weight says, which
no parameters predict, and large weights predict best what they were fitted to."""
_MOST_STEPS = 4000
_LACKS = "the states may follow the noise, or hide what the model lacks"
_BOUND = "the states have too little freedom to take up what the model lacks"
_NOISE = "the estimates predict the measurements {:.2g} times worse than the fit follows them, noise included"


def notices(
    assembly: Assembly,
    point: Point,
    held: NDArray[np.bool_],
    knowledge: Knowledge,
    motion: Sequence[Trajectory],
) -> list[str]:
    """A sentence on a weight that is far too small or far too large, if it is.

    Nothing is said of an infinite weight, nor where the rows of the dynamics do not determine the motion.

    Args:
        point: the solution.
        held: True for parameters at a bound, (n_p,).
        motion: the solution's.
    """
    weight = assembly.problem.weight
    if knowledge.contraction is None or not math.isfinite(weight):
        return []
    length, edges = extent(assembly.evidence, assembly.problem.step, LONG)
    apart = max(length // OVERLAP, 1)
    scores = prediction.scores(knowledge.contraction.linear, held, point, _FACTORS, edges, apart, _MOST_STEPS).tolist()
    believed = believable(knowledge.sensitivities.agreement) and not np.any(held)
    limits = _LIMITS_BELIEVED if believed else _LIMITS
    finding = _finding(dict(zip(_FACTORS, scores, strict=True)), _misfit(assembly, motion), limits)
    if not finding:
        return []
    return [
        f"The state weight {weight:g} is far too {finding} (open-loop prediction over up to "
        f'{length * assembly.problem.step:.2g} s, linearized). state_weight="auto" (--state-weight auto) lets the data '
        "choose."
    ]


def _finding(scores: Mapping[float, float], misfit: float, limits: tuple[float, float]) -> str:
    """What the scores by factor of κ say against the weight, beyond the ``limits``; empty if nothing."""
    better, hopeless = limits
    here = scores[1.0]
    gains = {factor: here / score for factor, score in scores.items() if score > 0 and factor != 1}
    factor = max(gains, key=lambda factor: gains[factor], default=1.0)
    if not gains.get(factor, 0.0) > better:
        return f"small: {_NOISE.format(here / misfit)}" if 0 < misfit * hopeless < here else ""
    side, reason = ("small", _LACKS) if factor > 1 else ("large", _BOUND)
    times = f"{max(factor, 1 / factor):,.0f} times"
    other = f"{times} as large" if factor > 1 else f"{times} smaller"
    return f"{side}: one {other} predicts the measurements {gains[factor]:.2g} times better; {reason}"


def _misfit(assembly: Assembly, motion: Sequence[Trajectory]) -> float:
    """Root mean square of the residuals of all samples over σ."""
    sigma = np.array([sensor.sigma for sensor in assembly.problem.observations])
    residuals = np.concatenate(
        [((trajectory.observed - trajectory.predicted) / sigma).ravel() for trajectory in motion]
    )
    known = residuals[np.isfinite(residuals)]
    return math.sqrt(np.mean(known**2)) if known.size else math.nan
