"""ULog files of PX4, through pyulog."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import numpy as np

from spookid.data.logs.columns import Clock, Options, file_at, library, reading
from spookid.data.logs.messages import Topics, measured
from spookid.errors import ProblemError


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
