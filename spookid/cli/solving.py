"""``spookid solve``: a fit and its folder of results."""

from __future__ import annotations

from argparse import Namespace
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from spookid.cli import starting, terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit, Job, Run, each, ended, scheduled, start, variant
from spookid.estimation.questions import asking, questions
from spookid.estimation.solving import solve as estimate
from spookid.report import export
from spookid.report.forked import Copy
from spookid.report.summary import summarize
from spookid.solvers.status import Status

RESULTS = Path("results")
"""Where results go unless the user says otherwise."""


def solve(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem and write its result folder."""
    with nullcontext() if arguments.no_figures else export.drawing() as aside:
        run = start(arguments, interruption)
        with scheduled(arguments) as executor:
            return each(run, lambda job: partial(_solve, run, job, executor, aside), marker=export.MARKER, home=RESULTS)


def _solve(run: Run, job: Job, executor: Executor | None, aside: Copy | None) -> Exit:
    asked = questions(job.problem)
    for question in asked:
        terminal.complain(f"{job.label}: {question}")
    changed = variant(run.arguments, job.problem.parameter_set.known)
    try:
        if run.arguments.starts == 1 and (run.arguments.jobs or executor):
            from spookid.cli import jointly  # with workers

            solution, again = jointly.solved(run, job, changed, executor), None
        else:
            problem, found = starting.begun(run, job, changed, executor)
            with run.fitting(job.label, problem) as callback, run.kept.searching(problem):
                solution = estimate(problem, run.arguments.backend, run.options, callback).changed(basins=found)
            again = partial(estimate, backend=run.arguments.backend, options=run.options)
        solution = asking(job.problem, solution.changed(source=run.file.source(job.key)), again, asked)
        arguments = run.arguments
        export.save(solution, job.folder, animate=arguments.animate, figures=not arguments.no_figures, aside=aside)
        if run.arguments.animate and not any(job.folder.glob("*.gif")):
            terminal.complain(f"{job.label} has no motion to animate")
        if not run.arguments.quiet:  # a summary takes a while
            run.show(summarize(solution), job.out)
    finally:
        run.interruption.kept()
    if solution.status is Status.INTERRUPTED:
        terminal.complain(f"interrupted; the best iterate of {job.label} is in {job.out}, and the same command goes on")
        return Exit.INTERRUPTED
    if solution.status is Status.CONVERGED:
        return Exit.DONE
    return ended(f"{job.label} is not converged ({solution.status.value}); its results are in {job.out}")
