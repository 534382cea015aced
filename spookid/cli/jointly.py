"""``spookid solve --jobs`` and ``--scheduler``: a joint fit over workers, which the same command goes on with."""

from __future__ import annotations

from concurrent.futures import Executor

from spookid.cli import progress, terminal
from spookid.cli.runner import Job, Run
from spookid.report.kept_fits import unfinished
from spookid.results.result import Result
from spookid.studies.joint_fit import fit_jointly, planned
from spookid.studies.settings import Variant
from spookid.studies.worker_pool import WorkerPool


def solved(run: Run, job: Job, variant: Variant, executor: Executor | None) -> Result:
    """The joint fit; a signal ends it at once, for all is kept.

    Raises:
        KeyboardInterrupt: once the user has interrupted.
    """
    path, folder = f"{run.file.path.absolute()}::{job.key}", unfinished(job.folder) / "joint"
    pool = WorkerPool(run.arguments.jobs or 1, executor)
    plan = planned(run.file.problems[job.key], path, variant, folder, pool)
    names = [parameter.name for parameter in job.problem.free]
    try:
        with progress.SolverLine(job.label, names, run.watched) as line:
            found = fit_jointly(plan, pool, line.show)
    except KeyboardInterrupt:
        terminal.complain(f"what was done of {job.label} is kept; the same command goes on")
        raise
    return found
