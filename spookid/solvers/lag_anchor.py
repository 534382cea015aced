"""What holds a smoother's parameters where they begin, as long as the data say next to nothing of them.

The first few rows are fitted best by parameters anywhere, for they have more unknowns than rows. Rows that leave were
then linearized there for good, and what they tell were wrong for ever. So each direction of the parameters, in shares
of their sizes, is held where it began as by an observation with an error of half that size; less so where all rows
together know it to better than its size, and not at all where they know it to half of it. What is told of errors is
without that.
"""

from __future__ import annotations

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.fronts import Pivots

_HELD, _FREE = 1.0, 4.0
"""Information in a direction, in units of sizes, up to which it is held wholly, and from which on not at all."""
_SHARE = 0.5
"""Of its size: the error of the observation that holds a parameter."""


class Anchor:
    """See the module.

    Args:
        start: where the parameters begin, (n_p,).
        sizes: of the parameters, (n_p,).
    """

    def __init__(self, start: Array, sizes: Array) -> None:
        n = len(start)
        self.start, self._sizes = start.copy(), sizes
        self.slopes = np.zeros((n, n))
        """Of the rows that hold them."""
        self.open = n > 0
        """True until all directions have been known once."""

    def renew(self, rows: Pivots) -> None:
        """Let go what all rows, of which the parameters' are given, know by now."""
        along = rows.rows[rows.hard :, :-1] * self._sizes
        for row in rows.rows[: rows.hard, :-1] * self._sizes:  # what is given exactly needs no hold
            along = np.concatenate([along, row[None] / max(np.linalg.norm(row), 1e-300) * _FREE])
        known, directions = np.linalg.eigh(along.T @ along)
        weights = np.clip((_FREE - known) / (_FREE - _HELD), 0.0, 1.0)
        self.slopes = np.sqrt(weights)[:, None] * directions.T / (_SHARE * self._sizes)
        self.open = bool(np.any(weights > 0.0))

    def rows(self, parameters: Array) -> Array:
        """What holds them, with its value in the last column, (n_p, n_p + 1)."""
        return np.column_stack([self.slopes, self.slopes @ (parameters - self.start)])

    def cost(self, parameters: Array) -> float:
        """Of the same."""
        values = self.slopes @ (parameters - self.start)
        return float(values @ values)
