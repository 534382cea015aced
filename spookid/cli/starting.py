"""``spookid solve --starts``: the guesses of the best of several starts, which workers solve and a folder keeps."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.runner import Job, Run
from spookid.report.kept_fits import unfinished
from spookid.results.values import Basin
from spookid.studies.settings import Variant

if TYPE_CHECKING:
    from spookid.studies.sweep_points import SweepPoint


def begun(run: Run, job: Job, variant: Variant, executor: Executor | None) -> tuple[Declaration, tuple[Basin, ...]]:
    """The problem with the guesses of its best start, and where all ended; itself if there is to be one start.

    Raises:
        KeyboardInterrupt: once the user has interrupted; what is solved by then is kept beside the folder of results.
    """
    count = run.arguments.starts
    if count == 1:
        return job.problem, ()
    from spookid.studies.starting import planned, searched  # with workers

    path = f"{run.file.path.absolute()}::{job.key}"
    plan = planned(run.file.problems[job.key], path, count, run.arguments.seed, variant)
    known: list[SweepPoint] = []
    try:
        with progress.counting(f"{job.label}, starts", count, run.watched) as done:

            def seen(point: SweepPoint, before: bool) -> None:
                known.append(point)
                done(before)

            guesses, found = searched(plan, unfinished(job.folder) / "starts", run.arguments.jobs, executor, seen)
    except KeyboardInterrupt:
        solved = sum(point.status is not None for point in known)
        terminal.complain(f"{solved} of {count} starts of {job.label} are solved; the same command does the rest")
        raise
    problem = job.problem
    return problem.with_(initial=problem.parameter_set.updated(problem.initial, guesses)), found
