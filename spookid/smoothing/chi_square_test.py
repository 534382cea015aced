"""Whether what leaves a window is as large as the noise says."""

from __future__ import annotations

import math

import numpy as np

from spookid.kernels.arrays import Array
from spookid.kernels.scipy_parts import special
from spookid.results.findings import Finding

_SAMPLES = 100
"""Of measured values in a block, or a few more."""
_BLOCKS = 2
"""In a row that are told: a parameter that has changed is found in a shorter time, and then there is no need."""
_FALSE = 1e-9
"""How probable a block is that is told although the noise is white and as large as it is said to be."""


class ChiSquareTest:
    """Sums of squares of what has left, block by block, which are chi-square if the model and its noise are right."""

    def __init__(self) -> None:
        self._block, self._lasting = np.zeros(2), np.zeros(2)
        """Squares and measured values of the present block, and of those blocks in a row that were too large."""
        self._begin = self._since = 0.0
        """When they began [s]."""

    def add(self, t: float, square: float, count: int) -> None:
        """A step that leaves: its time [s], the sum of squares of its rows, and how many of them are measured."""
        if not self._block[1]:
            self._begin = t
        self._block += square, count
        if self._block[1] < _SAMPLES:
            return
        squares, counted = self._block.tolist()
        if special.chdtrc(counted, squares) >= _FALSE:
            self._lasting[:] = 0.0
        else:
            self._since = self._since if self._lasting[1] else self._begin
            self._lasting += self._block
        self._block[:] = 0.0

    @property
    def findings(self) -> list[Finding]:
        """One on residuals that are too large; none if they are not."""
        squares, counted = self._lasting.tolist()
        if counted < _BLOCKS * _SAMPLES:
            return []
        ratio = math.sqrt(squares / counted)
        effect = (
            f"Residuals are {ratio:.2g} times larger than the noise says since {self._since:.6g} "
            "s: the model, a parameter or the noise is another by now, and the standard errors are too small."
        )
        return [Finding("residuals.grown", (), {"ratio": ratio, "since": self._since}, effect)]

    def array(self) -> Array:
        """All that is remembered, (6,)."""
        return np.array([*self._block, *self._lasting, self._begin, self._since])

    def restore(self, array: Array) -> None:
        """Take what ``array`` gave."""
        self._block, self._lasting = array[:2].copy(), array[2:4].copy()
        self._begin, self._since = array[4:].tolist()
