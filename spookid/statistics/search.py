"""Maximum likelihood: parameters and noise standard deviations together, states integrated out.

Each iteration takes a damped quasi-Newton step in the parameters θ and the log-sigmas η of the noise,

    min gᵀδ + ½ δᵀ(B + C) δ    within the bounds of the parameters,

with the score g of ``likelihood``. B consists of the Schur complement of the states and the expected information of the
noise. C is a symmetric rank-one correction that is updated near the maximum. If no equation is a density of the states
(``marginal``), the score is not the gradient of a function, and the merit function is −log L without the change of the
log-determinants along θ. Far from the maximum, ``far_step`` recomputes the gradients of the log-determinants only after
large parameter changes. States follow by linear steps, or by Levenberg–Marquardt if these do not suffice or the active
set changes. Steps are damped until the likelihood increases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.resuming import Place, facts_of, history_arrays, history_of, next_place
from spookid.solvers.status import Callback, End, Iteration, Outcome, Status, Timing
from spookid.solvers.structured import NotPositiveDefiniteError
from spookid.statistics.linear_steps import Bend
from spookid.statistics.marginal import NoiseSize, floors, sharp, spread, told_apart
from spookid.statistics.trial import (
    ACCEPT,
    INDEPENDENT,
    ROUNDING,
    SearchEndedError,
    Trial,
    Trials,
    clearly_apart,
    definite,
    fall,
    far_step,
    learnt,
)
from spookid.transcription.factor import Group
from spookid.transcription.faults import because, fault
from spookid.transcription.transcription import Point

SETTLED = 1e-4
"""Converged if a linear step changes −log L by less: what is left to go is below √(2 · 1e-4) standard errors."""
_CLOSE, _THERE = 30.0, 1.0
"""Promise of a step below which the whole score is worth its price; and above which it is, at the best states."""
_NEAR = 200.0
"""Promise from which curvature is learnt: before, steps are so long that it is not that of the end."""
_FAR = 0.5
"""Change of a parameter, as a share of its magnitude, from which slopes of the logarithms are found out again."""
_ROUNDED = 0.05
"""What logarithms of sizes may be below where enough digits are left, which is known no better."""
_LONGEST = 3.0
"""Change of the logarithm of a size in one step."""
_LITTLE = 10.0
"""Factor of what converged is, of the promise of a step that led to where something is not finite."""
_GAP_SHARE = 0.02
"""What a linear step of the states may take from |r|² at a trial, as a share of what the step there promises."""
_KEPT = 0.25
"""Share of its promise from which a step may be followed by one with less damping."""
_FIRST = 0.1
"""Damping after a step without any that leads nowhere."""


@dataclass(eq=False)
class Search(Trials):
    """A maximum of the likelihood.

    Args:
        max_iterations: accepted steps at the most.
        callback: given every accepted iterate.
        splits: True to estimate a common noise standard deviation separately if the likelihood clearly prefers that.
        spared: by which factor digits fall short that a search with another step has at the same noise.
    """

    max_iterations: int
    callback: Callback
    splits: bool = False
    spared: float = 1.0
    history: list[Iteration] = field(kw_only=True, default_factory=list)
    damping: float = field(init=False, default=0.0)  # of the next step
    undamped: float = field(init=False, default=np.inf)
    """What the first step from where it is has promised, before its damping was raised."""
    off: float = field(init=False, default=1.0)
    """Share of its promise by which the last step was off."""
    beyond: tuple[Array, float] = field(init=False, default=(np.zeros(0), 0.0))
    """The last step in θ and η, which nothing has been linearized after, and what it promises of −log L."""
    ahead: Point | None = None  # where the last step led, if it was not taken
    floors: Array = field(init=False)
    """Logarithms that sizes do not fall below, (n_s,)."""
    _first: Array = field(init=False)  # η of the start, (n_s,)
    _parted: Array = field(init=False, default_factory=lambda: np.zeros(0))
    """True for noise standard deviations that the search has separated."""
    _far: float | None = field(init=False, default=None)
    """What the last step from far away has promised; None where the maximum is near."""
    _volume: tuple[Array, Array] = field(init=False, default=(np.zeros(0), np.zeros(0)))
    """Half the gradient of the logarithms in θ where it was found out last, and θ there, (n_p,) each."""
    _place: Place = field(init=False, default_factory=Place)

    def run(self, start: Point, logs: Array, settled: float = SETTLED) -> Outcome:
        """Search from a point until a step would lower −log L by less than ``settled``; the result is in ``best``."""
        began, self.origin, self._first, self._place = time.perf_counter(), start, logs, self.next_place(start, logs)
        if (kept := self._place.read()) is not None:
            return self._gone_on(kept, settled, began)
        switches = any(factor.box is not None for factor in self.problem.factors if factor.hard)
        self._far = np.inf if self.sizes and self.max_iterations and not switches else None
        try:
            self.best = self.trial(start, logs, gap=self.gap if self._far is None else np.inf)
            self._ground()
            if not np.isfinite(self.best.value):
                return self._failed(start, logs, "the likelihood at the initial values is not finite", began)
            return self._to_its_end(settled, began)
        except (NotPositiveDefiniteError, SearchEndedError, np.linalg.LinAlgError) as error:
            return self._failed(start, logs, f"the states are not determined: {error}", began)

    def carried_on(self, settled: float = SETTLED, ground: bool = False) -> Outcome:
        """Continue the search from its present point; ``ground``: True to compute the lower limits of log-sigmas
        anew."""
        began = time.perf_counter()
        self.beyond, self._place = (np.zeros(0), 0.0), self.next_place(self.best.point, self.best.logs)
        if (kept := self._place.read()) is not None:
            return self._gone_on(kept, settled, began)
        if ground:
            self._ground()
        return self._to_its_end(settled, began)

    def apart(self, sizes: tuple[NoiseSize, ...]) -> Search:
        """Continue the search from its present point, with common noise standard deviations separated."""
        other, best = replace(self, sizes=sizes), self.best
        other.damping = self.damping
        logs, known = spread(best.logs, self.sizes, sizes), best.known if sizes == self.sizes else None
        other.best = Trial(sizes, logs, best.states, best.marginal, known)
        return other

    def _split(self, which: Sequence[bool]) -> None:
        """Take some sizes apart."""
        before, best = self.sizes, self.best
        self.sizes, self._parted = told_apart(before, which), np.array(which)
        self._first = spread(self._first, before, self.sizes)
        self.best = Trial(self.sizes, spread(best.logs, before, self.sizes), best.states, best.marginal)
        self.floors = floors(self.sizes, self.best.logs, best.marginal, self.spared)

    @property
    def logs(self) -> Array:
        """Present log-sigmas of the search."""
        return self.best.logs + more if len(more := self.beyond[0][len(self.problem.names) :]) else self.best.logs

    @property
    def value(self) -> float:
        """Present value of −log L."""
        return self.best.value - self.beyond[1]

    def given_up(self) -> Callable[[], None]:
        """Release the best trial, whose factorization is large, until the result needs it."""
        remake = partial(self._remake, {**self.states_arrays(), "logs": self.best.logs}, self.best.known)
        del self.best
        return remake

    def _remake(self, kept: Mapping[str, Array], informed: tuple[Array, Array] | None) -> None:
        self.best = Trial(self.sizes, kept["logs"], *self.states_of(kept), informed)

    def _ground(self) -> None:
        """Find out below which sizes there is no use in a search: those that are given as zero go there, which is as
        good as zero, and process noise that are not given to where enough digits are left."""
        best, given, gap = self.best, [size.given for size in self.sizes], self.gap if self._far is None else np.inf
        self.floors = floors(self.sizes, best.logs, best.marginal, self.spared)
        if 0 in given:
            logs = np.where([one == 0 for one in given], self.floors, best.logs)
            moves = zip(self.sizes, (logs - best.logs).tolist(), strict=True)
            moved = best.states.stepped(logs={name: d for size, d in moves for name in size.keys})
            self.best = best = self.trial(moved, logs, gap=gap)
        logs = np.where([bool(one) for one in given], best.logs, np.maximum(best.logs, self.sharp(best)))
        if np.any(logs > best.logs + _ROUNDED):
            self.best = self.trial(best.point, logs, gap=gap)

    def _to_its_end(self, settled: float, began: float, correction: Array | None = None) -> Outcome:
        try:
            if not self.history:
                self._accept(self.best, 0.0, 0.0)
            status, detail = self._iterate(settled, correction)
        except SearchEndedError as error:
            status, detail = Status.STALLED, str(error)
        except KeyboardInterrupt:
            status, detail = Status.INTERRUPTED, f"after {len(self.history) - 1} iterations"
        return self._outcome(status, detail, began)

    def next_place(self, start: Point, logs: Array) -> Place:
        """Checkpoint for a search from this point."""
        return next_place("likelihood", *facts_of(self.problem, start), logs.tobytes())

    def _keep(self, *facts: object) -> None:
        """All that follows from here on: the correction, or how it has ended."""
        best, arrays = self.best, {**self.states_arrays(), **history_arrays(self.history)}
        steps = [self._bend.gap, self._bend.off, self.beyond[1], self.damping, self.off]
        arrays |= {"logs": best.logs, "floors": self.floors, "beyond": self.beyond[0], "steps": np.array(steps)}
        arrays["parted"] = self._parted
        if self._far is not None:
            arrays |= {"far": np.array(self._far), "volume": self._volume[0], "volume at": self._volume[1]}
        if (informed := best.known) is not None:
            arrays |= {"informed logs": informed[0], "informed": informed[1]}
        arrays |= {n: np.array(fact) for n, fact in zip(("correction", "status", "detail"), facts, strict=False)}
        self._place.keep(arrays)

    def _gone_on(self, kept: Mapping[str, Array], settled: float, began: float) -> Outcome:
        """From what was kept."""
        self.floors, self.history, self._parted = kept["floors"], history_of(kept), kept["parted"]
        if len(self._parted):
            before, self.sizes = self.sizes, told_apart(self.sizes, self._parted.tolist())
            self._first = spread(self._first, before, self.sizes)
        *bend, promised, self.damping, self.off = kept["steps"].tolist()
        self._bend, self.beyond = Bend(*bend), (kept["beyond"], promised)
        if "far" in kept:
            self._far, self._volume = float(kept["far"]), (kept["volume"], kept["volume at"])
        informed = (kept["informed logs"], kept["informed"]) if "informed" in kept else None
        self._remake(kept, informed)
        if "status" in kept:
            return self._outcome(Status(str(kept["status"])), str(kept["detail"]), began)
        correction = kept["correction"] if kept["correction"].size else None
        return self._to_its_end(settled, began, correction)

    def sharp(self, trial: Trial) -> Array:
        """Smallest log-sigmas of process noise with acceptable rounding errors, from a trial, (n_s,)."""
        return sharp(self.sizes, trial.logs, trial.marginal)

    def _iterate(self, settled: float, correction: Array | None) -> End:
        while len(self.history) <= self.max_iterations:
            if self._place.due:
                self._keep(np.zeros(0) if correction is None else correction)
            if self._far is not None:
                self._come_near(self._far)
                continue
            here = self.best
            if correction is None or not definite(here.matrix + correction):
                correction = np.zeros_like(here.matrix)
            step, promised = self._step(here.matrix + correction, settled)
            if step is None:
                return self._end(promised, settled)
            correction = learnt(correction, step, here, self.best) if promised < _NEAR else np.zeros_like(correction)
        if self._far is not None:
            self._end_far()
        return Status.MAX_ITERATIONS, f"max_iterations = {self.max_iterations}"

    def _come_near(self, before: float) -> None:
        """One step from far away, unless the one before promised little, and this one no more; or the end of such."""
        here, room, density = self.best, self._room(), self.best.marginal.density
        now, linear = here.point.parameters, self.problem.linear_constraints(here.point.parameters)
        if before >= _CLOSE:
            slopes, at = self._volume
            if density and (not len(at) or np.any(np.abs(now - at) > _FAR * self._magnitudes)):
                slopes, at = self._volume = here.marginal.volume, now
            try:
                found = far_step(here, slopes if density else np.zeros(len(now)), self._magnitudes, *room, linear)
            except NotPositiveDefiniteError:
                return self._end_far()
            there = found.promised <= _THERE and abs(here.states.cost - here.states.least) <= self.gap
            if not (there or found.promised < before):  # such steps lead round in circles
                return self._end_far()
            self._far = before = found.promised
            if not there and (trial := self._moved(found.change)) is not None and trial.states.least <= found.most:
                return self._accept(trial, 0.0, found.length)
        if before < _CLOSE and self.splits and any(which := clearly_apart(here)):
            self._split(which)
            self._far = np.inf
            return None
        return self._end_far()

    def _end_far(self) -> None:
        """To the best states; to those of the start if there are none where it has come to."""
        here, self._far, self.ahead = self.best, None, None
        if abs(here.states.cost - here.states.least) <= self.gap:
            return
        try:
            self.best = self.trial(here.point, here.logs)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError):
            self.best = self.trial(self.origin or here.point, self._first)
        if not np.isfinite(self.best.value):
            raise NotPositiveDefiniteError("the likelihood is not finite")

    def _end(self, promised: float, settled: float) -> End:
        """Why there is no further step: none promises anything, or keeps what it promises."""
        numbered = self.problem.with_numbers(self.numbers(self.best.logs))
        little = self.undamped <= max(_LITTLE * settled, ROUNDING)
        if self.ahead is None or little or not fault(numbered, self.ahead, derivatives=False):
            if promised <= settled:
                return Status.CONVERGED, f"a step would increase the log-likelihood by less than {settled:g}"
            if promised <= ROUNDING:
                return Status.CONVERGED, f"the predicted log-likelihood gain ({promised:.1g}) is rounding error"
        return Status.STALLED, because("no step raises the likelihood", numbered, self.best.point, self.ahead)

    def _step(self, matrix: Array, settled: float, exact: bool = False) -> tuple[Array | None, float]:
        """Raise the damping until a step raises the likelihood; the step, and what it promised. The best states are
        found anew, once, unless they are ``exact``."""
        here, promised, first = self.best, np.inf, self.damping
        metric = np.maximum(np.diag(matrix), np.append(1 / self._magnitudes**2, np.ones(len(self.sizes))))
        lower, upper = self._room()
        n, linear = len(self.problem.names), self.problem.linear_constraints(here.point.parameters)
        fading = here.fading & (lower[n:] < 0)
        while self.damping <= self.inner.largest_damping:
            whole = matrix + np.diag((self.damping + INDEPENDENT) * metric)
            try:
                alone = bounded_step(whole[:n, :n], here.marginal.score, lower[:n], upper[:n], linear)
                gradient = np.concatenate([here.marginal.score, here.eased(alone)])
                gradient[n:][fading] = 0.0
                step = bounded_step(whole, gradient, lower, upper, linear and linear.among(len(gradient) - n))
            except NotPositiveDefiniteError:
                matrix, self.damping = here.matrix, max(4 * self.damping, _FIRST)
                continue
            fall_of = np.maximum(lower[n:], -_LONGEST / (1 + self.damping))[fading]
            # What is left of a size that fades falls with its square.
            promised = -float(gradient @ step + step @ matrix @ step / 2)
            promised += float(here.slopes[fading] @ (1 - np.exp(2 * fall_of))) / 2
            self.undamped = promised if self.damping == first else self.undamped
            left = promised * min(self.off, 1.0) ** 2 if promised <= ROUNDING else promised
            if not self.damping and left <= settled:  # as the last step was, this one need not be looked at
                self.end_beyond(step, promised)
                return None, left
            if promised <= settled:
                return None, promised
            step[n:][fading] = fall_of
            trial = self._moved(step, max(self.gap, _GAP_SHARE * promised))
            if trial is not None and (gain := fall(here, trial)) > ACCEPT * promised:
                length = float(np.sqrt(step @ (metric * step)))
                self._accept(trial, self.damping, length)
                kept = gain / promised
                following = self.damping / 10 if kept > _KEPT else max(4 * self.damping, 1e-3)
                self.damping, self.off = following if following > 1e-6 else 0.0, abs(1 - kept)
                return trial.unknowns - here.unknowns, promised
            trial = None  # its factors take as much memory as those of the next one
            if not exact and abs(here.states.cost - here.states.least) > _GAP_SHARE * promised:
                self._bend = Bend()  # so that its value is as good as theirs
                self.best = self.trial(here.states.stepped(), here.logs, gap=_GAP_SHARE * promised)
                return self._step(matrix, settled, exact=True)
            self.damping = max(4 * self.damping, _FIRST)
        return None, promised

    def end_beyond(self, step: Array, promised: float) -> None:
        """Take a last step of such a small predicted gain that nothing is linearized after it, unless squares rise."""
        problem, there = self.problem.with_numbers(self.numbers(self.best.logs)), self._ahead(step)[0]
        with np.errstate(over="ignore", invalid="ignore"):  # along what is almost flat here it may lead anywhere
            if sum(problem.costs(problem.residuals(there)).values()) < self._most(step, 0.0) + 1:
                self.beyond = step, promised

    @property
    def _magnitudes(self) -> Array:
        return np.maximum(self.problem.magnitudes, np.abs(self.best.point.parameters))

    def _room(self) -> tuple[Array, Array]:
        """Of a step below and above."""
        theta, logs = self.best.point.parameters, self.best.logs
        fixed = np.array([size.given is not None for size in self.sizes], dtype=bool) | self.best.idle
        least = np.clip(np.maximum(self.floors, self.sharp(self.best)) - logs, -_LONGEST, 0.0)
        down, up = np.where(fixed, 0.0, least), np.where(fixed, 0.0, _LONGEST)
        return np.append(self.problem.lower - theta, down), np.append(self.problem.upper - theta, up)

    def _most(self, step: Array, beside: float) -> float:
        """Squares after a step that the other terms of −2 log L, logarithms of standard deviations, may make up for."""
        changes = np.abs(step[len(self.problem.names) :])
        return self.best.states.cost + 2 * self.problem.rows * (beside + float(np.max(changes, initial=0.0)))

    def _moved(self, step: Array, gap: float = np.inf) -> Trial | None:
        """The trial a step leads to; None if its states are not found."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step may lead anywhere
            self.ahead, logs = self._ahead(step)
            try:
                trial = self.trial(self.ahead, logs, self._most(step, 1.0), gap)
            except (NotPositiveDefiniteError, np.linalg.LinAlgError):
                return None
        return trial if np.isfinite(trial.value) else None

    def _ahead(self, step: Array) -> tuple[Point, Array]:
        """Where a step leads, states by their linearization, and the logarithms there."""
        here, n = self.best, len(self.problem.names)
        logs = {name: float(d) for size, d in zip(self.sizes, step[n:], strict=True) for name in size.keys}
        now, problem = here.point.parameters, self.problem
        point = here.states.stepped(np.clip(now + step[:n], problem.lower, problem.upper) - now, logs)
        return replace(point, parameters=problem.stepped(now, step[:n])), here.logs + step[n:]

    def _accept(self, trial: Trial, damping: float, length: float) -> None:
        self.best, self.ahead = trial, None
        parameters = trial.point.parameters.copy()
        self.history.append(Iteration(len(self.history), trial.states.costs, damping, length, parameters))
        self.callback(self.history[-1])

    def _outcome(self, status: Status, detail: str, began: float) -> Outcome:
        if status is not Status.INTERRUPTED and self._place.due:
            self._keep(0.0, status.value, detail)
        timing = Timing(time.perf_counter() - began, **self.spent)
        step, states = self.beyond[0], self.best.states
        point = states.projected_point(self._ahead(step)[0] if len(step) else states.stepped())
        return Outcome(status, detail, point, tuple(self.history), timing, states.redundant)

    def _failed(self, start: Point, logs: Array, detail: str, began: float) -> Outcome:
        detail = because(detail, self.problem.with_numbers(self.numbers(logs)), start)
        first = Iteration(0, dict.fromkeys(Group, float("nan")), 0.0, 0.0, start.parameters.copy())
        return Outcome(Status.DIVERGED, detail, start, (first,), Timing(time.perf_counter() - began, **self.spent))
