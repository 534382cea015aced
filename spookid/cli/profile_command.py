"""The work of ``spookid profile`` on one problem."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError
from spookid.estimation.estimation import solve
from spookid.report import profile_folder
from spookid.report.profile_table import table
from spookid.report.wording import number
from spookid.results.result import Result
from spookid.studies.profile import profile


@dataclass(frozen=True, eq=False)
class Job:
    """One problem's profiles."""

    problem: Declaration
    names: tuple[str, ...]
    folder: Path
    label: str
    """What messages call it."""
    gap: str
    """What parts it from the next one on the screen."""


def prepare(problem: Declaration, names: list[str], folder: Path, label: str, several: bool) -> Job:
    """The job, once its names and its folder are known to be right.

    Raises:
        ProblemError: for parameters that are not free, or a folder that is not ours.
    """
    free = [parameter.name for parameter in problem.free]
    for name in names:
        if name not in free:
            raise ProblemError(
                f"--parameter {name}: {label} has no free parameter {name!r}; it has {', '.join(free) or 'none'}"
            )
    profile_folder.check_target(folder)
    return Job(problem, tuple(dict.fromkeys(names)), folder, label, "\n" if several else "")


def work(job: Job, arguments: Namespace, interruption: Interruption) -> bool:
    """Profile, write and show; True if all fits converged."""
    limits = {} if arguments.max_iterations is None else {"max_iterations": arguments.max_iterations}

    def fit(problem: Declaration, near: Result | None) -> Result:
        free = [parameter.name for parameter in problem.free]
        held = [f"{name} = {number(problem.guess[name])}" for name in job.names if name not in free]
        label = ", ".join([job.label, *held])
        with progress.SolverLine(label, free, progress.wanted(arguments.quiet)) as line:
            solution = solve(problem, arguments.backend, limits, line.show, near)
        if interruption.asked:  # the solver took it for the end of its fit
            raise KeyboardInterrupt
        return solution

    solution = fit(job.problem, None)
    profiles = [profile(job.problem, name, fit, solution) for name in job.names]
    profile_folder.save(job.folder, profiles)
    if not arguments.quiet:
        terminal.say(f"{table(profiles)}\n\nWritten to {job.folder}{job.gap}")
    failed = [p.name for p in profiles if not p.converged]
    if failed:
        terminal.complain(f"{job.label}: not every fit of the profile of {', '.join(failed)} converged")
    return not failed
