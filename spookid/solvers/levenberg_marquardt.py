"""Levenberg–Marquardt on a manifold, structured in time, with bounds on the parameters (after Algorithm 1).

Each iteration minimises the linearized cost plus α Σ D_i δ_i², D the diagonal of JᵀWJ (Marquardt's scaling, which
makes the method blind to units) with a floor for parameters that the data hardly see. The states are eliminated chain
by chain; what remains is a bounded quadratic program in the parameters. α starts at 1e-6, falls tenfold after a
success and grows fourfold after a failure. With ρ the ratio of the cost's true decrease to the one the linear model
promised, a step is taken if ρ > 1e-4.

Stiff joints make the cost a narrow curved valley: along the tangent a body leaves the circle its hinge allows, and
plain steps creep. So a step that keeps less than nine tenths of its promise is corrected: the Jacobian and its
factors stay, the residual r(x ⊞ δ) found at its end says how far off the linear model was, and δ is solved for again
with gradient Jᵀ(r(x ⊞ δ) − Jδ). A correction costs a residual and one back-substitution, a tenth of an iteration; on
a measured pendulum it takes 9 iterations instead of 80.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from spookid.factor import Group
from spookid.kernels import Array
from spookid.solvers.linearization import DampedStep, Linearization, Tangent
from spookid.solvers.status import Iteration, Outcome, Status, Timing
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription import Point, Transcription

Callback = Callable[[Iteration], None]
Costs = dict[Group, float]
End = tuple[Status, str]

_ACCEPT = 1e-4
_PROMISE_KEPT = 0.9
_ROUND_OFF = 1e-13
_SMALLEST_DAMPING = 1e-14


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Settings; all tolerances are free of units."""

    max_iterations: int = 100
    """Accepted steps at the most."""
    gradient_tolerance: float = 1e-9
    """Converged if no column of the Jacobian makes a cosine above this with the residual; parameters at a bound that
    their gradient pushes against do not count."""
    step_tolerance: float = 1e-9
    """Converged if a step's length, each unknown scaled by the norm of its Jacobian column, is below this times the
    norm of the residual."""
    decrease_tolerance: float = 1e-10
    """Converged if both the promised and the true decrease are below this times the cost. For a cost of n residuals of
    unit variance the remaining error is then about the square root of 1e-10 n standard errors."""
    damping: float = 1e-6
    """α at the start."""
    largest_damping: float = 1e8
    """Stalled if α must exceed this."""
    newton_damping: float = 1e-2
    """The step and decrease tests count only for α up to this: a short step under heavy damping proves nothing."""
    corrections: int = 4
    """Corrections of a step at the most; 0 gives the plain method."""

    def solve(self, transcription: Transcription, start: Point, callback: Callback | None = None) -> Outcome:
        """Minimise from ``start``; ``callback`` is given every accepted iterate."""
        return _Run(self, transcription, callback or (lambda _: None)).run(start)


@dataclass(frozen=True, eq=False)
class _Trial:
    point: Point
    costs: Costs
    residuals: list[list[Array]]

    @property
    def cost(self) -> float:
        return sum(self.costs.values())


@dataclass(eq=False)
class _Run:
    settings: LevenbergMarquardt
    problem: Transcription
    callback: Callback
    history: list[Iteration] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: {"evaluate": 0.0, "factorize": 0.0})

    def run(self, start: Point) -> Outcome:
        began = time.perf_counter()
        self.best = start
        try:
            status, detail = self._iterate(start)
        except KeyboardInterrupt:
            if not self.history:
                raise
            status, detail = Status.INTERRUPTED, f"after {max(len(self.history) - 1, 0)} iterations"
        elapsed = time.perf_counter() - began
        timing = Timing(elapsed, **self.spent)
        return Outcome(status, detail, self.best, tuple(self.history), self._information(), timing)

    def _iterate(self, start: Point) -> End:
        first = self._try(start)
        self._accept(first, damping=0.0, length=0.0)
        if not np.isfinite(first.cost):
            return Status.DIVERGED, "the cost of the initial guess is not finite"
        damping = self.settings.damping
        while True:
            here = self._linearize()
            if (end := self._stationary(here)) is not None:
                return end
            if len(self.history) > self.settings.max_iterations:
                return Status.MAX_ITERATIONS, f"after {self.settings.max_iterations} iterations"
            damping, end = self._descend(here, damping)
            if end is not None:
                return end

    def _stationary(self, here: Linearization) -> End | None:
        """The gradient test."""
        if self.history[-1].total == 0:
            return Status.CONVERGED, "the cost is zero"
        if here.optimality() <= self.settings.gradient_tolerance:
            return Status.CONVERGED, f"the scaled projected gradient is below {self.settings.gradient_tolerance:g}"
        return None

    def _descend(self, here: Linearization, damping: float) -> tuple[float, End | None]:
        """Raise the damping until a step lowers the cost; the damping for the next one, and the end if it has come."""
        cost = self.history[-1].total
        while damping <= self.settings.largest_damping:
            try:
                with self._clock("factorize"):
                    solve = DampedStep(here, damping)
                    step = solve(here.gradient)
                    promised = here.promised(step)
            except NotPositiveDefiniteError:
                damping *= 4
                continue
            if promised <= _ROUND_OFF * cost and damping <= self.settings.newton_damping:
                return damping, (Status.CONVERGED, "the promised decrease is at round-off")
            trial = self._corrected(here, solve, step, promised)
            decrease = cost - trial.cost
            if np.isfinite(trial.cost) and decrease > _ACCEPT * promised:
                length = step.scaled_norm(here.scales)
                self._accept(trial, damping, length)
                return max(damping / 10, _SMALLEST_DAMPING), self._short(cost, promised, decrease, length, damping)
            damping *= 4
        return damping, (Status.STALLED, f"no step lowers the cost with damping up to {damping:.0e}")

    def _corrected(self, here: Linearization, solve: DampedStep, step: Tangent, promised: float) -> _Trial:
        """The best of a step and its corrections."""
        wanted = self.history[-1].total - _PROMISE_KEPT * promised
        best = trial = self._try(self._moved(here, step))
        for _ in range(self.settings.corrections):
            if trial.cost <= wanted or not np.isfinite(trial.cost):
                break
            with self._clock("factorize"):
                step = solve(here.pull_back(trial.residuals).minus(here.hessian(step)))
            trial = self._try(self._moved(here, step))
            if not trial.cost < best.cost:
                break
            enough = trial.cost > _PROMISE_KEPT * best.cost
            best = trial
            if enough:
                break
        return best

    def _short(self, cost: float, promised: float, decrease: float, length: float, damping: float) -> End | None:
        """The step and decrease tests."""
        settings = self.settings
        if damping > settings.newton_damping:
            return None
        if max(promised, decrease) <= settings.decrease_tolerance * cost:
            return Status.CONVERGED, f"the cost falls by less than {settings.decrease_tolerance:g} of itself"
        if length <= settings.step_tolerance * np.sqrt(cost):
            return Status.CONVERGED, f"the scaled step is below {settings.step_tolerance:g}"
        return None

    def _linearize(self) -> Linearization:
        """At the best point."""
        with self._clock("evaluate"):
            blocks = [self.problem.linearize(self.best, c) for c in range(len(self.problem.chains))]
        with self._clock("factorize"):
            return Linearization(self.problem, self.best, blocks)

    def _information(self) -> Array:
        """Undamped Schur complement at the best point, NaN if it cannot be had."""
        try:
            return self._linearize().information()
        except (NotPositiveDefiniteError, KeyboardInterrupt):
            n = len(self.problem.names)
            return np.full((n, n), np.nan)

    def _moved(self, here: Linearization, step: Tangent) -> Point:
        tangent = self.problem.manifold.tangent
        return self.problem.retract(here.point, [s.reshape(-1, tangent) for s in step.states], step.parameters)

    def _try(self, point: Point) -> _Trial:
        with self._clock("evaluate"):
            residuals = self.problem.residuals(point)
            return _Trial(point, self.problem.costs(residuals), residuals)

    def _accept(self, trial: _Trial, damping: float, length: float) -> None:
        self.best = trial.point
        parameters = trial.point.parameters.copy()
        self.history.append(Iteration(len(self.history), trial.costs, damping, length, parameters))
        self.callback(self.history[-1])

    @contextmanager
    def _clock(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part] += time.perf_counter() - began
