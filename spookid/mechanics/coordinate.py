"""One degree of freedom of a joint."""

from __future__ import annotations

import math
from typing import Literal

import casadi as ca

from spookid.argument_checks import Checked
from spookid.mechanics import rotations
from spookid.records import dataclass


@dataclass(frozen=True)
class Coordinate(metaclass=Checked):
    """One degree of freedom that a joint leaves.

    Args:
        name: of it within its joint, for labels of joints that have several.
        unit: "rad" or "m".
        period: of what a sensor shows of it, 2π of an angle that may turn over; None if it has none.
        counts_turns: True if its joint tells one turn from the next.
    """

    name: str
    unit: Literal["rad", "m"]
    period: float | None = None
    counts_turns: bool = False

    @property
    def turns_over(self) -> bool:
        """True if it begins anew after a turn."""
        return self.period is not None and not self.counts_turns

    def in_range(self, value: ca.SX) -> ca.SX:
        """The same value, one that turns over within half a period of zero."""
        if not self.turns_over or self.period is None:
            return value
        turn = 2 * math.pi / self.period
        return rotations.wrapped(turn * value) / turn

    @property
    def effort(self) -> str:
        """Unit of what acts along it."""
        return {"rad": "N m", "m": "N"}[self.unit]
