"""How well estimates predict: the mechanism simulated open loop over windows of the recordings it was fitted to.

Each window starts from its estimated state and runs on the recorded inputs alone. What it misses the measurements by
tells whether parameters and states explain the motion, or whether every step is corrected by an impulse residual: a
state weight that is too small lets the fit follow the noise, and such states predict badly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spookid import horizons
from spookid.assembly import Evidence, gather, numbers, slip_widths
from spookid.factor import Constant
from spookid.kernels import Array, contiguous
from spookid.periods import SHORT, extent
from spookid.problem import Problem
from spookid.replay import forward_stepper
from spookid.sampling import wrap
from spookid.simulation import StepFailedError, Steps, march
from spookid.solution import Solution, Trajectory
from spookid.steppers.impulses import Settings
from spookid.trajectories import predict

_MOST_STEPS = 4000


@dataclass(frozen=True, eq=False)
class Windows:
    """What stays the same from fit to fit: the problem, its recordings at the steps, and where windows begin."""

    problem: Problem
    evidence: tuple[Evidence, ...]
    length: int
    """Steps of a window."""
    edges: tuple[int, ...]
    """At which octaves of it begin, and its length."""
    apart: int
    """Steps from the beginning of one to that of the next."""
    most: int
    """Steps of all windows together; of longer recordings some windows are left out, evenly."""

    @property
    def seconds(self) -> float:
        """Length of a window [s]."""
        return self.length * self.problem.step

    @property
    def whole(self) -> Windows:
        """One for each recording instead, as long as it is."""
        length = max(e.grid.count for e in self.evidence)
        return replace(self, length=length, edges=(0, length), apart=length, most=length)

    def error(self, solution: Solution) -> float:
        """Geometric mean over the windows of the root mean square of prediction errors over σ.

        Infinite if a step has no solution, NaN without samples.
        """
        return horizons.score(self._errors(solution), (0, self.length))

    def score(self, solution: Solution) -> float:
        """The same over the windows' octaves too: see ``horizons``."""
        return horizons.score(self._errors(solution), self.edges)

    def _errors(self, solution: Solution) -> Array:
        """Squared errors over σ of all windows, (windows, length, n_o)."""
        settings = Settings.of(self.problem.model)
        known = self.problem.with_(initial=solution.values, fixed=list(self.problem.guess))
        constants = numbers(known, settings, slip_widths(known, self.evidence))
        stepper = forward_stepper(known, settings, constants)
        windows = [
            self._squares(stepper, constants, e, motion, start)
            for e, motion in zip(self.evidence, solution.trajectories, strict=True)
            for start in self._starts(e.grid.count).tolist()
        ]
        squares = np.full((len(windows), self.length, len(self.problem.observations)), np.nan)
        for all_of_it, window in zip(squares, windows, strict=True):
            all_of_it[: len(window)] = window
        return squares

    def _starts(self, count: int) -> NDArray[np.intp]:
        """Where windows begin in a recording of so many steps."""
        most = self.most // len(self.evidence)
        return horizons.starts(count, min(self.length, count), most, self.apart)

    def _squares(
        self, stepper: Steps, constants: tuple[Constant, ...], evidence: Evidence, motion: Trajectory, start: int
    ) -> Array:
        """Squared errors over σ of one window, (steps, n_o), NaN where a sample is missing."""
        here = slice(start, start + self.length)
        first = np.concatenate([motion.q[start].ravel(), motion.v[start].ravel()])
        scheme = self.problem.stepper
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a motion that runs away overflows before it fails
                marched = march(stepper, contiguous(first), scheme.forward_inputs(evidence.inputs[here]))
        except StepFailedError:
            return np.full_like(evidence.observed[here], np.inf)
        states = scheme.recorded(self.problem.model, marched, self.problem.step)
        measured = evidence.observed[here]
        differences = predict(self.problem, contiguous(states), constants) - measured
        for i, sensor in enumerate(self.problem.observations):
            column = differences[:, i] if sensor.period is None else wrap(differences[:, i], sensor.period)
            differences[:, i] = np.where(np.isfinite(column), column, np.inf) / sensor.sigma
        return np.where(np.isfinite(measured), differences**2, np.nan)


def windows(problem: Problem, most: int = _MOST_STEPS, periods: float = SHORT, overlap: int = 1) -> Windows:
    """Windows of a few mean periods of the motion.

    Args:
        most: steps that one judgement may simulate.
        periods: how many; see ``periods``.
        overlap: how many begin in the length of one.
    """
    evidence = tuple(gather(problem, recording) for recording in problem.recordings)
    length, edges = extent(evidence, problem.step, periods)
    return Windows(problem, evidence, length, edges, max(length // overlap, 1), most)
