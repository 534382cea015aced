"""Small sparse systems of linear equations in symbols.

One degree of freedom of a joint.
"""

from __future__ import annotations

import math
from typing import Literal

import casadi as ca

from spookid.argument_checks import Checked
from spookid.mechanics import rotations
from spookid.records import dataclass


def solved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """matrix⁻¹ right for a small sparse matrix (n, n), block after block of its lower triangular form; right (n, k)."""
    matrix = ca.sparsify(matrix)
    count, rows, columns, row_cuts, column_cuts, *_ = matrix.sparsity().btf()
    found, none = [ca.SX(0)] * matrix.shape[0], ca.SX(0, right.shape[1])
    for block in range(count):
        at = rows[row_cuts[block] : row_cuts[block + 1]]
        own = columns[column_cuts[block] : column_cuts[block + 1]]
        before = columns[: column_cuts[block]]
        known = ca.vertcat(none, *(found[i] for i in before))
        part = ca.solve(matrix[at, own], right[at, :] - matrix[at, before] @ known)
        for i, value in zip(own, ca.vertsplit(part), strict=True):
            found[i] = value
    return ca.vertcat(none, *found)


def halved(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """L⁻¹ right with L Lᵀ the small symmetric positive definite matrix (n, n)."""
    upper, found = ca.chol(ca.densify(matrix)), list[ca.SX]()
    for i, value in enumerate(ca.vertsplit(ca.densify(right))):
        before = sum((upper[j, i] * known for j, known in enumerate(found)), ca.SX(0))
        found.append((value - before) / upper[i, i])
    return ca.vertcat(*found)


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
