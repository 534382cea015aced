"""Noise of equations of motion that a smoother can tell from none.

A fit that sees no disturbance of a joint makes it as small as it likes. A smoother carries rows of all kinds together
from step to step, and where those of one are larger than those of another by the digits of a number, what these know is
lost in rounding, or seems to be more than it is.
"""

from __future__ import annotations

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.kernels.kernel import Array
from spookid.transcription.factor import Group
from spookid.transcription.transcription import Point

_MOST = 1e7
"""Slopes of equations of motion over those of sensors, at the most: half of the digits are left."""


def with_least_noise(assembly: Assembly, point: Point) -> Array:
    """Numbers of the constants, disturbances no smaller than those whose equations of motion leave digits to sensors.

    Args:
        point: where slopes are looked at.
    """
    problem, numbers = assembly.transcription, assembly.transcription.constants.copy()
    largest: dict[str, float] = {}
    sensors = 0.0
    for factor in problem.factors:
        if factor.group is Group.PRIOR or factor.hard:
            continue
        slopes = np.abs(problem.linearize_factor(factor, point, 0).matrix[:, : -1 - len(problem.names), :])
        of_rows = np.max(slopes, axis=(0, 1), where=np.isfinite(slopes), initial=0.0).tolist()
        if factor.group is Group.OBSERVATION:
            sensors = max([sensors, *of_rows])
        for name, slope in zip(factor.noise, of_rows, strict=False):
            largest[name] = max(slope, largest.get(name, 0.0))
    for size in assembly.noise if sensors > 0 else ():
        if size.kind == "disturbance":
            excess = max((largest.get(name, 0.0) for name in size.keys), default=0.0) / (_MOST * sensors)
            numbers[list(size.places)] *= max(excess, 1.0)
    return numbers
