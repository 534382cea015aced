"""Evaluation of the likelihood at a trial of the search: parameters, log-sigmas, and the best states for them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spookid.kernels.arrays import Array
from spookid.records import dataclass
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.null_space import NullSpace
from spookid.solvers.quadratic_program import bounded_step
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import point_arrays, point_of
from spookid.solvers.status import Status
from spookid.statistics.likelihood import States, marginal
from spookid.statistics.linear_steps import Bend, by_linear_steps
from spookid.statistics.marginal import Marginal, NoiseSize
from spookid.transcription.factor import Group
from spookid.transcription.parameter_constraints import LinearConstraints
from spookid.transcription.transcription import Point, Transcription

_ALIKE = 0.3
"""Change of the logarithms of sizes within which their information counts as the same."""
_SEEN = 1.0
"""Information in the logarithm of a size below which it is on its way to zero, if its slope is positive."""
_FADES = 0.6
"""Slope of a process-noise log-sigma over its degrees of freedom from which it also counts as tending to zero."""
INDEPENDENT = 1e-8
"""Eigenvalue of the scaled matrix of a step at least."""
ACCEPT, ROUNDING = 1e-3, 1e-2
"""Share of its promise that a step must keep; and what of −log L is rounding."""
_IDLE = 1e-6
"""Squares to expect of a size, and slope of −log L in its logarithm, that are of no account."""
_CLEARLY = 10.0
"""What the likelihood gains by a size of its own, of −log L, that makes Akaike's one of no account."""


class FittedStates(Protocol):
    """Best states of a trial, to the extent that a search needs them; see ``States``."""

    @property
    def point(self) -> Point: ...

    @property
    def cost(self) -> float: ...

    @property
    def least(self) -> float: ...

    @property
    def costs(self) -> dict[Group, float]: ...

    @property
    def redundant(self) -> int: ...

    @property
    def excess(self) -> int: ...

    def stepped(self, parameters: Array | None = None, logs: Mapping[str, float] | None = None) -> Point: ...

    def projected_point(self, point: Point) -> Point: ...


@dataclass(frozen=True, eq=False)
class Trial:
    """Parameters and noise of a search with their best states."""

    sizes: tuple[NoiseSize, ...]
    logs: Array
    """η, (n_s,)."""
    states: FittedStates
    marginal: Marginal
    earlier: tuple[Array, Array] | None = None
    """Logarithms and information of a trial before, if there was one."""

    @cached_property
    def slopes(self) -> Array:
        """d(−log L)/dη, (n_s,)."""
        return self._by_size(self.marginal.slopes)

    @cached_property
    def freedom(self) -> Array:
        """Expected sum of squares of each noise: number of equations minus leverage for white noise, (n_s,)."""
        return self._by_size(self.marginal.expected)

    @cached_property
    def squares(self) -> Array:
        """Sum of squared residuals of each noise after a linear step of the states, (n_s,)."""
        return self.squares_after(np.zeros(len(self.marginal.gradient)))

    @property
    def idle(self) -> NDArray[np.bool_]:
        """True for sizes on which nothing depends, as of what constraints bear: they would fall without an end."""
        few = self.freedom < _IDLE
        return few & (self.freedom + np.abs(self.slopes) < _IDLE) if np.any(few) else few

    @property
    def fading(self) -> NDArray[np.bool_]:
        """True for noise whose estimate converges to zero, (n_s,)."""
        moving = np.array([size.kind == "disturbance" for size in self.sizes], dtype=bool)
        fades = (np.diag(self.fisher) < _SEEN) | (moving & (self.slopes > _FADES * self.freedom))
        return np.asarray(fades & (self.slopes > 0))

    def squares_after(self, step: Array) -> Array:
        """Sum of squared residuals of each noise after a step of the parameters (n_p,), to first order, (n_s,)."""
        ahead = self.marginal.ahead(np.append(step, 1.0)[:, None])
        return self._by_size({name: float(squares.item()) for name, squares in ahead.items()})

    def eased(self, step: Array) -> Array:
        """Slopes of the sizes as a Newton step in logarithms should see them, once the parameters have made a step.

        Squares that the step does away with are no noise; and where squares alone depend on a size, half the logarithm
        of squares over freedom is all the way.
        """
        squares, now = self.squares_after(step), self._by_size(self.marginal.sweep().residual)
        slopes, freedom = self.slopes + now - squares, np.maximum(self.freedom, 1e-9)
        ratio = np.maximum(1 - slopes / freedom, 1e-3)
        near = np.abs(ratio - 1) < 1e-6
        return np.asarray(np.where(near, slopes, slopes * np.log(ratio) / np.where(near, 1.0, ratio - 1)))

    def _by_size(self, values: Mapping[str, float]) -> Array:
        return np.array([sum(values.get(name, 0.0) for name in size.keys) for size in self.sizes])

    @property
    def known(self) -> tuple[Array, Array] | None:
        """``informed``, or the information of an earlier trial, if known."""
        return self.__dict__.get("informed", self.earlier)

    @property
    def fisher(self) -> Array:
        """Fisher information in η, (n_s, n_s)."""
        return self.informed[1]

    @cached_property
    def informed(self) -> tuple[Array, Array]:
        """Fisher information and the log-sigmas for which it was computed: it is expensive, and barely changes."""
        if self.earlier is not None:
            logs, known = self.earlier
            moved = np.where(np.diag(known) < _SEEN, self.logs - logs, np.abs(self.logs - logs))
            if np.max(moved, initial=0.0) <= _ALIKE:
                return self.earlier
        return self.logs, self._information()

    def _information(self) -> Array:
        if all(size.given is not None for size in self.sizes):
            return np.eye(len(self.sizes))  # no step is taken in them
        of_names = self.marginal.fisher()
        fisher = np.array(
            [[sum(of_names.get((a, b), 0.0) for a in s.keys for b in o.keys) for o in self.sizes] for s in self.sizes]
        )
        return np.asarray((fisher + fisher.T) / 2)

    @property
    def point(self) -> Point:
        """Parameters, and states that are best except for a linear step."""
        return self.states.point

    @property
    def value(self) -> float:
        """−log L."""
        return self.marginal.value / 2

    @property
    def unknowns(self) -> Array:
        """θ and η."""
        return np.concatenate([self.point.parameters, self.logs])

    @property
    def score(self) -> Array:
        """Gradient of −log L in θ and η."""
        return np.concatenate([self.marginal.score, self.slopes])

    @property
    def beside(self) -> Array:
        """Score minus the gradient of −log L, in θ and η."""
        return np.append(self.marginal.beside, self._by_size(self.marginal.coloured()))

    @property
    def matrix(self) -> Array:
        """B."""
        n, m = len(self.marginal.score), len(self.logs)
        whole = np.zeros((n + m, n + m))
        whole[:n, :n], whole[n:, n:] = self.marginal.information, self.fisher
        return whole


@dataclass(frozen=True, eq=False)
class FarStep:
    """A step from far away."""

    change: Array  # in θ and η, (n_p + n_s,)
    promised: float  # of −log L
    most: float
    """What |r|² over the noise before must not come to, if the step is to keep its promise."""
    length: float


def far_step(
    here: Trial, volume: Array, magnitudes: Array, lower: Array, upper: Array, linear: LinearConstraints | None
) -> FarStep:
    """States, parameters and noise at once, by one linearization: far from the maximum neither the best states of each
    trial nor the whole score are worth their price. It is

        min gᵀδ + ½ δᵀBδ in θ,    η = ½ log(squares after δ / freedom),

    with B of the Schur complement of the states, the slope g of the squares and of the logarithms, and noise by the
    rule of MacKay (Neural Computation 4, 1992): its squares over its rows less their leverage. What has to fall are
    squares over the new sizes, and these logarithms.

    Args:
        volume: half the gradient of the logarithms in θ, (n_p,).
        lower, upper: room of the step, (n_p + n_s,); parameters take no more than nine tenths of it: one on its bound
            may take from others all that shows them, as friction of none does from the rate at which it fades.

    Raises:
        NotPositiveDefiniteError: if there is none.
    """
    n, score = len(magnitudes), here.marginal.gradient + volume
    information, freedom = here.marginal.information, np.maximum(here.freedom, 1e-9)
    still, others = here.squares, here.states.least - float(here.squares.sum())  # those over what is given
    metric = np.maximum(np.diag(information), 1 / magnitudes**2)
    step = bounded_step(information + np.diag(INDEPENDENT * metric), score, 0.9 * lower[:n], 0.9 * upper[:n], linear)
    ahead = np.maximum(here.squares_after(step), np.finfo(float).tiny)
    noise = np.clip(np.log(ahead / freedom) / 2, lower[n:], upper[n:])
    change = 2 * float(here.marginal.gradient @ step) + float(step @ information @ step)
    scale, along = np.exp(-2 * noise), float(volume @ step)
    before = float(scale @ still) + others
    promised = (before - float(scale @ ahead) - others - change - float(still.sum() - ahead.sum())) / 2 - along
    most = before - 2 * (along + ACCEPT * promised - ROUNDING)
    whole = promised + float((1 - scale) @ still) / 2 - float(freedom @ noise)
    return FarStep(np.concatenate([step, noise]), whole, most, float(np.sqrt(step @ (metric * step))))


def clearly_apart(here: Trial) -> list[bool]:
    """Common noise standard deviations for which the likelihood clearly prefers one per name.

    By sizes of their own it gains at least what its expectation over these states does (EM).
    """
    squares = here.marginal.ahead(np.append(np.zeros(len(here.marginal.gradient)), 1.0)[:, None])
    found = []
    for size in here.sizes:
        gain = 0.0
        if size.kind == "disturbance" and size.given is None and len(size.names) > 1:
            expected = here.marginal.expected
            r = np.array([float(squares[name].item()) for name in size.keys if name in squares])
            f = np.array([expected[name] for name in size.keys if name in squares])
            if np.all(r > 0) and np.all(f > 0):
                gain = float(f @ (np.log(r.sum() / f.sum()) - np.log(r / f))) / 2
        found.append(gain > _CLEARLY * (len(size.names) - 1))
    return found


def fall(here: Trial, there: Trial) -> float:
    """Decrease of −log L between two points, apart from terms that scores omit, by the trapezoidal rule."""
    beside = (here.beside + there.beside) / 2
    return here.value - there.value - float(beside @ (there.unknowns - here.unknowns))


def learnt(correction: Array, step: Array, before: Trial, after: Trial) -> Array:
    """Correction C of the matrix so that it explains the observed change of the score along a step."""
    missing = after.score - before.score - (after.matrix + correction) @ step
    diagonal = np.diag(after.matrix)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    along = float(missing @ step)
    if abs(along) <= 1e-3 * np.linalg.norm(missing / scale) * np.linalg.norm(step * scale):
        return correction
    return correction + np.outer(missing, missing) / along


def definite(matrix: Array) -> bool:
    """True if a matrix has no negative eigenvalue, with each unknown in its own unit."""
    diagonal = np.diag(matrix)
    if np.any(diagonal < 0) or not np.any(seen := diagonal > 0):
        return not np.any(diagonal < 0)
    scale = np.sqrt(diagonal[seen])
    return bool(np.linalg.eigvalsh(matrix[np.ix_(seen, seen)] / np.outer(scale, scale))[0] > -INDEPENDENT)


GAP = 1e-2
"""What a linear step of the states may take from |r|² where they are good enough: the likelihood allows for it."""


_LATE = 10
"""Last iterations of a search for the best states. If it has not converged, and they take more than 1 from |r|², what
is left concerns the likelihood."""


class SearchEndedError(ArithmeticError):
    """Error if the best states were not found twice in succession, or a callback ended the search."""


@dataclasses.dataclass(eq=False)
class Trials:
    """Trials of one problem.

    Args:
        problem: with noise to estimate.
        sizes: of the noise.
        inner: settings for the states.
        gap: what a linear step of the states may take from |r|² where they are good enough.
    """

    problem: Transcription
    sizes: tuple[NoiseSize, ...]
    inner: LevenbergMarquardt
    gap: float = field(kw_only=True, default_factory=lambda: GAP)
    spent: dict[str, float] = field(kw_only=True, default_factory=lambda: {"evaluate": 0.0, "factorize": 0.0})
    best: Trial = field(init=False)
    origin: Point | None = field(kw_only=True, default=None)
    """Where the ranks of constraints are found, which are valid for all trials; None: at the first one's start."""
    _null_space: NullSpace | None = field(init=False, default=None)
    _bend: Bend = field(init=False, default_factory=Bend)
    _unsettled: int = field(init=False, default=0)
    """Searches for the best states that have come to no end, one after another."""

    def _reduced(self, held: Transcription, start: Point) -> ReducedProblem:
        """Points need not be on the constraints, off which redundant rows seem independent."""
        if self._null_space is None:
            _ = self.problem.linear  # copies of the problem take it over
            self._null_space = NullSpace(self.problem, self.origin or start)
        return ReducedProblem(held, start, null_space=self._null_space.of(held))

    def numbers(self, logs: Array) -> Array:
        """Constants of the problem for these noise standard deviations."""
        constants = self.problem.constants.copy()
        for size, log in zip(self.sizes, logs, strict=True):
            constants[list(size.places)] = np.exp(log)
        return constants

    def trial(self, start: Point, logs: Array, most: float = np.inf, gap: float | None = None) -> Trial:
        """Likelihood at the parameters of ``start``, with states starting there.

        Args:
            gap: what a linear step of the states may take from |r|²; None: what it may at most places.

        Raises:
            NotPositiveDefiniteError: if the states are not determined, or their squares stay far above ``most``.
        """
        states, found = self.fitted(start, logs, most, self.gap if gap is None else gap)
        before = self.best.known if hasattr(self, "best") else None
        return Trial(self.sizes, logs, states, found, before)

    def fitted(self, start: Point, logs: Array, most: float, gap: float) -> tuple[FittedStates, Marginal]:
        """States of a trial and their likelihood. ``gap``: decrease of |r|² that a linear step may leave."""
        states = self.best_states(start, logs, most, gap)
        began = time.perf_counter()
        found = self.told(states, logs)
        self.spent["factorize"] += time.perf_counter() - began
        return states, found

    def told(self, states: States, logs: Array) -> Marginal:
        """Marginal likelihood of the parameters and noise, and its derivatives, at given states."""
        by_name = {key: log for s, log in zip(self.sizes, logs.tolist(), strict=True) for key in s.keys}
        return marginal(states, by_name) if self.sizes else Marginal.of_squares(states.schur)

    def best_states(self, start: Point, logs: Array, most: float, gap: float) -> States:
        """Best states at the parameters of ``start`` and this noise; raises as ``trial``, and SearchEndedError if they
        are not found twice in succession."""
        held = self.problem.with_numbers(self.numbers(logs)).held_at(start.parameters)
        began, reduced = time.perf_counter(), self._reduced(held, start)
        same = hasattr(self, "best") and start is self.best.point and logs is self.best.logs
        known = self.best.states if same and isinstance(self.best.states, States) else None
        states, self._bend = by_linear_steps(reduced, start, self._bend, gap if self.sizes else None, most, known)
        self.spent["evaluate"] += time.perf_counter() - began
        if states is not None:
            return states
        inner = self.inner.solve(held, start)
        for part in self.spent:
            self.spent[part] += getattr(inner.timing, part)
        last, before = (inner.history[-i].total for i in (1, 1 + min(_LATE, len(inner.history) - 1)))
        falls = inner.status is Status.MAX_ITERATIONS and before - last > 1
        self._unsettled = self._unsettled + 1 if falls else 0
        if self._unsettled > 1:
            raise SearchEndedError(
                f"the states did not converge in {self.inner.max_iterations} iterations, twice in succession"
            )
        return States(ReducedProblem(held, inner.point), inner.point)

    def states_arrays(self) -> dict[str, Array]:
        """Arrays of the best states for ``states_of``: the point of their linearization, for identical digits."""
        states = self.best.states
        assert isinstance(states, States)
        start = point_arrays(states.reduced.start, "start")
        return start if states.ahead is None else start | point_arrays(states.ahead, "ahead")

    def states_of(self, kept: Mapping[str, Array]) -> tuple[FittedStates, Marginal]:
        """From ``states_arrays``."""
        start = point_of(kept, "start")
        reduced = self._reduced(self.problem.with_numbers(self.numbers(kept["logs"])).held_at(start.parameters), start)
        ahead = point_of(kept, "ahead") if "ahead parameters" in kept else None
        states = States(reduced, start) if ahead is None else States.projected(reduced, ahead)
        return states, self.told(states, kept["logs"])
