"""Memory that is used again.

Arrays of some megabytes come from the system as fresh pages, and touching a page for the first time costs more than
what is computed in it. Iterations that need the same arrays over and over keep them here.
"""

from __future__ import annotations

import math

import numpy as np

from spookid.kernels.arrays import Array, location

_BOUNDARY = 64
"""Bytes of the vectors that compiled code works with."""


class Workspace:
    """Arrays by name; whoever takes one again gives up what stood there."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def zeros(self, name: str, shape: tuple[int, ...]) -> Array:
        """An array that is zero when it is first taken, and later is as it was left."""
        if name not in self._held or self._held[name].shape != shape:
            self._held[name] = np.zeros(shape)
        return self._held[name]

    def aligned(self, name: str, shape: tuple[int, ...]) -> Array:
        """One that begins where a vector may, of no particular contents."""
        count = math.prod(shape)
        whole = self.zeros(name, (count + _BOUNDARY // 8,))
        start = -location(whole) % _BOUNDARY // whole.itemsize
        return whole[start : start + count].reshape(shape)
