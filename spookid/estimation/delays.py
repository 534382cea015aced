"""Fits around delays that are parameters, and around times of impacts.

Samples and inputs are laid out around the delays with which a fit begins: a sample belongs to the step in which what it
shows took place then, and an input is a line through its value and slope there. Forces of an impact are those of the
time at which it is known to be. Fits are carried on, each around the delays and times of the one before, until these
stand still; then none of that is left in the answer.
"""

from __future__ import annotations

import math

from spookid.assembly.declaration import Declaration
from spookid.assembly.impact_estimates import retimed
from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.work import Work
from spookid.mechanics.contacts import Impact
from spookid.solvers.status import Status

_STILL = 1e-3
"""Share of a step by which a delay may move at the end: an input is then off by 1e-6 of its change in a step."""
_MET = 0.01
"""Share of a step by which an impact may move at the end: the pose at which it acts is then off by as little."""
_ROUNDS = 12


def free_delays(problem: Declaration) -> list[str]:
    """Names of the delays that are estimated."""
    return [p.name for p in problem.free if p.name in problem.delays]


def with_delays_at_rest(work: Work, found: Fit) -> Fit:
    """The last of fits, each around the delays of the one before, until they stand still.

    Where they do not come to rest, since samples change their step and the likelihood with it, the best one stands.
    """
    names, before, best = free_delays(found.assembly.problem), math.inf, found
    for _ in range(_ROUNDS if names else 0):
        values, around = {name: found.values[name] for name in names}, found.assembly.problem
        moved = max(abs(values[name] - around.guess[name]) for name in names) / around.step
        if moved <= _STILL or found.outcome.status is not Status.CONVERGED:
            return found
        if moved > before:
            return best
        before = max(moved, _STILL)
        around = around.with_(initial={**around.initial, **values})
        later = work.run(around, Start(found.result), found)
        if later.outcome.status in (Status.DIVERGED, Status.STALLED):
            # With next to no disturbance the motion that was found may lead to no other; the guess may.
            later = work.run(around, Start(), found)
        found = later
        best = max(best, found, key=lambda one: one.rank)
    return found


def with_impacts_at_rest(work: Work, found: Fit) -> Fit:
    """A fit carried on around the times of impacts that it has found; itself without impacts."""
    hits = any(isinstance(contact, Impact) for contact in found.assembly.problem.model.holding.contacts)
    before = math.inf
    for _ in range(_ROUNDS if hits else 0):
        assembly, moved = retimed(found.assembly, found.point)
        if moved <= _MET or found.outcome.status is not Status.CONVERGED or moved > before / 2:
            break  # times that do not come to rest are told by ``schedule_findings``
        before = moved
        found = work.run(assembly.problem, Start(found.result, assembly=assembly), found)
    return found
