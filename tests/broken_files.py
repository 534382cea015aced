"""Files of every format that is read, and what happens to files."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import log_files
import nonsense
import numpy as np
import robot_files
from solutions import estimated

import spookid
from spookid import FixedLagSmoother, Recording, robots

PROBLEM = '''"""A pendulum."""
from spookid import GROUND, Body, Hinge, HingeAngle, Model, Parameter, Problem, Recording, gravity

J = Parameter("J", 0.004, lower=1e-6, unit="kg m^2")
rod = Body("rod", mass=0.5, inertia=(1e-4, 0.004, J))
hinge = Hinge("hinge", GROUND.frame(x=(0, 1, 0), y=(0, 0, -1)), rod.frame(at=(-0.2, 0, 0), x=(0, 0, 1), y=(1, 0, 0)))
run = Recording([0, 0.1, 0.2, 0.3], {"theta": [0.1, 0.2, 0.1, 0.0]})
model = Model(bodies=[rod], joints=[hinge], gravity=gravity(9.81))
problem = Problem("pendulum", model=model, recordings=[run], observations=[HingeAngle(hinge, "theta")], step=0.1)
'''


class Reader(NamedTuple):
    """Of one format."""

    right: Callable[[], bytes]
    read: Callable[[Path, bytes], object]


# --- what is read ---


def _written(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        found = path if path.is_file() else next(Path(folder).glob("file*"))
        return found.read_bytes()


def _recording(method: str, folder: Path, content: bytes) -> None:
    path = folder / "broken"
    path.write_bytes(content)
    recording = getattr(Recording, method)(path)
    str(recording), recording.records()


@cache
def _result() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        estimated().save(Path(folder) / "r")
        return {path.name: path.read_bytes() for path in (Path(folder) / "r").iterdir()}


def _load(broken: str, folder: Path, content: bytes) -> None:
    place = folder / "result"
    place.mkdir(exist_ok=True)
    for name in ("solution.json", "trajectory.npz", "sensitivities.npz"):
        (place / name).write_bytes(content if name == broken else _result()[name])
    solution = spookid.load(place)
    str(solution), solution.summary(), solution.records()


def _robot(ending: str, folder: Path, content: bytes) -> None:
    path = folder / f"robot.{ending}"
    path.write_bytes(content)
    str(robots.read(path).model())


def _problem(folder: Path, content: bytes) -> None:
    path = folder / "problem_of_a_test.py"
    path.write_bytes(content)
    str(spookid.load_problem(path))


@cache
def _online() -> spookid.Problem:
    return nonsense.world().problem_of(state_weight=1.0)


def _saved() -> bytes:
    smoother = FixedLagSmoother(_online(), 3)
    for i in range(6):
        smoother.update(i / 100, {"theta": 0.1, "u": 0.0})
    return _written(smoother.save)


def _resume(folder: Path, content: bytes) -> None:
    path = folder / "saved.npz"
    path.write_bytes(content)
    FixedLagSmoother.resume(_online(), path).update(0.06, {"theta": 0.1, "u": 0.0})


@cache
def _bag2() -> dict[str, bytes]:
    """Files of a bag of ROS 2."""
    with tempfile.TemporaryDirectory() as folder:
        log_files.write_bag2(Path(folder) / "bag")
        return {path.name: path.read_bytes() for path in (Path(folder) / "bag").iterdir()}


def _read_bag2(broken: str, folder: Path, content: bytes) -> None:
    place = folder / "bag"
    place.mkdir(exist_ok=True)
    for name, right in _bag2().items():
        (place / name).write_bytes(content if name == broken else right)
    recording = Recording.from_rosbag(place)
    str(recording), recording.records()


def _write_json(path: Path) -> None:
    arm = {"name": ["a", "b"], "position": [1.0, 2.0], "timestamp": {"sec": 3, "nsec": 500_000_000}}
    log_files.write_json(path, [arm, {"q": [1, 2], "on": True, "note": "x", "deep": {"x": None, "y": 1.5}}, arm])


def _write_bench(path: Path) -> None:
    rows = [{"t": t, "arm": {"q": [t, None]}} for t in log_files.T.tolist()]
    path.write_text(json.dumps({"kp": 100, "name": "x", "rows": rows, "more": {"t": [0, 1], "u": [[1, 2], [3, 4]]}}))


@cache
def _dataset() -> dict[str, bytes]:
    """Files of a LeRobot dataset."""
    with tempfile.TemporaryDirectory() as folder:
        made = log_files.dataset(Path(folder) / "set", 3)
        return {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}


def _read_dataset(broken: str, folder: Path, content: bytes) -> None:
    for name, right in _dataset().items():
        (path := folder / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if name == broken else right)
    recording = Recording.from_lerobot(folder / "set", episode=1)
    str(recording), recording.records()


# Not of MATLAB and HDF5: SciPy's reader and the HDF5 library, which are C, end the process at some bytes.
READERS: dict[str, Reader] = {
    **{
        kind: Reader(partial(_written, write), partial(_recording, method))
        for kind, write, method in (
            ("npz", log_files.write_npz, "from_npz"),
            ("csv", log_files.write_csv, "from_csv"),
            ("parquet", log_files.write_parquet, "from_parquet"),
            ("ros 1", log_files.write_bag, "from_rosbag"),
            ("mcap", log_files.write_mcap, "from_mcap"),
            ("json", _write_json, "from_mcap"),
            ("ulog", log_files.write_ulog, "from_ulog"),
            ("wpilog", log_files.wpilog, "from_wpilog"),
            ("bench.json", _write_bench, "from_json"),
        )
    },
    **{
        name: Reader(lambda name=name: _bag2()[name], partial(_read_bag2, name))
        for name in ("metadata.yaml", "bag.db3")
    },
    **{
        name: Reader(lambda name=name: _dataset()[name], partial(_read_dataset, name))
        for name in ("meta/info.json", "data/chunk-000/file-000.parquet")
    },
    **{
        name: Reader(lambda name=name: _result()[name], partial(_load, name))
        for name in ("solution.json", "trajectory.npz", "sensitivities.npz")
    },
    "urdf": Reader(robot_files.ARM.encode, partial(_robot, "urdf")),
    "mjcf": Reader(robot_files.FOURBAR.encode, partial(_robot, "xml")),
    "problem": Reader(PROBLEM.encode, _problem),
    "saved.npz": Reader(_saved, _resume),
}


@cache
def _right(kind: str) -> bytes:
    return READERS[kind].right()


# --- what happens to them ---


def broken(chance: Random) -> tuple[str, bytes]:
    """A format, and a file of it that something has happened to."""
    kind = chance.choice(_KINDS)
    content = _right(kind)
    ways = [_flipped, _nudged, _nudged, _cut, _swapped]
    ways += [_repacked] * 4 if content[:2] == b"PK" else [_regrown] * 4 if kind == "solution.json" else []
    return kind, chance.choice(ways)(chance, content)


_OFTEN = ("npz", "csv", "trajectory.npz", "sensitivities.npz", "solution.json")
_KINDS = (*READERS, *_OFTEN * 3, *("npz",) * 10)
"""Formats that are read fast are read more often."""


def _places(chance: Random, content: bytes, count: int) -> list[int]:
    return sorted(chance.randrange(max(len(content), 1)) for _ in range(count))


def _flipped(chance: Random, content: bytes) -> bytes:
    changed = bytearray(content or b"0")
    for place in _places(chance, content, chance.randint(1, 4)):
        changed[place] = chance.randrange(256)
    return bytes(changed)


def _nudged(chance: Random, content: bytes) -> bytes:
    """Another digit, sign or letter, which may still be a file."""
    places = [i for i, byte in enumerate(content[:20_000]) if byte in b"0123456789-.eE"] or [0]
    changed = bytearray(content or b"0")
    for _ in range(chance.randint(1, 3)):
        changed[chance.choice(places)] = chance.choice(b"0123456789-+.e ")
    return bytes(changed)


def _cut(chance: Random, content: bytes) -> bytes:
    first, last = _places(chance, content, 2)
    return content[:first] + (b"" if chance.random() < 0.5 else content[last:])


def _swapped(chance: Random, content: bytes) -> bytes:
    """A piece stands elsewhere."""
    first, middle, last = _places(chance, content, 3)
    return content[:first] + content[middle:last] + content[first:middle] + content[last:]


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _header(shape: str, dtype: str = "<f8", version: int = 1) -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


_MEMBERS: tuple[bytes, ...] = (
    *(b"", b"text", _npy(None), _npy(np.array([{}, None])), _npy(1.0), _npy("name"), _npy(np.zeros((2, 2, 2)))),
    *(_npy(np.array([1j])), _npy(np.array([b"x"])), _npy(np.arange(5)), _npy(np.full(5, np.nan)), _npy(np.zeros(0))),
    *(_npy(np.full((5, 5), 1e300)), _npy(np.array(["2026-01-01"], dtype="M8[D]")), _npy(np.zeros(5, dtype="f4,i4"))),
    *(_header("(10000000000000,)"), _header("(2, -5)"), _header("(" * 3000), _header("(3, 10**20)"), _header("'x'")),
    *(_header("(99999999999,)", "|V0"), _header("(2,)", "O"), _header("(1,)", version=9), _header("()", "<q8")),
)


def _repacked(chance: Random, content: bytes) -> bytes:
    """Other members, by other methods, under other names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = chance.randrange(len(members))
    name, own = members[place]
    change = chance.choice(["other", "gone", "twice", "renamed", "swapped", "broken", "packed", "locked"])
    other = chance.choice(members)
    members[place : place + 1] = {
        "other": [(name, chance.choice(_MEMBERS))],
        "gone": [],
        "twice": [(name, own), (name, other[1])],
        "renamed": [(chance.choice(["a", "..", "/", ".npy", "t.npy", "a\\b", "é", "x" * 300]), own)],
        "swapped": [(name, other[1])],
        "broken": [(name, _flipped(chance, own))],
    }.get(change, [(name, own)])
    file = io.BytesIO()
    method = chance.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
    with zipfile.ZipFile(file, "w", method) as archive:
        for one, data in members:
            archive.writestr(one, data)
    packed = bytearray(file.getvalue())
    if change in ("packed", "locked"):  # a method that nobody knows, or the flag of a password, in each directory entry
        for mark, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
            start = packed.find(mark)
            packed[start + offset + (2 if change == "packed" else 0)] = 99 if change == "packed" else 1
    return bytes(packed)


def _regrown(chance: Random, content: bytes) -> bytes:
    """A field of another kind, missing, twice, or very deep."""
    tree = json.loads(content)
    node, way = tree, chance.randint(1, 4)
    for _ in range(way):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = chance.choice(keys)
        if way == 1 or not (isinstance(node[key], (dict, list)) and node[key]):
            break
        node = node[key]
    else:
        key = chance.choice(list(node) if isinstance(node, dict) else list(range(len(node))))
    if chance.random() < 0.3:
        del node[key]
        return json.dumps(tree).encode()
    node[key] = "HERE"
    deep = "[" * 100_000 + "]" * 100_000
    values = [
        "null",
        "1",
        "-1",
        "1e999",
        "1e300",
        "true",
        '""',
        '"x"',
        '"\\ud800"',
        "[]",
        "{}",
        "[null]",
        '{"a": 1}',
        deep,
    ]
    return json.dumps(tree).replace('"HERE"', chance.choice([*values, "NaN", "9" * 400, '{"x":1,"x":2}'])).encode()
