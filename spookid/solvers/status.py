"""How a solve ended, and what every solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point


class Status(Enum):
    """Status at the end of a solve; ``advice`` is the remedy."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STALLED = "stalled"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """Meaning of the status, with a remedy."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "A local minimum was found.",
    Status.MAX_ITERATIONS: (
        "The iteration limit came before the minimum: raise max_iterations, or give better initial values."
    ),
    Status.STALLED: (
        "The fit stopped before a minimum: check units and signs, give other initial values, or look at what makes "
        "the problem stiff."
    ),
    Status.DIVERGED: (
        "The fit cannot begin at the initial values: residuals or derivatives are not finite there, or states not "
        "determined: check the initial values, the units of the signals, the step, and that sensors determine the "
        "position of every body."
    ),
    Status.INTERRUPTED: "Interrupted; this is the best iterate so far.",
}


@dataclass(frozen=True)
class Iteration:
    """Record of one accepted iterate; the first is the initial point."""

    iteration: int
    costs: dict[Group, float]
    """Weighted sums of squares by group."""
    damping: float
    """Damping that the accepted step needed."""
    step_norm: float
    """Length of the step, each unknown scaled by the norm of its Jacobian column."""
    parameters: Array
    """(n_p,)."""

    @property
    def total(self) -> float:
        """Cost: sum over the groups."""
        return sum(self.costs.values())


Callback = Callable[[Iteration], None]
"""Given every accepted iterate."""


def counting_from(callback: Callback, done: int) -> Callback:
    """Callback that continues the count of iterations."""
    return (lambda i: callback(replace(i, iteration=i.iteration + done))) if done else callback


End = tuple[Status, str]
"""How a solve ended, and which test ended it."""


@dataclass(frozen=True)
class Timing:
    """Wall times of a solve [s]."""

    solve: float
    """The whole loop."""
    evaluate: float
    """Residuals, and Jacobians that are kept."""
    factorize: float
    """Normal equations with the Jacobians that are formed on the way, their factorization and solution."""
    bend: float = 0.0
    """Exact second derivatives."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a solver: the best point, the status, and the history."""

    status: Status
    detail: str
    """Which test ended the iteration, with its number."""
    point: Point
    history: tuple[Iteration, ...]
    timing: Timing
    redundant: int = 0
    """Equality constraints of a step that follow from the others."""
    complementarity: float = float("nan")
    """Largest |min(a, b)| of all complementarity pairs 0 ≤ a ⟂ b ≥ 0, in their units; NaN if there are none."""
