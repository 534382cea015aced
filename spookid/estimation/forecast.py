"""How much time a fit takes, from one iteration of it.

What an iteration costs depends on the mechanism, on the recordings, on the solver and on the machine. It is therefore
measured: the fit begins, and ends after its first iteration.
"""

from __future__ import annotations

import time

from spookid.assembly.assembly import Assembly
from spookid.estimation.fitting import Start, fit
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt

_BEGINNINGS = 5
"""Fits of one iteration that a whole fit takes as long as, with its refinement and its tables, once its functions are
made: with the other count, what keeps forecasts of 14 problems of this repository within 0.49 and 1.99 of the truth."""
_ASSEMBLIES = 8
"""Assemblies that what is built once takes as long as: the equations at h and h/2, those of residual tests."""


def seconds(assembly: Assembly, building: float) -> float:
    """Processor time of a whole fit [s].

    Args:
        building: processor time that the assembly took [s].

    Raises:
        ProblemError: if the fit is refused.
    """
    began, solver = time.process_time(), LevenbergMarquardt(max_iterations=1)
    times = fit(assembly.problem, solver, None, Start(assembly=assembly)).times
    spent = time.process_time() - began
    once = spent * times.compile / times.total  # both are wall times: other work lengthens them alike
    return _ASSEMBLIES * building + once + _BEGINNINGS * (spent - once)
