"""A robot: its file read, identified values written back, limits for planned motions, and a section of reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from spookid.argument_checks import Checked, checked
from spookid.assembly.loading import load_problem
from spookid.assembly.problem import Problem
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.body import RobotFile
from spookid.report import interactive
from spookid.report.pictures import BLUE, GREY, MOST_PANELS, ORANGE
from spookid.results.folders import Tree
from spookid.results.result import Solution
from spookid.robots.actuators import ServoActuator
from spookid.robots.comparing import RobotComparison, compare
from spookid.robots.description import Limits
from spookid.robots.parts import Parts
from spookid.robots.urdf import opened
from spookid.robots.writing import write
from spookid.studies.motion_limits import MotionLimits
from spookid.tables.table import Block, labelled


@dataclass(frozen=True, eq=False, repr=False)
class Robot(Parts, metaclass=Checked):
    """Robot that ``read`` returns. Bodies and joints are named after links and joints of the URDF or MJCF file.

    Links that do not move against each other are one body, which has the name of the one that carries the others; its
    frames are given in that link's frame. ::

        robot = robots.read("arm.urdf").with_(joints={"elbow": {"viscous": Parameter("b", 1.0, lower=0)}})
        model = robot.model(motors=[Motor(robot.joints["elbow"], "i", gain=Parameter("K", 10.0), measured=True)])
    """

    def write(
        self,
        path: str | PathLike[str],
        found: Solution | Mapping[str, float],
        servos: Sequence[ServoActuator] = (),
    ) -> Path:
        """Write the robot's file with identified values: inertias, damping and friction, for MJCF also armatures and
        springs. All other bytes stay unchanged. If several links form one body, the heaviest takes the difference.

        ``<path>.json`` holds all quantities with standard errors and covariance, quantities that the file cannot hold,
        and their origin.

        Args:
            path: path of the new file.
            found: a Solution whose bodies and joints have this robot's names; or values of the Parameters that are in
                this robot, by name.
            servos: of ``robots.servos``: each becomes the actuator of its joint in an MJCF, with gains, limit and
                delay, and its back-EMF is added to the damping. An actuator that the joint has already is replaced.

        Returns:
            path of the JSON.

        Raises:
            ProblemError: if it contains no part of the robot, if ``path`` exists and is no earlier export, for a folder
                from which an ``<include>`` is not found, or if the disk refuses.
        """
        return write(self, path, found, servos)

    def compare(self, solution: Solution, recording: int = 0, problem: Problem | None = None) -> RobotComparison:
        """Compare the original robot file and the file with identified values, using a recording of a solution.

        Torques are those of inverse dynamics; measured ones are gain times signal, and offsets are subtracted, because
        a file holds neither. Replays start MuJoCo on each second of the recording.

        Args:
            recording: number of the recording, from 0 on.
            problem: the problem that was solved. With it, torques are those at the samples of the recording and agree
                with ``problem.inverse_dynamics``; without it, those of splines through the fit's steps.

        Raises:
            ProblemError: if the solution has no part of this robot, or was written by an earlier version.
        """
        return compare(self, solution, recording, problem)


@checked
def read(
    path: str | PathLike[str],
    *,
    free: bool = False,
    held: Mapping[str, float] | None = None,
    merge: bool = True,
    mend: bool = False,
    trust: bool = False,
) -> Robot:
    """Read a robot from a URDF, xacro or MJCF file. Nothing is downloaded, and meshes of a URDF are not opened.

    Args:
        path: path of the file; ``.xacro`` needs the package xacro, MJCF the package mujoco.
        free: True if the root of a URDF moves freely, as a trunk does; False if it is the ground.
        held: joints that do not move, and where they are [rad or m].
        merge: False for a separate body for each link with a mass, connected by fixed joints.
        mend: True to replace impossible inertias by the nearest possible ones.
        trust: True if an MJCF and macros of xacro may read files outside the file's own folder; macros may then find
            packages and read variables of the environment, too.

    Raises:
        ProblemError: for a file of another kind, or one that describes no possible robot.
    """
    description, source = opened(Path(path), trust)
    return Robot(description, source, free, dict(held or {}), merge, mend, trust=trust)


def reread(known: RobotFile, path: Path | None = None, trust: bool = False) -> Robot:
    """Read a robot's file again from its present path with the same options; raises ProblemError as ``read``. Only the
    user can mark a file as trusted; results cannot."""
    return read(path or known.path, free=known.free, held=known.held, merge=known.merge, mend=known.mend, trust=trust)


@checked
def limits_within(problem: Problem, limits: MotionLimits | None) -> MotionLimits:
    """Merge given limits with limits in the robot's file from which the problem was made, if this file exists.

    Raises:
        ProblemError: if the file cannot be read.
    """
    known, told = problem.model.robot, dict[str, Limits]()
    if known is not None and Path(known.path).is_file():
        labels = {freedom.label for freedom in problem.model.freedoms}
        told = {label: own for label, own in reread(known, trust=known.trust).limits.items() if label in labels}
    for label, one in told.items():
        if not one.lower < one.upper:
            room = f"joint {label!r} has an empty range, {one.lower:g} to {one.upper:g}"
            raise ProblemError(f"{known and known.path}: {room}; correct the limits")
    found = MotionLimits(
        position={n: (x.lower, x.upper) for n, x in told.items() if np.isfinite([x.lower, x.upper]).any()},
        rate={n: x.velocity for n, x in told.items() if np.isfinite(x.velocity)},
        effort={n: x.effort for n, x in told.items() if np.isfinite(x.effort)},
        where=problem.place,
    )
    return found if limits is None else limits.over(found)


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
        raise ProblemError("the file does not exist; spookid report --robot FILE gives its new path")
    robot = reread(known, path)
    if hashlib.sha256(robot.source.document.content).hexdigest() != known.sha256:
        raise ProblemError("the file has changed since the problem was solved; solve the problem again")
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
        yield interactive.compared(titles[:MOST_PANELS], compared.t, _drawn(values), "Torques of the drives")
    if len(last.replays):
        values = {first.name: first.replays, "measured": compared.positions, last.name: last.replays}
        titles, t = list(map(labelled, compared.joints, compared.units)), _apart(compared.windows[..., None])[:, 0]
        lines = _drawn({name: _apart(one) for name, one in values.items() if len(one)})
        yield interactive.compared(titles[:MOST_PANELS], t, lines, "Replays in MuJoCo, in windows")


def _drawn(values: Mapping[str, Array]) -> dict[str, tuple[Array, str]]:
    """Before, measured and after, (N, n) each, those that there are with their colours."""
    colours = zip(values.items(), (GREY, ORANGE, BLUE), strict=False)
    return {name: (one, colour) for (name, one), colour in colours if len(one)}


def _apart(windows: Array) -> Array:
    """Windows (k, N, n) as one series (k (N + 1), n) with a gap behind each."""
    gaps = np.full((len(windows), 1, windows.shape[2]), np.nan)
    return np.concatenate([windows, gaps], axis=1).reshape(-1, windows.shape[2])
