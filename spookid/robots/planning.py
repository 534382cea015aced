"""What a robot's file says that a planned motion must stay within."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spookid.argument_checks import checked
from spookid.assembly.declaration import Declaration
from spookid.errors import ProblemError
from spookid.robots.robot import reread
from spookid.studies.motion_limits import MotionLimits


@checked
def limits_within(problem: Declaration, limits: MotionLimits | None) -> MotionLimits:
    """Limits over those of the robot's file that a problem was made from, if it was.

    Raises:
        ProblemError: if the file cannot be read.
    """
    told = _told(problem)
    return told if limits is None else limits.over(told)


def _told(problem: Declaration) -> MotionLimits:
    """Limits of the robot's file that a problem was made from, of the coordinates that its model has; none if it was
    made from none, or the file is not there any more.

    Raises:
        ProblemError: if the file cannot be read.
    """
    known = problem.model.robot
    if known is None or not Path(known.path).is_file():
        return MotionLimits(where=problem.place)
    robot = reread(known)
    labels = {freedom.label for freedom in problem.model.freedoms}
    told = {label: limits for label, limits in robot.limits.items() if label in labels}
    for label, one in told.items():
        if not one.lower < one.upper:
            raise ProblemError(
                f"{known.path}: joint {label!r} has no room between {one.lower:g} and {one.upper:g}; correct the limits"
            )
    return MotionLimits(
        position={n: (x.lower, x.upper) for n, x in told.items() if np.isfinite([x.lower, x.upper]).any()},
        rate={n: x.velocity for n, x in told.items() if np.isfinite(x.velocity)},
        effort={n: x.effort for n, x in told.items() if np.isfinite(x.effort)},
        where=problem.place,
    )
