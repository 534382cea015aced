"""The impacts that a solution has found."""

from __future__ import annotations

from spookid.assembly.assembly import assemble
from spookid.assembly.declaration import Declaration
from spookid.assembly.encounters import Strike, strikes_of
from spookid.errors import ProblemError
from spookid.estimation.fitting import warm
from spookid.results.result import Result


def strikes(problem: Declaration, solution: Result, recording: int) -> tuple[Strike, ...]:
    """As of ``Problem.impacts``."""
    multipliers = solution.trajectories[recording].multipliers
    if multipliers.shape[1] != problem.model.holding.count:
        raise ProblemError(f"{problem.place}: Problem {problem.name!r}: impacts takes a solution of another problem")
    assembly = assemble(problem)
    return strikes_of(assembly, warm(assembly, solution, {}), recording, multipliers)
