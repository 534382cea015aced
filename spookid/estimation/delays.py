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
from spookid.estimation.fit import Fit, joined
from spookid.estimation.fitting import Start, counting_from, fit
from spookid.mechanics.contacts import Impact
from spookid.results.result import Result
from spookid.solvers.ipopt import Ipopt
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Callback, Status

_STILL = 1e-3
"""Share of a step by which a delay may move at the end: an input is then off by 1e-6 of its change in a step."""
_MET = 0.01
"""Share of a step by which an impact may move at the end: the pose at which it acts is then off by as little."""
_ROUNDS = 12


def free_delays(problem: Declaration) -> list[str]:
    """Names of the delays that are estimated."""
    return [p.name for p in problem.free if p.name in problem.delays]


def settled(problem: Declaration, solver: LevenbergMarquardt | Ipopt, callback: Callback | None, start: Start) -> Fit:
    """A fit; if delays are free parameters the last of fits, each around those of the one before, until they stand
    still."""
    found, names = fit(problem, solver, callback, start), free_delays(problem)
    for _ in range(_ROUNDS if names else 0):
        values, around = {name: found.values[name] for name in names}, found.assembly.problem
        moved = max(abs(values[name] - around.guess[name]) for name in names)
        if moved <= _STILL * problem.step or found.outcome.status is not Status.CONVERGED:
            break
        around = around.with_(initial={**around.initial, **values})
        counted = counting_from(callback, found.result.iterations)
        later = fit(around, solver, counted, Start(found.result))
        if later.outcome.status in (Status.DIVERGED, Status.STALLED):
            # With next to no disturbance the motion that was found may lead to no other; the guess may.
            later = fit(around, solver, counted, Start())
        found = later.with_(**joined(found.result, later.result))
    return around_impacts(found, solver, callback)


def around_impacts(found: Fit, solver: LevenbergMarquardt | Ipopt, callback: Callback | None) -> Fit:
    """A fit carried on around the times of impacts that it has found; itself without impacts."""
    hits = any(isinstance(contact, Impact) for contact in found.assembly.problem.model.holding.contacts)
    before = math.inf
    for _ in range(_ROUNDS if hits else 0):
        assembly, moved = retimed(found.assembly, found.point)
        if moved <= _MET or found.outcome.status is not Status.CONVERGED or moved > before / 2:
            break  # times that do not come to rest are told by ``schedule_findings``
        before = moved
        counted = counting_from(callback, found.result.iterations)
        later = fit(assembly.problem, solver, counted, Start(found.result, assembly=assembly))
        found = later.with_(**joined(found.result, later.result))
    return found


def asked_from(problem: Declaration, found: Result) -> Result:
    """A result with the guesses of the problem, as it was asked."""
    guess = problem.guess
    return found.changed(parameters={name: e.changed(initial=guess[name]) for name, e in found.parameters.items()})
