"""How well estimates predict: the mechanism simulated open loop over windows of the recordings it was fitted to.

Each window starts from its estimated state and runs on the recorded inputs alone. What it misses the measurements by
tells whether parameters and states explain the motion, or whether every step is corrected by an impulse residual: a
state weight that is too small lets the fit follow the noise, and such states predict badly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spookid.assembly import Evidence, gather, numbers, slip_widths
from spookid.factor import Constant
from spookid.kernels import Array, contiguous
from spookid.problem import Problem
from spookid.replay import forward_stepper
from spookid.sampling import wrap
from spookid.simulation import StepFailedError, Steps, march
from spookid.solution import Solution, Trajectory
from spookid.steppers.impulses import Settings
from spookid.trajectories import predict

PERIODS = 2.0
"""Length of a window in mean periods of the fastest hinge."""
_LEAST_STEPS = 20
_TINY = float(np.finfo(float).tiny)
_MOST_STEPS = 4000


@dataclass(frozen=True, eq=False)
class Windows:
    """What stays the same from fit to fit: the problem, its recordings at the steps, and where windows begin."""

    problem: Problem
    evidence: tuple[Evidence, ...]
    length: int
    """Steps of a window."""
    most: int
    """Steps of all windows together; of longer recordings some windows are left out, evenly."""

    @property
    def seconds(self) -> float:
        """Length of a window [s]."""
        return self.length * self.problem.step

    def error(self, solution: Solution) -> float:
        """Geometric mean over the windows of the root mean square of prediction errors over σ.

        A window in which small differences grow large, as where a pendulum may fall to either side, tells little; in
        this mean it does not outweigh all others. Infinite if a step has no solution, NaN without samples.
        """
        settings = Settings.of(self.problem.model)
        known = self.problem.with_(initial=solution.values, fixed=list(self.problem.guess))
        constants = numbers(known, settings, slip_widths(known, self.evidence))
        stepper = forward_stepper(known, settings, constants)
        squares = [
            self._squares(stepper, constants, e, motion, start)
            for e, motion in zip(self.evidence, solution.trajectories, strict=True)
            for start in self._starts(e.grid.count)
        ]
        sizes = [np.mean(window) for window in squares if window.size]
        return float(np.exp(np.mean(np.log(np.maximum(sizes, _TINY))) / 2)) if sizes else float("nan")

    def _starts(self, count: int) -> list[int]:
        """First step of each window of a recording; windows do not overlap."""
        length = min(self.length, count)
        starts = list(range(0, count - length + 1, length))
        room = max(self.most // (length * len(self.evidence)), 1)
        return starts if len(starts) <= room else [starts[i * len(starts) // room] for i in range(room)]

    def _squares(
        self, stepper: Steps, constants: tuple[Constant, ...], evidence: Evidence, motion: Trajectory, start: int
    ) -> Array:
        """Squared errors over σ of one window, of the samples there are."""
        here = slice(start, start + self.length)
        first = np.concatenate([motion.q[start].ravel(), motion.v[start].ravel()])
        scheme = self.problem.stepper
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a motion that runs away overflows before it fails
                marched = march(stepper, contiguous(first), scheme.forward_inputs(evidence.inputs[here]))
        except StepFailedError:
            return np.array([np.inf])
        states = scheme.recorded(self.problem.model, marched, self.problem.step)
        measured = evidence.observed[here]
        differences = predict(self.problem, contiguous(states), constants) - measured
        columns = []
        for i, sensor in enumerate(self.problem.observations):
            known = differences[np.isfinite(measured[:, i]), i]
            columns.append((known if sensor.period is None else wrap(known, sensor.period)) / sensor.sigma)
        squares = np.concatenate(columns) ** 2
        return np.where(np.isfinite(squares), squares, np.inf)


def windows(problem: Problem, most: int = _MOST_STEPS) -> Windows:
    """Windows of two mean periods of the motion.

    A hinge's mean period is 2π rms(θ)/rms(θ̇) about the means, exact for a sine and Rice's formula for noise; the
    fastest hinge sets the length.

    Args:
        most: steps that one judgement may simulate.
    """
    evidence = tuple(gather(problem, recording) for recording in problem.recordings)
    length = int(np.ceil(PERIODS * mean_period(evidence) / problem.step))
    longest = max(e.grid.count for e in evidence)
    return Windows(problem, evidence, min(max(length, _LEAST_STEPS), longest), most)


def mean_period(evidence: Sequence[Evidence]) -> float:
    """Of the fastest hinge [s]; the duration of the longest recording if nothing moves."""
    duration = max(e.grid.count * e.grid.step for e in evidence)
    periods = [duration]
    for e in evidence:
        rates = np.std(np.diff(e.guess.angles, axis=0) / e.grid.step, axis=0)
        moving = rates > 0
        periods += (2 * np.pi * np.std(e.guess.angles, axis=0)[moving] / rates[moving]).tolist()
    return float(min(periods))
