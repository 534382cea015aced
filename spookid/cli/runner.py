"""Running a command on the problems of a file: each with its own folder, one after another; the worst status counts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from spookid.assembly.loading import ProblemFile, is_folder_name, load_file
from spookid.assembly.problem import Problem
from spookid.cli import terminal
from spookid.cli.terminal import Exit, Interruption
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.records import dataclass
from spookid.registry import Study
from spookid.report.study_page import Answer
from spookid.results import folders
from spookid.results.findings import Finding
from spookid.results.result import Solution
from spookid.solvers.status import Callback, Iteration
from spookid.stepping.simulation import Progress
from spookid.studies.job import Job, KeptFits, unfinished

Work: TypeAlias = Callable[[], Exit]
"""What is left to do for a problem once all that can be known before is checked; it may take hours."""


@dataclass(eq=False)
class Run:
    """A running command: its problem file, its arguments, and its interruption."""

    file: ProblemFile
    arguments: Namespace
    interruption: Interruption
    kept: KeptFits = field(default_factory=KeptFits)
    """Of the problem that is being worked on."""
    executor: Executor | None = None
    """Of the scheduler, if one is named."""
    forecast: terminal.Forecast = field(default_factory=terminal.Forecast)
    """Time that the fits of the present study still take."""

    @property
    def watched(self) -> bool:
        """True if progress is shown."""
        return terminal.wanted(self.arguments.quiet)

    @property
    def options(self) -> dict[str, Any]:
        """Solver options that the command line gives."""
        given = {name: getattr(self.arguments, name) for name in ("max_iterations", "threads")}
        return {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def fitting(self, label: str, problem: Problem) -> Iterator[Callback]:
        """Callback of a fit at every iterate: shows progress, and stops the fit after a signal."""
        names = [parameter.name for parameter in problem.free]
        with terminal.SolverLine(label, names, self.watched) as line:

            def callback(iteration: Iteration) -> None:
                line.show(iteration)
                self.interruption.checkpoint()

            yield callback

    def job(self, key: str, out: Path | None, whole: bool = False) -> CommandJob:
        """Job for one problem, or for all problems of the file."""
        file, arguments, several = self.file, self.arguments, self.file.several and not whole
        source = None if arguments.source is None else Path(arguments.source)
        return CommandJob(
            file.problems if whole else {key: file.problems[key]},
            f"{file.path}::{key}" if several else str(arguments.problem if whole else file.path),
            f"{file.path.absolute()}::{key}",
            "" if whole else key if several else file.problems[key].name,
            out,
            source / key if source is not None and several and (source / key).is_dir() else source,
            arguments,
            self.executor,
            key,
            self,
        )

    def only(self, out: Path | None = None) -> CommandJob:
        """Problem of a file with one problem, or the selected problem."""
        if len(self.file.problems) > 1:
            path, keys = self.file.path, list(self.file.problems)
            raise ProblemError(f"{path} holds several problems ({', '.join(keys)}); pick one, {path}::{keys[0]}")
        return self.job(next(iter(self.file.problems)), out)

    def keeping(self, out: str | Path | None, work: Work) -> Exit:
        """Context in which finished fits are stored until the result folder is written."""
        how = [self.arguments.command, self.arguments.backend, self.options | {"threads": None}]
        self.kept = KeptFits(None if out is None else unfinished(out), how)
        end = work()
        if end is not Exit.INTERRUPTED:
            self.kept.end()
        return end

    def show_place(self, folder: Path | None, several: bool, shown: bool = True) -> None:
        """Print where results were written; an empty line separates several."""
        lines = []
        if folder is not None:
            others = folders.foreign(folder)
            left = f"; not of spookid, and left there: {', '.join(others)}" if others else ""
            lines.append(("\n" if shown else "") + f"Written to {folder}{left}")
        lines += [""] if several else []
        if lines:
            self.say("\n".join(lines))

    def say(self, text: str) -> None:
        """Print a line on stdout, unless the option --quiet is set."""
        if not self.arguments.quiet:
            terminal.say(text)


def scheduled(arguments: Namespace) -> AbstractContextManager[Executor | None]:
    """Executor of the Dask scheduler, if the command names one."""
    if arguments.scheduler is None:
        return nullcontext()
    from spookid.studies.worker_pool import cluster  # with Dask

    return cluster(arguments.scheduler)


def start(arguments: Namespace, interruption: Interruption) -> Run:
    """Load the problem file; names on the command line must be known to at least one problem."""
    file = load_file(arguments.problem)
    known = dict.fromkeys(name for problem in file.problems.values() for name in problem.parameter_set.known)
    for flag, names in (("--set", [name for name, _ in arguments.set]), ("--fix", getattr(arguments, "fix", []))):
        for name in names:
            if name not in known:
                raise ProblemError(
                    f"{flag} {name}: {file.path} has no parameter {name!r}; its parameters are "
                    f"{', '.join(known) or 'none'}"
                )
    return Run(file, arguments, interruption)


@dataclass(frozen=True, eq=False)
class CommandJob(Job):
    """Job of a running command."""

    key: str
    """Of its problem in the file."""
    run: Run

    def fit(self, problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
        """Fit a problem as ``Job``, with the solver options of the command line."""
        run, backend = self.run, self.arguments.backend
        label = ", ".join(filter(None, [self.label, run.forecast.text, doing]))

        def solved() -> Solution:
            with run.fitting(label, problem) as callback, run.forecast.timing():
                return solve(problem, backend, run.options, callback, near, hold)

        try:
            solution = run.kept.fit(problem, solved)
        finally:
            run.interruption.kept()
        run.forecast.left -= 1
        run.interruption.heed()
        return solution

    def expect(self, fits: int) -> None:
        """As of ``Job``."""
        self.run.forecast = terminal.Forecast(fits)

    @property
    def columns(self) -> int:
        """As of ``Job``."""
        return terminal.columns()

    def say(self, text: str) -> None:
        """As of ``Job``."""
        self.run.say(text)

    def complain(self, text: str) -> None:
        """As of ``Job``."""
        terminal.complain(text)

    def ask(self, questions: Iterable[Finding]) -> None:
        """Print the questions about the job's problem on stderr."""
        for question in questions:
            terminal.complain(f"{self.label}: {question.text}")

    def along(self, label: str) -> Progress:
        """As of ``Job``."""
        return terminal.along(label, self.run.watched)

    @contextmanager
    def counting(self, total: int, kept: str, doing: str = "") -> Iterator[Callable[[bool, bool], None]]:
        """As of ``Job``."""
        done: list[bool] = []
        try:
            with terminal.counting(", ".join(filter(None, [self.label, doing])), total, self.run.watched) as show:

                def count(before: bool, known: bool) -> None:
                    done.append(known)
                    show(before)

                yield count
        except KeyboardInterrupt:
            told = f"{sum(done)} of {total} {kept}; the same command does the rest"
            raise KeyboardInterrupt(told) from None


def studied(study: Study, arguments: Namespace, interruption: Interruption) -> Exit:
    """Run a study on the problems of a file, write its result folders and print the results."""
    run = start(arguments, interruption)

    def prepare(job: CommandJob) -> Work:
        return partial(answered, job, study.function(job))

    def answered(job: CommandJob, work: Callable[[], Answer]) -> Exit:
        answer = work()
        if job.out is not None and not study.continued:
            answer.save(job.out, study.marker)
        if answer.text:
            run.say(answer.text)
        run.show_place(job.out, run.file.several and not study.whole, bool(answer.text))
        return ended(*answer.complaints)

    with scheduled(arguments) as run.executor:
        return each(run, prepare, marker=study.marker, whole=study.whole, continued=study.continued)


def each(
    run: Run,
    prepare: Callable[[CommandJob], Work],
    *,
    marker: str | None = None,
    home: Path | None = None,
    whole: bool = False,
    continued: bool = False,
) -> Exit:
    """Process each problem of the file; all are prepared before the first one is processed."""
    file, arguments = run.file, run.arguments
    outs = {str(file.path): Path(arguments.out)} if whole else _outs(file, arguments.out, home)

    jobs: dict[str, Work] = {}

    def ready(key: str) -> Exit:
        target = outs.get(key)
        if marker is not None and target is not None:
            (folders.check_continued if continued else folders.check_target)(target, marker)
        jobs[key] = partial(run.keeping, target, prepare(run.job(key, target, whole)))
        return Exit.DONE

    prepared = _round(run, list(outs if whole else file.problems), ready)
    if prepared is Exit.INTERRUPTED:
        return prepared
    return worst(prepared, _round(run, list(jobs), lambda key: jobs[key]()))


def _round(run: Run, keys: list[str], work: Callable[[str], Exit]) -> Exit:
    """Wrong input of one problem does not keep the others from their turn, an interrupt does."""
    ends = [Exit.DONE]
    for done, key in enumerate(keys, start=1):
        try:
            ends.append(work(key))
            if run.interruption.asked and ends[-1] is not Exit.INTERRUPTED:
                terminal.complain(f"interrupted; {key} had ended")
                ends.append(Exit.INTERRUPTED)
        except (Exception, KeyboardInterrupt) as error:
            ends.append(_failed(run, key, error))
        if ends[-1] is Exit.INTERRUPTED:
            if keys[done:]:
                terminal.complain(f"not started: {', '.join(keys[done:])}")
            break
    return worst(*ends)


def _failed(run: Run, key: str, error: BaseException) -> Exit:
    """Say why there is nothing of a problem, if that is no error of ours."""
    if run.interruption.told_by(error):
        kept = f"; {run.kept.count} of its fits are saved; repeat the command to resume" if run.kept.count else ""
        told = str(error) if isinstance(error, KeyboardInterrupt) else ""
        terminal.complain(f"interrupted; {told}" if told else f"interrupted before {key} was done{kept}")
        return Exit.INTERRUPTED
    if isinstance(error, ProblemError):
        terminal.complain(f"error: {f'{key}: ' if run.file.several else ''}{error}")
    elif isinstance(error, MemoryError):
        size = str(error) or "memory ran out"
        terminal.complain(f"error: problem {key}: {size}; choose a larger time step or a shorter duration")
    else:
        raise error
    return Exit.WRONG_INPUT


def ended(*complaints: str) -> Exit:
    """Complaint about how a problem ended, from texts of which some are not empty."""
    for complaint in filter(None, complaints):
        terminal.complain(complaint)
    return Exit.NOT_CONVERGED if any(complaints) else Exit.DONE


def worst(*ends: Exit) -> Exit:
    """Of several ends."""
    return min(ends, key=list(Exit).index)


def _outs(file: ProblemFile, out: str | None, home: Path | None) -> Mapping[str, Path]:
    """The folder of each problem; none if nobody names one."""
    if out is not None:
        return {key: Path(out) / key if file.several else Path(out) for key in file.problems}
    if home is None:
        return {}
    names = [problem.name for problem in file.problems.values()]
    for name in names:
        if not is_folder_name(name):
            raise ProblemError(f"{file.path}: the problem's name {name!r} is no folder name; give a folder with --out")
        if names.count(name) > 1:
            raise ProblemError(
                f"{file.path} has {names.count(name)} problems named {name!r}, which would share a folder; rename all "
                "but one or give a folder with --out"
            )
    return {key: home / problem.name for key, problem in file.problems.items()}
