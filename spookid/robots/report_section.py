"""What a report tells of the robot's file that a problem was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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

MOST = 8
"""Joints that are drawn."""
_MARGIN = 0.15
"""Of what was measured, above and below it."""
_COLOURS = "Orange: measured. Grey: the file as it was. Blue: {}."


def section(result: Solution, file: str | None = None) -> list[Block | Tree]:
    """Tables and figures of the first recording; nothing of a problem that was made from no robot's file."""
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
        return [f"The robot's file {path} is not compared: {error}."]
    pictures = (picture(address, caption, caption) for caption, address in _pictures(compared).items())
    return [*compared.blocks(), *pictures]


def _compared(result: Solution, known: RobotFile, path: Path) -> RobotComparison:
    if not path.is_file():
        raise ProblemError("it is not there; spookid report --robot FILE says where it is now")
    robot = reread(known, path)
    if hashlib.sha256(robot.source.document.content).hexdigest() != known.sha256:
        raise ProblemError("it is another one than when the problem was solved; solve the problem again")
    return robot.compare(result)


def _pictures(compared: RobotComparison) -> dict[str, str]:
    """Addresses by captions."""
    last = compared.versions[-1]
    colours = _COLOURS.format(last.name)
    found = {}
    if len(last.torques):
        found[f"Torques of the drives. {colours}"] = pictures.embedded(torques(compared))
    if len(last.replays):
        caption = f"Replays in MuJoCo, each from a dot on. {colours} Lines that leave the panel are off by more."
        found[caption] = pictures.embedded(replays(compared))
    return found


def torques(compared: RobotComparison) -> Figure:
    """Torques of the drives, measured and by inverse dynamics, before and after."""
    first, last = compared.versions[0], compared.versions[-1]
    figure, panels = _panels(compared.driven, compared.efforts)
    for i, panel in enumerate(panels):
        if len(first.torques):
            panel.plot(compared.t, first.torques[:, i], color=GREY, linewidth=0.8)
        panel.plot(compared.t, compared.measured[:, i], color=ORANGE, linewidth=1.6)
        panel.plot(compared.t, last.torques[:, i], color=BLUE, linewidth=0.8)
        _limited(panel, compared.measured[:, i], 0.6)
    return figure


def replays(compared: RobotComparison) -> Figure:
    """Positions, measured and replayed, before and after."""
    first, last = compared.versions[0], compared.versions[-1]
    figure, panels = _panels(compared.joints, compared.units)
    for i, panel in enumerate(panels):
        seen = compared.positions[..., i]
        for k, t in enumerate(compared.windows):
            if len(first.replays):
                panel.plot(t, _until_lost(first.replays[k, :, i], seen), color=GREY, linewidth=0.7)
            panel.plot(t, seen[k], color=ORANGE, linewidth=1.8)
            panel.plot(t, last.replays[k, :, i], color=BLUE, linewidth=0.9)
            panel.plot(t[0], seen[k, 0], ".", color=BLUE, markersize=4)
        _limited(panel, seen, _MARGIN)
    return figure


def _until_lost(replay: Array, measured: Array) -> Array:
    """A replay up to where it first is outside of what is drawn."""
    reach = (1 + 2 * _MARGIN) * np.ptp(measured[np.isfinite(measured)]) if np.isfinite(measured).any() else np.inf
    outside = np.abs(replay - np.nanmean(measured)) > reach
    return np.where(np.cumsum(outside) > 1, np.nan, replay)


def _panels(names: Sequence[str], units: Sequence[str]) -> tuple[Figure, list[Axes]]:
    titles = [f"{name} [{unit}]" for name, unit in zip(names, units, strict=True)]
    return pictures.over_time(titles[:MOST], 0.4, 1.25)


def _limited(panel: Axes, values: Array, margin: float) -> None:
    known = values[np.isfinite(values)]
    if known.size and np.ptp(known) > 0:
        reach = margin * float(np.ptp(known))
        panel.set_ylim(float(known.min()) - reach, float(known.max()) + reach)
