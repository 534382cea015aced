"""Logs of test benches in JSON, datasets of robot learning as of LeRobot, and data logs of competition robots."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.logs.columns import Clock, Options, check_amount, reading
from spookid.data.logs.lines import time_of
from spookid.data.logs.messages import Messages, Topics, joined, measured
from spookid.data.logs.tables import EPISODES, Leaf, clocks, read_parquet, stamps_of
from spookid.data.logs.text import decoded, is_date, seconds
from spookid.errors import ProblemError

_LINES = (".jsonl", ".ndjson")


def read_json(options: Options, time: str) -> list[Clock]:
    """Read lists of numbers and of records, grouped by timestamps; a single number is the same for all samples."""
    path = options.path
    with reading(path, "JSON file", "write it anew"):
        text, note = decoded(path)
        lines = path.suffix.lower() in _LINES
        content = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
        found = dict(_arrays(_with_plain_names(content), "", path))
        time = time_of(time, [name.rpartition("/")[2] for name in found])
        leaves = {name: Leaf(one.shape, one.dtype.kind, one.copy) for name, one in found.items() if one.ndim}
        for name, one in found.items():
            if one.ndim == 0 and one.dtype.kind in NUMERIC_KINDS and (on := stamps_of(name, leaves, time, "/")):
                shape = leaves[on].shape
                leaves[name] = Leaf(shape, "f", partial(np.full, shape, float(one)))
    return [measured(replace(clock, note=note), options) for clock in clocks(leaves, options, time, "/")]


def _is_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _with_plain_names(content: Any) -> Any:
    """A document whose only lists are records, with the names of these alone."""
    if not isinstance(content, dict):
        return content
    several = [name for name, own in content.items() if isinstance(own, (list, dict))]
    plain = len(several) == 1 and _is_records(content[several[0]])
    return {"" if plain and name in several else name: own for name, own in content.items()}


def _arrays(value: Any, path: str, place: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays by their paths; those without numbers are of objects."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _arrays(child, f"{path}/{name}".strip("/"), place)
    elif _is_records(value):
        rows = [dict(_flat(record, path)) for record in value]
        names = dict.fromkeys(name for row in rows for name in row)
        check_amount(place, len(names) * len(rows))
        for name in names:
            yield name, _array([row.get(name) for row in rows], place)
    else:
        yield path, _array(value, place)


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Values of a record by their paths."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _flat(child, f"{path}/{name}".strip("/"))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            yield from _flat(child, f"{path}[{i}]")
    else:
        yield path, value


def _array(value: Any, place: Path) -> NDArray[Any]:
    """Numbers, NaN for null; seconds since the first one of dates; objects of anything else."""
    texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if texts and is_date(value):
        return seconds({"t": value}, range(len(value)), str(place))[0]["t"]
    if not texts and not isinstance(value, str):
        with suppress(TypeError, ValueError):  # words, or lists of several lengths
            return np.array(value, dtype=np.float64)
    return np.array([None] * len(value) if isinstance(value, list) else None, dtype=object)


_FRAME, _TIME = "frame_index", "timestamp"
_COUNTERS = (EPISODES, _FRAME, "index", "task_index")


def read_lerobot(options: Options, episode: int | None) -> tuple[list[Clock], Options]:
    """Read one episode of a dataset, and the options with names and units of single entries."""
    path = options.path
    with reading(path, "LeRobot dataset", "copy it anew"):
        content = json.loads(decoded(path / "meta" / "info.json")[0])
        names = {column: [f"{column}/{one}" for one in own] for column, own in _names(content).items()}
        fps, count = float(content.get("fps") or 0), int(content.get("total_episodes") or 1)
    plain = {new: f"{column}[{i}]" for column, own in names.items() for i, new in enumerate(own)}
    full = {plain[new]: new for new in plain}

    def spread(named: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes of arrays, repeated for each of their entries."""
        return {new: value for name, value in named.items() for new in names.get(name, [full.get(name, name)])}

    chosen = None if options.signals is None else spread(dict.fromkeys(options.signals))
    at = episode or 0
    files = sorted(path.glob("data/*/*.parquet"))
    files = [file for file in files if file.stem == f"episode_{at:06d}"] or files
    stored = replace(options, signals=None if chosen is None else (*(plain.get(n, n) for n in chosen), _FRAME))
    for file in files:
        (clock,) = read_parquet(replace(stored, path=file), _TIME, False, (EPISODES, at))
        if len(clock.stamps):
            break
    else:
        raise ProblemError(f"{path} has no episode {at}; it has {count}, counted from 0: choose with episode=")
    frames = clock.columns.get(_FRAME)
    stamps = clock.stamps if frames is None or not fps > 0 else np.asarray(frames) / fps  # not rounded to 32 bits
    wanted = {full.get(name, name): own for name, own in clock.columns.items() if name not in _COUNTERS}
    note = f"{path} has {count} episodes; that with the number 0 is read." if episode is None and count > 1 else ""
    made = replace(clock, place=str(path), stamps=stamps, columns=wanted, note=note)
    told = None if chosen is None else tuple(chosen)
    units = {name: unit for name, unit in spread(options.units).items() if name in wanted or name not in plain}
    return [measured(made, options)], replace(options, signals=told, units=units)


def _names(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the entries of arrays by column, as versions 2 and 3 of the format have them."""
    features = content.get("features") or {}
    said = {**(content.get("names") or {}), **{name: own.get("names") for name, own in features.items()}}
    found = {}
    for column, own in said.items():
        groups = own.values() if isinstance(own, dict) else [own]
        one = [str(name) for group in groups if isinstance(group, list) for name in group]
        if one and len(set(one)) == len(one):
            found[column] = one
    return found


_HEADER = struct.Struct("<6sBBI")  # mark, version, length of what the writer adds
_FORMATS = {"boolean": "?", "int64": "q", "float": "f", "double": "d"}


def read_wpilog(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Read numerical entries of a WPILib data log (version 1.0), grouped by timestamps: ``drive/position``, of arrays
    ``drive/states[0]``."""
    path, notes = options.path, list[str]()
    there, found = dict[str, str](), dict[str, Messages]()
    with reading(path, "WPILib log", "copy it from the robot anew"):
        check_amount(path, path.stat().st_size)  # each byte may be a number
        for name, kind, stamp, value in _values(path, notes):
            there[name] = kind
            if topics.prefixes is None or name in topics.prefixes:
                if name not in found:
                    found[name] = Messages(name, topics.prefix(name), options, False)
                found[name].add(value, 1000 * stamp)
    wanted = topics.read(there, options.signals)
    clocks, note = joined([found[name] for name in wanted], options, from_zero), " ".join(notes)
    return [replace(one, note=f"{one.note} {note}".strip()) for one in clocks]


def _values(path: Path, notes: list[str]) -> Iterator[tuple[str, str, int, Any]]:
    """Name and type of the entry, timestamp [us] and value of each record of numbers."""
    data = path.read_bytes()
    mark, _, version, more = _HEADER.unpack_from(data)
    if mark != b"WPILOG" or version != 1:
        raise ValueError("it does not begin with WPILOG, version 1")
    entries, at = dict[int, tuple[str, str]](), _HEADER.size + more
    while at < len(data):
        lengths, at = data[at], at + 1
        if lengths & 0x80:
            raise ValueError(f"there is no record at byte {at - 1:,}")
        fields = list[int]()
        for width in ((lengths & 3) + 1, (lengths >> 2 & 3) + 1, (lengths >> 4 & 7) + 1):
            fields.append(int.from_bytes(data[at : at + width], "little"))
            at += width
        (number, size, stamp), payload, at = fields, data[at : at + fields[1]], at + fields[1]
        if at > len(data):
            notes.append(f"{path.name} breaks off in its last record, which is left out.")
        elif number == 0 and payload[0] == 0:  # an entry starts
            name, rest = _text(payload[5:])
            entries[int.from_bytes(payload[1:5], "little")] = name, _text(rest)[0]
        elif (entry := entries.get(number)) is not None and (code := _FORMATS.get(entry[1].removesuffix("[]"))):
            values = struct.unpack(f"<{size // struct.calcsize(code)}{code}", payload)
            yield *entry, stamp, values if entry[1].endswith("[]") else values[0]


def _text(data: bytes) -> tuple[str, bytes]:
    """A text behind its length, and what follows."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end].decode(), data[end:]
