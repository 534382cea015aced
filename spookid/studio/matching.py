"""Which column of a log is what: proposals that a user corrects, and the series of all that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.robots import Robot
from spookid.robots.logs import Log, match, opened
from spookid.studio.choices import ROLES, Choices, Column


def proposed(robot: Robot, path: Path, choices: Choices) -> tuple[Log, dict[str, Column]]:
    """A log, and what its columns are: as chosen, or as their names say."""
    log = opened(path)
    log = replace(log, units={name: unit for name, unit in choices.units.items() if name in {*log.columns, log.time}})
    labels, described = list(robot.freedoms), robot.description
    actuators = {one.name: one.joint for one in described.actuators if one.joint in labels}
    servos = {one.name: one.joint for one in described.servos if one.joint in labels}
    found = match([log.time, *log.columns], labels, actuators, servos, log.time)
    roles = {column: Column("position", joint) for joint, column in found.positions.items()}
    roles |= {column: Column(found.effort, joint) for joint, column in found.efforts.items()}
    roles |= {column: Column("command", joint) for joint, column in found.commands.items()}
    if len(labels) == 1:  # columns without a name of a joint are of the only one
        kinds = {reason.removeprefix("a "): name for name, reason in found.unused.items() if reason.startswith("a ")}
        known = {column.role for column in roles.values()}
        roles |= {name: Column(kind, labels[0]) for kind, name in kinds.items() if kind in ROLES and kind not in known}
    columns = {}
    for name in dict.fromkeys([*([log.time] if log.has_times else []), *log.columns]):
        proposal = roles.get(name) or Column(reason="times" if name == log.time else found.unused.get(name, ""))
        columns[name] = choices.columns.get(name) or proposal
    return log, columns


def readable(log: Log, columns: Mapping[str, Column]) -> tuple[Recording, dict[str, str]]:
    """All columns that hold numbers as one recording, and why the others do not."""
    names = [name for name in columns if name != log.time or not log.has_times]
    units = {**log.named_units, **log.units}
    log = replace(log, units=units)
    try:
        return log.read(names, log.time), {}
    except ProblemError as error:
        if not log.has_times:
            raise
        first = error
    good, bad = [], {}
    for name in names:
        try:
            log.read([name], log.time)
            good.append(name)
        except ProblemError as error:
            bad[name] = str(error)
    if not good:
        raise first
    return log.read(good, log.time), bad


def tree(columns: Mapping[str, Column]) -> dict[str, Any]:
    """As JSON holds it."""
    return {name: asdict(column) for name, column in columns.items()}
