"""Sizes of noise below which there is no use in a search: what is left to go is as good as zero.

Rows over a size that tends to zero dwarf all others in H = JᵀJ, and what the others know is lost in rounding. Two
rules keep disturbances from that: one of the sizes of Jacobians alone, known before a search, and one of what rounding
does to log det H where a search has come to, which sees the directions of the states that little is known of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spookid.kernels.kernel import Array
from spookid.statistics.marginal import Marginal
from spookid.statistics.noise_sizes import NoiseSize

_CONDITION = 1e11
"""Information of the equations of motion over that of sensors at most."""
_DIGITS = 0.1
"""Bound of rounding in log det H by one disturbance at most; rounding itself is about a tenth of its bound, so that a
search still tells 0.01 of the log-likelihood."""


def floors(sizes: Sequence[NoiseSize], logs: Array, found: Marginal) -> Array:
    """Logarithms that sizes do not fall below, (n_s,): what a sensor resolves, and the size from which on the
    information in the states that its rows hold is so much larger than that of the other kind that no digits are left.
    """
    strength = {size: sum(found.strength[name] for name in size.keys) for size in sizes}
    of_kind = {kind: sum(v for s, v in strength.items() if s.kind == kind) for kind in ("disturbance", "sensor")}
    lowest = []
    for size, log in zip(sizes, logs, strict=True):
        others = of_kind["sensor" if size.kind == "disturbance" else "disturbance"]
        known = others > 0 and strength[size] > 0
        floor = log + np.log(strength[size] / (_CONDITION * others)) / 2 if known else -np.inf
        lowest.append(max(floor, np.log(size.floor)) if size.floor > 0 else floor)
    return np.array(lowest)


def sharp(sizes: Sequence[NoiseSize], logs: Array, found: Marginal) -> Array:
    """Logarithms of disturbances from which on enough digits are left, as far as the likelihood at these sizes tells,
    (n_s,); −∞ of sensors.

    The bound of rounding is taken to go with 1/s². As variances of the states fall with s, what this gives is right
    from below, and too large, but never above s, from above.
    """
    bounds = found.rounding()
    bound = np.array([sum(bounds.get(name, 0.0) for name in size.keys) for size in sizes])
    moving = np.array([size.kind == "disturbance" for size in sizes], dtype=bool) & (bound > 0)
    return np.asarray(np.where(moving, logs + np.log(np.where(moving, bound, 1.0) / _DIGITS) / 2, -np.inf))
