"""Messages of topics as columns: joint states by the names of joints, everything else by the paths of its numbers.

Bags of ROS 1 and ROS 2, and messages of ROS in other files, through rosbags; MCAP files, through mcap, with messages of
these, of Protocol Buffers and in JSON; ULog files of PX4, through pyulog.
"""

from __future__ import annotations

import io
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import FloatArray
from spookid.data.logs.columns import Clock, Options, library, reading, several, whole
from spookid.data.logs.unpacking import bounded
from spookid.errors import ProblemError
from spookid.records import dataclass

_KNOWN = ("JointState", "Imu")  # ROS messages that are read without being asked for
_ELSE_KNOWN = ("JointTrajectoryControllerState",)  # read if there are none of these
_OF_JOINTS = ("position", "velocity", "effort")
_ENTRY = re.compile(r"(.*/(?:positions|velocities|accelerations|efforts?))\[(\d+)\]")
_STAMPS = ("header", "timestamp", "stamp")
_APART = (*_STAMPS, "layout")  # fields whose numbers are no measurements
_LONGEST = 64  # of lists whose entries are signals: longer ones are pictures, clouds and maps
_WHOLE = ("sec", "secs", "seconds")
_REMAINDERS = ("nanosec", "nsec", "nsecs", "nanos")


@dataclass(frozen=True)
class Topics:
    """Topics to read, with the prefixes of their signals' names."""

    place: str  # file
    prefixes: Mapping[str, str | None] | None
    """By topic; the prefix is None if none was said. None: all topics of joint states and inertial units, all that are
    not of ROS, and those that signals are chosen of."""
    header: bool  # True: a sample's time is that in the message's header, if there is one

    @classmethod
    def of(cls, place: Any, topics: Iterable[str] | Mapping[str, str] | None, stamps: str) -> Topics:
        listed = [topics] if isinstance(topics, str) else topics or ()
        chosen = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed)
        return cls(str(place), None if topics is None else chosen, stamps == "header")

    def read(self, there: Mapping[str, str], signals: Iterable[str] | None) -> list[str]:
        """Select the topics that are read, with their types, including topics of chosen signals."""
        if not there:
            raise ProblemError(f"{self.place} has no topics; record some")
        listed = several([f"{topic!r} ({kind})" if kind else repr(topic) for topic, kind in there.items()])
        for topic in self.prefixes or ():
            if topic not in there:
                raise ProblemError(f"{self.place} has no topic {topic!r}; it has {listed}")
        if self.prefixes is not None:
            return [topic for topic in there if topic in self.prefixes]
        asked = {topic for topic in there if any(name.startswith(f"{topic.strip('/')}/") for name in signals or ())}
        for known in (_KNOWN, _ELSE_KNOWN):
            own = {topic for topic, kind in there.items() if "/" not in kind or kind.rpartition("/")[2] in known}
            if found := [topic for topic in there if topic in asked | own]:
                return found
        raise ProblemError(f"{self.place} has no topic of {' or '.join(_KNOWN)}; it has {listed}: choose with topics=")

    def prefix(self, topic: str) -> str | None:
        return (self.prefixes or {}).get(topic)


@dataclass
class Messages:
    """Numbers collected from the messages of one topic."""

    topic: str
    prefix: str | None  # before the names of signals; None: the topic, but nothing for joint states
    options: Options
    header: bool  # whether the time in a header goes first
    stamps: array[int] = field(default_factory=lambda: array("q"))  # of each message [ns]
    alike: dict[tuple[str, ...], tuple[array[int], array[float]]] = field(default_factory=dict)
    """Messages that have the same signals, by these: their numbers, and the values one after the other."""

    def add(self, message: Any, logged: int) -> None:
        """Add the numbers of a message that was received at a time [ns]."""
        i = len(self.stamps)
        self.stamps.append((_stamp(message) if self.header else None) or logged)
        values = dict(self._named(message, i))
        numbers, rows = self.alike.setdefault(tuple(values), (array("q"), array("d")))
        numbers.append(i)
        rows.extend(values.values())

    def _named(self, message: Any, i: int) -> Iterator[tuple[str, float]]:
        fields: dict[str, Any] = dict(_children(message))
        names: Any = fields.get("name")
        if not (_is_list(names) and all(isinstance(name, str) for name in names) and {*_OF_JOINTS} & {*fields}):
            before = self.topic.strip("/") if self.prefix is None else self.prefix
            joints: Any = fields.get("joint_names", ())
            yield from ((self._of_joint(path, joints), value) for path, value in _numbers(message, before))
            return
        before = f"{self.prefix}/" if self.prefix else ""
        for what in _OF_JOINTS:
            values: Any = fields.get(what, ())
            if len(values) not in (0, len(names)):
                raise ProblemError(
                    f"{self.options.path} topic {self.topic!r} message {i} has {len(names)} names and {len(values)} of "
                    f"{what}; leave the topic out with topics=, or mend what wrote it"
                )
            yield from ((f"{before}{what}/{name}", float(value)) for name, value in zip(names, values, strict=False))

    def _of_joint(self, path: str, joints: Sequence[str]) -> str:
        """Name of an entry of a trajectory point by its joint, or by its number where a problem names it so."""
        found = _ENTRY.fullmatch(path)
        if found is None or int(found[2]) >= len(joints) or whole(path) in map(whole, self.options.signals or ()):
            return path
        return f"{found[1]}/{joints[int(found[2])]}"

    def clocks(self, first: int) -> list[Clock]:
        """Columns that share timestamps, with times relative to a first timestamp [ns]."""
        t: FloatArray = (np.array(self.stamps, dtype=np.int64) - first) / 1e9
        place = f"{self.options.path} topic {self.topic!r}"
        together: dict[bytes, Clock] = {}
        for name, (rows, values) in self._columns().items():
            clock = together.get(rows.tobytes()) or Clock(
                place, "time", t[rows], {}, row="message", rows=rows, ordered=False
            )
            together[rows.tobytes()] = replace(clock, columns={**clock.columns, name: values})
        return [measured(clock, self.options) for clock in together.values()]

    def _columns(self) -> dict[str, tuple[NDArray[np.intp], FloatArray]]:
        """Numbers of the messages that have a value, and the values, of each signal that is wanted."""
        found: dict[str, list[tuple[NDArray[np.intp], FloatArray]]] = {}
        for names, (numbers, rows) in self.alike.items():
            of, table = np.array(numbers, dtype=np.intp), np.array(rows).reshape(len(numbers), len(names))
            for i, name in enumerate(names):
                if self.options.wants(name):
                    found.setdefault(name, []).append((of, table[:, i]))
        joined = {n: tuple(map(np.concatenate, zip(*pieces, strict=True))) for n, pieces in found.items()}
        return {name: (of[order := np.argsort(of)], values[order]) for name, (of, values) in joined.items()}


def joined(found: Sequence[Messages], options: Options, from_zero: bool) -> list[Clock]:
    """Clocks of all topics."""
    options.check(dict.fromkeys(name for messages in found for names in messages.alike for name in names))
    first = min((stamp for messages in found for stamp in messages.stamps), default=0) if from_zero else 0
    clocks = [clock for messages in found for clock in messages.clocks(first)]
    if not clocks:
        read = ", ".join(repr(messages.topic) for messages in found)
        raise ProblemError(f"{options.path} has no message with numbers in {read}; choose others with topics=")
    return clocks


def measured(clock: Clock, options: Options) -> Clock:
    """Remove signals from a clock that were never measured, such as efforts of a robot without torque sensors."""
    empty = [name for name, values in clock.columns.items() if np.isnan(values).all()]
    if not empty or options.signals is not None:
        return clock
    columns = {name: values for name, values in clock.columns.items() if name not in empty}
    told = f"{clock.place}: left out for want of one sample: {', '.join(map(repr, empty))}."
    return replace(clock, columns=columns, note=f"{clock.note} {told}".strip())


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Numbers in a message by their paths, but for timestamps, covariances and what describes a matrix."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        yield path, float(value)
    elif _is_list(value):
        if len(value) <= _LONGEST:
            for i, one in enumerate(value):
                yield from _numbers(one, f"{path}[{i}]")
    elif not isinstance(value, (str, bytes, bytearray, memoryview)):
        for name, child in _children(value):
            if name not in _APART and not name.endswith("covariance"):
                yield from _numbers(child, f"{path}/{name}" if path else name)


def _is_list(value: Any) -> bool:
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)):
        return False
    return isinstance(value, (list, tuple, np.ndarray)) or (hasattr(value, "__len__") and hasattr(value, "__getitem__"))


def _children(message: Any) -> Iterator[tuple[str, Any]]:
    """Fields of a message, in whatever way its library holds them."""
    if isinstance(message, Mapping):
        yield from ((str(name), value) for name, value in message.items())
    elif hasattr(message, "DESCRIPTOR"):  # of Protocol Buffers
        yield from ((one.name, getattr(message, one.name)) for one in message.DESCRIPTOR.fields)
    else:
        names: Any = getattr(message, "__dataclass_fields__", None) or getattr(message, "__slots__", ())
        yield from ((name, getattr(message, name)) for name in names if not name.startswith("_"))


def _stamp(message: Any) -> int | None:
    """Time in the header of a message [ns]; None if it has none."""
    for value in (_field(_field(message, "header"), "stamp"), _field(message, "timestamp"), _field(message, "stamp")):
        for name in _WHOLE:
            seconds = _field(value, name)
            if isinstance(seconds, (int, np.integer)):
                rest = next((one for one in (_field(value, last) for last in _REMAINDERS) if one is not None), 0)
                return int(seconds) * 1_000_000_000 + int(rest) or None
    return None


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def read_bag(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Read the clocks of the topics of a ROS bag: a file of ROS 1, or a folder of ROS 2."""
    path = options.path
    highlevel, types = (library(f"rosbags.{name}", "rosbags", f"{path}: a bag") for name in ("highlevel", "typesys"))
    store = types.get_typestore(types.Stores.LATEST)  # for bags of ROS 2 that say nothing of their types
    remedy = "mend a bag with: rosbag reindex (ROS 1) or ros2 bag reindex (ROS 2)"
    of_ros1 = path.suffix == ".bag" and not path.is_dir()
    place = path if of_ros1 or path.is_dir() else path.parent  # a file may stand for its folder
    with reading(path, "ROS bag", remedy), bounded(place):
        if not (of_ros1 or (place / "metadata.yaml").exists()):
            raise ProblemError(
                f"{path} is no ROS bag: a file of ROS 1 ends in .bag, and beside those of ROS 2 there is a "
                "metadata.yaml; write that with: ros2 bag reindex"
            )
        for database in [] if of_ros1 else place.glob("*.db3"):
            _check_tables(database)
        with highlevel.AnyReader([place], default_typestore=store) as reader:
            wanted = topics.read({one.topic: one.msgtype for one in reader.connections}, options.signals)
            chosen = [one for one in reader.connections if one.topic in wanted]
            found = {name: Messages(name, topics.prefix(name), options, topics.header) for name in wanted}
            for connection, logged, raw in reader.messages(connections=chosen):
                found[connection.topic].add(reader.deserialize(raw, connection.msgtype), logged)
    return joined([*found.values()], options, from_zero)


def _check_tables(path: Path) -> None:
    """Refuse a database with views, which may have rows without end."""
    import sqlite3

    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'"):
            raise ProblemError(f"{path} has a view {str(name)[:40]!r} instead of a table; write the bag again")


def _ros_decoder(path: Path, encoding: str, kind: str, definition: str) -> Callable[[bytes], Any]:
    """Of messages of a kind in "ros1" or "cdr"; definitions of ROS 2 may be in IDL."""
    types = library("rosbags.typesys", "rosbags", f"{path}: a message of ROS")
    store = types.get_typestore(types.Stores.EMPTY)
    name = kind if "/msg/" in kind else kind.replace("/", "/msg/", 1)
    if definition.startswith("=" * 80 + "\nIDL:"):
        for part in definition.split("=" * 80 + "\n")[1:]:
            store.register(types.get_types_from_idl(part.partition("\n")[2]))
    else:
        store.register(types.get_types_from_msg(definition, name))
    read = store.deserialize_ros1 if encoding == "ros1" else store.deserialize_cdr
    return lambda raw: read(raw, name)


_ENCODINGS = ("cdr", "ros1", "protobuf", "json")


def read_mcap(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Read the clocks of the topics of an MCAP file."""
    path = options.path
    mcap = library("mcap.reader", "mcap", f"{path}: an MCAP file")
    decoders: dict[int, Callable[[bytes], Any]] = {}
    remedy = "write it anew, or mend it with: mcap recover"
    with reading(path, "MCAP file", remedy), path.open("rb") as file, bounded(path):
        reader = mcap.make_reader(file, validate_crcs=True)
        channels = _channels(reader)
        there = {channel.topic: kind for channel, kind in channels}
        readable = {one.topic: kind for one, kind in channels if one.message_encoding in _ENCODINGS}
        wanted = topics.read(there if topics.prefixes is not None else readable or there, options.signals)
        found = {name: Messages(name, topics.prefix(name), options, topics.header) for name in wanted}
        for schema, channel, message in reader.iter_messages(topics=wanted, log_time_order=False):
            if channel.id not in decoders:
                decoders[channel.id] = _decoder(options, schema, channel)
            found[channel.topic].add(decoders[channel.id](message.data), message.log_time)
    return joined([*found.values()], options, from_zero)


def _channels(reader: Any) -> list[tuple[Any, str]]:
    """Channels with the types of their messages; found by reading all where the file has no summary of them."""
    summary = reader.get_summary()
    if summary is not None and summary.channels:
        kinds = {number: schema.name for number, schema in summary.schemas.items()}
        return [(channel, kinds.get(channel.schema_id, "")) for channel in summary.channels.values()]
    return [*{c.id: (c, schema.name if schema else "") for schema, c, _ in reader.iter_messages()}.values()]


def _decoder(options: Options, schema: Any, channel: Any) -> Callable[[bytes], Any]:
    path, encoding = options.path, channel.message_encoding
    if encoding == "json":
        return json.loads
    if encoding == "protobuf":
        protobuf = library("mcap_protobuf.decoder", "mcap-protobuf-support", f"{path}: a message of Protocol Buffers")
        made: Callable[[bytes], Any] | None = protobuf.DecoderFactory().decoder_for(encoding, schema)
    elif encoding in ("cdr", "ros1") and schema is not None:
        made = _ros_decoder(path, encoding, schema.name, schema.data.decode())
    else:
        made = None
    if made is None:
        raise ProblemError(
            f"{path} topic {channel.topic!r} is encoded in {encoding!r}; of {', '.join(_ENCODINGS)} with a schema it "
            "could be read: leave it out with topics="
        )
    return made


def read_ulog(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Read the clocks of a ULog file, with signals such as ``sensor_combined/gyro_rad[0]``."""
    path = options.path
    pyulog = library("pyulog", "pyulog", f"{path}: a ULog file")
    with reading(path, "ULog file", "copy it from the device anew"):
        with redirect_stdout(io.StringIO()):  # pyulog prints what it meets
            log = pyulog.ULog(str(path))
        note = f"{path} is damaged; what could be read of it was taken." if log.file_corruption else ""
        data = {f"{one.name}_{one.multi_id}" if one.multi_id else one.name: one.data for one in log.data_list}
        wanted = topics.read(dict.fromkeys(data, ""), options.signals)
    columns: dict[str, dict[str, Any]] = {}
    for topic in wanted:
        chosen = topics.prefix(topic)
        prefix = topic if chosen is None else chosen
        fields = {n: v for n, v in data[topic].items() if n != "timestamp" and not n.startswith("_padding")}
        columns[topic] = {f"{prefix}/{name}" if prefix else name: values for name, values in fields.items()}
        if "timestamp" not in data[topic]:
            raise ProblemError(f"{path} topic {topic!r} has no timestamp; leave it out with topics=")
    options.check([name for own in columns.values() for name in own])
    ticks = {topic: np.asarray(data[topic]["timestamp"]).astype(np.int64) for topic in wanted}  # microseconds
    clocks = []
    for topic, own in columns.items():
        wanted_of, place = {n: v for n, v in own.items() if options.wants(n)}, f"{path} topic {topic!r}"
        clock = Clock(place, "timestamp", ticks[topic], wanted_of, row="message", ordered=False, note=note)
        clocks.append(measured(clock, options))
    clocks = [clock for clock in clocks if clock.columns]
    if not clocks:
        raise ProblemError(f"{path} has no topic with numbers; log one")
    first = min((clock.stamps[0] for clock in clocks if len(clock.stamps)), default=0) if from_zero else 0
    return [replace(clock, stamps=(clock.stamps - first) / 1e6) for clock in clocks]
