"""Running a command on the problems of a file: each with its own folder, one after another; the worst status counts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias

from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import ProblemFile, is_folder_name, load_file
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.results import folders
from spookid.results.result import Result
from spookid.studies.settings import STEPPERS

_SETTINGS = ("step", "state_weight", "friction", "friction_width", "cutoff")

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


@dataclass(frozen=True, eq=False)
class Run:
    """A command that runs: its problem file, its arguments, and what may interrupt it."""

    file: ProblemFile
    arguments: Namespace
    interruption: Interruption

    @property
    def watched(self) -> bool:
        """True if progress is to be shown."""
        return progress.wanted(self.arguments.quiet)

    @property
    def options(self) -> dict[str, Any]:
        """Of the solver, those that are given."""
        given = {name: getattr(self.arguments, name, None) for name in ("max_iterations", "threads")}
        return {name: value for name, value in given.items() if value is not None}

    def line(self, label: str, problem: Declaration) -> progress.SolverLine:
        """The progress of a fit."""
        return progress.SolverLine(label, [parameter.name for parameter in problem.free], self.watched)

    def fit(self, label: str, problem: Declaration, solve: Callable[[Any], Result]) -> Result:
        """One of several fits; ``solve`` takes the callback.

        Raises:
            KeyboardInterrupt: once the user has interrupted; the solver took it for the end of its fit.
        """
        with self.line(label, problem) as line:
            solution = solve(line.show)
        if self.interruption.asked:
            raise KeyboardInterrupt
        return solution

    def refit(self, label: str, problem: Declaration, near: Result | None) -> Result:
        """A fit from a solution near by, if there is one."""
        backend, options = self.arguments.backend, self.options
        return self.fit(label, problem, lambda show: solve(problem, backend, options, show, near))

    def show(self, text: str, folder: Path | None) -> None:
        """What was found and where it was written, unless the user wants quiet; an empty line parts several."""
        written = "" if folder is None else f"\n\nWritten to {folder}"
        self.say(text + written + ("\n" if self.file.several else ""))

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
        return prepare(Job(problem, key, place, key if file.several else file.problems[key].name, out))

    return in_turn(file.problems, file.several, ready)


def in_turn(keys: Iterable[str], several: bool, prepare: Callable[[str], Work]) -> Exit:
    """Prepare all, then work on all that are ready; names of ``several`` stand in their messages."""
    jobs: dict[str, Work] = {}

    def collect(key: str) -> Exit:
        jobs[key] = prepare(key)
        return Exit.DONE

    prepared = _round(list(keys), several, collect)
    if prepared is Exit.INTERRUPTED:
        return prepared
    return worst(prepared, _round(list(jobs), several, lambda key: jobs[key]()))


def _round(keys: list[str], several: bool, work: Callable[[str], Exit]) -> Exit:
    """Wrong input of one problem does not keep the others from their turn, an interrupt does."""
    ends = [Exit.DONE]
    for done, key in enumerate(keys, start=1):
        try:
            ends.append(work(key))
        except ProblemError as error:
            terminal.complain(f"error: {f'{key}: ' if several else ''}{error}")
            ends.append(Exit.WRONG_INPUT)
        except MemoryError as error:
            size = str(error) or "memory ran out"
            terminal.complain(f"error: {key}: {size}; take a larger step or a shorter duration")
            ends.append(Exit.WRONG_INPUT)
        except KeyboardInterrupt:
            terminal.complain(f"interrupted; nothing of {key} was written")
            ends.append(Exit.INTERRUPTED)
        if ends[-1] is Exit.INTERRUPTED:
            if keys[done:]:
                terminal.complain(f"not started: {', '.join(keys[done:])}")
            break
    return worst(*ends)


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
