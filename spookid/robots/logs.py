"""Logs of robots: which column is which coordinate, and how a problem file reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from spookid.assembly.problem import Problem
from spookid.data.logs.columns import Clock, Options, is_unit, parts, short_listing, to_si, whole
from spookid.data.logs.lines import REMAINDERS, TIMES, names_of, number_in, time_in, tokens
from spookid.data.logs.tables import read_npz
from spookid.data.logs.text import decoded
from spookid.data.reading import Readable, method_for
from spookid.data.recording import Recording
from spookid.errors import ProblemError
from spookid.files import unreadable
from spookid.tables.table import quantity

_SLOWEST = 0.2
"""Median time between samples [s] above which a log shows little of the motion; its times may not be in seconds."""


@dataclass(frozen=True)
class Log:
    """A file of signals."""

    path: Path
    columns: tuple[str, ...]
    has_times: bool
    """True if one of the columns has the times; False if the format itself knows them."""
    units: Mapping[str, str] = field(default_factory=dict)
    """What was said of units, by column."""
    topics: tuple[str, ...] = ()
    """That are read; none: those that are read without being asked for."""
    notes: tuple[str, ...] = ()
    """What a first look at it has said."""
    rate: float | None = None
    """Samples per second of a text without a column of times [Hz]."""

    @property
    def named_units(self) -> dict[str, str]:
        """Units other than SI that column names contain and that the user did not give."""
        named = {column: unit for column in self.columns if column not in self.units for unit in _unit_in(column)[1:]}
        return {column: unit for column, unit in named.items() if is_unit(unit) and not _is_si(unit)}

    @cached_property
    def time(self) -> str:
        """Name of the column of times in the log, or of a substitute.

        Raises:
            ProblemError: if no column has times, and no rate is given.
        """
        if not self.has_times or self.rate is not None:
            return "time" if self.rate is None else "t"
        if (named := time_in(self.columns)) in self.columns:
            return named
        first = self.columns[0]
        if _nameless(first) and not self._counts_rows(first):
            return first  # the index of a data frame, in seconds
        rows = " (the first one, without a name, counts rows)" if _nameless(first) else ""
        remedy = ", or say --rate HZ if its samples are evenly spaced" if method_for(self.path) == "from_csv" else ""
        raise ProblemError(
            f"{self.path} has no column of times{rows}; it has {short_listing(list(self.columns))}: name that of the "
            f"times t{remedy}"
        )

    def _counts_rows(self, column: str) -> bool:
        others = [name for name in self.columns if name != column]
        try:
            t = Recording.from_csv(self.path, time=column, signals=others[:1]).t
        except ProblemError:  # no times either
            return True
        return bool(np.all(np.diff(t) == 1))

    def matched(
        self, labels: list[str], actuators: Mapping[str, str], servos: Mapping[str, str] = MappingProxyType({})
    ) -> Matched:
        """Assign the log's columns to the coordinates and actuators of a robot; see ``match``."""
        columns = [self.time, *(column for column in self.columns if column != self.time)]
        found = match(columns, labels, actuators, servos, self.time)
        apart = (name for name in found.unused if tokens(name)[-1:] and tokens(name)[-1] in REMAINDERS)
        whose = tokens(found.time)[:-1], tokens(found.time)
        if rest := next((name for name in apart if tokens(name)[:-1] in whose), ""):
            raise ProblemError(
                f"{self.path} has its times in two columns, {found.time!r} and {rest!r}; write both into one, in "
                f"seconds: {found.time} + 1e-9 {rest}"
            )
        return found

    def recording(self, matched: Matched) -> Recording:
        """What was matched."""
        return self.read(matched.signals, matched.time)

    def read(self, signals: Iterable[str], time: str) -> Recording:
        """Some of its columns."""
        chosen = list(signals)
        options: dict[str, Any] = {"time": time} if self.has_times else _chosen(self.topics)
        options = options if self.rate is None else {"rate": self.rate}
        return Recording.from_file(self.path, signals=chosen, units=self._units([time, *chosen]), **options)

    def call(self, matched: Matched) -> str:
        """Python code that reads the log in the problem file, as ``LOG`` and ``signals``."""
        time = f"time={json.dumps(matched.time)}, " if self.has_times else ""
        time = time if self.rate is None else f"rate={self.rate!r}, "
        time += f"topics={json.dumps(list(self.topics))}, " if self.topics else ""
        units = self._units([matched.time, *matched.signals])
        more = f", units={json.dumps(units, ensure_ascii=False)}" if units else ""
        return f"Recording.{method_for(self.path) or 'from_file'}(LOG, {time}signals=signals{more})"

    def _units(self, used: Iterable[str]) -> dict[str, str]:
        """Units of columns that are used; a reader refuses those of others."""
        read = {name for column in used for name in (column, whole(column))}
        there = {name for column in self.columns for name in (column, whole(column))}
        return {name: unit for name, unit in self.units.items() if name in read or name not in there}


@dataclass(frozen=True)
class _Seen(Readable):
    """What a file has."""

    time: str
    """The column or array of times."""
    signals: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def _of(cls, clocks: list[Clock], options: Options, closed_loop: bool | None) -> Self:
        _, signals, _, notes = parts(clocks, options)
        return cls(clocks[0].time, tuple(signals), notes)


def opened(
    path: Path, units: Mapping[str, str] | None = None, topics: Sequence[str] = (), rate: float | None = None
) -> Log:
    """A log with known columns."""
    said, method = dict(units or {}), method_for(path)
    if rate is not None and method != "from_csv":
        raise ProblemError(f"{path}: --rate is of text without a column of times; leave it out")
    timed = "time" in signature(getattr(Recording, method or "from_file")).parameters
    if not timed:
        read = Recording.from_file(path, units=said, **_chosen(topics))
        return Log(path, tuple(read.signals), False, said, tuple(topics), read.notes)
    if topics:
        raise ProblemError(f"{path} has columns and no topics; leave --topics out")
    if method not in ("from_csv", "from_npz"):
        seen = _Seen.from_file(path, time="", units=said)
        time = seen.time if method == "from_parquet" else re.split(r"[./]", seen.time)[-1]
        return Log(path, (time, *seen.signals), True, said, notes=seen.notes)
    try:
        columns = names_of(path, decoded(path)[0]) if method == "from_csv" else list(read_npz(path, lambda _: False))
    except ProblemError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        raise ProblemError(f"{path} is no NumPy archive (.npz); write it with numpy.savez") from None
    for name in said:
        if name not in columns and name not in map(whole, columns):
            raise ProblemError(f"{path} has no column {name!r}, which --units names; it has {short_listing(columns)}")
    return Log(path, tuple(columns), True, said, rate=rate)


def recording_of(
    log: Log,
    stamps: str | None,
    problem: Problem,
    without: Collection[str] = frozenset(),
    told: Callable[[str], None] = lambda _: None,
) -> Recording:
    """Signals of the problem's sensors and motors from a log, in its units if none are given; missing signals in
    ``without`` are set to 0."""
    wanted = list(dict.fromkeys([*(c.signal for c in problem.channels), *problem.model.signals]))
    signals = [name for name in wanted if name in log.columns or name not in without]
    if missing := [name for name in signals if name not in log.columns]:
        raise ProblemError(
            f"{log.path} has no {missing[0]!r}, which {problem.name!r} was fitted with; it has "
            f"{', '.join(log.columns)}: name its columns as those of the log that was fitted"
        )
    stamps = stamps or ("t" if "t" in log.columns else log.matched([], {}).time)
    if alike := _units_of(problem, {stamps, *signals, *map(whole, signals)} - {*log.units}):
        pairs = " ".join(f"{name}={unit}" for name, unit in alike.items())
        told(f"units are those with which the problem file reads its log: {pairs}; if others hold, give --units")
        log = replace(log, units={**alike, **log.units})
    for name, unit in log.named_units.items():
        if name in signals:
            told(f"{name!r} is read as it is; if the problem file converts it, say --units {name!r}={unit}")
    read, others = log.read(signals, stamps), [name for name in wanted if name not in signals]
    if not others:
        return read
    told(f"{log.path} has no {', '.join(others)}: these are predicted, and not compared")
    return Recording(read.t, {**read.signals, **dict.fromkeys(others, np.zeros(len(read.t)))}, read.name)


def _units_of(problem: Problem, columns: set[str]) -> dict[str, str]:
    """Units with which all recordings of the problem read columns."""
    read = [recording.units for recording in problem.sample] or [{}]
    return {one: unit for one, unit in read[0].items() if one in columns and all(r.get(one) == unit for r in read)}


def _chosen(topics: Sequence[str]) -> dict[str, list[str]]:
    return {"topics": list(topics)} if topics else {}


def notices(recording: Recording, time: str) -> tuple[str, ...]:
    """Return notes about the log, and a question if its times are probably not in seconds."""
    apart = float(np.median(np.diff(recording.t)))
    if apart < _SLOWEST:
        return recording.notes
    unit = next((unit for unit, size in (("ms", 1e-3), ("us", 1e-6)) if apart * size < _SLOWEST), "ns")
    return (
        *recording.notes,
        f"samples are {quantity(apart, 's')} apart, too far for the motion of a robot: is column {time!r} in {unit}? "
        f"Then give --units {time}={unit}",
    )


_WORDS = {
    "time": " ".join(TIMES),
    "position": "q pos position positions angle theta phi",
    "rate": "qd dq qdot v vel velocity velocities speed rate omega",
    "acceleration": "qdd ddq acc acceleration",
    "torque": "tau torque torques effort efforts force",
    "current": "i cur current currents amps",
    "voltage": "u volt volts voltage voltages",
    "command": "desired des command commanded cmd ref reference target goal setpoint sp action",
    "enable": "enable enabled",
    "supply": "supply bus battery",
}
_MEANS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_OF_UNITS = {
    "torque": "nm n*m n·m ncm n",
    "current": "a ma amp amps",
    "voltage": "v mv",
    "rate": "rad/s deg/s °/s rpm m/s",
    "acceleration": "rad/s^2 deg/s^2 rad/s2 deg/s2 m/s^2 m/s2",
}
_SAYS = {unit: kind for kind, units in _OF_UNITS.items() for unit in units.split()}
_UNIT = re.compile(r"(.*\w)\s*(?:[\[(]\s*([^\[\]()]*[^\W\d][^\[\]()]*|°)\s*[\])]|_(deg|rad|ms|us|ns|mm|Nm|mA))")
"""A name with its unit at the end, in brackets or as recorders abbreviate it."""
_NO_KIND = re.compile("joints?|axis|motor|meas(ured)?|act(ual)?|raw|states?|observation|feedback|m|rad")
"""Words that say nothing of the kind."""
EFFORTS = ("torque", "current", "voltage", "control")
"""What drives a joint, what says most first; a control is that of an actuator of the robot's file."""
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Matched:
    """Assignment of the columns of a log to the coordinates of a robot."""

    time: str
    positions: Mapping[str, str]
    efforts: Mapping[str, str] = field(default_factory=dict)
    effort: str = ""
    """Of which kind these are, one of ``EFFORTS``; empty if there are none."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Other columns, and why."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Of servos, whose effort is in no column."""

    @classmethod
    def of(cls, time: str, found: Mapping[str, Mapping[str, str]], unused: Mapping[str, str]) -> Matched:
        """Make a match from columns by kind and joint; of torques, currents and voltages, most joints decide."""
        effort = max(EFFORTS, key=lambda kind: len(found.get(kind, {})))  # the first of those that are as many
        beside = {kind: found.get(kind, {}) for kind in EFFORTS if kind != effort}
        others = {column: f"a {kind} beside a {effort}" for kind, own in beside.items() for column in own.values()}
        efforts, commands = found.get(effort, {}), found.get("command", {})
        others |= {column: "a command" for label, column in commands.items() if label in efforts}
        commands = {label: column for label, column in commands.items() if label not in efforts}
        return cls(time, found.get("position", {}), efforts, effort if efforts else "", {**unused, **others}, commands)

    @property
    def signals(self) -> list[str]:
        """Names of all columns that are used, except times."""
        return [*self.positions.values(), *self.efforts.values(), *self.commands.values()]

    def without(self, labels: Iterable[str]) -> Matched:
        """Return a copy without the torques, forces and commands of fixed joints."""
        held, unused = set(labels), dict(self.unused)
        for name, column in {**self.commands, **self.efforts}.items():
            if name in held:
                unused[column] = f"torque, force or command of joint {name}; no column has the position of this joint"
        efforts, commands = (
            {name: column for name, column in own.items() if name not in held} for own in (self.efforts, self.commands)
        )
        return replace(self, efforts=efforts, effort=self.effort if efforts else "", unused=unused, commands=commands)


def match(
    columns: Sequence[str],
    labels: Sequence[str],
    actuators: Mapping[str, str] = _NONE,
    servos: Mapping[str, str] = _NONE,
    time: str | None = None,
) -> Matched:
    """Assign columns of a log to coordinates, by the name of a joint, with or without ``joint``; or else by the number
    at the end of the column name, or the only one, which counts joints from 0 if a column has number 0."""
    time = time or next((column for column in columns if column == time_in(columns)), columns[0])
    others, doubtful = [column for column in columns if column != time and not _nameless(column)], set[str]()
    unused = {"a column without a name": "not known"} if any(map(_nameless, {*columns} - {time})) else {}
    found: dict[str, dict[str, str]] = {}
    first = 0 if any(number_in(tokens(column)) == "0" for column in others) else 1
    for column in others:
        if column in actuators and column not in labels:
            kind, label = "control", actuators[column]
        elif column in servos and column not in labels:
            kind, label = "command", servos[column]
        else:
            kind, label = _read(column, labels, first)
        if label and kind in ("position", "command", *EFFORTS) and label not in found.get(kind, {}):
            found.setdefault(kind, {})[label] = column
        else:
            unused[column] = f"a {kind}" if kind else "not known"
            both = [column, found.get(kind, {}).get(label, column)]
            if kind == "position" and not any(joint_in(one, labels) or {*tokens(one)} & {*_MEANS} for one in both):
                doubtful |= {label} - {""}
    for label in doubtful:
        unused[found["position"].pop(label)] = "a position as much as another column"
    return Matched.of(time, found, unused)


def joint_in(column: str, labels: Iterable[str]) -> str:
    """Joint whose name a column contains; empty without any."""
    return _named(tokens(_unit_in(column)[0]), labels)[0]


def _nameless(column: str) -> bool:
    """True as of the index of a data frame."""
    return not column.strip() or bool(re.fullmatch(r"Unnamed: \d+", column.strip()))


def _read(column: str, labels: Sequence[str], first: int) -> tuple[str, str]:
    """Kind of a column, and whose it is; empty where its name does not tell."""
    name, *unit = _unit_in(column)
    words = tokens(name)
    whose, rest = _named(words, labels)
    if not whose and (number := number_in(words)):
        place = int(number) - first
        whose, rest = labels[place] if 0 <= place < len(labels) else "", [word for word in words if word != number]
        if rest == ["m"]:  # a motor, its torque, a measured value or metres
            return "", whose
    elif not whose and len(labels) == 1 and {*words} & {*_MEANS} and all(map(_says_no_name, words)):
        whose = labels[0]
    kinds = {_MEANS[word] for word in rest if word in _MEANS}
    if "command" in kinds:
        return "command", whose
    if all(map(_NO_KIND.fullmatch, rest)):
        return _SAYS.get("".join(unit).replace(" ", "").lower(), "position"), whose
    return (next(iter(kinds)), whose) if len(kinds) == 1 else ("", whose)


def _named(words: list[str], labels: Iterable[str]) -> tuple[str, list[str]]:
    """The coordinate whose name stands in the words, the longest, and what is left of them."""
    best, rest, length = "", words, 0
    for label in labels:
        whole = tokens(label)
        for name in (whole, [word for word in whole if word != "joint"]):
            size = len(name)
            for i in range(len(words) - size + 1):
                others = words[:i] + words[i + size :]
                # A letter is a name among words of kinds, and a number alone.
                alone = not others or (not name[0].isdigit() and all(map(_says_no_name, others)))
                telling = alone or (len("".join(name)) > 1 and not name[0].isdigit())
                if size > length and words[i : i + size] == name and telling:
                    best, rest, length = label, others, size
    return best, rest


def _says_no_name(word: str) -> bool:
    return word in _MEANS or _NO_KIND.fullmatch(word) is not None


def _unit_in(column: str) -> list[str]:
    """The name of a column and, if its end says one, the unit."""
    found = _UNIT.fullmatch(column.strip())
    return [column] if found is None else [found[1], found[2] or found[3]]


def _is_si(unit: str) -> bool:
    try:
        return bool(to_si(np.ones(1), unit, "")[0] == 1.0)
    except ProblemError:  # one of which nobody can say what it is: it is asked for when the log is read
        return False
