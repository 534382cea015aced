"""The motion that tells most: from random ones within the limits, by IPOPT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.kernel import Array
from spookid.solvers.callbacks import Functions, Watch, observer
from spookid.studies.excitation_design import Design, DesignProgram

_DRAWS, _FEW = 200, 10
"""Of a random motion at the most, until one is within the limits, and at least, of which the one that had to be lessened
least is taken."""
_ANGLES = np.pi
"""Half the range of the middle of a coordinate without limits [rad or m]."""
_INNER = 0.5
"""Share of the range of a position in which the middle of a random motion lies."""
_SETTINGS = {
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",
    "ipopt.hessian_approximation": "limited-memory",
    "ipopt.tol": 1e-3,
    "ipopt.acceptable_tol": 1e-2,
    "ipopt.acceptable_iter": 5,
    "ipopt.acceptable_obj_change_tol": 1e-5,
    "ipopt.mu_strategy": "adaptive",
}
"""A design that is a thousandth from its optimum tells as much."""


@dataclass(frozen=True, eq=False)
class Search:
    """Motions within limits.

    Args:
        design: how they are judged.
        t: the times at which limits are kept, those of the controller [s].
    """

    design: Design
    t: Array

    def random(self, rng: np.random.Generator) -> Array:
        """Coefficients of a random motion, each coordinate as large as its own limits let it, all together then
        lessened until efforts and places are within theirs, by little if some draws let them.

        Raises:
            ProblemError: if none is found.
        """
        design, limits = self.design, self.design.bounds
        m, n = design.basis.size, len(limits.rate)
        open_ = ~np.isfinite(limits.position).all(axis=0)
        lower, upper = np.where(open_, [[-_ANGLES], [_ANGLES]], limits.position)
        functions = design.basis.at(self.t)
        best, share = np.zeros(n * m), 0.0
        for draw in range(_DRAWS):
            z = rng.standard_normal((n, m))
            middle = (lower + upper) / 2 + _INNER * (upper - lower) / 2 * rng.uniform(-1, 1, n)
            moved, rates = (np.max(np.abs(functions[i, :, 1:] @ z[:, 1:].T), axis=0) for i in (0, 1))
            room = np.where(open_, np.inf, np.minimum(upper - middle, middle - lower))
            z[:, 1:] *= np.minimum(room / moved, limits.rate / rates)[:, None]
            z[:, 0] = middle
            fitted, of_it = design.fitted(z.ravel(), self.t)
            best, share = (fitted, of_it) if of_it > share else (best, share)
            if share == 1 or (share > 0 and draw + 1 >= _FEW):
                return best
        raise ProblemError(
            f"{design.efforts.problem.place}: in {_DRAWS} poses at random the mechanism could not even stand within "
            "its limits; narrow those of positions around a pose that it can hold, or widen those of efforts and places"
        )

    def improved(self, start: Array, watch: Watch, seen: Callable[[int, float], None], most: int) -> tuple[Array, str]:
        """The coefficients that IPOPT finds from a start, within the limits at all times, and how it ended.

        Args:
            watch: tells of an interrupt.
            seen: told iterations and the criterion.
            most: iterations.
        """
        program = DesignProgram(self.design, start)
        functions = Functions(program, watch)
        last, count = start, 0

        def see(z: Array, _: Array, __: Array) -> bool:
            nonlocal last, count
            last, count = z, count + 1
            seen(count - 1, program.objective(z))
            return False

        given: dict[str, Any] = {
            **functions.options,
            "iteration_callback": observer(program, see, watch),
            "iteration_callback_ignore_errors": False,
            "no_nlp_grad": True,
            "calc_lam_p": False,
            "print_time": False,
            "show_eval_warnings": False,
            "ipopt.max_iter": most,
            **_SETTINGS,
        }
        solver = ca.nlpsol("excitation", "ipopt", functions.nlp, given)
        below, above = program.bounds
        found = solver(x0=start, lbg=below, ubg=above)
        if watch.error is not None:
            raise watch.error
        end = str(solver.stats().get("return_status"))
        best = last if watch.interrupted else np.asarray(found["x"].full())[:, 0]
        fitted, share = self.design.fitted(best, self.t)
        return (fitted if share > 0 else start), end
