"""A problem file for a robot and its log: written to be read, and to be changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

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
    text = _text(robot, log, out, matched, held, found, gains, command)
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


def _text(
    robot: Robot,
    log: Log | None,
    out: Path,
    matched: Matched,
    held: Sequence[str],
    guesses: Mapping[str, Drive],
    gains: Mapping[str, float],
    command: str,
) -> str:
    """The problem file, of ``templates/problem.py.jinja``."""
    environment = Environment(
        loader=PackageLoader("spookid.robots"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"quoted": _quoted, "in_docstring": _in_docstring}
    unused: dict[str, list[str]] = {}
    for column, reason in matched.unused.items():
        unused.setdefault(reason, []).append(column)
    chosen = {"free": robot.free, "merge": not robot.merge, "mend": robot.mend or not _all_thick(robot)}
    options = [_relative(robot.source.document.file, out), *(f"{n}={n != 'merge'}" for n, on in chosen.items() if on)]
    if robot.held:
        options.append(f"held={json.dumps({name: float(at) for name, at in robot.held.items()})}")
    places = {label: (name, i) for name, joint in robot.joints.items() for i, label in enumerate(joint.labels)}
    keys = {label: _key(label, robot.freedoms) for label in robot.freedoms}
    efforts = {label: robot.coordinates[label].effort for label in matched.efforts}
    alike = [label for label in matched.efforts if guesses[label].alike]
    return environment.get_template("problem.py.jinja").render(
        robot=robot,
        log=log,
        log_path=log and _relative(log.path, out),
        problem=_key(robot.name),
        command=command,
        matched=matched,
        unused=unused,
        held=held,
        undriven=[label for label in robot.freedoms if label not in matched.efforts],
        options=options,
        within=_WITHIN,
        sheet=f"{100 * _DATA_SHEET:.0f} %",
        like=f"{100 * _ALIKE:.0f} %",
        bodies={name: _key(name, robot.bodies) for name in robot.bodies},
        friction=dict(_friction(robot, matched, guesses, keys)),
        alike=alike,
        untold=[label for label in matched.efforts if label not in gains and label not in alike],
        joint={label: f"robot.joints[{_quoted(name)}]" for label, (name, _) in places.items()},
        which={label: f", coordinate={i}" if i else "" for label, (_, i) in places.items()},
        measured="" if matched.effort in ("voltage", "control") else ", measured=True",
        gain={n: _gain(keys[n], matched.effort, guesses[n], efforts[n], n in gains) for n in matched.efforts},
        offset={label: _parameter(f"{keys[label]}_offset", 0.0, effort) for label, effort in efforts.items()},
    )


def _friction(
    robot: Robot, matched: Matched, guesses: Mapping[str, Drive], keys: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Parameters of joints that have one coordinate."""
    for name, joint in robot.joints.items():
        if len(joint.coordinates) != 1 or name not in robot.freedoms:
            continue
        drive, limit, key = guesses[name], robot.freedoms[name].limits.effort, keys[name]
        unit, effort = joint.coordinates[0].unit, joint.coordinates[0].effort
        rate, upper = f"{effort} {'s' if effort == 'N m' else 's/m'}", limit if limit > drive.coulomb else np.inf
        own = {
            "viscous": _parameter(f"{key}_viscous", drive.viscous, rate, 0.0),
            "coulomb": _parameter(f"{key}_coulomb", drive.coulomb, effort, 0.0, upper),
        }
        if name in matched.efforts:
            inertia = "kg m^2" if unit == "rad" else "kg"
            own["armature"] = _parameter(f"{key}_armature", drive.armature, inertia, 0.0)
        yield name, own


def _gain(key: str, kind: str, drive: Drive, effort: str, known: bool) -> str:
    """Of a motor, with the comma behind it; none of one whose signal is its effort."""
    if kind == "control":
        return f"{drive.gain!r},  # gear times gain of the file's actuator"
    if kind == "torque":
        return ""
    ends = (0.0, np.inf) if drive.gain > 0 else (-np.inf, 0.0)
    share = _DATA_SHEET if known else _ALIKE if drive.alike else 0.0
    return _parameter(f"{key}_gain", drive.gain, f"{effort}{_SIGNAL_UNITS[kind]}", *ends, share) + ","


def _in_docstring(text: str) -> str:
    return text.strip("\n").replace("\\", "/").replace('"""', "") + "\n"


def _relative(path: Path, out: Path) -> str:
    """How the problem file names another file."""
    try:
        relative = os.path.relpath(path.resolve(), out.resolve().parent)
    except ValueError:  # another drive
        return f"Path({_quoted(str(path.resolve()))})"
    return f"HERE / {_quoted(Path(relative).as_posix())}"


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
