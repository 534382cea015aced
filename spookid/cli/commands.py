"""The commands: what each does with one problem, how it is printed, and where it is written."""

from __future__ import annotations

import math
import warnings
from argparse import Namespace
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spookid.assembly.assembly import assemble
from spookid.assembly.declaration import Declaration
from spookid.cli import jointly, progress, starting, terminal
from spookid.cli.exciting import foretold
from spookid.cli.interruption import Interruption
from spookid.cli.overview import describe, describe_unrecorded
from spookid.cli.runner import Exit, Job, Run, Work, changed, each, in_turn, source_of, start
from spookid.cli.watching import watch as watch
from spookid.errors import ProblemError
from spookid.estimation.questions import asking, questions
from spookid.estimation.solving import solve as estimate
from spookid.files import remove
from spookid.report import audit as audits
from spookid.report import crossvalidation as crossvalidations
from spookid.report import export
from spookid.report import profile as profiles
from spookid.report import simulation as simulations
from spookid.report import sweep as sweeps
from spookid.report.summary import summarize
from spookid.results import folders
from spookid.results.result import Result
from spookid.solvers.status import Status
from spookid.studies import sweeping
from spookid.studies.auditing import audit as compare_steps
from spookid.studies.axes import AxisValue, axes_of, axis
from spookid.studies.cases import Case, cases, same_recordings
from spookid.studies.comparison import Comparison, compare
from spookid.studies.crew import Crew
from spookid.studies.crossvalidation import CrossValidation, comparison_table
from spookid.studies.crossvalidation import crossvalidate as judge
from spookid.studies.profiling import profile as walk
from spookid.studies.settings import Variant
from spookid.studies.simulating import Initial
from spookid.studies.sweep_points import SweepPoint, coordinates_of, sweep_table
from spookid.studies.workers import cluster
from spookid.tables.numbers import number, quantity
from spookid.tables.table import wrapped

RESULTS = Path("results")
"""Where results of `solve` go unless the user says otherwise."""
_SWEPT = ("step", "state_weight", "friction", "friction_width", "cutoff", "stepper", "backend", "max_iterations")


def _ended(*complaints: str) -> Exit:
    """How a problem ended that has these, if any is not empty, to complain about."""
    for complaint in filter(None, complaints):
        terminal.complain(complaint)
    return Exit.NOT_CONVERGED if any(complaints) else Exit.DONE


def check(arguments: Namespace, interruption: Interruption) -> Exit:
    """Describe each problem on stdout."""
    run = start(arguments, interruption)
    if arguments.trajectory is None and (arguments.source or arguments.noise or arguments.until):
        raise ProblemError(
            "--from, --noise and --until of a check speak of a planned motion; name it with --trajectory"
        )

    def work(job: Job) -> Exit:
        if arguments.trajectory is not None:
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


# --- solve ---


def solve(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem and write its result folder."""
    run = start(arguments, interruption)
    with _executor(arguments) as executor:
        return each(run, lambda job: partial(_solve, run, job, executor), marker=export.MARKER, home=RESULTS)


def _solve(run: Run, job: Job, executor: Executor | None) -> Exit:
    asked = questions(job.problem)
    for question in asked:
        terminal.complain(f"{job.label}: {question}")
    variant = _variant(run.arguments, job.problem.parameter_set.known)
    try:
        if run.arguments.starts == 1 and (run.arguments.jobs or executor):
            solution = jointly.solved(run, job, variant, executor)
        else:
            problem, found = starting.begun(run, job, variant, executor)
            with run.fitting(job.label, problem) as callback:
                solution = estimate(problem, run.arguments.backend, run.options, callback).changed(basins=found)
        solution = asking(solution.changed(source=run.file.source(job.key)), asked)
        export.save(solution, job.folder, animate=run.arguments.animate)
        starting.ended(job)
        jointly.ended(job)
        if run.arguments.animate and not any(job.folder.glob("*.gif")):
            terminal.complain(f"{job.label} has no motion to animate")
        if not run.arguments.quiet:  # a summary takes a while
            run.show(summarize(solution), job.out)
    finally:
        run.interruption.kept()
    if solution.status is Status.INTERRUPTED:
        terminal.complain(f"interrupted; the best iterate of {job.label} is in {job.out}")
        return Exit.INTERRUPTED
    if solution.status is Status.CONVERGED:
        return Exit.DONE
    return _ended(f"{job.label} is not converged ({solution.status.value}); its results are in {job.out}")


# --- simulate ---


def simulate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Simulate each problem on each of its recordings, and write its simulation folder."""
    run = start(arguments, interruption)

    def prepare(job: Job) -> Work:
        source = source_of(run, job.key)
        solution = None if source is None else export.load(source)
        problem = job.problem
        if solution is not None and arguments.step is None:
            problem = problem.with_(step=solution.step)  # its estimates belong to its step
            job = replace(job, problem=problem)
        estimates, guess, given = (
            solution.values if solution else {},
            problem.guess,
            problem.parameter_set.expanded(dict(arguments.set)),
        )
        if solution is not None and guess and guess.keys().isdisjoint(estimates):
            raise ProblemError(
                f"{source} holds none of the parameters of {problem.name!r}; give a folder of its results"
            )
        values = {name: given.get(name, estimates.get(name, guess[name])) for name in guess}
        return partial(_simulate, run, job, values, source, solution)

    return each(run, prepare, marker=simulations.MARKER)


def _simulate(run: Run, job: Job, values: Mapping[str, float], source: Path | None, solution: Result | None) -> Exit:
    """Simulate on each recording, write and show."""
    problem, comparisons = job.problem, []
    for index in range(max(len(problem.recordings), 1)):
        bar = progress.along(problem.recordings[index].name if problem.recordings else job.label, run.watched)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RuntimeWarning)
            comparison = compare(
                problem, index, values, run.arguments.duration, _initial(problem, solution, index), bar
            )
        for message in dict.fromkeys(str(warning.message) for warning in told):
            terminal.complain(f"{job.label}, {comparison.name}: {message}")
        run.say(f"{job.label}, {comparison.name}: {_sentence(problem, comparison)}")
        comparisons.append(comparison)
    simulations.save(job.folder, problem, values, None if source is None else str(source), comparisons)
    run.say(f"Written to {job.out}")
    failed = [comparison for comparison in comparisons if comparison.failure]
    before = f"s before it are in {job.out}"
    return _ended(*(f"{job.label}, {c.name}: {c.failure}; the {number(c.duration)} {before}" for c in failed))


def _initial(problem: Declaration, solution: Result | None, index: int) -> Initial:
    """The first state that was estimated for the same stretch of motion, if there is one."""
    found: Iterable[Any] = solution.trajectories if solution else ()
    if problem.recordings:
        recording, slack = problem.recordings[index], 1e-6 * problem.step
        found = [t for t in found if t.name == recording.name and abs(t.t[0] - recording.t[0]) <= slack]
    first = next((t for t in found if t.q.shape[1] == len(problem.model.bodies)), None)
    return None if first is None else (first.q[0], first.v[0])


def _sentence(problem: Declaration, comparison: Comparison) -> str:
    sizes = zip(comparison.rms.items(), comparison.units, strict=True)
    known = [f"{signal} {quantity(rms, unit)}" for (signal, rms), unit in sizes if not math.isnan(rms)]
    difference = f"; rms difference {', '.join(known)}" if known else ""
    exact = " (friction 'mpcc' steps forward as 'exact' does)" if problem.friction == "mpcc" else ""
    steps = f"in steps of {number(problem.step, 6)} s{exact}"
    return f"simulated {number(comparison.duration, 6)} s {steps}{difference}"


# --- studies of several fits ---


def audit(arguments: Namespace, interruption: Interruption) -> Exit:
    """Fit each problem with three time steps, and say which estimates depend on the step."""
    run = start(arguments, interruption)

    def work(job: Job) -> Exit:
        def fit(problem: Declaration, near: Result | None, hold: bool) -> Result:
            label, how = f"{job.label}, step {number(problem.step, 6)} s", (arguments.backend, run.options)
            return run.fit(label, problem, lambda callback: estimate(problem, *how, callback, near, hold))

        result = compare_steps(job.problem, fit)
        if job.out is not None:
            audits.save(job.out, result)
        run.show(result.table(), job.out)
        ends = zip(result.steps, result.statuses, strict=True)
        failed = [f"{number(step, 6)} s ({end.value})" for step, end in ends if end is not Status.CONVERGED]
        return _ended(f"{job.label} is not converged with the step {', '.join(failed)}" if failed else "")

    return each(run, lambda job: partial(work, job), marker=audits.MARKER)


def profile(arguments: Namespace, interruption: Interruption) -> Exit:
    """Refit each problem along its parameters, and write its folder of profiles."""
    run, names = start(arguments, interruption), list(dict.fromkeys(arguments.parameter))

    def prepare(job: Job) -> Work:
        free = [parameter.name for parameter in job.problem.free]
        for name in names:
            if name not in free:
                known = ", ".join(free) or "none"
                raise ProblemError(f"--parameter {name}: {job.label} has no free parameter {name!r}; it has {known}")
        return partial(work, job)

    def work(job: Job) -> Exit:
        def fit(problem: Declaration, near: Result | None) -> Result:
            free = {parameter.name for parameter in problem.free}
            held = [f"{name} = {number(problem.guess[name])}" for name in names if name not in free]
            return run.refit(", ".join([job.label, *held]), problem, near)

        solution = fit(job.problem, None)
        kept, crew = job.folder.with_name(f".{job.folder.name}.sides").absolute(), Crew(arguments.jobs or 1, executor)
        if crew.alone:
            found = [walk(job.problem, name, fit, solution) for name in names]
        else:
            path = f"{run.file.path.absolute()}::{job.key}"
            variant = _variant(arguments, job.problem.parameter_set.known)
            plan = sweeping.plan(run.file.problems[job.key], path, (), variant)
            found = profiles.shared(plan, job.problem, names, solution, crew, kept)
        profiles.save(job.folder, found)
        remove(kept)
        run.show(profiles.table(found), job.out)
        failed = ", ".join(p.name for p in found if not p.converged)
        return _ended(f"{job.label}: not every fit of the profile of {failed} converged" if failed else "")

    with _executor(arguments) as executor:
        return each(run, prepare, marker=profiles.MARKER)


def crossvalidate(arguments: Namespace, interruption: Interruption) -> Exit:
    """Fit each model to each of its recordings, judge it on the others, and write one folder for all of the file."""
    run = start(arguments, interruption)

    def prepare(_: str) -> Work:
        problems = {name: changed(problem, arguments) for name, problem in run.file.problems.items()}
        folders.check_target(arguments.out, crossvalidations.MARKER)
        return partial(run.keeping, arguments.out, partial(work, _sets(str(arguments.problem), cases(problems))))

    def judged(case: Case) -> CrossValidation:
        return judge(case.problem, lambda p, near, purpose: run.refit(f"{case.name}, {purpose}", p, near), case.name)

    def work(sets: list[list[Case]]) -> Exit:
        results = [[judged(case) for case in models] for models in sets]
        crossvalidations.save(arguments.out, str(arguments.problem), results)
        run.say("\n\n\n".join(map(comparison_table, results)) + f"\n\nWritten to {Path(arguments.out)}")
        failed = ", ".join(model.name for models in results for model in models if not model.converged)
        return _ended(f"not every fit of {failed} converged" if failed else "")

    return in_turn(run, [str(run.file.path)], prepare)


def _sets(title: str, found: Iterable[Case]) -> list[list[Case]]:
    """Models on the same recordings together; those with fewer than two are left out.

    Raises:
        ProblemError: if none is left.
    """
    sets: list[list[Case]] = []
    for case in found:
        if len(case.problem.recordings) < 2:
            terminal.complain(f"{case.name} has fewer than two recordings and is left out")
            continue
        home = next((s for s in sets if same_recordings(s[0].problem, case.problem)), None)
        if home is None:
            sets.append(home := [])
        home.append(case)
    if not sets:
        raise ProblemError(f"{title}: cross-validation needs a model with two or more recordings")
    return sets


# --- sweep ---


def sweep(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem over a grid of settings and parameters; what was solved before is not solved again."""
    axes = axes_of([axis(text) for text in arguments.over])
    run = start(arguments, interruption)

    def prepare(job: Job) -> Work:
        path = f"{run.file.path.absolute()}::{job.key}"
        plan = sweeping.plan(job.problem, path, axes, _variant(arguments, job.problem.parameter_set.known))
        folders.check_continued(job.folder, sweeps.MARKER)
        return partial(_sweep, run, job, plan, executor)

    with _executor(arguments) as executor:
        return each(run, prepare, change=lambda problem, _: problem)


def _executor(arguments: Namespace) -> AbstractContextManager[Executor | None]:
    """That of the scheduler, if one is named."""
    return nullcontext() if arguments.scheduler is None else cluster(arguments.scheduler)


def _variant(arguments: Namespace, names: Container[str]) -> Variant:
    """What the command line changes at all points; ``names`` are those of the problem's parameters."""
    given: dict[str, AxisValue | None] = {name: getattr(arguments, name) for name in _SWEPT}
    return Variant(
        settings={name: value for name, value in given.items() if value is not None},
        initial={name: value for name, value in arguments.set if name in names},
        fixed=tuple(name for name in arguments.fix if name in names),
    )


def _sweep(run: Run, job: Job, plan: sweeping.Plan, executor: Executor | None) -> Exit:
    known: list[SweepPoint] = []
    total = math.prod(len(one.values) for one in plan.axes)
    try:
        with progress.counting(job.label, total, run.watched) as count:

            def seen(point: SweepPoint, before: bool) -> None:
                known.append(point)
                count(before)

            result = sweeps.run(plan, job.folder, jobs=run.arguments.jobs, executor=executor, seen=seen)
    except KeyboardInterrupt:
        kept = f"{sum(point.status is not None for point in known)} of {total} points of {job.label} are in {job.out}"
        terminal.complain(f"interrupted; {kept}; the same command does the rest")
        return Exit.INTERRUPTED
    run.say(f"{sweep_table(result, terminal.columns())}\n\nWritten to {job.out}")
    if not result.unsettled:
        return Exit.DONE
    first = result.unsettled[0]
    reason = f": {first.message}" if first.status is None else ""
    return _ended(
        f"{len(result.unsettled)} of {total} points of {job.label} are not converged, the first at "
        f"{coordinates_of(first)} ({first.outcome}{reason}); {job.folder / 'sweep.csv'} has all"
    )


# --- report ---


def report(arguments: Namespace, interruption: Interruption) -> Exit:
    """Write the page of a folder of results."""
    from spookid.report import page  # it loads much that the other commands do without
    from spookid.robots.report_section import section

    robots = partial(section, file=arguments.robot)
    terminal.say(f"Written to {page.write(arguments.directory, animate=arguments.animate, robots=robots)}")
    return Exit.DONE
