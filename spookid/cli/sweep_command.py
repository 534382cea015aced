"""What ``spookid sweep`` does with one problem once its arguments are parsed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from spookid.cli import progress, terminal
from spookid.kernels.threads import processors
from spookid.report import sweep_folder, sweep_table
from spookid.studies import sweeping
from spookid.studies.axes import Axis, Choice
from spookid.studies.cluster import connected
from spookid.studies.settings import Variant
from spookid.studies.sweep_points import Point, Sweep
from spookid.studies.workers import lasting

Crew: TypeAlias = Callable[[], Executor | None]
"""Gives the executor of a sweep; None leaves it to the sweep."""

_SETTINGS = ("step", "state_weight", "friction", "friction_width", "cutoff", "stepper", "backend", "max_iterations")


@dataclass(frozen=True, eq=False)
class Job:
    """A sweep of one problem."""

    plan: sweeping.Plan
    folder: Path
    label: str
    """What messages call it."""


def prepare(plan: sweeping.Plan, folder: Path, label: str) -> Job:
    """A job, if its folder may be written."""
    sweep_folder.check_target(folder)
    return Job(plan, folder, label)


def variant(arguments: Namespace, names: Mapping[str, float]) -> Variant:
    """What the command line changes at all points; ``names`` are those of the problem's parameters."""
    given: dict[str, Choice | None] = {name: getattr(arguments, name) for name in _SETTINGS}
    return Variant(
        settings={name: value for name, value in given.items() if value is not None},
        initial={name: value for name, value in arguments.set if name in names},
        fixed=tuple(name for name in arguments.fix if name in names),
    )


def work(job: Job, arguments: Namespace, executor: Crew) -> Sweep:
    """Run it, and say how it ended.

    Raises:
        KeyboardInterrupt: once it is said what is kept.
    """
    known: list[Point] = []
    total = _size(job.plan.axes)
    try:
        with progress.counting(job.label, total, progress.wanted(arguments.quiet)) as count:

            def seen(point: Point, before: bool) -> None:
                known.append(point)
                count(before)

            result = sweeping.run(job.plan, job.folder, jobs=arguments.jobs, executor=executor(), seen=seen)
    except KeyboardInterrupt:
        kept = sum(point.status is not None for point in known)
        terminal.complain(
            f"interrupted; {kept} of {total} points of {job.label} are in {job.folder}; the same command does the rest"
        )
        raise
    if not arguments.quiet:
        terminal.say(f"{sweep_table.table(result, terminal.columns())}\n\nWritten to {job.folder}")
    if result.unsettled:
        first = result.unsettled[0]
        reason = f": {first.message}" if first.status is None else ""
        terminal.complain(
            f"{len(result.unsettled)} of {total} points of {job.label} are not converged, the first at "
            f"{sweep_table.place(first)} ({first.outcome}{reason}); {job.folder / 'sweep.csv'} has all"
        )
    return result


def _size(axes: tuple[Axis, ...]) -> int:
    size = 1
    for one in axes:
        size *= len(one.values)
    return size


@contextmanager
def crew(arguments: Namespace, several: bool) -> Iterator[Crew]:
    """What gives the executor of each sweep: that of the cluster if one was named, processes that several sweeps share.

    Raises:
        KeyboardInterrupt: if the block does; then what the processes do is cut off.
    """
    jobs = arguments.jobs or processors()
    if arguments.scheduler is not None:
        with ExitStack() as stack:
            yield lru_cache(lambda: stack.enter_context(connected(arguments.scheduler)))
    elif several and jobs > 1:
        with lasting(jobs) as pool:
            yield pool
    else:
        yield lambda: None
