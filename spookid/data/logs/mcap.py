"""MCAP files, through mcap, with messages of ROS 1 and 2, of Protocol Buffers and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from spookid.data.logs import ros
from spookid.data.logs.columns import Clock, Options
from spookid.data.logs.libraries import file_at, library, reading
from spookid.data.logs.messages import Messages, Topics, joined
from spookid.errors import ProblemError

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
        made = ros.decoder(path, encoding, schema.name, schema.data.decode())
    else:
        made = None
    if made is None:
        raise ProblemError(
            f"{path} topic {channel.topic!r} is encoded in {encoding!r}; of {', '.join(_ENCODINGS)} with a schema it "
            "could be read: leave it out with topics="
        )
    return made
