"""Several wrong samples in a row: a position that stands still and jumps on, as of an encoder that is stuck or a link
that drops out and holds the last value, or that jumps away and comes back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spookid.kernels.kernel import Array, Mask

_JUMP = 10.0
"""Times the median change of the ten samples around from which on a change from one sample to the next is a jump."""
_FASTEST = 5.0
"""Times the change that nine in ten samples stay below that it is, too."""
_NEAR = 5
"""Samples to each side that are around."""
_LEAST = 3
"""Equal samples in a row that stand still."""
_BACK = 0.5
"""Share of a jump that may be left when it has come back."""


def stuck(values: Array, period: float | None) -> Mask:
    """Samples (N,) of a position between jumps, which no motion makes: those that stand still until one jumps on, but
    for the first, which may be true; and those from a jump on until another one comes back."""
    result, finite = np.zeros(len(values), dtype=np.bool_), np.isfinite(values)
    known = values[finite] if period is None else np.unwrap(values[finite], period=period)
    if len(known) < 4 * _NEAR:
        return result
    changes = np.diff(known)
    jumps = np.flatnonzero(_jumps(changes)).tolist()
    wrong = np.zeros(len(known), dtype=np.bool_)
    for k in jumps:
        first = k
        while first > 0 and changes[first - 1] == 0:
            first -= 1
        if k - first + 1 >= _LEAST:
            wrong[first + (first - 1 not in jumps) : k + 1] = True
    for k, back in pairwise(jumps):
        if abs(changes[k] + changes[back]) < _BACK * abs(changes[k]):
            wrong[k + 1 : back + 1] = True
    result[finite] = wrong
    return result


def _jumps(changes: Array) -> Mask:
    """True for changes (N − 1,) that are far larger than those around and nearly all others."""
    sizes = np.abs(changes)
    around = sliding_window_view(np.pad(sizes, _NEAR, mode="symmetric"), 2 * _NEAR + 1)
    typical = np.median(np.delete(around, _NEAR, axis=1), axis=1)
    moving = sizes[sizes > 0]
    fastest = float(np.quantile(moving, 0.9)) if len(moving) else np.inf
    return np.asarray((sizes > _JUMP * typical) & (sizes > _FASTEST * fastest))
