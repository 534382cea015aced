"""The work of ``spookid simulate`` on one problem."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.errors import ProblemError
from spookid.report import export, simulation_folder
from spookid.report.wording import number, quantity
from spookid.results.result import Result
from spookid.studies.comparison import Comparison, compare
from spookid.studies.replay import Initial


@dataclass(frozen=True, eq=False)
class Job:
    """One problem's simulations."""

    problem: Declaration
    values: Mapping[str, float]
    """Of every parameter."""
    source: Path | None
    """Result folder that they come from, if any."""
    solution: Result | None
    """What is in it."""
    folder: Path
    label: str
    """What messages call it."""


def prepare(problem: Declaration, arguments: Namespace, source: Path | None, folder: Path, label: str) -> Job:
    """The job, once its folder and the results it starts from are known to be right.

    Raises:
        ProblemError: for a folder that is not ours, or results that are none of this problem's.
    """
    simulation_folder.check_target(folder)
    solution = None if source is None else export.load(source)
    if solution is not None and arguments.step is None:
        problem = problem.with_(step=solution.step)  # its estimates belong to its step
    values = _values(problem, solution, source, dict(arguments.set))
    return Job(problem, values, source, solution, folder, label)


def work(job: Job, arguments: Namespace) -> bool:
    """Simulate on each recording, write and show; True if every step had a solution."""
    comparisons = []
    for index in range(max(len(job.problem.recordings), 1)):
        names = [recording.name for recording in job.problem.recordings] or [job.label]
        bar = progress.along(names[index], progress.wanted(arguments.quiet))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RuntimeWarning)
            comparison = compare(job.problem, index, job.values, arguments.duration, _initial(job, index), bar)
        for message in dict.fromkeys(str(warning.message) for warning in told):
            terminal.complain(f"{job.label}, {comparison.name}: {message}")
        if not arguments.quiet:
            terminal.say(_sentence(job, comparison))
        comparisons.append(comparison)
    source = None if job.source is None else str(job.source)
    simulation_folder.save(job.folder, job.problem, job.values, source, comparisons)
    if not arguments.quiet:
        terminal.say(f"Written to {job.folder}")
    failed = [comparison for comparison in comparisons if comparison.failure]
    for comparison in failed:
        terminal.complain(
            f"{job.label}, {comparison.name}: {comparison.failure}; the {number(comparison.duration)} s before it are "
            f"in {job.folder}"
        )
    return not failed


def _values(
    problem: Declaration, solution: Result | None, source: Path | None, given: Mapping[str, float]
) -> dict[str, float]:
    """Value of every parameter: as given, else as estimated, else its guess."""
    estimates = solution.values if solution is not None else {}
    guess = problem.guess
    if solution is not None and guess and guess.keys().isdisjoint(estimates):
        raise ProblemError(f"{source} holds none of the parameters of {problem.name!r}; give a folder of its results")
    return {name: given.get(name, estimates.get(name, guess[name])) for name in guess}


def _initial(job: Job, index: int) -> Initial:
    """The first state that was estimated for the same stretch of motion, if there is one."""
    if job.solution is None:
        return None
    trajectories: Iterable[Any] = job.solution.trajectories
    if job.problem.recordings:
        recording, slack = job.problem.recordings[index], 1e-6 * job.problem.step
        trajectories = [t for t in trajectories if t.name == recording.name and abs(t.t[0] - recording.t[0]) <= slack]
    first = next((t for t in trajectories if t.q.shape[1] == len(job.problem.model.bodies)), None)
    return None if first is None else (first.q[0], first.v[0])


def _sentence(job: Job, comparison: Comparison) -> str:
    sizes = zip(comparison.rms.items(), comparison.units, strict=True)
    known = [f"{signal} {quantity(rms, unit)}" for (signal, rms), unit in sizes if rms == rms]
    difference = f"; rms difference {', '.join(known)}" if known else ""
    steps = f"in steps of {number(job.problem.step, 6)} s"
    if job.problem.friction == "mpcc":
        steps += " (friction 'mpcc' steps forward as 'exact' does)"
    return f"{job.label}, {comparison.name}: simulated {number(comparison.duration, 6)} s {steps}{difference}"
