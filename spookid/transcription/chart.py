"""Steps of parameters along the curves on which what they stand for moves in a straight line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.records import dataclass

_KEPT = 1e-12
"""Relative change of a fixed parameter that is rounding."""


@dataclass(frozen=True, eq=False)
class Chart:
    """Some parameters θ that are coordinates of y = φ(θ), of which residuals are more nearly linear than of θ.

    A step δ leads to φ⁻¹(φ(θ) + Dφ δ), which is θ + δ to first order: Gauss–Newton steps at the bottom of a curved
    valley then follow it.
    """

    places: NDArray[np.intp]
    """Of the parameters among those of the transcription, -1 of those that are fixed, (k,)."""
    values: Array
    """Of those that are fixed; any of the others, (k,)."""
    ahead: Callable[[Array, Array], Array]
    """φ(θ) + Dφ δ."""
    inverse: Callable[[Array, Array], Array | None]
    """φ⁻¹(y) nearest to given coordinates; None if there is none."""

    def moved(self, parameters: Array, straight: Array) -> Array:
        """Where a step leads that leads straight to ``straight``, all parameters (n_p,); that itself if no coordinates
        are there, or if a fixed one would have to move."""
        free = self.places >= 0
        start, end = self.values.copy(), self.values.copy()
        start[free], end[free] = parameters[self.places[free]], straight[self.places[free]]
        if np.array_equal(start, end) or not np.all(np.isfinite(end)):
            return straight
        found = self.inverse(self.ahead(start, end - start), end)
        if found is None or np.any(np.abs(found - start)[~free] > _KEPT * (1 + np.abs(start[~free]))):
            return straight
        result = straight.copy()
        result[self.places[free]] = found[free]
        return result
