"""Which share of the latest samples is left out, and since when that is much."""

from __future__ import annotations

import math

import numpy as np

from spookid.kernels.kernel import Array

_LATEST = 100
"""Samples over which a share is taken, older ones counting less and less."""
_MUCH, _LITTLE = 0.1, 0.05
"""Shares from which it is told, and below which it is told no more."""
_WHY = {
    "late": "samples come after their step has left the window, and are left out: take a longer window",
    "crowded": (
        "more samples come between two steps than there is room for, and are left out: begin with a recording that has "
        "as many, or take a smaller step"
    ),
}
"""By what becomes of a sample."""


class LeftOut:
    """Shares of samples that are left out, by reason, and the time since when they are large."""

    def __init__(self) -> None:
        self._shares = dict.fromkeys(_WHY, 0.0)
        self._since = dict.fromkeys(_WHY, math.nan)

    def add(self, t: float, fate: str) -> None:
        """A sample of time t [s], and what has become of it."""
        for why in _WHY:
            share = self._shares[why] + ((why == fate) - self._shares[why]) / _LATEST
            self._shares[why] = share
            if share < _LITTLE:
                self._since[why] = math.nan
            elif share > _MUCH and math.isnan(self._since[why]):
                self._since[why] = t

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence for each share that is large."""
        return tuple(f"since {t:.6g} s {_WHY[why]}" for why, t in self._since.items() if not math.isnan(t))

    def array(self) -> Array:
        """All that is kept, (reasons, 2)."""
        return np.column_stack([list(self._shares.values()), list(self._since.values())])

    def restore(self, array: Array) -> None:
        """Take what ``array`` gave."""
        for why, (share, since) in zip(_WHY, array.tolist(), strict=True):
            self._shares[why], self._since[why] = share, since
