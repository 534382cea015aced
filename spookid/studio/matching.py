"""Which column of a log is what: proposals that a user corrects, and the series of all that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.robots import Robot
from spookid.robots.logs import Log, Matched, opened
from spookid.studio.choices import ROLES, Choices, Column


def read_with(path: Path, choices: Choices) -> Log:
    """A log with the units that were chosen, and those that its columns name."""
    log = opened(path)
    there = {*log.columns, log.time}
    chosen = {name: unit for name, unit in choices.units.items() if name in there}
    return replace(log, units={**log.named_units, **chosen})


def proposed(robot: Robot, choices: Choices, path: Path) -> tuple[Log, dict[str, Column]]:
    """A log, and what its columns are: as chosen, or as their names say."""
    log, labels, described = read_with(path, choices), list(robot.freedoms), robot.description
    actuators, servos = (
        {one.name: one.joint for one in kind if one.joint in labels} for kind in (described.actuators, described.servos)
    )
    found = log.matched(labels, actuators, servos)
    kinds = {"position": found.positions, found.effort: found.efforts, "command": found.commands}
    roles = {column: Column(kind, joint) for kind, own in kinds.items() for joint, column in own.items()}
    if len(labels) == 1:  # columns without a name of a joint are of the only one
        free = {reason.removeprefix("a "): name for name, reason in found.unused.items()}
        known = {column.role for column in roles.values()}
        roles |= {name: Column(kind, labels[0]) for kind, name in free.items() if kind in ROLES and kind not in known}
    names = dict.fromkeys([*([log.time] if log.has_times else []), *log.columns])
    proposals = {name: roles.get(name) or Column(reason=found.unused.get(name, "")) for name in names}
    return log, {name: choices.columns.get(name) or proposal for name, proposal in proposals.items()}


def readable(log: Log, columns: Mapping[str, Column]) -> tuple[Recording, dict[str, str]]:
    """All columns that hold numbers as one recording, and why the others do not."""
    names, bad = [name for name in columns if name != log.time or not log.has_times], dict[str, str]()
    try:
        return log.read(names, log.time), bad
    except ProblemError:
        if not log.has_times or len(names) < 2:
            raise
    for name in names:
        try:
            log.read([name], log.time)
        except ProblemError as error:
            bad[name] = str(error)
    return log.read([name for name in names if name not in bad] or names, log.time), bad


def matched_by(log: Log, columns: Mapping[str, Column]) -> Matched:
    """Columns as the user has matched them; of efforts those of the kind that most joints have."""
    found: dict[str, dict[str, str]] = {}
    unused: dict[str, str] = {}
    for name, column in columns.items():
        if name == log.time or name not in log.columns:
            continue
        own = found.setdefault(column.role, {})
        if not column.role or not column.joint:
            unused[name] = column.reason or "not used"
        elif column.joint in own:
            both = f"columns {own[column.joint]!r} and {name!r} are both the {column.role} of joint {column.joint!r}"
            raise ProblemError(f"{both}; leave one of them unused")
        else:
            own[column.joint] = name
    if not found.get("position"):
        raise ProblemError(f"no column of {log.path.name} is assigned to the position of a joint; assign one")
    return Matched.of(log.time, found, unused)
