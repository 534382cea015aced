"""Levenberg–Marquardt on a manifold, structured in time, with bounds on the parameters (after Algorithm 1).

Each iteration minimises the linearized cost plus α Σ D_i δ_i², D the diagonal of JᵀWJ (Marquardt's scaling). With ρ the
ratio of the actual to the predicted decrease of the cost, a step is accepted if ρ > 1e-4, and is a success if ρ > 1/4.
A step with ρ below 0.9 is corrected with the gradient Jᵀ(r(x ⊞ δ) − Jδ). If Gauss–Newton steps fail although the merit
function barely changes, Newton steps with the exact Hessian JᵀJ + S follow (``curvature``), as in
NL2SOL (Dennis, Gay and Welsch, ACM Transactions on Mathematical Software 7, 1981). See docs/explanation/solver.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from spookid.argument_checks import Checked
from spookid.errors import ProblemError, shown
from spookid.kernels.arrays import Array
from spookid.kernels.precision import EPSILON
from spookid.kernels.thread_pool import ThreadPool
from spookid.solvers.neighbouring_pieces import ActiveSet
from spookid.solvers.reduced_problem import Evaluation, ReducedProblem
from spookid.solvers.status import Callback as Callback  # estimation takes it from here
from spookid.solvers.status import End, Iteration, Outcome, Status, Timing
from spookid.solvers.steps import DampedStep, MeritModel, Tangent
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.transcription.faults import because
from spookid.transcription.transcription import Point, Transcription

_ACCEPT = 1e-4
_POOR = 0.25
_PROMISE_KEPT = 0.9
_VAIN = 1e-3
"""A correction is not tried that will gain less than this share of the promise."""
_ROUND_OFF = 1e-13
_SETTLED = 0.1
"""Once the promised decrease is below this share of the merit the exact Hessian is an alternative (before, damped steps
of JᵀJ do better; Fletcher and Xu, 1987, switch likewise)."""
_FORESEEN = 0.01
"""Share of the tolerance that a step not taken may be worth: a forecast is no measurement."""
_STILL = 0.01
"""Relative decrease of the merit function below which it counts as stationary."""
_LATE = 1e-6
"""Rounding in coupled rows is looked at when the promised decrease is below this share of the merit."""
_PATIENCE = 16
"""Plain steps fail at the most before the exact Hessian is tried again; damping rises less often before it gives up."""
_SMALLEST_DAMPING = 1e-20


@dataclass(frozen=True)
class LevenbergMarquardt(metaclass=Checked):
    """Settings of the Levenberg–Marquardt solver; all tolerances are dimensionless.

    >>> patient = LevenbergMarquardt(max_iterations=500)
    """

    name: ClassVar[str] = "lm"
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
    unit variance the remaining error is then about the square root of 1e-10 n standard errors. Also converged if what
    all further steps could lower it by is below a hundredth of this, by how fast their decreases fall."""
    negligible_cost: float = 0.0
    """Cost at which the solve counts as converged. Set it above zero for a problem whose solution has zero residuals,
    which end as rounding errors of unknown size."""
    damping: float = 1e-6
    """α at the start."""
    largest_damping: float = 1e8
    """Stalled if α must exceed this."""
    newton_damping: float = 1e-2
    """The step and decrease tests count only for α up to this: a short step under heavy damping proves nothing."""
    corrections: int = 4
    """Corrections of a step at the most; 0 gives the plain method."""
    newton: bool = True
    """Take exact second derivatives where the linear model is poor; False never does."""
    threads: int = 1
    """Threads that share out the recordings; the answer is the same for any number of them."""

    def __post_init__(self) -> None:
        if not isinstance(self.threads, int) or self.threads < 1:
            raise ProblemError(f"threads is {shown(self.threads)}; give a whole number from 1 on")

    def like(self, other: LevenbergMarquardt) -> LevenbergMarquardt:
        """Same method with the settings of another one, except for the threads."""
        settings = {f.name: getattr(other, f.name) for f in fields(other)}
        return type(self)(**settings | {"threads": self.threads})

    def solve(self, transcription: Transcription, start: Point, callback: Callback | None = None) -> Outcome:
        """Minimise the cost from ``start``; ``callback`` receives every accepted iterate."""
        with ThreadPool(min(self.threads, len(transcription.chains))) as pool:
            return _Run(self, transcription, callback or (lambda _: None), pool).run(start)


@dataclass(frozen=True)
class RecursiveLevenbergMarquardt(LevenbergMarquardt):
    """Alias of Levenberg–Marquardt, named after the recursion by Martinez et al., whose steps are the same."""

    name: ClassVar[str] = "riccati"


@dataclass(eq=False)
class _Run:
    settings: LevenbergMarquardt
    problem: Transcription
    callback: Callback
    pool: ThreadPool
    history: list[Iteration] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=lambda: {"evaluate": 0.0, "factorize": 0.0, "bend": 0.0})
    best: Evaluation = field(init=False)
    """The last point that was accepted."""
    ahead: Point | None = None
    """Where the last step led."""
    exact: bool = False
    """True while steps are those of the exact Hessian."""
    gain: float = np.inf
    """Of the last step."""
    failures: int = 0
    """Of plain steps, since the exact Hessian was tried last."""
    patience: int = 0
    """So many lead to the next try."""
    effects: Array = field(default_factory=lambda: np.zeros(0))
    """Squares of the columns of the parameters in the last Jacobian."""
    mended: float = np.inf
    """What the last correction gained over the square of the promise: a gain goes with the fourth power of a step."""

    def run(self, start: Point) -> Outcome:
        began = time.perf_counter()
        self.reduced = ReducedProblem(self.problem, start, self.pool)
        self.problem.kernels.prepare()
        self.active_set = ActiveSet(self.reduced)
        # To derive the exact Hessian takes as long as dozens of plain steps, the more the more columns it has. A SPOOK
        # fit with 61 took 0.8 s and 25 iterations without it, 2.9 s and 24 with it from the first failure on.
        self.patience = max(len(f.variables) * self.reduced.tangent for f in self.problem.factors) // 2
        start = self.active_set.start(start)
        try:
            status, detail = self._awoken(self._iterate(start))
        except KeyboardInterrupt:
            if not self.history:
                raise
            status, detail = Status.INTERRUPTED, f"after {max(len(self.history) - 1, 0)} iterations"
        if status is Status.CONVERGED and (left := self.active_set.unsettled(self.best.point)):
            status, detail = Status.STALLED, f"{left} choices of who touches, or slips, when go to and fro"
        elapsed = time.perf_counter() - began
        timing = Timing(elapsed, **self.spent)
        return Outcome(status, detail, self.best.point, tuple(self.history), timing, self.reduced.redundant)

    def _iterate(self, start: Point, most: float = np.inf) -> End:
        with self._clock("evaluate"):
            start = self.reduced.project(start)
        first = self._try(start)
        self._accept(first, damping=0.0, length=0.0)
        if not np.isfinite(first.cost):
            return Status.DIVERGED, because("the cost at the initial values is not finite", self.problem, first.point)
        if not (self.reduced.tangent or self.problem.names):
            return Status.CONVERGED, "the constraints of each step determine all unknowns"
        damping = self.settings.damping
        while True:
            here = self._linearize()
            if (end := self._stationary(here)) is not None:
                return end
            if len(self.history) > min(self.settings.max_iterations, most):
                return Status.MAX_ITERATIONS, f"max_iterations = {self.settings.max_iterations}"
            damping, end = self._descend(here, damping)
            if end is not None:
                return end
            del here  # its memory is for the next

    def _awoken(self, end: End, most: int = 30) -> End:
        """Go on from other values of parameters without effect, if one lets another parameter leave its bound: where
        Stribeck friction is zero its velocity has none, and the first value that is met may be a wrong one.

        The fit from there counts if it converges to a lower cost in so many iterations: those that did took 12 to 21.
        """
        while end[0] is Status.CONVERGED and (start := self._other_values()) is not None:
            before, self.gain, later = self.best, np.inf, (Status.INTERRUPTED, "")
            try:
                later = self._iterate(start, len(self.history) + most)
            finally:  # an interruption, too, leaves the best iterate
                if later[0] not in (Status.CONVERGED, Status.INTERRUPTED) or not self.best.cost < before.cost:
                    self.best = before
                    parameters = before.point.parameters.copy()
                    self.history.append(Iteration(len(self.history), before.costs, 0.0, 0.0, parameters))
            if self.best is before:
                break
            end = later
        return end

    def _other_values(self, decades: float = 3.0, tried: int = 13) -> Point | None:
        """The point after the step that decreases most, of those from values tried within the bounds or so many decades
        around the magnitude, which must keep a share of their promises; None if none exceeds the tolerance. A step that
        took 1e-5 of the cost led to a fit with 0.78 of it."""
        here, most, found = self.best.point, self.settings.decrease_tolerance * self.best.cost, None
        lower, upper, at = self.problem.lower, self.problem.upper, here.parameters
        if not np.any((lower < upper) & ((at <= lower) | (at >= upper))):
            return None
        sizes = np.maximum(self.problem.magnitudes, np.abs(at))
        bounded = (lower > 0) & (upper < np.inf)
        low = np.where(bounded, lower, sizes * 10.0**-decades)
        high = np.where(bounded, upper, sizes * 10.0**decades)
        for k in np.flatnonzero((lower < upper) & (self.effects <= EPSILON**2 * self.best.cost / sizes**2)):
            for value in np.clip(np.geomspace(low[k], high[k], tried), lower[k], upper[k]):
                moved = at.copy()
                moved[k] = value
                other = self._try(self.reduced.project(replace(here, parameters=moved)))
                model = MeritModel(self.reduced, other)
                with suppress(NotPositiveDefiniteError):
                    step, promised = DampedStep(model, self.settings.damping).first()
                    if promised > most:
                        trial = self._move(model, step)
                        decrease = self.reduced.merit(other.residuals) - trial.merit
                        if decrease > max(most, _POOR * promised):
                            most, found = decrease, trial.point
        return found

    def _stationary(self, here: MeritModel) -> End | None:
        """The gradient test."""
        if self.best.cost <= max(self._nothing, self.settings.negligible_cost) and self._feasible(here):
            return Status.CONVERGED, "the residuals are at round-off"
        if here.optimality() <= self.settings.gradient_tolerance and self._feasible(here):
            return Status.CONVERGED, f"the scaled projected gradient is below {self.settings.gradient_tolerance:g}"
        return None

    @cached_property
    def _nothing(self) -> float:
        """A cost that is round-off."""
        return EPSILON**2 * max(self.history[0].total, self.problem.rows)

    def _feasible(self, here: MeritModel) -> bool:
        """True if satisfying the coupled constraints exactly would change the cost by less than the tolerance."""
        allowed = 1000 * self.settings.decrease_tolerance * self.best.cost + self._nothing + 10 * here.rounding
        return self.reduced.infeasibility(self.best.residuals) <= allowed

    def _descend(self, here: MeritModel, damping: float) -> tuple[float, End | None]:
        """Raise the damping until a step lowers the merit; the damping for the next one, and the end if it has come."""
        scale = here.cost
        # Rounding of the residuals: of the cost itself, and of terms as large as they were at the start that cancel.
        failed = ""
        noise = rounding = _ROUND_OFF * scale + EPSILON * np.sqrt(scale * self.history[0].total)
        while damping <= self.settings.largest_damping:
            try:
                with self._clock("bend"):
                    _ = self.exact and here.curvature
                with self._clock("factorize"):
                    solve = DampedStep(here, damping, self.exact)
                    step, promised = solve.first()
                if self.reduced.coupled:  # their multipliers have changed
                    self.best = replace(self.best, merit=self.reduced.merit(self.best.residuals))
                merit = self.best.merit
            except NotPositiveDefiniteError as error:
                failed = f": {error}"
                damping *= 4
                self.exact = self.exact and self._paid(False)
                continue
            if not np.isfinite(promised):
                del solve
                damping *= 4
                continue
            if promised <= _LATE * scale:
                noise = rounding + here.rounding
            if promised <= noise and damping <= self.settings.newton_damping and self._feasible(here):
                return damping, (Status.CONVERGED, "the promised decrease is at round-off")
            trial = self._corrected(here, solve, step, promised)
            length = solve.length
            del solve  # another factor may take its place
            decrease = merit - trial.merit
            if np.isfinite(trial.merit) and decrease > _ACCEPT * promised - noise:
                self._accept(trial, damping, length)
                self.exact = self._may_bend(promised, scale) and self._bends(here, step, promised, decrease)
                end = self._short(here, promised, decrease, length, damping)
                return self._next(damping, decrease / promised), end
            if self.exact or not (self._may_bend(promised, scale) and self._impatient()):
                damping *= 4
            else:
                self.exact = True
        said = f"no step decreases the cost, even with damping {damping:.0e}"
        return damping, (Status.STALLED, because(said, self.problem, self.best.point, self.ahead) + failed)

    def _may_bend(self, promised: float, scale: float) -> bool:
        """True if the exact Hessian is worth its price: JᵀJ promises no large share of the merit any more."""
        return self.settings.newton and promised <= _SETTLED * scale

    def _bends(self, here: MeritModel, step: Tangent, promised: float, decrease: float) -> bool:
        """True if the exact Hessian foretold the decrease better, or the linear model failed."""
        if not self.exact:
            return decrease < _POOR * promised and self._impatient()
        plain = promised + step.dot(here.curvature_times(step))
        return self._paid(abs(promised - decrease) < abs(plain - decrease))

    def _paid(self, better: bool) -> bool:
        """Whether the exact Hessian was better, which is remembered."""
        self.patience = 1 if better else min(2 * self.patience, _PATIENCE)
        return better

    def _impatient(self) -> bool:
        """True if enough plain steps have failed: twice as many after each try of the exact Hessian that was in vain,
        for it costs as much as dozens of them."""
        self.failures += 1
        if self.failures < self.patience:
            return False
        self.failures = 0
        return True

    def _next(self, damping: float, ratio: float) -> float:
        """Damping of the next step, from the share of its promise that this one kept."""
        if ratio < _POOR:
            return min(damping * 4, self.settings.largest_damping)
        return max(damping / 10, _SMALLEST_DAMPING)

    def _corrected(self, here: MeritModel, solve: DampedStep, step: Tangent, promised: float) -> Evaluation:
        """The best of a step and its corrections."""
        wanted = self.best.merit - _PROMISE_KEPT * promised
        first = best = trial = self._move(here, step)
        if self.best.merit - trial.merit > _POOR * promised and self.mended * promised < _VAIN:
            return trial
        for _ in range(self.settings.corrections):
            if trial.merit <= wanted or not np.isfinite(trial.merit):
                break
            with self._clock("factorize"):
                step = solve.again(step, trial.residuals)
            trial = self._move(here, step)
            if not trial.merit < best.merit:
                break
            enough = trial.merit > _PROMISE_KEPT * best.merit
            best, self.mended = trial, (first.merit - trial.merit) / promised / promised
            if enough:
                break
        return best

    def _short(self, here: MeritModel, promised: float, decrease: float, length: float, damping: float) -> End | None:
        """The step and decrease tests."""
        settings, scale, said = self.settings, here.cost, ""
        left, nothing = self._foreseen(promised, decrease), _FORESEEN * settings.decrease_tolerance
        if max(promised, decrease) <= settings.decrease_tolerance * scale:
            said = f"the relative decrease of the cost is below {settings.decrease_tolerance:g}"
        elif length <= settings.step_tolerance * np.sqrt(scale):
            said = f"the scaled step is below {settings.step_tolerance:g}"
        elif left <= nothing * scale:
            said = f"all further steps together would decrease the cost by less than {nothing:g} of its value"
        if not said or damping > settings.newton_damping or not self._feasible(here):
            return None
        return Status.CONVERGED, said

    def _foreseen(self, promised: float, decrease: float) -> float:
        """What is left to gain if the gains of steps go on to fall at their present rate; infinite if nothing tells."""
        before, self.gain = self.gain, decrease
        kept = abs(decrease - promised) <= (1 - _PROMISE_KEPT) * promised
        if self.reduced.coupled or not (kept and 0 < decrease < before < np.inf):
            return np.inf
        return decrease * decrease / (before - decrease)

    def _linearize(self) -> MeritModel:
        """At the best point."""
        with self._clock("evaluate"):
            here = MeritModel(self.reduced, self.best)
        with self._clock("factorize"):
            _ = here.gradient
        self.effects = here.corner.diagonal()[:-1].copy()
        return here

    def _move(self, here: MeritModel, step: Tangent) -> Evaluation:
        with self._clock("evaluate"):
            point = here.moved(step)
        return self._try(point)

    def _try(self, point: Point) -> Evaluation:
        with self._clock("evaluate"):
            self.ahead = point
            return self.reduced.evaluate(point)

    def _accept(self, trial: Evaluation, damping: float, length: float) -> None:
        settled = bool(self.history) and trial.merit > (1 - _STILL) * self.best.merit
        point = self.active_set.update(trial, settled)  # the rows of box laws that hold from here on
        self.best = trial if point is trial.point else self._try(point)
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
