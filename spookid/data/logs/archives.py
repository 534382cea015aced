"""NumPy archives (.npz), read as what they say they are: nothing is allocated that the file does not hold.

NumPy archives.

ULog files of PX4, through pyulog.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spookid.data.arrays import NUMERIC_KINDS
from spookid.data.files import listing
from spookid.data.logs.columns import Clock, Options, file_at, library, reading, unreadable
from spookid.data.logs.messages import Topics, measured
from spookid.errors import ProblemError

_END = ".npy"
_LARGE, _DENSE = 2**31, 100
"""Bytes from which an array counts as large, and how many times smaller than itself it may then be compressed."""


def read_npz(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, NDArray[Any]]:
    """Every array of an archive by its name; those not wanted are left unread, as empty arrays.

    Raises:
        OSError: as the system says it.
        ValueError: for whatever else is wrong, with the array's name and what it is in words.
    """
    with path.open("rb") as file:
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # of a library, at bytes that may be anything
            raise ValueError("it is no NumPy archive") from error
        found: dict[str, NDArray[Any]] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(_END)
            if name in found:
                raise ValueError(f"array {name!r} stands in it twice")
            try:
                found[name] = _array(archive, member) if wanted(name) else np.empty(0)
            except Exception as error:
                why = error if isinstance(error, _Refused) else "is damaged"
                raise ValueError(f"array {name!r} {why}") from error
        return found


class _Refused(Exception):  # noqa: N818, what is wrong with an array, in words
    pass


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if member.file_size > _LARGE and member.file_size > _DENSE * member.compress_size:
        raise _Refused(f"would be {member.file_size:,} bytes of the {member.compress_size:,} in the file")
    content = archive.read(member)
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if header is None:
        raise _Refused(f"is of version {version} of NumPy's format, not of 1.0 or 2.0")
    shape, by_column, dtype = header(stream)
    if dtype.hasobject:
        raise _Refused("holds Python objects")
    start, count = stream.tell(), math.prod(shape)  # of Python's whole numbers, which do not overflow
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(content) - start or count > len(content):
        raise _Refused(f"says that its shape is {shape}, and has {len(content) - start:,} bytes")
    return np.ndarray(shape, dtype, content, start, order="F" if by_column else "C").copy()


def read_archive(options: Options, time: str, own: Mapping[str, str]) -> list[Clock]:
    """The clock of the array ``time``, and those of the signals that have an array of stamps of their ``own``.

    Without a choice every numeric array that is as long as its time is a signal. Raises `ProblemError` naming the
    array; those of Python objects are refused.
    """
    path, others = options.path, {*own, *own.values()}
    arrays = _arrays(path, lambda name: name in (time, *others) or options.wants(name))
    chosen = None if options.signals is None else options.chosen(arrays)
    for name in [time, *(chosen or ()), *others]:
        if name not in arrays:
            remedy = ": name one of them with time=" if name == time else ""
            raise ProblemError(f"{path} has no array {name!r}; it has {listing(arrays)}{remedy}")
    t = arrays[time]
    signals = {
        name: array
        for name, array in arrays.items()
        if name != time and name not in others and (_is_signal(array, t) if chosen is None else name in chosen)
    }
    clocks = [Clock(str(path), time, t, signals, kind="array", row="sample")]
    for stamps in dict.fromkeys(own.values()):
        columns = {name: arrays[name] for name, column in own.items() if column == stamps}
        clocks.append(Clock(str(path), stamps, arrays[stamps], columns, kind="array", row="sample", ordered=False))
    return clocks


def _is_signal(array: NDArray[Any], t: NDArray[Any]) -> bool:
    return array.shape == t.shape and array.dtype.kind in NUMERIC_KINDS


def _arrays(path: Path, wanted: Callable[[str], bool]) -> dict[str, NDArray[Any]]:
    """Every array of the archive by name; those not wanted are left unread, as empty arrays."""
    try:
        return read_npz(path, wanted)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise ProblemError(f"{path}: {error}; write it with numpy.savez, of plain numbers") from None


def read_ulog(options: Options, topics: Topics, from_zero: bool) -> list[Clock]:
    """Clocks of the topics of a ULog file: ``sensor_combined/gyro_rad[0]``, and ``sensor_gyro_1/x`` of a second one.

    Raises:
        ProblemError: for what is no ULog file, or damaged, and a topic that is not there.
    """
    path = options.path
    pyulog = library("pyulog", "pyulog", f"{path}: a ULog file")
    file_at(path)
    with reading(path, "ULog file", "copy it from the device anew"):
        with redirect_stdout(io.StringIO()):  # pyulog prints what it meets
            log = pyulog.ULog(str(path))
        note = f"{path} is damaged; what could be read of it was taken." if log.file_corruption else ""
        found = {f"{one.name}_{one.multi_id}" if one.multi_id else one.name: one.data for one in log.data_list}
        wanted = topics.read(dict.fromkeys(found, ""), options.signals)
        clocks = [_clock(options, name, found[name], topics.prefix(name), note) for name in found if name in wanted]
    options.check([name for _, known in clocks for name in known])
    read = [clock for clock, _ in clocks if clock.columns]
    if not read:
        raise ProblemError(f"{path} has no topic with numbers; log one")
    first = min((clock.stamps[0] for clock in read if len(clock.stamps)), default=0.0) if from_zero else 0.0
    return [_counted(clock, first) for clock in read]


def _clock(
    options: Options, topic: str, data: Mapping[str, Any], prefix: str | None, note: str
) -> tuple[Clock, list[str]]:
    """Columns that are wanted, and the names of all."""
    before = topic if prefix is None else prefix
    fields = {f"{before}/{name}" if before else name: values for name, values in data.items() if _is_field(name)}
    columns = {name: values for name, values in fields.items() if options.wants(name)}
    place = f"{options.path} topic {topic!r}"
    clock = Clock(place, "timestamp", data["timestamp"], columns, row="message", ordered=False, note=note)
    return measured(clock, options), list(fields)


def _is_field(name: str) -> bool:
    return name != "timestamp" and not name.startswith("_padding")


def _counted(clock: Clock, first: Any) -> Clock:
    """Stamps in seconds from a first one, of microseconds."""
    ticks = np.asarray(clock.stamps).astype(np.int64) - np.int64(first)
    return replace(clock, stamps=ticks / 1e6)
