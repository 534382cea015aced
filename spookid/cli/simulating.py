"""``spookid simulate``: a mechanism stepped forward beside its recordings."""

from __future__ import annotations

import math
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit, Job, Run, Work, each, ended, source_of, start
from spookid.errors import ProblemError
from spookid.report import export
from spookid.report import simulation as simulations
from spookid.results.result import Result
from spookid.studies.comparison import Comparison, compare
from spookid.studies.simulating import Initial
from spookid.tables.table import number, quantity


def simulate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Simulate each problem on each of its recordings, and write its simulation folder."""
    run = start(arguments, interruption)

    def prepare(job: Job) -> Work:
        source = source_of(run, job.key)
        solution = None if source is None else export.load(source)
        problem = job.problem
        if solution is not None and arguments.step is None:
            problem = problem.with_(step=solution.step)  # its estimates belong to its step
            job = replace(job, problem=problem)
        estimates, guess, given = (
            solution.values if solution else {},
            problem.guess,
            problem.parameter_set.expanded(dict(arguments.set)),
        )
        if solution is not None and guess and guess.keys().isdisjoint(estimates):
            raise ProblemError(
                f"{source} holds none of the parameters of {problem.name!r}; give a folder of its results"
            )
        values = {name: given.get(name, estimates.get(name, guess[name])) for name in guess}
        return partial(_simulate, run, job, values, source, solution)

    return each(run, prepare, marker=simulations.MARKER)


def _simulate(run: Run, job: Job, values: Mapping[str, float], source: Path | None, solution: Result | None) -> Exit:
    """Simulate on each recording, write and show."""
    problem, comparisons = job.problem, []
    for index in range(max(len(problem.recordings), 1)):
        bar = progress.along(problem.recordings[index].name if problem.recordings else job.label, run.watched)
        with _told(job.label):
            comparison = compare(
                problem, index, values, run.arguments.duration, _initial(problem, solution, index), bar
            )
        run.say(f"{job.label}, {comparison.name}: {_sentence(problem, comparison)}")
        comparisons.append(comparison)
    simulations.save(job.folder, problem, values, None if source is None else str(source), comparisons)
    run.say(f"Written to {job.out}")
    failed = [comparison for comparison in comparisons if comparison.failure]
    before = f"s before it are in {job.out}"
    return ended(*(f"{job.label}, {c.name}: {c.failure}; the {number(c.duration)} {before}" for c in failed))


@contextmanager
def _told(label: str) -> Iterator[None]:
    """Warnings of a simulation are lines of their own, at once: they may tell how long it is going to take."""
    told = set[str]()

    def tell(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if str(message) not in told:
            terminal.complain(f"{label}: {message}")
        told.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        yield


def _initial(problem: Declaration, solution: Result | None, index: int) -> Initial:
    """The first state that was estimated for the same stretch of motion, if there is one."""
    found: Iterable[Any] = solution.trajectories if solution else ()
    if problem.recordings:
        recording, slack = problem.recordings[index], 1e-6 * problem.step
        found = [t for t in found if t.name == recording.name and abs(t.t[0] - recording.t[0]) <= slack]
    first = next((t for t in found if t.q.shape[1] == len(problem.model.bodies)), None)
    return None if first is None else (first.q[0], first.v[0])


def _sentence(problem: Declaration, comparison: Comparison) -> str:
    sizes = zip(comparison.rms.items(), comparison.units, strict=True)
    known = [f"{signal} {quantity(rms, unit)}" for (signal, rms), unit in sizes if not math.isnan(rms)]
    difference = f"; rms difference {', '.join(known)}" if known else ""
    exact = " (friction 'mpcc' steps forward as 'exact' does)" if problem.friction == "mpcc" else ""
    steps = f"in steps of {number(problem.step, 6)} s{exact}"
    return f"simulated {number(comparison.duration, 6)} s {steps}{difference}"
