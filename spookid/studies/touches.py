"""When which contact of a solution touches, and with which impulse; the impacts that it has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spookid.argument_checks import is_whole
from spookid.assembly.assembly import assemble
from spookid.assembly.declaration import Declaration
from spookid.assembly.impact_estimates import Strike, strikes_of
from spookid.errors import ProblemError, shown
from spookid.estimation.fitting import warm
from spookid.results.result import Result

_NOTHING = 1e-6
"""Share of the largest impulse of a step that is none: solvers end near zero."""


@dataclass(frozen=True)
class TouchSpan:
    """Steps without a gap in which a contact touches."""

    contact: str
    """Name of the ``Contact``."""
    begin: float
    """When its first step begins [s]."""
    end: float
    """When its last step ends [s]."""
    impulse: tuple[float, float, float]
    """Sum on the point, along the plane's normal and its x and y axes [N s]."""


def touches(problem: Declaration, solution: Result, recording: int) -> tuple[TouchSpan, ...]:
    """As of ``Problem.touches``."""
    if not (is_whole(recording) and 0 <= recording < len(solution.trajectories)):
        count = len(solution.trajectories)
        raise ProblemError(f"{problem.place}: recording is {shown(recording)}; the solution has {count}, from 0 on")
    trajectory, contacts = solution.trajectories[recording], problem.model.contacts
    impulses = trajectory.touches
    if impulses is None or impulses.shape[1] != len(contacts):
        raise ProblemError(f"{problem.what}: touches takes a solution of this problem; give one")
    step, found = float(np.diff(trajectory.t).mean()), list[TouchSpan]()
    known = np.nan_to_num(impulses)
    pushes = known[:, :, 0] > _NOTHING * np.max(known[:, :, 0], initial=0.0)
    for i, contact in enumerate(contacts):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], pushes[:, i].astype(int), [0]])))
        for first, last in edges.reshape(-1, 2).tolist():
            x, y, z = known[first:last, i].sum(axis=0).tolist()
            begin = float(trajectory.t[first])
            found.append(TouchSpan(contact.name, begin, begin + (last - first) * step, (x, y, z)))
    return tuple(sorted(found, key=lambda span: (span.begin, span.contact)))


def strikes(problem: Declaration, solution: Result, recording: int) -> tuple[Strike, ...]:
    """As of ``Problem.impacts``."""
    multipliers = solution.trajectories[recording].multipliers
    if multipliers.shape[1] != problem.model.holding.count:
        raise ProblemError(f"{problem.what}: impacts takes a solution of another problem; give one of this problem")
    assembly = assemble(problem)
    return strikes_of(assembly, warm(assembly, solution, {}), recording, multipliers)
