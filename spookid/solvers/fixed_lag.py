"""Fixed-lag smoother on a transcription: the newest steps are re-estimated with all data, older ones are marginalized.

Steps that leave the window are eliminated by orthogonal transformations (``fronts``). Their information remains as
linear equations in the neighbouring states and the parameters, so that memory and time of an update stay constant.

An equation that leaves the window keeps its linearization. If equations with common variables were linearized at
different points, they would add information about directions that no single linearization determines. Leaving
equations therefore use first-estimates Jacobians (Huang, Mourikis and Roumeliotis, International Journal of Robotics
Research 29, 2010); ``first_estimates`` decides when the parameters get a new linearization point. Standard errors use
the same Jacobians. Residuals are evaluated at the best estimates: Σ Jᵀr = 0 is unbiased for any J that does not depend
on the noise, so that first-estimates Jacobians cost precision only. Steps inside the window are linearized at the best
estimates.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spookid.kernels.arrays import Array, Mask, contiguous
from spookid.solvers.fronts import Pivots, bounded_solution, joint_covariance
from spookid.solvers.lag_memory import memory_of
from spookid.solvers.lag_terms import RENEWALS, Anchor, FirstEstimates, check_volumes, volume_slopes
from spookid.solvers.lag_window import LagWindow
from spookid.transcription.transcription import Transcription

_SMALL, _SMALL_BESIDE = 1e-3, 3e-2
"""Steps shorter than this, in standard errors of all unknowns together, are the last; and so with volumes, whose slopes
are no better, for what a step leaves is found by the next update."""
_MET, _ROUNDED = 1e-13, 0.5
"""Equality constraints whose values are no larger are met, and so are those of which a step leaves so much: that is
rounding."""
_FIRST, _SHORTEST, _LONGEST, _GROWTH = 1.0, 1e-4, 1e2, 3.0
"""Steps of a parameter that are that many times its size are damped: at first, at the least and at the most. Where
next to nothing is known they would lead anywhere. It moves no estimate, for the next step begins where this one ends.
They may grow with each step that is of use, and shrink with one that is not."""
_UNKNOWN = 1e6
"""Nothing is known of a parameter whose error is that many times its size."""
_HALVINGS, _RISE = 4, 1e-2
"""How often a step is halved, and by how much the cost may rise with one: far less than one squared standard error."""


class FixedLag:
    """See the module.

    Args:
        transcription: its factors, its manifold and the constants of its first chain count; the chain's data count only
            for what is known of the parameters beforehand.
        window: steps that are kept.
        parameters: where they start, (n_p,).
        iterations: Gauss–Newton steps of an update at the most.
        volumes: True to add the volume of the states to the likelihood, as fits do in which process noise are
            estimated; without it inertias and damping are biased there. Where efforts are measured it does not belong.

    Raises:
        ProblemError: if factors switch, or reach over more steps than the window has.
    """

    def __init__(
        self,
        transcription: Transcription,
        window: int,
        *,
        parameters: Array | None = None,
        iterations: int = 5,
        volumes: bool = False,
    ) -> None:
        self.transcription, self.window, self.iterations = transcription, window, iterations
        self.volumes, self._window = volumes, LagWindow(transcription, window)
        if volumes:
            check_volumes(self._window)
        n = len(transcription.names)
        if n and parameters is None:
            raise ValueError("a transcription with parameters needs values to start from: parameters=")
        self.parameters = contiguous(np.zeros(0) if parameters is None else parameters).copy()
        """Best values, (n_p,)."""
        self._first: FirstEstimates | None = None
        """Where the parameters are linearized; None: at the best values."""
        self._memory = memory_of(self._window)
        self.converged = False
        """True if the last step was small."""
        self._border: Pivots | None = None
        """Rows that give the parameters, if all is factorized at the best values."""
        self._slopes: Array | None = None
        """Linear terms of the rows in the window; None: not known yet."""
        self._age = 0
        """Steps since these were found."""
        densities = [placed for placed in self._window.placed if placed.factor.density]
        self._squares = {placed.factor.name: np.ones(placed.rows) for placed in densities}
        """Running means of expected squares of process noise, by names of factors."""
        self._longest = _FIRST
        self._anchor, self._holds = Anchor(self.parameters, self._sizes), 0
        """What holds the parameters, and estimates until this is looked after."""

    @property
    def states(self) -> Array:
        """Best states of the steps in the window, (steps, ambient)."""
        return np.asarray(self._window.states.values.copy())

    @property
    def first(self) -> int:
        """Number of the oldest step in the window."""
        return self._window.first

    @property
    def reach(self) -> int:
        """Steps that an equation connects, less one."""
        return self._window.reach

    @property
    def steps(self) -> int:
        """How many are kept."""
        return self._window.steps

    def append(self, state: Array | None = None) -> int:
        """Add the newest step, and marginalize the oldest step if the window is full.

        Args:
            state: (ambient,); by default the last two are continued.

        Returns:
            Number of the new step.
        """
        window = self._window
        if state is None:
            if not window.steps:
                raise ValueError("the first step needs a state")
            state = window.continued()  # of the last two, one of which may leave now
        if window.steps == self.window:
            self._marginalize()
        window.append(contiguous(state))
        self._border, self._age = None, self._age + 1
        if self._slopes is not None:
            self._slopes = np.concatenate([self._slopes, np.zeros((1, self._slopes.shape[1]))])
        return window.first + window.steps - 1

    def set_data(self, name: str, step: int, data: Array, missing: Mask | None = None) -> bool:
        """Set the data of a factor's equations at steps ``step`` to ``step`` + reach.

        Args:
            data: (n_d,).
            missing: True for rows that have none, (rows,).

        Returns:
            False if these rows have left, and the numbers come too late.
        """
        window = self._window
        window.changes += 1
        for beliefs in window.beliefs:
            if beliefs.placed.factor.name == name:
                beliefs.set_data(data, missing)
                return True
        placed, place = window.by_name[name], step - window.first
        if place < 0:
            return False
        if place >= window.steps:
            raise ValueError(f"time step {step} has no data yet; the newest step is {window.first + window.steps - 1}")
        placed.data.values[place] = data
        placed.absent.values[place] = False if missing is None else missing
        return True

    def solve(self) -> int:
        """Estimate all states in the window; returns the number of iterations: at most ``iterations``, and as many
        small ones if equality constraints are not satisfied to the last digit."""
        taken, small, met = 0, False, True
        if self._age * RENEWALS >= self.window:
            self._slopes = None
        self._hold()
        while taken < self.iterations or (small and not met and taken < 2 * self.iterations):
            taken += 1
            self._linearize()
            found, small = self._improved()
            self.converged = small and found is not False
            if found is None or (small and found):
                break
            met = found
        self._border = None
        return taken

    def state_covariance(self) -> Array:
        """Covariance of the newest state in its tangent space, (t, t); NaN where it is not determined."""
        t = self.transcription.manifold.tangent
        return self.covariance()[:t, :t]

    def parameter_covariance(self) -> Array:
        """Covariance of the parameters, (n_p, n_p); NaN where they are not determined."""
        return self.covariance(0)

    def released(self) -> tuple[Array, Array]:
        """Score (n_p,) and information (n_p, n_p) of data that left the window since the last call, at the parameters.

        With rows [E | e] of the parameters that are left of rows that have left, states eliminated: Eᵀe and EᵀE. At the
        true parameters, and with noise as large as it is said to be, e is white and of unit variance.
        """
        memory, found = self._memory, (self._memory.score.copy(), self._memory.information.copy())
        memory.score[:], memory.information[:] = 0.0, 0.0
        return found

    def oldest(self) -> tuple[float, int]:
        """Sum of squares of the residuals that leave next, at the best values, and the number of measured ones."""
        self._memory.evaluate(self.parameters, 1)
        return self._window.oldest()

    def _linearize(self, best: bool = True) -> None:
        self._memory.linearize(self.parameters, None if best else self._linearized, self.steps)

    def _factorized(self, near: bool = False) -> Pivots:
        """All eliminated; the rows that give the parameters, kept near where they are if asked for."""
        n, beside = len(self.parameters), self._window.believed()
        shape = self._window.steps, (self._window.reach + 1) * self.transcription.manifold.tangent + n
        if near and n:
            damping = np.eye(n, n + 1) / (self._longest * self._sizes)[:, None]
            held = self._anchor.rows(self.parameters) if self._anchor.open else damping[:0]
            beside = np.concatenate([beside, damping, held])
        if self._slopes is None or len(self._slopes) != shape[0]:
            self._slopes, self._age = np.zeros(shape), 0
            if self.volumes:
                self._memory.factorize(self._slopes, beside)
                self._memory.evaluate(self.parameters, self.steps)
                self._slopes = volume_slopes(self._window, self._memory, self.parameters, self._squares)
        return self._memory.factorize(self._slopes, beside)

    def _improved(self) -> tuple[bool | None, bool]:
        """A step, shorter in the parameters until it is of use: what ``_move`` says of it, and if it is small."""
        while True:
            border = self._factorized(near=True)
            parameters = self._parameter_step(border)
            along = border.rows[border.hard :, :-1] @ parameters
            small = self._memory.square + float(along @ along) <= (_SMALL_BESIDE if self.volumes else _SMALL) ** 2
            found = self._move(self._memory.step(parameters), parameters)
            if found is not None:
                self._longest = min(_GROWTH * self._longest, _LONGEST)
                return found, small
            if not len(self.parameters) or self._longest <= _SHORTEST:
                return None, small
            self._longest = max(self._longest / _GROWTH**2, _SHORTEST)

    def _parameter_step(self, border: Pivots) -> Array:
        if not len(self.parameters):
            return self.parameters
        lower, upper = self.transcription.lower - self.parameters, self.transcription.upper - self.parameters
        return bounded_solution(border, self._memory.border_step(border), lower, upper)

    def _hold(self) -> None:
        """Hold what is not known: with each estimate while all rows are there, and then once in half a window."""
        self._holds -= 1
        if self._anchor.open and self._holds < 0:
            self._holds = 0 if self._first is None else self.window // 2
            point = self._anchor.start if self._first is None else self._first.point
            self._memory.linearize(self.parameters, point, self.steps)
            self._anchor.renew(self._factorized())

    @property
    def _sizes(self) -> Array:
        """Of the parameters, (n_p,)."""
        return np.asarray(np.maximum(np.abs(self.parameters), self.transcription.magnitudes))

    @property
    def _linearized(self) -> Array:
        """Where the parameters are linearized."""
        return self.parameters if self._first is None else self._first.point

    def _move(self, steps: Array, parameters: Array) -> bool | None:
        """Take a step, or a part of it: True if equality constraints are met then; None if none is any good."""
        window, problem = self._window, self.transcription
        states, before = window.states.values.copy(), self.parameters
        cost, violation = self._merit(np.zeros_like(steps), np.zeros_like(parameters))
        for halving in range(_HALVINGS):
            part = 0.5**halving
            window.states.values[:] = window.moved(states, part * steps)
            self.parameters = problem.stepped(before, part * parameters)
            moved = self.parameters - before
            new, left = self._merit(part * steps, moved)
            if new <= cost + _RISE + 1e-9 * cost or left < 0.5 * violation:
                self._memory.follow(part * steps, moved)
                return left <= _MET or left >= _ROUNDED * violation
        window.states.values[:], self.parameters = states, before
        return None

    def _merit(self, steps: Array, parameters: Array) -> tuple[float, float]:
        """Cost after a step, and the largest value of a equality constraint."""
        cost, violation = self._memory.evaluate(self.parameters, self.steps)
        carried, left = self._memory.merit(steps, parameters)
        tilt = self._tilt(steps, parameters) if self.volumes else 0.0
        held = self._anchor.cost(self.parameters) if self._anchor.open else 0.0
        return cost + carried + tilt + held, max(violation, left)

    def _tilt(self, steps: Array, parameters: Array) -> float:
        """What the linear terms of the window's rows add to the cost."""
        t, count, slopes = steps.shape[1], len(steps), self._slopes
        if slopes is None or len(slopes) != count:
            return 0.0
        total = float(np.sum(slopes[:, slopes.shape[1] - len(parameters) :] @ parameters))
        for offset in range(min(self._window.reach + 1, count)):
            part = slopes[: count - offset, offset * t : (offset + 1) * t]
            total += float(np.vdot(part, steps[offset:]))
        return 2 * total

    def _marginalize(self) -> None:
        """Let the oldest step leave."""
        if self._first is None:
            self._first = FirstEstimates(self._window, self.parameters)
        self._first.renew(self.parameters)
        if self._slopes is None or self._age * RENEWALS >= self.window:
            self._slopes = None
            self._linearize()
            self._factorized()
        assert self._slopes is not None
        self._memory.linearize(self.parameters, self._linearized, 1)
        self._memory.leave(self._slopes[0])
        self._slopes = self._slopes[1:]
        self._window.drop()

    def covariance(self, steps: int = 1) -> Array:
        """Joint covariance of the newest states, the oldest of them first, and the parameters, (steps t + n_p, steps t
        + n_p); NaN where not determined."""
        if self._border is None:
            self._linearize(best=False)
            self._border = self._factorized()
        newest = [self._memory.pivots(step) for step in range(self.steps - steps, self.steps)]
        covariance = joint_covariance(newest, self._border, self.transcription.manifold.tangent)
        n = len(self.parameters)
        own = covariance.diagonal()[len(covariance) - n :]
        unknown = len(covariance) - n + np.flatnonzero(own > (_UNKNOWN * self._sizes) ** 2)
        covariance[unknown] = covariance[:, unknown] = np.nan
        return covariance

    def arrays(self) -> dict[str, Array]:
        """Complete state of the smoother, as arrays by name."""
        first = self._first
        own = {
            "settings": np.array([self.window, self.iterations, self.volumes]),
            "parameters": self.parameters.copy(),
            "first estimates": np.zeros((0, 0)) if first is None else first.point[None],
            "waits": np.array([0 if first is None else first.waits]),
            "longest": np.array([self._longest]),
            "anchor": np.concatenate([self._anchor.start[None], self._anchor.slopes]),
            "held": np.array([self._anchor.open, self._holds]),
            "age": np.array([self._age]),
            "slopes": np.zeros((0, 0)) if self._slopes is None else self._slopes,
        }
        own |= {f"squares {name}": squares.copy() for name, squares in self._squares.items()}
        return own | self._memory.arrays() | self._window.arrays()

    @classmethod
    def resumed(cls, transcription: Transcription, arrays: Mapping[str, Array]) -> FixedLag:
        """Smoother that continues from ``arrays`` of another one, with identical digits."""
        window, iterations, volumes = (int(value) for value in arrays["settings"])
        new = cls(transcription, window, parameters=arrays["parameters"], iterations=iterations, volumes=bool(volumes))
        if len(arrays["first estimates"]):
            new._first = FirstEstimates(new._window, arrays["first estimates"][0])
            new._first.waits = int(arrays["waits"][0])
        new._longest = float(arrays["longest"][0])
        new._anchor = Anchor(arrays["anchor"][0], np.maximum(np.abs(arrays["anchor"][0]), transcription.magnitudes))
        new._anchor.slopes, new._anchor.open = arrays["anchor"][1:].copy(), bool(arrays["held"][0])
        new._holds, new._age = int(arrays["held"][1]), int(arrays["age"][0])
        new._slopes = arrays["slopes"].copy() if len(arrays["slopes"]) else None
        new._squares = {name: arrays[f"squares {name}"].copy() for name in new._squares}
        new._memory.restore(arrays)
        new._window.restore(arrays)
        return new
