"""What the commands do once their arguments are parsed. Each returns the exit status."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from spookid import audit as time_steps
from spookid import (
    audit_plot,
    crossvalidation_command,
    export,
    profile_command,
    progress,
    simulation_folder,
    sweep_command,
    sweeping,
    terminal,
)
from spookid import axes as grids
from spookid.assembly import assemble
from spookid.comparison import Comparison, compare
from spookid.errors import ProblemError
from spookid.interruption import Interruption
from spookid.loading import ProblemFile, is_folder_name, load_file
from spookid.overview import describe
from spookid.problem import Problem
from spookid.replay import Initial
from spookid.settings import STEPPERS
from spookid.solution import Solution
from spookid.solvers.status import Iteration, Status
from spookid.summary import number, quantity

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

    def prepare(key: str) -> tuple[str, Problem]:
        return key, _changed(file.problems[key], arguments)

    def work(job: tuple[str, Problem]) -> Exit:
        key, problem = job
        page = describe(assemble(problem), f"{problem.name} ({_name(file, key)})", file.description, terminal.columns())
        terminal.say(f"{page}\n" if file.several else page)
        return Exit.DONE

    return _each(file, prepare, work)


# --- solve ---


@dataclass(frozen=True, eq=False)
class _Solve:
    problem: Problem
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
    options = {} if arguments.max_iterations is None else {"max_iterations": arguments.max_iterations}
    names = [parameter.name for parameter in job.problem.free]
    try:
        with progress.SolverLine(job.label, names, progress.wanted(arguments.quiet)) as line:

            def callback(iteration: Iteration) -> None:
                line.show(iteration)
                interruption.checkpoint()

            solution = job.problem.solve(arguments.backend, callback=callback, **options)
        solution.save(job.folder)
    finally:
        interruption.kept()
    if not arguments.quiet:
        terminal.say(f"{solution.summary()}\n\nWritten to {job.folder}{job.gap}")
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


@dataclass(frozen=True, eq=False)
class _Simulation:
    problem: Problem
    values: Mapping[str, float]
    """Of every parameter."""
    source: Path | None
    """Result folder that they come from, if any."""
    solution: Solution | None
    """What is in it."""
    folder: Path
    label: str
    """What messages call it."""


def simulate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Simulate each problem on each of its recordings, and write its simulation folder."""
    file = _load(arguments)
    folders = _folders(file, arguments.out)

    def prepare(key: str) -> _Simulation:
        simulation_folder.check_target(folders[key])
        source = _source(file, key, arguments.source)
        solution = None if source is None else export.load(source)
        problem = _changed(file.problems[key], arguments)
        if solution is not None and arguments.step is None:
            problem = problem.with_(step=solution.step)  # its estimates belong to its step
        values = _values(problem, solution, source, dict(arguments.set))
        label = key if file.several else problem.name
        return _Simulation(problem, values, source, solution, folders[key], label)

    return _each(file, prepare, lambda job: _simulate(job, arguments))


def _simulate(job: _Simulation, arguments: Namespace) -> Exit:
    comparisons = []
    for index in range(max(len(job.problem.recordings), 1)):
        names = [recording.name for recording in job.problem.recordings] or [job.label]
        bar = progress.along(names[index], progress.wanted(arguments.quiet))
        initial = _initial(job, index)
        comparison = compare(job.problem, index, job.values, arguments.duration, initial, bar)
        if not arguments.quiet:
            terminal.say(_sentence(job, comparison))
        comparisons.append(comparison)
    source = None if job.source is None else str(job.source)
    simulation_folder.save(job.folder, job.problem, job.values, source, comparisons)
    if not arguments.quiet:
        terminal.say(f"Written to {job.folder}")
    failed = [comparison for comparison in comparisons if comparison.failure]
    for comparison in failed:
        terminal.complain(
            f"{job.label}, {comparison.name}: {comparison.failure}; the {number(comparison.duration)} s before it are "
            f"in {job.folder}"
        )
    return Exit.NOT_CONVERGED if failed else Exit.DONE


def _source(file: ProblemFile, key: str, directory: str | None) -> Path | None:
    """The result folder of one problem: with several problems its own in ``directory``, if there is one."""
    if directory is None:
        return None
    own = Path(directory) / key
    return own if file.several and own.is_dir() else Path(directory)


def _values(
    problem: Problem, solution: Solution | None, source: Path | None, given: Mapping[str, float]
) -> dict[str, float]:
    """Value of every parameter: as given, else as estimated, else its guess."""
    estimates = solution.values if solution is not None else {}
    guess = problem.guess
    if solution is not None and guess and guess.keys().isdisjoint(estimates):
        raise ProblemError(f"{source} holds none of the parameters of {problem.name!r}; give a folder of its results")
    return {name: given.get(name, estimates.get(name, guess[name])) for name in guess}


def _initial(job: _Simulation, index: int) -> Initial:
    """The first state that was estimated for the same stretch of motion, if there is one."""
    if job.solution is None:
        return None
    trajectories: Iterable[Any] = job.solution.trajectories
    if job.problem.recordings:
        recording, slack = job.problem.recordings[index], 1e-6 * job.problem.step
        trajectories = [t for t in trajectories if t.name == recording.name and abs(t.t[0] - recording.t[0]) <= slack]
    first = next((t for t in trajectories if t.q.shape[1] == len(job.problem.model.bodies)), None)
    return None if first is None else (first.q[0], first.v[0])


def _sentence(job: _Simulation, comparison: Comparison) -> str:
    sizes = zip(comparison.rms.items(), comparison.units, strict=True)
    known = [f"{signal} {quantity(rms, unit)}" for (signal, rms), unit in sizes if rms == rms]
    difference = f"; rms difference {', '.join(known)}" if known else ""
    return (
        f"{job.label}, {comparison.name}: simulated {number(comparison.duration, 6)} s in steps of "
        f"{number(job.problem.step, 6)} s{difference}"
    )


# --- audit ---


@dataclass(frozen=True, eq=False)
class _Audit:
    problem: Problem
    folder: Path | None
    label: str
    """What messages call it."""
    gap: str
    """What parts it from the next one on the screen."""


def audit(arguments: Namespace, interruption: Interruption) -> Exit:
    """Fit each problem with three time steps, and say which estimates depend on the step."""
    file = _load(arguments)
    folders = {} if arguments.out is None else _folders(file, arguments.out)

    def prepare(key: str) -> _Audit:
        problem = _changed(file.problems[key], arguments)
        if key in folders:
            audit_plot.check_target(folders[key])
        return _Audit(problem, folders.get(key), key if file.several else problem.name, "\n" if file.several else "")

    return _each(file, prepare, lambda job: _audit(job, arguments, interruption))


def _audit(job: _Audit, arguments: Namespace, interruption: Interruption) -> Exit:
    limits = {} if arguments.max_iterations is None else {"max_iterations": arguments.max_iterations}

    problem = job.problem

    def fit(step: float) -> Solution:
        nonlocal problem
        label = f"{job.label}, step {number(step, 6)} s"
        names = [parameter.name for parameter in job.problem.free]
        with progress.SolverLine(label, names, progress.wanted(arguments.quiet)) as line:
            solution = problem.solve(arguments.backend, callback=line.show, step=step, **limits)
        problem = problem.with_(state_weight=solution.state_weight)  # the data choose it once
        if interruption.asked:  # the solver took it for the end of its fit
            raise KeyboardInterrupt
        return solution

    result = time_steps.audit(job.problem, fit)
    written = ""
    if job.folder is not None:
        audit_plot.save(job.folder, result)
        written = f"\n\nWritten to {job.folder}"
    if not arguments.quiet:
        terminal.say(f"{result.table()}{written}{job.gap}")
    failed = [
        f"{number(step, 6)} s ({status.value})"
        for step, status in zip(result.steps, result.statuses, strict=True)
        if status is not Status.CONVERGED
    ]
    if failed:
        terminal.complain(f"{job.label} is not converged with the step {', '.join(failed)}")
    return Exit.NOT_CONVERGED if failed else Exit.DONE


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
            return Exit.NOT_CONVERGED if sweep_command.work(job, arguments).unsettled else Exit.DONE
        except KeyboardInterrupt:
            return Exit.INTERRUPTED

    return _each(file, prepare, work)


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
    from spookid import report as pages  # it loads much that the other commands do without

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


def _changed(problem: Problem, arguments: Namespace) -> Problem:
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
