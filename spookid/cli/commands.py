"""What the commands do once their arguments are parsed. Each returns the exit status."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from spookid.assembly.assembly import assemble
from spookid.assembly.declaration import Declaration
from spookid.assembly.loading import ProblemFile, is_folder_name, load_file
from spookid.cli import (
    audit_command,
    crossvalidation_command,
    profile_command,
    progress,
    simulate_command,
    sweep_command,
    terminal,
)
from spookid.cli.interruption import Interruption
from spookid.cli.overview import describe
from spookid.errors import ProblemError
from spookid.estimation.estimation import solve as fit
from spookid.report import export
from spookid.report.summary import summarize
from spookid.solvers.status import Iteration, Status
from spookid.studies import axes as grids
from spookid.studies import sweeping
from spookid.studies.settings import STEPPERS

RESULTS = Path("results")
"""Where results go unless the user says otherwise."""
_SETTINGS = ("step", "state_weight", "friction", "friction_width", "cutoff")

T = TypeVar("T")


class Exit(IntEnum):
    """Exit status of a command; of several the worst counts, which is the first here."""

    INTERRUPTED = 130
    WRONG_INPUT = 2
    NOT_CONVERGED = 3
    DONE = 0


def check(arguments: Namespace, interruption: Interruption) -> Exit:
    """Describe each problem on stdout."""
    file = _load(arguments)

    def prepare(key: str) -> tuple[str, Declaration]:
        return key, _changed(file.problems[key], arguments)

    def work(job: tuple[str, Declaration]) -> Exit:
        key, problem = job
        page = describe(assemble(problem), f"{problem.name} ({_name(file, key)})", file.description, terminal.columns())
        terminal.say(f"{page}\n" if file.several else page)
        return Exit.DONE

    return _each(file, prepare, work)


# --- solve ---


@dataclass(frozen=True, eq=False)
class _Solve:
    problem: Declaration
    folder: Path
    label: str
    """What messages call it."""
    gap: str
    """What parts it from the next one on the screen."""


def solve(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem and write its result folder."""
    file = _load(arguments)
    folders = _folders(file, arguments.out)

    def prepare(key: str) -> _Solve:
        problem = _changed(file.problems[key], arguments)
        export.check_target(folders[key])
        return _Solve(problem, folders[key], key if file.several else problem.name, "\n" if file.several else "")

    return _each(file, prepare, lambda job: _solve(job, arguments, interruption))


def _solve(job: _Solve, arguments: Namespace, interruption: Interruption) -> Exit:
    given = {"max_iterations": arguments.max_iterations, "threads": arguments.threads}
    options = {name: value for name, value in given.items() if value is not None}
    names = [parameter.name for parameter in job.problem.free]
    try:
        with progress.SolverLine(job.label, names, progress.wanted(arguments.quiet)) as line:

            def callback(iteration: Iteration) -> None:
                line.show(iteration)
                interruption.checkpoint()

            solution = fit(job.problem, arguments.backend, options, callback)
        export.save(solution, job.folder)
    finally:
        interruption.kept()
    if not arguments.quiet:
        terminal.say(f"{summarize(solution)}\n\nWritten to {job.folder}{job.gap}")
    if solution.status is Status.INTERRUPTED:
        terminal.complain(f"interrupted; the best iterate of {job.label} is in {job.folder}")
        return Exit.INTERRUPTED
    if interruption.asked:
        terminal.complain(f"interrupted; {job.label} had ended and is in {job.folder}")
        return Exit.INTERRUPTED
    if solution.status is not Status.CONVERGED:
        terminal.complain(f"{job.label} is not converged ({solution.status.value}); its results are in {job.folder}")
        return Exit.NOT_CONVERGED
    return Exit.DONE


# --- simulate ---


def simulate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Simulate each problem on each of its recordings, and write its simulation folder."""
    file = _load(arguments)
    folders = _folders(file, arguments.out)

    def prepare(key: str) -> simulate_command.Job:
        problem, label = file.problems[key], key if file.several else file.problems[key].name
        source = _source(file, key, arguments.source)
        return simulate_command.prepare(_changed(problem, arguments), arguments, source, folders[key], label)

    def work(job: simulate_command.Job) -> Exit:
        return Exit.DONE if simulate_command.work(job, arguments) else Exit.NOT_CONVERGED

    return _each(file, prepare, work)


def _source(file: ProblemFile, key: str, directory: str | None) -> Path | None:
    """The result folder of one problem: with several problems its own in ``directory``, if there is one."""
    if directory is None:
        return None
    own = Path(directory) / key
    return own if file.several and own.is_dir() else Path(directory)


# --- audit ---


def audit(arguments: Namespace, interruption: Interruption) -> Exit:
    """Fit each problem with three time steps, and say which estimates depend on the step."""
    file = _load(arguments)
    folders = {} if arguments.out is None else _folders(file, arguments.out)

    def prepare(key: str) -> audit_command.Job:
        problem, label = _changed(file.problems[key], arguments), key if file.several else file.problems[key].name
        return audit_command.prepare(problem, folders.get(key), label, file.several)

    def work(job: audit_command.Job) -> Exit:
        return Exit.DONE if audit_command.work(job, arguments, interruption) else Exit.NOT_CONVERGED

    return _each(file, prepare, work)


# --- profile ---


def profile(arguments: Namespace, interruption: Interruption) -> Exit:
    """Refit each problem along its parameters, and write its folder of profiles."""
    file = _load(arguments)
    folders = _folders(file, arguments.out)

    def prepare(key: str) -> profile_command.Job:
        problem, label = _changed(file.problems[key], arguments), key if file.several else file.problems[key].name
        return profile_command.prepare(problem, arguments.parameter, folders[key], label, file.several)

    def work(job: profile_command.Job) -> Exit:
        return Exit.DONE if profile_command.work(job, arguments, interruption) else Exit.NOT_CONVERGED

    return _each(file, prepare, work)


# --- sweep ---


def sweep(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem over a grid of settings and parameters; what was solved before is not solved again."""
    axes = grids.axes_of([grids.axis(text) for text in arguments.over])
    file = _load(arguments)
    folders = _folders(file, arguments.out)

    def prepare(key: str) -> sweep_command.Job:
        problem = file.problems[key]
        variant = sweep_command.variant(arguments, problem.guess)
        plan = sweeping.plan(problem, f"{file.path.absolute()}::{key}", axes, variant)
        return sweep_command.prepare(plan, folders[key], key if file.several else problem.name)

    def work(job: sweep_command.Job) -> Exit:
        try:
            return Exit.NOT_CONVERGED if sweep_command.work(job, arguments, executor).unsettled else Exit.DONE
        except KeyboardInterrupt:
            return Exit.INTERRUPTED

    try:
        with sweep_command.crew(arguments, file.several) as executor:
            end = _each(file, prepare, work)
            if end is Exit.INTERRUPTED:
                raise KeyboardInterrupt  # so that the workers do not finish what they are at
            return end
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


# --- crossvalidate ---


def crossvalidate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Fit each model to each of its recordings, judge it on the others, and write one folder for all of the file."""
    file = _load(arguments)

    def prepare(key: str) -> crossvalidation_command.Job:
        problems = {name: _changed(problem, arguments) for name, problem in file.problems.items()}
        return crossvalidation_command.prepare(str(arguments.problem), problems, Path(arguments.out))

    def work(job: crossvalidation_command.Job) -> Exit:
        return Exit.DONE if crossvalidation_command.work(job, arguments, interruption) else Exit.NOT_CONVERGED

    whole = replace(file, problems={str(file.path): next(iter(file.problems.values()))}, several=False)
    return _each(whole, prepare, work)


# --- report ---


def report(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the page of a folder of results."""
    from spookid.report import page as pages  # it loads much that the other commands do without

    path = pages.write(arguments.directory)
    terminal.say(f"Written to {path}")
    return Exit.DONE


# --- problems and folders ---


def _load(arguments: Namespace) -> ProblemFile:
    """The problem file, once the names on the command line are known to one of its problems at least."""
    file = load_file(arguments.problem)
    known = dict.fromkeys(p.name for problem in file.problems.values() for p in problem.parameters)
    for flag, names in (("--set", [name for name, _ in arguments.set]), ("--fix", getattr(arguments, "fix", []))):
        for name in names:
            if name not in known:
                raise ProblemError(
                    f"{flag} {name}: {file.path} has no parameter {name!r}; its parameters are "
                    f"{', '.join(known) or 'none'}"
                )
    return file


def _changed(problem: Declaration, arguments: Namespace) -> Declaration:
    """The problem with the settings and, unless it is to be simulated, the guesses of the command line."""
    given = {name: getattr(arguments, name, None) for name in _SETTINGS}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if arguments.stepper is not None:
        changes["stepper"] = STEPPERS[arguments.stepper]
    if "fix" in arguments:
        known = problem.guess
        changes["initial"] = {**problem.initial, **{name: v for name, v in arguments.set if name in known}}
        changes["fixed"] = {*problem.fixed, *(name for name in arguments.fix if name in known)}
    return problem.with_(**changes)


def _folders(file: ProblemFile, out: str | None) -> dict[str, Path]:
    """The folder of each problem."""
    if out is not None:
        return {key: Path(out) / key if file.several else Path(out) for key in file.problems}
    names = [problem.name for problem in file.problems.values()]
    for name in names:
        if not is_folder_name(name):
            raise ProblemError(f"{file.path}: the problem's name {name!r} is no folder name; give a folder with --out")
        if names.count(name) > 1:
            raise ProblemError(
                f"{file.path} has {names.count(name)} problems named {name!r}, which would share a folder; rename all "
                "but one or give a folder with --out"
            )
    return {key: RESULTS / problem.name for key, problem in file.problems.items()}


def _name(file: ProblemFile, key: str) -> str:
    return f"{file.path}::{key}" if file.several else str(file.path)


def _each(file: ProblemFile, prepare: Callable[[str], T], work: Callable[[T], Exit]) -> Exit:
    """Prepare all problems, then work on one after another: work may take hours, and wrong input is known before."""
    jobs: dict[str, T] = {}

    def collect(key: str) -> Exit:
        jobs[key] = prepare(key)
        return Exit.DONE

    prepared = _in_turn(list(file.problems), file.several, collect)
    if prepared is Exit.INTERRUPTED:
        return prepared
    return _worst(prepared, _in_turn(list(jobs), file.several, lambda key: work(jobs[key])))


def _in_turn(keys: Sequence[str], several: bool, work: Callable[[str], Exit]) -> Exit:
    """Wrong input of one problem does not keep the others from their turn, an interrupt does."""
    worst = Exit.DONE
    for done, key in enumerate(keys, start=1):
        try:
            end = work(key)
        except ProblemError as error:
            terminal.complain(f"error: {f'{key}: ' if several else ''}{error}")
            end = Exit.WRONG_INPUT
        except MemoryError as error:
            size = str(error) or "memory ran out"
            terminal.complain(f"error: {key}: {size}; take a larger step or a shorter duration")
            end = Exit.WRONG_INPUT
        except KeyboardInterrupt:
            terminal.complain(f"interrupted; nothing of {key} was written")
            end = Exit.INTERRUPTED
        worst = _worst(worst, end)
        if end is Exit.INTERRUPTED:
            if keys[done:]:
                terminal.complain(f"not started: {', '.join(keys[done:])}")
            break
    return worst


def _worst(*ends: Exit) -> Exit:
    order: Sequence[Exit] = list(Exit)
    return min(ends, key=order.index)
