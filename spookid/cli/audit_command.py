"""The work of ``spookid audit`` on one problem."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.estimation.estimation import solve
from spookid.report import audit_plot
from spookid.report.wording import number
from spookid.results.result import Result
from spookid.solvers.status import Status
from spookid.studies.audit import audit


@dataclass(frozen=True, eq=False)
class Job:
    """One problem's audit."""

    problem: Declaration
    folder: Path | None
    label: str
    """What messages call it."""
    gap: str
    """What parts it from the next one on the screen."""


def prepare(problem: Declaration, folder: Path | None, label: str, several: bool) -> Job:
    """The job, once its folder, if any, is known to be right.

    Raises:
        ProblemError: for a folder that is not ours.
    """
    if folder is not None:
        audit_plot.check_target(folder)
    return Job(problem, folder, label, "\n" if several else "")


def work(job: Job, arguments: Namespace, interruption: Interruption) -> bool:
    """Fit, write and show; True if all fits converged."""
    limits = {} if arguments.max_iterations is None else {"max_iterations": arguments.max_iterations}
    names = [parameter.name for parameter in job.problem.free]

    def fit(problem: Declaration, near: Result | None, hold: bool) -> Result:
        label = f"{job.label}, step {number(problem.step, 6)} s"
        with progress.SolverLine(label, names, progress.wanted(arguments.quiet)) as line:
            solution = solve(problem, arguments.backend, limits, line.show, near, hold)
        if interruption.asked:  # the solver took it for the end of its fit
            raise KeyboardInterrupt
        return solution

    result = audit(job.problem, fit)
    written = ""
    if job.folder is not None:
        audit_plot.save(job.folder, result)
        written = f"\n\nWritten to {job.folder}"
    if not arguments.quiet:
        terminal.say(f"{result.table()}{written}{job.gap}")
    failed = [
        f"{number(step, 6)} s ({status.value})"
        for step, status in zip(result.steps, result.statuses, strict=True)
        if status is not Status.CONVERGED
    ]
    if failed:
        terminal.complain(f"{job.label} is not converged with the step {', '.join(failed)}")
    return not failed
