"""The comparison of a robot's file with a log: the section of a report, and the check of an export."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from spookid.assembly.loading import load_problem
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.body import RobotFile
from spookid.report import interactive
from spookid.report.pictures import BLUE, GREY, ORANGE
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.robots.comparing import RobotComparison
from spookid.robots.robot import reread
from spookid.tables.table import Block, labelled

_MOST_JOINTS = 8
"""Those that are drawn."""


def section(result: Solution, file: str | None = None) -> list[Block | Tree]:
    """Tables and figures that compare the robot's file with the first recording; empty without a robot's file."""
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
        return [f"Predicted torques cannot be compared with the robot's file {path}: {error}."]
    return [*compared.blocks(), *_figures(compared)]


def _compared(result: Solution, known: RobotFile, path: Path) -> RobotComparison:
    if not path.is_file():
        raise ProblemError("it is not there; spookid report --robot FILE says where it is now")
    robot = reread(known, path)
    if hashlib.sha256(robot.source.document.content).hexdigest() != known.sha256:
        raise ProblemError("it is another one than when the problem was solved; solve the problem again")
    return robot.compare(result, problem=problem_of(result))


def problem_of(result: Solution) -> Problem | None:
    """Load the solved problem from its problem file; None if this file is not available."""
    try:
        problem = load_problem(result.source)
    except ProblemError:
        return None
    return problem if problem.name == result.problem else None


def _figures(compared: RobotComparison) -> Iterator[Tree]:
    """Of the first joints: torques of the drives, and replays."""
    first, last = compared.versions[0], compared.versions[-1]
    if len(last.torques):
        values = {first.name: first.torques, "measured": compared.measured, last.name: last.torques}
        titles = list(map(labelled, compared.driven, compared.efforts))
        yield interactive.compared(titles[:_MOST_JOINTS], compared.t, _drawn(values), "Torques of the drives")
    if len(last.replays):
        values = {first.name: first.replays, "measured": compared.positions, last.name: last.replays}
        titles, t = list(map(labelled, compared.joints, compared.units)), _apart(compared.windows[..., None])[:, 0]
        lines = _drawn({name: _apart(one) for name, one in values.items() if len(one)})
        yield interactive.compared(titles[:_MOST_JOINTS], t, lines, "Replays in MuJoCo, in windows")


def _drawn(values: Mapping[str, Array]) -> dict[str, tuple[Array, str]]:
    """Before, measured and after, (N, n) each, those that there are with their colours."""
    colours = zip(values.items(), (GREY, ORANGE, BLUE), strict=False)
    return {name: (one, colour) for (name, one), colour in colours if len(one)}


def _apart(windows: Array) -> Array:
    """Windows (k, N, n) as one series (k (N + 1), n) with a gap behind each."""
    gaps = np.full((len(windows), 1, windows.shape[2]), np.nan)
    return np.concatenate([windows, gaps], axis=1).reshape(-1, windows.shape[2])
