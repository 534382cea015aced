"""Options and return codes of IPOPT, and the CasADi callbacks through which ``nlpsol`` evaluates a program.

The callbacks write values and derivatives directly into the buffers of CasADi.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import casadi as ca
import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.status import End, Status

TINY = 1e-100
"""A cost below this counts as this where something is divided by it."""
OVERDETERMINED = "Not_Enough_Degrees_Of_Freedom"
"""IPOPT's word for more equality rows than unknowns."""
_NEAR = 1e-8
"""Share of the cost at the start that the barrier begins with, and how near to its bound a row's value may be: pairs
that are held were solved for before."""

_ENDS = {
    "Solve_Succeeded": (Status.CONVERGED, "IPOPT's optimality test is met"),
    "Solved_To_Acceptable_Level": (Status.STALLED, "IPOPT has reached only its acceptable tolerance"),
    "Maximum_Iterations_Exceeded": (Status.MAX_ITERATIONS, ""),
    "Infeasible_Problem_Detected": (Status.STALLED, "IPOPT finds no near point that satisfies the constraints"),
    "Restoration_Failed": (Status.STALLED, "IPOPT's restoration of the constraints failed"),
    "Search_Direction_Becomes_Too_Small": (Status.STALLED, "IPOPT's steps have become too small"),
    "Diverging_Iterates": (Status.STALLED, "IPOPT's iterates diverge"),
    "Error_In_Step_Computation": (Status.STALLED, "IPOPT cannot compute a step"),
    "Invalid_Number_Detected": (Status.DIVERGED, "a residual or derivative is not finite"),
    OVERDETERMINED: (Status.STALLED, "there are more constraints than unknowns"),
}


def end_of(word: str) -> End:
    """Status of a solve, from the status text of IPOPT."""
    return _ENDS.get(word, (Status.STALLED, f"IPOPT: {word}"))


def options(functions: Functions, watching: ca.Function, most: int, cost: float, verbose: bool) -> dict[str, Any]:
    """Options of ``nlpsol``. ``functions``: of the program; ``watching``: called with every iterate; ``most``:
    iterations; ``cost``: of the objective at the start; ``verbose``: True to let IPOPT print its table on stdout."""
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
        **settings(cost),
    }


def settings(cost: float) -> dict[str, Any]:
    """Settings of IPOPT for a sum of squares; ``cost``: at the start."""
    return {
        # The objective at the start of the solve becomes 1, so that the barrier's parameter has no unit.
        "ipopt.nlp_scaling_method": "none",
        "ipopt.obj_scaling_factor": 1 / max(cost, TINY),
        "ipopt.mu_strategy": "adaptive",
        "ipopt.mu_init": _NEAR,
        "ipopt.bound_mult_init_method": "mu-based",
        "ipopt.mu_min": 1e-16,
        "ipopt.bound_relax_factor": 0.0,
        "ipopt.slack_bound_push": _NEAR,
        "ipopt.slack_bound_frac": _NEAR,
        "ipopt.tol": 1e-12,
        "ipopt.acceptable_tol": 1e-9,
    }


class Evaluated(Protocol):
    """Protocol of a nonlinear program that is evaluated numerically: ``Program`` of a transcription, or another one."""

    @property
    def size(self) -> int:
        """Unknowns."""

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Of its rows."""

    @property
    def jacobian_sparsity(self) -> ca.Sparsity:
        """Sparsity of the Jacobian of the constraints in the unknowns."""

    def objective(self, z: Array) -> float:
        """To be minimised."""

    def gradient(self, z: Array) -> Array:
        """Of the objective."""

    def constraints(self, z: Array) -> Array:
        """The rows."""

    def jacobian(self, z: Array) -> Array:
        """Its nonzeros, column by column."""


@runtime_checkable
class Curved(Evaluated, Protocol):
    """Protocol of a nonlinear program that also has second derivatives."""

    @property
    def hessian_sparsity(self) -> ca.Sparsity:
        """Upper triangle of the Lagrangian's."""

    def hessian(self, z: Array, weight: float, multipliers: Array) -> Array:
        """Its nonzeros."""


@dataclass(eq=False)
class Watch:
    """What happened inside the functions."""

    seconds: float = 0.0
    """Spent in them."""
    interrupted: bool = False
    """True once Ctrl-C came; the solver is stopped at the next iterate."""
    error: BaseException | None = None
    """Any other error, to be raised once the solver has let go."""

    @property
    def over(self) -> bool:
        """True if the solver must stop."""
        return self.interrupted or self.error is not None


class _Function(ca.Callback):  # type: ignore[misc]
    """Evaluates ``work``: arrays of nonzeros in, arrays of nonzeros out; where that fails, ``failed`` everywhere."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[str, ca.Sparsity]],
        outputs: Sequence[tuple[str, ca.Sparsity]],
        work: Callable[..., Sequence[Array | float]],
        watch: Watch,
        failed: float = np.nan,
    ) -> None:
        super().__init__()
        self._inputs, self._outputs, self._work, self._watch = inputs, outputs, work, watch
        self._failed = failed
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self._inputs)

    def get_n_out(self) -> int:
        return len(self._outputs)

    def get_name_in(self, i: int) -> str:
        return self._inputs[i][0]

    def get_name_out(self, i: int) -> str:
        return self._outputs[i][0]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return self._inputs[i][1]

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return self._outputs[i][1]

    def has_eval_buffer(self) -> bool:
        return True

    def eval_buffer(self, arguments: Sequence[memoryview], results: Sequence[memoryview]) -> int:
        began = time.perf_counter()
        try:
            with np.errstate(all="ignore"):
                values = self._work(*(np.frombuffer(a) if a is not None else None for a in arguments))
        except KeyboardInterrupt:
            self._watch.interrupted, values = True, [self._failed] * len(results)
        except Exception as error:  # it must not pass through C++
            self._watch.error, values = self._watch.error or error, [self._failed] * len(results)
        for result, value in zip(results, values, strict=True):
            if result is not None and len(result):
                np.frombuffer(result)[:] = value
        self._watch.seconds += time.perf_counter() - began
        return 0


@dataclass(eq=False)
class Functions:
    """Functions of a program that ``nlpsol`` calls; they must live as long as the solver."""

    program: Evaluated
    watch: Watch
    units: Array | float = 1.0
    """Of the solver's unknowns: IPOPT compares its barrier with slopes along them. In metres and rad, slopes of heavy
    rows kept the barrier of a fit with pairs at 1e-4 of the cost, where it stalled."""
    nlp: ca.Function = field(init=False)
    options: dict[str, ca.Function] = field(init=False)
    """The derivatives under nlpsol's names."""

    def __post_init__(self) -> None:
        p, watch = self.program, self.watch
        units = np.broadcast_to(self.units, p.size)
        along = units[np.array(p.jacobian_sparsity.get_triplet()[1], dtype=int)]

        def value(z: Array, _: Array) -> Sequence[Array | float]:
            return p.objective(units * z), p.constraints(units * z)

        def slopes(z: Array, _: Array) -> Sequence[Array | float]:
            return p.objective(units * z), units * p.gradient(units * z)

        def rows_and_jacobian(z: Array, _: Array) -> Sequence[Array | float]:
            return p.constraints(units * z), along * p.jacobian(units * z)

        x = ("x", ca.Sparsity.dense(p.size, 1))
        rows = ca.Sparsity.dense(len(p.bounds[0]), 1)
        given, cost = [x, ("p", ca.Sparsity(0, 0))], ("f", ca.Sparsity.scalar())
        self.nlp = _Function("nlp", given, [cost, ("g", rows)], value, watch)
        gradient = [cost, ("grad_f_x", x[1])]
        jacobian = [("g", rows), ("jac_g_x", p.jacobian_sparsity)]
        multipliers = [*given, ("lam_f", ca.Sparsity.scalar()), ("lam_g", rows)]
        self.options = {
            "grad_f": _Function("grad_f", given, gradient, slopes, watch),
            "jac_g": _Function("jac_g", given, jacobian, rows_and_jacobian, watch),
        }
        if isinstance(p, Curved):
            curved: Curved = p
            first, second = (units[np.array(at, dtype=int)] for at in curved.hessian_sparsity.get_triplet())

            def bends(z: Array, _: Array, weight: Array, given: Array) -> Sequence[Array | float]:
                return (first * second * curved.hessian(units * z, weight.item(), given),)

            hessian = [("triu_hess_gamma_x_x", curved.hessian_sparsity)]
            self.options["hess_lag"] = _Function("hess_lag", multipliers, hessian, bends, watch)


def observer(program: Evaluated, see: Callable[[Array, Array, Array], bool], watch: Watch) -> ca.Function:
    """Function that ``nlpsol`` calls at every iterate. ``see``: receives z and the multipliers of bounds and
    constraints; it returns True to stop the solver."""
    rows = len(program.bounds[0])
    sizes = {"x": program.size, "f": 1, "g": rows, "lam_x": program.size, "lam_g": rows}
    names = ca.nlpsol_out()

    def work(*values: Array) -> Sequence[float]:
        given = dict(zip(names, values, strict=True))
        return (float(watch.over or see(*(given[name].copy() for name in ("x", "lam_x", "lam_g")))),)

    inputs = [(name, ca.Sparsity.dense(sizes.get(name, 0), 1)) for name in names]
    return _Function("observer", inputs, [("stop", ca.Sparsity.scalar())], work, watch, failed=1.0)
