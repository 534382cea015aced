"""Logs of one motion in many formats, each written by that format's own library."""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

T = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
Q = np.array([1.0, 2.0, np.nan, 4.0, 5.0])
U = np.array([[0.5, -1.0], [0.6, -2.0], [0.7, -3.0], [0.8, -4.0], [0.9, -5.0]])
EPOCH = 1_700_000_000
"""Of the messages, seconds."""
TYPES = {
    "/joint_states": "sensor_msgs/msg/JointState",
    "/imu/data": "sensor_msgs/msg/Imu",
    "/command": "std_msgs/msg/Float64MultiArray",
}


def module(name: str) -> Any:
    """A library; the test is skipped where it is not installed."""
    pytest.importorskip(name.partition(".")[0])
    return importlib.import_module(name)


# --- tables and arrays ---


def table(**changes: Any) -> dict[str, Any]:
    """Columns ``t``, ``q`` and the matrix ``u``; a change of None removes one."""
    columns = {"t": T, "q": Q, "u": U, **changes}
    return {name: values for name, values in columns.items() if values is not None}


def flat(**changes: Any) -> dict[str, Any]:
    """The same with a column for each of the matrix."""
    columns = {name: values for name, values in table(**changes).items() if name != "u"}
    return columns | ({"u[0]": U[:, 0], "u[1]": U[:, 1]} if changes.get("u", U) is U else {})


def write_csv(path: Path, **changes: Any) -> None:
    columns = {name: list(values) for name, values in flat(**changes).items()}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_npz(path: Path, **changes: Any) -> None:
    np.savez(path, **flat(**changes))


def write_mat(path: Path, **changes: Any) -> None:
    module("scipy.io").savemat(path, table(**changes))


def write_hdf5(path: Path, **changes: Any) -> None:
    with module("h5py").File(path, "w") as file:
        for name, values in table(**changes).items():
            text = isinstance(values, list) and isinstance(values[0], str)
            file[name] = np.array(values, dtype=object) if text else values


def write_parquet(path: Path, **changes: Any) -> None:
    columns = {name: list(map(list, v)) if np.ndim(v) == 2 else v for name, v in table(**changes).items()}
    module("pyarrow.parquet").write_table(module("pyarrow").table(columns), path)


def frame(**changes: Any) -> Any:
    return module("pandas").DataFrame(flat(**changes))


TABLES: dict[str, Callable[..., None]] = {
    "csv": write_csv,
    "npz": write_npz,
    "mat": write_mat,
    "h5": write_hdf5,
    "parquet": write_parquet,
}


# --- messages ---


def messages(store: Any, ros: int, **changes: Any) -> Iterator[tuple[str, Any, int]]:
    """Topic, message and time of recording [ns], which is 5 ms late; a change of None removes a topic."""
    types = store.types

    def header(t: float) -> Any:
        stamp = types["builtin_interfaces/msg/Time"](sec=EPOCH + int(t), nanosec=round(1e9 * (t - int(t))))
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id="", **({"seq": 0} if ros == 1 else {}))

    vector = types["geometry_msgs/msg/Vector3"]
    turn = types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0)
    layout = types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    names, q = changes.get("names", ["shoulder", "elbow"]), changes.get("q", Q)
    for i, t in enumerate(changes.get("t", T)):
        late = round(1e9 * (EPOCH + t)) + 5_000_000
        joints = types[TYPES["/joint_states"]](
            header=header(t), name=names, position=np.array([q[i], 2 * q[i]]), velocity=np.array([]), effort=U[i]
        )
        imu = types[TYPES["/imu/data"]](
            header=header(t + 0.03),
            orientation=turn,
            orientation_covariance=np.zeros(9),
            angular_velocity=vector(x=0.1, y=0.2, z=t),
            angular_velocity_covariance=np.zeros(9),
            linear_acceleration=vector(x=0.0, y=0.0, z=9.81),
            linear_acceleration_covariance=np.zeros(9),
        )
        command = types[TYPES["/command"]](layout=layout, data=changes.get("u", U)[i])
        for topic, message in (("/joint_states", joints), ("/imu/data", imu), ("/command", command)):
            yield changes.get(topic, topic), message, late
    for topic in changes.get("more", ()):
        yield topic, joints, late


def store(ros: int) -> Any:
    types = module("rosbags.typesys")
    return types.get_typestore(types.Stores.ROS1_NOETIC if ros == 1 else types.Stores.ROS2_HUMBLE)


def write_bag(path: Path, **changes: Any) -> None:
    """ROS 1."""
    known, connections, writer = store(1), {}, module("rosbags.rosbag1").Writer(path)
    if changes.get("squeezed"):
        writer.set_compression(writer.CompressionFormat.BZ2)
    with writer:
        for topic, message, time in messages(known, 1, **changes):
            if topic is not None:
                kind = message.__msgtype__
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=known)
                writer.write(connections[topic], time, known.serialize_ros1(message, kind))


def write_bag2(path: Path, storage: str = "SQLITE3", **changes: Any) -> None:
    """ROS 2, a folder."""
    known, connections, bags = store(2), {}, module("rosbags.rosbag2")
    squeezed = changes.get("squeezed")
    writer = bags.Writer(
        path, version=9, storage_plugin=bags.StoragePlugin["MCAP" if squeezed == "STORAGE" else storage]
    )
    if squeezed:
        writer.set_compression(bags.CompressionMode[squeezed], bags.CompressionFormat.ZSTD)
    with writer:
        for topic, message, time in messages(known, 2, **changes):
            if topic is not None:
                kind = message.__msgtype__
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=known)
                writer.write(connections[topic], time, known.serialize_cdr(message, kind))


def write_mcap(
    path: Path, ros: int = 2, encoding: str | None = None, schema: bytes | None = None, **changes: Any
) -> None:
    """MCAP with messages of ROS."""
    known, channels = store(ros), {}
    with path.open("wb") as file:
        writer = module("mcap.writer").Writer(file)
        writer.start()
        for topic, message, time in messages(known, ros, **changes):
            if topic is None:
                continue
            kind = message.__msgtype__
            if topic not in channels:
                text = known.generate_msgdef(kind, ros_version=ros)[0].encode() if schema is None else schema
                name = kind if ros == 2 else kind.replace("/msg/", "/")
                number = writer.register_schema(name, f"ros{ros}msg", text)
                channels[topic] = writer.register_channel(topic, encoding or ("cdr" if ros == 2 else "ros1"), number)
            data = known.serialize_cdr(message, kind) if ros == 2 else known.serialize_ros1(message, kind)
            writer.add_message(channels[topic], time, bytes(data), time)
        writer.finish()


def write_json(
    path: Path, values: list[Any], topic: str = "/state", compression: str = "zstd", chunk_size: int = 2**20
) -> None:
    """MCAP with messages in JSON, one each 0.1 s."""
    mcap = module("mcap.writer")
    with path.open("wb") as file:
        writer = mcap.Writer(file, chunk_size, mcap.CompressionType[compression.upper()])
        writer.start()
        channel = writer.register_channel(topic, "json", 0)
        for i, value in enumerate(values):
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            writer.add_message(channel, i * 100_000_000, text, i * 100_000_000)
        writer.finish()


def write_ulog(path: Path, **changes: Any) -> None:
    """Two gyroscopes."""
    pyulog = module("pyulog")
    log = pyulog.ULog(None)
    fields = [("uint64_t", "timestamp"), ("float", "x"), ("float", "y")]
    text = "sensor_gyro:" + "".join(f"{kind} {name};" for kind, name in fields)
    log._message_formats["sensor_gyro"] = pyulog.ULog.MessageFormat(text.encode(), None)
    for number in changes.get("instances", (0, 1)):
        t = np.round(1e6 * (changes.get("t", T) + 12.5 + 0.01 * number)).astype(np.uint64)
        data: Mapping[str, Any] = {"timestamp": t, "x": changes.get("q", Q), "y": U[: len(t), 0]}
        known = [SimpleNamespace(field_name=name, type_str=kind) for kind, name in fields]
        one = SimpleNamespace(name="sensor_gyro", multi_id=number, msg_id=number, field_data=known, data=data)
        log._data_list.append(one)
    log.write_ulog(str(path))


# --- test benches, robot learning, competition robots ---


def bench(**more: Any) -> dict[str, Any]:
    """As test benches of servos write it: numbers of the set-up, and a list of records."""
    rows = [
        {"timestamp": t, "position": np.sin(t), "goal_position": 2 * np.sin(t), "load": None}
        for t in 0.1 * np.arange(5)
    ]
    return {"kp": 100, "motor": "xl330", "entries": rows, **more}


MOTORS = ["lift.pos", "grip.pos"]


def dataset(folder: Path, version: int, names: Any = MOTORS, episodes: int = 3) -> Path:
    """LeRobot, of versions 2 and 3: a file for each episode, or one for all; frames at 30 Hz, times in 32 bits."""
    arrow, parquet = module("pyarrow"), module("pyarrow.parquet")
    feature = {"dtype": "float32", "shape": [2], "names": names}
    info = {"fps": 30, "total_episodes": episodes, "features": {"action": feature, "observation.state": feature}}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta/info.json").write_text(json.dumps({"codebase_version": f"v{version}.0", **info}))
    (folder / "data/chunk-000").mkdir(parents=True)
    tables = []
    for episode in range(episodes):
        frames = np.arange(40)
        state = np.column_stack([10 * episode + frames, 90 * np.ones(40)]).astype(np.float32)
        columns = {"observation.state": list(state), "action": list(state + 1), "index": frames}
        columns |= {"timestamp": (frames / 30).astype(np.float32), "frame_index": frames}
        tables.append(arrow.table(columns | {"episode_index": np.full(40, episode)}))
        if version == 2:
            parquet.write_table(tables[-1], folder / f"data/chunk-000/episode_{episode:06d}.parquet")
    if version == 3:
        parquet.write_table(arrow.concat_tables(tables), folder / "data/chunk-000/file-000.parquet", row_group_size=50)
    return folder


def data_record(number: int, stamp: int, payload: bytes) -> bytes:
    """Of a data log of WPILib: the lengths of three fields, the fields, and what they are of."""
    fields = [max(1, (one.bit_length() + 7) // 8) for one in (number, len(payload), stamp)]
    head = (fields[0] - 1) | (fields[1] - 1) << 2 | (fields[2] - 1) << 4
    widths = zip((number, len(payload), stamp), fields, strict=True)
    return bytes([head]) + b"".join(one.to_bytes(width, "little") for one, width in widths) + payload


def _started(number: int, name: str, kind: str) -> bytes:
    texts = b"".join(struct.pack("<I", len(one)) + one.encode() for one in (name, kind, "{}"))
    return data_record(0, 1, b"\0" + struct.pack("<I", number) + texts)


def wpilog(path: Path, t: Iterable[float] = 0.1 * np.arange(5), end: bytes = b"") -> Path:
    """A data log of WPILib."""
    text = b"WPILOG\0\1" + struct.pack("<I", 5) + b"extra"
    kinds = {1: "double", 2: "float[]", 300: "int64", 4: "boolean", 5: "string", 6: "struct:Pose2d"}
    text += b"".join(_started(number, f"NT:/{kind}", kind) for number, kind in kinds.items())
    for i, at in enumerate(t):
        stamp = 7_000_000 + round(1e6 * at)
        text += data_record(1, stamp, struct.pack("<d", np.sin(at))) + data_record(2, stamp, struct.pack("<2f", i, -i))
        text += data_record(300, stamp + 10, struct.pack("<q", -i)) + data_record(4, stamp, bytes([i % 2]))
        text += data_record(5, stamp, b"words") + data_record(6, stamp, bytes(24))
    text += (
        data_record(0, 9_000_000, b"\1" + struct.pack("<I", 1))
        + _started(1, "later", "string")
        + data_record(1, 1, b"x" * 8)
    )
    path.write_bytes(text + end)
    return path
