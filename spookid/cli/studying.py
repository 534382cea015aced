"""Commands that make several fits of a problem: audit, profile, crossvalidate, sweep."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from spookid.assembly.declaration import Declaration
from spookid.cli import progress, terminal
from spookid.cli.interruption import Interruption
from spookid.cli.runner import Exit, Job, Run, Work, changed, each, ended, in_turn, scheduled, start, variant
from spookid.errors import ProblemError
from spookid.estimation.solving import solve as estimate
from spookid.report import audit as audits
from spookid.report import crossvalidation as crossvalidations
from spookid.report import profile as profiles
from spookid.report import sweep as sweeps
from spookid.report.export import unfinished
from spookid.results import folders
from spookid.results.result import Result
from spookid.solvers.status import Status
from spookid.studies import sweeping
from spookid.studies.auditing import audit as compare_steps
from spookid.studies.axes import axes_of, axis
from spookid.studies.cases import Case, cases, same_recordings
from spookid.studies.crossvalidation import CrossValidation, comparison_table
from spookid.studies.crossvalidation import crossvalidate as judge
from spookid.studies.profiling import profile as walk
from spookid.studies.sweep_points import SweepPoint, coordinates_of, sweep_table
from spookid.studies.worker_pool import WorkerPool
from spookid.tables.table import number


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
        return ended(f"{job.label} is not converged with the step {', '.join(failed)}" if failed else "")

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
        pool = WorkerPool(arguments.jobs or 1, executor)
        if pool.alone:
            found = [walk(job.problem, name, fit, solution) for name in names]
        else:
            path = f"{run.file.path.absolute()}::{job.key}"
            settings = variant(arguments, job.problem.parameter_set.known)
            plan = sweeping.plan(run.file.problems[job.key], path, (), settings)
            found = profiles.shared(plan, job.problem, names, solution, pool, unfinished(job.folder) / "sides")
        profiles.save(job.folder, found)
        run.show(profiles.table(found), job.out)
        failed = ", ".join(p.name for p in found if not p.converged)
        return ended(f"{job.label}: not every fit of the profile of {failed} converged" if failed else "")

    with scheduled(arguments) as executor:
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
        return ended(f"not every fit of {failed} converged" if failed else "")

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
        raise ProblemError(
            f"{title}: cross-validation needs a model with two or more recordings"
            "; give it more, or compare with `spookid profile`"
        )
    return sets


# --- sweep ---


def sweep(arguments: Namespace, interruption: Interruption) -> Exit:
    """Solve each problem over a grid of settings and parameters; what was solved before is not solved again."""
    axes = axes_of([axis(text) for text in arguments.over])
    run = start(arguments, interruption)

    def prepare(job: Job) -> Work:
        path = f"{run.file.path.absolute()}::{job.key}"
        plan = sweeping.plan(job.problem, path, axes, variant(arguments, job.problem.parameter_set.known))
        folders.check_continued(job.folder, sweeps.MARKER)
        return partial(_sweep, run, job, plan, executor)

    with scheduled(arguments) as executor:
        return each(run, prepare, change=lambda problem, _: problem)


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
    return ended(
        f"{len(result.unsettled)} of {total} points of {job.label} are not converged, the first at "
        f"{coordinates_of(first)} ({first.outcome}{reason}); {job.folder / 'sweep.csv'} has all"
    )
