"""IPOPT (Wächter and Biegler 2006) over a Transcription, for hard rows and complementarity pairs of any kind.

Soft factors are the objective, hard ones equality rows, pairs are relaxed and tightened step by step, each solve
starting from the one before (``relaxation``). Convergence is tested here and not in IPOPT, whose tolerance depends on
units: the gradient of the Lagrangian against the residual, as the cosine that Levenberg–Marquardt tests, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import casadi as ca
import numpy as np

from spookid.errors import ProblemError
from spookid.kernels import Array
from spookid.solvers.bounded import bounded_step
from spookid.solvers.callbacks import Functions, Observer, Watch
from spookid.solvers.information import information
from spookid.solvers.program import Program
from spookid.solvers.relaxation import RELAXATIONS
from spookid.solvers.status import Iteration, Outcome, Status, Timing
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription import Point, Transcription

Callback = Callable[[Iteration], None]
End = tuple[Status, str]

HESSIANS = ("gauss-newton", "exact")
_SMALL_COSINE = 1e-5
"""A cost that has settled counts only where the gradient is small, too: a blocked line search also settles."""
_OFF = 1e-8
"""Share of the cost that rows not yet met may be worth."""
_BARRIER_OFF = 1e-6
"""Share of the cost that the barrier may be worth: of n residuals, it then shifts no estimate that is a standard error
from its bound by more than 1e-6 n/2 standard errors. Pairs of which both members are zero keep it from falling much
further."""
_PAIRS_MET = 1e-9
"""Relaxed pairs, which are free of units, must hold to this."""
_LEFT_OUT = 1e-6
"""Rows that were left out because others imply them must hold to this, or they contradict them."""

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
    "Not_Enough_Degrees_Of_Freedom": (Status.STALLED, "there are more hard rows than unknowns"),
}


@dataclass(frozen=True)
class Ipopt:
    """Settings; all tolerances are free of units.

    Raises:
        ProblemError: for a Hessian or a relaxation that is not known.
    """

    max_iterations: int = 500
    """Of all solves together at the most."""
    hessian: Literal["gauss-newton", "exact"] = "gauss-newton"
    """Curvature that IPOPT is given: ``"gauss-newton"`` 2JᵀJ, ``"exact"`` with second derivatives of the residuals."""
    complementarity: Literal["fischer-burmeister", "scholtes", "penalty"] = "fischer-burmeister"
    """How pairs 0 ≤ a ⟂ b ≥ 0 are relaxed."""
    gradient_tolerance: float = 1e-9
    """Converged if no column of the Jacobian makes a cosine above this with the residual, multipliers counted."""
    decrease_tolerance: float = 1e-10
    """Converged if the cost changes by less than this times itself and that cosine is below 1e-5."""
    verbose: bool = False
    """True to let IPOPT write its table on stdout."""

    def __post_init__(self) -> None:
        for name, known in (("hessian", HESSIANS), ("complementarity", tuple(RELAXATIONS))):
            if (value := getattr(self, name)) not in known:
                raise ProblemError(f"backend 'ipopt': {name} {value!r} is not known; choose from {', '.join(known)}")

    def prepare(self, transcription: Transcription, start: Point) -> None:
        """Have all kernels ready that ``solve`` takes from any start."""
        _ = transcription.kernels.points, transcription.kernels.jacobians

    def solve(self, transcription: Transcription, start: Point, callback: Callback | None = None) -> Outcome:
        """Minimise from ``start``; ``callback`` is given every iterate."""
        return _Run(self, transcription, start, callback or (lambda _: None)).run()


@dataclass(frozen=True, eq=False)
class _Iterate:
    z: Array
    bounds: Array
    """Multipliers of the bounds of z, positive at an upper one."""
    rows: Array
    """Multipliers of the constraint rows."""


@dataclass(eq=False)
class _Run:
    settings: Ipopt
    problem: Transcription
    start: Point
    callback: Callback
    history: list[Iteration] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    places: list[int] = field(default_factory=lambda: [0])
    """Of each record in the history, which of its solve's iterates it is."""
    end: End | None = None
    """Set by the tests made here."""

    def run(self) -> Outcome:
        began = time.perf_counter()
        self.relaxation = RELAXATIONS[self.settings.complementarity]
        exact = self.settings.hessian == "exact"
        self.program = Program(self.problem, self.start, self.relaxation, exact)
        origin = self.program.origin
        self.last = _Iterate(origin, np.zeros(len(origin)), np.zeros(len(self.program.bounds[0])))
        self.lengths: Array | None = None
        status, detail = self._begin() or self._stages()
        if self.watch.error is not None:
            raise self.watch.error
        elapsed = time.perf_counter() - began
        timing = Timing(elapsed, self.watch.seconds, max(elapsed - self.watch.seconds, 0.0))
        return self._outcome(status, detail, timing)

    def _begin(self) -> End | None:
        """Record the start."""
        with np.errstate(all="ignore"):
            costs = self.program.costs(self.last.z)
        try:
            self._record(Iteration(0, costs, 0.0, 0.0, self.start.parameters.copy()))
        except KeyboardInterrupt:
            return Status.INTERRUPTED, "after 0 iterations"
        violations = self.program.violations(self.last.z)
        if not (np.isfinite(sum(costs.values())) and np.all(np.isfinite(violations))):
            return Status.DIVERGED, "the cost of the initial guess is not finite"
        return None

    def _record(self, iteration: Iteration) -> None:
        self.history.append(iteration)
        self.callback(iteration)

    # --- solves ---

    def _stages(self) -> End:
        """One solve, or with pairs one for each value of the relaxation's parameter."""
        paired = any(factor.pairs for factor in self.problem.factors)
        sequence = self.relaxation.sequence if paired else (0.0,)
        end: End = Status.CONVERGED, ""
        for stage, t in enumerate(sequence):
            end = self._stage(t, warm=stage > 0)
            # A relaxation that was not solved to the end may still lead to the next, tighter one; the last one decides.
            if end[0] not in (Status.CONVERGED, Status.STALLED):
                break
        if end[0] is Status.CONVERGED and self.program.left_out(self.last.z) > _LEFT_OUT:
            return Status.STALLED, "hard rows that others seemed to imply contradict them"
        if paired:
            smaller, product = self.program.pairs(self.last.z)
            return end[0], f"{end[1]}; of the pairs, min(a, b) is at most {smaller:.1e} and a b at most {product:.1e}"
        return end

    def _stage(self, t: float, warm: bool) -> End:
        """One solve by IPOPT from the last iterate."""
        left = self.settings.max_iterations - (len(self.history) - 1)
        limit = Status.MAX_ITERATIONS, f"after {self.settings.max_iterations} iterations"
        if left <= 0:
            return limit
        self.program.relax(t)
        self.end, self.calls, first = None, 0, len(self.history)
        functions = Functions(self.program, self.watch)
        observer = Observer(self.program, self._see)
        solver = ca.nlpsol("ipopt", "ipopt", functions.nlp, self._options(functions, observer, left, warm))
        (lower, upper), (below, above) = self.program.box, self.program.bounds
        given = {"x0": self.last.z, "lbx": lower, "ubx": upper, "lbg": below, "ubg": above}
        if warm:
            given |= {"lam_x0": self.last.bounds, "lam_g0": self.last.rows}
        try:
            solver(**given)
        except KeyboardInterrupt:
            self.watch.interrupted = True
        stats = solver.stats()
        self._damp(first, stats)
        if self.watch.interrupted:
            return Status.INTERRUPTED, f"after {len(self.history) - 1} iterations"
        if self.end is not None:
            return self.end
        word = str(stats.get("return_status"))
        status, detail = _ENDS.get(word, (Status.STALLED, f"IPOPT: {word}"))
        return limit if status is Status.MAX_ITERATIONS else (status, detail)

    def _options(self, functions: Functions, observer: Observer, left: int, warm: bool) -> dict[str, Any]:
        options: dict[str, Any] = {
            **functions.options,
            "iteration_callback": observer,
            "iteration_callback_ignore_errors": False,
            "no_nlp_grad": True,
            "calc_lam_p": False,
            "print_time": False,
            "show_eval_warnings": False,
            "ipopt.print_level": 5 if self.settings.verbose else 0,
            "ipopt.sb": "yes",
            "ipopt.max_iter": left,
            # The objective at the start of the solve becomes 1, so that the barrier's parameter has no unit.
            "ipopt.nlp_scaling_method": "none",
            "ipopt.obj_scaling_factor": 1 / max(self.program.objective(self.last.z), _TINY),
            "ipopt.mu_strategy": "adaptive",
            "ipopt.mu_init": _BARRIER,
            "ipopt.bound_mult_init_method": "mu-based",
            "ipopt.mu_min": 1e-16,
            "ipopt.bound_relax_factor": 0.0,
            "ipopt.tol": 1e-12,
            "ipopt.acceptable_tol": 1e-9,
        }
        if warm:
            options |= {"ipopt.warm_start_init_point": "yes", "ipopt.mu_init": 1e-2 * _BARRIER}
        return options

    def _damp(self, first: int, stats: dict[str, Any]) -> None:
        """IPOPT's regularization of the Hessian into the records of a solve: it tells only at the end."""
        sizes = stats.get("iterations", {}).get("regularization_size", [])
        for i, record in enumerate(self.history[first:]):
            if (at := self.places[first + i]) < len(sizes):
                self.history[first + i] = replace(record, damping=float(sizes[at]))

    # --- iterates ---

    def _see(self, z: Array, bounds: Array, rows: Array) -> bool:
        """IPOPT stands at z: record it and test it; True to stop."""
        call, self.calls = self.calls, self.calls + 1
        if self.watch.over:
            return True
        began = time.perf_counter()
        try:
            return self._look(_Iterate(z, bounds, rows), call)
        except KeyboardInterrupt:
            self.watch.interrupted = True
        except Exception as error:  # it must not pass through C++
            self.watch.error = error
        finally:
            self.watch.seconds += time.perf_counter() - began
        return True

    def _look(self, here: _Iterate, call: int) -> bool:
        # The first is where the solve starts, pushed into the bounds; in a restoration z stands still.
        if call == 0 or np.array_equal(here.z, self.last.z):
            self.lengths = self.program.lengths(here.z) if call == 0 else self.lengths
            return False
        costs = self.program.costs(here.z)
        if not np.isfinite(sum(costs.values())):
            return False
        assert self.lengths is not None
        length = float(np.linalg.norm(self.lengths * (here.z - self.last.z)))
        before, self.last = self.history[-1].total, here
        self.lengths = self.program.lengths(here.z)
        parameters = self.program.point(here.z).parameters.copy()
        self.places.append(call)
        self._record(Iteration(len(self.history), costs, 0.0, length, parameters))
        self.end = self._stationary(before)
        return self.end is not None

    def _stationary(self, before: float) -> End | None:
        """The tests of convergence at the last iterate, given the cost of the one before."""
        here, settings = self.last, self.settings
        cost = self.history[-1].total
        assert self.lengths is not None
        slopes = self.program.gradient(here.z) + self.program.pull_back(here.z, here.rows) + here.bounds
        # An unknown that stands in hard rows only is measured by these and their multipliers.
        others = self.program.lengths(here.z, hard=True) * np.linalg.norm(here.rows)
        scales = np.where(self.lengths > 0, 2 * np.sqrt(cost) * self.lengths, others)
        cosine = float(np.max(np.abs(slopes) / np.where(scales > 0, scales, np.inf), initial=0.0))
        if cosine > _SMALL_COSINE or not self._settled(cost):
            return None
        if cosine <= settings.gradient_tolerance:
            return Status.CONVERGED, f"the scaled gradient is below {settings.gradient_tolerance:g}"
        if abs(before - cost) <= settings.decrease_tolerance * cost:
            return Status.CONVERGED, f"the cost changes by less than {settings.decrease_tolerance:g} of itself"
        return None

    def _settled(self, cost: float) -> bool:
        """True if neither meeting the rows exactly nor the barrier at the bounds would change the cost much."""
        here, program = self.last, self.program
        violations = program.violations(here.z)
        if any(np.max(np.abs(violations[rows]), initial=0.0) > _PAIRS_MET for rows in program.paired_rows):
            return False
        lower, upper = program.box
        slack = np.where(here.bounds > 0, upper - here.z, here.z - lower)
        worth = np.abs(here.bounds[here.bounds != 0] * slack[here.bounds != 0])
        barrier = float(np.sum(worth[np.isfinite(worth)]))
        return abs(float(here.rows @ violations)) <= _OFF * cost and barrier <= _BARRIER_OFF * cost

    # --- the answer ---

    def _outcome(self, status: Status, detail: str, timing: Timing) -> Outcome:
        point = self.program.point(self.last.z) if len(self.history) > 1 else self.start
        known = information(self.problem, point)
        if status in (Status.CONVERGED, Status.STALLED) and len(self.history) > 1:
            point = self._on_bounds(point, known.matrix)
        return Outcome(
            status,
            detail,
            point,
            tuple(self.history),
            timing,
            known.redundant,
            self.program.pairs(self.last.z)[0],
        )

    def _on_bounds(self, point: Point, matrix: Array) -> Point:
        """Parameters that only the barrier keeps from a bound set on it: those that a Newton step would take there."""
        n = len(point.parameters)
        pull = self.last.bounds[len(self.last.z) - n :] / self.program.scales
        lower, upper = self.problem.lower - point.parameters, self.problem.upper - point.parameters
        try:
            step = bounded_step(2 * matrix, -pull, lower, upper) if np.all(np.isfinite(matrix)) else np.zeros(n)
        except NotPositiveDefiniteError:
            step = np.zeros(n)
        near = np.abs(step) <= _NEAR * self.program.scales
        low, high = near & (step <= lower), near & (step >= upper)
        parameters = np.where(low, self.problem.lower, np.where(high, self.problem.upper, point.parameters))
        moved = Point(point.states, parameters)
        costs = self.problem.costs(self.problem.residuals(moved))
        self.history[-1] = replace(self.history[-1], costs=costs, parameters=parameters.copy())
        return moved


_BARRIER = 1e-8
"""Share of the cost at the start that the barrier begins with."""
_TINY = 1e-100
_NEAR = 1e-2
"""Share of its magnitude within which a parameter may be set on its bound."""
