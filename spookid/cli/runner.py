"""Running a command on the problems of a file: each with its own folder, one after another; the worst status counts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import ProblemFile, is_folder_name, load_file
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.records import dataclass
from spookid.report.export import KeptFits, unfinished
from spookid.results import folders
from spookid.results.result import Result
from spookid.solvers.status import Callback, Iteration
from spookid.studies.axes import AxisValue
from spookid.studies.settings import STEPPERS, Variant

_SETTINGS = ("step", "state_weight", "friction", "friction_width", "cutoff")
_SWEPT = (*_SETTINGS, "stepper", "backend", "max_iterations")

Work: TypeAlias = Callable[[], "Exit"]
"""What is left to do for a problem once all that can be known before is checked; it may take hours."""


class Exit(IntEnum):
    """Exit status of a command; of several the worst counts, which is the first here."""

    INTERRUPTED = 130
    WRONG_INPUT = 2
    NOT_CONVERGED = 3
    DONE = 0


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be done with one problem."""

    problem: Declaration
    """As the command line changes it."""
    key: str
    """In its file."""
    place: str
    """``PROBLEM.py::key``, or the file alone if it holds one."""
    label: str
    """What messages call it."""
    out: Path | None
    """Its folder; None if nothing is to be written."""

    @property
    def folder(self) -> Path:
        """Of a command that always writes one."""
        assert self.out is not None
        return self.out


@dataclass(eq=False)
class Run:
    """A command that runs: its problem file, its arguments, and what may interrupt it."""

    file: ProblemFile
    arguments: Namespace
    interruption: Interruption
    kept: KeptFits = field(default_factory=KeptFits)
    """Of the problem that is being worked on."""

    @property
    def watched(self) -> bool:
        """True if progress is to be shown."""
        return progress.wanted(self.arguments.quiet)

    @property
    def options(self) -> dict[str, Any]:
        """Of the solver, those that are given."""
        given = {name: getattr(self.arguments, name, None) for name in ("max_iterations", "threads")}
        return {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def fitting(self, label: str, problem: Declaration) -> Iterator[Callback]:
        """What a fit calls at every iterate: its progress is shown, and there a signal ends it."""
        with progress.SolverLine(label, [parameter.name for parameter in problem.free], self.watched) as line:

            def callback(iteration: Iteration) -> None:
                line.show(iteration)
                self.interruption.checkpoint()

            yield callback

    def fit(self, label: str, problem: Declaration, solve: Callable[[Callback], Result]) -> Result:
        """One of several fits, unless the same command has finished it before; ``solve`` takes the callback.

        Raises:
            KeyboardInterrupt: once the user has interrupted.
        """

        def solved() -> Result:
            with self.fitting(label, problem) as callback:
                return solve(callback)

        try:
            solution = self.kept.fit(problem, solved)
        finally:
            self.interruption.kept()
        self.interruption.heed()
        return solution

    def refit(self, label: str, problem: Declaration, near: Result | None) -> Result:
        """A fit from a solution near by, if there is one."""
        backend, options = self.arguments.backend, self.options
        return self.fit(label, problem, lambda callback: solve(problem, backend, options, callback, near))

    def keeping(self, out: str | Path | None, work: Work) -> Exit:
        """Work whose fits are kept until its folder is written."""
        how = [self.arguments.command, getattr(self.arguments, "backend", None), self.options | {"threads": None}]
        self.kept = KeptFits(None if out is None else unfinished(out), how)
        end = work()
        if end is not Exit.INTERRUPTED:
            self.kept.end()
        return end

    def show(self, text: str, folder: Path | None) -> None:
        """What was found and where it was written, unless the user wants quiet; an empty line parts several."""
        self.say(text)
        self.show_place(folder)

    def show_place(self, folder: Path | None) -> None:
        """Where what was shown is written."""
        lines = []
        if folder is not None:
            others = folders.foreign(folder)
            left = f"; not of spookid, and left there: {', '.join(others)}" if others else ""
            lines.append(f"\nWritten to {folder}{left}")
        lines += [""] if self.file.several else []
        if lines:
            self.say("\n".join(lines))

    def say(self, text: str) -> None:
        """A line on stdout, unless the user wants quiet."""
        if not self.arguments.quiet:
            terminal.say(text)


def changed(problem: Declaration, arguments: Namespace) -> Declaration:
    """The problem with the settings and, unless it is to be simulated, the guesses of the command line."""
    given = {name: getattr(arguments, name, None) for name in _SETTINGS}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if arguments.stepper is not None:
        changes["stepper"] = STEPPERS[arguments.stepper]
    if "fix" in arguments:
        known = problem.parameter_set.known
        guesses: dict[str, float] = {name: value for name, value in arguments.set if name in known}
        changes["initial"] = problem.parameter_set.updated(problem.initial, guesses)
        changes["fixed"] = {*problem.fixed, *(name for name in arguments.fix if name in known)}
    return problem.with_(**changes)


def scheduled(arguments: Namespace) -> AbstractContextManager[Executor | None]:
    """The executor of the scheduler, if one is named."""
    if arguments.scheduler is None:
        return nullcontext()
    from spookid.studies.worker_pool import cluster  # with Dask

    return cluster(arguments.scheduler)


def variant(arguments: Namespace, names: Container[str]) -> Variant:
    """What the command line changes at all points; ``names`` are those of the problem's parameters."""
    given: dict[str, AxisValue | None] = {name: getattr(arguments, name) for name in _SWEPT}
    return Variant(
        settings={name: value for name, value in given.items() if value is not None},
        initial={name: value for name, value in arguments.set if name in names},
        fixed=tuple(name for name in arguments.fix if name in names),
    )


def start(arguments: Namespace, interruption: Interruption) -> Run:
    """Load the problem file; the names on the command line must be known to one of its problems at least.

    Raises:
        ProblemError: for a wrong file or name.
    """
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


def source_of(run: Run, key: str) -> Path | None:
    """The result folder of one problem: with several problems its own in the user's, if there is one."""
    if run.arguments.source is None:
        return None
    whole = Path(run.arguments.source)
    return whole / key if run.file.several and (whole / key).is_dir() else whole


def each(
    run: Run,
    prepare: Callable[[Job], Work],
    *,
    marker: str | None = None,
    home: Path | None = None,
    change: Callable[[Declaration, Namespace], Declaration] = changed,
) -> Exit:
    """Do one thing for each problem of the file; all are prepared before the first is worked on.

    Args:
        prepare: checks a job and gives its work.
        marker: of the folder to be replaced, if one is.
        home: of folders that have the problems' names, unless the user names one.
        change: makes the problem what the command line asks for.
    """
    file, arguments = run.file, run.arguments
    outs = _outs(file, getattr(arguments, "out", None), home)

    def ready(key: str) -> Work:
        problem = change(file.problems[key], arguments)
        place = f"{file.path}::{key}" if file.several else str(file.path)
        out = outs.get(key)
        if marker is not None and out is not None:
            folders.check_target(out, marker)
        work = prepare(Job(problem, key, place, key if file.several else file.problems[key].name, out))
        return partial(run.keeping, out, work)

    return in_turn(run, file.problems, ready)


def in_turn(run: Run, keys: Iterable[str], prepare: Callable[[str], Work]) -> Exit:
    """Prepare all, then work on all that are ready."""
    jobs: dict[str, Work] = {}

    def collect(key: str) -> Exit:
        jobs[key] = prepare(key)
        return Exit.DONE

    prepared = _round(run, list(keys), collect)
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
        kept = f"; {run.kept.count} of its fits are kept, and the same command goes on" if run.kept.count else ""
        terminal.complain(f"interrupted before {key} was done{kept}")
        return Exit.INTERRUPTED
    if isinstance(error, ProblemError):
        terminal.complain(f"error: {f'{key}: ' if run.file.several else ''}{error}")
    elif isinstance(error, MemoryError):
        size = str(error) or "memory ran out"
        terminal.complain(f"error: {key}: {size}; take a larger step or a shorter duration")
    else:
        raise error
    return Exit.WRONG_INPUT


def ended(*complaints: str) -> Exit:
    """How a problem ended that has these, if any is not empty, to complain about."""
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
