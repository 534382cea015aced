"""What may have kept a fit from converging, by its settings and by what the data do not see."""

from __future__ import annotations

from collections.abc import Iterable

from spookid.statistics.weak_directions import UNSEEN, WeakDirection


def causes(dynamics: str, weak: Iterable[WeakDirection], sticks: bool) -> list[str]:
    """Of a fit that stopped before its minimum, in words, the likeliest first."""
    found = []
    for one in weak:
        if one.singular_value < UNSEEN and len(one.direction) > 1:
            names = ", ".join(one.direction)
            found.append(f"the data do not see that {names} change together, and a fit may run away along that")
    if dynamics == "weight":
        found.append("joints may be too stiff for the state weight: raise the compliance, or take a smaller weight")
    if sticks:
        found.append("the friction width may be too small")
    return found
