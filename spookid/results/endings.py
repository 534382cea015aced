"""What may have kept a fit from converging, by its settings and by what the data do not see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from spookid.solvers.status import Status
from spookid.statistics.covariance import Sensitivities
from spookid.statistics.weak_directions import UNSEEN


class Ended(Protocol):
    """What a Result knows of its end."""

    @property
    def status(self) -> Status: ...
    @property
    def dynamics(self) -> str: ...
    @property
    def sensitivities(self) -> Sensitivities: ...
    @property
    def sticking(self) -> Mapping[str, float]: ...


def causes(solution: Ended) -> list[str]:
    """In words, the likeliest first; none unless the fit stopped before its minimum."""
    if solution.status not in (Status.MAX_ITERATIONS, Status.STALLED):
        return []
    found = []
    for weak in solution.sensitivities.weak:
        if weak.singular_value < UNSEEN and len(weak.direction) > 1:
            names = ", ".join(weak.direction)
            found.append(f"the data do not see that {names} change together, and a fit may run away along that")
    if solution.dynamics == "weight":
        found.append("joints may be too stiff for the state weight: raise the compliance, or take a smaller weight")
    if solution.status is Status.STALLED and solution.sticking:
        found.append("the friction width may be too small")
    return found
