"""A problem file for a robot and its log: written to be read, and to be changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

import numpy as np

from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.mechanics.inertia_coordinates import LogCholesky
from spookid.robots.first_guesses import Drive, drives, printed
from spookid.robots.logs import Log, Matched, notices
from spookid.robots.robot import Robot

_WITHIN = 0.3
"""Share within which inertias of files are mostly known."""
_MOST = 100
"""Coordinates of a robot of which a fit is of any use."""
_DATA_SHEET = 0.1
"""Share within which a data sheet knows a gain."""
_ALIKE = 0.2
"""Share within which the drives of a robot are alike, where nothing else tells of one: without any prior its gain and
all that it drives may shrink to nothing together."""
_SIGNAL_UNITS = {"torque": "", "current": "/A", "voltage": "/V"}


@dataclass(frozen=True)
class Scaffold:
    """A problem file, and what to say of it."""

    text: str
    matched: Matched
    held: tuple[str, ...]
    """Joints of which the log says nothing."""
    notices: tuple[str, ...] = ()
    """What to look at in the log."""


def scaffold(
    robot: Robot, log: Log | None, out: Path, command: str, gains: Mapping[str, float] = MappingProxyType({})
) -> Scaffold:
    """The problem file of a robot.

    Args:
        log: what was recorded; None: nothing yet.
        out: where the file will be, for the paths in it.
        command: that it was asked for by.
        gains: what is known of drives by joint, effort along it per unit of its current or voltage.

    Raises:
        ProblemError: for a log that cannot be read, or in which no position of any joint is found, or for gains of
            joints without a current or voltage in it.
    """
    if log is not None:  # what its names say stands in the problem file
        log = replace(log, units={**log.named_units, **log.units})
    matched = _matched(robot, log)
    _check_gains(gains, matched)
    gains = _with_actuators(robot, matched, gains)
    held = _still(robot, matched)
    robot = robot.with_(held=dict.fromkeys(held, 0.0))
    _check_size(robot)
    recording = None if log is None else log.recording(matched)
    found = drives(robot, recording, matched, gains)
    text = _Text(robot, log, out, matched, tuple(held), found, gains).whole(command)
    if log is None or recording is None:
        return Scaffold(text, matched, tuple(held))
    told = [*log.notes, *notices(recording, matched.time), *_idle(recording, matched)]
    return Scaffold(text, matched, tuple(held), tuple(dict.fromkeys(told)))


def _matched(robot: Robot, log: Log | None) -> Matched:
    """Signals of the robot's coordinates."""
    labels = list(robot.freedoms)
    if log is None:
        return _simulated(labels)
    found = log.matched(labels, {one.name: one.joint for one in robot.description.actuators if one.joint in labels})
    if not found.positions:
        raise ProblemError(
            f"{log.path} has no position of any joint of {robot.name!r}; it has {', '.join(log.columns)}: name columns "
            f"after the joints ({', '.join(labels)}) or q1, q2 ... in their order"
        )
    return found


def _with_actuators(robot: Robot, matched: Matched, gains: Mapping[str, float]) -> Mapping[str, float]:
    """Gains of drives by joint, with those of the file's actuators."""
    actuators = robot.description.actuators
    if matched.effort == "voltage":
        return {**{one.joint: one.gain for one in actuators if one.joint in matched.efforts}, **gains}
    if matched.effort == "control":
        of_names = {one.name: one.gain for one in actuators}
        return {label: of_names[column] for label, column in matched.efforts.items()}
    return gains


def _idle(recording: Recording, matched: Matched) -> list[str]:
    """What is told of efforts without any."""
    nothing = [c for c in matched.efforts.values() if not np.any(np.nan_to_num(recording.signal(c)))]
    if not nothing:
        return []
    return [
        f"{', '.join(nothing)} {'is' if len(nothing) == 1 else 'are'} 0 throughout: if that was not measured, take its "
        "Motor out of the problem file"
    ]


def _check_size(robot: Robot) -> None:
    if len(robot.freedoms) > _MOST:
        raise ProblemError(
            f"{robot.source.document.file} has {len(robot.freedoms)} joints that move, and a fit is of {_MOST} at the "
            "most; hold others with --hold, or give a log without them"
        )
    robot.model()  # refuses one of which nothing moves


def _check_gains(gains: Mapping[str, float], matched: Matched) -> None:
    for name, value in gains.items():
        driven = matched.efforts if matched.effort in ("current", "voltage") else {}
        if name not in driven:
            known = f"it has those of {', '.join(driven)}" if driven else "it has none"
            raise ProblemError(f"--gain {name}={value:g}: no column is a current or voltage of joint {name!r}; {known}")
        if value == 0:
            raise ProblemError(f"--gain {name}=0: a drive without gain does nothing; give what its data sheet says")


def _simulated(labels: Sequence[str]) -> Matched:
    """Signals of a robot without a log."""
    return Matched(
        "t",
        {label: f"{_key(label, labels)}_q" for label in labels},
        {label: f"{_key(label, labels)}_tau" for label in labels},
        "torque",
    )


def _still(robot: Robot, matched: Matched) -> list[str]:
    """Joints without a column, which are held if nothing else places them."""
    if robot.description.loops:
        return []
    ties, seen = robot.description.ties, set(matched.positions)
    for _ in ties:
        seen |= {name for tie in ties for name in (tie.leader, tie.follower) if {tie.leader, tie.follower} & seen}
    single = [one.name for one in robot.grouped.connections if one.kind in ("hinge", "slide")]
    following = {tie.follower for tie in ties}  # is held with what it follows
    return [name for name in single if name not in following and name not in seen]


def _all_thick(robot: Robot) -> bool:
    """True if coordinates of an inertia can begin from each."""
    try:
        for name, body in robot.bodies.items():
            if body.distribution is not None:
                LogCholesky(_key(name), body.distribution)
    except ProblemError:
        return False
    return True


def _key(name: str, others: Iterable[str] = ()) -> str:
    """A name as the beginning of that of a Parameter.

    Args:
        others: names of the same kind, of which those before it may have the same beginning.
    """
    before = [word for word in map(_word, takewhile(lambda other: other != name, others)) if word == _word(name)]
    return _word(name) + (f"_{len(before) + 1}" if before else "")


def _word(name: str) -> str:
    word = re.sub(r"\W+", "_", name).strip("_")
    return word if word.isidentifier() else f"_{word}"


# --- the text ---


@dataclass(frozen=True, eq=False)
class _Text:
    """The problem file, and what it is written from."""

    robot: Robot
    log: Log | None
    out: Path
    matched: Matched
    held: tuple[str, ...]
    drives: Mapping[str, Drive]
    gains: Mapping[str, float]

    def whole(self, command: str) -> str:
        """All of it."""
        return "\n".join([self._title(command), self._beginning(), self._inertias(), self._joints(), self._rest()])

    def _title(self, command: str) -> str:
        robot, matched, log = self.robot, self.matched, self.log
        lines = [
            f"{robot.name}: inertias, friction and drives{f' from {log.path.name}' if log else ''}.",
            "",
            f"Written by `{command}`; every line is yours to change.",
            "Guesses are those of the robot's file, and of a regression of its efforts along the log where that has any"
            ".",
        ]
        if matched.unused:
            reasons: dict[str, list[str]] = {}
            for column, reason in matched.unused.items():
                reasons.setdefault(reason, []).append(column)
            lines += ["", "Columns of the log that are not used:"]
            lines += [f"- {', '.join(columns)}: {reason}" for reason, columns in reasons.items()]
        without = [label for label in robot.freedoms if label not in matched.efforts]
        if self.held:
            lines += ["", f"Joints without a column, held at 0: {', '.join(self.held)}."]
        if matched.efforts and without:
            lines += ["", f"Joints that nothing drives: {', '.join(without)}."]
        lines += [f"- {notice}" for notice in robot.notices]
        text = "\n".join(lines).replace("\\", "/").replace('"""', "")
        return f'"""{text}\n"""\n'

    def _beginning(self) -> str:
        robot = self.robot
        mend = robot.mend or not _all_thick(robot)
        chosen = (("free=True", robot.free), ("merge=False", not robot.merge), ("mend=True", mend))
        options = [_relative(robot.source.document.file, self.out), *(name for name, on in chosen if on)]
        if robot.held:
            options.append(f"held={json.dumps({name: float(at) for name, at in robot.held.items()})}")
        return f"""from pathlib import Path

from spookid import JointPosition, LogCholesky, Motor, Parameter, Problem, Recording, robots

HERE = Path(__file__).parent
robot = robots.read({", ".join(options)})
"""

    def _inertias(self) -> str:
        keys = {name: _quoted(_key(name, self.robot.bodies)) for name in self.robot.bodies}
        rows = [
            f"    {_quoted(name)}: LogCholesky({key}, robot.bodies[{_quoted(name)}].distribution, within=WITHIN),"
            for name, key in keys.items()
        ]
        known = "what the file says of masses, centres and inertias is known within this share"
        return "\n".join([f"WITHIN = {_WITHIN}  # {known}", "inertias = {", *rows, "}", ""])

    def _joints(self) -> str:
        robot, rows = self.robot, []
        for name, joint in robot.joints.items():
            if len(joint.coordinates) != 1 or name not in robot.freedoms:
                continue
            drive, effort = self.drives[name], joint.coordinates[0].effort
            limit = robot.freedoms[name].limits.effort
            own = {
                "viscous": (drive.viscous, f"{effort} {'s' if effort == 'N m' else 's/m'}", np.inf),
                "coulomb": (drive.coulomb, effort, limit if limit > drive.coulomb else np.inf),
            }
            if name in self.matched.efforts:
                own["armature"] = (drive.armature, "kg m^2" if joint.coordinates[0].unit == "rad" else "kg", np.inf)
            rows.append(f"    {_quoted(name)}: {{")
            key = _key(name, robot.freedoms)
            for what, (guess, unit, upper) in own.items():
                rows.append(f'        "{what}": {_parameter(f"{key}_{what}", guess, unit, 0.0, upper)},')
            rows.append("    },")
        if not rows:
            return "robot = robot.with_(inertias=inertias)\n"
        what, last = (
            "# Friction, and what a joint feels of the rotor that drives it.",
            "inertias=inertias, joints=friction",
        )
        return "\n".join([what, "friction = {", *rows, "}", f"robot = robot.with_({last})", ""])

    def _rest(self) -> str:
        """Motors, sensors and the problem."""
        robot, matched, log = self.robot, self.matched, self.log
        place = {label: (name, i) for name, joint in robot.joints.items() for i, label in enumerate(joint.labels)}
        lines = [*_about_gains(matched, self.gains, self.drives), "motors = ["]
        for label, signal in matched.efforts.items():
            key, effort = _key(label, robot.freedoms), robot.coordinates[label].effort
            at = _joint(*place[label])
            lines += _motor(key, signal, matched.effort, self.drives[label], effort, at, label in self.gains)
        lines += ["]", "observations = ["]
        for label, signal in matched.positions.items():
            joint, which = _joint(*place[label])
            lines.append(f"    JointPosition({joint}, signal={_quoted(signal)}{which}),")
        signals = "[*(motor.signal for motor in motors), *(sensor.signal for sensor in observations)]"
        lines += ["]", f"signals = {signals}"]
        recordings = [
            "    # Nothing is recorded yet. A file with columns of these signals, in SI units:",
            '    # Recording.from_csv(HERE / "log.csv", time="t", signals=signals)',
            "    recordings=[],",
        ]
        if log is not None:
            recordings = [f"    recordings=[{log.call(matched)}],"]
            lines += ["", f"LOG = {_relative(log.path, self.out)}"]
        lines += ["problem = Problem(", f"    {_quoted(_key(robot.name))},", "    model=robot.model(motors=motors),"]
        return "\n".join([*lines, *recordings, "    observations=observations,", ")", ""])


def _relative(path: Path, out: Path) -> str:
    """How the problem file names another file."""
    try:
        relative = os.path.relpath(path.resolve(), out.resolve().parent)
    except ValueError:  # another drive
        return f"Path({_quoted(str(path.resolve()))})"
    return f"HERE / {_quoted(Path(relative).as_posix())}"


def _joint(name: str, index: int) -> tuple[str, str]:
    """A joint, and the argument for one of its coordinates but the first."""
    return f"robot.joints[{_quoted(name)}]", f", coordinate={index}" if index else ""


def _about_gains(matched: Matched, gains: Mapping[str, float], drives: Mapping[str, Drive]) -> list[str]:
    """What there is to know of gains, as comments."""
    if matched.effort not in ("current", "voltage"):
        return []
    alike = [label for label in matched.efforts if drives[label].alike]
    without = [label for label in matched.efforts if label not in gains and label not in alike]
    if not (without or alike):
        return ["# Masses and friction are no better known than the gains, whose priors fix their scale."]
    untold = [
        f"# The log hardly tells the gain of {', '.join(alike)}, which is taken to be like those of the",
        f"# other drives, within {100 * _ALIKE:.0f} %.",
    ]
    return [
        f"# A {matched.effort} alone tells no gain from a scale of all masses and friction. Here that scale is as well",
        "# known as the file's inertias, WITHIN. Data sheets know gains better: spookid new --gain JOINT=VALUE takes",
        f"# them as known within {100 * _DATA_SHEET:.0f} %, or give a Parameter prior=(value, error). A log with a",
        "# payload of known mass, beside one without it, tells the scale, too. Regressed along the log, with no prior:",
        f"# {', '.join(without) or 'none'}.",
        *(untold if alike else ()),
    ]


def _motor(key: str, signal: str, kind: str, drive: Drive, effort: str, at: tuple[str, str], known: bool) -> list[str]:
    joint, which = at
    measured = "" if kind in ("voltage", "control") else ", measured=True"
    gain = []
    if kind == "control":
        gain = [f"        gain={drive.gain!r},  # gear times gain of the file's actuator"]
    elif kind != "torque":
        lower = 0.0 if drive.gain > 0 else -np.inf
        upper = np.inf if drive.gain > 0 else 0.0
        share = _DATA_SHEET if known else _ALIKE if drive.alike else 0.0
        value = _parameter(f"{key}_gain", drive.gain, f"{effort}{_SIGNAL_UNITS[kind]}", lower, upper, share)
        gain = [f"        gain={value},"]
    return [
        "    Motor(",
        f"        {joint}, {_quoted(signal)}{which}{measured},",
        *gain,
        f"        offset={_parameter(f'{key}_offset', 0.0, effort)},",
        "    ),",
    ]


def _parameter(
    name: str, guess: float, unit: str, lower: float = -np.inf, upper: float = np.inf, share: float = 0.0
) -> str:
    """A Parameter, with a prior if it is known within a share."""
    own = [f"{side}={printed(at)}" for side, at in (("lower", lower), ("upper", upper)) if np.isfinite(at)]
    if share:
        own.append(f"prior=({printed(guess)}, {printed(share * abs(guess))})")
    return f"Parameter({', '.join([_quoted(name), printed(guess), *own, f'unit={_quoted(unit)}'])})"


def _quoted(text: str) -> str:
    """A text as Python has it, whatever stands in it."""
    return json.dumps(text, ensure_ascii=False)
