"""IPOPT (Wächter and Biegler 2006) for a Transcription, with equality constraints and complementarity pairs.

Residuals form the objective. Of each pair 0 ≤ a ⟂ b ≥ 0 the smaller member is fixed at zero and the other is bounded by
zero, which gives a program without complementarity. If both are zero at its solution and the multiplier of the fixed
one has the wrong sign, the members exchange roles, and the program is solved again. The cost decreases each time.
Linear programs then look for a better piece (``neighbouring_pieces``). If the start does not show which members are
zero, relaxed pairs are solved first and tightened.

Unidentifiable directions of the parameters are regularized towards the start: IPOPT would diverge along them.

The convergence test is independent of units, unlike IPOPT's own: the cosine of the gradient of the Lagrangian and the
residual, as in Levenberg–Marquardt.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import casadi as ca
import numpy as np

from spookid.argument_checks import Checked
from spookid.kernels.arrays import Array, Mask
from spookid.kernels.precision import EPSILON, MET
from spookid.solvers.callbacks import OVERDETERMINED, TINY, Functions, Watch, end_of, observer, options
from spookid.solvers.linearization import implied, information, unknown, unseen_directions
from spookid.solvers.neighbouring_pieces import WORTH, Pieces, judged
from spookid.solvers.places import with_constraint_rows
from spookid.solvers.program import Program
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.status import Callback, End, Iteration, Outcome, Status, Timing
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.faults import because
from spookid.transcription.transcription import Point, Transcription

_SMALL_COSINE = 1e-5
"""Cosine below which a stationary cost counts as converged: a blocked line search also stops changing the cost."""
_OFF = 1e-8
"""Share of the cost that rows not yet met may be worth."""
_BARRIER_OFF = 1e-6
"""Share of the cost that the barrier may be worth: of n residuals, it then shifts no estimate that is a standard error
from its bound by more than 1e-6 n/2 standard errors. Pairs of which both members are zero keep it from falling much
further."""
_PAIRS_MET = 1e-9
"""Relaxed pairs, which are free of units, must hold to this."""


@dataclass(frozen=True)
class Ipopt(metaclass=Checked):
    """Settings of the solver IPOPT; all tolerances are dimensionless."""

    name: ClassVar[str] = "ipopt"
    max_iterations: int = 500
    """Of a fit, with all the solves that pairs take, at the most; fits that lead to it have as many each."""
    hessian: Literal["gauss-newton", "exact"] = "gauss-newton"
    """Curvature that IPOPT is given: ``"gauss-newton"`` 2JᵀJ, ``"exact"`` with second derivatives of the residuals."""
    gradient_tolerance: float = 1e-9
    """Converged if no column of the Jacobian makes a cosine above this with the residual, multipliers counted."""
    decrease_tolerance: float = 1e-10
    """Converged if the cost changes by less than this times itself and that cosine is below 1e-5."""
    told: bool = False
    """True if the start shows which member of each pair is zero: pairs are then not relaxed first."""
    verbose: bool = False
    """True to let IPOPT write its table on stdout."""

    @property
    def is_exact(self) -> bool:
        """True if IPOPT gets second derivatives of the residuals."""
        return self.hessian == "exact"

    def solve(self, transcription: Transcription, start: Point, callback: Callback | None = None) -> Outcome:
        """Minimise the cost from ``start``; ``callback`` receives every iterate."""
        return _Run(self, transcription, _begun(transcription, start), callback or (lambda _: None)).run()


def program(transcription: Transcription, start: Point) -> Program:
    """Program of a first solve without relaxed pairs, whose unknowns are zero at its ``origin``."""
    rows, settled, start = (
        with_constraint_rows(transcription),
        transcription.at_solution(),
        _begun(transcription, start),
    )
    plain = Program(rows, start, True)
    unseen = unseen_directions(settled, start, plain.scales)
    return Program(
        rows, start, True, pins=_pins(unseen, plain.objective(plain.origin)), implied=_left_out(settled, start)
    )


def _settled(transcription: Transcription) -> Transcription:
    """The same with pairs held, behind all other rows: these are not left out for a pair's sake, which may change."""
    return transcription.with_factors(sorted(transcription.factors, key=lambda factor: factor.pairs)).at_solution()


def _begun(transcription: Transcription, start: Point) -> Point:
    """The start with multipliers of joints where they belong."""
    if not any(factor.private for factor in transcription.factors):
        return start
    unpaired = [factor for factor in transcription.factors if not factor.pairs]
    return ReducedProblem(transcription.with_factors(unpaired), start).project(start)


def _pins(unseen: Array, cost: float) -> Array:
    return np.asarray(np.sqrt(_PINNED * cost) * unseen)


def _left_out(settled: Transcription, point: Point) -> Sequence[Mapping[str, Mask]]:
    """Rows that others imply; each factor's own where the states are not determined."""
    try:
        return implied(settled, point)
    except (NotPositiveDefiniteError, np.linalg.LinAlgError):
        return []


@dataclass(frozen=True, eq=False)
class _Iterate:
    z: Array
    bounds: Array
    """Multipliers of the bounds of z, positive at an upper one."""
    rows: Array
    """Multipliers of the constraint equations."""


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
        exact = self.settings.is_exact
        self.lengths: Array | None = None
        self.rows, self.settled = with_constraint_rows(self.problem), _settled(self.problem)
        self._set(Program(self.rows, self.start, exact))
        self.unseen: Array | None = None
        status, detail = self._begin() or self._stages()
        if status in (Status.STALLED, Status.DIVERGED):
            detail = because(detail, self.problem, self.program.point(self.last.z))
        if self.watch.error is not None:
            raise self.watch.error
        elapsed = time.perf_counter() - began
        timing = Timing(elapsed, self.watch.seconds, max(elapsed - self.watch.seconds, 0.0))
        return self._outcome(status, detail, timing)

    def _set(self, program: Program) -> None:
        """Go on with a program, from its own start."""
        self.program, origin = program, program.origin
        self.last = _Iterate(origin, np.zeros(len(origin)), np.zeros(len(program.bounds[0])))

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
            return Status.DIVERGED, "the cost at the initial values is not finite"
        return None

    def _record(self, iteration: Iteration) -> None:
        self.history.append(iteration)
        self.callback(iteration)

    # --- solves ---

    def _stages(self) -> End:
        """One solve, or as many as pairs take."""
        paired = any(factor.pairs for factor in self.problem.factors)
        end = self._pieces() if paired else self._stage()
        if end[0] is Status.CONVERGED and self.program.left_out(self.last.z) > MET:  # they contradict the others
            return Status.STALLED, "constraints that seemed redundant contradict the others"
        return end

    def _pieces(self) -> End:
        """Hold one member of each pair, and let those change sides that should."""
        if (end := self._relaxed()) is not None:
            return end
        held, least = None, np.inf
        while True:
            end = self._stage(held)
            cost = max(self.history[-1].total, TINY)
            held, both, wrong = self.program.held(self.last.z, self.last.rows, _PAIRS_MET, WORTH * cost, cost)
            if end[0] is not Status.CONVERGED:
                return end
            if not wrong:
                held, said = judged(Pieces(self.program, self.last.z, cost, both), _SMALL_COSINE, cost < least)
                if held is None:
                    return end[0], f"{end[1]}, {said}"
                least = (1 - WORTH) * cost

    def _relaxed(self) -> End | None:
        """Follow relaxed pairs until they tell who is zero, unless the start does; an end if there is one for good."""
        if self.settings.told:
            return None
        t = float(np.clip(self.program.products(self.last.z), _LAST, _WIDEST))
        while True:
            status, detail = self._stage(t=t)
            # A relaxation that was not solved to the end may still lead to the next, tighter one.
            if status not in (Status.CONVERGED, Status.STALLED):
                return status, detail
            if t < 2 * _LAST:
                return None
            t = max(_TIGHTER * t, _LAST)

    def _stage(self, held: list[Mask] | None = None, t: float = 0.0) -> End:
        """One solve by IPOPT from the last iterate, with those members of pairs held, or pairs relaxed."""
        left = self.settings.max_iterations - (len(self.history) - 1)
        limit = Status.MAX_ITERATIONS, f"max_iterations = {self.settings.max_iterations}"
        if left <= 0:
            return limit
        self.end, self.calls, first = None, 0, len(self.history)
        try:
            self._prepare(held, t)
            first_cost, units = self.program.objective(self.last.z), self._units()
            functions = Functions(self.program, self.watch, units)
            watching = observer(self.program, lambda z, push, y: self._see(units * z, push / units, y), self.watch)
            given = options(functions, watching, left, first_cost, self.settings.verbose)
            solver = ca.nlpsol("ipopt", "ipopt", functions.nlp, given)
            (lower, upper), (below, above) = (side / units for side in self.program.box), self.program.bounds
        except KeyboardInterrupt:
            return Status.INTERRUPTED, f"after {len(self.history) - 1} iterations"
        if np.sum(below == above) > np.sum(lower < upper):
            return end_of(OVERDETERMINED)  # where unknowns are fixed IPOPT would try all the same, and crash
        try:
            solver(x0=self.last.z / units, lbx=lower, ubx=upper, lbg=below, ubg=above)
        except KeyboardInterrupt:
            self.watch.interrupted = True
        stats = solver.stats()
        self._damp(first, stats)
        if self.watch.interrupted:
            return Status.INTERRUPTED, f"after {len(self.history) - 1} iterations"
        if self.end is not None:
            return self.end
        status, detail = end_of(str(stats.get("return_status")))
        # Where nothing is left to gain, rounding may keep IPOPT from a step that it would take.
        moved = status is Status.STALLED and len(self.history) > first
        if moved and self._stationary(self.history[-1].total) is not None:
            return Status.CONVERGED, f"IPOPT stopped with a scaled gradient below {_SMALL_COSINE:g}"
        return limit if status is Status.MAX_ITERATIONS else (status, detail)

    def _units(self) -> Array:
        """Units of the unknowns: a state's moves cost as much as there is to lower, or constraints by one. Without rows
        only parameters have a barrier."""
        if not len(self.program.bounds[0]):
            return np.ones(self.program.size)
        own, hard = self.program.lengths(self.last.z), self.program.lengths(self.last.z, hard=True)
        soft, root = own > EPSILON * np.max(own), np.sqrt(max(self.history[-1].total, TINY))
        units = np.where(soft, root, 1.0) / np.where(soft, own, np.where(hard > 0, hard, 1.0))
        return np.where(np.arange(len(units)) < len(units) - len(self.program.scales), units, 1.0)

    def _prepare(self, held: list[Mask] | None, t: float) -> None:
        """The program of a solve, from the last iterate."""
        exact, pins = self.settings.is_exact, None
        point = self.program.point(self.last.z)
        if not t:
            if self.unseen is None:
                self.unseen = unseen_directions(self.settled, point, self.program.scales)
            pins = _pins(self.unseen, self.history[-1].total)
        self._set(Program(self.rows, point, exact, t, self.program.sizes, held, pins, _left_out(self.settled, point)))
        self.loose = t > 0

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
        below, above = self.program.bounds
        # On the way IPOPT's multipliers of inequalities may have a sign that no bound gives them.
        rows = np.clip(rows, np.where(np.isfinite(below), -np.inf, 0.0), np.where(np.isfinite(above), np.inf, 0.0))
        here = _Iterate(z, bounds, rows)
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
        # An unknown that stands in equality constraints only is measured by these and their multipliers.
        others = self.program.lengths(here.z, hard=True) * np.linalg.norm(here.rows)
        soft = self.lengths > EPSILON * np.max(self.lengths)
        scales = np.where(soft, 2 * np.sqrt(cost) * self.lengths, others)
        lower, upper = self.program.box
        free = (scales > 0) & (lower < upper)
        cosine = float(np.max(np.abs(slopes[free]) / scales[free], initial=0.0))
        if self.loose:
            met = np.max(np.abs(self.program.violations(here.z)), initial=0.0) <= _LOOSE
            near = met and cosine <= _LOOSE and abs(before - cost) <= _LOOSE * cost
            return (Status.CONVERGED, "close enough to the solution of a relaxed problem") if near else None
        if cosine > _SMALL_COSINE or not self._settled(cost):
            return None
        if cosine <= settings.gradient_tolerance:
            return Status.CONVERGED, f"the scaled gradient is below {settings.gradient_tolerance:g}"
        if abs(before - cost) <= settings.decrease_tolerance * cost:
            return Status.CONVERGED, f"the relative change of the cost is below {settings.decrease_tolerance:g}"
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
        values, (below, above) = program.constraints(here.z), program.bounds
        pushed = np.abs(here.rows * np.where(here.rows > 0, above - values, values - below))
        barrier = float(np.sum(worth[np.isfinite(worth)]) + np.sum(pushed[np.isfinite(pushed) & (below < above)]))
        return abs(float(here.rows @ violations)) <= _OFF * cost and barrier <= _BARRIER_OFF * cost

    # --- the answer ---

    def _outcome(self, status: Status, detail: str, timing: Timing) -> Outcome:
        point = self.program.point(self.last.z) if len(self.history) > 1 else self.start
        try:
            known = information(self.settled, point)
        except KeyboardInterrupt:
            known = unknown(self.problem)
        if status in (Status.CONVERGED, Status.STALLED) and len(self.history) > 1:
            point = self._on_bounds(point, known.matrix)
        return Outcome(
            status, detail, point, tuple(self.history), timing, known.redundant, self.program.pairs(self.last.z)
        )

    def _on_bounds(self, point: Point, matrix: Array) -> Point:
        """Parameters that only the barrier keeps from a bound or a constraint set on it: those that a Newton step would
        take there."""
        n, linear = len(point.parameters), self.problem.linear_constraints(point.parameters)
        pull = self.last.bounds + self.program.pull_of_constraints(self.last.z, self.last.rows)
        pull = pull[len(self.last.z) - n :] / self.program.scales
        lower, upper = self.problem.lower - point.parameters, self.problem.upper - point.parameters
        try:
            finite = np.all(np.isfinite(matrix))
            step = bounded_step(2 * matrix, -pull, lower, upper, linear) if finite else np.zeros(n)
        except NotPositiveDefiniteError:
            step = np.zeros(n)
        near = np.abs(step) <= _NEAR * self.program.scales
        low, high = near & (step <= lower), near & (step >= upper)
        parameters = np.where(low, self.problem.lower, np.where(high, self.problem.upper, point.parameters))
        if self.problem.constraints is not None:
            ahead = point.parameters + np.where(np.all(near), step, 0.0)
            parameters = self.problem.stepped(np.where(low | high, parameters, ahead), np.zeros(n))
            parameters = parameters if np.all(np.isfinite(parameters)) else point.parameters
        moved = Point(point.states, parameters)
        costs = self.problem.costs(self.problem.residuals(moved))
        self.history[-1] = replace(self.history[-1], costs=costs, parameters=parameters.copy())
        return moved


_PINNED = 1e-6
"""Relative increase of the cost if an unidentifiable parameter changes by its own magnitude."""
_WIDEST, _LAST = 1e-3, 1e-7
"""Mean product of a pair's members, each over its size: largest at the beginning, and when it shows which is zero."""
_TIGHTER = 1e-2
"""Share of themselves to which they fall."""
_LOOSE = 1e-4
"""Share of the cost, and of the rows' units, to which a relaxed problem is solved on the way."""
_NEAR = 1e-2
"""Share of its magnitude within which a parameter may be set on its bound."""
