"""The motion that tells most: from random ones within the limits, by IPOPT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.solvers.callbacks import Functions, Watch, observer
from spookid.studies.excitation_design import Design, DesignProgram

_DRAWS, _FEW = 200, 10
"""Of a random motion at the most, until one is within the limits, and at least, if it had to be lessened."""
_ANGLES = np.pi
"""Half the range of the middle of a coordinate without limits [rad or m]."""
_INNER = 0.5
"""Share of the range of a position in which the middle of a random motion lies."""
_STEEP = 2.0
"""Slope that the criterion has at the start at least, as IPOPT sees it."""
_MOVES = 1e-9
"""Slope of a joint's position with a coordinate below which this does not move it."""
_SETTINGS = {
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",
    "ipopt.hessian_approximation": "limited-memory",
    "ipopt.tol": 1e-3,
    "ipopt.acceptable_tol": 1.0,
    "ipopt.acceptable_iter": 5,
    "ipopt.acceptable_obj_change_tol": 1e-4,
    "ipopt.mu_strategy": "adaptive",
}
"""A search converges at a stationary point, or within the limits once five iterations in a row each change the
criterion by less than 1e-4 of it. A design that is a thousandth from its optimum determines the parameters as well, and
an approximate Hessian takes long to show the gradient to be zero."""
LIMITED = "Maximum_Iterations_Exceeded"
"""How IPOPT says that a search has not converged within its iterations."""


@dataclass(frozen=True, eq=False)
class Search:
    """Motions within limits.

    Args:
        design: how they are judged.
        t: the times at which limits are kept, those of the controller [s].
    """

    design: Design
    t: Array

    @cached_property
    def _home(self) -> tuple[Array, Array, Array]:
        """z at home, and of each planned coordinate how far from there and how fast limits let it move, to first order,
        (m,) each; infinite without any.

        Raises:
            ProblemError: for a home outside of the limits, or a coordinate whose rate nothing limits.
        """
        efforts, limits = self.design.efforts, self.design.bounds
        home, n, problem = efforts.coordinates.home[0], len(limits.rate), efforts.problem
        still = np.stack([home, 0 * home, 0 * home])[:, None]
        asked = efforts.asked(still)
        at, slopes = asked[0, :n], np.abs(efforts.asked_slopes(still)[0, 0, :n])
        room = np.minimum(limits.position[1] - at, at - limits.position[0])
        if np.any(room < 0):
            name = problem.model.freedoms[int(np.argmin(room))].label
            raise ProblemError(
                f"{problem.place}: {name!r} is at {at[int(np.argmin(room))]:.4g} in the home pose, outside of its "
                "limits; give initial, a pose within them"
            )
        if efforts.coordinates.dependent and (over := limits.beyond(asked)) > 0:
            raise ProblemError(
                f"{problem.place}: to stand in the home pose takes {100 * over:.3g} % more than the limits of efforts, "
                "places or contacts allow; give initial, a pose within them"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(slopes > _MOVES, 1 / slopes, np.inf)
            reach, rates = (np.min(one[:, None] * shares, axis=0, initial=np.inf) for one in (room, limits.rate))
        if endless := [i for i, rate in zip(efforts.coordinates.planned, rates, strict=True) if np.isinf(rate)]:
            name = efforts.coordinates.joints.names[endless[0]]
            raise ProblemError(f"{problem.place}: nothing limits how fast {name!r} moves; limit rates of joints")
        return home, reach, rates

    def drawn(self, rng: np.random.Generator) -> Array:
        """Coefficients of a random motion, each coordinate as large as the limits of positions and rates let it."""
        design, (home, reach, fastest) = self.design, self._home
        m, n = design.basis.size, len(home)
        functions, z = design.functions, rng.standard_normal((n, m))
        endless = _ANGLES if not design.efforts.coordinates.dependent else 0.0
        away = _INNER * np.where(np.isfinite(reach), reach, endless) * rng.uniform(-1, 1, n)
        moved, rates = (np.max(np.abs(functions[i, :, 1:] @ z[:, 1:].T), axis=0) for i in (0, 1))
        z[:, 1:] *= np.minimum((reach - np.abs(away)) / moved, fastest / rates)[:, None]
        z[:, 0] = home + away
        return z.ravel()

    def random(self, rng: np.random.Generator, few: int = _FEW) -> Array:
        """A random motion, lessened until all limits hold: of a few draws the one that had to be lessened least.

        Args:
            few: draws.

        Raises:
            ProblemError: if none is found.
        """
        best, share = np.zeros(0), 0.0
        for draw in range(_DRAWS):
            fitted, of_it = self.design.fitted(self.drawn(rng), self.design.t, share)
            best, share = (fitted, of_it) if of_it > share else (best, share)
            if share == 1 or (share > 0 and draw + 1 >= few):
                found, of_it = self.design.fitted(best, self.t)
                if of_it > 0:
                    return found
                share = 0.0
        raise ProblemError(
            f"{self.design.efforts.problem.place}: in {_DRAWS} poses at random the mechanism could not even stand "
            "within its limits; narrow those of positions around a pose that it can hold, or widen the others"
        )

    def improved(self, start: Array, watch: Watch, seen: Callable[[int, float], None], most: int) -> tuple[Array, str]:
        """The coefficients that IPOPT finds from a start, within the limits at all times, and how it ended.

        Args:
            watch: tells of an interrupt.
            seen: told iterations and the criterion.
            most: iterations; the search converges long before, or says that it has not.
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
            # Where much is known already, a motion gains little, and IPOPT's tolerance is no share of that.
            "ipopt.obj_scaling_factor": max(1.0, _STEEP / float(np.max(np.abs(program.gradient(start))))),
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
