"""Bags of ROS 1 and ROS 2, and messages of ROS in other files, through rosbags; MCAP files,
through mcap, with messages of these, of Protocol Buffers and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spookid.data.logs.columns import Clock, Options, file_at, library, reading
from spookid.data.logs.messages import Messages, Topics, joined
from spookid.errors import ProblemError

_REMEDY = "mend a bag with: rosbag reindex (ROS 1) or ros2 bag reindex (ROS 2)"


def read_bag(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Clocks of the topics of a bag: a file of ROS 1, or the folder of a bag of ROS 2.

    Raises:
        ProblemError: for what is no bag, and as for topics of messages.
    """
    path = options.path
    highlevel, types = (library(f"rosbags.{name}", "rosbags", f"{path}: a bag") for name in ("highlevel", "typesys"))
    bag = _bag(path)
    store = types.get_typestore(types.Stores.LATEST)  # for bags of ROS 2 that say nothing of their types
    with reading(path, "ROS bag", _REMEDY), highlevel.AnyReader([bag], default_typestore=store) as reader:
        wanted = topics.read({one.topic: one.msgtype for one in reader.connections}, options.signals)
        chosen = [one for one in reader.connections if one.topic in wanted]
        found = {name: Messages(name, topics.prefix(name), options, topics.header) for name in wanted}
        for connection, logged, raw in reader.messages(connections=chosen):
            found[connection.topic].add(reader.deserialize(raw, connection.msgtype), logged)
    return joined([*found.values()], options, from_zero)


def _bag(path: Path) -> Path:
    """The file of a bag of ROS 1, or the folder of one of ROS 2, which a file in it may stand for."""
    if not path.is_dir():
        file_at(path)
        if path.suffix == ".bag":
            return path
    folder = path if path.is_dir() else path.parent
    if not (folder / "metadata.yaml").exists():
        raise ProblemError(
            f"{path} is no ROS bag: a file of ROS 1 ends in .bag, and beside those of ROS 2 there is a metadata.yaml; "
            "write that with: ros2 bag reindex"
        )
    return folder


def decoder(path: Path, encoding: str, kind: str, definition: str) -> Callable[[bytes], Any]:
    """What makes messages of the bytes of a ROS message.

    Args:
        encoding: "ros1" or "cdr".
        kind: type of the message.
        definition: as the file says it, with those of its parts; IDL where ``encoding`` is of ROS 2 and it is none of
            ROS's own language.
    """
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
    """Clocks of the topics of an MCAP file.

    Raises:
        ProblemError: for what is no MCAP file, messages in an encoding that is not read, and as for topics of messages.
    """
    path = options.path
    mcap = library("mcap.reader", "mcap", f"{path}: an MCAP file")
    file_at(path)
    decoders: dict[int, Callable[[bytes], Any]] = {}
    with reading(path, "MCAP file", "write it anew, or mend it with: mcap recover"), path.open("rb") as file:
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
    found = {channel.id: (channel, schema.name if schema else "") for schema, channel, _ in reader.iter_messages()}
    return list(found.values())


def _decoder(options: Options, schema: Any, channel: Any) -> Callable[[bytes], Any]:
    path, encoding = options.path, channel.message_encoding
    if encoding == "json":
        return json.loads
    if encoding == "protobuf":
        protobuf = library("mcap_protobuf.decoder", "mcap-protobuf-support", f"{path}: a message of Protocol Buffers")
        made: Callable[[bytes], Any] | None = protobuf.DecoderFactory().decoder_for(encoding, schema)
    elif encoding in ("cdr", "ros1") and schema is not None:
        made = decoder(path, encoding, schema.name, schema.data.decode())
    else:
        made = None
    if made is None:
        raise ProblemError(
            f"{path} topic {channel.topic!r} is encoded in {encoding!r}; of {', '.join(_ENCODINGS)} with a schema it "
            "could be read: leave it out with topics="
        )
    return made
