"""A simulated motion beside the recording it was started from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spookid.assembly.constants import chosen_numbers
from spookid.assembly.declaration import Declaration
from spookid.assembly.initialization import oriented
from spookid.assembly.trajectories import beside, predict, stamped
from spookid.data.inputs import commanded
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, observed
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.results.motion import rms
from spookid.stepping.impulses import Settings
from spookid.stepping.simulation import Progress, StepFailedError
from spookid.studies.simulating import Initial, simulate
from spookid.tables.table import Table, quantity, superscripts
from spookid.tables.tabular import Block, Tabular
from spookid.transcription.factor import Constant


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """A simulated motion of N steps, n_b bodies, n_o observed signals and n_u inputs, and what was measured then."""

    name: str
    """The recording's, or the problem's if there is none."""
    signals: tuple[str, ...]
    """Observed signals."""
    units: tuple[str, ...]
    """Their units."""
    periods: tuple[float | None, ...]
    """Their periods, None where there is none."""
    inputs: Mapping[str, Array]
    """Input by signal, (N,)."""
    t: Array
    """(N,) [s]."""
    q: Array
    """(N, n_b, 7)."""
    v: Array
    """(N, n_b, 6)."""
    observed: Array
    """Measured at the steps, (N, n_o), NaN where there is no sample."""
    predicted: Array
    """Simulated, continuous in time, (N, n_o)."""
    failure: str
    """Why the simulation ended early; empty if it did not."""

    def __repr__(self) -> str:
        return f"<Comparison on {self.name!r}: {quantity(self.duration, 's', 6)}{', failed' if self.failure else ''}>"

    def blocks(self) -> Sequence[Block]:
        """Title, a row for each signal, and why it ended early."""
        units = zip(self.rms.items(), self.units, strict=True)
        rows = [(signal, quantity(size, superscripts(unit))) for (signal, size), unit in units]
        ended = [f"It ended early: {self.failure}"] if self.failure else []
        title = f"{self.name}, simulated for {quantity(self.duration, 's', 6)}"
        return [title, Table(("signal", "rms difference from what was measured"), rows), *ended]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each signal."""
        units = zip(self.rms.items(), self.units, strict=True)
        return [{"signal": signal, "rms": size, "unit": unit} for (signal, size), unit in units]

    @property
    def duration(self) -> float:
        """Simulated time [s]."""
        return float(self.t[-1] - self.t[0])

    @property
    def nearest(self) -> Array:
        """``predicted``, each angle on the branch that is nearest to what was observed, (N, n_o)."""
        return beside(self.predicted, self.observed, self.periods)

    @property
    def rms(self) -> dict[str, float]:
        """Root mean square difference to what was measured, by signal; NaN where nothing was."""
        differences = self.nearest - self.observed
        return {signal: rms(differences[:, i]) for i, signal in enumerate(self.signals)}

    def recording(self) -> Recording | None:
        """The simulated signals and the inputs as a recording; None for a single step, which is no recording."""
        if len(self.t) < 2:
            return None
        signals = {signal: self.predicted[:, i] for i, signal in enumerate(self.signals)}
        return Recording(t=self.t, signals={**signals, **self.inputs}, name=self.name, q=self.q, v=self.v)


def compare(
    problem: Declaration,
    index: int,
    values: Mapping[str, float],
    duration: float | None,
    initial: Initial,
    progress: Progress,
) -> Comparison:
    """Simulate a problem on its recording ``index``, or from rest if it has none; see ``Problem.simulate``.

    A step that has no solution ends the motion early, and ``failure`` says so.

    Raises:
        ProblemError: as ``Problem.simulate``, or if the problem has no observations.
    """
    if not problem.channels:
        raise ProblemError(f"{problem.what} has no observations; a simulation would have nothing to show")
    states, failure = _simulated(problem, index, values, duration, initial, progress)
    bodies = len(problem.model.bodies)
    measured = problem.recordings[index] if problem.recordings else None
    steps = Grid(float(measured.t[0]) if measured else 0.0, problem.step, len(states))
    return Comparison(
        name=measured.name if measured else problem.name,
        signals=tuple(o.signal for o in problem.channels),
        units=tuple(o.unit for o in problem.channels),
        periods=tuple(o.period for o in problem.channels),
        inputs=_inputs(problem, measured, steps),
        t=steps.times(),
        q=states[:, : 7 * bodies].reshape(-1, bodies, 7),
        v=states[:, 7 * bodies :].reshape(-1, bodies, 6),
        observed=_observed(problem, measured, steps, states),
        predicted=_predicted(problem, index, states, values),
        failure=failure,
    )


def _simulated(
    problem: Declaration,
    index: int,
    values: Mapping[str, float],
    duration: float | None,
    initial: Initial,
    progress: Progress,
) -> tuple[Array, str]:
    """States (N, 13 n_b), and why there are no more of them, empty if there is no reason."""
    bodies = len(problem.model.bodies)
    try:
        # A motion that runs away overflows before its step fails, and that says it all.
        with np.errstate(over="ignore", invalid="ignore"):
            motion = simulate(problem, values, duration, initial, recording=index, progress=progress)
    except StepFailedError as error:
        return _finite(error.states), str(error)
    q, v = np.asarray(motion.q), np.asarray(motion.v)
    return np.hstack([q.reshape(-1, 7 * bodies), v.reshape(-1, 6 * bodies)]), ""


def _finite(states: Array) -> Array:
    """The states up to the first that is not finite: numbers that overflow are no motion."""
    whole = np.isfinite(states).all(axis=1)
    return states if whole.all() else states[: max(int(np.argmin(whole)), 1)]


def _inputs(problem: Declaration, measured: Recording | None, steps: Grid) -> dict[str, Array]:
    columns = commanded(measured, problem.model.inputs, steps)
    return {signal: columns[:, i] for i, signal in enumerate(problem.model.signals)}


def _observed(problem: Declaration, measured: Recording | None, steps: Grid, states: Array) -> Array:
    if measured is None:
        return np.full((steps.count, len(problem.channels)), np.nan)
    measured = oriented(problem.model, problem.channels, measured, steps, states, problem.guess)
    return np.column_stack([observed(measured, o.signal, steps, period=o.period) for o in problem.channels])


def _predicted(problem: Declaration, index: int, states: Array, values: Mapping[str, float]) -> Array:
    numbers = {**problem.guess, **problem.parameter_set.expanded(values)}
    constants = (
        Constant(Settings.of(problem.model).step, problem.step),
        *(Constant(p, numbers[p.name]) for p in problem.parameters),
        *chosen_numbers(problem, numbers, index),
    )
    name = problem.recordings[index].name if problem.recordings else None
    return stamped(problem, predict(problem, contiguous(states), constants), problem.parameter_set.on(numbers, name))
