"""What profiles leave behind: a folder with their numbers, their table and one figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.estimation.solving import solve
from spookid.report import export, pictures
from spookid.report.pictures import BLUE, GREY, RED
from spookid.report.study_page import Answer
from spookid.results.result import Solution
from spookid.studies import profiling, sweeping
from spookid.studies.job import Job, KeptFits, unfinished
from spookid.studies.profiling import Profile, ProfilePoint, interval_words
from spookid.studies.sweeping import Plan
from spookid.studies.variants import Variant
from spookid.studies.worker_pool import WorkerPool
from spookid.tables.table import HALF_WIDTH, Block, Table, as_text, labelled, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_HEAD = ("parameter", "estimate", "linearized 95 %", "likelihood ratio 95 %", "fits")


def shared(
    plan: Plan, posed: Problem, names: Sequence[str], solution: Solution, pool: WorkerPool, folder: Path
) -> list[Profile]:
    """Profiles whose sides workers walk, each warm-started from its neighbour, as ``profile`` does it.

    Args:
        plan: of the problem, without axes; its path is where workers find it.
        posed: the problem with what the plan changes.
        solution: of it.
        folder: where workers find the solution, and what they have fitted if the same is asked again.

    Raises:
        ProblemError, KeyboardInterrupt: as ``profile``.
    """
    export.keep(solution, folder / "solution")
    tasks = [(plan.path, plan.digest, plan.variant, folder, name, way) for name in names for way in (-1, 1)]
    found = list(pool.map(_side, tasks))
    refits = zip(names, found[::2], found[1::2], strict=True)
    return [profiling.profile(posed, name, None, solution, (*below, *above)) for name, below, above in refits]


def _side(path: str, expected: str, variant: Variant, folder: Path, name: str, way: int) -> tuple[ProfilePoint, ...]:
    """In a worker."""
    with sweeping.alone:
        problem, backend, options = variant.posed(sweeping.problem_of(path, expected))
        kept = KeptFits(folder / f"{name} {way}", [backend, options])

        def fit(held: Problem, near: Solution | None) -> Solution:
            return kept.fit(held, lambda: solve(held, backend, options, None, near))

        return profiling.side(problem, name, fit, export.load(folder / "solution"), way)


def begin(job: Job) -> Callable[[], Answer]:
    """The study ``profile`` of a command."""
    names, free = list(dict.fromkeys(job.arguments.parameter)), [parameter.name for parameter in job.problem.free]
    for name in names:
        if name not in free:
            known = ", ".join(free) or "none"
            raise ProblemError(f"--parameter {name}: {job.label} has no free parameter {name!r}; it has {known}")

    def work() -> Answer:
        def fit(problem: Problem, near: Solution | None) -> Solution:
            free = {parameter.name for parameter in problem.free}
            held = [f"{name} = {number(problem.guess[name])}" for name in names if name not in free]
            return job.fit(problem, near, ", ".join(held))

        solution, pool = fit(job.problem, None), WorkerPool(job.arguments.jobs or 1, job.executor)
        if pool.alone:
            return answer([profiling.profile(job.problem, name, fit, solution) for name in names], job.label)
        plan = sweeping.plan(job.declared, job.path, (), job.variant)
        sides = unfinished(job.folder) / "sides"
        return answer(shared(plan, job.problem, names, solution, pool, sides), job.label)

    return work


def answer(profiles: Sequence[Profile], label: str) -> Answer:
    """With the files ``profile.txt`` and ``profile.png``."""
    failed = [p.name for p in profiles if not p.converged]
    return Answer(
        profiles[0].problem,
        table(profiles),
        conclusion(profiles),
        blocks(profiles)[1:],
        {"parameters": {profile.name: _entry(profile) for profile in profiles}},
        profiles[0].assumptions,
        [f"Not every fit of the profile of {name} converged." for name in failed],
        {"profile.txt": table(profiles), "profile.png": pictures.drawn(figure, profiles)},
        [f"{label}: not every fit of the profile of {', '.join(failed)} converged"] if failed else [],
    )


def _entry(profile: Profile) -> dict[str, Any]:
    points = [
        {
            **{name: getattr(point, name) for name in ("value", "cost", "log_likelihood", "zeta", "status")},
            "parameters": point.others,
        }
        for point in profile.points
    ]
    facts = ("unit", "estimate", "std_err", "linear", "interval", "verdict")
    return {**{name: getattr(profile, name) for name in facts}, "points": points}


def conclusion(profiles: Sequence[Profile]) -> str:
    """For which parameters the linearized interval holds."""
    if len(profiles) == 1:
        return f"{profiles[0].name}: {profiles[0].verdict}"
    holds, others = ([p.name for p in profiles if p.holds is held] for held in (True, False))
    if not others:
        return f"The linearized 95 % intervals of {', '.join(holds)} hold."
    rest = f"{', '.join(others)}: see what is said of each"
    return (
        f"The linearized 95 % intervals hold for {', '.join(holds)}, but not for {rest}."
        if holds
        else (f"No linearized 95 % interval holds, of {rest}.")
    )


def table(profiles: Sequence[Profile]) -> str:
    """A row a parameter: estimate and both 95 % intervals, then a sentence for each."""
    title, rows, *verdicts = blocks(profiles)
    return as_text([title, rows, "\n".join(map(str, verdicts))])


def blocks(profiles: Sequence[Profile]) -> list[Block]:
    """The same as title, table and sentences."""
    rows = [
        (
            labelled(p.name, p.unit),
            number(p.estimate, 5),
            interval_words(p.linear),
            interval_words(p.interval),
            str(len(p.points) - 1),
        )
        for p in profiles
    ]
    verdicts = [f"{p.name}: {p.verdict}" for p in profiles]
    return [f"Profiles of {profiles[0].problem}", Table(_HEAD, rows), *verdicts]


def figure(profiles: Sequence[Profile]) -> Figure:
    """A panel a parameter: ζ against the value, the straight line of the linearization, and both intervals."""
    result, panels = pictures.panels(len(profiles), 3, (4.2, 3.0), f"Profiles of {profiles[0].problem}")
    for panel, profile in zip(panels, profiles, strict=False):
        _draw(panel, profile)
    pictures.legend(result, panels[0].get_legend_handles_labels()[0], 2)
    return result


def _draw(panel: Axes, profile: Profile) -> None:
    values = [point.value for point in profile.points]
    panel.axhspan(-HALF_WIDTH, HALF_WIDTH, color=GREY, alpha=0.15, linewidth=0, label="within 95 %")
    panel.plot(values, [point.zeta for point in profile.points], "o-", color=BLUE, markersize=4, label="refitted")
    if math.isfinite(profile.std_err) and profile.std_err > 0:
        line = [(value - profile.estimate) / profile.std_err for value in values]
        panel.plot(values, line, "--", color=RED, linewidth=1.2, label="linearized")
    for i, end in enumerate(filter(math.isfinite, profile.interval)):
        label = None if i else "likelihood-ratio interval"
        panel.axvline(end, color=BLUE, linewidth=1, linestyle=":", label=label)
    panel.set_xlabel(labelled(profile.name, profile.unit), parse_math=False)
    panel.set_ylabel("ζ = ±√(rise of −2 log L)" if profile.likely else "ζ = ±√(rise of cost/s²)")
    panel.set_ylim(-4.5, 4.5)
    pictures.round_ticks(panel.xaxis, 4, 5)
    panel.grid(alpha=0.3)
