"""The work of ``spookid crossvalidate`` on one problem file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError
from spookid.estimation.estimation import solve
from spookid.report import crossvalidation_folder
from spookid.report.crossvalidation_table import table
from spookid.results.result import Result
from spookid.studies.cases import Case, cases, same_recordings
from spookid.studies.crossvalidation import CrossValidation, Fit, crossvalidate


@dataclass(frozen=True, eq=False)
class Job:
    """The models of a file, those on the same recordings together."""

    title: str
    sets: tuple[tuple[Case, ...], ...]
    folder: Path


def prepare(title: str, problems: Mapping[str, Declaration], folder: Path) -> Job:
    """The job, once there is something to compare and a folder for it.

    Raises:
        ProblemError: if no model has two recordings, or the folder is not ours.
    """
    crossvalidation_folder.check_target(folder)
    sets: list[list[Case]] = []
    for case in cases(problems):
        if len(case.problem.recordings) < 2:
            terminal.complain(f"{case.name} has fewer than two recordings and is left out")
            continue
        home = next((s for s in sets if same_recordings(s[0].problem, case.problem)), None)
        if home is None:
            sets.append(home := [])
        home.append(case)
    if not sets:
        raise ProblemError(f"{title}: cross-validation needs a model with two or more recordings")
    return Job(title, tuple(map(tuple, sets)), folder)


def work(job: Job, arguments: Namespace, interruption: Interruption) -> bool:
    """Cross-validate, write and show; True if all fits converged."""
    results = [_side_by_side(cases, arguments, interruption) for cases in job.sets]
    crossvalidation_folder.save(job.folder, job.title, results)
    if not arguments.quiet:
        tables = "\n\n\n".join(table(models) for models in results)
        terminal.say(f"{tables}\n\nWritten to {job.folder}")
    failed = [model.name for models in results for model in models if not model.converged]
    if failed:
        terminal.complain(f"not every fit of {', '.join(failed)} converged")
    return not failed


def _side_by_side(cases: tuple[Case, ...], arguments: Namespace, interruption: Interruption) -> list[CrossValidation]:
    """Models on the same recordings."""
    return [crossvalidate(case.problem, _fit(case.name, arguments, interruption), case.name) for case in cases]


def _fit(label: str, arguments: Namespace, interruption: Interruption) -> Fit:
    limits = {} if arguments.max_iterations is None else {"max_iterations": arguments.max_iterations}

    def fit(problem: Declaration, near: Result | None, purpose: str) -> Result:
        names = [parameter.name for parameter in problem.free]
        with progress.SolverLine(f"{label}, {purpose}", names, progress.wanted(arguments.quiet)) as line:
            solution = solve(problem, arguments.backend, limits, line.show, near)
        if interruption.asked:  # the solver took it for the end of its fit
            raise KeyboardInterrupt
        return solution

    return fit
