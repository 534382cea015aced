"""Bags of ROS 1 and ROS 2, and messages of ROS in other files, through rosbags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spookid.data.logs.columns import Clock, Options
from spookid.data.logs.libraries import file_at, library, reading
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
