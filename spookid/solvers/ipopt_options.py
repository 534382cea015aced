"""What IPOPT is told before a solve, and what its words for the end of one mean."""

from __future__ import annotations

from typing import Any

import casadi as ca

from spookid.solvers.callbacks import Functions
from spookid.solvers.status import End, Status

TINY = 1e-100
"""A cost below this counts as this where something is divided by it."""
OVERDETERMINED = "Not_Enough_Degrees_Of_Freedom"
"""IPOPT's word for more equality rows than unknowns."""
_BARRIER = 1e-8
"""Share of the cost at the start that the barrier begins with."""
_PUSH = 1e-8
"""A row's value may be so near to its bound at the start: pairs that are held were solved for before."""

_ENDS = {
    "Solve_Succeeded": (Status.CONVERGED, "IPOPT's optimality test is met"),
    "Solved_To_Acceptable_Level": (Status.STALLED, "IPOPT comes no nearer than its acceptable tolerance"),
    "Maximum_Iterations_Exceeded": (Status.MAX_ITERATIONS, ""),
    "Infeasible_Problem_Detected": (Status.STALLED, "IPOPT finds no point near by that satisfies the hard rows"),
    "Restoration_Failed": (Status.STALLED, "IPOPT's restoration of the hard rows failed"),
    "Search_Direction_Becomes_Too_Small": (Status.STALLED, "IPOPT's steps have become too small"),
    "Diverging_Iterates": (Status.STALLED, "IPOPT's iterates diverge"),
    "Error_In_Step_Computation": (Status.STALLED, "IPOPT cannot compute a step"),
    "Invalid_Number_Detected": (Status.DIVERGED, "a residual or derivative is not finite"),
    OVERDETERMINED: (Status.STALLED, "there are more hard rows than unknowns"),
}


def end_of(word: str) -> End:
    """How a solve ended, by IPOPT's word for it."""
    return _ENDS.get(word, (Status.STALLED, f"IPOPT: {word}"))


def options(functions: Functions, watching: ca.Function, most: int, cost: float, verbose: bool) -> dict[str, Any]:
    """Options of ``nlpsol``.

    Args:
        functions: of the program.
        watching: called with every iterate.
        most: iterations.
        cost: of the objective at the start.
        verbose: True to let IPOPT write its table on stdout.
    """
    return {
        **functions.options,
        "iteration_callback": watching,
        "iteration_callback_ignore_errors": False,
        "no_nlp_grad": True,
        "calc_lam_p": False,
        "print_time": False,
        "show_eval_warnings": False,
        "ipopt.print_level": 5 if verbose else 0,
        "ipopt.sb": "yes",
        "ipopt.max_iter": most,
        # The objective at the start of the solve becomes 1, so that the barrier's parameter has no unit.
        "ipopt.nlp_scaling_method": "none",
        "ipopt.obj_scaling_factor": 1 / max(cost, TINY),
        "ipopt.mu_strategy": "adaptive",
        "ipopt.mu_init": _BARRIER,
        "ipopt.bound_mult_init_method": "mu-based",
        "ipopt.mu_min": 1e-16,
        "ipopt.bound_relax_factor": 0.0,
        "ipopt.slack_bound_push": _PUSH,
        "ipopt.slack_bound_frac": _PUSH,
        "ipopt.tol": 1e-12,
        "ipopt.acceptable_tol": 1e-9,
    }
