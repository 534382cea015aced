"""Poses that measured signals alone give."""

from __future__ import annotations

import numpy as np

from spookid.kernels.kernel import Array
from spookid.records import dataclass


@dataclass(frozen=True, eq=False)
class MeasuredPoses:
    """Where the signals of one recording and the joints alone put the bodies, at the steps that an animation shows."""

    frames: Array
    """(F,): numbers of the steps; none of a recording that is not animated."""
    poses: Array
    """(F, n_b, 7): NaN where the signals do not determine them."""

    def __repr__(self) -> str:
        known = np.isfinite(self.poses).all(axis=(1, 2)).sum()
        return f"<MeasuredPoses: {known} of {len(self.frames)} determined>"
