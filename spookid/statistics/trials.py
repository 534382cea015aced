"""What evaluates the likelihood: parameters and sizes of noise, with the best states for them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spookid.kernels.arrays import Array
from spookid.solvers.levenberg_marquardt import LevenbergMarquardt
from spookid.solvers.reduced_problem import ReducedProblem
from spookid.solvers.resuming import point_arrays, point_of
from spookid.statistics.likelihood import States, marginal
from spookid.statistics.linear_steps import Bend, by_linear_steps
from spookid.statistics.marginal import Marginal
from spookid.statistics.noise_sizes import NoiseSize
from spookid.statistics.trial import FittedStates, Trial
from spookid.transcription.transcription import Point, Transcription

_GAP = 1e-2
"""What a linear step of the states may take from |r|² where they are good enough: the likelihood allows for it."""


@dataclass(eq=False)
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
    gap: float = field(kw_only=True, default_factory=lambda: _GAP)
    spent: dict[str, float] = field(kw_only=True, default_factory=lambda: {"evaluate": 0.0, "factorize": 0.0})
    best: Trial = field(init=False)
    _bend: Bend = field(init=False, default_factory=Bend)

    def numbers(self, logs: Array) -> Array:
        """Constants of the problem with these sizes."""
        constants = self.problem.constants.copy()
        for size, log in zip(self.sizes, logs, strict=True):
            constants[list(size.places)] = np.exp(log)
        return constants

    def trial(self, start: Point, logs: Array, most: float = np.inf, gap: float | None = None) -> Trial:
        """The likelihood at the parameters of ``start``, states from there.

        Args:
            gap: what a linear step of the states may take from |r|²; None: what it may at most places.

        Raises:
            NotPositiveDefiniteError: if the states are not determined, or begin with squares of more than ``most``.
        """
        states, found = self.fitted(start, logs, most, self.gap if gap is None else gap)
        before = self.best.known if hasattr(self, "best") else None
        return Trial(self.sizes, logs, states, found, before)

    def fitted(self, start: Point, logs: Array, most: float, gap: float) -> tuple[FittedStates, Marginal]:
        """The states of a trial, and what they tell.

        Args:
            gap: what a linear step of the states may take from |r|².
        """
        states = self.best_states(start, logs, most, gap)
        began = time.perf_counter()
        found = self.told(states, logs)
        self.spent["factorize"] += time.perf_counter() - began
        return states, found

    def told(self, states: States, logs: Array) -> Marginal:
        """What states tell of the parameters and of these sizes."""
        by_name = {key: log for s, log in zip(self.sizes, logs.tolist(), strict=True) for key in s.keys}
        return marginal(states, by_name) if self.sizes else Marginal.of_squares(states.corner)

    def best_states(self, start: Point, logs: Array, most: float, gap: float) -> States:
        """The best states at the parameters of ``start`` and these sizes; raises as ``trial``."""
        held = self.problem.with_numbers(self.numbers(logs)).held_at(start.parameters)
        began, reduced = time.perf_counter(), ReducedProblem(held, start)
        states, self._bend = by_linear_steps(reduced, start, self._bend, gap if self.sizes else None, most)
        self.spent["evaluate"] += time.perf_counter() - began
        if states is not None:
            return states
        inner = self.inner.solve(held, start)
        for part in self.spent:
            self.spent[part] += getattr(inner.timing, part)
        return States(ReducedProblem(held, inner.point), inner.point)

    def states_arrays(self) -> dict[str, Array]:
        """The best states, which ``states_of`` reads: what they were linearized from, for the sake of all digits."""
        states = self.best.states
        assert isinstance(states, States)
        start = point_arrays(states.reduced.start, "start")
        return start if states.ahead is None else start | point_arrays(states.ahead, "ahead")

    def states_of(self, kept: Mapping[str, Array]) -> tuple[FittedStates, Marginal]:
        """From ``states_arrays``."""
        start = point_of(kept, "start")
        held = self.problem.with_numbers(self.numbers(kept["logs"])).held_at(start.parameters)
        reduced = ReducedProblem(held, start)
        ahead = point_of(kept, "ahead") if "ahead parameters" in kept else None
        states = States(reduced, start) if ahead is None else States.projected(reduced, ahead)
        return states, self.told(states, kept["logs"])
