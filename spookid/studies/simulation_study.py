"""A simulated motion beside the recording it was started from.

What a simulation leaves behind: a folder with numbers, recordings that can be read back, and a figure.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spookid.assembly.constants import chosen_numbers
from spookid.assembly.initialization import oriented
from spookid.assembly.problem import Problem
from spookid.assembly.trajectories import beside, predict, stamped
from spookid.data.inputs import commanded
from spookid.data.recording import Recording
from spookid.data.sampling import Grid, observed
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array, contiguous
from spookid.report import pictures
from spookid.report.conclusion import how_it_moves
from spookid.report.export import load_answer
from spookid.report.study_page import Answer
from spookid.results.result import Solution
from spookid.results.trajectory import rms
from spookid.stepping.impulses import Settings
from spookid.stepping.simulation import Progress, StepFailedError
from spookid.studies.job import Job
from spookid.studies.simulating import simulate
from spookid.studies.simulation_start import Initial
from spookid.tables.table import Block, Table, Tabular, counted, labelled, number, quantity, superscripts
from spookid.transcription.factor import Constant

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Simulated motion and measurements: N steps, n_b bodies, n_o observed signals and n_u inputs."""

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
    """Reason if the simulation ended early; else empty."""

    def __repr__(self) -> str:
        return f"<Comparison on {self.name!r}: {quantity(self.duration, 's', 6)}{', failed' if self.failure else ''}>"

    def blocks(self) -> Sequence[Block]:
        """Title, a table of the signals, and the reason if the simulation ended early."""
        rows = [(one["signal"], quantity(one["rms"], superscripts(one["unit"]))) for one in self.records()]
        ended = [f"It ended early: {self.failure}"] if self.failure else []
        title = f"{self.name}, simulated for {quantity(self.duration, 's', 6)}"
        return [title, Table(("signal", "rms difference from what was measured"), rows), *ended]

    def records(self) -> Sequence[dict[str, Any]]:
        """A row for each signal."""
        units = zip(self.rms.items(), self.units, strict=True)
        return [{"signal": signal, "rms": size, "unit": unit} for (signal, size), unit in units]

    @property
    def status(self) -> str:
        """In a word."""
        return "failed" if self.failure else "completed"

    @property
    def duration(self) -> float:
        """Simulated time [s]."""
        return float(self.t[-1] - self.t[0])

    @property
    def nearest(self) -> Array:
        """Predicted signals; angles are shifted by whole turns to the observed angles, (N, n_o)."""
        return beside(self.predicted, self.observed, self.periods)

    @property
    def rms(self) -> dict[str, float]:
        """Rms difference between simulated and measured signal, by signal; NaN without a measurement."""
        differences = self.nearest - self.observed
        return {signal: rms(differences[:, i]) for i, signal in enumerate(self.signals)}

    def recording(self) -> Recording | None:
        """Simulated signals and inputs as a recording; None for a single step."""
        if len(self.t) < 2:
            return None
        signals = {signal: self.predicted[:, i] for i, signal in enumerate(self.signals)}
        return Recording(t=self.t, signals={**signals, **self.inputs}, name=self.name, q=self.q, v=self.v)


def compare(
    problem: Problem,
    index: int,
    values: Mapping[str, float],
    duration: float | None,
    initial: Initial,
    progress: Progress,
) -> Comparison:
    """Simulate a problem on its recording ``index``, or from rest without recordings; see ``Problem.simulate``.

    A step that has no solution ends the motion early, and ``failure`` says so.

    Raises:
        ProblemError: as ``Problem.simulate``, or if the problem has no observations.
    """
    if not problem.channels:
        raise ProblemError(f"{problem.what} has no observations; a simulation would have nothing to show")
    model, bodies, failure = problem.model, len(problem.model.bodies), ""
    try:
        # A motion that runs away overflows before its step fails, and that says it all.
        with np.errstate(over="ignore", invalid="ignore"):
            motion = simulate(problem, values, duration, initial, recording=index, progress=progress)
        q, v = np.asarray(motion.q), np.asarray(motion.v)
        states = np.hstack([q.reshape(-1, 7 * bodies), v.reshape(-1, 6 * bodies)])
    except StepFailedError as error:
        whole = np.isfinite(error.states).all(axis=1)  # numbers that overflow are no motion
        states, failure = error.states if whole.all() else error.states[: max(int(np.argmin(whole)), 1)], str(error)
    measured = problem.recordings[index] if problem.recordings else None
    steps = Grid(float(measured.t[0]) if measured else 0.0, problem.step, len(states))
    inputs, name = commanded(measured, model.inputs, steps), measured.name if measured else None
    shown = np.full((steps.count, len(problem.channels)), np.nan)
    if measured is not None:
        turned = oriented(model, problem.channels, measured, steps, states, problem.guess)
        shown = np.column_stack([observed(turned, o.signal, steps, period=o.period) for o in problem.channels])
    numbers = {**problem.guess, **problem.parameter_set.expanded(values)}
    constants = (
        Constant(Settings.of(model).step, problem.step),
        *(Constant(p, numbers[p.name]) for p in problem.parameters),
        *chosen_numbers(problem, numbers, index),
    )
    predicted = predict(problem, contiguous(states), constants)
    return Comparison(
        name=name or problem.name,
        signals=tuple(o.signal for o in problem.channels),
        units=tuple(o.unit for o in problem.channels),
        periods=tuple(o.period for o in problem.channels),
        inputs={signal: inputs[:, i] for i, signal in enumerate(model.signals)},
        t=steps.times(),
        q=states[:, : 7 * bodies].reshape(-1, bodies, 7),
        v=states[:, 7 * bodies :].reshape(-1, bodies, 6),
        observed=shown,
        predicted=stamped(problem, predicted, problem.parameter_set.on(numbers, name)),
        failure=failure,
    )


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``simulate`` when run from the command line."""
    solution = None if job.source is None else load_answer(job.source, job.arguments.force)
    problem = job.problem
    if solution is not None and job.arguments.step is None:
        problem = problem.with_(step=solution.step)  # its estimates belong to its step
    estimates = solution.values if solution else {}
    guess, given = problem.guess, problem.parameter_set.expanded(dict(job.arguments.set))
    if solution is not None and guess and guess.keys().isdisjoint(estimates):
        raise ProblemError(
            f"{job.source} holds none of the parameters of {problem.name!r}; give a folder of its results"
        )
    values = {name: given.get(name, estimates.get(name, guess[name])) for name in guess}

    exact = " (friction 'mpcc' steps forward as 'exact' does)" if problem.friction == "mpcc" else ""
    steps = f"in steps of {number(problem.step, 6)} s{exact}"

    def work() -> Answer:
        comparisons = []
        for index in range(max(len(problem.recordings), 1)):
            along = job.along(problem.recordings[index].name if problem.recordings else job.label)
            with _warned(job):
                initial = _initial(problem, solution, index)
                made = compare(problem, index, values, job.arguments.duration, initial, along)
            said = f"simulated {number(made.duration, 6)} s {steps}{_differences([made], '; rms difference ')}"
            job.say(f"{job.label}, {made.name}: {said}")
            comparisons.append(made)
        return answer(job, problem, values, comparisons)

    return work


@contextmanager
def _warned(job: Job) -> Iterator[None]:
    """Warnings of a simulation are lines of their own, at once: they may say how long it is going to take."""
    told = set[str]()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            job.complain(f"{job.label}: {message}")
        told.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        yield


def _initial(problem: Problem, solution: Solution | None, index: int) -> Initial:
    """The first state that was estimated for the same part of the motion, if there is one."""
    found: Iterable[Any] = solution.trajectories if solution else ()
    if problem.recordings:
        recording, slack = problem.recordings[index], 1e-6 * problem.step
        found = [t for t in found if t.name == recording.name and abs(t.t[0] - recording.t[0]) <= slack]
    first = next((t for t in found if t.q.shape[1] == len(problem.model.bodies)), None)
    return None if first is None else (first.q[0], first.v[0])


def answer(job: Job, problem: Problem, values: Mapping[str, float], comparisons: Sequence[Comparison]) -> Answer:
    """Result of the study, with ``trajectory.npz``, ``simulation.png`` and a CSV file of simulated signals and inputs
    per recording.

    Args:
        values: the parameters that were used, all of them.
        comparisons: at least one.
    """
    names = _file_names(comparisons)
    status = next((c.status for c in comparisons if c.failure), "completed")
    worst = _differences(comparisons, "; its rms difference from what was measured is at most ")
    files = {name: c for name, c in zip(names, comparisons, strict=True) if c.recording() is not None}
    longest, count = max(c.duration for c in comparisons), counted(len(comparisons), "motion")
    units = {p.name: p.unit for p in problem.parameter_set.every}
    given = [(n, quantity(v, superscripts(units.get(n, "")), 6)) for n, v in values.items()]
    failed = [c for c in comparisons if c.failure]
    kept = {"t": "t", "q": "q", "v": "v", "observed": "observed", "predicted": "nearest"}
    arrays: dict[str, Any] = {f"{n}_{i}": getattr(c, a) for i, c in enumerate(comparisons) for n, a in kept.items()}
    return Answer(
        problem.name,
        "",
        f"Simulation of {count} of up to {number(longest, 6)} s: {status}{worst}.",
        [_table(comparisons), *([Table(("parameter", "value"), given)] if given else [])],
        {
            "status": status,
            "from": None if job.source is None else str(job.source),
            "stepper": problem.stepper.name,
            "friction": problem.friction,
            "step": problem.step,
            "duration": longest,
            "parameters": values,
            "recordings": [_entry(c, n if n in files else None) for c, n in zip(comparisons, names, strict=True)],
        },
        {"Estimator": "none: the parameters are given", **how_it_moves(problem), "Noise": "none"},
        [f"{c.name}: {c.failure}, after {number(c.duration)} s." for c in failed],
        {
            "trajectory.npz": partial(np.savez, **arrays),
            **{name: partial(_write_csv, comparison) for name, comparison in files.items()},
            "simulation.png": pictures.drawn(figure, comparisons, f"{problem.name}, simulation {status}"),
        },
        [f"{job.label}, {c.name}: {c.failure}; the {number(c.duration)} s before it are in {job.out}" for c in failed],
    )


def _differences(comparisons: Sequence[Comparison], words: str) -> str:
    """The largest differences from what was measured, after these words; empty if nothing was."""
    units = dict(zip(comparisons[0].signals, comparisons[0].units, strict=True))
    sizes = {signal: [c.rms[signal] for c in comparisons if math.isfinite(c.rms[signal])] for signal in units}
    told = [f"{signal} {quantity(max(found), units[signal])}" for signal, found in sizes.items() if found]
    return f"{words}{', '.join(told)}" if told else ""


def _table(comparisons: Sequence[Comparison]) -> Table:
    """A row for each recording."""
    signals = zip(comparisons[0].signals, comparisons[0].units, strict=True)
    head = ("recording", "duration", "steps", *(f"rms of {labelled(*signal)}" for signal in signals), "status")
    rows = []
    for c in comparisons:
        sizes = [number(size, 3) if math.isfinite(size) else "-" for size in c.rms.values()]
        rows.append((c.name, quantity(c.duration, "s", 6), f"{len(c.t):,}", *sizes, c.status))
    return Table(head, rows)


def _entry(comparison: Comparison, file: str | None) -> dict[str, Any]:
    return {
        "name": comparison.name,
        "file": file,
        "status": comparison.status,
        "message": comparison.failure,
        "start": comparison.t[0],
        "duration": comparison.duration,
        "steps": len(comparison.t),
        "signals": comparison.signals,
        "rms": comparison.rms,
    }


def _write_csv(comparison: Comparison, path: Path) -> None:
    recording, time = comparison.recording(), "t"
    assert recording is not None
    while time in recording.signals:  # the time column gives way
        time = f"_{time}"
    recording.to_csv(path, time=time)


def _file_names(comparisons: Sequence[Comparison]) -> list[str]:
    """A file name for each recording, no two alike."""
    names: list[str] = []
    for comparison in comparisons:
        stem = re.sub(r"[^\w.-]+", "_", comparison.name).strip(".") or "recording"
        name, again = f"{stem}.csv", 2
        while name.lower() in (other.lower() for other in names):  # some file systems ignore the case
            name, again = f"{stem}_{again}.csv", again + 1
        names.append(name)
    return names


def figure(comparisons: Sequence[Comparison], title: str) -> Figure:
    """Draw simulated and measured signals over time, with a column for each recording."""
    from spookid.report import plots

    failed = {c.name: f"{c.name}, not solved after {number(float(c.t[-1]))} s" for c in comparisons if c.failure}
    motions = [replace(c, name=failed.get(c.name, c.name), predicted=c.nearest) for c in comparisons]
    measured = any(bool(np.any(np.isfinite(c.observed))) for c in comparisons)
    return plots.signals(motions, title, "simulated", measured)
