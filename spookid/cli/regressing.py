"""The command ``regress``."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit, Job, Work, each, source_of, start
from spookid.report import export
from spookid.report import regression as regressions
from spookid.results.result import Result
from spookid.solvers.status import Status
from spookid.studies.regression import regress as regressed


def regress(arguments: Namespace, interruption: Interruption) -> Exit:
    """Regress each problem's recordings, and set what is found beside a fit."""
    run = start(arguments, interruption)

    def prepare(job: Job) -> Work:
        folder = source_of(run, job.key)
        return partial(work, job, None if folder is None else export.load(folder))

    def work(job: Job, solution: Result | None) -> Exit:
        choice = {name: getattr(arguments, name) for name in ("method", "filter", "unknowns")}
        found = regressed(job.problem, **choice)
        if solution is None and not arguments.alone:
            solution = run.refit(job.label, job.problem, None)
        if solution is not None:
            found = found.beside(solution)
        if job.out is not None:
            regressions.save(job.out, found)
        run.show(str(found), job.out)
        if solution is None or solution.status is Status.CONVERGED:
            return Exit.DONE
        terminal.complain(f"{job.label}: the fit beside it is not converged ({solution.status.value})")
        return Exit.NOT_CONVERGED

    return each(run, prepare, marker=regressions.MARKER)
