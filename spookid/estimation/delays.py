"""Fits whose delays are parameters.

Samples and inputs are laid out around the delays with which a fit begins: a sample belongs to the step in which what it
shows took place then, and an input is a line through its value and slope there. Fits are carried on, each around the
delays of the one before, until these stand still; then none of that is left in the answer.
"""

from __future__ import annotations

from spookid.assembly.declaration import Declaration
from spookid.estimation.continuation import counting_from
from spookid.estimation.fit import joined
from spookid.estimation.fitting import Start, fit
from spookid.results.result import Result
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.status import Callback, Status

_STILL = 1e-3
"""Share of a step by which a delay may move at the end: an input is then off by 1e-6 of its change in a step."""
_ROUNDS = 12


def free_delays(problem: Declaration) -> list[str]:
    """Names of the delays that are estimated."""
    return [p.name for p in problem.free if p.name in problem.delays]


def settled(problem: Declaration, callback: Callback | None, warm_start: Result | None) -> Result | None:
    """The last of fits with smooth friction, each around the delays of the one before, until these stand still; None if
    no delay is a free parameter."""
    names, solver = free_delays(problem), LevenbergMarquardt()
    if not names:
        return None
    smooth = problem.with_(friction="smooth")
    found = fit(smooth, solver, callback, Start(warm_start, problem.given)).told()
    for _ in range(_ROUNDS):
        values = {name: found.values[name] for name in names}
        moved = max(abs(values[name] - smooth.guess[name]) for name in names)
        if moved <= _STILL * problem.step or found.status is not Status.CONVERGED:
            break
        smooth = smooth.with_(initial={**smooth.initial, **values})
        counted = counting_from(callback, found.iterations)
        later = fit(smooth, solver, counted, Start(found)).told()
        if later.status is Status.DIVERGED:  # with next to no disturbance, the motion found may determine no other
            later = fit(smooth, solver, counted, Start()).told()
        found = later.changed(**joined(found, later))
    return found


def asked_from(problem: Declaration, found: Result) -> Result:
    """A result with the guesses of the problem, as it was asked."""
    guess = problem.guess
    return found.changed(parameters={name: e.changed(initial=guess[name]) for name, e in found.parameters.items()})
