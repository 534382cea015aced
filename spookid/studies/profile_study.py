"""Profiles of several parameters: shared out to workers, and what they leave behind in a folder."""

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
from spookid.studies.job import Job, KeptFits, Source, alone, unfinished
from spookid.studies.profiling import Profile, ProfilePoint, digits, expected_fits, profile, side
from spookid.studies.variants import estimator_line
from spookid.studies.worker_pool import WorkerPool
from spookid.tables.table import HALF_WIDTH, Block, Table, as_text, labelled, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def shared(
    source: Source, posed: Problem, names: Sequence[str], solution: Solution, pool: WorkerPool, folder: Path
) -> list[Profile]:
    """Likelihood profiles computed by several workers; each fit starts from its neighbour, as in ``profile``.

    Args:
        source: of the problem.
        posed: the problem as it is changed.
        solution: of it.
        folder: where workers find the solution, and what they have fitted if the same is asked again.

    Raises:
        ProblemError, KeyboardInterrupt: as ``profile``.
    """
    export.keep(solution, folder / "solution")
    tasks = [(source, folder, name, way) for name in names for way in (-1, 1)]
    found = list(pool.map(_side, tasks))
    refits = zip(names, found[::2], found[1::2], strict=True)
    return [profile(posed, name, None, solution, (*below, *above)) for name, below, above in refits]


def _side(source: Source, folder: Path, name: str, way: int) -> tuple[ProfilePoint, ...]:
    """Points of one side of a profile, below (−1) or above (1) the estimate, in a worker."""
    with alone:
        problem, backend, options = source.posed
        kept = KeptFits(folder / f"{name} {way}", [backend, options])

        def fit(problem: Problem, near: Solution | None = None, doing: str = "", hold: bool = False) -> Solution:
            return kept.fit(problem, lambda: solve(problem, backend, options, None, near, hold))

        return side(problem, name, fit, export.load(folder / "solution"), way)


def begin(job: Job) -> Callable[[], Answer]:
    """Set up the study ``profile`` when run from the command line."""
    names, free = list(dict.fromkeys(job.arguments.parameter)), [parameter.name for parameter in job.problem.free]
    for name in names:
        if name not in free:
            known = ", ".join(free) or "none"
            raise ProblemError(f"--parameter {name}: {job.label} has no free parameter {name!r}; it has {known}")

    def work() -> Answer:
        pool = WorkerPool(job.arguments.jobs or 1, job.executor)
        job.expect(1 + expected_fits() * len(names))
        solution = job.fit(job.problem)
        if pool.alone:
            return answer([profile(job.problem, name, job.fit, solution) for name in names], job.label)
        sides = unfinished(job.folder) / "sides"
        return answer(shared(job.sent, job.problem, names, solution, pool, sides), job.label)

    return work


def answer(profiles: Sequence[Profile], label: str) -> Answer:
    """Result of the study, with the files ``profile.txt`` and ``profile.png``."""
    failed = [p.name for p in profiles if not p.converged]
    _, *shown = blocks(profiles)
    return Answer(
        profiles[0].problem,
        table(profiles),
        conclusion(profiles),
        shown,
        {"parameters": {one.name: _entry(one) for one in profiles}},
        profiles[0].assumptions,
        [f"Some fits of the likelihood profile of {name} did not converge." for name in failed],
        {"profile.txt": table(profiles), "profile.png": pictures.drawn(figure, profiles)},
        [f"{label}: not every fit of the profile of {', '.join(failed)} converged"] if failed else [],
    )


def _entry(profile: Profile) -> dict[str, Any]:
    facts = ("unit", "estimate", "std_err", "linear", "interval", "verdict")
    of_point = ("value", "cost", "log_likelihood", "zeta", "status")
    points = [{**{name: getattr(p, name) for name in of_point}, "parameters": p.others} for p in profile.points]
    return {**{name: getattr(profile, name) for name in facts}, "points": points}


def conclusion(profiles: Sequence[Profile]) -> str:
    """Sentence on the parameters whose linearized interval is accurate."""
    if len(profiles) == 1:
        return f"{profiles[0].name}: {profiles[0].verdict}"
    holds, others = (", ".join(p.name for p in profiles if p.holds is held) for held in (True, False))
    if not others:
        return f"The linearized 95 % intervals of parameters {holds} are accurate."
    rest = f"{others}: see the verdict of each"
    if not holds:
        return f"The linearized 95 % intervals of all parameters are inaccurate: {rest}."
    return f"The linearized 95 % intervals are accurate for {holds}, but not for {rest}."


def table(profiles: Sequence[Profile]) -> str:
    """Table of estimate and both 95 % intervals of each parameter, and a sentence for each."""
    *shown, said = blocks(profiles)[: -len(profiles)], [f"{p.name}: {p.verdict}" for p in profiles]
    return as_text([*shown[0], "\n".join(said)])


def blocks(profiles: Sequence[Profile]) -> list[Block]:
    """Report of all profiles: title, table and sentences."""
    rows = [(p.row[0], number(p.estimate, digits(p.interval)), *p.row[1:], str(len(p.points) - 1)) for p in profiles]
    title = [f"Profiles of {profiles[0].problem}", *estimator_line(profiles[0].assumptions)]
    head = ("parameter", "estimate", "linearized 95 %", "likelihood ratio 95 %", "fits")
    return [*title, Table(head, rows), *(f"{p.name}: {p.verdict}" for p in profiles)]


def figure(profiles: Sequence[Profile]) -> Figure:
    """Draw one panel per parameter: ζ against the parameter, the line of the linearization, and both intervals."""
    result, panels = pictures.panels(len(profiles), 3, (4.2, 3.0), f"Profiles of {profiles[0].problem}")
    for panel, one in zip(panels, profiles, strict=False):
        _draw(panel, one)
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
        panel.axvline(end, color=BLUE, linewidth=1, linestyle=":", label=None if i else "likelihood-ratio interval")
    panel.set_xlabel(labelled(profile.name, profile.unit), parse_math=False)
    panel.set_ylabel("ζ = ±√(rise of −2 log L/s²)" if profile.likely else "ζ = ±√(rise of cost/s²)")
    panel.set_ylim(-4.5, 4.5)
    pictures.round_ticks(panel.xaxis, 4, 5)
    panel.grid(alpha=0.3)
