"""Problem file for a robot and its log, written to be read and changed, with initial values for a fit."""

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

from spookid.assembly.constants import width_along
from spookid.data.recording import Recording
from spookid.data.sampling import finite_samples
from spookid.errors import ProblemError
from spookid.kernels.arrays import Array
from spookid.mechanics.inertia_coordinates import LogCholesky
from spookid.results.trajectory import rms
from spookid.robots.description import Freedom
from spookid.robots.identified import efforts_along
from spookid.robots.logs import Log, Matched, notices
from spookid.robots.robot import Robot

_SHARE = 0.02
"""Of a drive's greatest effort, the friction of a gear of which nothing is known."""
_LEAST = 1e-2
"""Least share of an effort in an initial value, so that no fit begins at a bound."""


@dataclass(frozen=True)
class Drive:
    """Initial values of friction, armature and gain for one coordinate, in SI units."""

    viscous: float
    coulomb: float
    armature: float
    gain: float = 1.0
    """Effort per unit of the signal."""
    alike: bool = False
    """True if the log does not determine the gain, and it is the usual one of the other drives."""


def drives(robot: Robot, recording: Recording | None, matched: Matched, known: Mapping[str, float]) -> dict[str, Drive]:
    """Return a dict from joint label to initial friction, armature and gain, from the log or the URDF or MJCF file."""
    plain = {label: replace(_plain(freedom), gain=known.get(label, 1.0)) for label, freedom in robot.freedoms.items()}
    if recording is None or not matched.efforts or matched.effort == "voltage":
        return plain
    try:
        return plain | _regressed(robot, recording, matched, known)
    except ProblemError:  # loops, or joints of which nothing was measured
        return plain


def _plain(freedom: Freedom) -> Drive:
    effort = freedom.limits.effort if np.isfinite(freedom.limits.effort) else 10.0
    rate = freedom.limits.velocity if np.isfinite(freedom.limits.velocity) else 1.0
    viscous, coulomb = freedom.viscous or _SHARE * effort / rate, freedom.coulomb or _SHARE * effort
    return Drive(viscous, coulomb, freedom.armature or 1e-3 * effort)


def _regressed(robot: Robot, recording: Recording, matched: Matched, given: Mapping[str, float]) -> dict[str, Drive]:
    """Per joint: K u − (what the file's bodies take) is b s + c sign(s) + J a + offset."""
    nothing = {"viscous": 0, "coulomb": 0, "armature": 0}
    bare = robot.with_(joints={label: nothing for label in matched.positions if label in robot.joints})
    along = efforts_along(bare, recording, matched.positions, matched.efforts)
    seen = {}
    for i, label in enumerate(along.motors):
        rate = np.gradient(np.interp(along.t, *finite_samples(recording, matched.positions[label])), along.t)
        signal = along.measured[:, i]
        if np.any(rate) and np.any(signal) and np.all(np.isfinite(signal)):
            sign = np.tanh(rate / width_along(rate[:, None]))
            others = np.column_stack([rate, sign, np.gradient(rate, along.t), np.ones_like(rate)])
            seen[label] = along.efforts[:, i], others, signal
    if matched.effort in ("torque", "control"):
        return {label: _drive(*one, given.get(label, 1.0)) for label, one in seen.items()}
    independent = along.cutoff * float(along.t[-1] - along.t[0])
    gains = {label: given.get(label) or _told_gain(*one, independent) for label, one in seen.items()}
    known = [gain for gain in gains.values() if gain is not None]
    usual = float(np.median(known)) if known else 1.0
    return {
        label: replace(_drive(*one, gains[label] or usual), alike=gains[label] is None and bool(known))
        for label, one in seen.items()
    }


def _told_gain(needed: Array, others: Array, signal: Array, independent: float) -> float | None:
    """Effort per unit of the signal, if so many independent samples determine it better than that drives are alike; the
    signal has the noise."""
    columns = np.column_stack([needed, others])
    scale = np.linalg.norm(columns, axis=0)
    if not np.all(scale > 0) or np.linalg.matrix_rank(columns / scale) < len(scale):
        return None
    inverse = np.linalg.pinv(columns / scale)
    found = inverse @ signal
    left = np.mean((signal - columns / scale @ found) ** 2) * len(signal) / independent
    error = np.sqrt(left) * np.linalg.norm(inverse[0])
    return None if error > _ALIKE * abs(found[0]) else float(scale[0] / found[0])


def _drive(needed: Array, others: Array, signal: Array, gain: float) -> Drive:
    """The other initial values for a gain; none at a bound."""
    scale = np.linalg.norm(others, axis=0)
    found = np.linalg.lstsq(others / scale, gain * signal - needed, rcond=None)[0] / scale
    least = _LEAST * rms(gain * signal) / np.sqrt(np.mean(others[:, :3] ** 2, axis=0))
    viscous, coulomb, armature = np.maximum(found[:3], least).tolist()
    return Drive(viscous, coulomb, armature, gain)


def printed(value: float) -> str:
    """Format an initial value for a problem file."""
    return repr(float(f"{value:.3g}"))


_DATA_SHEET = 0.1
"""Share within which a data sheet knows a gain."""
_ALIKE = 0.2
"""Share within which the drives of a robot are alike, where no data determine a gain: without any prior this gain and
all inertias that it drives may shrink to nothing together."""
_SIGNAL_UNITS = {"torque": "", "current": "/A", "voltage": "/V"}


@dataclass(frozen=True)
class Scaffold:
    """Text of a generated problem file, with notes for the user."""

    text: str
    matched: Matched
    held: tuple[str, ...]
    """Joints of which the log says nothing."""
    notices: tuple[str, ...] = ()
    """What to look at in the file and in the log."""


def scaffold(
    robot: Robot,
    log: Log | None,
    out: Path,
    command: str,
    gains: Mapping[str, float] = MappingProxyType({}),
    matched: Matched | None = None,
) -> Scaffold:
    """Write the problem file for a robot; ``matched`` are columns that a user has assigned."""
    if log is not None:  # what its names say stands in the problem file
        log = replace(log, units={**log.named_units, **log.units})
    matched = matched or _matched(robot, log)
    _check_gains(gains, matched)
    gains = _with_actuators(robot, matched, gains)
    held = _still(robot, matched)
    matched = matched.without(held)
    robot = robot.with_(held=dict.fromkeys(held, 0.0))
    robot.model()  # refuses one of which nothing moves
    recording = None if log is None else log.recording(matched)
    found = drives(robot, recording, matched, gains)
    text = _text(robot, log, out, matched, held, found, gains, command)
    if log is None or recording is None:
        return Scaffold(text, matched, tuple(held), robot.notices)
    told = [*_of_file(robot, matched), *log.notes, *notices(recording, matched.time), *_idle(recording, matched)]
    return Scaffold(text, matched, tuple(held), tuple(dict.fromkeys(told)))


def _of_file(robot: Robot, matched: Matched) -> list[str]:
    """What is said of the robot's file; servos that follow commands of the log are in the problem file."""
    return [notice for notice in robot.notices if not (matched.commands and notice in robot.servo_notices)]


def _matched(robot: Robot, log: Log | None) -> Matched:
    """Signals of the robot's coordinates."""
    labels, described = list(robot.freedoms), robot.description
    if log is None:
        keys = {label: _key(label, labels) for label in labels}
        return Matched("t", {n: f"{k}_q" for n, k in keys.items()}, {n: f"{k}_tau" for n, k in keys.items()}, "torque")
    pairs = ({d.name: d.joint for d in kind if d.joint in labels} for kind in (described.actuators, described.servos))
    found = log.matched(labels, *pairs)
    if not found.positions:
        raise ProblemError(
            f"{log.path} has no position of any joint of {robot.name!r}; it has {', '.join(log.columns)}: name columns "
            f"after the joints ({', '.join(labels)}) or q1, q2 ... in their order"
        )
    return found


def _with_actuators(robot: Robot, matched: Matched, gains: Mapping[str, float]) -> Mapping[str, float]:
    """Dict from joint to gain of the drive, including the actuators of the URDF or MJCF file."""
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
    what = f"{', '.join(nothing)} {'is' if len(nothing) == 1 else 'are'} 0 throughout"
    return [f"{what}: if that was not measured, take its Motor out of the problem file"] if nothing else []


def _check_gains(gains: Mapping[str, float], matched: Matched) -> None:
    for name, value in gains.items():
        driven = matched.efforts if matched.effort in ("current", "voltage") else {}
        if name not in driven:
            known = f"it has those of {', '.join(driven) or 'no joint'}"
            known += "; for a torque with the wrong sign write gain=-1.0 in the Motor of the file" if value < 0 else ""
            raise ProblemError(f"--gain {name}={value:g}: no column is a current or voltage of joint {name!r}; {known}")
        if value == 0:
            raise ProblemError(f"--gain {name}=0: a drive without gain does nothing; give what its data sheet says")


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
    """A name as the beginning of that of a Parameter."""
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
    environment.filters["quoted"] = _quoted
    environment.filters["in_docstring"] = lambda text: text.strip("\n").replace("\\", "/").replace('"""', "") + "\n"
    unused: dict[str, list[str]] = {}
    for column, reason in matched.unused.items():
        unused.setdefault(reason, []).append(column)
    chosen = {
        "free": robot.free,
        "merge": not robot.merge,
        "mend": robot.mend or not _all_thick(robot),
        "trust": robot.trust,
    }
    options = [_relative(robot.source.document.file, out), *(f"{n}={n != 'merge'}" for n, on in chosen.items() if on)]
    if robot.held:
        options.append(f"held={json.dumps({name: float(at) for name, at in robot.held.items()})}")
    places = {label: (name, i) for name, joint in robot.joints.items() for i, label in enumerate(joint.labels)}
    keys = {label: _key(label, robot.freedoms) for label in robot.freedoms}
    efforts = {label: robot.coordinates[label].effort for label in matched.efforts}
    alike = [label for label in matched.efforts if guesses[label].alike]
    return environment.get_template("problem.py.jinja").render(
        robot=robot,
        notices=_of_file(robot, matched),
        log=log,
        log_path=log and _relative(log.path, out),
        problem=_key(robot.name),
        command=command,
        matched=matched,
        unused=unused,
        held=held,
        undriven=[label for label in robot.freedoms if label not in {*matched.efforts, *matched.commands}],
        servos=dict(_servos(robot, matched, keys)),
        delay=_delay(robot, matched),
        options=options,
        within=0.3,  # inertias of files are mostly known so well
        sheet=f"{100 * _DATA_SHEET:.0f} %",
        like=f"{100 * _ALIKE:.0f} %",
        bodies={name: _key(name, robot.bodies) for name in robot.bodies},
        friction=dict(_friction(robot, matched, guesses, keys)),
        alike=alike,
        untold=[label for label in matched.efforts if label not in gains and label not in alike],
        joint={label: f"fitted.joints[{_quoted(name)}]" for label, (name, _) in places.items()},
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
        if name in matched.efforts or name in matched.commands:
            inertia = "kg m^2" if unit == "rad" else "kg"
            own["armature"] = _parameter(f"{key}_armature", drive.armature, inertia, 0.0)
        yield name, own


_LATE = 0.005
"""Delay of commands of which nothing is known [s]."""
_FIRM = 5.0
"""Gain of a servo of which nothing is known, in greatest efforts per radian or metre."""


def _servos(robot: Robot, matched: Matched, keys: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Arguments of a Servo by the label of each joint that follows commands."""
    of_file = {one.joint: one for one in robot.description.servos}
    for label in matched.commands:
        coordinate, key, known = robot.coordinates[label], keys[label], of_file.get(label)
        effort, unit = coordinate.effort, coordinate.unit
        limit = robot.freedoms[label].limits.effort if known is None else known.limit
        kp = known.kp if known else _FIRM * (limit if np.isfinite(limit) else 10.0)
        velocity = known is not None and known.mode == "velocity"
        kd = kp / 50 if known is None else known.kd
        own = {"kp": _parameter(f"{key}_kp", kp, f"{effort}{' s' if velocity else ''}/{unit}", 0.0)}
        if kd > 0:
            own["kd"] = _parameter(f"{key}_kd", kd, f"{effort} s/{unit}", 0.0)
        if velocity:
            own["mode"] = _quoted("velocity")
        if np.isfinite(limit) and limit > 0:
            own["limit"] = printed(limit)
        own |= {"lag": _parameter(f"{key}_lag", known.lag, "s", 0.0)} if known and known.lag > 0 else {}
        yield label, own


def _delay(robot: Robot, matched: Matched) -> str:
    """That of all commands; empty without any."""
    told = [one.delay for one in robot.description.servos if one.joint in matched.commands and one.delay > 0]
    return _parameter("delay", told[0] if told else _LATE, "s", 0.0, 20 * _LATE) if matched.commands else ""


def _gain(key: str, kind: str, drive: Drive, effort: str, known: bool) -> str:
    """Of a motor, with the comma behind it; none of one whose signal is its effort."""
    if kind == "control":
        return f"{drive.gain!r},  # gear times gain of the file's actuator"
    if kind == "torque":
        return ""
    ends = (0.0, np.inf) if drive.gain > 0 else (-np.inf, 0.0)
    share = _DATA_SHEET if known else _ALIKE if drive.alike else 0.0
    return _parameter(f"{key}_gain", drive.gain, f"{effort}{_SIGNAL_UNITS[kind]}", *ends, share) + ","


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
    own += [f"prior=({printed(guess)}, {printed(share * abs(guess))})"] if share else []
    return f"Parameter({', '.join([_quoted(name), printed(guess), *own, f'unit={_quoted(unit)}'])})"


def _quoted(text: str) -> str:
    """A text as Python has it, whatever stands in it."""
    return json.dumps(text, ensure_ascii=False)
