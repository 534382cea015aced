"""Data logs of WPILib (``.wpilog``, version 1.0), as robots of FIRST competitions write them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from spookid.data.logs.columns import Clock, Options, check_amount, reading
from spookid.data.logs.messages import Messages, Topics, joined

_HEADER = struct.Struct("<6sBBI")  # mark, version, length of what the writer adds
_FORMATS = {"boolean": "?", "int64": "q", "float": "f", "double": "d"}


def read_wpilog(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Read the clocks of the entries of numbers: ``drive/position``, of arrays ``drive/states[0]``."""
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
