"""The comparison of a robot's file with a log: the section of a report, and the check of an export."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spookid.assembly.loading import load_problem
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.body import RobotFile
from spookid.report import pictures
from spookid.report.pictures import BLUE, GREY, ORANGE
from spookid.report.study_page import picture
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.robots.comparing import RobotComparison
from spookid.robots.robot import reread
from spookid.tables.table import Block


def section(result: Solution, file: str | None = None) -> list[Block | Tree]:
    """Tables and figures of the first recording; empty for a problem without a robot's file."""
    known = result.mechanism.robot if result.mechanism else None
    if known is None:
        if file:
            raise ProblemError(
                f"--robot {file}: the problem {result.problem!r} was made from no robot's file"
                "; leave it out, or solve a problem that `spookid new` wrote"
            )
        return []
    path = Path(file or known.path)
    try:
        compared = _compared(result, known, path)
    except ProblemError as error:
        if file:
            raise
        return [f"No comparison with the robot's file {path}: {error}."]
    pictures = (picture(address, caption, caption) for caption, address in _pictures(compared).items())
    return [*compared.blocks(), *pictures]


def _compared(result: Solution, known: RobotFile, path: Path) -> RobotComparison:
    if not path.is_file():
        raise ProblemError("it is not there; spookid report --robot FILE says where it is now")
    robot = reread(known, path)
    if hashlib.sha256(robot.source.document.content).hexdigest() != known.sha256:
        raise ProblemError("it is another one than when the problem was solved; solve the problem again")
    return robot.compare(result, problem=problem_of(result))


def problem_of(result: Solution) -> Problem | None:
    """Load the solved problem from its file; None if the file is not available."""
    try:
        problem = load_problem(result.source)
    except ProblemError:
        return None
    return problem if problem.name == result.problem else None


def _pictures(compared: RobotComparison) -> dict[str, str]:
    """Addresses by captions."""
    first, last = compared.versions[0], compared.versions[-1]
    colours, found = f"Orange: measured. Grey: {first.name}. Blue: {last.name}.", dict[str, str]()
    if len(last.torques):
        lines = compared.t, first.torques, compared.measured, last.torques
        found[f"Torques of the drives. {colours}"] = _drawn(compared.driven, compared.efforts, *lines)
    if len(last.replays):
        every = compared.windows[..., None], first.replays, compared.positions, last.replays
        lines = tuple(_apart(one) for one in every)  # type: ignore[assignment]
        caption = f"Replays in MuJoCo, in windows. {colours} Lines that leave the panel have larger errors."
        found[caption] = _drawn(compared.joints, compared.units, *lines)
    return found


def _apart(windows: Array) -> Array:
    """Windows (k, N, n) as one series (k (N + 1), n) with a gap behind each."""
    gaps = np.full((len(windows), 1, windows.shape[2]), np.nan)
    return np.concatenate([windows, gaps], axis=1).reshape(-1, windows.shape[2])


def _drawn(names: Sequence[str], units: Sequence[str], t: Array, before: Array, measured: Array, after: Array) -> str:
    """The first joints, (N, n) each."""
    titles = [f"{name} [{unit}]" for name, unit in zip(names, units, strict=True)]
    figure, panels = pictures.over_time(titles[:8], 0.4, 1.25)
    for i, panel in enumerate(panels):
        if len(before):
            panel.plot(t, before[:, i], color=GREY, linewidth=0.8)
        panel.plot(t, measured[:, i], color=ORANGE, linewidth=1.6)
        panel.plot(t, after[:, i], color=BLUE, linewidth=0.8)
        low, high = np.nanmin(measured[:, i], initial=np.inf), np.nanmax(measured[:, i], initial=-np.inf)
        if low < high < np.inf:
            panel.set_ylim(low - 0.4 * (high - low), high + 0.4 * (high - low))
    return pictures.embedded(figure)
