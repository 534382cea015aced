"""``spookid check``: what a problem is made of."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from spookid.assembly.assembly import assemble
from spookid.cli import terminal
from spookid.cli.interruption import Interruption
from spookid.cli.overview import describe, describe_unrecorded
from spookid.cli.runner import Exit, Job, each, start
from spookid.errors import ProblemError
from spookid.estimation.questions import questions
from spookid.tables.table import wrapped


def check(arguments: Namespace, interruption: Interruption) -> Exit:
    """Describe each problem on stdout."""
    run = start(arguments, interruption)
    if arguments.trajectory is None and (arguments.source or arguments.noise or arguments.until):
        raise ProblemError(
            "--from, --noise and --until of a check speak of a planned motion; name it with --trajectory"
        )

    def work(job: Job) -> Exit:
        if arguments.trajectory is not None:
            from spookid.cli.exciting import foretold  # with what plans motions

            terminal.say(f"{foretold(run, job)}\n" if run.file.several else foretold(run, job))
            return Exit.DONE
        title = f"{job.problem.name} ({job.place})"
        told = title, run.file.description, terminal.columns()
        recorded = bool(job.problem.recordings)
        for question in questions(job.problem):  # first, for what is asked about may be too large to be built
            terminal.say("\n".join(wrapped(question, terminal.columns())) + "\n")
        page = describe(assemble(job.problem), *told) if recorded else describe_unrecorded(job.problem, *told)
        terminal.say(f"{page}\n" if run.file.several else page)
        return Exit.DONE

    return each(run, lambda job: partial(work, job))
