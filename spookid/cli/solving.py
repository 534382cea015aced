"""``spookid solve``: a fit and its folder of results."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from spookid.assembly.problem import Problem
from spookid.cli import terminal
from spookid.cli.runner import CommandJob, Run, each, ended, scheduled, start
from spookid.cli.terminal import Exit, Interruption
from spookid.estimation.questions import CLOCK, asking, questions
from spookid.estimation.solving import planned
from spookid.estimation.solving import solve as estimate
from spookid.report import export
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.results.values import Basin
from spookid.solvers.status import Status
from spookid.studies.job import unfinished

if TYPE_CHECKING:
    from spookid.studies.sweep_points import SweepPoint

RESULTS = Path("results")
"""Where results go unless the user says otherwise."""


def solve(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem and write its result folder."""
    with nullcontext() if arguments.no_figures else export.drawing() as aside:
        run = start(arguments, interruption)
        with scheduled(arguments) as run.executor:
            return each(run, lambda job: partial(_solve, run, job, aside), marker=export.MARKER, home=RESULTS)


@contextmanager
def _asked(run: Run, job: CommandJob) -> Iterator[Sequence[Finding]]:
    """Questions about the problem; they are in its summary, or on stderr if none is printed. The one about the clock is
    there at once: with a wrong clock the fit takes too long."""
    found, summarized = questions(job.problem), False
    job.ask(one for one in found if one.code == CLOCK)
    try:
        yield found
        summarized = not run.arguments.quiet
    finally:
        job.ask(one for one in found if one.code != CLOCK and not summarized)


def _solve(run: Run, job: CommandJob, aside: Connection | None) -> Exit:
    with _asked(run, job) as asked:
        return _solved(run, job, aside, asked)


def _solved(run: Run, job: CommandJob, aside: Connection | None, asked: Sequence[Finding]) -> Exit:
    plan = planned(job.problem, run.arguments.backend, run.options) if run.arguments.plan else None
    if plan is not None:
        run.say(str(plan))
    try:
        if run.arguments.starts == 1 and (run.arguments.jobs or run.executor):
            solution = asking(job.problem, _jointly(run, job), None, asked)
        else:
            problem, found = _begun(run, job)
            with run.fitting(job.label, problem) as callback, run.kept.searching(problem):
                solution = estimate(problem, run.arguments.backend, run.options, callback).changed(basins=found)
            solution = asking(job.problem, solution, partial(_again, run, job), asked)
        solution, arguments = solution.changed(source=run.file.source(job.key)), run.arguments
        export.save(
            *(solution, job.folder),
            figures=not arguments.no_figures,
            aside=aside,
            show=lambda text: run.say(solution.summary(verbose=True) if arguments.verbose else text),
        )
        if plan is not None:
            run.say(str(plan.done(solution)))
        run.show_place(job.folder, run.file.several)
    finally:
        run.interruption.kept()
    if solution.status is Status.INTERRUPTED:
        terminal.complain(f"interrupted; the best iterate of {job.label} is in {job.out}; repeat the command to resume")
        return Exit.INTERRUPTED
    if run.interruption.asked:
        terminal.complain(f"interrupted; the results of problem {job.label} are in folder {job.out}")
        return Exit.INTERRUPTED
    if solution.no_answer:
        return ended(f"{job.label} is {solution.no_answer}; its results are in {job.out}")
    warnings = [finding.code for finding in solution.findings if finding.severity == "warning"]
    if arguments.strict and warnings:
        return ended(f"{job.label} has warnings ({', '.join(dict.fromkeys(warnings))}); its results are in {job.out}")
    return Exit.DONE


def _again(run: Run, job: CommandJob, problem: Problem) -> Solution:
    """A fit that tests a cause of doubt; a signal ends it."""
    with run.fitting(f"{job.label}, sensors tried", problem) as callback:
        return estimate(problem, run.arguments.backend, run.options, callback)


def _jointly(run: Run, job: CommandJob) -> Solution:
    """The joint fit over workers, which the same command continues; a signal ends it at once, because all is kept."""
    from spookid.studies.joint_fit import fit_jointly  # with workers
    from spookid.studies.joint_fit import planned as planned_jointly
    from spookid.studies.worker_pool import WorkerPool

    pool = WorkerPool(run.arguments.jobs or 1, run.executor)
    plan = planned_jointly(job.sent, unfinished(job.folder) / "joint", pool)
    names = [parameter.name for parameter in job.problem.free]
    try:
        with terminal.SolverLine(job.label, names, run.watched) as line:
            return fit_jointly(plan, pool, line.show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the finished fits of {job.label} are saved; repeat the command to resume") from None


def _begun(run: Run, job: CommandJob) -> tuple[Problem, tuple[Basin, ...]]:
    """The problem with the initial values of its best start, which workers solve and a folder keeps, and where all
    starts ended; the problem itself for a single start."""
    count = run.arguments.starts
    if count == 1:
        return job.problem, ()
    from spookid.studies.starting import planned as planned_starts
    from spookid.studies.starting import searched  # with workers

    plan = planned_starts(job.sent, count, run.arguments.seed)
    with job.counting(count, f"starts of {job.label} are solved", "starts") as done:

        def seen(point: SweepPoint, before: bool) -> None:
            done(before, point.status is not None)

        guesses, found = searched(plan, unfinished(job.folder) / "starts", run.arguments.jobs, run.executor, seen)
    problem = job.problem
    return problem.with_(initial=problem.parameter_set.updated(problem.initial, guesses)), found
